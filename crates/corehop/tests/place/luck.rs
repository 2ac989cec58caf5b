// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that cannot be meant, files in the way, a full disk, no privileges, another placer, ten thousand threads.

use std::os::unix::process::CommandExt as _;

use super::*;

/// The exit code and what was said.
fn answer(words: &[&str]) -> (Option<i32>, String) {
    let output = place(words).output().unwrap();
    (output.status.code(), said(&output))
}

#[test]
fn options_that_cannot_be_meant_are_refused_with_their_values() {
    if !can_see() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let count = counter(folder.path());
    let damaged = folder.path().join("damaged.toml");
    std::fs::write(&damaged, "id = \"x\"\ncpus = many\n").unwrap();
    let damaged = damaged.to_str().unwrap();
    for (more, code, what) in [
        (&["--for", "0s", "--", "true"][..], 2, "--for 0 ns is too short"),
        (&["--for", "300ms", "--", "true"], 2, "--for 300 ms is too short"),
        (&["redis"], 2, "`pgrep redis` finds the number"),
        (&["--pairs", "3", "1"], 2, "unexpected argument '--pairs'"),
        (&["--start", "9000", "--", "true"], 2, "9000"),
        (&["--on", "xeon_e5520", "--start", "9000"], 2, "9000"),
        (&["--on", damaged], 4, "damaged.toml"),
        (&["--progress", &count, "-o", &count, "--force", "--", "true"], 2, "reads or writes"),
        (&["-o", &count, "--", "true"], 2, "--force"),
    ] {
        let (status, text) = answer(more);
        assert_eq!(status, Some(code), "{more:?}: {text}");
        assert!(text.contains(what), "{more:?}: {text}");
    }
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "0", "a refused command writes nothing");
}

#[test]
fn a_program_is_not_started_where_its_progress_cannot_be_read() {
    if !can_see() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let words = ["--progress", "/nowhere", "--", "touch", trace.to_str().unwrap()];
    assert_eq!(answer(&words).0, Some(3));
    assert!(!trace.exists());
}

#[test]
fn a_program_that_goes_on_after_the_time_is_waited_for_and_one_that_ends_at_once_was_not_seen() {
    if !can_see() {
        return;
    }
    let _alone = alone();
    let words = ["--for", "600ms", "--", "sh", "-c", "sleep 12; exit 5"];
    assert_eq!(answer(&words).0, Some(5), "it ends after more than ten seconds");
    let (status, text) = answer(&["--", "true"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("stopped before") && !text.contains("No threads"), "{text}");
}

#[test]
fn a_second_placer_waits_and_is_refused_with_the_number_of_the_first() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, folder, .. } = &scene;
    let first = before[0].first().unwrap().0.to_string();
    let words = ["--start", &first, &turns.pid()];
    let mut placer = Placer::begin(folder.path(), &words);
    until("placed", || turns.cpus().iter().all(|it| it.len() == 1));
    let (status, text) = answer(&words);
    assert_eq!(status, Some(3), "{text}");
    assert!(text.contains(&format!("process {}", placer.id())), "{text}");
    placer.goes_on();
    assert!(turns.cpus().iter().all(|it| it.len() == 1));
    // One that only watches is not refused.
    let (status, text) = answer(&["--for", "600ms", &turns.pid()]);
    assert_eq!(status, Some(0), "{text}");
    placer.interrupted();
    assert_eq!(turns.cpus(), *before);
}

#[test]
fn with_a_full_disk_placing_goes_on_and_says_at_once_and_at_the_end_that_the_log_does_not() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, .. } = &scene;
    let disk = tempfile::tempdir().unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=8k", "tmpfs"];
    let mounted = Command::new("mount").args(mount).arg(disk.path()).status();
    if !mounted.is_ok_and(|it| it.success()) {
        println!("skipped: a full disk (needs to mount a small tmpfs)");
        return;
    }
    // A page is left.
    std::fs::write(disk.path().join("other"), [0; 4096]).unwrap();
    let first = before[0].first().unwrap().0.to_string();
    let words = ["--start", &first, "--for", "4s", &turns.pid()];
    let placer = Placer::begin(disk.path(), &words);
    let log = placer.log.clone();
    let output = placer.ends();
    let shown = corehop(&["report", "contents", log.to_str().unwrap()]);
    Command::new("umount").arg(disk.path()).status().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    let said = said(&output);
    assert!(
        said.matches("No space left").count() == 2 && said.contains("placing continues"),
        "{said}"
    );
    assert!(!output.stdout.is_empty(), "the answer is there");
    assert_eq!(turns.cpus(), *before);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && text.contains("torn off"), "{text}");
}

