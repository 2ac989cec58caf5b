// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes preemptions and migrations in a program, block by block.
//!
//! All blocks of a class have the same number of interventions. In a block with a lower dose, most interventions
//! cause no event and only hold the thread where it is. So the cost of an intervention itself is the same in all
//! blocks, and so is the pinning.

mod freezer;
mod held;
mod intruder;
mod rates;
mod subject;

use std::time::Duration;

use corehop_plan::experiment::{
    DrawStream, InterventionBlock, InterventionClass, Interventions, ProgramCosts,
};
use corehop_plan::machine::{MachineError, RunEnd, Sink};
use corehop_plan::platform::{Affinity, Platform};
use corehop_plan::samples::{Batch, CausedRecord};
use corehop_plan::stop::Stop;
use corehop_plan::units::{Cpu, CpuList, Nanos};
use corehop_plan::workload::Event;
use serde_json::json;

use self::freezer::Freezer;
use self::held::{HoldError, SubjectThread, ThreadHold};
use self::intruder::Intruder;
use self::rates::EventRate;
use self::subject::Subject;
use super::{LiveMachine, failed, not_possible};
use crate::placing::{PlacingError, ProgressSource};
use corehop_system::clock::{TickClock, monotonic_ns, sleep_until};
use corehop_system::supervisor::Guard;
use corehop_system::thread::{affinity, punctual, set_affinity};

/// The time between two signs of life for the supervisor, in nanoseconds.
const BEAT_NS: u64 = 1_000_000_000;
/// The longest sleep between two checks whether the block is over, in nanoseconds.
const LOOK_NS: u64 = 20_000_000;
/// The longest wait for a preemptor's end, as a multiple of its length.
const PATIENCE: u32 = 20;
/// The time between two listings of the threads of a command that is measured as a whole run, in nanoseconds.
const RELIST_NS: u64 = 50_000_000;
/// The number of threads that are checked before an event is given up because none of them runs.
const LOOKS: usize = 8;

/// The message for a program that ends too early.
const TOO_SHORT: &str = "the program ended before one round was over: omit --progress so that corehop runs the program repeatedly, or give the program more work";

impl LiveMachine {
    /// Runs the blocks of a plan that causes events in a program.
    pub(super) fn cause_events(
        &mut self,
        plan: &Interventions,
        seed: u64,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        // No other run moves threads meanwhile.
        let _alone = self
            .guard
            .lock_whole_host()
            .map_err(|error| MachineError::Refused(error.to_string()))?;
        let own = affinity().map_err(|error| failed("reading the affinity", error))?;
        punctual();
        let mut session = CausingSession::begin(self, plan, seed, (own.clone(), sink.stop()))?;
        let ended = self.rounds(&mut session, sink);
        // What the program has started in the last block may still have the CPU of a held thread.
        session.pause(Duration::ZERO);
        // What is left of it is the affinity of a thread that ends soon.
        let _restored = set_affinity(own.iter());
        ended
    }

    fn rounds(
        &mut self,
        session: &mut CausingSession<'_>,
        sink: &mut dyn Sink,
    ) -> Result<RunEnd, MachineError> {
        let plan = session.plan;
        let mut round = None;
        for (number, block) in plan.blocks.iter().enumerate() {
            if round != Some(block.round) {
                round = Some(block.round);
                self.distances(session)?;
            }
            let Some(record) = session.block(number, block)? else {
                let ended = session.subject.as_mut().is_some_and(Subject::has_ended);
                if ended && block.round == 0 {
                    return Err(failed("causing events", TOO_SHORT));
                }
                if ended {
                    self.facts.insert("ended_after_blocks".to_owned(), json!(number));
                }
                return Ok(if ended { RunEnd::Complete } else { RunEnd::Stopped });
            };
            session.rates[block.class].take(block.dose, &record);
            let goes_on = sink.take(Batch::ProgramCosts(&[record])).map_err(MachineError::Sink)?;
            if !goes_on || session.stop.is_asked() {
                return Ok(RunEnd::Stopped);
            }
        }
        Ok(RunEnd::Complete)
    }

