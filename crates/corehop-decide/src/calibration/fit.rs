// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fits the numbers of a platform description: each number is chosen so that the simulated machine reproduces the
//! live measurement.

use serde::Serialize;

use corehop_plan::experiment::{ExperimentError, SamplingGroup};
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Distance, Fact, Latency, LatencyRow, Platform, Supplier};
use corehop_plan::samples::Sample;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;

use super::cells::{LENGTHS, SIZES, SMALL, on_described, own};
use super::last_level::TlbReach;
use super::lost::losses;
use super::solve::{Solved, solve};
use super::trial::{IdleLineTimes, MedianEstimate, simulated};

/// The number of samples of a simulated cell; the simulated samples of a cell differ only in page frames and orders.
const SAMPLES: u32 = 8;
/// The fewest valid live samples with which a cell is used.
const FEWEST: usize = 4;
/// The largest time that a cache line may take, in nanoseconds.
pub(super) const LONGEST_NS: f64 = 2_000.0;
const NO_LENGTH: Nanos = Nanos::new(0);

/// A calibrated description, with the uncertainty of each number.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The calibrated description.
    pub platform: Platform,
    /// The calibrated numbers, in the order in which they were determined.
    pub numbers: Vec<FactEstimate>,
    /// The numbers that could not be determined, each with the reason.
    pub notes: Vec<String>,
}

/// One calibrated number of a description.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FactEstimate {
    /// The name of the number in the platform file.
    pub fact: String,
    /// The value of the number.
    pub value: String,
    /// The two values between which the number lies: at the ends of the 95 % intervals of the live medians. For a loss,
    /// the two values are the quartiles of the loss.
    pub interval: Option<[String; 2]>,
    /// The live cells that determine the number.
    pub cells: String,
    /// The number of valid samples in these cells.
    pub n: usize,
}

/// The reason why a description cannot be calibrated.
#[derive(Debug, thiserror::Error)]
pub enum CalibrationError {
    /// The described machine cannot be simulated.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The cells are not possible on the described machine.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The caller stopped the calibration.
    #[error("interrupted")]
    Stopped,
}

/// Fits the numbers of `described` to live `samples` of [`super::experiment`]. `declared` is the
/// platform of the host while the samples ran: the described platform, or the described platform with its cores apart
/// ([`Platform::apart`]). `progress`
/// receives the current step and returns whether to continue.
///
/// # Errors
/// Returns [`CalibrationError`] if the platform cannot be simulated, or `progress` stops the calibration.
pub fn calibrate(
    declared: &Platform,
    described: Platform,
    samples: &[Sample],
    progress: &mut dyn FnMut(&str) -> bool,
) -> Result<Calibrated, CalibrationError> {
    let live = IdleLineTimes::of(samples).with_at_least(FEWEST);
    let declared = declared.clone();
    let mut fit = CalibrationFit {
        live,
        declared,
        platform: described,
        room: None,
        reaches: Vec::new(),
        numbers: Vec::new(),
        notes: Vec::new(),
    };
    let steps: [(&str, CalibrationStep); 9] = [
        ("the time of memory", CalibrationFit::memory),
        ("the last level, and walks of the page tables", CalibrationFit::capacity),
        // The room in the caches decides how much of a flushed set was in them, and the time of memory how long a miss is.
        ("the time of memory, again", CalibrationFit::memory),
        ("the last level, again", CalibrationFit::capacity),
        // A miss of the second level takes as long as a hit of the last one, and its room decides what comes to that.
        ("the second level", CalibrationFit::second_level),
        ("the last level, a third time", CalibrationFit::capacity),
        ("the time of memory, a third time", CalibrationFit::memory),
        ("lines from other cores", CalibrationFit::peers),
        ("what is lost while a job is away", CalibrationFit::losses),
    ];
    for (doing, step) in steps {
        if !progress(doing) {
            return Err(CalibrationError::Stopped);
        }
        step(&mut fit)?;
    }
    let CalibrationFit { platform, numbers, mut notes, .. } = fit;
    notes.dedup();
    Ok(Calibrated { platform, numbers, notes })
}

/// One step of the calibration.
type CalibrationStep = fn(&mut CalibrationFit) -> Result<(), CalibrationError>;

