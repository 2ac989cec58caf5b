// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of cache affinity for a recorded run: its preemptions and migrations times a model.
//!
//! The working set of an unknown program is a range, and so is the answer. Blocking and
//! coming back to the same CPU is not charged: what others did to the cache meanwhile is not
//! the scheduler's doing. What comes first is older than any cost of caches: the time that threads waited
//! for a CPU, and who had it meanwhile ([`Waits`]).

mod waits;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::costs::{SelectError, Selected, Selection, Source};
use crate::model::ordered::Ordered;
use crate::model::quantile::median_interval;
use crate::platform::Platform;
use crate::samples::{Absence, ObservedThread, Recording};
use crate::units::{Bytes, Nanos};
use crate::workload::Event;

pub use waits::{Occupant, ProcessCost, Waits};

/// The working-set sizes that the program may have had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WssRange {
    /// The smallest.
    pub low: Bytes,
    /// The largest.
    pub high: Bytes,
}

impl WssRange {
    /// Of a program of which only its resident set is known: from nothing to that, or to the last-level
    /// cache where that is smaller (what does not fit into it is lost without a preemption too).
    pub fn unknown(rss: Option<u64>, platform: &Platform) -> Self {
        let cache = platform.llc_size().map_or(u64::MAX, Bytes::get);
        Self { low: Bytes::new(0), high: Bytes::new(rss.unwrap_or(u64::MAX).min(cache)) }
    }

    /// From samples of what the program touched within a while: the 95 % interval of their median. None
    /// where there are too few for one.
    pub fn sampled(touched_bytes: &[u64]) -> Option<Self> {
        let bytes: Vec<f64> = touched_bytes.iter().map(|&bytes| bytes as f64).collect();
        let median = median_interval(&Ordered::new(&bytes).ok()?, 0.05).ok()?;
        let interval = median.interval()?;
        let size = |bytes: f64| Bytes::new(bytes as u64);
        Some(Self { low: size(interval.low), high: size(interval.high) })
    }

    /// Just this size.
    pub const fn known(wss: Bytes) -> Self {
        Self { low: wss, high: wss }
    }
}

/// An amount between two bounds, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Between {
    /// The lower bound.
    pub low_us: f64,
    /// The upper bound; None if none is known, as for working sets beyond the measured ones.
    pub high_us: Option<f64>,
}

impl Between {
    const NOTHING: Self = Self { low_us: 0.0, high_us: Some(0.0) };

    /// The upper bound, infinite if none is known.
    pub fn most_us(&self) -> f64 {
        self.high_us.unwrap_or(f64::INFINITY)
    }

    fn times(self, times: u64) -> Self {
        let times = times as f64;
        Self { low_us: self.low_us * times, high_us: self.high_us.map(|high| high * times) }
    }

    fn add(&mut self, other: Self) {
        self.low_us += other.low_us;
        self.high_us = self.high_us.zip(other.high_us).map(|(one, other)| one + other);
    }

    /// The smallest range with both.
    fn or(self, other: Self) -> Self {
        Self {
            low_us: self.low_us.min(other.low_us),
            high_us: self.high_us.zip(other.high_us).map(|(one, other)| one.max(other)),
        }
    }
}

/// The absences of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassCost {
    /// The event of resuming.
    pub event: Event,
    /// The number.
    pub count: u64,
    /// Of these, those that began with a preemption; the others had blocked.
    pub preempted: u64,
    /// Of these, moves that the thread's affinity made necessary.
    pub pinned: u64,
    /// Of these, brief preemptions that were counted and not recorded one by one: each counts with their mean
    /// length in its thread.
    pub brief: u64,
    /// The median of their lengths, in microseconds.
    pub median_length_us: f64,
    /// The longest, in microseconds.
    pub longest_us: f64,
    /// Their cost; None where costs were not given, or are not known.
    pub cost: Option<Between>,
    /// Why it is not known, where that is so.
    pub why_not: Option<String>,
}

