// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of a description, each found where the simulated machine shows what the live one showed.

use serde::Serialize;

use crate::experiment::{ExperimentError, Group};
use crate::machine::MachineError;
use crate::platform::{Check, Distance, Fact, Latency, LatencyRow, Platform, Supplier};
use crate::samples::Sample;
use crate::units::{Bytes, Nanos};
use crate::workload::Event;

use super::cells::{LENGTHS, SMALL, large, own};
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

/// Finds the numbers of `platform` that the live `samples` of [`super::experiment`] tell. `progress` is told what is being
/// done.
///
/// # Errors
/// [`CalibrationError`] where the platform cannot be simulated at all.
pub fn calibrate(
    platform: Platform,
    samples: &[Sample],
    progress: &mut dyn FnMut(&str),
) -> Result<Calibrated, CalibrationError> {
    let live = Times::of(samples);
    let mut fit = Fit { live, platform, numbers: Vec::new(), notes: Vec::new() };
    progress("the capacity of the last level");
    fit.capacity()?;
    progress("the time of memory");
    fit.memory()?;
    progress("lines from other cores");
    fit.peers()?;
    fit.losses();
    let Fit { platform, numbers, notes, .. } = fit;
    Ok(Calibrated { platform, numbers, notes })
}

/// A description on its way.
struct Fit {
    live: Times,
    platform: Platform,
    numbers: Vec<Number>,
    notes: Vec<String>,
}

impl Fit {
    /// The own groups with this event, of these sizes.
    fn groups(&self, event: Event, sizes: &[Bytes]) -> Vec<Group> {
        let mut groups = own(&self.platform);
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
        let Some(live) = self.live.mean_delay(Event::Flush, &SMALL, NO_LENGTH) else {
            self.no_sample("memory.local", Event::Flush);
            return Ok(());
        };
        let groups = self.groups(Event::Flush, &SMALL);
        let platform = &mut self.platform;
        let first = picos(platform.memory.local.as_ref().map(|it| it.value)).unwrap_or(100.0);
        let found = solve([1.0, LONGEST_NS], first, live.median, |ns| {
            platform.memory.local = Some(Fact::measured(nanos(ns), ""));
            mean(platform, &groups, Event::Flush)
        })?;
        let how = interval_text(found, live);
        self.platform.memory.local =
            Some(Fact::measured(nanos(found), format!("flushes of 32 and 512 KiB, {how}")));
        self.told("memory.local", found, live, "flush of 32 and 512 KiB");
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
                mean(platform, &groups, event)
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
        if self.platform.losses.len() < SMALL.len() * LENGTHS.len() {
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
    /// The capacity of the last level at which warm touches take as long as live.
    fn capacity(&mut self) -> Result<(), CalibrationError> {
        let sizes = large(&self.platform);
        let live: Vec<(Bytes, Told)> =
            sizes.iter().filter_map(|&wss| Some((wss, self.live.warm(wss)?))).collect();
        let Some((place, stated)) = last_level(&self.platform).filter(|_| live.len() >= 2) else {
            self.no_sample("capacity of the last level", Event::None);
            return Ok(());
        };
        let groups = self.groups(Event::None, &sizes);
        let mut trials = Vec::new();
        for part in PARTS {
            let mut platform = self.platform.clone();
            set_capacity(&mut platform, place, share_of(stated, part), stated);
            trials.push((part, simulated(&platform, groups.clone(), OF_LARGE)?));
        }
        let best = |of: &dyn Fn(&Told) -> f64| {
            let off = |times: &Times| -> f64 {
                let each = live
                    .iter()
                    .filter_map(|(wss, told)| Some((times.warm(*wss)?.median / of(told)).ln()));
                each.map(|it| it * it).sum()
            };
            let nearest = trials.iter().min_by(|a, b| off(&a.1).total_cmp(&off(&b.1)));
            share_of(stated, nearest.map_or(WHOLE, |it| it.0))
        };
        let found = best(&|it| it.median);
        // Where lists take longer, they find less room.
        let ends = [best(&|it| it.ends[1]), best(&|it| it.ends[0])];
        set_capacity(&mut self.platform, place, found, stated);
        self.numbers.push(Number {
            fact: format!("{}, effective", self.platform.caches[place].label()),
            value: found.to_string(),
            interval: Some(ends.map(|it| it.to_string())),
            cells: format!("warm touches of {} to {}", live[0].0, live[live.len() - 1].0),
            n: live.iter().map(|(_, told)| told.n).sum(),
        });
        Ok(())
    }
}

/// Classes of migration, with the distances of the core that has the lines.
const CLASSES: [(Event, &[Distance]); 3] = [
    (Event::L2Migration, &[Distance::L2]),
    (Event::L3Migration, &[Distance::L3]),
    (Event::MemoryMigration, &[Distance::Package, Distance::Machine]),
];

/// The mean over both sizes of what an event costs a line on the simulated machine.
fn mean(platform: &Platform, groups: &[Group], event: Event) -> Result<f64, CalibrationError> {
    let times = simulated(platform, groups.to_vec(), SAMPLES)?;
    Ok(times.mean_delay(event, &SMALL, NO_LENGTH).map_or(0.0, |told| told.median))
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
