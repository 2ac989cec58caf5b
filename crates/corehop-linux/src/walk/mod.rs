// SPDX-License-Identifier: MIT OR Apache-2.0
//! A timed, certified walk over a working set; this module is the safe interface of `walk.s`.

pub(crate) mod code;
mod own_job;
#[cfg(test)]
mod tests;

use std::arch::global_asm;

use corehop_plan::experiment::DrawStream;
use corehop_plan::units::Bytes;
use corehop_plan::workload::{CHUNK_LINES, LINE, Page, Pattern, WorkingSet};

use crate::memory::{Linked, MemoryError};
use crate::rseq::Rseq;
use crate::set_memory::SetMemory;
use corehop_system::clock::Ticks;

pub(crate) use own_job::OwnJob;

global_asm!(include_str!("walk.s"));

unsafe extern "C" {
    fn corehop_list_read(context: *mut Context);
    fn corehop_list_read_plain(context: *mut Context);
    fn corehop_list_write(context: *mut Context);
    fn corehop_list_write_plain(context: *mut Context);
    fn corehop_list4_read(context: *mut Context);
    fn corehop_list4_read_plain(context: *mut Context);
    fn corehop_list4_write(context: *mut Context);
    fn corehop_list4_write_plain(context: *mut Context);
    fn corehop_list8_read(context: *mut Context);
    fn corehop_list8_read_plain(context: *mut Context);
    fn corehop_list8_write(context: *mut Context);
    fn corehop_list8_write_plain(context: *mut Context);
    fn corehop_scan_read(context: *mut Context);
    fn corehop_scan_read_plain(context: *mut Context);
    fn corehop_scan_write(context: *mut Context);
    fn corehop_scan_write_plain(context: *mut Context);
    fn corehop_code(context: *mut Context);
    fn corehop_call(context: *mut Context);
    fn corehop_empty(context: *mut Context);
}

/// The input and output of the loops in `walk.s`; the numbers below are field offsets used there. One address bit
/// distinguishes the two buffers of chains, which requires the alignment.
#[repr(C, align(128))]
#[derive(Debug, Clone)]
struct Context {
    /// 0: the start of the walk; for a list also its end.
    start: u64,
    /// 8: the ticks above which a chunk has a hole.
    threshold: u64,
    /// 16: the time stamp at which the walk gives up.
    deadline: u64,
    /// 24: the thread's rseq area; 0 for none.
    rseq: u64,
    /// 32: the share of written elements or words, as a fraction of 2^64.
    step: u64,
    /// 40: the accumulator of the share at the start.
    accumulator: u64,
    /// 48 and 56: the time stamps of the start and the end.
    began: u64,
    ended: u64,
    /// 64: the number of times the kernel aborted the sequence.
    aborts: u64,
    /// 72 and 80: the number of chunks with a hole, and the ticks lost in them.
    holes: u64,
    lost: u64,
    /// 88: 1 if the walk ended because of the deadline.
    given_up: u64,
    /// 96: the end of a scan; the descriptor of code; or the memory size of the user's own job.
    end: u64,
    /// 104 and 112: used by eight chains; or the address of the user's own job and its pass number.
    work: [u64; 2],
    /// 120: 1 if the sequence was found disarmed.
    disarmed: u64,
    /// 128: the elements of the chains, in two buffers.
    chains: [u64; 16],
    /// 256: the target of writes whose values are not used.
    scratch: [u64; 8],
}

/// The result of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkResult {
    /// The time stamp at the start.
    pub began: Ticks,
    /// The duration of the walk, including its time stamps.
    pub ticks: Ticks,
    /// The number of times the scheduler interrupted the walk.
    pub aborts: u32,
    /// The number of chunks with a hole.
    pub holes: u64,
    /// The number of ticks spent in chunks with a hole.
    pub lost: Ticks,
    /// Whether the walk reached its end before the deadline.
    pub complete: bool,
    /// Whether restartable sequences watched the whole walk.
    pub watched: bool,
    /// Whether holes in the walk would have been detected.
    pub stamped: bool,
}

/// A loop of `walk.s`.
type Loop = unsafe extern "C" fn(*mut Context);

/// A working set that the thread owning `rseq` can walk.
#[derive(Debug)]
pub struct Walk {
    run: Loop,
    plain: Option<Loop>,
    context: Box<Context>,
    chunks: u64,
    own_job: bool,
}