    /// Measures the current distance of two CPUs for each class of migration.
    fn distances(&mut self, session: &mut CausingSession<'_>) -> Result<(), MachineError> {
        self.park_partners()?;
        let usable = self.platform.usable();
        let exchange = |InterventionClass { event, .. }: &InterventionClass| {
            let class = Affinity::ALL.into_iter().find(|it| it.event() == event.word())?;
            let pair = self.platform.pair(&usable, class).filter(|_| event.is_migration())?;
            self.partners.as_ref()?.exchange(pair)
        };
        session.exchanges = session.classes.iter().map(exchange).collect();
        Ok(())
    }
}

/// A plan in progress that causes events in a program.
struct CausingSession<'a> {
    plan: &'a Interventions,
    classes: Vec<InterventionClass>,
    platform: Platform,
    progress: Option<ProgressSource>,
    to_stderr: bool,
    clock: TickClock,
    draw: DrawStream,
    hold: ThreadHold,
    /// The preemptors, one for each CPU and working set; empty if the plan has no preemptions.
    intruders: Vec<Intruder>,
    /// The freezer for idle leaves, or the reason why this host has none.
    freezer: Result<Freezer, String>,
    /// The rates at which events are caused, by class of event.
    rates: Vec<EventRate>,
    exchanges: Vec<Option<f64>>,
    /// The program, if it runs longer than one block.
    subject: Option<Subject>,
    /// The CPUs of the controlling thread.
    own: CpuList,
    stop: Stop,
}

/// The counts of the current block.
#[derive(Debug, Default)]
struct BlockCounts {
    tried: u64,
    events: u64,
    /// A migration that is not confirmed yet: the thread, and the CPU it came from.
    pending: Option<(SubjectThread, Cpu)>,
    /// The reason why an idle leave was refused.
    refused: Option<String>,
}

/// The schedule of the interventions in a block.
struct LookSchedule {
    period_ns: f64,
    dose: u32,
    number: u32,
}

impl LookSchedule {
    /// Creates the schedule for a block with this dose, of a class whose smallest dose has the rate `per_second`.
    fn of(per_second: f64, dose: u32) -> Self {
        let most = ProgramCosts::DOSES.into_iter().max().unwrap_or(1);
        Self { period_ns: 1e9 / (per_second * f64::from(most)), dose, number: 0 }
    }

    /// The time to the next intervention, random around the period so that interventions do not synchronise with the
    /// program.
    fn wait_ns(&self, draw: &mut DrawStream) -> u64 {
        (self.period_ns * draw.between(0.5, 1.5)) as u64
    }

    /// Whether the next intervention causes an event.
    fn causes(&mut self) -> bool {
        let most = ProgramCosts::DOSES.into_iter().max().unwrap_or(1);
        self.number += 1;
        // Evenly spread: of every `most` looks, `dose` ones.
        self.number * self.dose / most > (self.number - 1) * self.dose / most
    }
}

impl<'a> CausingSession<'a> {
    fn begin(
        machine: &LiveMachine,
        plan: &'a Interventions,
        seed: u64,
        (own, stop): (CpuList, Stop),
    ) -> Result<Self, MachineError> {
        let refused = |why: String| MachineError::Refused(why);
        let progress = plan.progress.as_deref().map(str::parse::<ProgressSource>);
        let progress = progress.transpose().map_err(refused)?;
        let usable = machine.platform.usable();
        let preempts = plan.events.contains(&Event::Preemption);
        let pairs = usable.iter().flat_map(|cpu| plan.preemptors.iter().map(move |it| (cpu, it)));
        let park = |(cpu, work)| Intruder::park(work, cpu, machine.clock, seed);
        let intruders = pairs.filter(|_| preempts).map(park).collect::<Result<_, _>>();
        let to_stderr = machine.options.output_to_stderr;
        let classes = plan.classes();
        let absent = |it: &InterventionClass| it.length.map_or(0.0, |length| length.get() as f64);
        let mut session = Self {
            plan,
            platform: machine.platform.clone(),
            progress,
            to_stderr,
            clock: machine.clock,
            draw: DrawStream::new(seed, 77),
            hold: ThreadHold::new(Guard::clone(&machine.guard)),
            intruders: intruders.map_err(|error| not_possible(&error))?,
            freezer: Freezer::of_host(Guard::clone(&machine.guard)),
            rates: classes.iter().map(|it| EventRate::new(plan.share, absent(it))).collect(),
            exchanges: vec![None; classes.len()],
            classes,
            subject: None,
            own,
            stop,
        };
        if session.progress.is_some() {
            session.subject = Some(session.subject()?);
            // The threads' CPU time is known from the second look on.
            session.pause(Duration::from_millis(50));
        }
        Ok(session)
    }

