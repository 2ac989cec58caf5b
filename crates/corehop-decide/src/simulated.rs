// SPDX-License-Identifier: MIT OR Apache-2.0
//! Costs on a simulated machine: the synthetic experiment in simulation, and the savings from partitioning the last
//! cache level.

use std::collections::BTreeMap;

use serde::Serialize;

use corehop_plan::experiment::{
    Experiment, ExperimentError, Length, Preset, SamplingGroup, Synthetic, usual_replicates,
};
use corehop_plan::machine::{MachineError, samples_of};
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::words::words;
use corehop_plan::workload::{Event, Load, WorkingSet};
use corehop_sim::{CacheShare, Partitioning, SimMachine, Ways};
use corehop_stats::balance::LevelLatencies;
use corehop_stats::cell::CellKey;
use corehop_stats::cpmd::{CostEstimate, DelayFitter, DelayModel};
use corehop_stats::delay::ALPHA;
use corehop_stats::estimator::Estimator;
use corehop_stats::replicates::{Nested, median_difference};
use corehop_stats::summary::replicate_of;

/// The working set sizes, lengths and loads to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationGrid {
    /// The working set sizes.
    pub wss: Vec<Bytes>,
    /// The preemption lengths; undisturbed absences use the middle length.
    pub lengths: Vec<Nanos>,
    /// Whether to simulate polluters on every CPU in addition.
    pub loaded: bool,
    /// The number of samples of each cell.
    pub samples: u32,
    /// The seed of every draw.
    pub seed: u64,
}

impl Default for SimulationGrid {
    fn default() -> Self {
        Self {
            wss: [16, 64, 256, 1024].map(Bytes::from_kib).to_vec(),
            lengths: [10, 100, 1_000, 4_000].map(Nanos::from_micros).to_vec(),
            loaded: true,
            samples: 16,
            seed: 1,
        }
    }
}

/// The reason why a simulation failed.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The experiment is not possible on the platform.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The machine cannot be simulated with these settings.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

words! {
    /// The way in which the last cache level is partitioned, one half for the job and the other half for all other threads.
    Division, "a division" {
        /// The cache is divided by cache ways, as hardware cache allocation does.
        Ways = "ways",
        /// The cache is divided by page colours, as an operating system can do.
        Colours = "colours",
    }
}

/// The effect of cache partitioning on the cost of a preemption.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saving {
    /// The way in which the cache is partitioned.
    pub by: Division,
    /// The background load of the simulation.
    pub load: String,
    /// The working set size in bytes.
    pub wss_bytes: u64,
    /// The median delay without partitioning, in microseconds.
    pub undivided_us: f64,
    /// The median delay with partitioning, in microseconds.
    pub divided_us: f64,
    /// The saving per preemption, with its 95 % interval from replicates.
    pub saves: CostEstimate,
    /// The reason why the saving has no interval; `None` if the saving has an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_interval: Option<String>,
    /// The median slowdown of a warm touch because the job has only half of the cache, in microseconds.
    pub warm_us: f64,
}

impl SimulationGrid {
    /// Returns the experiment: preemptions at every length, migrations immediately and at the middle length, and
    /// undisturbed absences at the middle length.
    pub fn experiment(&self, platform: &Platform) -> Synthetic {
        let moves: Vec<Event> =
            Event::on(platform).into_iter().filter(|event| event.is_migration()).collect();
        let others = [&[Event::IdleLeave], moves.as_slice()].concat();
        let middle = Length::Fixed(self.middle());
        let mut groups: Vec<SamplingGroup> = Vec::new();
        for load in self.loads(platform) {
            for &length in &self.lengths {
                let length = Length::Fixed(length);
                groups.push(self.group(load.clone(), vec![Event::Preemption], length));
            }
            groups.push(self.group(load.clone(), others.clone(), middle));
            if !moves.is_empty() {
                groups.push(self.group(load, moves.clone(), Length::ZERO));
            }
        }
        Self::synthetic(platform, groups)
    }

    fn loads(&self, platform: &Platform) -> Vec<Load> {
        let polluters =
            Load::Constructed { polluter: Preset::polluter(platform), cpus: CpuList::default() };
        if self.loaded { vec![Load::Idle, polluters] } else { vec![Load::Idle] }
    }

    fn middle(&self) -> Nanos {
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied().unwrap_or(Nanos::from_millis(1))
    }

