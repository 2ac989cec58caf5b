// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's accounting of threads and of context switches, in `/proc` (proc(5)).

use crate::bpf::control::ThreadTimes;
use corehop_system::proc::{self, ProcEntry};

/// The times of a thread since it began: its CPU time, and its waiting time. Returns `None` if the thread does not
/// exist or never ran, or the kernel keeps no accounting (`CONFIG_SCHED_INFO`).
pub(super) fn times(pid: u32, tid: u32) -> Option<ThreadTimes> {
    let account = ProcEntry::thread(pid, tid).schedstat()?;
    let times = ThreadTimes { cpu_ns: account.cpu_ns, waited_ns: account.waited_ns };
    (account.turns > 0).then_some(times)
}

/// Whether the thread no longer exists, or its process is a zombie.
pub(super) fn has_ended(pid: u32, tid: u32) -> bool {
    ProcEntry::thread(pid, tid).stat().map_or(true, |stat| stat.is_dead())
}

/// The number of context switches on this machine since the machine started.
pub(super) fn switches() -> Option<u64> {
    let text = proc::text("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_without_a_turn_is_none() {
        let (turn, turned) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _turned = turned.recv();
            times(std::process::id(), corehop_system::thread::current_tid())
        });
        turn.send(()).unwrap();
        // The thread that asks has had a turn; where the kernel keeps no account, no thread has one.
        let own = times(std::process::id(), corehop_system::thread::current_tid());
        assert_eq!(thread.join().unwrap().is_some(), own.is_some());
        assert_eq!(times(std::process::id(), u32::MAX >> 1), None);
    }

    #[test]
    fn switches_are_counted_and_a_thread_that_is_not_there_has_ended() {
        assert!(switches() > Some(0));
        let own = std::process::id();
        assert!(!has_ended(own, own) && has_ended(own, u32::MAX >> 1));
    }
}