/// The cost to one thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThreadCost {
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its CPU time, in nanoseconds; None if unknown.
    pub cpu_ns: Option<u64>,
    /// The time it waited for a CPU, in nanoseconds; None if unknown.
    pub waited_ns: Option<u64>,
    /// Times it was preempted.
    pub preemptions: u64,
    /// Times it came back to another CPU.
    pub cpu_changes: u64,
    /// The cost, as far as it is known.
    pub cost: Option<Between>,
}

/// The cost of cache affinity to a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunCost {
    /// The waiting for CPUs.
    pub waits: Waits,
    /// Whether costs were given.
    pub priced: bool,
    /// The sizes that were supposed.
    pub wss: WssRange,
    /// The largest size with a cost, where that is smaller than the largest supposed.
    pub clipped_to: Option<Bytes>,
    /// By class, nearest first.
    pub classes: Vec<ClassCost>,
    /// By thread, those first that waited the longest.
    pub threads: Vec<ThreadCost>,
    /// By process, those first that waited the longest.
    pub processes: Vec<ProcessCost>,
    /// All of it; none without costs.
    pub total: Option<Between>,
    /// The same as shares of the time the run took.
    pub share: Option<(f64, Option<f64>)>,
}

/// Costs, as a user names them.
#[derive(Debug)]
pub struct Prices<'a> {
    /// Their origin.
    pub source: &'a Source,
    /// The part to use.
    pub selection: Selection,
}

/// The event of resuming after `absence`.
pub fn event(platform: &Platform, absence: &Absence) -> Event {
    Event::resuming(platform, absence.from, absence.to)
}

/// The cost of a run's absences.
///
/// # Errors
/// If the requested costs are not in their source.
pub fn run_cost(
    recording: &Recording,
    platform: &Platform,
    prices: Option<&Prices<'_>>,
    wss: WssRange,
) -> Result<RunCost, SelectError> {
    let mut pricing = prices.map(|prices| Pricing::new(prices, wss)).transpose()?;
    let mut events = events(&recording.absences, &recording.threads, platform);
    if let Some(pricing) = &mut pricing {
        events = pricing.priced(events)?;
    }
    let clipped_to = pricing.and_then(|pricing| pricing.clipped);
    Ok(RunCost { clipped_to, ..summed(recording, &events, prices.is_some(), wss) })
}

/// The cost of each run of a recording that has several, by its number: of the absences that are known.
///
/// # Errors
/// If the requested costs are not in their source.
pub fn refills(
    recording: &Recording,
    platform: &Platform,
    prices: &Prices<'_>,
    wss: WssRange,
) -> Result<BTreeMap<u64, Between>, SelectError> {
    let mut pricing = Pricing::new(prices, wss)?;
    let mut refills = BTreeMap::new();
    for run in &recording.runs {
        let Some(absences) = recording.absences_of(run.run) else { continue };
        let events = pricing.priced(events(absences, recording.threads_of(run.run), platform))?;
        refills.extend(sum(events.iter()).map(|cost| (run.run, cost)));
    }
    Ok(refills)
}

/// The events of a run by class, thread and process, without costs.
pub fn uncosted(recording: &Recording, platform: &Platform) -> RunCost {
    let wss = WssRange::unknown(recording.facts.rss_bytes, platform);
    let events = events(&recording.absences, &recording.threads, platform);
    summed(recording, &events, false, wss)
}

fn summed(recording: &Recording, all: &[Happened], priced: bool, wss: WssRange) -> RunCost {
    let total = if priced { sum(all.iter()) } else { None };
    let span_us = recording.facts.span_ns.max(1) as f64 / 1e3;
    let share = |total: Between| (total.low_us / span_us, total.high_us.map(|high| high / span_us));
    let threads = threads(recording, all);
    RunCost {
        waits: Waits::of(recording),
        priced,
        wss,
        clipped_to: None,
        classes: Event::RESUMING.into_iter().filter_map(|event| class(event, all)).collect(),
        processes: waits::processes(recording, &threads),
        threads,
        share: total.map(share),
        total,
    }
}

