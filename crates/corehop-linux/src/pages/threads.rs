// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translates thread IDs, because a fault contains the ID in the thread's own PID namespace.

use std::collections::HashMap;

use corehop_system::proc::{ProcEntry, Status};

/// Maps thread IDs in a process's namespace to IDs in this process's namespace.
#[derive(Debug)]
pub(super) struct NamespaceThreads {
    pid: u32,
    /// The map of thread IDs; `None` if both namespaces have the same IDs.
    numbers: Option<HashMap<u32, u32>>,
}

impl NamespaceThreads {
    /// Creates the map of thread IDs for a process.
    pub(super) fn of(pid: u32) -> Self {
        let status = ProcEntry::process(pid).status().ok();
        let differ = status.and_then(|it| numbers(&it)).is_some_and(|(seen, own)| seen != own);
        Self { pid, numbers: differ.then(HashMap::new) }
    }

    /// The thread ID in this namespace; `None` if the thread has ended.
    pub(super) fn seen(&mut self, own: u32) -> Option<u32> {
        let Some(numbers) = &mut self.numbers else { return Some(own) };
        if !numbers.contains_key(&own) {
            numbers.extend(all(self.pid));
        }
        numbers.get(&own).copied()
    }
}

/// The threads of a process: the ID of each in its own namespace, and in this namespace.
fn all(pid: u32) -> Vec<(u32, u32)> {
    let tids = ProcEntry::process(pid).threads().into_iter().flatten();
    let status = tids.filter_map(|tid| ProcEntry::thread(pid, tid).status().ok());
    status.filter_map(|it| numbers(&it)).map(|(seen, own)| (own, seen)).collect()
}

/// The first number of `NSpid`, which is valid in this namespace, and the last, which is valid in
/// the thread's own.
fn numbers(status: &Status) -> Option<(u32, u32)> {
    let numbers: Vec<u32> = status.numbers("NSpid");
    Some((*numbers.first()?, *numbers.last()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_a_number_in_each_namespace() {
        let of = |text: &[u8]| numbers(&Status::new(text.to_vec()));
        assert_eq!(of(b"Name:\t\xc3\nNSpid:\t4711\t30\t7\n"), Some((4711, 7)));
        assert_eq!(of(b"NSpid:\t4711\n"), Some((4711, 4711)));
        assert_eq!(of(b"Name:\tx\n"), None);
    }

    #[test]
    fn the_threads_of_this_process_have_the_same_numbers_here() {
        let own = std::process::id();
        assert_eq!(NamespaceThreads::of(own).seen(own), Some(own));
        assert!(all(own).contains(&(own, own)));
    }
}
