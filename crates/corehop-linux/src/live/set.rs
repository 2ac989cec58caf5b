// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a working set from job to job.

use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::{MachineError, SteadyStateTest};
use corehop_plan::workload::{Page, WorkingSet};

use crate::duty::BUDGET_NS;
use crate::set_memory::SetMemory;
use crate::walk::{OwnJob, StampCost, Walk};
use corehop_system::clock::{TickClock, Ticks, now};

/// A working set with what was measured about it.
#[derive(Debug)]
pub(crate) struct SetState {
    pub(super) memory: SetMemory,
    pub(super) walk: Walk,
    own_job: Option<OwnJob>,
    pub(super) fresh_frames: bool,
    pub(super) lines: u64,
    pub(super) huge_share: f64,
    draw: DrawStream,
    /// The cost of the time stamps between the set's chunks, once a measured thread has determined this cost.
    pub(super) stamps: Option<StampCost>,
    /// The expected time of a cold touch, and of a flush, in nanoseconds.
    pub(super) cold_ns: f64,
    /// The expected time until the caches are in a steady state for the set, in nanoseconds.
    pub(super) settling_ns: f64,
    /// The time that the last renewal of the set's page frames took, in nanoseconds.
    pub(super) renewing_ns: f64,
    /// The ticks of a chunk in the last warm touch; NaN before the first warm touch.
    pub(super) warm_chunk: f64,
}

/// The assumed time of an uncached line before any measurement, in nanoseconds.
const UNKNOWN_LINE_NS: f64 = 300.0;

/// The longest time for reaching a steady state, in nanoseconds: half of the duty budget.
const MOST_SETTLING_NS: f64 = BUDGET_NS / 2.0;

/// The share of the earlier expected time below which a new expected time never falls.
const KEPT: f64 = 0.9;

/// The expected time of a step that was expected to take `before` and took `latest` nanoseconds. Loads vary, and a
/// step that takes longer than expected is given up.
pub(super) fn expected(before: f64, latest: f64) -> f64 {
    latest.max(before * KEPT)
}

impl SetState {
    /// Walks until the caches are in a steady state, or the stamp `deadline` is reached.
    pub(super) fn settle(&mut self, clock: &TickClock, deadline: Ticks) {
        let begin = now();
        let until = deadline.min(begin + clock.ticks(MOST_SETTLING_NS));
        let mut rest = SteadyStateTest::new();
        for _ in 0..SteadyStateTest::MOST_PASSES {
            let pass = self.walk.walk(None, Ticks::MAX, until);
            if !pass.complete || rest.is_reached_by(pass.ticks as f64) {
                break;
            }
        }
        self.settling_ns = expected(self.settling_ns, clock.between(begin, now()));
    }

    /// Walks `passes` times, if that is possible before the stamp `deadline`.
    pub(super) fn pass(&mut self, passes: u32, clock: &TickClock, deadline: Ticks) {
        let until = deadline.min(now() + clock.ticks(MOST_SETTLING_NS));
        for _ in 0..passes {
            if !self.walk.walk(None, Ticks::MAX, until).complete {
                break;
            }
        }
    }

    /// Returns an error sentence if the user's own job cannot be loaded.
    pub(crate) fn new(set: &WorkingSet, memory: SetMemory, seed: u64) -> Result<Self, String> {
        let own_job = set.workload.as_deref().map(OwnJob::load).transpose();
        let own_job = own_job.map_err(|error| error.to_string())?;
        Ok(Self {
            walk: walk(set, own_job, &memory),
            own_job,
            huge_share: if set.page == Page::Base { 0.0 } else { memory.huge_share() },
            memory,
            fresh_frames: set.fresh_frames,
            lines: set.lines(),
            draw: DrawStream::new(seed, 7),
            // A job of the user's own has none.
            stamps: own_job.map(|_| StampCost::default()),
            cold_ns: set.lines() as f64 * UNKNOWN_LINE_NS,
            settling_ns: set.lines() as f64 * UNKNOWN_LINE_NS,
            renewing_ns: set.lines() as f64 * UNKNOWN_LINE_NS,
            warm_chunk: f64::NAN,
        })
    }

    /// Replaces the memory of the set; returns the previous memory.
    pub(super) fn replace(&mut self, set: &WorkingSet, memory: SetMemory) -> SetMemory {
        let before = std::mem::replace(&mut self.memory, memory);
        self.meet(set);
        before
    }

    /// Takes new page frames in an order drawn from `draw`.
    ///
    /// # Errors
    /// Fails if the kernel provides no page frames.
    pub(super) fn renew_with(
        &mut self,
        set: &WorkingSet,
        draw: &mut DrawStream,
    ) -> Result<(), MachineError> {
        let renewed = self.memory.renew(draw);
        renewed.map_err(|error| super::failed("taking fresh page frames", error))?;
        self.meet(set);
        Ok(())
    }

    /// Keeps the page frames and takes another order, drawn from `draw`.
    ///
    /// # Errors
    /// Fails if code cannot be rewritten.
    pub(super) fn reorder(
        &mut self,
        set: &WorkingSet,
        draw: &mut DrawStream,
    ) -> Result<(), MachineError> {
        let reordered = self.memory.reorder(draw);
        reordered.map_err(|error| super::failed("taking another order", error))?;
        self.meet(set);
        Ok(())
    }

    /// Prepares a walk over the new memory, and forgets what was measured for the earlier memory.
    fn meet(&mut self, set: &WorkingSet) {
        self.walk = walk(set, self.own_job, &self.memory);
        self.huge_share = if set.page == Page::Base { 0.0 } else { self.memory.huge_share() };
        self.warm_chunk = f64::NAN;
    }

    /// Takes new page frames, as before the first job.
    ///
    /// # Errors
    /// Fails if the kernel provides no page frames.
    pub(super) fn renew(&mut self, set: &WorkingSet) -> Result<(), MachineError> {
        let renewed = self.memory.renew(&mut self.draw);
        renewed.map_err(|error| super::failed("taking fresh page frames", error))?;
        self.walk = walk(set, self.own_job, &self.memory);
        self.huge_share = if set.page == Page::Base { 0.0 } else { self.memory.huge_share() };
        Ok(())
    }
}

fn walk(set: &WorkingSet, own_job: Option<OwnJob>, memory: &SetMemory) -> Walk {
    match own_job {
        Some(job) => Walk::calling(job, memory.raw()),
        None => Walk::new(set, memory.linked()),
    }
}