/// An absence, or the brief ones of a thread together, its class, and its cost or why that is not known,
/// where costs were asked for.
#[derive(Debug, Clone)]
struct Happened {
    tid: u32,
    event: Event,
    length_ns: u64,
    preempted: bool,
    pinned: bool,
    /// The number of brief preemptions; None of a single absence.
    brief: Option<u64>,
    cost: Option<Result<Between, String>>,
}

impl Happened {
    fn times(&self) -> u64 {
        self.brief.unwrap_or(1)
    }
}

fn events(absences: &[Absence], threads: &[ObservedThread], platform: &Platform) -> Vec<Happened> {
    let absence = |it: &Absence| Happened {
        tid: it.tid,
        event: event(platform, it),
        length_ns: it.length_ns(),
        preempted: it.preempted,
        pinned: it.pinned,
        brief: None,
        cost: None,
    };
    let brief = |it: &ObservedThread| {
        let brief = it.brief.filter(|&brief| brief > 0)?;
        Some(Happened {
            tid: it.tid,
            event: Event::Preemption,
            length_ns: it.brief_ns.unwrap_or(0) / brief,
            preempted: true,
            pinned: false,
            brief: Some(brief),
            cost: None,
        })
    };
    absences.iter().map(absence).chain(threads.iter().filter_map(brief)).collect()
}

/// The sum of the known costs. Those of absences with an unknown cost have no upper bound; None if all are
/// unknown.
fn sum<'a>(priced: impl Iterator<Item = &'a Happened>) -> Option<Between> {
    let (mut total, mut known, mut unknown) = (Between::NOTHING, 0, 0);
    for it in priced {
        match &it.cost {
            Some(Ok(cost)) => {
                total.add(cost.times(it.times()));
                known += 1;
            }
            Some(Err(_)) | None => unknown += 1,
        }
    }
    if unknown > 0 {
        total.high_us = None;
    }
    (known > 0 || unknown == 0).then_some(total)
}

fn class(event: Event, priced: &[Happened]) -> Option<ClassCost> {
    let of: Vec<&Happened> = priced.iter().filter(|it| it.event == event).collect();
    let why_not = of.iter().find_map(|it| it.cost.as_ref().and_then(|cost| cost.as_ref().err()));
    let count =
        |is: fn(&Happened) -> bool| of.iter().filter(|it| is(it)).map(|it| it.times()).sum();
    Some(ClassCost {
        event,
        count: count(|_| true),
        preempted: count(|it| it.preempted),
        pinned: count(|it| it.pinned),
        brief: count(|it| it.brief.is_some()),
        median_length_us: median_length_ns(&of)? / 1e3,
        longest_us: of.iter().map(|it| it.length_ns).max()? as f64 / 1e3,
        cost: sum(of.iter().copied()),
        why_not: why_not.cloned(),
    })
}

/// The median of lengths of which some stand for several; None of none.
fn median_length_ns(of: &[&Happened]) -> Option<f64> {
    let mut lengths: Vec<(u64, u64)> = of.iter().map(|it| (it.length_ns, it.times())).collect();
    lengths.sort_unstable();
    let all: u64 = lengths.iter().map(|(_, times)| times).sum();
    let at = |place: u64| {
        let mut before = 0;
        let found = lengths.iter().find(|(_, times)| {
            before += times;
            before > place
        });
        found.map(|&(length, _)| length as f64)
    };
    Some(f64::midpoint(at(all.checked_sub(1)? / 2)?, at(all / 2)?))
}

