// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program while it is placed: it ends, chooses its own CPUs, changes its cgroup, loses a CPU.

use std::path::PathBuf;

use corehop_system::thread::set_affinity_of;

use super::*;

#[path = "../cpuset/mod.rs"]
mod cpuset;

use self::cpuset::Cpuset;

fn one(cpu: corehop_plan::units::Cpu) -> CpuList {
    CpuList::new([cpu])
}

#[test]
fn a_program_that_ends_while_it_is_placed_ends_the_placer_without_a_fault() {
    let Some(mut scene) = scene() else { return };
    let first = scene.before[0].first().unwrap();
    let words = ["--start", &first.0.to_string(), "--progress", &scene.count, &scene.turns.pid()];
    let placer = Placer::begin(scene.folder.path(), &words);
    until("placed", || scene.turns.cpus().iter().all(|it| *it == one(first)));
    scene.turns.0.kill().unwrap();
    // It is dead and not yet waited for: a zombie has no threads to place.
    let output = placer.ends();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let refused = place(&[&scene.turns.pid()]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(said(&refused).contains("has ended"), "{}", said(&refused));
}

#[test]
fn a_thread_that_chooses_its_own_cpus_meanwhile_keeps_them() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, folder, .. } = &scene;
    let [child, parent] = turns.both()[..] else { panic!("two processes") };
    let (first, second) = (before[0].iter().next().unwrap(), before[0].iter().nth(1).unwrap());
    for killed in [false, true] {
        let words = ["--start", &first.0.to_string(), &turns.pid()];
        let mut placer = Placer::begin(folder.path(), &words);
        until("placed", || turns.cpus().iter().all(|it| *it == one(first)));
        set_affinity_of(child, [second]).unwrap();
        placer.goes_on();
        assert_eq!(turns.cpus(), [one(second), one(first)]);
        if killed {
            signal(placer.id(), libc::SIGKILL);
            placer.ends();
        } else {
            placer.interrupted();
        }
        until("the other put back", || affinity_of(parent).unwrap() == before[1]);
        assert_eq!(affinity_of(child).unwrap(), one(second), "killed: {killed}");
        set_affinity_of(child, before[0].iter()).unwrap();
    }
}

#[test]
fn a_cpuset_that_shrinks_takes_its_cpu_and_nothing_stays_pinned() {
    let Some(guard) = can_see().then(alone) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(set) = Cpuset::new() else { return };
    let count = counter(folder.path());
    let mut program = Command::new("python3");
    set.starts(&mut program);
    let turns = Turns::write(&count, program);
    let before = turns.cpus();
    // In the middle of a trial or of a start, and with progress or without.
    for more in [
        &["--start", "1"][..],
        &["--start", "0,1", "--progress", &count],
        &["--start", "1", "--progress", &count],
    ] {
        let pid = turns.pid();
        let mut placer = Placer::begin(folder.path(), &[more, &[&pid]].concat());
        placer.until_it_writes("\"action\":\"place\"");
        if more.contains(&"0,1") {
            placer.until_it_writes("\"action\":\"try\"");
        }
        set.write("cpuset.cpus", "0");
        placer.goes_on();
        assert!(turns.cpus().iter().all(|it| it.to_string() == "0"), "{:?}", turns.cpus());
        let answer = placer.interrupted();
        set.write("cpuset.cpus", "0-1");
        assert_eq!(turns.cpus(), before, "{more:?}: {answer}");
    }
    drop((turns, set, guard));
}

/// A cgroup that lasts as long as a test, in the hierarchy of version 2.
struct Cgroup {
    path: PathBuf,
    /// The cgroup of this process.
    home: PathBuf,
}

impl Cgroup {
    fn new() -> Option<Self> {
        let bases = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(PathBuf::from);
        let base = bases.into_iter().find(|it| it.join("cgroup.procs").exists());
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let home = base.map(|it| it.join(own));
        let path = home.as_ref().map(|it| it.join(format!("corehop-test-{}", std::process::id())));
        let made = path.as_ref().is_some_and(|it| std::fs::create_dir(it).is_ok());
        if !made {
            println!("skipped: no cgroup of version 2 can be made here");
            return None;
        }
        Some(Self { path: path.unwrap(), home: home.unwrap() })
    }

    fn enters(&self, process: i32) -> std::io::Result<()> {
        std::fs::write(self.path.join("cgroup.procs"), process.to_string())
    }

    fn leaves(&self, process: i32) {
        std::fs::write(self.home.join("cgroup.procs"), process.to_string()).unwrap();
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let all = std::fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        all.lines().for_each(|it| self.leaves(it.parse().unwrap()));
        until("the cgroup removed", || std::fs::remove_dir(&self.path).is_ok());
    }
}

#[test]
fn a_process_that_leaves_the_cgroup_is_put_back_at_once_and_one_that_enters_is_followed() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, folder, .. } = &scene;
    let Some(group) = Cgroup::new() else { return };
    let [child, parent] = turns.both()[..] else { panic!("two processes") };
    if let Err(error) = group.enters(child).and_then(|()| group.enters(parent)) {
        println!("skipped: a process cannot enter a cgroup: {error}");
        return;
    }
    let first = before[0].first().unwrap();
    let words = ["--start", &first.0.to_string(), "--cgroup", group.path.to_str().unwrap()];
    let mut placer = Placer::begin(folder.path(), &words);
    until("placed", || turns.cpus().iter().all(|it| *it == one(first)));
    group.leaves(child);
    until("put back", || affinity_of(child).unwrap() == before[0]);
    placer.goes_on();
    assert_eq!(turns.cpus(), [before[0].clone(), one(first)]);
    let lines = |placer: &Placer| placer.written().lines().last().unwrap_or_default().to_owned();
    assert!(!lines(&placer).contains(&format!("\"tid\":{child},")), "{}", lines(&placer));
    group.enters(child).unwrap();
    until("followed", || lines(&placer).contains(&format!("\"tid\":{child},")));
    placer.interrupted();
    assert_eq!(turns.cpus(), *before);
}

#[test]
fn after_placer_and_supervisor_are_killed_the_doctor_names_the_rest_and_restores_it() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, folder, .. } = &scene;
    let first = before[0].first().unwrap();
    let words = ["--start", &first.0.to_string(), &turns.pid()];
    let placer = Placer::begin(folder.path(), &words);
    until("placed", || turns.cpus().iter().all(|it| *it == one(first)));
    let supervisors = children(placer.id());
    // The supervisor first: it would put the threads back. The placer cannot start another, as it is stopped.
    signal(placer.id(), libc::SIGSTOP);
    for pid in supervisors {
        signal(pid, libc::SIGKILL);
    }
    signal(placer.id(), libc::SIGKILL);
    placer.ends();
    assert!(turns.cpus().iter().all(|it| *it == one(first)), "nothing is left to restore");
    let doctor = corehop(&["doctor"]);
    let page = String::from_utf8_lossy(&doctor.stdout);
    assert!(page.contains("doctor restore"), "{page}");
    let restored = corehop(&["doctor", "restore"]);
    assert_eq!(restored.status.code(), Some(0), "{}", said(&restored));
    assert_eq!(turns.cpus(), *before);
}
