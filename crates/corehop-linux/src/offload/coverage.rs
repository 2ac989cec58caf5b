// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the library's count of calls with the kernel's count.

use corehop_shim::board::{CallFate, OffloadSettings};
use corehop_shim::call::Call;
use corehop_shim::tally::CallTally;

use crate::bpf::BpfError;
use crate::bpf::calls::{CallCounts, CallSize};

/// The qualifying calls of one entry in the kernel's system call table, by both counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCoverage {
    /// The system call. `open` is counted with `openat`, and `stat` with `fstatat`, because libc implements the
    /// former by the latter.
    pub call: Call,
    /// The number of calls that the kernel counted.
    pub by_kernel: u64,
    /// The number of calls that reached the library.
    pub by_library: u64,
}

impl CallCoverage {
    /// Returns the number of calls that did not reach the library: calls of the loader and of libc itself, or calls
    /// made without libc.
    pub fn missed(&self) -> u64 {
        self.by_kernel.saturating_sub(self.by_library)
    }
}

/// Starts counting the calls of programs that this process starts.
pub(super) fn begin(wishes: &OffloadSettings) -> Result<CallCounts, BpfError> {
    let counts = CallCounts::open()?;
    for call in Call::ALL {
        for &number in call.kernel_numbers() {
            counts.count(number, wishes.thresholds[call as usize], size(call));
        }
    }
    let failed = |source| BpfError::Failed { what: "following a program".to_owned(), source };
    counts.follow_children().map_err(failed)?;
    Ok(counts)
}

fn size(call: Call) -> CallSize {
    match call {
        Call::Readv | Call::Writev => CallSize::Vector,
        Call::Recvmsg | Call::Sendmsg => CallSize::Message,
        Call::Sendfile => CallSize::Fourth,
        Call::Fstatat => CallSize::PathFlagsFourth,
        Call::Statx => CallSize::PathFlagsThird,
        _ if call.has_size() => CallSize::Third,
        _ => CallSize::None,
    }
}

/// For each call that the kernel counted, the count of the kernel and the count of the library.
pub(super) fn of(counts: &CallCounts, tally: &CallTally) -> Vec<CallCoverage> {
    let families = Call::ALL.into_iter().filter(|&call| head(call) == call);
    let all = families.map(|call| {
        let family = || Call::ALL.into_iter().filter(|&other| head(other) == call);
        let numbers = family().flat_map(Call::kernel_numbers);
        let here: u64 = numbers.map(|&number| counts.of(number)).sum();
        // A partner's calls are not among the kernel's.
        let there: u64 = family().map(|call| tally.total(call, CallFate::There)).sum();
        let by_library = family().map(|call| qualifying(tally, call)).sum();
        CallCoverage { call, by_kernel: here + there, by_library }
    });
    all.filter(|it| it.by_kernel > 0).collect()
}

/// The call under whose name this call is counted.
fn head(call: Call) -> Call {
    match call {
        Call::Open => Call::Openat,
        Call::Stat => Call::Fstatat,
        other => other,
    }
}

/// The number of qualifying calls, executed on either core.
fn qualifying(tally: &CallTally, call: Call) -> u64 {
    // Of a call without a size the small ones are those that are never off-loaded: the kernel's count has them under
    // the name of its family.
    let never = if call.has_size() { 0 } else { tally.total(call, CallFate::Small) };
    let fates = [
        CallFate::There,
        CallFate::Repeated,
        CallFate::Predicted,
        CallFate::Guarded,
        CallFate::Busy,
        CallFate::Kept,
    ];
    fates.map(|fate| tally.total(call, fate)).into_iter().sum::<u64>() + never
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_where_the_kernel_has_it_among_the_arguments() {
        let sizes = [
            (Call::Readv, CallSize::Vector),
            (Call::Writev, CallSize::Vector),
            (Call::Recvmsg, CallSize::Message),
            (Call::Sendmsg, CallSize::Message),
            (Call::Sendfile, CallSize::Fourth),
            (Call::Fstatat, CallSize::PathFlagsFourth),
            (Call::Statx, CallSize::PathFlagsThird),
            (Call::Read, CallSize::Third),
            (Call::Openat, CallSize::None),
        ];
        for (call, expected) in sizes {
            assert!(size(call) == expected, "{call:?}");
        }
    }

    #[test]
    fn a_call_that_libc_makes_by_another_is_counted_with_it_and_what_came_is_not_missed() {
        assert!(head(Call::Open) == Call::Openat && head(Call::Stat) == Call::Fstatat);
        assert!(head(Call::Read) == Call::Read);
        let missed = |by_kernel, by_library| {
            CallCoverage { call: Call::Read, by_kernel, by_library }.missed()
        };
        assert_eq!([missed(7, 5), missed(5, 5), missed(5, 7)], [2, 0, 0]);
    }
}
