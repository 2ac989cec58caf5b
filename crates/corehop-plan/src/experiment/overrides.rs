// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overrides of a preset: given values replace the preset's, for every experiment.

use super::synthetic::{SamplingGroup, Synthetic};
use super::{AccessTime, Conditions, PolluterSweep, PreemptionLength};
use crate::kinds::Length;
use crate::platform::Platform;
use crate::units::{Bytes, CpuList};
use crate::workload::{Absence, Event, Load, Mover, Page, Pattern, Polluter, WorkingSet};

/// Values that replace the values of a preset; an empty list or `None` keeps the preset's value.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The sizes of the working sets.
    pub wss: Vec<Bytes>,
    /// The write ratios of the working sets.
    pub write_ratios: Vec<f64>,
    /// The pattern of the accesses that the user wants instead of the preset's.
    pub pattern: Option<Pattern>,
    /// The kind of pages that hold the working sets.
    pub page: Option<Page>,
    /// The number of chains of accesses.
    pub chains: Option<u8>,
    /// The NUMA node of the working sets' memory.
    pub node: Option<u32>,
    /// Whether every job gets fresh page frames.
    pub fresh_frames: bool,
    /// The user's own job, as `LIB.so:FUNCTION`.
    pub workload: Option<String>,
    /// The working set of a trace, which replaces all working sets of the preset.
    pub trace: Option<WorkingSet>,
    /// The events between the warm and the resumed touch.
    pub events: Vec<Event>,
    /// The distribution of preemption lengths that the user wants instead of the preset's.
    pub length: Option<Length>,
    /// The walk of the preemptors that the user wants instead of the preset's.
    pub preemptor: Option<Polluter>,
    /// The sizes of the preemptors' working sets; the experiment samples each size.
    pub preemptor_sizes: Vec<Bytes>,
    /// The way in which jobs move to another CPU.
    pub mover: Option<Mover>,
    /// The number of further passes over the working set before the warm touch.
    pub passes: Option<u32>,
    /// The background load that the user wants instead of the preset's.
    pub load: Option<Load>,
    /// The load `realistic`, in addition to the loads of the preset.
    pub realistic: Option<Load>,
    /// The CPUs that the experiment can use.
    pub cpus: CpuList,
    /// The number of samples of each cell.
    pub samples: Option<u32>,
}

impl Overrides {
    /// Replaces the values of the working sets by the given values, and keeps each resulting set once.
    fn sets(&self, sets: &mut Vec<WorkingSet>) {
        if let Some(trace) = &self.trace {
            *sets = vec![trace.clone()];
        }
        let sizes = if self.wss.is_empty() { sizes_of(sets) } else { self.wss.clone() };
        let Some(like) = sets.first().cloned() else { return };
        if !self.wss.is_empty() || !self.write_ratios.is_empty() {
            let ratios = if self.write_ratios.is_empty() {
                ratios_of(sets)
            } else {
                self.write_ratios.clone()
            };
            let of_size = |wss| ratios.iter().map(move |&write_ratio| (wss, write_ratio));
            let pairs = sizes.into_iter().flat_map(of_size);
            *sets = pairs
                .map(|(wss, write_ratio)| WorkingSet { wss, write_ratio, ..like.clone() })
                .collect();
        }
        for set in sets.iter_mut() {
            set.pattern = self.pattern.unwrap_or(set.pattern);
            set.page = self.page.unwrap_or(set.page);
            set.chains = self.chains.unwrap_or(set.chains);
            set.node = self.node.or(set.node);
            set.fresh_frames |= self.fresh_frames;
            set.workload = self.workload.clone().or(set.workload.take());
        }
        let mut seen: Vec<WorkingSet> = Vec::new();
        sets.retain(|set| {
            !seen.contains(set) && {
                seen.push(set.clone());
                true
            }
        });
    }

    /// Returns whether the user states a preemptor, which then takes the CPU in every preemption, whatever
    /// load runs beside it.
    const fn states_preemptor(&self) -> bool {
        self.preemptor.is_some() || !self.preemptor_sizes.is_empty()
    }

