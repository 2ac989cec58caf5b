// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of a task, which runs one job after the other as in Fig. 1 of Bastoni et al.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use corehop_plan::samples::{self, JobOutcome, JobRecord, Leave, TaskJobRecord};

use super::crew::CrewState;
use crate::control_page::{AbsenceMethod, AbsenceNotice, Notice};
use crate::duty::BUDGET_NS;
use crate::live::calibrate::TickCalibration;
use crate::live::counters::HostCounters;
use crate::live::touched::{Touched, net_ns};
use crate::rseq::Rseq;
use crate::set_memory::SetMemory;
use crate::walk::{StampCost, Walk};
use corehop_system::clock::{
    self, TickClock, Ticks, clock_rate_spin, monotonic_ns, now, sleep_until,
};
use corehop_system::thread::{current_cpu, usage};

/// The part of its execution time that a job reserves for waking up and going back to sleep, in nanoseconds.
pub(super) const MARGIN_NS: f64 = 30_000.0;

/// The reserve for touching the working set again, as a multiple of its cold touch.
const RESERVE: f64 = 1.5;

/// The thread IDs of a set, by task.
pub(super) type Peers = Arc<Vec<AtomicU32>>;

/// The resources of a task's thread.
#[derive(Debug)]
pub(super) struct TaskWorker {
    pub(super) run: usize,
    pub(super) task: usize,
    pub(super) wcet_ns: f64,
    pub(super) clock: TickClock,
    pub(super) calibration: TickCalibration,
    pub(super) stamps: StampCost,
    pub(super) memory: SetMemory,
    pub(super) walk: Walk,
    pub(super) lines: u64,
    pub(super) rseq: Option<Rseq>,
    /// The way in which the thread notices absences; `None` without detection.
    pub(super) notice: Option<Notice>,
    pub(super) counters: Arc<HostCounters>,
    pub(super) shared: Arc<CrewState>,
    /// Whether a job was ended early because the run was stopped.
    pub(super) is_cut: bool,
    pub(super) policy: String,
    /// The ticks of a chunk in the last warm touch.
    pub(super) warm_chunk: Option<f64>,
    /// The thread's CPU time before it last slept.
    pub(super) cpu_before: i64,
    /// The next word of the working set to touch while waiting.
    pub(super) word: usize,
}

/// The accounting of the current job.
#[derive(Debug, Default)]
struct JobAccount {
    began_ns: u64,
    /// The thread's CPU time before it was woken for this job, where the kernel's accounting of the job begins.
    cpu_before: i64,
    preemptions: u32,
    migrations: u32,
    first: Option<AbsenceNotice>,
    leave: Option<Leave>,
    touches: Vec<samples::Touch>,
}

impl JobAccount {
    /// The job's CPU time by the kernel's accounting, in nanoseconds.
    fn executed_ns(&self) -> f64 {
        (clock::read(libc::CLOCK_THREAD_CPUTIME_ID) - self.cpu_before) as f64
    }

    /// Adds an absence to the accounting of the job.
    fn note(&mut self, away: &AbsenceNotice) {
        if away.from == away.to {
            self.preemptions += 1;
        } else {
            self.migrations += 1;
        }
        self.first = self.first.or(Some(*away));
    }
}

impl TaskWorker {
    /// Runs job `number`, released at `release_ns` after the run's start at `origin_ns`.
    pub(super) fn job(&mut self, number: u64, release_ns: u64, origin_ns: u64) -> TaskJobRecord {
        let mut job = self.begin();
        let mut course = self.as_in_figure_1(&mut job);
        let mut late = false;
        while self.wait(&mut job, self.budget_ns()).is_some() {
            late = true;
        }
        if late && course == JobOutcome::NotAway {
            course = JobOutcome::TooShort;
        }
        if self.notice.is_none() {
            course = JobOutcome::Unwatched;
            job.touches.clear();
        }
        let since = |ns: u64| ns.saturating_sub(origin_ns);
        TaskJobRecord {
            run: self.run,
            task: self.task,
            job: number,
            release_ns,
            began_ns: since(job.began_ns),
            executed_ns: job.executed_ns().max(0.0) as u64,
            ended_ns: since(monotonic_ns()),
            course,
            preemptions: job.preemptions,
            migrations: job.migrations,
            away: job.first.map(|away| self.away(&away)),
            touched: (job.touches.len() == 3).then(|| self.touched(job, release_ns)),
        }
    }

    /// The execution time of a job, in nanoseconds.
    fn budget_ns(&self) -> f64 {
        self.wcet_ns - MARGIN_NS
    }

    fn begin(&mut self) -> JobAccount {
        // What was before the job began, its sleep above all, is none of its absences.
        let _asleep = self.notice.as_mut().and_then(Notice::away);
        let (began_ns, cpu_before) = (monotonic_ns(), self.cpu_before);
        JobAccount { began_ns, cpu_before, touches: Vec::with_capacity(3), ..JobAccount::default() }
    }

    /// Sleeps until `CLOCK_MONOTONIC` shows `release_ns`.
    pub(super) fn sleep_until(&mut self, release_ns: u64) {
        self.cpu_before = clock::read(libc::CLOCK_THREAD_CPUTIME_ID);
        sleep_until(release_ns.cast_signed());
    }

