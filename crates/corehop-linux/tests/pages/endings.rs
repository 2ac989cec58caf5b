// SPDX-License-Identifier: MIT OR Apache-2.0
//! Of handler, placer and program any may be killed: no page stays protected and no process remains.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_plan::workload::draw::DrawStream;
use corehop_system::supervisor::ProcessId;

use crate::harness::skipped;
use crate::scene::{HANDLER, PLACER, Scene, children, is_registered, partners, words};

fn send(pid: i32, signal: i32) {
    // SAFETY: takes two integers; the process is a child of this one, or of one that is.
    unsafe { libc::kill(pid, signal) };
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(10));
    }
}

/// A scene whose pair was seen, and the handler.
fn seen() -> Option<(Scene, i32)> {
    let mut scene = Scene::begin(1, 1, 6, "write")?;
    scene.until("the pair is seen", |it| !it.seen.is_empty());
    let handlers = children(std::process::id(), HANDLER);
    assert_eq!(handlers.len(), 1);
    Some((scene, handlers[0]))
}

pub(crate) fn the_program_goes_on_without_a_handler_that_was_killed() {
    let Some((mut scene, handler)) = seen() else { return };
    send(handler, libc::SIGKILL);
    scene.until("it is noticed", |it| it.notes.iter().any(|it| it.contains("ended from outside")));
    assert_eq!(scene.end(), 0);
}

pub(crate) fn the_program_goes_on_without_a_handler_that_was_stopped() {
    let Some((mut scene, handler)) = seen() else { return };
    send(handler, libc::SIGSTOP);
    scene.until("it is noticed", |it| it.notes.iter().any(|it| it.contains("did not answer")));
    assert_eq!(scene.end(), 0);
    assert!(children(std::process::id(), HANDLER).is_empty());
}

/// A placer in a process of its own.
struct Apart {
    placer: Child,
    handler: ProcessId,
    program: ProcessId,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Apart {
    fn begin() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("threads");
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new(this);
        command.arg(PLACER).args(words(1, 1, 7, "write", &file));
        let mut placer = command.spawn().unwrap();
        eventually("its threads run", || file.exists());
        let program = children(placer.id(), &program_name())[0];
        let begun = Instant::now();
        while !is_registered(program) {
            if begun.elapsed() > Duration::from_secs(10) {
                skipped("pages are not sampled");
                end(&file, program);
                placer.wait().unwrap();
                return None;
            }
            sleep(Duration::from_millis(10));
        }
        let handler = children(placer.id(), HANDLER)[0];
        // Until pages are protected, again and again.
        sleep(Duration::from_millis(300));
        let [handler, program] = [handler, program].map(|it| ProcessId::of(it).unwrap());
        Some(Self { placer, handler, program, file, _folder: folder })
    }

    /// The program goes on and ends, and the handler too.
    fn check(mut self) {
        eventually("the handler ends", || !self.handler.is_alive());
        assert!(!is_registered(self.program.pid), "pages are still protected");
        let before = cpu_ticks(&self.file);
        eventually("threads run on", || {
            let now = cpu_ticks(&self.file);
            now.iter().zip(&before).all(|(now, before)| now > before)
        });
        end(&self.file, self.program.pid);
        eventually("the program ends", || !self.program.is_alive());
        self.placer.wait().unwrap();
    }
}

fn end(file: &Path, pid: i32) {
    // A program that does not end by itself is ended, and the test fails where it looks.
    std::fs::remove_file(file).unwrap();
    let begun = Instant::now();
    while ProcessId::of(pid).is_ok_and(ProcessId::is_alive) && begun.elapsed().as_secs() < 10 {
        sleep(Duration::from_millis(10));
    }
}

fn program_name() -> String {
    let path = std::env::current_exe().unwrap();
    path.file_name().unwrap().to_string_lossy().chars().take(15).collect()
}

/// The CPU time of each of the program's threads.
fn cpu_ticks(file: &Path) -> Vec<u64> {
    let of = |tid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    partners(file).into_keys().map(of).collect()
}

pub(crate) fn the_program_goes_on_without_the_placer() {
    let Some(mut it) = Apart::begin() else { return };
    it.placer.kill().unwrap();
    it.check();
}

pub(crate) fn the_program_goes_on_without_placer_and_handler() {
    let Some(mut it) = Apart::begin() else { return };
    send(it.handler.pid, libc::SIGKILL);
    it.placer.kill().unwrap();
    it.check();
}

/// A placer, its handler, or both are killed: from before the program has started until its pages are protected again and again.
pub(crate) fn killed_at_any_time_they_leave_no_protected_page_and_no_process() {
    // `COREHOP_TEST_KILLS=100` takes longer.
    let kills: u64 = std::env::var("COREHOP_TEST_KILLS").map_or(9, |it| it.parse().unwrap());
    let mut draw = DrawStream::new(3, 0);
    let mut went_on = 0;
    for kill in 0..kills {
        let after = Duration::from_millis(draw.below(900));
        let case = format!("kill {kill} (kind {}) after {after:?}", kill % 3);
        went_on += u64::from(killed_after(after, kill % 3, &case));
    }
    println!("{kills} kills, {went_on} programs went on");
    assert!(2 * went_on >= kills, "{went_on} of {kills}");
}

/// Whether the program had started, and went on.
fn killed_after(after: Duration, kind: u64, case: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("threads");
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut placer = command
        .arg(PLACER)
        .args(words(1, 1, 7, "write", &file))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(after);
    let started = |name: &str| children(placer.id(), name).first().map(|it| ProcessId::of(*it));
    let [program, handler] = [started(&program_name()), started(HANDLER)].map(|it| it?.ok());
    if kind != 0 {
        handler.inspect(|it| send(it.pid, libc::SIGKILL));
    }
    if kind != 1 {
        placer.kill().unwrap();
        placer.wait().unwrap();
    }
    let Some(program) = program else {
        // It is told to end where it may still start.
        eventually(case, || file.exists() || kind != 1);
        std::fs::remove_file(&file).ok();
        placer.wait().unwrap();
        return false;
    };
    eventually(case, || kind == 1 || handler.is_none_or(|it| !it.is_alive()));
    eventually(case, || file.exists() || !program.is_alive());
    let goes_on = program.is_alive();
    if goes_on {
        // Of a placer that lives on, the handler may begin after the look for it.
        let may_be = kind == 1 && handler.is_none();
        eventually(&format!("{case}: pages are protected"), || {
            may_be || !is_registered(program.pid)
        });
        let before = cpu_ticks(&file);
        let later = |now: Vec<u64>| now.iter().zip(&before).all(|(now, before)| now > before);
        eventually(case, || later(cpu_ticks(&file)));
    }
    std::fs::remove_file(&file).ok();
    eventually(case, || !program.is_alive());
    placer.wait().unwrap();
    goes_on
}

pub(crate) fn nothing_remains_of_a_program_that_was_killed() {
    let Some(mut it) = Apart::begin() else { return };
    send(it.program.pid, libc::SIGKILL);
    assert!(it.placer.wait().unwrap().success());
    assert!(!it.handler.is_alive() && !it.program.is_alive());
}
