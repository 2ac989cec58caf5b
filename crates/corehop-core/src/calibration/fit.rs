// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of a description, each found where the simulated machine shows what the live one showed.

use serde::Serialize;

use crate::experiment::{ExperimentError, Group};
use crate::machine::MachineError;
use crate::platform::{Check, Distance, Fact, Latency, LatencyRow, Platform, Supplier};
use crate::samples::Sample;
use crate::units::{Bytes, Nanos};
use crate::workload::Event;

use super::cells::{LENGTHS, SIZES, SMALL, large, on_described, own};
use super::lost::losses;
use super::solve::solve;
use super::trial::{Times, Told, simulated};

/// Samples of a simulated cell: nothing but frames and orders differs between them.
const SAMPLES: u32 = 8;
/// The same of a large working set.
const OF_LARGE: u32 = 2;
/// No line takes longer.
const LONGEST_NS: f64 = 2_000.0;
/// The shares of the stated last level that may be a guest's own, by half octaves.
const PARTS: [u64; 10] = [64, 48, 32, 24, 16, 12, 8, 6, 4, 2];
const WHOLE: u64 = 64;
const NO_LENGTH: Nanos = Nanos::new(0);

/// A description whose numbers were found, and how sure each is.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The description.
    pub platform: Platform,
    /// The numbers, in the order in which they were found.
    pub numbers: Vec<Number>,
    /// The numbers that could not be found, each with the reason.
    pub notes: Vec<String>,
}

/// A number of a description.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Number {
    /// The fact, as the file has it.
    pub fact: String,
    /// Its value.
    pub value: String,
    /// The values at both ends of the interval of the live medians, where they have one.
    pub interval: Option<[String; 2]>,
    /// The live cells that give it.
    pub cells: String,
    /// Their valid samples.
    pub n: usize,
}

/// Why a description cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The machine that it describes cannot be simulated.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The cells are not possible on it.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

/// Finds the numbers of `described` that live `samples` of [`super::experiment`] tell, which ran on the host as `declared`:
/// the same, or the same with its cores apart ([`Platform::apart`]). `progress` is told what is being done.
///
/// # Errors
/// [`CalibrationError`] where the platform cannot be simulated at all.
pub fn calibrate(
    declared: &Platform,
    described: Platform,
    samples: &[Sample],
    progress: &mut dyn FnMut(&str),
) -> Result<Calibrated, CalibrationError> {
    let live = Times::of(samples);
    let declared = declared.clone();
    let mut fit =
        Fit { live, declared, platform: described, numbers: Vec::new(), notes: Vec::new() };
    progress("the time of memory");
    fit.memory()?;
    progress("the capacity of the last level, and walks of the page tables");
    fit.capacity()?;
    progress("lines from other cores");
    fit.peers()?;
    fit.losses();
    let Fit { platform, numbers, notes, .. } = fit;
    Ok(Calibrated { platform, numbers, notes })
}

/// A description on its way.
struct Fit {
    live: Times,
    /// The host as the cells were planned for it.
    declared: Platform,
    platform: Platform,
    numbers: Vec<Number>,
    notes: Vec<String>,
}

impl Fit {
    /// The own groups with this event, of these sizes.
    fn groups(&self, event: Event, sizes: &[Bytes]) -> Vec<Group> {
        let mut groups = own(&self.declared);
        on_described(&mut groups, &self.platform);
        for group in &mut groups {
            group.events.retain(|it| *it == event);
            group.sets.retain(|set| sizes.contains(&set.wss));
        }
        groups.retain(|group| !group.events.is_empty() && !group.sets.is_empty());
        groups
    }

    fn no_sample(&mut self, fact: &str, event: Event) {
        self.notes.push(format!("{fact}: no valid sample of {event}, it stays as it was"));
    }