    fn subject(&self) -> Result<Subject, MachineError> {
        let begun = Subject::begin(&self.plan.target, self.progress.as_ref(), self.to_stderr);
        begun.map_err(|error: PlacingError| MachineError::Refused(error.to_string()))
    }

    fn pause(&mut self, length: Duration) {
        if let Some(subject) = &mut self.subject {
            subject.threads(&mut self.hold);
        }
        std::thread::sleep(length);
    }

    /// Runs one block. Returns `None` if the program has ended or the run was stopped.
    fn block(
        &mut self,
        number: usize,
        block: &InterventionBlock,
    ) -> Result<Option<CausedRecord>, MachineError> {
        self.hold.beat().map_err(|error| failed("causing events", error))?;
        if let Some(why) = self.cannot_cause(block) {
            let record = CausedRecord { invalid: Some(why), ..CausedRecord::default() };
            return Ok(Some(CausedRecord { block: number as u64, ..record }));
        }
        let record = match self.subject.take() {
            Some(mut subject) => {
                let record = self.window(&mut subject, block);
                self.subject = Some(subject);
                record?
            }
            None => self.whole_run(number, block)?,
        };
        let exchange_ns = self.exchanges.get(block.class).copied().flatten();
        Ok(record.map(|it| CausedRecord { block: number as u64, exchange_ns, ..it }))
    }

    /// The reason why the events of a block cannot be caused on this host.
    fn cannot_cause(&self, block: &InterventionBlock) -> Option<String> {
        let is_leave = self.classes[block.class].event == Event::IdleLeave;
        self.freezer.as_ref().err().filter(|_| is_leave).cloned()
    }

    /// Runs a block during which the program continues to run.
    fn window(
        &mut self,
        subject: &mut Subject,
        block: &InterventionBlock,
    ) -> Result<Option<CausedRecord>, MachineError> {
        let (threads, count) = subject.threads(&mut self.hold);
        let taken = self.taken();
        let before = subject.mark();
        let end = monotonic_ns() + self.plan.block.get();
        let counts = self.looks(subject, threads, block, Some(end))?;
        let after = subject.mark();
        self.rest();
        let Some(counts) = counts.filter(|_| !subject.has_ended()) else { return Ok(None) };
        let span = before.until(&after);
        let record = CausedRecord {
            cpu_ns: span.cpu_ns,
            progress: span.progress,
            wall_ns: span.wall_ns,
            threads: count as u64,
            invalid: span.invalid,
            ..CausedRecord::default()
        };
        Ok(Some(self.counted(record, &counts, taken)))
    }

    /// Runs a block that is a whole run of the command.
    fn whole_run(
        &mut self,
        number: usize,
        block: &InterventionBlock,
    ) -> Result<Option<CausedRecord>, MachineError> {
        // The command inherits the affinity.
        let _restored = set_affinity(self.own.iter());
        let (taken, begin) = (self.taken(), monotonic_ns());
        let mut subject = self.subject()?;
        let counts = self.looks(&mut subject, Vec::new(), block, None)?;
        let wall_ns = (monotonic_ns() - begin) as f64;
        self.rest();
        let Some((counts, (status, cpu_ns))) = counts.zip(subject.ended()) else { return Ok(None) };
        if status != 0 {
            let arm = format!("{} at dose {}", self.classes[block.class], block.dose);
            return Err(MachineError::RunFailed { run: number, arm, status });
        }
        let record = CausedRecord {
            cpu_ns: cpu_ns as f64,
            progress: 1.0,
            wall_ns,
            threads: 1,
            ..CausedRecord::default()
        };
        Ok(Some(self.counted(record, &counts, taken)))
    }

