// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the kernel's scheduling overheads from its own tracepoints.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corehop_plan::experiment::Tasks;
use corehop_plan::machine::{MachineError, RunEnd, Sink, SinkError};
use corehop_plan::samples::{Batch, KernelObservation, Overhead, OverheadRecord, Vantage};
use corehop_plan::stop::Stop;
use corehop_plan::units::{Cpu, CpuList};

use super::streams::{Durations, KernelFacts, durations};
use super::{KernelTimingError, OverheadReceiver, RunSets, threads};
use crate::bpf::events::Events;
use crate::live::offsets::Offsets;
use corehop_system::clock::TickClock;
use corehop_system::proc;

/// The tracepoints that each quantity needs.
const NEEDS: [(&str, &[&str]); 4] = [
    ("SCHEDULE and CXS", &["sched_entry_tp", "sched_switch", "sched_exit_tp"]),
    (
        "TICK",
        &["local_timer_entry", "local_timer_exit", "hrtimer_expire_entry", "hrtimer_expire_exit"],
    ),
    (
        "RELEASE and RELEASE-LATENCY",
        &["hrtimer_expire_entry", "hrtimer_expire_exit", "sched_waking"],
    ),
    ("IPI-LATENCY", &["ipi_send_cpu", "reschedule_entry", "call_function_single_entry"]),
];

/// The task sets under which overheads are measured.
pub(super) struct MeasuredTaskSets<'a> {
    /// The task sets, identified by their numbers of tasks.
    pub(super) tasks: &'a Tasks,
    /// The function that runs some of the task sets.
    pub(super) run: &'a mut RunSets<'a>,
}