impl Walk {
    /// A walk over `linked`, which must outlive the walk.
    pub(crate) fn new(set: &WorkingSet, linked: &Linked) -> Self {
        let writes = set.write_ratio > 0.0;
        let (run, plain): (Loop, Option<Loop>) = match (set.pattern, set.chains, writes) {
            (Pattern::Code, ..) => (corehop_code, None),
            (Pattern::Scan, _, false) => (corehop_scan_read, Some(corehop_scan_read_plain)),
            (Pattern::Scan, _, true) => (corehop_scan_write, Some(corehop_scan_write_plain)),
            (Pattern::Shuffled, 4, false) => (corehop_list4_read, Some(corehop_list4_read_plain)),
            (Pattern::Shuffled, 4, true) => (corehop_list4_write, Some(corehop_list4_write_plain)),
            (Pattern::Shuffled, 8, false) => (corehop_list8_read, Some(corehop_list8_read_plain)),
            (Pattern::Shuffled, 8, true) => (corehop_list8_write, Some(corehop_list8_write_plain)),
            (Pattern::Shuffled, _, false) => (corehop_list_read, Some(corehop_list_read_plain)),
            (Pattern::Shuffled, _, true) => (corehop_list_write, Some(corehop_list_write_plain)),
        };
        let share =
            if set.pattern == Pattern::Scan { set.write_ratio } else { set.written_lines() };
        let (step, accumulator) = fraction(share);
        let mut context = Box::new(Context::idle(step, accumulator));
        context.start = linked.start;
        context.end = linked.end;
        context.chains[..8].copy_from_slice(&linked.chains);
        let chunks = set.lines() / CHUNK_LINES;
        Self { run, plain, context, chunks, own_job: false }
    }

    /// A call of the user's own job on `memory` (address and size), which must outlive the walk.
    ///
    /// The call is a single chunk without internal time stamps, and cannot be interrupted.
    pub(crate) fn calling(job: OwnJob, memory: (u64, usize)) -> Self {
        let mut context = Box::new(Context::idle(0, 0));
        context.start = memory.0;
        context.end = memory.1 as u64;
        context.work = [job.address(), 0];
        Self { run: corehop_call, plain: None, context, chunks: 1, own_job: true }
    }

    /// Walks once without time stamps between the chunks; `None` if this kind of set has no such walk.
    fn walk_plain(&mut self) -> Option<WalkResult> {
        let plain = self.plain?;
        self.context.prepare(None, Ticks::MAX, Ticks::MAX);
        // SAFETY: as in `walk`.
        unsafe { plain(&raw mut *self.context) };
        Some(self.context.walked())
    }

    /// Returns the number of chunks in a walk.
    pub const fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Walks once over the working set. A chunk of more than `threshold` ticks has a hole; at the time stamp `deadline`
    /// the walk gives up.
    pub fn walk(&mut self, rseq: Option<&Rseq>, threshold: Ticks, deadline: Ticks) -> WalkResult {
        let rseq = rseq.filter(|_| !self.own_job);
        self.context.prepare(rseq, threshold, deadline);
        // SAFETY: `new` filled the context for this function from memory that outlives `self`, and
        // the rseq area, if any, belongs to the calling thread because `Rseq` cannot leave it. Of a
        // function of the user's it is the user who says that it keeps to its memory.
        unsafe { (self.run)(&raw mut *self.context) };
        if self.own_job {
            self.context.work[1] += 1;
        }
        WalkResult { stamped: !self.own_job, ..self.context.walked() }
    }

    /// Whether the walk calls a function of the user.
    pub(crate) const fn is_own_job(&self) -> bool {
        self.own_job
    }
}

impl Context {
    const fn idle(step: u64, accumulator: u64) -> Self {
        Self {
            start: 0,
            threshold: 0,
            deadline: 0,
            rseq: 0,
            step,
            accumulator,
            began: 0,
            ended: 0,
            aborts: 0,
            holes: 0,
            lost: 0,
            given_up: 0,
            end: 0,
            work: [0; 2],
            disarmed: 0,
            chains: [0; 16],
            scratch: [0; 8],
        }
    }

    fn prepare(&mut self, rseq: Option<&Rseq>, threshold: Ticks, deadline: Ticks) {
        self.rseq = rseq.map_or(0, Rseq::address);
        (self.threshold, self.deadline) = (threshold, deadline);
        (self.aborts, self.holes, self.lost) = (0, 0, 0);
        (self.given_up, self.disarmed) = (0, 0);
    }

    const fn walked(&self) -> WalkResult {
        WalkResult {
            began: self.began,
            ticks: self.ended.wrapping_sub(self.began),
            aborts: self.aborts as u32,
            holes: self.holes,
            lost: self.lost,
            complete: self.given_up == 0,
            watched: self.rseq != 0 && self.disarmed == 0,
            stamped: true,
        }
    }
}

