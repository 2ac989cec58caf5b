// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of lost cache affinity in a recorded run: its preemptions and migrations, priced by a cost model.
//!
//! The working set of an unknown program is known only as a range, so the cost is a range too. A thread that blocks
//! and returns to its CPU is not charged, because the scheduler did not cause what other threads did to the cache
//! meanwhile. The report begins with a more basic cost than caches: the time that threads waited for a CPU, and which
//! threads had the CPU meanwhile ([`Waits`]).
//!
//! Absences are counted by thread, class and octave of lengths ([`Absences`](corehop_plan::samples::Absences)), so
//! work and memory do not grow with the number of absences.

mod happened;
mod waits;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use corehop_plan::platform::Platform;
use corehop_plan::samples::{Absence, Lengths, ObservedThread, Recording};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
use corehop_stats::costs::{CostSource, SelectError, Selected, Selection};
use corehop_stats::ordered::Ordered;
use corehop_stats::quantile::median_interval;

use happened::{Happened, ThreadCpuTimes, events, sum};
pub use waits::{Occupant, ProcessCost, Waits};

/// The range of working set sizes that the program may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WssRange {
    /// The smallest working set size.
    pub low: Bytes,
    /// The largest working set size.
    pub high: Bytes,
}

impl WssRange {
    /// Returns the range for a program of which only the resident set is known. The range is from nothing to the
    /// resident set or to the last-level cache, whichever is smaller, because data beyond the last-level cache is
    /// lost without a preemption too.
    pub fn unknown(rss: Option<u64>, platform: &Platform) -> Self {
        let cache = platform.llc_size().map_or(u64::MAX, Bytes::get);
        Self { low: Bytes::new(0), high: Bytes::new(rss.unwrap_or(u64::MAX).min(cache)) }
    }

    /// Returns the range from samples of what the program touched within a time: the 95 % interval of their median.
    /// Returns `None` if there are too few samples for an interval.
    pub fn sampled(touched_bytes: &[u64]) -> Option<Self> {
        let bytes: Vec<f64> = touched_bytes.iter().map(|&bytes| bytes as f64).collect();
        let median = median_interval(&Ordered::new(&bytes).ok()?, 0.05).ok()?;
        let interval = median.interval()?;
        let size = |bytes: f64| Bytes::new(bytes as u64);
        Some(Self { low: size(interval.low), high: size(interval.high) })
    }

    /// Returns the range that contains only this size.
    pub const fn known(wss: Bytes) -> Self {
        Self { low: wss, high: wss }
    }
}

/// A cost between two bounds, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CostBounds {
    /// The expected cost; `None` if only bounds are known, as for an unknown working set.
    pub us: Option<f64>,
    /// The lower bound of the cost.
    pub low_us: f64,
    /// The upper bound; `None` if there is none, as for working sets beyond the measured sizes.
    pub high_us: Option<f64>,
}

impl CostBounds {
    const NOTHING: Self = Self { us: Some(0.0), low_us: 0.0, high_us: Some(0.0) };

    /// Returns the upper bound, or infinity if there is none.
    pub fn most_us(&self) -> f64 {
        self.high_us.unwrap_or(f64::INFINITY)
    }

    /// Reorders the bounds so that the lower bound is not above the upper bound and the expected cost is between
    /// them.
    fn in_order(self) -> Self {
        let (low_us, most_us) = (self.low_us.min(self.most_us()), self.most_us());
        Self { us: self.us.map(|us| us.max(low_us).min(most_us)), low_us, ..self }
    }

    fn add(&mut self, other: Self) {
        self.us = self.us.zip(other.us).map(|(one, other)| one + other);
        self.low_us += other.low_us;
        self.high_us = self.high_us.zip(other.high_us).map(|(one, other)| one + other);
    }

    /// The cost of events if these are all events (`is_all`), or only some of them.
    fn of_all(self, is_all: bool) -> Self {
        if is_all { self } else { Self { us: None, high_us: None, ..self } }
    }

    /// The smallest range that contains both costs.
    fn or(self, other: Self) -> Self {
        Self {
            us: self.us.filter(|_| self == other),
            low_us: self.low_us.min(other.low_us),
            high_us: self.high_us.zip(other.high_us).map(|(one, other)| one.max(other)),
        }
    }
}

