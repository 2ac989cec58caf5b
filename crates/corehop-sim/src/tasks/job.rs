// SPDX-License-Identifier: MIT OR Apache-2.0
//! One job of a task, which goes through the phases of Fig. 1 of Bastoni et al.

use corehop_plan::samples::{JobOutcome, Touch};
use corehop_plan::units::Cpu;
use corehop_plan::workload::WorkingSet;

use super::super::chunk::touch;
use super::super::machine_state;
use super::super::times::Picos;

/// The activity of a job while it has a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobPhase {
    Cold,
    Warm,
    /// The job touches single words until it has lost its CPU once.
    Waiting,
    Resumed,
    /// The job touches single words until its execution time is over.
    Rest,
}

/// The CPU of a job, and the time since which the job has the CPU.
#[derive(Debug, Clone, Copy)]
struct CpuTenure {
    cpu: usize,
    since: Picos,
}

/// The CPU that a job lost, the time of the loss, and the task that got the CPU.
#[derive(Debug, Clone, Copy)]
struct Lost {
    cpu: usize,
    at: Picos,
    by: Option<usize>,
}

/// An absence of a job: the CPUs before and after, its duration, and the task that took the first CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct AbsenceSpan {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) picos: Picos,
    pub(super) by: Option<usize>,
}

/// A pass of a job over its working set, in progress or complete.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobPass {
    /// The CPUs on which the pass began and ended.
    pub(super) cpus: [usize; 2],
    began: Picos,
    pub(super) picos: Picos,
    pub(super) misses: u64,
    /// The number of times that the job lost its CPU during the pass.
    pub(super) switches: u32,
    /// Whether the pass visited all lines of the working set.
    complete: bool,
}

/// A simulated job of a task.
#[derive(Debug, Clone)]
pub(super) struct SimulatedJob {
    /// The job's number within its task.
    pub(super) number: u64,
    pub(super) release: Picos,
    wcet: Picos,
    /// The number of visits in a pass.
    lines: usize,
    pub(super) doing: JobPhase,
    /// The number of visits left in the current pass.
    left: usize,
    pass: JobPass,
    /// The passes that have ended.
    pub(super) over: Vec<JobPass>,
    pub(super) began: Option<Picos>,
    /// The job's execution time before the current stay on a CPU.
    pub(super) executed: Picos,
    seat: Option<CpuTenure>,
    /// The time of the job's next visit to a line.
    next: Picos,
    /// The remaining time of the visit that the loss of the CPU interrupted.
    owed: Picos,
    lost: Option<Lost>,
    pub(super) away: Option<AbsenceSpan>,
    course: JobOutcome,
    pub(super) preemptions: u32,
    pub(super) migrations: u32,
}

impl SimulatedJob {
    /// Creates a job that has no CPU yet.
    pub(super) fn new(number: u64, release: Picos, wcet: Picos) -> Self {
        Self {
            number,
            release,
            wcet,
            lines: 0,
            doing: JobPhase::Cold,
            left: 0,
            pass: JobPass::default(),
            over: Vec::with_capacity(3),
            began: None,
            executed: 0,
            seat: None,
            next: 0,
            owed: 0,
            lost: None,
            away: None,
            course: JobOutcome::NotAway,
            preemptions: 0,
            migrations: 0,
        }
    }

    /// The time since the job lost its CPU; None if the job has a CPU or never had one.
    pub(super) fn away_until(&self, now: Picos) -> Option<Picos> {
        self.lost.map(|lost| now - lost.at)
    }

    /// Gives the job a CPU; each of the job's passes makes `lines` visits.
    pub(super) fn gain(&mut self, cpu: usize, now: Picos, lines: usize) {
        self.lines = lines;
        if let Some(lost) = self.lost.take() {
            if lost.cpu == cpu {
                self.preemptions += 1;
            } else {
                self.migrations += 1;
            }
            let picos = now - lost.at;
            self.away.get_or_insert(AbsenceSpan { from: lost.cpu, to: cpu, picos, by: lost.by });
            if self.doing == JobPhase::Waiting {
                self.resume(cpu, now);
            }
        }
        if self.began.is_none() {
            self.began = Some(now);
            self.begin(JobPhase::Cold, cpu, now);
        }
        self.seat = Some(CpuTenure { cpu, since: now });
        self.next = now + std::mem::take(&mut self.owed);
    }