    /// Applies the overrides to a synthetic experiment.
    pub fn synthetic(&self, experiment: &mut Synthetic) {
        experiment.mover = self.mover.unwrap_or(experiment.mover);
        experiment.passes = self.passes.unwrap_or(experiment.passes);
        if let Some(preemptor) = &self.preemptor {
            experiment.preemptor = preemptor.clone();
        }
        experiment.preemptor_sizes.clone_from(&self.preemptor_sizes);
        if !self.cpus.is_empty() {
            experiment.cpus = self.cpus.clone();
        }
        if !self.wss.is_empty() {
            drop_groups_of_sizes(&mut experiment.groups);
        }
        for group in &mut experiment.groups {
            self.sets(&mut group.sets);
            if !self.events.is_empty() {
                group.events.clone_from(&self.events);
            }
            group.length = self.length.unwrap_or(group.length);
            group.samples = self.samples.unwrap_or(group.samples);
            if self.states_preemptor() {
                group.absence = Absence::Preemptor;
            }
        }
        // Groups that differed only in what is now the same would sample the same cells twice.
        let mut seen = Vec::new();
        experiment.groups.retain(|group| {
            let key = (
                group.load.clone(),
                group.sets.clone(),
                group.events.clone(),
                group.length,
                group.absence,
            );
            let new = !seen.contains(&key);
            seen.push(key);
            new
        });
    }

    /// Applies the overrides to an experiment on the causes of a cell's spread, which has one cell under
    /// one load.
    pub fn conditions(&self, experiment: &mut Conditions) {
        let load = self.load.as_ref().or(self.realistic.as_ref());
        for group in &mut experiment.cell.groups {
            group.load = load.unwrap_or(&group.load).clone();
            group.absence = group.load.absence();
        }
        self.synthetic(&mut experiment.cell);
    }

    /// Applies the overrides to an access-time experiment.
    pub fn access_time(&self, experiment: &mut AccessTime) {
        self.sets(&mut experiment.sets);
        experiment.cpu = self.cpus.first().or(experiment.cpu);
        if let Some(samples) = self.samples {
            experiment.states.iter_mut().for_each(|(_, walks)| *walks = samples);
        }
    }

    /// Applies the overrides to a preemption-length experiment.
    pub fn preemption_length(&self, experiment: &mut PreemptionLength) {
        experiment.cpu = self.cpus.first().or(experiment.cpu);
        experiment.samples = self.samples.unwrap_or(experiment.samples);
        if let Some(Length::Fixed(length)) = self.length {
            experiment.lengths = vec![length];
        }
        if let Some(load) = &self.load {
            experiment.loads = vec![load.clone()];
        }
        experiment.loads.extend(self.realistic.clone());
    }

    /// Applies the overrides to a polluter sweep on `platform`.
    pub fn polluter_sweep(&self, experiment: &mut PolluterSweep, platform: &Platform) {
        self.sets(&mut experiment.sets);
        experiment.samples = self.samples.unwrap_or(experiment.samples);
        if !self.cpus.is_empty() {
            experiment.cpus = self.cpus.clone();
        }
        if let Some(Length::Fixed(length)) = self.length {
            experiment.lengths = vec![length];
        }
        if let Some(preemptor) = &self.preemptor {
            experiment.polluter = preemptor.clone();
        }
        if let Some(load) = &self.load {
            experiment.loads = vec![load.clone()];
        }
        if let Some(Load::Realistic { command, cpus }) = &self.realistic {
            // On the job's own CPU, and on all (Wächtler, Figs. 5.6 and 5.7).
            let first = experiment.cpus.first().or(platform.usable().first());
            let own = CpuList::new(first);
            let on = |cpus| Load::Realistic { command: command.clone(), cpus };
            experiment.loads.extend([on(own), on(cpus.clone())]);
        }
    }
}

/// Removes each group whose events all belong to an earlier group that has the same load and other working sets. A user
/// who names sizes wants to sample each size only once.
fn drop_groups_of_sizes(groups: &mut Vec<SamplingGroup>) {
    let mut kept: Vec<SamplingGroup> = Vec::new();
    groups.retain(|group| {
        let covers = |known: &SamplingGroup| {
            known.load == group.load
                && known.sets != group.sets
                && group.events.iter().all(|event| known.events.contains(event))
        };
        let wanted = !kept.iter().any(covers);
        if wanted {
            kept.push(group.clone());
        }
        wanted
    });
}

fn sizes_of(sets: &[WorkingSet]) -> Vec<Bytes> {
    let mut sizes: Vec<Bytes> = sets.iter().map(|set| set.wss).collect();
    sizes.dedup();
    sizes
}

fn ratios_of(sets: &[WorkingSet]) -> Vec<f64> {
    let mut ratios: Vec<f64> = Vec::new();
    for set in sets {
        if !ratios.contains(&set.write_ratio) {
            ratios.push(set.write_ratio);
        }
    }
    ratios
}