/// The absences of one class, and their cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassCost {
    /// The event by which the thread resumes.
    pub event: Event,
    /// The number of absences.
    pub count: u64,
    /// The number of absences that began with a preemption; the others began with blocking.
    pub preempted: u64,
    /// The number of absences that were moves that the thread's affinity required.
    pub pinned: u64,
    /// The number of brief preemptions among the absences. The recording only counts brief preemptions, so each is
    /// assumed to have the mean length of its thread's brief preemptions.
    pub brief: u64,
    /// The median length of the absences, in microseconds.
    pub median_length_us: f64,
    /// The possible relative error of the median, because only the leading bits of many different lengths are kept; 0
    /// if the median is exact.
    pub median_error: f64,
    /// The longest absence, in microseconds.
    pub longest_us: f64,
    /// The cost of the absences; `None` if no costs were given, or the cost is not known.
    pub cost: Option<CostBounds>,
    /// The reason why the cost is not known.
    pub why_not: Option<String>,
}

/// The cost to one thread of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadCost {
    /// The ID of the thread.
    pub tid: u32,
    /// The name of the thread.
    pub name: String,
    /// The thread's CPU time, in nanoseconds; `None` if unknown.
    pub cpu_ns: Option<u64>,
    /// The time that the thread waited for a CPU, in nanoseconds; `None` if unknown.
    pub waited_ns: Option<u64>,
    /// The number of times the thread was preempted.
    pub preemptions: u64,
    /// The number of times the thread resumed on another CPU.
    pub cpu_changes: u64,
    /// The known cost to the thread.
    pub cost: Option<CostBounds>,
}

/// The cost of lost cache affinity in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCost {
    /// The time that threads waited for CPUs.
    pub waits: Waits,
    /// Whether costs were given.
    pub priced: bool,
    /// Whether the costs were measured in the program itself, so that no working set is assumed.
    pub own: bool,
    /// The assumed working set sizes.
    pub wss: WssRange,
    /// The largest size with a known cost, if that is smaller than the largest assumed size.
    pub clipped_to: Option<Bytes>,
    /// The costs by class, nearest class first.
    pub classes: Vec<ClassCost>,
    /// The costs by thread, longest waiting first; `None` if the rows of the threads are missing.
    pub threads: Option<Vec<ThreadCost>>,
    /// The costs by process, longest waiting first; `None` if the rows of the threads are missing.
    pub processes: Option<Vec<ProcessCost>>,
    /// The total cost; `None` without costs.
    pub total: Option<CostBounds>,
    /// The total cost as lower and upper shares of the run time.
    pub share: Option<(f64, Option<f64>)>,
}

/// The cost of a recording, stored in the metadata of its file when the recording ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChargedRecording {
    /// The cost of the recording.
    pub cost: RunCost,
    /// The cost of refilled caches in each run, by run number, if the recording has several runs.
    pub refills: BTreeMap<u64, CostBounds>,
    /// A sentence about the origin of the event costs, or the reason why there are none.
    pub costs: String,
}

impl ChargedRecording {
    /// The name of the metadata entry.
    pub const FACT: &'static str = "charged";

    /// Returns the cost from the metadata of a file, if the recording was charged.
    pub fn of(facts: &serde_json::Map<String, serde_json::Value>) -> Option<Self> {
        Self::deserialize(facts.get(Self::FACT)?).ok()
    }
}

/// The costs to use, as the user named them.
#[derive(Debug)]
pub struct Prices<'a> {
    /// The source of the costs.
    pub source: &'a CostSource,
    /// The selected part of the source.
    pub selection: Selection,
}

/// Returns the event by which a thread resumes after `absence`.
pub fn event(platform: &Platform, absence: &Absence) -> Event {
    Event::resuming(platform, absence.from, absence.to)
}

/// Returns the cost of a run's absences.
///
/// # Errors
/// Returns an error if the requested costs are not in their source.
pub fn run_cost(
    recording: &Recording,
    prices: Option<&Prices<'_>>,
    wss: WssRange,
) -> Result<RunCost, SelectError> {
    let mut pricing = prices.map(|prices| Pricing::new(prices, wss)).transpose()?;
    let mut events = all_events(recording);
    if let Some(pricing) = &mut pricing {
        events = pricing.priced(events)?;
    }
    let clipped_to = pricing.and_then(|pricing| pricing.clipped);
    let own = prices.is_some_and(|it| matches!(it.source, CostSource::Program(_)));
    Ok(RunCost { own, clipped_to, ..summed(recording, &events, prices.is_some(), wss) })
}

/// Returns the cost of each run of a recording with several runs, by run number. The cost has no upper bound if the
/// rows of the threads, which count brief preemptions, are missing.
///
/// # Errors
/// Returns an error if the requested costs are not in their source.
pub fn refills(
    recording: &Recording,
    prices: &Prices<'_>,
    wss: WssRange,
) -> Result<BTreeMap<u64, CostBounds>, SelectError> {
    let mut pricing = Pricing::new(prices, wss)?;
    let (mut refills, times) = (BTreeMap::new(), ThreadCpuTimes::of(recording));
    for run in &recording.runs {
        let threads = recording.threads_of(run.run);
        let of_run = recording.absences.of_run(run.run);
        let events = pricing.priced(events(recording, of_run, (Some(run.run), threads)))?;
        let cost = sum(events.iter(), &times).map(|cost| cost.of_all(!threads.is_empty()));
        refills.extend(cost.map(|cost| (run.run, cost)));
    }
    Ok(refills)
}

