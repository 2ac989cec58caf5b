// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text of the verbs: a terminal obeys no name in it, and a stream that takes no text changes no more than it must.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_corehop");

/// A name that renames a terminal's window, clears the terminal, writes from right to left, and breaks the line.
const EVIL: &str = "\x1b]0;owned\x07\u{9b}2J\u{202e}\n\x7f";
/// The name as it may be shown.
const SHOWN: &str = r"\x1b]0;owned\x07\u009b2J\u202e\n\u007f";

/// A line of words for each verb and experiment that answers on stdout or says something on stderr; `Q` is a file of
/// samples, `SET` a task set, `MAN` a folder.
const WORK: &[(&str, &str)] = &[
    ("", "--version"),
    ("advise", "advise Q"),
    ("check", "check SET"),
    ("compare", "compare Q Q"),
    ("convert-rt-app", "convert rt-app SET"),
    ("doctor", "doctor"),
    ("help", "help exit-codes"),
    ("advise-gain", "advise gain Q --smr 1 --mpmi 2"),
    ("advise-set", "advise set SET"),
    ("advise-simulate", "advise simulate --on nothing"),
    ("check-deploy", "check deploy nothing --folder MAN"),
    ("check-study-merge", "check study merge nothing"),
    ("convert", "convert"),
    ("convert-costs", "convert costs Q"),
    ("convert-rows", "convert rows Q"),
    ("convert-schedcat", "convert schedcat Q"),
    ("convert-tasks", "convert tasks SET"),
    ("doctor-restore", "doctor restore --json"),
    ("measure-plan", "measure plan nothing"),
    ("measure-platform", "measure platform --watch 0"),
    ("offload-simulate", "offload simulate --on nothing --os-cores 1"),
    ("place-replay", "place replay Q"),
    ("place-simulate", "place simulate --on nothing"),
    ("sim", "sim nothing"),
    ("sim-calibrate", "sim calibrate -o nothing.parquet"),
    ("sim-validate-host", "sim validate-host nothing"),
    ("advise-fit", "advise fit Q"),
    ("measure", "measure acess-time"),
    ("measure-access-time", "measure access-time --on xeon_l7455 --dry-run"),
    ("measure-conditions", "measure conditions --on xeon_l7455 --dry-run"),
    ("measure-core-switch", "measure core-switch --on xeon_l7455 --dry-run"),
    ("measure-overheads", "measure overheads --on xeon_l7455 --dry-run"),
    ("measure-polluter-sweep", "measure polluter-sweep --on xeon_l7455 --dry-run"),
    ("measure-preemption-length", "measure preemption-length --on xeon_l7455 --dry-run"),
    ("record", "record -- sh -c exit\u{a0}7"),
    ("measure-schedule-sensitive", "measure schedule-sensitive --on xeon_l7455 --dry-run"),
    ("measure-shared-data", "measure shared-data --on xeon_l7455 --dry-run"),
    ("measure-supply", "measure supply --dry-run"),
    ("measure-program-costs", "measure program-costs --progress nothing -- true"),
    (
        "measure-synthetic",
        "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 4 --stream",
    ),
    ("offload", "offload --os-cores 1 -- sh -c exit\u{a0}7"),
    ("try", "try -- sh -c exit\u{a0}7"),
    ("place", "place --dry-run -- sh -c exit\u{a0}7"),
    ("sim-platform", "sim platform xeon_l7455"),
    ("advise-predict", "advise predict Q --wss 4KiB"),
    ("record-from", "record from nothing"),
    ("report", "report Q"),
    ("report-contents", "report contents Q"),
    ("check-study", "check study nothing"),
    ("sim-validate", "sim validate nothing"),
];

/// A folder with the files of [`WORK`].
struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        fs::write(
            scene.0.path().join("SET"),
            r#"{"cpus": 1, "tasks": [{"wcet_us": 1, "period_us": 10}]}"#,
        )
        .unwrap();
        let run = "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 4 -o Q";
        let made = scene.command(&words(run)).output().unwrap();
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        scene
    }

    /// The program with these words, in the folder.
    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("HOME", self.0.path());
        command
    }

    /// The exit code with these streams, and the text of a stream that is kept.
    fn run(&self, words: &[String], out: Stream, err: Stream) -> (Option<i32>, Output) {
        let man = self.0.path().join("MAN");
        let _ = fs::remove_dir_all(man);
        let mut command = if out == Stream::Closed || err == Stream::Closed {
            let closed = [(out, ">&-"), (err, "2>&-")];
            let closed = closed.iter().filter(|it| it.0 == Stream::Closed).map(|it| it.1);
            let script = format!("exec \"$0\" \"$@\" {}", closed.collect::<Vec<_>>().join(" "));
            let mut shell = Command::new("sh");
            shell.args(["-c", &script, PROGRAM]).args(words).current_dir(self.0.path());
            shell.env("HOME", self.0.path()).stdin(Stdio::null());
            shell
        } else {
            self.command(words)
        };
        let output = command.stdout(out.open()).stderr(err.open()).output().unwrap();
        (output.status.code(), output)
    }
}