fn threads(recording: &Recording, priced: &[Happened]) -> Vec<ThreadCost> {
    let mut by_thread: BTreeMap<u32, Vec<&Happened>> = BTreeMap::new();
    for it in priced {
        by_thread.entry(it.tid).or_default().push(it);
    }
    let paid = |tid: u32| sum(by_thread.get(&tid)?.iter().copied());
    let row = |thread: &ObservedThread| ThreadCost {
        tid: thread.tid,
        name: thread.name.clone(),
        cpu_ns: thread.cpu_ns,
        waited_ns: thread.waited_ns,
        preemptions: thread.preemptions,
        cpu_changes: thread.cpu_changes,
        cost: paid(thread.tid),
    };
    let mut rows: Vec<ThreadCost> = recording.threads.iter().map(row).collect();
    let dear = |row: &ThreadCost| row.cost.map_or(0.0, |cost| cost.high_us.unwrap_or(cost.low_us));
    rows.sort_by(|a, b| {
        let events = |row: &ThreadCost| row.preemptions + row.cpu_changes;
        let dearest = || dear(b).total_cmp(&dear(a)).then(events(b).cmp(&events(a)));
        b.waited_ns.cmp(&a.waited_ns).then_with(dearest)
    });
    rows
}

/// Costs by class and length, found once for each octave of lengths.
struct Pricing<'a> {
    prices: &'a Prices<'a>,
    wss: WssRange,
    clipped: Option<Bytes>,
    known: BTreeMap<(Event, u32), Result<Between, String>>,
}

impl<'a> Pricing<'a> {
    fn new(prices: &'a Prices<'a>, wss: WssRange) -> Result<Self, SelectError> {
        let pricing = Self { prices, wss, clipped: None, known: BTreeMap::new() };
        // What is not there is said before anything is computed.
        pricing.selected(0).map(|_| ())?;
        Ok(pricing)
    }

    /// The same events with their costs.
    fn priced(&mut self, mut events: Vec<Happened>) -> Result<Vec<Happened>, SelectError> {
        for event in &mut events {
            event.cost = Some(self.cost(event.event, event.length_ns)?);
        }
        Ok(events)
    }

    /// A table knows no lengths; a model is asked with the middle of the octave, unless a length was
    /// asked for.
    fn selected(&self, octave: u32) -> Result<Selected<'a>, SelectError> {
        let mut wanted = self.prices.selection.clone();
        if wanted.length.is_none() && matches!(self.prices.source, Source::Model(_)) {
            wanted.length = Some(Nanos::new(3 << octave >> 1));
        }
        self.prices.source.selected(&wanted)
    }

    fn cost(
        &mut self,
        event: Event,
        length_ns: u64,
    ) -> Result<Result<Between, String>, SelectError> {
        let octave = length_ns.max(1).ilog2();
        if let Some(known) = self.known.get(&(event, octave)) {
            return Ok(known.clone());
        }
        let selected = self.selected(octave)?;
        let shortest_us = selected.costs.shortest_us(event);
        let mut found = self.over_range(&selected, event);
        if let (Ok(found), true) =
            (&mut found, shortest_us.is_some_and(|us| (length_ns as f64) < us * 1e3))
        {
            // Between nothing and the cost of the shortest absence that was measured.
            found.low_us = found.low_us.min(0.0);
        }
        self.known.insert((event, octave), found.clone());
        Ok(found)
    }

    /// The smallest and the largest cost of the sizes in the range: its ends, and the measured ones between.
    /// Sizes beyond the largest measured one cost at least as much as that, and have no upper bound.
    fn over_range(&mut self, selected: &Selected<'_>, event: Event) -> Result<Between, String> {
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
        let mut found = (low == 0.0).then_some(Between::NOTHING);
        for size in between.chain([low, high]).filter(|&size| size > 0.0) {
            let cost = selected.costs.cost(event, size).map_err(|why| why.to_string())?;
            let low_us = cost.low_us.unwrap_or(cost.us);
            let one = Between { low_us, high_us: Some(cost.high_us.unwrap_or(cost.us)) };
            found = Some(found.map_or(one, |all| all.or(one)));
        }
        let mut found = found.unwrap_or(Between::NOTHING);
        if is_beyond {
            found.high_us = None;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