/// Returns the events of a run by class, thread and process, without costs.
pub fn uncosted(recording: &Recording, platform: &Platform) -> RunCost {
    let wss = WssRange::unknown(recording.facts.rss_bytes, platform);
    let events = all_events(recording);
    summed(recording, &events, false, wss)
}

/// The events of all runs.
fn all_events(recording: &Recording) -> Vec<Happened> {
    let mut all = events(recording, recording.absences.counts(), (None, &[]));
    let mut brief = |run, threads| all.extend(events(recording, [].into_iter(), (run, threads)));
    for &(run, _) in &recording.first_threads {
        brief(Some(run), recording.threads_of(run));
    }
    if recording.first_threads.is_empty() {
        brief(None, &recording.threads);
    }
    all
}

fn summed(recording: &Recording, all: &[Happened], priced: bool, wss: WssRange) -> RunCost {
    let times = ThreadCpuTimes::of(recording);
    let total = if priced { sum(all.iter(), &times) } else { None };
    let total = total.map(|cost| cost.of_all(recording.known_threads().is_some()));
    let span_us = recording.facts.span_ns.max(1) as f64 / 1e3;
    let share =
        |total: CostBounds| (total.low_us / span_us, total.high_us.map(|high| high / span_us));
    let threads = recording.known_threads().map(|threads| self::threads(threads, all, &times));
    let class = |event| class(event, all, recording.absences.lengths(event), &times);
    RunCost {
        waits: Waits::of(recording),
        priced,
        own: false,
        wss,
        clipped_to: None,
        classes: Event::RESUMING.into_iter().filter_map(class).collect(),
        processes: threads.as_deref().map(|threads| waits::processes(recording, threads)),
        threads,
        share: total.map(share),
        total,
    }
}

fn class(
    event: Event,
    priced: &[Happened],
    lengths: Option<&Lengths>,
    times: &ThreadCpuTimes,
) -> Option<ClassCost> {
    let of: Vec<&Happened> = priced.iter().filter(|it| it.event == event).collect();
    let why_not = of.iter().find_map(|it| it.cost.as_ref().and_then(|cost| cost.as_ref().err()));
    let count = |times: fn(&Happened) -> u64| of.iter().map(|it| times(it)).sum();
    let mut lengths = lengths.cloned().unwrap_or_default();
    for brief in of.iter().filter(|it| it.brief) {
        lengths.take(brief.longest_ns, brief.times);
    }
    Some(ClassCost {
        event,
        count: count(|it| it.times),
        preempted: count(|it| it.preempted),
        pinned: count(|it| it.pinned),
        brief: count(|it| if it.brief { it.times } else { 0 }),
        median_length_us: lengths.median_ns()? / 1e3,
        median_error: lengths.error(),
        longest_us: of.iter().map(|it| it.longest_ns).max()? as f64 / 1e3,
        cost: sum(of.iter().copied(), times),
        why_not: why_not.cloned(),
    })
}

fn threads(
    threads: &[ObservedThread],
    priced: &[Happened],
    times: &ThreadCpuTimes,
) -> Vec<ThreadCost> {
    let mut by_thread: BTreeMap<u32, Vec<&Happened>> = BTreeMap::new();
    for it in priced {
        by_thread.entry(it.thread.1).or_default().push(it);
    }
    let paid = |tid: u32| sum(by_thread.get(&tid)?.iter().copied(), times);
    let row = |thread: &ObservedThread| ThreadCost {
        tid: thread.tid,
        name: thread.name.clone(),
        cpu_ns: thread.cpu_ns,
        waited_ns: thread.waited_ns,
        preemptions: thread.preemptions,
        cpu_changes: thread.cpu_changes,
        cost: paid(thread.tid),
    };
    let mut rows: Vec<ThreadCost> = threads.iter().map(row).collect();
    let dear = |row: &ThreadCost| row.cost.map_or(0.0, |cost| cost.high_us.unwrap_or(cost.low_us));
    rows.sort_by(|a, b| {
        let events = |row: &ThreadCost| row.preemptions + row.cpu_changes;
        let dearest = || dear(b).total_cmp(&dear(a)).then(events(b).cmp(&events(a)));
        b.waited_ns.cmp(&a.waited_ns).then_with(dearest)
    });
    rows
}