    /// Executes the touches of a job as in Figure 1: the cold touch, the warm touch, the wait, and the resumed touch
    /// after the first absence.
    fn as_in_figure_1(&mut self, job: &mut JobAccount) -> JobOutcome {
        for interrupted in [JobOutcome::AwayInCold, JobOutcome::AwayInWarm] {
            if job.executed_ns() > self.budget_ns() {
                return JobOutcome::TooShort;
            }
            if let Some(away) = self.touch(job) {
                return if away.preempted == Some(false) {
                    JobOutcome::Blocked
                } else {
                    interrupted
                };
            }
            if job.touches.last().is_some_and(|touch| !touch.complete) {
                return JobOutcome::TooShort;
            }
        }
        let until = self.budget_ns() - RESERVE * job.touches[0].ns;
        let Some(away) = self.wait(job, until) else { return JobOutcome::NotAway };
        if away.preempted == Some(false) {
            return JobOutcome::Blocked;
        }
        job.leave = Some(leave(&away));
        let again = self.touch(job).is_some() || away.times > 1;
        if again { JobOutcome::AwayAgain } else { JobOutcome::Sample }
    }

    /// Touches single words of the working set until the job was away, or has executed for `until` nanoseconds.
    fn wait(&mut self, job: &mut JobAccount, until: f64) -> Option<AbsenceNotice> {
        let left = until - job.executed_ns();
        let mut end = now() + self.clock.ticks(left.max(0.0));
        let (address, bytes) = self.memory.raw();
        while now() < end || self.has_time_left(&mut end, job, until) {
            if self.shared.stop.load(Ordering::Relaxed) {
                self.is_cut = true;
                return None;
            }
            // SAFETY: within the working set, which is mapped as long as `memory` lives; no
            // other thread writes to it.
            unsafe { (address as *const u64).byte_add(self.word).read_volatile() };
            self.word = (self.word + 64) % (bytes & !63);
            if let Some(away) = self.notice.as_mut().and_then(Notice::away) {
                job.note(&away);
                return Some(away);
            }
        }
        None
    }

    /// Whether the job has executed for less than `until` nanoseconds, which is possible because the job was away or
    /// time was stolen from it; sets `end` to the time of the next check.
    fn has_time_left(&self, end: &mut Ticks, job: &JobAccount, until: f64) -> bool {
        let left = until - job.executed_ns();
        *end = now() + self.clock.ticks(left.max(0.0));
        left > 0.0
    }

    /// Touches the working set, and gives up when the execution time is over; returns an absence that happened
    /// meanwhile, if any.
    fn touch(&mut self, job: &mut JobAccount) -> Option<AbsenceNotice> {
        let threshold = self.threshold(job.touches.len());
        // A job that executed for longer would be made to wait for its next period, or hold others up.
        let left = self.budget_ns() - job.executed_ns();
        let deadline = now() + self.clock.ticks(left.clamp(0.0, BUDGET_NS));
        let cpu = current_cpu();
        let asked = self.rseq.is_none().then(usage);
        let spin_ns = self.clock.nanos(clock_rate_spin());
        let before = self.counters.look(cpu, None);
        let begin = now();
        let walked = self.walk.walk(self.rseq.as_ref(), threshold, deadline);
        let (ended_on, elapsed_ns) = (current_cpu(), self.clock.between(begin, now()));
        let after = self.counters.look(cpu, None);
        let spin_after = self.clock.nanos(clock_rate_spin());
        let away = self.notice.as_mut().and_then(|notice| {
            // A walk arms a sequence of its own, after which this method always reports an absence.
            notice.away().filter(|_| notice.method() != AbsenceMethod::Rseq || walked.aborts > 0)
        });
        if let Some(away) = &away {
            job.note(away);
        }
        if job.touches.len() == 1 && walked.holes == 0 && walked.complete {
            self.warm_chunk = Some(walked.ticks as f64 / self.walk.chunks() as f64);
        }
        let (calibration, stamps) = (Some(self.calibration), Some(self.stamps));
        let touched = Touched {
            clock: &self.clock,
            walked,
            cpu,
            ended_on,
            lines: self.lines,
            threshold,
            net_ns: net_ns(&self.clock, &walked, calibration, stamps, &self.walk),
            elapsed_ns,
            usage: asked.map(|before| usage().since(before)),
            seen: self.counters.between(&before, &after),
            spin_ns: spin_ns.min(spin_after),
        };
        let mut touch = touched.record();
        touch.switches = touch.switches.max(away.map_or(0, |away| away.times as u32));
        job.touches.push(touch);
        away
    }

    /// The ticks above which a chunk of touch `number` has a hole; much less if the touch is warm.
    fn threshold(&self, number: usize) -> Ticks {
        match self.warm_chunk {
            Some(usual) if number == 1 => self.calibration.warm_threshold(&self.clock, usual),
            _ => self.calibration.threshold,
        }
    }

    fn away(&self, away: &AbsenceNotice) -> samples::JobAbsence {
        let by = away.by.filter(|&tid| tid != 0);
        let holder =
            |tid| self.shared.peers.iter().position(|peer| peer.load(Ordering::Relaxed) == tid);
        samples::JobAbsence {
            from: away.from,
            to: away.to,
            length_ns: away.length_ns as f64,
            by: by.and_then(holder),
        }
    }

    fn touched(&self, job: JobAccount, release_ns: u64) -> JobRecord {
        JobRecord {
            start_ns: release_ns,
            policy: self.policy.clone(),
            touches: job.touches,
            leaves: job.leave.into_iter().collect(),
            ..JobRecord::default()
        }
    }
}

/// Converts a noticed absence to the absence of a sample.
fn leave(away: &AbsenceNotice) -> Leave {
    let bound_ns = if away.exact { 0.0 } else { away.length_ns as f64 };
    Leave {
        from: away.from,
        to: away.to,
        requested_ns: 0,
        length_ns: away.length_ns as f64,
        bound_ns,
        switch_ns: None,
        preemptor_lines: None,
        load_bytes: None,
        switches: None,
    }
}
