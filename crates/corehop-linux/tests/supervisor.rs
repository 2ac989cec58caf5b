// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever ends a run, nothing of it is left behind.
//!
//! The run is the example `guarded`, which `cargo test` builds along with the tests. A temporary
//! file stands for a setting of the kernel.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_linux::supervisor::{
    Guard, Outcome, ProcessId, Restored, SupervisorError, Undo, Verdict, restore,
};
use tempfile::TempDir;

// ---------------------------------------------------------------------------------------------
// A run to be ended

struct Run {
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
}

fn guarded() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().with_file_name("examples").join("guarded");
    assert!(example.exists(), "build it first: cargo build -p corehop-linux --example guarded");
    example
}

impl Run {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("setting"), "before").unwrap();
        let mut command = Command::new(guarded());
        command.arg(folder.path().join("run"));
        Self::begin_as(command, folder)
    }

    fn begin_as(mut command: Command, folder: TempDir) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { orders: process.stdin.take(), answers, process, folder }
    }

    /// A run that has changed the setting.
    fn begin_with_a_change() -> Self {
        let mut run = Self::begin();
        run.change("during the run");
        assert_eq!(run.setting(), "during the run");
        run
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.orders.as_ref().unwrap(), "{order}").unwrap();
    }

    fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    fn must(&mut self, order: &str) {
        assert_eq!(self.ask(order), "done", "{order}");
    }

    fn change(&mut self, to: &str) {
        let order = format!("set {} {to}", self.path("setting").display());
        self.must(&order);
    }

    /// Starts a load of four processes, one of which leaves the group and one of which ignores
    /// SIGTERM; waits until all have written down who they are.
    fn load(&mut self) -> Vec<ProcessId> {
        let pids = self.path("pids");
        let note = format!("echo $$ >> {}; exec sleep 1000", pids.display());
        self.must(&format!(
            "load {} sh -c '{note}' & setsid sh -c '{note}' & sh -c 'trap \"\" TERM; {note}' & \
             echo $$ >> {}; wait",
            first_cpu(),
            pids.display()
        ));
        let read = || fs::read_to_string(&pids).unwrap_or_default();
        eventually("the load runs", || read().lines().count() == 4 && read().ends_with('\n'));
        let mut all: Vec<ProcessId> =
            read().lines().map(|pid| ProcessId::of(pid.parse().unwrap()).unwrap()).collect();
        all.push(ProcessId::of(self.ask("leader").parse().unwrap()).unwrap());
        all
    }

    fn supervisor(&mut self) -> ProcessId {
        ProcessId::of(self.ask("supervisor").parse().unwrap()).unwrap()
    }

    fn own(&self) -> ProcessId {
        ProcessId::of(self.process.id() as i32).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn setting(&self) -> String {
        fs::read_to_string(self.path("setting")).unwrap()
    }

    fn journals(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(self.path("run")).into_iter().flatten().flatten();
        names.map(|entry| entry.path()).collect()
    }

    fn wait(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// A run of which both processes were killed, so that nobody has restored the setting.
    fn killed_with_its_supervisor() -> Self {
        let mut run = Self::begin_with_a_change();
        let supervisor = run.supervisor();
        kill(supervisor, libc::SIGKILL);
        kill(run.own(), libc::SIGKILL);
        run.wait();
        assert_eq!((run.setting().as_str(), run.journals().len()), ("during the run", 1));
        run
    }

    fn restore(&self) -> Vec<Restored> {
        restore(&self.path("run")).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // End of input ends it, should a test have failed in between.
        self.orders = None;
        let _ = self.process.wait();
    }
}

fn kill(process: ProcessId, signal: i32) {
    assert!(process.is_alive(), "{process:?} is not there to be sent signal {signal}");
    // SAFETY: kill takes two integers; the process is one that this test has started.
    assert_eq!(unsafe { libc::kill(process.pid, signal) }, 0);
}

/// Patience, not a claim on time: the machine may be busy with other tests.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        sleep(Duration::from_millis(2));
    }
}

/// Says so past the test harness, which keeps what `eprintln!` says in a test that passes.
#[allow(clippy::explicit_write)]
fn skipped(reason: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    writeln!(std::io::stderr(), "skipped: {name}: {reason}").unwrap();
}

fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A file of `/proc/PID/status`, without its name.
fn status(pid: i32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap().trim().to_owned()
}

fn allowed() -> String {
    status(std::process::id() as i32, "Cpus_allowed_list")
}

fn first_cpu() -> String {
    allowed().split([',', '-']).next().unwrap().to_owned()
}

// ---------------------------------------------------------------------------------------------
// Every way to end

fn nothing_is_left_after(ending: &str, end: impl FnOnce(&mut Run)) {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    let load = run.load();
    assert!(load.iter().all(|process| process.is_alive()));
    end(&mut run);
    run.wait();
    eventually(ending, || !supervisor.is_alive());
    assert_eq!(run.setting(), "before", "{ending}");
    let left: Vec<_> = load.iter().filter(|process| process.is_alive()).collect();
    assert!(left.is_empty(), "{ending}: {left:?} of {load:?}");
    assert!(run.journals().is_empty(), "{ending}: {:?}", run.journals());
}

#[test]
fn nothing_is_left_after_a_normal_end() {
    nothing_is_left_after("the end", |run| run.tell("end"));
    nothing_is_left_after("exit without destructors", |run| run.tell("exit"));
}

#[test]
fn nothing_is_left_after_a_crash() {
    nothing_is_left_after("panic", |run| run.tell("panic"));
    nothing_is_left_after("abort", |run| run.tell("abort"));
}

#[test]
fn nothing_is_left_after_a_signal_that_asks_to_end() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        nothing_is_left_after(&format!("signal {signal}"), |run| {
            kill(run.own(), signal);
            assert_eq!(run.wait().code(), Some(130));
        });
    }
}

#[test]
fn nothing_is_left_after_sigkill() {
    nothing_is_left_after("SIGKILL", |run| kill(run.own(), libc::SIGKILL));
}

#[test]
fn nothing_is_left_after_sigkill_of_the_supervisor() {
    nothing_is_left_after("SIGKILL of the supervisor", |run| {
        let supervisor = run.supervisor();
        kill(supervisor, libc::SIGKILL);
        run.tell("end");
    });
}

#[test]
fn after_sigkill_of_both_the_journal_restores() {
    let mut run = Run::begin_with_a_change();
    let load = run.load();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGKILL);
    kill(run.own(), libc::SIGKILL);
    run.wait();
    assert_eq!(run.setting(), "during the run");
    let restored = run.restore();
    assert!(restored.len() == 1 && restored[0].is_settled(), "{restored:?}");
    assert!(matches!(&restored[0].verdict, Verdict::Restored { entries, torn: false }
        if entries.len() == 2 && entries[1].1 == Outcome::Undone));
    assert_eq!(run.setting(), "before");
    assert!(!load.iter().any(|process| process.is_alive()));
    assert_eq!((run.journals().len(), run.restore().len()), (0, 0));
}

#[test]
fn a_group_whose_leader_was_killed_is_found_by_its_mark() {
    let mut run = Run::begin();
    let load = run.load();
    let leader = *load.last().unwrap();
    kill(leader, libc::SIGKILL);
    eventually("its death is noticed", || run.ask("check").contains("killed from outside"));
    assert!(load.iter().any(|process| process.is_alive()), "the test shows nothing");
    run.tell("end");
    run.wait();
    assert!(!load.iter().any(|process| process.is_alive()));
}

#[test]
fn a_supervisor_that_was_killed_is_replaced_before_the_next_change() {
    let mut run = Run::begin_with_a_change();
    let first = run.supervisor();
    kill(first, libc::SIGKILL);
    eventually("it is dead", || !first.is_alive());
    run.change("later");
    let second = run.supervisor();
    assert_ne!(first, second);
    kill(run.own(), libc::SIGKILL);
    eventually("the second restores", || !second.is_alive());
    assert_eq!(run.setting(), "before");
}