    /// Intervenes in the program until `end` or until the program ends, and causes the events of a block. Returns
    /// `None` if the run was stopped.
    fn looks(
        &mut self,
        subject: &mut Subject,
        mut threads: Vec<SubjectThread>,
        block: &InterventionBlock,
        end: Option<u64>,
    ) -> Result<Option<BlockCounts>, MachineError> {
        let class = self.classes[block.class].clone();
        let mut schedule = LookSchedule::of(self.rates[block.class].per_second(), block.dose);
        let mut counts = BlockCounts::default();
        let mut next = monotonic_ns() + schedule.wait_ns(&mut self.draw);
        // The block has begun with a sign of life.
        let (mut listed, mut beaten) = (0, monotonic_ns() + BEAT_NS);
        loop {
            let now = monotonic_ns();
            if now >= beaten {
                // A block, or a whole run, may last longer than the supervisor waits for a sign of life.
                self.hold.beat().map_err(|error| failed("causing events", error))?;
                beaten = now + BEAT_NS;
            }
            if self.stop.is_asked() {
                return Ok(None);
            }
            if end.is_some_and(|end| now >= end) || subject.has_ended() {
                break;
            }
            if end.is_none() && now >= listed {
                (threads, listed) = (subject.threads(&mut self.hold).0, now + RELIST_NS);
            }
            if now >= next {
                let causes = schedule.causes();
                self.look(&threads, &class, causes, &mut counts)?;
                next = (next + schedule.wait_ns(&mut self.draw)).max(now);
                continue;
            }
            let until = next.min(end.unwrap_or(u64::MAX)).min(now + LOOK_NS);
            sleep_until(until.cast_signed());
        }
        counts.see();
        self.hold.let_go();
        Ok(Some(counts))
    }

    /// Makes one intervention, which holds a thread where it is or causes an event.
    fn look(
        &mut self,
        threads: &[SubjectThread],
        class: &InterventionClass,
        causes: bool,
        counts: &mut BlockCounts,
    ) -> Result<(), MachineError> {
        let event = class.event;
        counts.see();
        counts.tried += u64::from(causes);
        let Some((thread, at)) = self.next_thread(threads, event) else { return Ok(()) };
        let to = if causes && event.is_migration() {
            self.destination(&thread, at, event)
        } else {
            Some(at)
        };
        let Some(to) = to else { return Ok(()) };
        if !self.hold.is_astray(&thread) {
            match self.hold.hold(&thread, to) {
                Ok(()) => {}
                Err(HoldError::Gone) => return Ok(()),
                Err(HoldError::Refused(error)) => return Err(may_not(&thread, &error)),
                Err(HoldError::Unwatched(error)) => return Err(failed("causing events", error)),
            }
        }
        if to != at {
            counts.pending = Some((thread.clone(), at));
        }
        self.stand_aside(to);
        match (class.length, &class.preemptor) {
            (Some(length), Some(preemptor)) if causes => {
                let ticks = self.clock.ticks(length.get() as f64);
                let is_meant = |it: &&Intruder| it.cpu() == at && it.work() == preemptor;
                self.intruders.iter().find(is_meant).map(|it| it.go(ticks));
            }
            (Some(length), None) => self.leave(&thread, causes.then_some(length), counts),
            _ => {}
        }
        Ok(())
    }

    /// Freezes a thread for `length`. Without a length, the freezer only moves the thread into the cgroup in which it
    /// could be frozen, as in the other blocks.
    fn leave(&mut self, thread: &SubjectThread, length: Option<Nanos>, counts: &mut BlockCounts) {
        let Ok(freezer) = &mut self.freezer else { return };
        let left = match (freezer.take(thread), length) {
            // Moving a thread takes its time: the thread may sleep by now.
            (Ok(true), Some(length)) if thread.now().is_some_and(|(_, runs)| runs) => {
                freezer.freeze(length)
            }
            (taken, _) => taken.map(|_| false),
        };
        match left {
            Ok(frozen) => counts.events += u64::from(frozen),
            // This user may make no cgroup there, or the cgroup allows none below: the block says so.
            Err(why) => drop(counts.refused.get_or_insert(why)),
        }
    }

    /// The thread of the next event: a thread with a choice of CPUs for a migration, or a thread that runs for a
    /// preemption.
    fn next_thread(
        &mut self,
        threads: &[SubjectThread],
        event: Event,
    ) -> Option<(SubjectThread, Cpu)> {
        let first = self.draw.below(threads.len().max(1) as u64) as usize;
        let all = threads.iter().cycle().skip(first).take(threads.len().min(LOOKS));
        for thread in all.filter(|it| !event.is_migration() || !self.hold.is_astray(it)) {
            match thread.now() {
                Some((cpu, runs)) if runs || event.is_migration() => {
                    return Some((thread.clone(), cpu));
                }
                _ => {}
            }
        }
        None
    }

