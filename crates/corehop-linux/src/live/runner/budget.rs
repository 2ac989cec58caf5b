// SPDX-License-Identifier: MIT OR Apache-2.0
//! The duty budget of a job: the expected duration of its steps, the waits before them, and their end.
//!
//! No step waits between the touches of a job, because other threads would use the caches meanwhile. So a job begins
//! when all of its steps fit on every CPU that they use, and gives up when it has used the time that the ledgers
//! allow.

use corehop_plan::experiment::{Job, Step};
use corehop_plan::machine::MachineError;
use corehop_plan::units::{Bytes, Cpu};
use corehop_plan::workload::{Absence, LineState, Page, WorkingSet};

use super::Runner;
use crate::duty::{self, BUDGET_NS, PLANNED_NS};
use crate::live::calibrate::TickCalibration;
use crate::live::seat::ThreadResources;
use crate::memory::MemoryError;
use crate::walk::StampCost;
use corehop_system::clock::{self, Ticks, now, sleep_until};
use corehop_system::thread::SchedulingPolicy;

/// The time for which one step of the calibration may keep a CPU busy, in nanoseconds.
const CALIBRATION_NS: f64 = BUDGET_NS / 2.0;

impl Runner {
    /// The time for which `job` and its preemptor are expected to keep a CPU busy.
    pub(super) fn need_ns(&self, job: &Job) -> f64 {
        job.steps.iter().map(|step| self.step_ns(job, step)).sum()
    }

    /// The time for which `step` of `job` is expected to keep a CPU busy.
    fn step_ns(&self, job: &Job, step: &Step) -> f64 {
        let set = &self.setup.sets[self.setup.plan.cells[job.cell].set];
        match step {
            Step::Leave(away) if away.to_whom == Absence::Preemptor => away.length.get() as f64,
            Step::Leave(_) => 0.0,
            Step::Prepare(LineState::Modified) => {
                set.cold_ns + self.setup.eviction.as_ref().map_or(0.0, |eviction| eviction.last_ns)
            }
            Step::Prepare(LineState::Valid) => set.settling_ns,
            Step::Passes(passes) => f64::from(*passes) * set.cold_ns,
            Step::Touch | Step::Prepare(LineState::Invalid) => set.cold_ns,
        }
    }

    /// The steps of `job`, each with its CPU.
    fn placed(job: &Job) -> impl Iterator<Item = (Cpu, &Step)> {
        job.steps.iter().scan(job.start, |here, step| {
            let on = *here;
            if let Step::Leave(away) = step {
                *here = away.to;
            }
            Some((on, step))
        })
    }

    /// Whether the job alone would exceed the planned part of the budget, or cannot be interrupted.
    ///
    /// Preemptors do not count because they are never real-time, and cache fills do not count because they pause
    /// between pieces.
    pub(super) fn is_long(&mut self) -> bool {
        if self.set().walk.is_own_job() {
            return true;
        }
        let renewing = if self.set().fresh_frames { self.set().renewing_ns } else { 0.0 };
        let job = self.job();
        if renewing.max(self.need_ns(job)) <= PLANNED_NS {
            return false;
        }
        let length = |(cpu, step): (Cpu, &Step)| match step {
            Step::Leave(away) => (cpu, away.length.get() as f64, false),
            Step::Prepare(LineState::Modified) => {
                (cpu, self.step_ns(job, &Step::Prepare(LineState::Invalid)), true)
            }
            _ => (cpu, self.step_ns(job, step), true),
        };
        renewing > PLANNED_NS || !duty::fits(Self::placed(job).map(length))
    }

    /// Takes new page frames, if the job's working set requires them.
    pub(super) fn renew(&mut self) -> Result<(), MachineError> {
        if !self.set().fresh_frames {
            return Ok(());
        }
        self.keep_to_budget(
            self.setup.sets[self.setup.plan.cells[self.job().cell].set].renewing_ns,
        );
        let set = self.setup.plan.sets[self.setup.plan.cells[self.job().cell].set].clone();
        let (begin, clock) = (now(), self.setup.clock);
        self.set().renew(&set)?;
        self.set().renewing_ns = clock.between(begin, now());
        Ok(())
    }

    /// Waits until the whole job fits on each CPU that it uses.
    pub(super) fn wait_for_job(&mut self) {
        let mut needs: Vec<(Cpu, f64)> = Vec::with_capacity(2);
        for (cpu, step) in Self::placed(self.job()) {
            let need = self.step_ns(self.job(), step);
            match needs.iter_mut().find(|(of, _)| *of == cpu) {
                Some((_, sum)) => *sum += need,
                None => needs.push((cpu, need)),
            }
        }
        self.roomy = needs.iter().all(|&(_, need)| need <= PLANNED_NS);
        self.left.clear();
        self.rest(&needs);
    }

    /// After an absence, lets a job that does not fit as a whole use the time that the absence has freed.
    pub(super) fn replenish(&mut self) {
        if !self.roomy {
            self.enter();
            self.allow(self.here);
        }
    }

    /// Records the thread's busy time, and waits until `need` more fits on the CPU.
    fn keep_to_budget(&mut self, need: f64) {
        self.rest(&[(self.here, need)]);
    }

