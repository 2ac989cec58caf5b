// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library's count of calls beside the kernel's.

use corehop_shim::board::{Count, Wishes};
use corehop_shim::call::Call;
use corehop_shim::tally::Tally;

use crate::bpf::BpfError;
use crate::bpf::calls::{CallCounts, Size};

/// The calls of one entry of the kernel's table that qualify, by both counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covered {
    /// The call. `open` is counted with `openat`, `stat` with `fstatat`: libc makes the one by the other.
    pub call: Call,
    /// The calls that the kernel saw.
    pub by_kernel: u64,
    /// Those that came to the library.
    pub by_library: u64,
}

impl Covered {
    /// The calls that did not come to the library: of the loader and of libc itself, or made without libc.
    pub fn missed(&self) -> u64 {
        self.by_kernel.saturating_sub(self.by_library)
    }
}

/// Begins to count the calls of programs that this process starts.
pub(super) fn begin(wishes: &Wishes) -> Result<CallCounts, BpfError> {
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

fn size(call: Call) -> Size {
    match call {
        Call::Readv | Call::Writev => Size::Vector,
        Call::Recvmsg | Call::Sendmsg => Size::Message,
        Call::Sendfile => Size::Fourth,
        Call::Fstatat => Size::PathFlagsFourth,
        Call::Statx => Size::PathFlagsThird,
        _ if call.has_size() => Size::Third,
        _ => Size::None,
    }
}

/// Both counts of each call that the kernel saw.
pub(super) fn of(counts: &CallCounts, tally: &Tally) -> Vec<Covered> {
    let families = Call::ALL.into_iter().filter(|&call| head(call) == call);
    let all = families.map(|call| {
        let family = || Call::ALL.into_iter().filter(|&other| head(other) == call);
        let numbers = family().flat_map(Call::kernel_numbers);
        let here: u64 = numbers.map(|&number| counts.of(number)).sum();
        // A partner's calls are not among the kernel's.
        let there: u64 = family().map(|call| tally.total(call, Count::There)).sum();
        let by_library = family().map(|call| qualifying(tally, call)).sum();
        Covered { call, by_kernel: here + there, by_library }
    });
    all.filter(|it| it.by_kernel > 0).collect()
}

/// The call under which it is counted.
fn head(call: Call) -> Call {
    match call {
        Call::Open => Call::Openat,
        Call::Stat => Call::Fstatat,
        other => other,
    }
}

/// The calls that qualify, whatever became of them.
fn qualifying(tally: &Tally, call: Call) -> u64 {
    // Of a call without a size the small ones are those that are never off-loaded: the kernel's count has them under
    // the name of its family.
    let never = if call.has_size() { 0 } else { tally.total(call, Count::Small) };
    let fates =
        [Count::There, Count::Repeated, Count::Predicted, Count::Guarded, Count::Busy, Count::Kept];
    fates.map(|fate| tally.total(call, fate)).into_iter().sum::<u64>() + never
}
