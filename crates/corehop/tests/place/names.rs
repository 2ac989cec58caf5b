// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose names are no text: they are found, placed, recorded and put back like any other.

use super::*;

/// Names itself by the bytes in its last argument before it does anything else.
const NAMING: &str = "import ctypes, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv.pop()), 0, 0, 0)
";

/// A name, and the text that shows it.
const NAMES: [(&[u8], &str); 3] = [
    // The kernel cuts after 15 bytes, in the middle of the `ä`.
    ("Überwachungsfäden".as_bytes(), r"Überwachungsf\xc3"),
    (b") R 1 2\n3 4", r") R 1 2\x0a3 4"),
    (b"\x1b]0;title\x07", r"\x1b]0;title\x07"),
];

impl Turns {
    fn named(name: &[u8], folder: &Path) -> (Self, String) {
        let count = counter(folder);
        let hex: Vec<String> = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut program = Command::new("python3");
        program.args(["-c", &format!("{NAMING}{TURNS}"), &count, "90", &hex.concat()]);
        let turns = Self(program.spawn().unwrap());
        until("turns", || std::fs::read_to_string(&count).is_ok_and(|it| it != "0"));
        (turns, count)
    }
}

#[test]
fn threads_of_any_name_are_placed_and_put_back_by_the_placer_and_by_its_supervisor() {
    let Some(guard) = can_see().then(alone) else { return };
    for (name, shown) in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let (turns, _count) = Turns::named(name, folder.path());
        let before = turns.cpus();
        let first = before[0].first().unwrap();
        let words = ["--start", &first.0.to_string(), &turns.pid()];
        for killed in [false, true] {
            let placer = Placer::begin(folder.path(), &words);
            until("placed", || turns.cpus().iter().all(|it| *it == CpuList::new([first])));
            let in_json = serde_json::to_string(shown).unwrap();
            placer.until_it_writes(&format!("\"name\":{in_json}"));
            if killed {
                signal(placer.id(), libc::SIGKILL);
                placer.ends();
            } else {
                placer.interrupted();
            }
            until("put back", || turns.cpus() == before);
        }
    }
    drop(guard);
}

#[test]
fn a_stopped_supervisor_ends_the_placement_with_its_reason_and_every_thread_back() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, folder, .. } = &scene;
    let first = before[0].first().unwrap();
    let words = ["--start", &first.0.to_string(), &turns.pid()];
    let placer = Placer::begin(folder.path(), &words);
    until("placed", || turns.cpus().iter().all(|it| *it == CpuList::new([first])));
    for pid in children(placer.id()) {
        signal(pid, libc::SIGSTOP);
    }
    let output = placer.ends();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("is stopped"), "{}", said(&output));
    assert_eq!(turns.cpus(), *before);
}

#[test]
fn a_program_of_any_name_is_recorded() {
    for (name, shown) in NAMES {
        let folder = tempfile::tempdir().unwrap();
        let (turns, _count) = Turns::named(name, folder.path());
        let words = ["--json", "--costs", "none", "--budget", "1500ms", "--pid", &turns.pid()];
        let mut recorder = Command::new(env!("CARGO_BIN_EXE_corehop"));
        let output = recorder.args(["measure", "program"]).args(words).output().unwrap();
        if output.status.code() == Some(3) {
            println!("skipped: {}", said(&output));
            return;
        }
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        let threads = answer["threads"].as_array().unwrap();
        assert!(threads.iter().any(|it| it["name"] == shown), "{shown}: {answer}");
    }
}
