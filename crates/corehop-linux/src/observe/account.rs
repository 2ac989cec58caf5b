// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own account of threads and of switches, in `/proc` (proc(5)).

use crate::bpf::control::Times;

/// The times of a thread since it began: the time it had a CPU, and the time it waited for one. None if there is no
/// such thread, or it never ran, or the kernel keeps no account (`CONFIG_SCHED_INFO`).
pub(super) fn times(pid: u32, tid: u32) -> Option<Times> {
    parsed(&std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?)
}

fn parsed(text: &str) -> Option<Times> {
    let mut words = text.split_whitespace().map(str::parse);
    let mut next = || words.next()?.ok();
    let (cpu_ns, waited_ns, turns): (u64, u64, u64) = (next()?, next()?, next()?);
    (turns > 0).then_some(Times { cpu_ns, waited_ns })
}

/// Whether there is no such thread, or its process waits to be collected.
pub(super) fn has_ended(pid: u32, tid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
    // The name is in parentheses, and may have some itself.
    let state =
        |text: String| text.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    !matches!(stat.ok().and_then(state), Some(state) if state != 'Z' && state != 'X')
}

/// Switches between threads on this machine since it started.
pub(super) fn switches() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("ctxt "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_without_a_turn_is_none() {
        let times = Times { cpu_ns: 7, waited_ns: 446_333 };
        assert_eq!(parsed("7 446333 1\n"), Some(times));
        assert_eq!((parsed("0 0 0\n"), parsed("7 8"), parsed("")), (None, None, None));
    }

    #[test]
    fn switches_are_counted_and_a_thread_that_is_not_there_has_ended() {
        assert!(switches() > Some(0));
        let own = std::process::id();
        assert!(!has_ended(own, own) && has_ended(own, u32::MAX >> 1));
    }
}
