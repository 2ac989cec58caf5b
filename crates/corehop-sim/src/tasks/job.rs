// SPDX-License-Identifier: MIT OR Apache-2.0
//! One job of a task on its way through Fig. 1 of Bastoni et al.

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
    /// Touches single words until it has been away.
    Waiting,
    Resumed,
    /// Touches single words until its execution time is over.
    Rest,
}

/// A CPU that a job has, and since when.
#[derive(Debug, Clone, Copy)]
struct CpuTenure {
    cpu: usize,
    since: Picos,
}

/// A CPU that it lost, when, and to which task.
#[derive(Debug, Clone, Copy)]
struct Lost {
    cpu: usize,
    at: Picos,
    by: Option<usize>,
}

/// An absence: the CPUs before and after it, how long it was, and the task that had the first CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct AbsenceSpan {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) picos: Picos,
    pub(super) by: Option<usize>,
}

/// A pass over the working set, under way or over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobPass {
    /// The CPUs on which it began and ended.
    pub(super) cpus: [usize; 2],
    began: Picos,
    pub(super) picos: Picos,
    pub(super) misses: u64,
    /// The number of times the job lost its CPU meanwhile.
    pub(super) switches: u32,
    /// Whether it visited all its lines.
    complete: bool,
}

/// A job.
#[derive(Debug, Clone)]
pub(super) struct SimulatedJob {
    /// Its number in the task.
    pub(super) number: u64,
    pub(super) release: Picos,
    wcet: Picos,
    /// The visits that a pass consists of.
    lines: usize,
    pub(super) doing: JobPhase,
    /// The visits that are left of this pass.
    left: usize,
    pass: JobPass,
    /// The passes that are over.
    pub(super) over: Vec<JobPass>,
    pub(super) began: Option<Picos>,
    /// The time that it had a CPU before this time.
    pub(super) executed: Picos,
    seat: Option<CpuTenure>,
    /// When it visits the next line.
    next: Picos,
    /// The rest of the visit during which it lost its CPU.
    owed: Picos,
    lost: Option<Lost>,
    pub(super) away: Option<AbsenceSpan>,
    course: JobOutcome,
    pub(super) preemptions: u32,
    pub(super) migrations: u32,
}

impl SimulatedJob {
    /// A job that has no CPU yet.
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

    /// The time since it lost its CPU; None where it has one, or never had.
    pub(super) fn away_until(&self, now: Picos) -> Option<Picos> {
        self.lost.map(|lost| now - lost.at)
    }

    /// It gets a CPU; it passes over so many lines at a time.
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

    /// It touches its working set again, if it has the time.
    fn resume(&mut self, cpu: usize, now: Picos) {
        let cold = self.over.first().map_or(0, |pass| pass.picos);
        if (self.wcet - self.executed) * 2 > cold * 3 {
            self.begin(JobPhase::Resumed, cpu, now);
        } else {
            (self.course, self.doing) = (JobOutcome::TooShort, JobPhase::Rest);
        }
    }

    /// It loses its CPU to a job of task `by`.
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

    /// When something happens to it while it has a CPU, and whether it then ends.
    pub(super) fn event(&self) -> Option<(Picos, bool)> {
        let seat = self.seat?;
        let spent = seat.since + self.wcet.saturating_sub(self.executed);
        Some((spent.min(self.next), spent <= self.next))
    }

    /// Whether it is to visit a line of its pass now; otherwise it touches a word while it waits, if
    /// anything.
    pub(super) fn passes(&mut self, now: Picos) -> bool {
        while self.left == 0 && !self.waits() {
            self.pass_over(now, true);
        }
        !self.waits()
    }

    fn waits(&self) -> bool {
        matches!(self.doing, JobPhase::Waiting | JobPhase::Rest)
    }

    /// Whether its next visit is the first of a pass.
    pub(super) fn is_at_start(&self) -> bool {
        self.left == self.lines
    }

    /// It has begun a visit that keeps it for so long, and met so many misses.
    pub(super) fn visited(&mut self, now: Picos, took: Picos, misses: u64) {
        self.next = now + took;
        if !self.waits() {
            self.left -= 1;
            self.pass.misses += misses;
        }
    }

    /// The pass is over.
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

    /// It ends: how it went.
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
    /// The machine's record of it.
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