#[test]
fn a_second_interrupt_ends_a_run_that_does_not_listen_and_finds_all_restored() {
    let mut run = Run::begin_with_a_change();
    let load = run.load();
    run.must("stubborn");
    kill(run.own(), libc::SIGINT);
    // Two signals that arrive together are one.
    let pending = |run: &Run| status(run.own().pid, "ShdPnd") != "0000000000000000";
    eventually("the first is taken", || !pending(&run));
    sleep(Duration::from_millis(50));
    assert_eq!(run.setting(), "during the run");
    kill(run.own(), libc::SIGINT);
    assert_eq!(run.wait().code(), Some(130));
    // At once: the exit itself waits for the supervisor.
    assert_eq!(run.setting(), "before");
    assert!(!load.iter().any(|process| process.is_alive()));
    eventually("the journal is removed", || run.journals().is_empty());
}

#[test]
fn a_stopped_supervisor_does_not_hold_up_the_end() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGSTOP);
    run.tell("end");
    assert!(run.wait().success());
    assert_eq!(run.setting(), "before");
    assert!(!supervisor.is_alive());
}

#[test]
fn signals_that_end_programs_do_not_end_the_supervisor() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        kill(supervisor, signal);
    }
    sleep(Duration::from_millis(50));
    kill(run.own(), libc::SIGKILL);
    eventually("it ends by itself", || !supervisor.is_alive());
    assert_eq!(run.setting(), "before");
}

#[test]
fn a_thread_runs_where_it_ran_before() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeper.id() as i32;
    let before = status(pid, "Cpus_allowed_list");
    let mut run = Run::begin();
    run.must(&format!("pin {pid} {before} {}", first_cpu()));
    assert_eq!(status(pid, "Cpus_allowed_list"), first_cpu());
    let supervisor = run.supervisor();
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || !supervisor.is_alive());
    assert_eq!(status(pid, "Cpus_allowed_list"), before);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn a_cgroup_is_emptied_and_removed() {
    let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/pids"];
    let name = format!("corehop-test-{}", std::process::id());
    let usable = |path: &PathBuf| {
        let made = fs::create_dir(path).is_ok();
        let real = path.join("cgroup.procs").exists();
        let _ = fs::remove_dir(path);
        made && real
    };
    let Some(path) = roots.map(|root| Path::new(root).join(&name)).into_iter().find(usable) else {
        skipped(&format!("no cgroup can be made in {roots:?} (it takes root)"));
        return;
    };
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut run = Run::begin();
    run.must(&format!("cgroup {} {}", path.display(), sleeper.id()));
    // One that the run made inside goes too.
    fs::create_dir(path.join("inner")).unwrap();
    assert_eq!(
        fs::read_to_string(path.join("cgroup.procs")).unwrap(),
        format!("{}\n", sleeper.id())
    );
    let supervisor = run.supervisor();
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || !supervisor.is_alive());
    assert!(!path.exists() && sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

// ---------------------------------------------------------------------------------------------
// The supervisor and the loads themselves

#[test]
fn the_supervisor_holds_nothing_of_its_parents_and_the_journal_is_private() {
    let mut run = Run::begin_with_a_change();
    let pid = run.supervisor().pid;
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap().display().to_string();
        let name = entry.file_name();
        let expected = ["/dev/null", "socket:", "anon_inode:[pidfd]", "pidfd:", "/run/"];
        assert!(expected.iter().any(|known| target.contains(known)), "{name:?}: {target}");
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&run.path("run")), mode(&run.journals()[0])), (0o700, 0o600));
}

#[test]
fn under_a_real_time_parent_supervisor_and_load_are_ordinary() {
    let mut run = Run::begin();
    let answer = run.ask("real-time");
    if answer != "done" {
        skipped(&format!("{answer} (SCHED_FIFO takes CAP_SYS_NICE)"));
        return;
    }
    let pid = run.own().pid;
    let policy = |pid: i32| {
        // SAFETY: sched_getscheduler takes an integer.
        unsafe { libc::sched_getscheduler(pid) }
    };
    assert_eq!(policy(pid), libc::SCHED_FIFO);
    let everywhere = status(pid, "Cpus_allowed_list");
    run.must(&format!("pin {pid} {everywhere} {}", first_cpu()));
    let load = run.load();
    let supervisor = run.supervisor();
    assert!(load.iter().all(|process| policy(process.pid) == libc::SCHED_OTHER));
    assert_eq!(policy(supervisor.pid), libc::SCHED_OTHER);
    assert_eq!(status(supervisor.pid, "Cpus_allowed_list"), everywhere);
}