/// Converts a share to a step and a first value of a 64-bit accumulator, whose carries occur with that share.
fn fraction(share: f64) -> (u64, u64) {
    if share >= 1.0 {
        // With both at their largest every addition carries.
        (u64::MAX, u64::MAX)
    } else {
        ((share * 2_f64.powi(64)) as u64, 0)
    }
}

/// Returns the cost of a walk's time stamps around nothing, in ticks: the median of many measurements.
pub fn stamp_overhead() -> Ticks {
    let mut context = Box::new(Context::idle(0, 0));
    let mut ticks: Vec<Ticks> = (0..1001)
        .map(|_| {
            context.prepare(None, Ticks::MAX, Ticks::MAX);
            // SAFETY: the empty walk reads and writes its context only.
            unsafe { corehop_empty(&raw mut *context) };
            context.walked().ticks
        })
        .collect();
    ticks.sort_unstable();
    ticks[ticks.len() / 2]
}

/// The cost that time stamps between chunks add to a walk, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct StampCost {
    /// The cost once per walk, because the end of a stamped loop is predicted less well.
    pub(crate) once: f64,
    /// The cost for each chunk of the walk.
    pub(crate) per_chunk: f64,
}

impl StampCost {
    /// Measures the cost for walks of `set`'s kind: how much longer two small walks over cached lines take with
    /// stamps than without.
    ///
    /// Among uncached lines a stamp overlaps with the accesses and costs less than a hundredth of a chunk's time.
    pub(crate) fn measure(set: &WorkingSet) -> Result<Self, MemoryError> {
        const SMALL: u64 = 4;
        const LARGER: u64 = 20;
        let (small, larger) = (extra_ticks(set, SMALL)?, extra_ticks(set, LARGER)?);
        let per_chunk = ((larger - small) / (LARGER - SMALL) as f64).max(0.0);
        Ok(Self { once: (small - per_chunk * SMALL as f64).max(0.0), per_chunk })
    }

    /// The ticks that stamps add to a walk of this many chunks.
    pub(crate) fn of(self, chunks: u64) -> Ticks {
        (self.once + self.per_chunk * chunks as f64) as Ticks
    }
}

/// By how many ticks a walk over `chunks` cached chunks is longer with stamps than without: the median of many pairs.
fn extra_ticks(set: &WorkingSet, chunks: u64) -> Result<f64, MemoryError> {
    let wss = Bytes::new(chunks * CHUNK_LINES * LINE);
    let small = WorkingSet { wss, page: Page::Base, node: None, ..set.clone() };
    let memory = SetMemory::new(&small, &mut DrawStream::new(0, 0))?;
    let mut walk = Walk::new(&small, memory.linked());
    let mut pair = || {
        let stamped = walk.walk(None, Ticks::MAX, Ticks::MAX).ticks as f64;
        Some(stamped - walk.walk_plain()?.ticks as f64)
    };
    let mut extra: Vec<f64> = (0..301).filter_map(|_| pair()).collect();
    extra.sort_by(f64::total_cmp);
    Ok(extra.get(extra.len() / 2).copied().unwrap_or_default())
}

#[cfg(test)]
mod layout {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_context_lies_as_the_assembly_expects_it() {
        let offsets = [
            (offset_of!(Context, start), 0),
            (offset_of!(Context, threshold), 8),
            (offset_of!(Context, deadline), 16),
            (offset_of!(Context, rseq), 24),
            (offset_of!(Context, step), 32),
            (offset_of!(Context, accumulator), 40),
            (offset_of!(Context, began), 48),
            (offset_of!(Context, ended), 56),
            (offset_of!(Context, aborts), 64),
            (offset_of!(Context, holes), 72),
            (offset_of!(Context, lost), 80),
            (offset_of!(Context, given_up), 88),
            (offset_of!(Context, end), 96),
            (offset_of!(Context, work), 104),
            (offset_of!(Context, disarmed), 120),
            (offset_of!(Context, chains), 128),
            (offset_of!(Context, scratch), 256),
        ];
        assert!(offsets.iter().all(|(is, should)| is == should), "{offsets:?}");
    }

    #[test]
    fn a_share_of_all_always_carries_and_a_half_every_second_time() {
        let carries = |share| {
            let (step, mut accumulator) = fraction(share);
            (0..1000)
                .filter(|_| {
                    let (sum, carry) = accumulator.overflowing_add(step);
                    accumulator = sum;
                    carry
                })
                .count()
        };
        assert_eq!([carries(0.0), carries(0.25), carries(0.5), carries(1.0)], [0, 250, 500, 1000]);
    }
}
