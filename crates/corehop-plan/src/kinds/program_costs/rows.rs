// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of events that were caused in a program: one for each block.

use crate::kinds::column::row;
use crate::kinds::{RowObservation, RowTime, Text};
use crate::workload::Event;

row! {
    /// One block of `program-costs`: a stretch of a program's time, or one of its runs, in which events of one class were
    /// caused at one rate, or none were.
    CausedBlock, "program_costs" {
        /// The platform it was taken on, by id.
        machine: Text,
        /// The seed of the plan.
        seed: u64,
        /// The number of the block in the run.
        block: u64,
        /// The round that it belongs to, counted from 0. Blocks of one round are compared with each other.
        replicate: u64,
        /// The class of the events.
        event: Event,
        /// The dose: the rate of the events in multiples of the least rate of their class; 0 where none was caused.
        dose: u64,
        /// The events that were caused: a thread was seen on the CPU that it was sent to, or a preemptor had its CPU.
        events: u64,
        /// The events that were tried: the others met a thread that did not run, or that went its own way.
        tried: u64,
        /// The length of a preemption that was asked for, in nanoseconds; none of a migration.
        asked_ns: Option<f64>,
        /// The working set that the preemptor walked; none of a migration.
        polluter: Option<Text>,
        /// The time that preemptors had the CPUs, in nanoseconds.
        preemptors_ns: f64,
        /// The CPU time of all threads of the program, in nanoseconds.
        cpu_ns: f64,
        /// The progress of the program, in its own unit; 1 for a whole run.
        progress: f64,
        /// The length of the block, in nanoseconds.
        wall_ns: f64,
        /// The threads of the program at its beginning.
        threads: u64,
        /// The time of an exchange of lines between two CPUs of the class before the round, in nanoseconds; none of preemptions,
        /// and where they did not meet.
        exchange_ns: Option<f64>,
        /// Why the block says nothing; none where it does.
        invalid: Option<Text>,
    }
}

impl CausedBlock {
    /// The block, as far as it matters to the number of samples: of the class at this place among `events`. One that says nothing
    /// counts too: the program would not make another one better.
    pub(super) fn observation(&self, events: &[Event]) -> Option<RowObservation> {
        let cell = events.iter().position(|&event| event == self.event)? as u64;
        Some(RowObservation {
            cell,
            valid: true,
            measured: true,
            value_ns: self.cpu_ns,
            scale_ns: self.cpu_ns,
            replicate: Some(self.replicate),
        })
    }

    /// The CPU time for a unit of progress without events, for comparisons; None of other blocks.
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