    /// The time of memory at which flushes cost what they cost live.
    fn memory(&mut self) -> Result<(), CalibrationError> {
        let Some(live) = self.live.mean_delay(Event::Flush, &SIZES, NO_LENGTH) else {
            self.no_sample("memory.local", Event::Flush);
            return Ok(());
        };
        let groups = self.groups(Event::Flush, &SIZES);
        let platform = &mut self.platform;
        let first = picos(platform.memory.local.as_ref().map(|it| it.value)).unwrap_or(100.0);
        let found = solve([1.0, LONGEST_NS], first, live.median, |ns| {
            platform.memory.local = Some(Fact::measured(nanos(ns), ""));
            mean(platform, &groups, Event::Flush, &SIZES)
        })?;
        let how = interval_text(found, live);
        self.platform.memory.local =
            Some(Fact::measured(nanos(found), format!("flushes of 32 KiB to 2 MiB, {how}")));
        self.told("memory.local", found, live, "flush of 32 KiB to 2 MiB");
        Ok(())
    }

    /// For each class of migration, the time of a line from a core so far away at which migrations that resume at once cost
    /// what they cost live.
    fn peers(&mut self) -> Result<(), CalibrationError> {
        for (event, distance) in CLASSES {
            let groups = self.groups(event, &SMALL);
            if groups.is_empty() {
                continue;
            }
            let Some(live) = self.live.mean_delay(event, &SMALL, NO_LENGTH) else {
                self.no_sample(&format!("latency of a peer, {}", distance[0]), event);
                continue;
            };
            let memory =
                picos(self.platform.memory.local.as_ref().map(|it| it.value)).unwrap_or(LONGEST_NS);
            let platform = &mut self.platform;
            let found = solve([1.0, 4.0 * memory], live.median.max(1.0), live.median, |ns| {
                state_peer(platform, distance, Fact::measured(nanos(ns), ""));
                mean(platform, &groups, event, &SMALL)
            })?;
            let how = interval_text(found, live);
            let how =
                format!("{event} of 32 and 512 KiB that resumes at once, a stream of lines; {how}");
            state_peer(&mut self.platform, distance, Fact::measured(nanos(found), how));
            self.told(
                &format!("latency of a peer, {}", distance[0]),
                found,
                live,
                &format!("{event} at once"),
            );
        }
        Ok(())
    }

    /// What is lost while a job is away.
    fn losses(&mut self) {
        self.platform.losses = losses(&self.live);
        for loss in &self.platform.losses {
            let shares = &loss.share.value;
            let percent = |at: usize| format!("{:.1} %", f64::from(shares[at]) / 10.0);
            self.numbers.push(Number {
                fact: format!("loss in {}, of {}", loss.length, loss.wss),
                value: format!("{} (median)", percent(shares.len() / 2)),
                interval: Some([percent(shares.len() / 4), percent(3 * shares.len() / 4)]),
                cells: "idle_leave over flush; quarter and three quarters of the absences"
                    .to_owned(),
                n: self.live.delays(Event::IdleLeave, loss.wss, loss.length).len(),
            });
        }
        if self.platform.losses.len() < SIZES.len() * LENGTHS.len() {
            self.notes.push("loss: some lengths and sizes have no valid sample".to_owned());
        }
    }

    /// Enters a number in nanoseconds, with the live interval moved to it.
    fn told(&mut self, fact: &str, found: f64, live: Told, cells: &str) {
        let ends = live.ends.map(|end| format!("{:.1} ns", found + end - live.median));
        self.numbers.push(Number {
            fact: fact.to_owned(),
            value: format!("{found:.1} ns"),
            interval: (live.ends[0] < live.ends[1]).then_some(ends),
            cells: cells.to_owned(),
            n: live.n,
        });
    }
}