#[test]
fn a_load_runs_where_it_is_told_is_restarted_and_shows_that_it_ran() {
    let mut run = Run::begin();
    let cpu = allowed().rsplit([',', '-']).next().unwrap().to_owned();
    let short = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    run.must(&format!("load {cpu} {short}"));
    let leader: i32 = run.ask("leader").parse().unwrap();
    assert_eq!(status(leader, "Cpus_allowed_list"), cpu);
    eventually("it is restarted", || run.ask("restarts").parse::<u32>().unwrap() >= 3);
    eventually("it uses time", || run.ask("cpu-time").parse::<u64>().unwrap() > 0);
    let first: u64 = run.ask("cpu-time").parse().unwrap();
    eventually("it goes on", || run.ask("cpu-time").parse::<u64>().unwrap() > first);
    run.must("check");
    run.must("unload");
    assert!(ProcessId::of(leader).is_err());
}

#[test]
fn a_load_is_over_when_what_it_left_in_the_background_is() {
    let mut run = Run::begin();
    let pids = run.path("pids");
    run.must(&format!("load {} sleep 1000 & echo $! >> {}", first_cpu(), pids.display()));
    eventually("it runs", || pids.exists());
    sleep(Duration::from_millis(100));
    run.must("check");
    assert_eq!(run.ask("restarts"), "0");
    assert_eq!(fs::read_to_string(&pids).unwrap().lines().count(), 1);
}

#[test]
fn a_load_that_ends_at_once_is_given_up_with_its_name_its_status_and_a_remedy() {
    for (command, status) in [("no-such-program-here", "127"), ("true", "0"), ("kill -9 $$", "9")] {
        let mut run = Run::begin();
        run.must(&format!("load {} {command}", first_cpu()));
        eventually("it is given up", || run.ask("check") != "done");
        let error = run.ask("check");
        for part in [command, "5 times", status, "by hand"] {
            assert!(error.contains(part), "{part} in: {error}");
        }
    }
}

#[test]
fn a_load_on_a_cpu_that_is_not_there_is_refused() {
    let mut run = Run::begin();
    for cpus in ["60000", &format!("{},60000", first_cpu())] {
        let error = run.ask(&format!("load {cpus} sleep 1000"));
        assert!(error.contains("60000") && error.contains(&first_cpu()), "{error}");
    }
    assert_eq!(run.ask("supervisor"), "0", "nothing was changed, so nothing is supervised");
}

// ---------------------------------------------------------------------------------------------
// Journals that are not what they should be

/// A journal that a dead process of this boot would have left in `folder`.
fn journal(folder: &Path, owner: ProcessId, lines: &[String]) -> PathBuf {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let ProcessId { pid, start_time } = owner;
    let header = format!(
        r#"{{"corehop_journal":1,"program_version":"0.1.0","owner":{{"pid":{pid},"start_time":{start_time}}},"boot_id":"{}"}}"#,
        boot.trim()
    );
    let path = folder.join(format!("{pid}-0.journal"));
    fs::write(&path, format!("{header}\n{}", lines.concat())).unwrap();
    path
}

fn line(undo: &Undo) -> String {
    format!("{{\"state\":\"live\",\"undo\":{}}}\n", serde_json::to_string(undo).unwrap())
}

fn private_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// A process that was, and is no more.
fn dead() -> ProcessId {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let process = ProcessId::of(child.id() as i32).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    process
}

#[test]
fn a_number_that_has_gone_to_another_process_is_not_killed() {
    let mut stranger = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
    let process = ProcessId::of(stranger.id() as i32).unwrap();
    let former = ProcessId { start_time: process.start_time - 1, ..process };
    for (leader, outcome) in [(former, Outcome::AlreadyGone), (process, Outcome::Undone)] {
        let folder = private_folder();
        let entry = Undo::KillProcessGroup { leader };
        journal(folder.path(), dead(), &[line(&entry)]);
        assert!(stranger.try_wait().unwrap().is_none(), "killed for {former:?}");
        let restored = restore(folder.path()).unwrap();
        let expected = vec![(entry.to_string(), outcome)];
        assert_eq!(restored[0].verdict, Verdict::Restored { entries: expected, torn: false });
    }
    assert_eq!(stranger.wait().unwrap().signal(), Some(libc::SIGTERM));
}

