// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that measures distances gets no CPU: nothing waits for it.

use super::*;

/// A process that does not run, and ends with this.
struct Stopped(u32);

impl Drop for Stopped {
    fn drop(&mut self) {
        signal(self.0, libc::SIGKILL);
    }
}

/// A placement under way, and its process that measures distances, which is stopped.
fn starved(scene: &Scene, more: &[&str]) -> Option<(Placer, Stopped)> {
    let Scene { turns, folder, count, .. } = scene;
    let pid = turns.pid();
    let words = [&["--start", "spread", "--progress", count][..], more, &[&pid]].concat();
    let placer = Placer::begin(folder.path(), &words);
    until("placed", || turns.cpus().iter().all(|it| it.len() == 1));
    let is_probe = |pid: &u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|it| it.trim_end() == "corehop-lines")
    };
    let Some(probe) = children(placer.id()).into_iter().find(is_probe) else {
        println!("skipped: no two CPUs have a distance that is measured here");
        return None;
    };
    signal(probe, libc::SIGSTOP);
    Some((placer, Stopped(probe)))
}

#[test]
fn with_a_probe_that_never_runs_the_time_ctrl_c_and_sigkill_end_a_placer_and_put_threads_back() {
    let Some(scene) = scene() else { return };
    let Scene { turns, before, .. } = &scene;
    let Some((placer, _probe)) = starved(&scene, &["--for", "8s"]) else { return };
    let by_time = placer.ends();
    assert_eq!(by_time.status.code(), Some(0), "{}", said(&by_time));
    assert_eq!(turns.cpus(), *before);
    let begun = Instant::now();
    let (placer, _probe) = starved(&scene, &[]).unwrap();
    placer.until_it_writes("\"action\":\"try\"");
    placer.interrupted();
    assert_eq!(turns.cpus(), *before);
    let (placer, _probe) = starved(&scene, &[]).unwrap();
    placer.until_it_writes("\"action\":\"try\"");
    signal(placer.id(), libc::SIGKILL);
    until("put back", || turns.cpus() == *before);
    assert!(begun.elapsed() < Duration::from_mins(3));
}
