// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a gang, and its rows: one for each thread.

use super::{Gangs, SharedData};
use crate::kinds::{BatchExchange, RowObservation, RowTime};
use crate::platform::Platform;
use crate::units::Cpu;

/// One run of one gang.
#[derive(Debug, Clone, PartialEq)]
pub struct GangRecord {
    /// The gang, as the plan counts them.
    pub gang: usize,
    /// The run, counted from 0.
    pub run: u32,
    /// The replicate it belongs to, on a machine that others disturb.
    pub replicate: Option<u32>,
    /// The distance of two of its CPUs around the run, where it was measured.
    pub exchange: Option<BatchExchange>,
    /// Its threads.
    pub members: Vec<MemberRecord>,
}

/// The work of one thread, from the end of its warm-up to its own end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberRecord {
    /// The CPU it ran on, at first.
    pub cpu: Cpu,
    /// Its duration, in picoseconds.
    pub picos: u64,
    /// The number of times that another thread took its CPU, where counted.
    pub preempted: Option<u64>,
    /// Its accesses, on a machine that counts them.
    pub counts: Option<MemberCounts>,
}

/// The accesses of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberCounts {
    /// The instructions it executed, those of waiting among them.
    pub instructions: u64,
    /// Its loads.
    pub loads: u64,
    /// Its stores, locked instructions among them.
    pub stores: u64,
    /// Its misses in the last level of cache.
    pub misses: u64,
    /// Those that another package answered with "I have it".
    pub snoop_hits: u64,
    /// Of these, lines that were modified there.
    pub snoop_hits_modified: u64,
    /// Copies of lines elsewhere that its stores invalidated.
    pub invalidations: u64,
    /// Lines written to memory because of its accesses.
    pub write_backs: u64,
}

impl SharedData {
    /// The rows of a record, which is of `gangs` with this seed on `platform`.
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
    /// A run of a gang, as far as it matters to the number of samples.
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
    /// The time of a round of a run of its gang, for comparisons.
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