#[test]
fn a_last_line_that_was_cut_off_is_a_change_that_was_not_made() {
    let folder = private_folder();
    let files = ["a", "b"].map(|name| folder.path().join(name));
    let [first, last] = files.each_ref().map(|path| {
        fs::write(path, "").unwrap();
        line(&Undo::RemoveFile { path: path.clone() })
    });
    let path = journal(folder.path(), dead(), &[first, last[..last.len() - 3].to_owned()]);
    let restored = restore(folder.path()).unwrap();
    assert!(matches!(&restored[0].verdict, Verdict::Restored { entries, torn: true }
        if entries.len() == 1));
    assert!(restored[0].to_string().contains("announced but not made"));
    assert!(!files[0].exists() && files[1].exists() && !path.exists());
}

#[test]
fn a_kind_that_is_not_known_is_reported_and_its_journal_kept_for_a_later_version() {
    let folder = private_folder();
    let file = folder.path().join("a");
    fs::write(&file, "").unwrap();
    let known = line(&Undo::RemoveFile { path: file.clone() });
    let newer = r#"{"state":"live","undo":{"kind":"unmount","path":"/mnt"}}"#.to_owned() + "\n";
    let path = journal(folder.path(), dead(), &[known, newer]);
    for known_left in [1, 0] {
        let restored = restore(folder.path()).unwrap();
        assert!(!restored[0].is_settled() && restored[0].to_string().contains("unmount"));
        assert!(matches!(&restored[0].verdict, Verdict::Restored { entries, .. }
            if entries.len() == 1 + known_left));
        assert!(!file.exists() && path.exists());
    }
}

#[test]
fn a_journal_whose_owner_lives_is_left_alone() {
    let mut run = Run::begin_with_a_change();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGKILL);
    let owner = run.own();
    assert_eq!(run.restore()[0].verdict, Verdict::StillOwned { owner });
    assert_eq!((run.setting().as_str(), run.journals().len()), ("during the run", 1));

    // By the lock alone, and by number and start time alone.
    let folder = private_folder();
    let path = journal(folder.path(), dead(), &[]);
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    assert!(matches!(restore(folder.path()).unwrap()[0].verdict, Verdict::StillOwned { .. }));
    drop(held);
    assert!(matches!(restore(folder.path()).unwrap()[0].verdict, Verdict::Restored { .. }));
    journal(folder.path(), owner, &[]);
    assert!(matches!(restore(folder.path()).unwrap()[0].verdict, Verdict::StillOwned { .. }));
}

#[test]
fn a_file_that_is_not_our_journal_is_not_touched() {
    let folder = private_folder();
    let victim = folder.path().join("victim");
    fs::write(&victim, "").unwrap();
    let elsewhere = private_folder();
    let good =
        journal(elsewhere.path(), dead(), &[line(&Undo::RemoveFile { path: victim.clone() })]);
    let text = fs::read_to_string(&good).unwrap();
    let at = |name: &str| folder.path().join(name).with_extension("journal");
    symlink(&good, at("link")).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at("binary"), [0, 255, 10, 7]).unwrap();
    fs::write(at("other"), "{\"name\":\"x\"}\n").unwrap();
    fs::write(at("later"), text.replace("journal\":1", "journal\":2").replace("0.1.0", "9.9.9"))
        .unwrap();
    fs::create_dir(at("folder")).unwrap();
    let mut expected = 6;
    if is_root() {
        fs::copy(&good, at("foreign")).unwrap();
        chown(at("foreign"), Some(65_534), None).unwrap();
        expected += 1;
    } else {
        skipped("in part, only root can make a file of another user's");
    }
    let restored = restore(folder.path()).unwrap();
    assert_eq!(restored.len(), expected);
    for one in &restored {
        assert!(matches!(one.verdict, Verdict::Refused { .. }) && one.journal.exists(), "{one}");
    }
    assert!(restored.iter().any(|one| one.to_string().contains("corehop 9.9.9")));
    assert!(victim.exists());
}