    fn rest(&mut self, needs: &[(Cpu, f64)]) {
        self.enter();
        let waits = needs.iter().map(|&(cpu, need)| duty::wait_ns(cpu, need));
        let wait = waits.fold(0.0, f64::max);
        if wait > 0.0 {
            sleep_until(clock::read(libc::CLOCK_MONOTONIC) + wait as i64);
            self.tally.duty_ns += wait;
            self.busy_since = now();
            self.awake_since = self.busy_since;
        }
        for &(cpu, _) in needs {
            self.allow(cpu);
        }
    }

    /// Stores the time that the ledger of `cpu` leaves for the job. If the preemptor fits beside the job, both share
    /// that time.
    fn allow(&mut self, cpu: Cpu) {
        let together = self.roomy.then(|| duty::allowance_together_ns(cpu));
        let left = together.unwrap_or_else(|| duty::allowance_ns(cpu));
        match self.left.iter_mut().find(|(of, _)| *of == cpu) {
            Some((_, of_cpu)) => *of_cpu = left,
            None => self.left.push((cpu, left)),
        }
    }

    /// The time at which the job has used what the ledger of this CPU allows; never, if the job is not real-time.
    pub(super) fn deadline(&self, seat: &ThreadResources) -> Ticks {
        if let SchedulingPolicy::Other(_) = seat.policy {
            return Ticks::MAX;
        }
        let left = self.left.iter().find(|(of, _)| *of == self.here).map_or(0.0, |(_, left)| *left);
        self.busy_since + self.setup.clock.ticks(left.max(0.0))
    }

    /// Records the time up to now as busy; the thread continues.
    pub(super) fn enter(&mut self) {
        let until = now();
        self.was_busy(until);
        (self.busy_since, self.awake_since) = (until, until);
        duty::settle(self.here);
    }

    /// Records the time since the job arrived on this CPU as busy.
    pub(super) fn was_busy(&mut self, until: Ticks) {
        self.awake_ns += self.setup.clock.between(self.awake_since, until);
        if let Some((cpu, left, resumed)) = self.preempted.take() {
            let length = self.setup.clock.between(left, resumed);
            duty::enter_preemptor(cpu, length, self.setup.clock.between(resumed, now()));
        }
        let length = self.setup.clock.between(self.busy_since, until);
        duty::enter(self.here, length, self.setup.clock.between(until, now()));
        self.use_up(self.here, length);
    }

    /// Remembers that a preemptor had `cpu`. The ledger is updated later, and not between an absence and a touch.
    pub(super) fn was_preempted(&mut self, cpu: Cpu, left: Ticks, resumed: Ticks) {
        self.preempted = Some((cpu, left, resumed));
        if self.roomy {
            self.use_up(cpu, self.setup.clock.between(left, resumed));
        }
    }

    fn use_up(&mut self, cpu: Cpu, length: f64) {
        if let Some((_, left)) = self.left.iter_mut().find(|(of, _)| *of == cpu) {
            *left -= length;
        }
    }

    /// Evicts the working set's lines, and fills the caches with modified lines of other data.
    ///
    /// The fill takes longer than the duty budget if memory is slow. A fill that takes longer pauses between pieces.
    /// The last pause lasts until the remaining pieces and the job fit together, so that no pause follows the last
    /// line.
    pub(super) fn fill_with_modified(&mut self) {
        self.set().memory.flush();
        let Some(mut eviction) = self.setup.eviction.take() else { return };
        let piece_ns = eviction.last_ns / eviction.pieces();
        let steps = &self.job().steps[self.step..];
        let mut need = steps.iter().map(|step| self.step_ns(self.job(), step)).sum::<f64>();
        need += eviction.last_ns;
        let (begin, waited) = (now(), self.tally.duty_ns);
        eviction.fill(|| {
            self.keep_to_budget(if need <= PLANNED_NS { need } else { piece_ns });
            need -= piece_ns;
        });
        eviction.last_ns = self.setup.clock.between(begin, now()) - (self.tally.duty_ns - waited);
        self.setup.eviction = Some(eviction);
    }

    /// Measures the missing calibration values, on the measured thread and under the running load.
    pub(super) fn calibrate(&mut self) -> Result<(), MemoryError> {
        if self.setup.calibration.is_none() {
            let clock = self.setup.clock;
            let found = TickCalibration::measure(&clock, |walk_ns| self.keep_to_budget(walk_ns))?;
            self.setup.calibration = Some(found);
        }
        let mut known: Vec<(WorkingSet, StampCost)> = Vec::new();
        for at in 0..self.setup.sets.len() {
            if self.setup.sets[at].stamps.is_none() {
                // What a stamp costs does not depend on the size or the pages of a set.
                let kind = WorkingSet {
                    wss: Bytes::default(),
                    page: Page::Base,
                    node: None,
                    ..self.setup.plan.sets[at].clone()
                };
                let same = known.iter().find(|(of, _)| *of == kind).map(|&(_, cost)| cost);
                if same.is_none() {
                    self.keep_to_budget(CALIBRATION_NS);
                }
                let cost =
                    same.map_or_else(|| StampCost::measure(&self.setup.plan.sets[at]), Ok)?;
                known.push((kind, cost));
                self.setup.sets[at].stamps = Some(cost);
            }
        }
        Ok(())
    }
}