    /// Begins the resumed touch of the working set if enough execution time is left.
    fn resume(&mut self, cpu: usize, now: Picos) {
        let cold = self.over.first().map_or(0, |pass| pass.picos);
        if (self.wcet - self.executed) * 2 > cold * 3 {
            self.begin(JobPhase::Resumed, cpu, now);
        } else {
            (self.course, self.doing) = (JobOutcome::TooShort, JobPhase::Rest);
        }
    }

    /// Takes the CPU from the job, on behalf of a job of task `by`.
    pub(super) fn lose(&mut self, now: Picos, by: Option<usize>) {
        let Some(seat) = self.seat.take() else { return };
        self.executed += now - seat.since;
        self.lost = Some(Lost { cpu: seat.cpu, at: now, by });
        let spoils = match self.doing {
            JobPhase::Cold => JobOutcome::AwayInCold,
            JobPhase::Warm => JobOutcome::AwayInWarm,
            JobPhase::Resumed => JobOutcome::AwayAgain,
            JobPhase::Waiting | JobPhase::Rest => return,
        };
        self.owed = self.next.saturating_sub(now);
        self.pass.switches += 1;
        if self.course == JobOutcome::NotAway {
            self.course = spoils;
        }
    }

    fn begin(&mut self, doing: JobPhase, cpu: usize, now: Picos) {
        self.doing = doing;
        self.left = self.lines;
        self.pass = JobPass { cpus: [cpu; 2], began: now, ..JobPass::default() };
    }

    /// The time of the job's next event while on a CPU, and whether the job then ends.
    pub(super) fn event(&self) -> Option<(Picos, bool)> {
        let seat = self.seat?;
        let spent = seat.since + self.wcet.saturating_sub(self.executed);
        Some((spent.min(self.next), spent <= self.next))
    }

    /// Whether the job visits a line of its pass now; otherwise the job at most touches a word while
    /// waiting.
    pub(super) fn passes(&mut self, now: Picos) -> bool {
        while self.left == 0 && !self.waits() {
            self.pass_over(now, true);
        }
        !self.waits()
    }

    fn waits(&self) -> bool {
        matches!(self.doing, JobPhase::Waiting | JobPhase::Rest)
    }

    /// Whether the job's next visit is the first of a pass.
    pub(super) fn is_at_start(&self) -> bool {
        self.left == self.lines
    }

    /// Records a visit that takes `took` and has `misses` misses.
    pub(super) fn visited(&mut self, now: Picos, took: Picos, misses: u64) {
        self.next = now + took;
        if !self.waits() {
            self.left -= 1;
            self.pass.misses += misses;
        }
    }

    /// Ends the current pass.
    fn pass_over(&mut self, now: Picos, complete: bool) {
        let cpu = self.seat.map_or(self.pass.cpus[0], |seat| seat.cpu);
        let picos = now - self.pass.began;
        self.over.push(JobPass { cpus: [self.pass.cpus[0], cpu], picos, complete, ..self.pass });
        match self.doing {
            JobPhase::Cold => self.begin(JobPhase::Warm, cpu, now),
            JobPhase::Warm if self.course == JobOutcome::NotAway => self.doing = JobPhase::Waiting,
            JobPhase::Resumed if self.course == JobOutcome::NotAway => {
                (self.course, self.doing) = (JobOutcome::Sample, JobPhase::Rest);
            }
            _ => self.doing = JobPhase::Rest,
        }
    }

    /// Ends the job, and returns its outcome.
    pub(super) fn end(&mut self, now: Picos) -> JobOutcome {
        if self.doing == JobPhase::Resumed {
            self.pass_over(now, self.left == 0);
        }
        if let Some(seat) = self.seat.take() {
            self.executed += now - seat.since;
        }
        let short = matches!(self.doing, JobPhase::Cold | JobPhase::Warm);
        if short && self.course == JobOutcome::NotAway { JobOutcome::TooShort } else { self.course }
    }
}

impl JobPass {
    /// The record of the job.
    pub(super) fn touch(&self, set: &WorkingSet, cpu: impl Fn(usize) -> Cpu) -> Touch {
        let undisturbed = machine_state::PassCounts {
            picos: self.picos,
            misses: self.misses,
            ..machine_state::PassCounts::default()
        };
        let [began_on, ended_on] = self.cpus.map(cpu);
        let (switches, complete) = (self.switches, self.complete);
        Touch { ended_on, switches, complete, ..touch(began_on, set, undisturbed) }
    }
}