/// A standard stream of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Kept,
    Full,
    Closed,
    /// A pipe that nothing reads any more.
    Gone,
}

impl Stream {
    fn open(self) -> Stdio {
        match self {
            Self::Kept => Stdio::piped(),
            Self::Full => File::options().write(true).open("/dev/full").unwrap().into(),
            Self::Closed => Stdio::null(),
            Self::Gone => {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                writer.into()
            }
        }
    }
}

/// The words of a line; a no-break space stays within its word as a space.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace('\u{a0}', " ")).collect()
}

/// The names of the man pages: every verb and every experiment that clap knows.
fn pages(scene: &Scene) -> BTreeSet<String> {
    let made = scene.command(&words("manual PAGES")).status().unwrap();
    assert!(made.success());
    let names = fs::read_dir(scene.0.path().join("PAGES")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let bare = |name: String| {
        name.trim_start_matches("corehop").trim_start_matches('-').trim_end_matches(".1").to_owned()
    };
    names.map(bare).collect()
}

/// The faults of a line of words under streams that take no text.
fn faults(scene: &Scene, line: &str) -> Vec<String> {
    use Stream::{Closed, Full, Gone, Kept};
    let words = words(line);
    let (usual, said) = scene.run(&words, Kept, Kept);
    let answers = !said.stdout.is_empty();
    // Rows that nothing reads end a run; of text it is no error.
    let unread = if line.ends_with("--stream") { Some(6) } else { usual };
    let full = if answers { Some(6) } else { usual };
    let gone = if answers { unread } else { usual };
    let mut wrong = Vec::new();
    for (out, err, expected) in [
        (Kept, Full, usual),
        (Kept, Closed, usual),
        (Kept, Gone, usual),
        (Full, Kept, full),
        (Full, Full, full),
        (Closed, Closed, usual),
        (Gone, Kept, gone),
    ] {
        let (code, output) = scene.run(&words, out, err);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if code != expected || said.contains("panicked") {
            wrong.push(format!(
                "{line}, stdout {out:?}, stderr {err:?}: {code:?} instead of {expected:?}: {said}"
            ));
        }
    }
    wrong
}

#[test]
fn no_verb_panics_or_changes_its_code_where_a_stream_takes_no_text() {
    let scene = Scene::new();
    let named: BTreeSet<String> = WORK.iter().map(|(page, _)| (*page).to_owned()).collect();
    assert_eq!(named, pages(&scene), "every verb and experiment has a line in WORK");
    for (page, line) in WORK {
        let wrong = faults(&scene, line);
        assert!(wrong.is_empty(), "{wrong:#?}");
        let unknown = format!("{} --nonsense", page.replacen('-', " ", 1));
        let unknown = words(unknown.trim());
        assert_eq!(scene.run(&unknown, Stream::Kept, Stream::Full).0, Some(2), "{unknown:?}");
        let help = words(format!("{} --help", page.replacen('-', " ", 1)).trim());
        assert_eq!(scene.run(&help, Stream::Full, Stream::Kept).0, Some(6), "{help:?}");
    }
}

#[test]
fn the_status_of_a_program_outlives_a_stderr_that_takes_no_text() {
    let scene = Scene::new();
    for line in [
        "record -- sh -c exit\u{a0}7",
        "offload --os-cores 0 -- sh -c exit\u{a0}7",
        "place --dry-run -- sh -c exit\u{a0}7",
    ] {
        let usual = scene.run(&words(line), Stream::Kept, Stream::Kept);
        if usual.0 == Some(3) {
            println!("skipped: {line}: {}", String::from_utf8_lossy(&usual.1.stderr));
            continue;
        }
        for err in [Stream::Full, Stream::Closed, Stream::Gone] {
            assert_eq!(scene.run(&words(line), Stream::Kept, err).0, Some(7), "{line}, {err:?}");
        }
    }
}

/// Characters that a terminal would obey.
fn controls(text: &[u8]) -> Vec<char> {
    let text = String::from_utf8_lossy(text);
    let is_own = |letter: char| letter == '\n' || letter == '\t';
    let obeyed = |letter: &char| {
        (letter.is_control() && !is_own(*letter))
            || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(obeyed).collect()
}

#[test]
fn the_name_of_a_file_reaches_no_terminal_as_it_is() {
    let scene = Scene::new();
    for line in [
        "report contents",
        "report",
        "advise fit",
        "check",
        "advise",
        "check study",
        "convert rt-app",
        "compare Q",
        "advise predict --wss 4KiB",
        "sim platform",
        "help",
        "measure plan",
        "place replay",
        "measure synthetic --on",
        "place --cgroup",
        "offload --os-cores",
        "doctor",
        "nonsense",
        "record --dry-run --",
        "measure synthetic --load realistic --on xeon_l7455 --dry-run --command",
    ] {
        for what in [EVIL.to_owned(), format!("/nowhere/{EVIL}"), format!("--{EVIL}")] {
            let mut words = words(line);
            words.push(what);
            let (code, said) = scene.run(&words, Stream::Kept, Stream::Kept);
            assert!(code.is_some_and(|code| code != 101), "{words:?}: {said:?}");
            let all = [said.stdout, said.stderr].concat();
            assert_eq!(controls(&all), Vec::<char>::new(), "{words:?}: {}", all.escape_ascii());
        }
    }
    let said = scene.run(&["show".to_owned(), EVIL.to_owned()], Stream::Kept, Stream::Kept).1;
    let said = String::from_utf8(said.stderr).unwrap();
    let unfolded = said.replace("\n         ", " ");
    assert!(said.contains(SHOWN) && unfolded.lines().count() == 1, "{said}");
    let raw = scene.command(&words("show")).arg(OsStr::from_bytes(b"a\xff\x1bb")).output().unwrap();
    let said = String::from_utf8(raw.stderr).unwrap();
    assert!(said.contains(r"a\xff\x1bb"), "{said}");
}

#[test]
fn the_name_of_a_program_reaches_no_terminal_as_it_is() {
    let scene = Scene::new();
    // The kernel keeps 15 bytes of a name.
    let program = scene.0.path().join("\x1b]0;own\x07\n\x7f");
    fs::copy("/bin/sleep", &program).unwrap();
    let program = program.to_str().unwrap().to_owned();
    let with = |line: &str, more: &[&str]| {
        let mut all = words(line);
        all.extend(more.iter().map(|&word| word.to_owned()));
        let (code, said) = scene.run(&all, Stream::Kept, Stream::Kept);
        let said = [said.stdout, said.stderr].concat();
        assert_eq!(controls(&said), Vec::<char>::new(), "{all:?}: {}", said.escape_ascii());
        (code, String::from_utf8(said).unwrap())
    };
    let (code, said) = with("record -o REC --", &[&program, "0.3"]);
    if code == Some(0) {
        assert!(said.contains(r"\x1b]0;own\x07\n\u007f"), "{said}");
        with("show REC", &[]);
        with("report REC", &[]);
        with("compare REC REC", &[]);
    } else {
        println!("skipped: recording: {said}");
    }
    let mut running = Command::new(&program).arg("60").spawn().unwrap();
    let pid = running.id().to_string();
    with("place --dry-run --for 3s", &[&pid]);
    with("doctor", &[]);
    running.kill().unwrap();
    running.wait().unwrap();
    with("offload --os-cores 0 --", &[&program, "0.1"]);
}

#[test]
fn json_keeps_a_name_that_its_text_escapes() {
    let scene = Scene::new();
    let text = scene.run(&words("sim platform xeon_l7455 -o P.toml"), Stream::Kept, Stream::Kept);
    assert_eq!(text.0, Some(0), "{text:?}");
    let file = scene.0.path().join("P.toml");
    let toml = fs::read_to_string(&file).unwrap();
    let name = toml.lines().find(|line| line.starts_with("name = ")).unwrap();
    let evil = EVIL.chars().map(|it| format!("\\u{:04x}", it as u32));
    let evil = evil.collect::<String>();
    fs::write(&file, toml.replace(name, &format!("name = \"{evil}\""))).unwrap();
    let (code, said) = scene.run(&words("platform P.toml --json"), Stream::Kept, Stream::Kept);
    assert_eq!((code, controls(&said.stdout)), (Some(0), vec![]), "{said:?}");
    let json: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert!(json.to_string().contains(&Value::from(EVIL).to_string()), "{json}");
    let said = scene.run(&words("platform P.toml"), Stream::Kept, Stream::Kept).1;
    assert!(String::from_utf8(said.stdout).unwrap().contains(SHOWN));
}

#[test]
fn completions_and_pages_are_not_changed_on_their_way() {
    let scene = Scene::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (_, said) =
            scene.run(&words(&format!("completions {shell}")), Stream::Kept, Stream::Kept);
        assert_eq!(controls(&said.stdout), Vec::<char>::new());
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(!text.contains("\\x1b") && !text.contains("\\u00"), "{shell}");
    }
}