/// A calibration in progress.
pub(super) struct CalibrationFit {
    pub(super) live: IdleLineTimes,
    /// The host for which the cells were planned.
    pub(super) declared: Platform,
    pub(super) platform: Platform,
    /// The room in the last cache level, once known.
    pub(super) room: Option<Bytes>,
    /// The page-table walks by number of translations in the last TLB, once simulated.
    pub(super) reaches: Vec<TlbReach>,
    pub(super) numbers: Vec<FactEstimate>,
    pub(super) notes: Vec<String>,
}

impl CalibrationFit {
    /// The calibration groups with this event and these sizes.
    pub(super) fn groups(&self, event: Event, sizes: &[Bytes]) -> Vec<SamplingGroup> {
        let mut groups = own(&self.declared);
        on_described(&mut groups, &self.platform);
        for group in &mut groups {
            group.events.retain(|it| *it == event);
            group.sets.retain(|set| sizes.contains(&set.wss));
        }
        groups.retain(|group| !group.events.is_empty() && !group.sets.is_empty());
        groups
    }

    /// Adds a number, replacing an earlier value for that fact.
    pub(super) fn enter(&mut self, number: FactEstimate) {
        match self.numbers.iter_mut().find(|it| it.fact == number.fact) {
            Some(before) => *before = number,
            None => self.numbers.push(number),
        }
    }

    fn not_found(&mut self, fact: &str, samples_of: &str) {
        self.notes
            .push(format!("{fact}: the value is unchanged, because there are fewer than {FEWEST} valid samples of {samples_of}"));
    }

    /// The sizes in `sizes` for which there are live samples.
    fn seen(&self, event: Event, sizes: &[Bytes]) -> Vec<Bytes> {
        let seen = |wss: &Bytes| self.live.delay(event, *wss, NO_LENGTH).is_some();
        sizes.iter().copied().filter(seen).collect()
    }

    /// Fits the memory latency at which simulated flushes cost as much as live ones.
    fn memory(&mut self) -> Result<(), CalibrationError> {
        let sizes = self.seen(Event::Flush, &SIZES);
        let Some(live) = self.live.mean_delay(Event::Flush, &sizes, NO_LENGTH) else {
            self.not_found("memory.local", "flushes");
            return Ok(());
        };
        let groups = self.groups(Event::Flush, &sizes);
        let platform = &mut self.platform;
        let first = stated_ns(platform.memory.local.as_ref()).unwrap_or(100.0);
        let solved = solve([1.0, LONGEST_NS], first, live.median, |ns| {
            platform.memory.local = Some(Fact::measured(Latency::from_nanos(ns), ""));
            mean(platform, &groups, Event::Flush, &sizes)
        })?;
        let cells = format!("flushes of {}", listed(&sizes));
        self.platform.memory.local = Some(Fact::measured(
            Latency::from_nanos(solved.x),
            format!("{cells}, {}", interval_text(solved, live)),
        ));
        self.told("memory.local", solved, live, &cells);
        Ok(())
    }

    /// Fits, for each class of migration, the latency of a line from a core at that distance at which simulated
    /// immediate migrations cost as much as live ones.
    fn peers(&mut self) -> Result<(), CalibrationError> {
        for (event, distances) in CLASSES {
            let fact = format!("latency of a peer, {}", distances[0]);
            let sizes = self.seen(event, &SMALL);
            if self.groups(event, &SMALL).is_empty() {
                continue;
            }
            let live = self.live.mean_delay(event, &sizes, NO_LENGTH);
            let Some(live) = live.filter(|live| live.median > 0.0) else {
                self.not_found(&fact, event.word());
                continue;
            };
            let groups = self.groups(event, &sizes);
            let memory = stated_ns(self.platform.memory.local.as_ref()).unwrap_or(LONGEST_NS);
            let platform = &mut self.platform;
            let solved = solve([1.0, 4.0 * memory], live.median, live.median, |ns| {
                state_peer(platform, distances, &Fact::measured(Latency::from_nanos(ns), ""));
                mean(platform, &groups, event, &sizes)
            })?;
            let cells = format!("{event} of {} that resumes at once", listed(&sizes));
            let how = format!("{cells}, a stream of lines; {}", interval_text(solved, live));
            state_peer(
                &mut self.platform,
                distances,
                &Fact::measured(Latency::from_nanos(solved.x), how),
            );
            self.told(&fact, solved, live, &cells);
        }
        Ok(())
    }