    fn group(&self, load: Load, events: Vec<Event>, length: Length) -> SamplingGroup {
        SamplingGroup {
            absence: load.absence(),
            load,
            sets: self.wss.iter().map(|&wss| WorkingSet::list(wss, 0.5)).collect(),
            events,
            length,
            samples: self.samples,
        }
    }

    fn synthetic(platform: &Platform, groups: Vec<SamplingGroup>) -> Synthetic {
        Synthetic { groups, ..Preset::Quick.synthetic(platform, Some(&Load::Idle), None) }
    }

    /// Returns a model of the machine's costs.
    ///
    /// # Errors
    /// Returns [`SimulationError`] if the machine cannot be simulated.
    pub fn model(&self, platform: &Platform) -> Result<DelayModel, SimulationError> {
        let mut fit = DelayFitter::new(Estimator::Difference);
        fit.machine(platform, &LevelLatencies::of(platform, &[]));
        let experiment = self.experiment(platform);
        fit.take(&self.samples(platform, &experiment, Partitioning::default())?);
        Ok(fit.finish())
    }

    fn samples(
        &self,
        platform: &Platform,
        experiment: &Synthetic,
        partitioning: Partitioning,
    ) -> Result<Vec<Sample>, SimulationError> {
        let replicates = usual_replicates(self.samples);
        let plan = experiment.replicated(platform, self.seed, replicates)?;
        let mut machine = SimMachine::partitioned(platform.clone(), partitioning)?.sampled();
        Ok(samples_of(&mut machine, &plan)?)
    }

    /// Returns the saving from partitioning the last cache level into halves, for each preemption at the middle length,
    /// by ways and by colours. If partitioning by ways or by colours is impossible, the reason is returned.
    ///
    /// # Errors
    /// Returns [`SimulationError`] if the unpartitioned machine cannot be simulated.
    pub fn partitioning(
        &self,
        platform: &Platform,
    ) -> Result<(Vec<Saving>, Vec<String>), SimulationError> {
        let middle = Length::Fixed(self.middle());
        let group = |load| self.group(load, vec![Event::Preemption], middle);
        let groups = self.loads(platform).into_iter().map(group).collect();
        let experiment = Self::synthetic(platform, groups);
        let as_it_is = self.samples(platform, &experiment, Partitioning::default())?;
        let (mut savings, mut silent) = (Vec::new(), Vec::new());
        for &by in Division::ALL {
            let divided = halves(platform, by).map_or_else(
                |why| Err(not_divided(platform, &why)),
                |halves| self.samples(platform, &experiment, halves),
            );
            match divided {
                Ok(divided) => savings.extend(compared(by, &as_it_is, &divided)),
                Err(why) => silent.push(format!("the cache divided by {by}: {why}")),
            }
        }
        Ok((savings, silent))
    }
}

fn not_divided(platform: &Platform, why: &str) -> SimulationError {
    SimulationError::Machine(MachineError::NotPossible {
        what: format!("dividing the cache of {}", platform.id),
        why: why.to_owned(),
        remedy: format!("see `corehop sim platform {}`", platform.id),
    })
}

/// The partitioning that gives the lower half of the ways or colours to the job, and the rest to all other threads.
fn halves(platform: &Platform, by: Division) -> Result<Partitioning, String> {
    let cpu = platform.usable().first().ok_or("it has no usable CPU")?;
    let last = platform.data_caches(cpu).max_by_key(|cache| cache.level);
    let last = last.ok_or("it has no cache")?;
    let (job, others) = match by {
        Division::Ways => {
            let ways = last.ways.as_ref().ok_or("the ways of its last level are not stated")?.value;
            let (all, low) = (u32::MAX >> (32 - ways.min(32)), (1 << (ways.min(32) / 2)) - 1);
            let share = |mask| CacheShare {
                ways: vec![Ways { level: last.level, mask }],
                ..CacheShare::default()
            };
            (share(low), share(all & !low))
        }
        Division::Colours => {
            let count = Partitioning::default().colour_count(platform);
            let count = count.map_err(|error| error.to_string())?;
            let share = |colours: std::ops::Range<u32>| CacheShare {
                colours: colours.collect(),
                ..CacheShare::default()
            };
            (share(0..count / 2), share(count / 2..count))
        }
    };
    Ok(Partitioning { job, others, ..Partitioning::default() })
}

/// The load and the working set size of a cell.
type LoadAndSize = (String, u64);
/// The delays and the warm touches of a cell in microseconds, each by replicate.
type CellTimes = (Nested, Nested);
type SimulatedDelays = BTreeMap<LoadAndSize, CellTimes>;