impl Fit {
    /// The capacity of the last level, and the time of a walk of the page tables, at which warm touches take as long as live:
    /// the first decides where they become slow, the second how slow they become beyond what the TLBs hold.
    fn capacity(&mut self) -> Result<(), CalibrationError> {
        let sizes = large(&self.declared);
        let live = self.live.clone();
        let live: Vec<(Bytes, Told)> =
            sizes.iter().filter_map(|&wss| Some((wss, live.warm(wss)?))).collect();
        let Some((place, stated)) = last_level(&self.platform).filter(|_| live.len() >= 3) else {
            self.no_sample("capacity of the last level", Event::None);
            return Ok(());
        };
        let groups = self.groups(Event::None, &sizes);
        let mut trials = Vec::new();
        for part in PARTS {
            let mut platform = self.platform.clone();
            set_capacity(&mut platform, place, share_of(stated, part), stated);
            trials.push(Trial::of(&platform, share_of(stated, part), &groups, &sizes)?);
        }
        let best = |of: &dyn Fn(&Told) -> f64| {
            let wanted: Vec<(Bytes, f64)> =
                live.iter().map(|(wss, told)| (*wss, of(told))).collect();
            let fits = trials.iter().map(|trial| trial.fit(&wanted));
            fits.min_by(|a, b| a.off.total_cmp(&b.off))
        };
        // Where lists take longer, they find less room, or walks take longer.
        let ends = [best(&|it| it.ends[1]), best(&|it| it.ends[0])];
        let (Some(found), [Some(low), Some(high)]) = (best(&|it| it.median), ends) else {
            return Ok(());
        };
        set_capacity(&mut self.platform, place, found.capacity, stated);
        let cells = format!("warm touches of {} to {}", live[0].0, live[live.len() - 1].0);
        let n = live.iter().map(|(_, told)| told.n).sum();
        self.numbers.push(Number {
            fact: format!("{}, effective", self.platform.caches[place].label()),
            value: found.capacity.to_string(),
            interval: Some([low.capacity.to_string(), high.capacity.to_string()]),
            cells: cells.clone(),
            n,
        });
        self.walks(found.walk_ns, [high.walk_ns, low.walk_ns], cells, n);
        Ok(())
    }

    /// Enters the time of a walk of the page tables: the penalty of the last TLB of base pages.
    fn walks(&mut self, found: f64, ends: [f64; 2], cells: String, n: usize) {
        if !set_walk(&mut self.platform, found, &cells) {
            self.notes
                .push("walks of the page tables: no TLB is stated, they take no time".to_owned());
            return;
        }
        let ends = [ends[0].min(ends[1]).min(found), ends[0].max(ends[1]).max(found)];
        self.numbers.push(Number {
            fact: "tlb, penalty of a walk".to_owned(),
            value: format!("{found:.1} ns"),
            interval: Some(ends.map(|ns| format!("{ns:.1} ns"))),
            cells,
            n,
        });
    }
}

/// Warm touches of a machine with some capacity of its last level: without a time of walks, and what a nanosecond a walk
/// adds.
struct Trial {
    capacity: Bytes,
    times: Vec<(Bytes, f64, f64)>,
}

/// The best that a capacity can do.
#[derive(Debug, Clone, Copy)]
struct Fitted {
    capacity: Bytes,
    walk_ns: f64,
    /// The squares of relative errors.
    off: f64,
}

/// The time of a walk with which its share is told.
const A_WALK_NS: f64 = 50.0;

impl Trial {
    fn of(
        platform: &Platform,
        capacity: Bytes,
        groups: &[Group],
        sizes: &[Bytes],
    ) -> Result<Self, CalibrationError> {
        let mut platform = platform.clone();
        let mut warm = |ns: f64| {
            let has = set_walk(&mut platform, ns, "");
            simulated(&platform, groups.to_vec(), OF_LARGE).map(|times| (times, has))
        };
        let (without, has) = warm(0.0)?;
        let with = if has { warm(A_WALK_NS)?.0 } else { without.clone() };
        let times = sizes.iter().filter_map(|&wss| {
            let [without, with] = [without.warm(wss)?.median, with.warm(wss)?.median];
            Some((wss, without, (with - without) / A_WALK_NS))
        });
        Ok(Self { capacity, times: times.collect() })
    }