    /// Fits the losses while a job is away.
    fn losses(&mut self) -> Result<(), CalibrationError> {
        let groups = self.groups(Event::Flush, &SIZES);
        let flushed = simulated(&self.platform, groups, SAMPLES)?;
        self.platform.losses = losses(&self.live, &flushed);
        for loss in self.platform.losses.clone() {
            let shares = &loss.share.value;
            let percent = |at: usize| format!("{:.1} %", f64::from(shares[at]) / 10.0);
            let n = self.live.delays(Event::IdleLeave, loss.wss, loss.length).len();
            self.enter(FactEstimate {
                fact: format!("loss in {}, of {}", loss.length, loss.wss),
                value: format!("{} (median)", percent(shares.len() / 2)),
                interval: Some([percent(shares.len() / 4), percent(3 * shares.len() / 4)]),
                cells: "idle_leave; its quartiles".to_owned(),
                n,
            });
        }
        let wanted = SIZES.len() * LENGTHS.len();
        if self.platform.losses.len() < wanted {
            let found = self.platform.losses.len();
            self.notes.push(format!(
                "loss: only {found} of {wanted} combinations of length and size have enough valid samples"
            ));
        }
        Ok(())
    }

    /// Adds a number in nanoseconds, with the interval of the live median converted to an interval of the number.
    fn told(&mut self, fact: &str, solved: Solved, live: MedianEstimate, cells: &str) {
        let ends = interval(solved, live).map(|end| format!("{end:.1} ns"));
        self.enter(FactEstimate {
            fact: fact.to_owned(),
            value: format!("{:.1} ns", solved.x),
            interval: (live.ends[0] < live.ends[1]).then_some(ends),
            cells: cells.to_owned(),
            n: live.n,
        });
    }
}

/// The classes of migration, with the distances of the core that has the lines.
const CLASSES: [(Event, &[Distance]); 3] = [
    (Event::L2Migration, &[Distance::L2]),
    (Event::L3Migration, &[Distance::L3]),
    (Event::MemoryMigration, &[Distance::Package, Distance::Machine]),
];

/// The simulated cost of an event per line, averaged over some sizes.
fn mean(
    platform: &Platform,
    groups: &[SamplingGroup],
    event: Event,
    sizes: &[Bytes],
) -> Result<f64, CalibrationError> {
    let times = simulated(platform, groups.to_vec(), SAMPLES)?;
    Ok(times.mean_delay(event, sizes, NO_LENGTH).map_or(0.0, |told| told.median))
}

/// Sets the latency of a line from a core at these distances.
fn state_peer(platform: &mut Platform, distances: &[Distance], time: &Fact<Latency>) {
    for &distance in distances {
        let own =
            |row: &LatencyRow| row.supplier == Supplier::Peer && row.distance == Some(distance);
        platform.latencies.retain(|row| !own(row));
        let row = LatencyRow::of(Supplier::Peer, time.clone());
        platform.latencies.push(LatencyRow { distance: Some(distance), ..row });
    }
}

/// The values of a number at both ends of the interval of the live delay.
fn interval(solved: Solved, live: MedianEstimate) -> [f64; 2] {
    live.ends.map(|end| solved.x + (end - live.median) / solved.slope)
}

fn interval_text(solved: Solved, live: MedianEstimate) -> String {
    let [low, high] = interval(solved, live);
    if low < high {
        format!("{low:.1} to {high:.1} ns at 95 %, n = {}", live.n)
    } else {
        format!("no interval, n = {}", live.n)
    }
}

/// Formats a list of sizes as `32 KiB, 512 KiB and 2 MiB`.
pub(super) fn listed(sizes: &[Bytes]) -> String {
    let words: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    match &words[..] {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A latency in nanoseconds, if it is stated as a time.
pub(super) fn stated_ns(latency: Option<&Fact<Latency>>) -> Option<f64> {
    match latency?.value {
        Latency::Picos(picos) => Some(picos as f64 / 1e3),
        Latency::MilliCycles(_) => None,
    }
}