#[test]
fn a_torn_log_is_shown_and_reported_as_far_as_it_goes_and_a_damaged_one_names_its_line() {
    let Some(scene) = scene() else { return };
    let Scene { turns, folder, .. } = &scene;
    let mut placer = Placer::begin(folder.path(), &["--for", "60s", &turns.pid()]);
    placer.until_it_writes("\"window\":{");
    placer.goes_on();
    let log = placer.log.clone();
    placer.interrupted();
    let whole = std::fs::read_to_string(&log).unwrap();
    let name = log.to_str().unwrap();
    let replayed = || {
        let output = corehop(&["place", "replay", name]);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output),
        )
    };
    let (status, text) = replayed();
    assert!(status == Some(0) && text.contains("made the same decisions"), "{text}");
    let page = folder.path().join("page.html");
    std::fs::write(&log, &whole[..whole.len() * 2 / 3]).unwrap();
    let shown = corehop(&["report", "contents", name]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && text.contains("torn off"), "{text}{}", said(&shown));
    let (status, text) = replayed();
    assert!(status == Some(0) && text.contains("made the same decisions"), "{text}");
    let reported = corehop(&["report", "-o", page.to_str().unwrap(), name]);
    assert!(reported.status.success(), "{}", said(&reported));
    assert!(std::fs::read_to_string(&page).unwrap().contains("torn off"));
    let mut lines: Vec<&str> = whole.lines().collect();
    lines[2] = &lines[2][..10];
    std::fs::write(&log, lines.join("\n")).unwrap();
    let page = page.to_str().unwrap();
    for words in [
        &["report", "contents", name][..],
        &["report", "--force", "-o", page, name],
        &["place", "replay", name],
    ] {
        let refused = corehop(words);
        assert_eq!(refused.status.code(), Some(4), "{words:?}: {}", said(&refused));
        assert!(said(&refused).contains("line 3"), "{}", said(&refused));
    }
}

/// Whether the caller is root: others cannot become somebody else.
fn is_root() -> bool {
    // SAFETY: asks a number of the kernel.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn a_user_without_rights_is_told_which_and_one_who_may_only_watch_moves_no_process_of_another() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, folder, .. } = &scene;
    if !is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let refused = place(&[&turns.pid()]).uid(65_534).gid(65_534).output();
    let Ok(refused) = refused else {
        println!("skipped: another user cannot start the program here");
        return;
    };
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(said(&refused).contains("cap_bpf,cap_perfmon"), "{}", said(&refused));
    // With these rights it sees all, and may move what is its own.
    let rights = "+bpf,+perfmon";
    let mut watcher = Command::new("setpriv");
    watcher.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    watcher.args(["--inh-caps", rights, "--ambient-caps", rights, env!("CARGO_BIN_EXE_corehop")]);
    let first = before[0].first().unwrap().0.to_string();
    watcher.args(["place", "--json", "--for", "2s", "--window", "20ms", "--start", &first]);
    watcher.arg(turns.pid()).current_dir(folder.path());
    let Ok(output) = watcher.output() else {
        println!("skipped: there is no setpriv");
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let why = answer["refused"][0].as_str().unwrap();
    assert!(why.contains("Operation not permitted"), "{answer}");
    assert_eq!(turns.cpus(), *before);
}

/// So many threads that sleep, with small stacks; it says when all are there.
const SLEEPERS: &str = "import sys, threading
threading.stack_size(32768)
end = threading.Event()
for _ in range(int(sys.argv[1])): threading.Thread(target=end.wait, daemon=True).start()
print('there', flush=True)
sys.stdin.readline()
import os
os._exit(0)
";

/// The CPU time of a process so far, in seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    // SAFETY: asks a number of the C library.
    ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

#[test]
fn of_more_than_ten_thousand_threads_the_rest_is_left_out_in_bounded_time_and_memory() {
    use std::io::BufRead as _;
    if !can_see() {
        return;
    }
    let guard = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut sleepers = Command::new("python3");
    sleepers.args(["-c", SLEEPERS, "10500"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut sleepers = sleepers.stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(sleepers.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.trim() != "there" {
        let _ended = sleepers.kill();
        sleepers.wait().unwrap();
        println!("skipped: 10,500 threads cannot be started here");
        return;
    }
    let log = folder.path().join("log.jsonl");
    let mut command =
        place(&["--for", "300s", "-o", log.to_str().unwrap(), &sleepers.id().to_string()]);
    let limit = libc::rlimit { rlim_cur: 1 << 29, rlim_max: 1 << 29 };
    // SAFETY: setrlimit reads a copy of a local, and may be called between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_AS, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let placer = Placer { child: Some(child), log };
    // Watching begins with a look at all of them, on a busy machine too.
    for _ in 0..3 {
        if placer.written().contains("\"window\":{") {
            break;
        }
        std::thread::sleep(Duration::from_secs(10));
    }
    placer.until_it_writes("\"window\":{");
    let (begin, before) = (Instant::now(), cpu_seconds(placer.id()));
    std::thread::sleep(Duration::from_secs(5));
    let used = (cpu_seconds(placer.id()) - before) / begin.elapsed().as_secs_f64();
    signal(placer.id(), libc::SIGINT);
    let output = placer.ends();
    sleepers.kill().unwrap();
    sleepers.wait().unwrap();
    drop(guard);
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("ignores 501 more"), "{}", said(&output));
    assert!(used < 0.3, "{used} of a CPU");
}