/// A cost, or why it is not known, and the shortest measured absence, in microseconds.
type KnownCost = (Result<CostBounds, String>, Option<f64>);

/// Costs by class and length, computed once for each octave of lengths.
struct Pricing<'a> {
    prices: &'a Prices<'a>,
    wss: WssRange,
    clipped: Option<Bytes>,
    known: BTreeMap<(Event, u32), KnownCost>,
}

impl<'a> Pricing<'a> {
    fn new(prices: &'a Prices<'a>, wss: WssRange) -> Result<Self, SelectError> {
        let pricing = Self { prices, wss, clipped: None, known: BTreeMap::new() };
        // What is not there is said before anything is computed.
        pricing.selected(0).map(|_| ())?;
        Ok(pricing)
    }

    /// Adds costs to the events.
    fn priced(&mut self, mut events: Vec<Happened>) -> Result<Vec<Happened>, SelectError> {
        for event in &mut events {
            event.cost = Some(self.cost(event)?.map(|each| event.all_at(each)));
        }
        Ok(events)
    }

    /// The costs for an octave of lengths. A table has no lengths; other sources are queried at the middle of the
    /// octave, unless the user requested a length.
    fn selected(&self, octave: u32) -> Result<Selected<'a>, SelectError> {
        let mut wanted = self.prices.selection.clone();
        if wanted.length.is_none() && !matches!(self.prices.source, CostSource::Table(_)) {
            wanted.length = Some(Nanos::new(3 << octave >> 1));
        }
        self.prices.source.selected(&wanted)
    }

    fn cost(&mut self, it: &Happened) -> Result<Result<CostBounds, String>, SelectError> {
        let key = (it.event, it.octave);
        if !self.known.contains_key(&key) {
            let selected = self.selected(it.octave)?;
            let found = self.over_range(&selected, it.event);
            self.known.insert(key, (found, selected.costs.shortest_us(it.event)));
        }
        let (mut found, shortest_us) = self.known[&key].clone();
        let is_shorter = shortest_us.is_some_and(|us| (it.shortest_ns as f64) < us * 1e3);
        if let (Ok(found), true) = (&mut found, is_shorter) {
            // Between nothing and the cost of the shortest absence that was measured; expected in proportion to the length.
            let part = it.middle_ns() / shortest_us.map_or(1.0, |us| us * 1e3);
            found.us = found.us.map(|us| us * part.min(1.0));
            found.low_us = found.low_us.min(0.0);
        }
        Ok(found)
    }

    /// The smallest and the largest cost in the range of sizes: at its ends, and at the measured sizes in between.
    /// Sizes beyond the largest measured size cost at least as much as that size, and have no upper bound.
    fn over_range(&mut self, selected: &Selected<'_>, event: Event) -> Result<CostBounds, String> {
        if selected.costs.is_of_one_set() {
            return self.bounds_at(selected, event, 0.0);
        }
        let measured = selected.costs.measured(event);
        let largest = measured.iter().copied().fold(0.0, f64::max);
        let kib = |size: Bytes| size.get() as f64 / 1024.0;
        let (low, high) = (kib(self.wss.low), kib(self.wss.high));
        let is_beyond = !measured.is_empty() && high > largest;
        let (low, high) = if is_beyond { (low.min(largest), largest) } else { (low, high) };
        if is_beyond {
            self.clipped = Some(Bytes::new((largest * 1024.0) as u64));
        }
        let between = measured.into_iter().filter(|&size| low < size && size < high);
        // Nothing to lose costs nothing.
        let mut found = (low == 0.0).then_some(CostBounds::NOTHING);
        for size in between.chain([low, high]).filter(|&size| size > 0.0) {
            let one = self.bounds_at(selected, event, size)?;
            found = Some(found.map_or(one, |all| all.or(one)));
        }
        let mut found = found.unwrap_or(CostBounds::NOTHING);
        if is_beyond {
            (found.us, found.high_us) = (None, None);
        }
        Ok(found)
    }

    /// The cost of an event at one size. A cost from a table counts as exact. A measured cost without an interval, from
    /// too few samples, bounds nothing.
    fn bounds_at(
        &self,
        selected: &Selected<'_>,
        event: Event,
        kib: f64,
    ) -> Result<CostBounds, String> {
        let cost = selected.costs.cost(event, kib).map_err(|why| why.to_string())?;
        let stated = matches!(self.prices.source, CostSource::Table(_)).then_some(cost.us);
        let low_us = cost.low_us.or(stated).unwrap_or(0.0);
        Ok(CostBounds { us: Some(cost.us), low_us, high_us: cost.high_us.or(stated) })
    }
}

#[cfg(test)]
mod tests;