    /// A CPU of the thread at the distance that the event requires.
    fn destination(&mut self, thread: &SubjectThread, from: Cpu, event: Event) -> Option<Cpu> {
        let of_class = |&to: &Cpu| to != from && Event::resuming(&self.platform, from, to) == event;
        let usable = thread.home.intersection(&self.platform.usable());
        let all: Vec<Cpu> = usable.iter().filter(of_class).collect();
        (!all.is_empty()).then(|| *self.draw.from(&all))
    }

    /// Moves the controlling thread off the program thread's CPU, if there is another CPU.
    fn stand_aside(&self, cpu: Cpu) {
        let others = CpuList::new(self.own.iter().filter(|&it| it != cpu));
        if !others.is_empty() {
            // Without it, this thread may wake where the program runs: in all blocks alike.
            let _same = set_affinity(others.iter());
        }
    }

    /// The number of orders so far for which preemptors got their CPUs, and their total time on these CPUs.
    fn taken(&self) -> (u64, u64) {
        let add =
            |(took, busy): (u64, u64), it: &Intruder| (took + it.took().0, busy + it.took().1);
        self.intruders.iter().fold((0, 0), add)
    }

    /// Waits until preemptions end, and restores the controlling thread's CPUs.
    fn rest(&self) {
        if let Ok(freezer) = &self.freezer {
            freezer.let_go();
        }
        let longest = self.plan.lengths.iter().max().map_or(0, |it| it.get());
        let patience = Duration::from_nanos(longest) * PATIENCE + Duration::from_millis(100);
        let end = monotonic_ns() + patience.as_nanos() as u64;
        while monotonic_ns() < end && !self.intruders.iter().all(Intruder::rests) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let _restored = set_affinity(self.own.iter());
    }

    /// Adds to a record the events that were caused in the block.
    fn counted(
        &self,
        record: CausedRecord,
        counts: &BlockCounts,
        before: (u64, u64),
    ) -> CausedRecord {
        let (took, busy_ns) = self.taken();
        let events = counts.events + took - before.0;
        CausedRecord {
            tried: counts.tried,
            events,
            invalid: record.invalid.or_else(|| counts.refused.clone()),
            preemptors_ns: (busy_ns - before.1) as f64,
            ..record
        }
    }
}

impl BlockCounts {
    /// Counts the previous migration if its thread is now on another CPU.
    fn see(&mut self) {
        let Some((thread, from)) = self.pending.take() else { return };
        self.events += u64::from(thread.now().is_some_and(|(cpu, _)| cpu != from));
    }
}

fn may_not(thread: &SubjectThread, error: &std::io::Error) -> MachineError {
    MachineError::NotPossible {
        what: format!("moving thread {} of process {}", thread.tid, thread.pid),
        why: error.to_string(),
        remedy: "run as its user, or with CAP_SYS_NICE".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_class_have_the_same_looks_and_a_dose_causes_its_part_of_them() {
        for dose in ProgramCosts::DOSES {
            let mut schedule = LookSchedule::of(25.0, dose);
            assert!((schedule.period_ns - 10e6).abs() < 1e-6);
            let caused = (0..400).filter(|_| schedule.causes()).count();
            assert_eq!(caused, 100 * dose as usize);
        }
        let mut half = LookSchedule::of(25.0, 2);
        let spread: Vec<bool> = (0..4).map(|_| half.causes()).collect();
        assert_eq!(spread, [false, true, false, true]);
    }

    #[test]
    fn looks_keep_no_step() {
        let (schedule, mut draw) = (LookSchedule::of(25.0, 1), DrawStream::new(1, 1));
        let waits: Vec<u64> = (0..1000).map(|_| schedule.wait_ns(&mut draw)).collect();
        assert!(waits.iter().all(|it| (5_000_000..=15_000_000).contains(it)));
        let mean = waits.iter().sum::<u64>() / 1000;
        assert!((9_500_000..10_500_000).contains(&mean), "{mean}");
    }
}