    /// The time of walks at which it comes nearest to these times of a line, by least squares of relative errors.
    fn fit(&self, wanted: &[(Bytes, f64)]) -> Fitted {
        let all: Vec<(f64, f64)> = wanted
            .iter()
            .filter_map(|(wss, live)| {
                let (_, without, each) = self.times.iter().find(|it| it.0 == *wss)?;
                Some(((live - without) / live, each / live))
            })
            .collect();
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>();
        let squares = sum(&|it| it.1 * it.1);
        let walk_ns = if squares > 0.0 { (sum(&|it| it.0 * it.1) / squares).max(0.0) } else { 0.0 };
        let off = sum(&|it| (it.0 - walk_ns * it.1).powi(2));
        Fitted { capacity: self.capacity, walk_ns, off }
    }
}

/// States the time of a walk for the pages of 4 KiB. False where the platform states no TLB for them.
fn set_walk(platform: &mut Platform, ns: f64, how: &str) -> bool {
    let base = Bytes::from_kib(4);
    let of_base = platform.tlbs.iter_mut().filter(|tlb| tlb.pages.value.contains(&base));
    let last = of_base.max_by_key(|tlb| tlb.level);
    let found = last.is_some();
    if let Some(tlb) = last {
        tlb.penalty = Fact::measured(nanos(ns), how);
    }
    found
}

/// Classes of migration, with the distances of the core that has the lines.
const CLASSES: [(Event, &[Distance]); 3] = [
    (Event::L2Migration, &[Distance::L2]),
    (Event::L3Migration, &[Distance::L3]),
    (Event::MemoryMigration, &[Distance::Package, Distance::Machine]),
];

/// The mean over some sizes of what an event costs a line on the simulated machine.
fn mean(
    platform: &Platform,
    groups: &[Group],
    event: Event,
    sizes: &[Bytes],
) -> Result<f64, CalibrationError> {
    let times = simulated(platform, groups.to_vec(), SAMPLES)?;
    Ok(times.mean_delay(event, sizes, NO_LENGTH).map_or(0.0, |told| told.median))
}

/// States the time of a line from a core at these distances.
fn state_peer(platform: &mut Platform, distances: &[Distance], time: Fact<Latency>) {
    for &distance in distances {
        let own =
            |row: &LatencyRow| row.supplier == Supplier::Peer && row.distance == Some(distance);
        platform.latencies.retain(|row| !own(row));
        let (supplier, distance) = (Supplier::Peer, Some(distance));
        platform.latencies.push(LatencyRow {
            supplier,
            level: None,
            state: None,
            distance,
            home: None,
            time: time.clone(),
        });
    }
}

/// The place of the last level of cache, and its stated size.
fn last_level(platform: &Platform) -> Option<(usize, Bytes)> {
    let data = platform.caches.iter().enumerate().filter(|(_, cache)| cache.holds_data());
    let (place, cache) = data.max_by_key(|(_, cache)| cache.level)?;
    Some((place, cache.size.as_ref()?.value))
}

fn share_of(stated: Bytes, part: u64) -> Bytes {
    Bytes::new(stated.get() * part / WHOLE)
}

/// Enters what lists find room in.
fn set_capacity(platform: &mut Platform, place: usize, found: Bytes, stated: Bytes) {
    let cache = &mut platform.caches[place];
    let how =
        "warm touches of working sets by size, the capacity with which they are simulated as long";
    let Some(size) = cache.size.as_mut() else { return };
    if found == stated {
        size.check = Check::Observed { how: how.to_owned() };
        cache.effective = None;
    } else {
        size.check = Check::Contradicted { why: format!("{how}: {found}") };
        cache.effective = Some(Fact::measured(found, how));
    }
}

fn interval_text(found: f64, live: Told) -> String {
    let [low, high] = live.ends.map(|end| found + end - live.median);
    if low < high {
        format!("{low:.1} to {high:.1} ns at 95 %, n = {}", live.n)
    } else {
        format!("no interval, n = {}", live.n)
    }
}

fn nanos(ns: f64) -> Latency {
    Latency::Picos((ns * 1e3).round() as u64)
}

/// Nanoseconds of a latency that is stated as a time.
fn picos(latency: Option<Latency>) -> Option<f64> {
    match latency? {
        Latency::Picos(picos) => Some(picos as f64 / 1e3),
        Latency::MilliCycles(_) => None,
    }
}