#[test]
fn a_directory_that_others_control_is_refused_before_the_change() {
    let base = private_folder();
    let (open, link) = (base.path().join("open"), base.path().join("link"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let elsewhere = private_folder();
    symlink(elsewhere.path(), &link).unwrap();
    let mut refused = vec![open, link];
    if is_root() {
        let foreign = base.path().join("foreign");
        fs::create_dir(&foreign).unwrap();
        chown(&foreign, Some(65_534), None).unwrap();
        refused.push(foreign);
    } else {
        skipped("in part, only root can make a directory of another user's");
    }
    let setting = base.path().join("setting");
    fs::write(&setting, "before").unwrap();
    for directory in refused {
        let error = Guard::in_directory(&directory).set(&setting, "after").unwrap_err();
        assert!(matches!(error, SupervisorError::Directory { .. }), "{error}");
        assert!(error.to_string().contains(directory.to_str().unwrap()), "{error}");
        assert!(restore(&directory).is_err());
    }
    assert_eq!(fs::read_to_string(&setting).unwrap(), "before");
}

#[test]
fn a_setting_that_cannot_be_written_is_an_error_and_leaves_nothing_to_restore() {
    let mut run = Run::begin();
    let error = run.ask("set /proc/version x");
    assert!(error.contains("/proc/version") && error.contains("`x`"), "{error}");
    run.tell("end");
    assert!(run.wait().success());
    assert!(run.journals().is_empty());
}

#[test]
fn killed_with_its_supervisor_a_run_leaves_one_readable_journal() {
    let run = Run::killed_with_its_supervisor();
    let text = run.restore()[0].to_string();
    assert!(text.contains("1 of 1 changes taken back") && text.contains("write `before` to"));
    assert_eq!(run.setting(), "before");
}

#[test]
fn on_a_full_disk_the_change_is_refused_before_it_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, setting) = (folder.path().join("disk"), folder.path().join("setting"));
    fs::create_dir(&disk).unwrap();
    fs::write(&setting, "before").unwrap();
    // In a mount namespace of its own, which vanishes with the processes in it.
    let script = format!(
        "mount -t tmpfs -o size=64k,mode=700 none {0} && echo mounted && exec {1} {0}",
        disk.display(),
        guarded().display()
    );
    let mut command = Command::new("unshare");
    command.args(if is_root() { ["--mount", "--"] } else { ["-rm", "--"] });
    command.args(["sh", "-c", &script]);
    let Ok(_) = Command::new("unshare").arg("--version").output() else {
        skipped("there is no unshare(1)");
        return;
    };
    let mut run = Run::begin_as(command, folder);
    let mut mounted = String::new();
    run.answers.read_line(&mut mounted).unwrap();
    if mounted != "mounted\n" {
        skipped("no tmpfs can be mounted (it takes root, or user namespaces)");
        return;
    }
    run.change("during the run");
    let inside = PathBuf::from(format!("/proc/{}/root{}", run.process.id(), disk.display()));
    let fill = fs::write(inside.join("filler"), vec![0; 1 << 20]);
    assert_eq!(fill.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    // The journal's own page takes some more entries.
    let other = run.path("other");
    fs::write(&other, "before").unwrap();
    let mut order = 0;
    let refusal = loop {
        order += 1;
        let answer = run.ask(&format!("set {} {order}", other.display()));
        if answer != "done" {
            break answer;
        }
        assert!(order < 1_000, "a disk that is never full");
    };
    assert!(refusal.contains("was not made") && refusal.contains("Free some space"), "{refusal}");
    assert_eq!(fs::read_to_string(&other).unwrap(), (order - 1).to_string());
    // What was listed before is intact, and is taken back though nothing can be written.
    let supervisor = run.supervisor();
    kill(run.own(), libc::SIGKILL);
    eventually("it is restored", || !supervisor.is_alive());
    assert_eq!(fs::read_to_string(&other).unwrap(), "before");
    assert_eq!(run.setting(), "before");
}

#[test]
fn output_of_a_run_ends_with_it() {
    // Whoever reads the run's output must not wait for the supervisor or for a load.
    let mut run = Run::begin();
    run.load();
    let supervisor = run.supervisor();
    kill(supervisor, libc::SIGSTOP);
    kill(run.own(), libc::SIGKILL);
    let mut rest = String::new();
    run.answers.read_to_string(&mut rest).unwrap();
    assert!(supervisor.is_alive());
    kill(supervisor, libc::SIGCONT);
    eventually("it restores", || !supervisor.is_alive());
}