/// Measures overheads in the kernel while task sets run, or while two threads cause the events.
pub(super) fn measure(
    cpus: &CpuList,
    sets: Option<MeasuredTaskSets<'_>>,
    missing: &mut Vec<String>,
    (take, stop): (&mut OverheadReceiver<'_>, &Stop),
) -> Result<(KernelObservation, RunEnd), KernelTimingError> {
    let recorder = Recorder::open(cpus, stop)?;
    let (by_count, lost, end) = match sets {
        None => recorder.of_two_threads(cpus)?,
        Some(sets) => recorder.of_sets(cpus, sets, take)?,
    };
    let mut all = Durations::default();
    for found in by_count.values() {
        all.append(found.clone());
    }
    let observation = recorder.account(cpus, &all, lost);
    let of_count = by_count.into_iter().flat_map(|(of, found)| records(found, of, cpus));
    let records: Vec<OverheadRecord> = of_count.collect();
    let goes_on = take(&records).map_err(MachineError::Sink)?;
    if end == RunEnd::Stopped || !goes_on {
        return Ok((observation, RunEnd::Stopped));
    }
    missing.extend(recorder.missing(&records));
    Ok((observation, RunEnd::Complete))
}

/// The times by number of tasks and replicate, the number of lost events, and how the measurement ended. A replicate
/// is one run of a set with newly started threads.
type KernelTimesResult = (BTreeMap<(u32, u32), Durations>, u64, RunEnd);

/// The recorder of events, with other facts about the kernel.
struct Recorder {
    events: Arc<Events>,
    offsets: Offsets,
    known: KernelFacts,
    /// Tells whether the run was stopped.
    stop: Stop,
}

/// Discards job records, because only the kernel's times count.
struct NoJobs<'a, 'b> {
    take: &'a mut OverheadReceiver<'b>,
    stop: Stop,
}

impl Sink for NoJobs<'_, '_> {
    fn take(&mut self, _: Batch<'_>) -> Result<bool, SinkError> {
        (self.take)(&[])
    }

    fn stop(&self) -> Stop {
        self.stop.clone()
    }
}

impl Recorder {
    fn open(cpus: &CpuList, stop: &Stop) -> Result<Self, KernelTimingError> {
        let clock = TickClock::calibrate(Duration::from_millis(20));
        let offsets = Offsets::measure(cpus, &clock)?;
        let events = Arc::new(Events::open(cpus)?);
        let tick = proc::text("/proc/kallsyms").ok().and_then(|it| tick_handler(&it));
        let known = KernelFacts { process: std::process::id(), tick };
        Ok(Self { events, offsets, known, stop: stop.clone() })
    }

    /// The durations since recording began, and the number of lost events.
    fn end(&self) -> (Durations, u64) {
        let (streams, lost) = self.events.end();
        (durations(&streams, self.known, |cpu| self.offsets.ahead(cpu).0), lost)
    }

    fn of_two_threads(&self, cpus: &CpuList) -> Result<KernelTimesResult, KernelTimingError> {
        self.events.begin();
        let done = threads::exercise(cpus, &self.stop);
        let (found, lost) = self.end();
        done?;
        Ok((BTreeMap::from([((threads::TASKS, 0), found)]), lost, RunEnd::Complete))
    }

    /// Measures overheads while task sets run. Pairs of CPUs first interrupt each other, because such interrupts are
    /// rare in small or partitioned sets.
    fn of_sets(
        &self,
        cpus: &CpuList,
        sets: MeasuredTaskSets<'_>,
        take: &mut OverheadReceiver<'_>,
    ) -> Result<KernelTimesResult, KernelTimingError> {
        self.events.begin();
        threads::interrupt_each_other(cpus, &self.stop);
        let (found, mut lost) = self.end();
        let interprocessor = found.interprocessor;
        let of_pairs = Durations { interprocessor, ..Durations::default() };
        let mut by_count = BTreeMap::from([((threads::TASKS, 0), of_pairs)]);
        let MeasuredTaskSets { tasks, run: run_sets } = sets;
        for run in 0..tasks.runs.len() {
            let tasks = tasks.of_run(run);
            let mut no_jobs = NoJobs { take, stop: self.stop.clone() };
            let ran = run_sets(&tasks, &self.events, &mut no_jobs);
            let (found, more) = self.end();
            lost += more;
            let count = tasks.runs[0].tasks.len() as u32;
            let before = by_count.range((count, 0)..=(count, u32::MAX)).next_back();
            let replicate = before.map_or(0, |((_, last), _)| last + 1);
            by_count.insert((count, replicate), found);
            if ran? == RunEnd::Stopped {
                return Ok((by_count, lost, RunEnd::Stopped));
            }
        }
        Ok((by_count, lost, RunEnd::Complete))
    }

    fn account(&self, cpus: &CpuList, found: &Durations, lost: u64) -> KernelObservation {
        let first = cpus.first().unwrap_or_default();
        let residual = Events::residual(cpus, || threads::sleep_often(first)).ok();
        let mut bounds: Vec<f64> = cpus.iter().map(|cpu| self.offsets.ahead(cpu).1).collect();
        bounds.sort_by(f64::total_cmp);
        KernelObservation {
            noting_ns: median(found.noting.clone()).unwrap_or_default(),
            residual_ns: residual.and_then(median),
            clock_bound_ns: bounds.iter().rev().take(2).sum(),
            events: found.noting.len(),
            lost: lost + self.events.missed(),
            unmatched: found.unmatched,
        }
    }

    /// The overheads without a record, with the reason.
    fn missing(&self, records: &[OverheadRecord]) -> Vec<String> {
        let has = |name: &str| {
            records.iter().any(|measured| match measured.overhead {
                Overhead::Decision | Overhead::Switch => name.starts_with("SCHEDULE"),
                Overhead::Tick => name == "TICK",
                Overhead::Release | Overhead::EventLatency | Overhead::WakeUp => {
                    name.starts_with("RELEASE")
                }
                Overhead::OneWay | Overhead::RoundTrip => name == "IPI-LATENCY",
            })
        };
        let why = |(name, tracepoints): &(&str, &[&str])| {
            let lacking = |(it, _): &&(&str, String)| tracepoints.contains(it);
            let why = match self.events.missing().iter().find(lacking) {
                Some((_, why)) => why.clone(),
                None if *name == "TICK" && self.known.tick.is_none() => {
                    "/proc/kallsyms does not show where its handler is".to_owned()
                }
                None => "none was seen (is this a PID namespace, or one CPU only?)".to_owned(),
            };
            format!("{name}, in the kernel: {why}")
        };
        NEEDS.iter().filter(|(name, _)| !has(name)).map(why).collect()
    }
}

/// The records of one replicate with this number of tasks on `cpus`.
fn records(
    found: Durations,
    (tasks, replicate): (u32, u32),
    cpus: &CpuList,
) -> Vec<OverheadRecord> {
    let single = [
        (Overhead::Decision, found.scheduling),
        (Overhead::Switch, found.switch),
        (Overhead::Tick, found.tick),
        (Overhead::Release, found.release),
        (Overhead::EventLatency, found.event_latency),
    ];
    let single = single.into_iter().map(|(overhead, ns)| (overhead, None, ns));
    let both = |&((from, to), _): &((Cpu, Cpu), _)| cpus.contains(from) && cpus.contains(to);
    let pairs = found.interprocessor.into_iter().filter(both);
    let pairs = pairs.map(|(pair, ns)| (Overhead::OneWay, Some(pair), ns));
    let all = single.chain(pairs).filter(|(.., ns)| !ns.is_empty());
    let vantage = Vantage::Kernel;
    let replicate = Some(replicate);
    let record = |(overhead, between, ns)| OverheadRecord {
        overhead,
        vantage,
        tasks,
        between,
        replicate,
        ns,
    };
    all.map(record).collect()
}

/// The lower half of the address of the tick's handler, from the kernel's list of symbols, which hides addresses from
/// unprivileged users.
fn tick_handler(symbols: &str) -> Option<u32> {
    symbols.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (address, name) = (words.next()?, words.nth(1)?);
        // The latter on older kernels.
        let it = ["tick_nohz_handler", "tick_sched_timer"].contains(&name);
        let address = u64::from_str_radix(address, 16).ok()?;
        (it && address != 0).then_some(address as u32)
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use corehop_plan::experiment::{GivenTask, TaskOrigin, TaskSets};
    use corehop_plan::units::{Bytes, Nanos};
    use corehop_plan::workload::scheduler::Scheduler;
    use corehop_plan::workload::{Load, WorkingSet};

    use super::*;
    use corehop_system::discover::{SysRoot, discover};

    /// A recorder whose events the test counts by hand, for the first usable CPU.
    fn by_hand() -> Option<(Recorder, CpuList)> {
        let cpus = CpuList::new(discover(&SysRoot::live()).unwrap().usable().first());
        let events = match Events::by_hand(&cpus, 3) {
            Ok(events) => Arc::new(events),
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let offsets =
            Offsets::measure(&cpus, &TickClock::calibrate(Duration::from_millis(5))).unwrap();
        let known = KernelFacts { process: 0, tick: None };
        Some((Recorder { events, offsets, known, stop: Stop::default() }, cpus))
    }

    /// Creates task sets with these numbers of tasks, in this order.
    fn sets(counts: &[usize]) -> Tasks {
        let platform = discover(&SysRoot::live()).unwrap();
        let of = |count: usize| {
            let task = GivenTask {
                budget: None,
                name: None,
                wcet: Nanos::from_micros(100),
                period: Nanos::from_millis(10),
                deadline: Nanos::from_millis(10),
                priority: None,
                cpu: None,
                cpus: Vec::new(),
                set: WorkingSet::list(Bytes::from_kib(4), 0.5),
            };
            let sets = TaskSets {
                scheduler: Scheduler::Eevdf,
                sched_ext: None,
                source: TaskOrigin::Given(vec![task; count]),
                duration: Nanos::from_secs(1),
                loads: vec![Load::Idle],
                share: 0.5,
                paired: false,
                cpus: CpuList::default(),
                cluster_level: None,
            };
            sets.tasks(&platform, 1).unwrap()
        };
        let mut all = of(counts[0]);
        all.runs = counts.iter().flat_map(|&count| of(count).runs).collect();
        all
    }

    #[test]
    fn the_lost_events_of_all_runs_are_told_and_sets_of_one_size_are_replicates() {
        let Some((recorder, cpus)) = by_hand() else { return };
        let tasks = sets(&[2, 3, 3]);
        let first = cpus.first().unwrap().0;
        let mut lost = [4, 0, 5].into_iter();
        let mut run = |_: &Tasks, events: &Arc<Events>, _: &mut dyn Sink| {
            events.begin();
            events.set_count(first, 8 + lost.next().unwrap());
            Ok(RunEnd::Complete)
        };
        let mut take = |_: &[OverheadRecord]| Ok(true);
        let sets = MeasuredTaskSets { tasks: &tasks, run: &mut run };
        let (by_count, lost, end) = recorder.of_sets(&cpus, sets, &mut take).unwrap();
        assert_eq!((lost, end), (9, RunEnd::Complete));
        // The first of two tasks are the pairs of CPUs.
        assert_eq!(by_count.into_keys().collect::<Vec<_>>(), [(2, 0), (2, 1), (3, 0), (3, 1)]);
        let told = recorder.account(&cpus, &Durations::default(), lost);
        assert_eq!((told.lost, told.events), (9, 0), "no program was missed: there is none");
    }

    #[test]
    fn a_run_that_is_stopped_keeps_what_there_is_and_begins_no_further_one() {
        let Some((recorder, cpus)) = by_hand() else { return };
        let tasks = sets(&[2, 3]);
        let mut runs = 0;
        let mut run = |_: &Tasks, _: &Arc<Events>, _: &mut dyn Sink| {
            runs += 1;
            Ok(RunEnd::Stopped)
        };
        let mut take = |_: &[OverheadRecord]| Ok(true);
        let sets = MeasuredTaskSets { tasks: &tasks, run: &mut run };
        let (by_count, _, end) = recorder.of_sets(&cpus, sets, &mut take).unwrap();
        assert_eq!((by_count.len(), end), (2, RunEnd::Stopped));
        assert_eq!(runs, 1);
    }

    #[test]
    fn times_become_records_with_their_kind_their_pair_and_their_replicate() {
        let pair = |from, to| (Cpu(from), Cpu(to));
        let found = Durations {
            scheduling: vec![1.0],
            switch: vec![2.0],
            release: vec![3.0],
            event_latency: vec![4.0],
            interprocessor: [(pair(0, 1), vec![5.0]), (pair(0, 7), vec![6.0])].into(),
            ..Durations::default()
        };
        let cpus = CpuList::new([Cpu(0), Cpu(1)]);
        let rows = records(found, (3, 2), &cpus);
        let told: Vec<_> = rows.iter().map(|it| (it.overhead, it.between, it.ns[0])).collect();
        let expected = [
            (Overhead::Decision, None, 1.0),
            (Overhead::Switch, None, 2.0),
            // No tick was seen; CPU 7 is not among the CPUs.
            (Overhead::Release, None, 3.0),
            (Overhead::EventLatency, None, 4.0),
            (Overhead::OneWay, Some(pair(0, 1)), 5.0),
        ];
        assert_eq!(told, expected);
        assert!(rows.iter().all(|it| (it.tasks, it.replicate) == (3, Some(2))));
        assert!(rows.iter().all(|it| it.vantage == Vantage::Kernel));
    }

    #[test]
    fn the_ticks_handler_is_found_where_addresses_are_shown() {
        let symbols = "ffffffff81434210 T tick_sched_timer_dying\n\
                       ffffffff814332e0 t tick_nohz_handler\nffffffff81430000 T tick_setup\n";
        assert_eq!(tick_handler(symbols), Some(0x8143_32e0));
        assert_eq!(tick_handler("0000000000000000 t tick_nohz_handler\n"), None);
        assert_eq!(tick_handler(""), None);
    }

    #[test]
    fn the_median_is_one_of_the_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(3.0), "the upper of the middle two");
        assert_eq!(median(vec![]), None);
    }
}
