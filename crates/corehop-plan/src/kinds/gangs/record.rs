// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a gang's run, and the conversion to rows: one row for each thread.

use super::{Gangs, SharedData};
use crate::kinds::{BatchExchange, RowObservation, RowTime};
use crate::platform::Platform;
use crate::units::Cpu;

/// A machine's record of one run of one gang.
#[derive(Debug, Clone, PartialEq)]
pub struct GangRecord {
    /// The index of the gang in the plan.
    pub gang: usize,
    /// The number of the run, counted from 0.
    pub run: u32,
    /// The replicate to which the run belongs.
    pub replicate: Option<u32>,
    /// The line exchange between two of the gang's CPUs around the run, if measured.
    pub exchange: Option<BatchExchange>,
    /// The records of the gang's threads.
    pub members: Vec<MemberRecord>,
}

/// The record of one thread, from the end of its warm-up to its own end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberRecord {
    /// The CPU on which the thread starts.
    pub cpu: Cpu,
    /// The duration of the thread's work, in picoseconds.
    pub picos: u64,
    /// The number of times that another thread took the thread's CPU, or `None` if not counted.
    pub preempted: Option<u64>,
    /// The accesses of the thread, or `None` if the machine does not count them.
    pub counts: Option<MemberCounts>,
}

/// The counted accesses of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// The number of instructions that the thread executed, including instructions of waiting.
    pub instructions: u64,
    /// The number of loads that the thread executed.
    pub loads: u64,
    /// The number of stores, including locked instructions.
    pub stores: u64,
    /// The number of misses in the last-level cache.
    pub misses: u64,
    /// The number of misses for which another package reported that it had the line.
    pub snoop_hits: u64,
    /// The number of misses that another package answered with a modified line.
    pub snoop_hits_modified: u64,
    /// The number of copies in other caches that the thread's stores invalidated.
    pub invalidations: u64,
    /// The number of lines written back to memory because of the thread's accesses.
    pub write_backs: u64,
}

impl SharedData {
    /// Returns the rows of a record of `gangs` with this seed on `platform`.
    pub(super) fn of(
        gangs: &Gangs,
        seed: u64,
        platform: &Platform,
        record: &GangRecord,
    ) -> Vec<Self> {
        let Some(gang) = gangs.gangs.get(record.gang) else { return Vec::new() };
        let package = |cpu: Cpu| {
            let places = platform.packages.value.iter();
            places.into_iter().position(|cpus| cpus.contains(cpu)).unwrap_or(0) as u64
        };
        let row = |(member, it): (usize, &MemberRecord)| Self {
            machine: platform.id.as_str().into(),
            seed,
            gang: record.gang as u64,
            run: u64::from(record.run),
            member: member as u64,
            program: gang.program.word().into(),
            items: gang.program.items(),
            parameters: gang.program.parameters().into(),
            sharing: gang.sharing,
            placing: gang.placing,
            rounds: gang.rounds,
            cpu: u64::from(it.cpu.0),
            package: package(it.cpu),
            time_ns: it.picos as f64 / 1e3,
            instructions: it.counts.map(|it| it.instructions),
            loads: it.counts.map(|it| it.loads),
            stores: it.counts.map(|it| it.stores),
            llc_misses: it.counts.map(|it| it.misses),
            snoop_hits: it.counts.map(|it| it.snoop_hits),
            snoop_hits_modified: it.counts.map(|it| it.snoop_hits_modified),
            invalidations: it.counts.map(|it| it.invalidations),
            write_backs: it.counts.map(|it| it.write_backs),
            preempted: it.preempted,
            replicate: record.replicate.map(u64::from),
            exchange_ns: record.exchange.and_then(|it| it.before_ns),
            exchange_after_ns: record.exchange.and_then(|it| it.after_ns),
            moved_to: gang.moves_of(member).last().map(|it| u64::from(it.cpu.0)),
        };
        record.members.iter().enumerate().map(row).collect()
    }
}

impl SharedData {
    /// Returns the observation of a gang's run, for counting samples.
    pub(super) fn observation(&self) -> RowObservation {
        RowObservation {
            cell: self.gang,
            valid: true,
            measured: true,
            value_ns: self.time_ns,
            scale_ns: self.time_ns,
            // Every run of a simulated machine starts anew.
            replicate: self.replicate.or(Some(self.run)),
        }
    }
}

impl SharedData {
    /// Returns the time that a round of the gang's run takes, for comparisons.
    pub(super) fn time(&self, run: u64, round_ns: f64) -> RowTime {
        let group = format!("time of a round, {} {}", self.program, self.parameters);
        RowTime {
            experiment: "shared-data",
            group: group.trim_end().to_owned(),
            place: self.items,
            name: format!("{} items, {}, {}", self.items, self.sharing, self.placing),
            replicate: self.replicate.unwrap_or(run),
            ns: Ok(round_ns),
        }
    }
}