fn seen(samples: &[Sample]) -> SimulatedDelays {
    let mut all: BTreeMap<LoadAndSize, [Vec<f64>; 2]> = BTreeMap::new();
    let mut labels: BTreeMap<LoadAndSize, Vec<u64>> = BTreeMap::new();
    for (sample, delay) in Estimator::Difference.delays_us(samples) {
        let place = (CellKey::of(sample).load.to_string(), sample.wss_bytes);
        labels.entry(place.clone()).or_default().push(replicate_of(sample));
        let [delays, warm] = all.entry(place).or_default();
        delays.push(delay);
        warm.push(sample.warm_ns / 1e3);
    }
    let nested = |(place, [delays, warm]): (LoadAndSize, [Vec<f64>; 2])| {
        let of = |values: &[f64]| Nested::from_labelled(values, &labels[&place]).ok();
        Some((place.clone(), (of(&delays)?, of(&warm)?)))
    };
    all.into_iter().filter_map(nested).collect()
}

fn compared(by: Division, as_it_is: &[Sample], divided: &[Sample]) -> Vec<Saving> {
    let (before, after) = (seen(as_it_is), seen(divided));
    let saving = |((load, wss_bytes), (undivided, warm)): (&LoadAndSize, &CellTimes)| {
        let (divided, divided_warm) = after.get(&(load.clone(), *wss_bytes))?;
        let saved = median_difference(divided, undivided, ALPHA).ok()?;
        let slower = median_difference(warm, divided_warm, ALPHA).ok()?;
        let median = |of: &Nested| of.median(ALPHA).ok().map(|it| it.estimate);
        Some(Saving {
            by,
            load: load.clone(),
            wss_bytes: *wss_bytes,
            undivided_us: median(undivided)?,
            divided_us: median(divided)?,
            saves: CostEstimate {
                estimate_us: saved.estimate,
                low_us: saved.interval.map(|it| it.low),
                high_us: saved.interval.map(|it| it.high),
            },
            no_interval: saved.why_none.map(|why| why.to_string()),
            warm_us: slower.estimate,
        })
    };
    before.iter().filter_map(saving).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> SimulationGrid {
        SimulationGrid {
            wss: vec![Bytes::from_kib(512)],
            lengths: vec![Nanos::from_millis(1)],
            loaded: false,
            samples: 6,
            seed: 1,
        }
    }

    #[test]
    fn a_platform_without_samples_has_costs_of_all_that_can_happen_on_it() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let model = SimulationGrid { wss: vec![Bytes::from_kib(64)], ..small() }.model(&platform);
        let model = model.unwrap();
        let events: Vec<Event> = model.curves.iter().map(|it| it.series.key.event).collect();
        for event in Event::on(&platform) {
            assert!(events.contains(&event), "{event}");
        }
        assert_eq!(events.len(), Event::on(&platform).len() + 1, "and the control");
    }

    #[test]
    fn halves_leave_nothing_out_and_share_nothing() {
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let ways = halves(&platform, Division::Ways).unwrap();
        let (job, others) = (ways.job.ways[0], ways.others.ways[0]);
        assert_eq!((job.level, job.mask, others.mask), (3, 0x00ff, 0xff00));
        let colours = halves(&platform, Division::Colours).unwrap();
        let all: Vec<u32> =
            colours.job.colours.iter().chain(&colours.others.colours).copied().collect();
        assert_eq!(all.len() as u32, colours.colour_count(&platform).unwrap());
        assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }

    #[test]
    fn a_divided_cache_keeps_what_a_preemptor_would_have_evicted() {
        // Polluters walk more than the whole third level; half of it holds the job's working set.
        let platform = Platform::named("xeon_x5650").unwrap().unwrap();
        let lengths = vec![Nanos::from_millis(4)];
        let simulated = SimulationGrid { loaded: true, lengths, ..small() };
        let (savings, silent) = simulated.partitioning(&platform).unwrap();
        assert_eq!(silent, Vec::<String>::new());
        assert_eq!(savings.len(), 4, "by ways and by colours, under both loads");
        for saving in savings.iter().filter(|it| it.load != "idle") {
            assert!(saving.saves.low_us.is_some_and(|low| low > 0.0), "{saving:?}");
            assert!(saving.divided_us < saving.undivided_us);
        }
    }
}
