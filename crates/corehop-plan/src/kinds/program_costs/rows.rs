// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of events that corehop caused in a program: one row for each block.

use super::InterventionClass;
use crate::kinds::column::row;
use crate::kinds::{RowObservation, RowTime, Text};
use crate::units::Nanos;
use crate::workload::Event;

row! {
    /// The row of one block of `program-costs`: a part of a program's time, or one of its runs, in which corehop caused
    /// events of one class at one rate, or no events.
    CausedBlock, "program_costs" {
        /// The id of the measured platform.
        machine: Text,
        /// The random seed of the plan.
        seed: u64,
        /// The index of the block in the run.
        block: u64,
        /// The round of the block, counted from 0. corehop compares blocks of one round with each other.
        replicate: u64,
        /// The class of the events that corehop caused in the block.
        event: Event,
        /// The rate of the events, in multiples of the lowest rate of their class; 0 in blocks without events.
        dose: u64,
        /// The number of caused events that took effect: the thread ran on its new CPU, or the preemptor had the
        /// thread's CPU.
        events: u64,
        /// The number of events that corehop tried to cause. Causing an event fails if the thread does not run, or if
        /// the thread changes its own affinity.
        tried: u64,
        /// The requested length of each preemption, in nanoseconds; absent for migrations.
        asked_ns: Option<f64>,
        /// The working set that the preemptor walked; absent for migrations.
        polluter: Option<Text>,
        /// The total time for which preemptors had CPUs in the block, in nanoseconds.
        preemptors_ns: f64,
        /// The CPU time of all threads of the program in the block, in nanoseconds.
        cpu_ns: f64,
        /// The progress of the program in the block, in the program's own unit; 1 if the block is a whole run.
        progress: f64,
        /// The length of the block, in nanoseconds.
        wall_ns: f64,
        /// The number of threads of the program at the start of the block.
        threads: u64,
        /// The line-exchange time between two CPUs of the class before the round, in nanoseconds; absent for
        /// preemptions, and if the exchange failed.
        exchange_ns: Option<f64>,
        /// The reason why corehop excludes the block; absent if the block counts.
        invalid: Option<Text>,
    }
}

impl CausedBlock {
    /// Returns the observation of the block for the number of samples; its cell is the index of the block's class in
    /// `classes`. An invalid block counts too, because a repeated block of this program would be no better.
    pub(super) fn observation(&self, classes: &[InterventionClass]) -> Option<RowObservation> {
        let length = self.asked_ns.map(|ns| Nanos::new(ns as u64));
        let is_of = |it: &InterventionClass| {
            let preemptor = it.preemptor.as_ref().map(ToString::to_string);
            (it.event, it.length) == (self.event, length)
                && preemptor.as_deref() == self.polluter.as_deref()
        };
        let cell = classes.iter().position(is_of)? as u64;
        Some(RowObservation {
            cell,
            valid: true,
            measured: true,
            value_ns: self.cpu_ns,
            scale_ns: self.cpu_ns,
            replicate: Some(self.replicate),
        })
    }

    /// Returns the CPU time of the program per unit of progress in a block without events, for comparisons, or `None`
    /// for other blocks.
    pub(super) fn time(&self) -> Option<RowTime> {
        let usable = self.dose == 0 && self.invalid.is_none() && self.progress > 0.0;
        usable.then(|| RowTime {
            experiment: super::NAME,
            group: "CPU time for a unit of progress".to_owned(),
            place: 0,
            name: "without events".to_owned(),
            replicate: self.replicate,
            ns: Ok(self.cpu_ns / self.progress),
        })
    }
}
