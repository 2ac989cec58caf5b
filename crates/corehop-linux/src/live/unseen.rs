// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts without tracepoints that stop all software: system management interrupts, and NMIs.
//! The interrupts are counted over a whole run, if the processor and the kernel count them.

use corehop_plan::units::{Cpu, CpuList};
use serde_json::{Value, json};

use crate::counters::CounterError;
use crate::counters::software::{InterruptTable, SmiCounter};

/// The counts when a run began, and the readers of these counters.
#[derive(Debug)]
pub(super) struct InterruptBaseline {
    smis: Result<Vec<(Cpu, SmiCounter, u32)>, CounterError>,
    nmis: Vec<(Cpu, u64)>,
}

impl InterruptBaseline {
    /// Reads the counts of `cpus` at the beginning of a run.
    pub(super) fn since_now(cpus: &CpuList) -> Self {
        let counter = |cpu| {
            let counter = SmiCounter::open(cpu)?;
            let count = counter.read()?;
            Ok((cpu, counter, count))
        };
        Self { smis: cpus.iter().map(counter).collect(), nmis: nmis(cpus.iter()) }
    }

    /// The counts since the beginning, for the provenance.
    pub(super) fn describe(&self) -> Value {
        let smis = match &self.smis {
            Err(error) => json!({ "not_counted": error.to_string() }),
            Ok(counters) => {
                let added = |(cpu, counter, before): &(Cpu, SmiCounter, u32)| {
                    let now = counter.read().ok()?;
                    Some((cpu.0.to_string(), json!(now.wrapping_sub(*before))))
                };
                json!({ "by_cpu": counters.iter().filter_map(added).collect::<serde_json::Map<_, _>>() })
            }
        };
        json!({ "smi": smis, "nmi": self.describe_nmis() })
    }

    fn describe_nmis(&self) -> Value {
        if self.nmis.is_empty() {
            return json!({ "not_counted": "/proc/interrupts has no row for non-maskable interrupts" });
        }
        let now = nmis(self.nmis.iter().map(|&(cpu, _)| cpu));
        let pairs = self.nmis.iter().zip(now);
        let added = |(&(cpu, before), (_, now)): (&(Cpu, u64), (Cpu, u64))| {
            (cpu.0.to_string(), json!(now.saturating_sub(before)))
        };
        json!({ "by_cpu": pairs.map(added).collect::<serde_json::Map<_, _>>() })
    }
}

fn nmis(cpus: impl Iterator<Item = Cpu>) -> Vec<(Cpu, u64)> {
    let table = InterruptTable::read().unwrap_or_default();
    cpus.filter_map(|cpu| Some((cpu, table.nmis(cpu)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_by_cpu_or_the_reason_is_given() {
        let described = InterruptBaseline::since_now(&CpuList::new([Cpu(0)])).describe();
        for what in ["smi", "nmi"] {
            let by_cpu = described[what]["by_cpu"]["0"].as_u64();
            let why = described[what]["not_counted"].as_str();
            assert!(by_cpu.is_some() != why.is_some_and(|why| !why.is_empty()), "{described}");
        }
    }
}
