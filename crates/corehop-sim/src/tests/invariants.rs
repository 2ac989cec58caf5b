// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invariants of every state.

use std::collections::{BTreeMap, BTreeSet};

use crate::cache::Bits;
use crate::hierarchy::Hierarchy;
use crate::observer::Observer;
use crate::tags::LineNumber;
use corehop_plan::platform::{Inclusion, Protocol};

/// The lines that a CPU has written and that are not yet written back to memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    pub(super) owed: BTreeSet<LineNumber>,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Observer for Ledger {
    const ON: bool = true;
    fn looked_up(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.misses += u64::from(!hit);
    }
    fn written_back(&mut self, line: LineNumber) {
        self.owed.remove(&line);
    }
}

/// All copies of lines: the caches and state bits, by line.
type Copies = BTreeMap<LineNumber, Vec<(usize, Bits)>>;

fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Checks all invariants, and reports the first violation.
pub(super) fn check(machine: &Hierarchy<Ledger>) -> Result<(), String> {
    let mut copies = Copies::new();
    for (x, cache) in machine.caches.iter().enumerate() {
        for (line, bits) in cache.lines() {
            copies.entry(line).or_default().push((x, bits));
        }
    }
    for (line, copies) in &copies {
        placement(machine, *line, copies)?;
        rights(machine, *line, copies)?;
    }
    for line in &machine.observer.owed {
        let copies = copies.get(line).map_or(&[][..], Vec::as_slice);
        let dirty = copies.iter().any(|(_, bits)| bits.dirty);
        require(dirty, || format!("line {line} was written, and its data is nowhere"))?;
    }
    for (cpu, counters) in machine.counters.iter().enumerate() {
        require(counters.supplied() == counters.accesses(), || {
            format!(
                "caches and memory answered {} accesses of CPU {cpu}: {counters:?}",
                counters.supplied()
            )
        })?;
    }
    Ok(())
}

fn inside(machine: &Hierarchy<Ledger>, x: usize, around: usize) -> bool {
    let parent = machine.caches[x].parent;
    parent == Some(around) || parent.is_some_and(|parent| inside(machine, parent, around))
}

/// Checks inclusion, exclusion, and that the directory covers all sharers.
fn placement(
    machine: &Hierarchy<Ledger>,
    line: LineNumber,
    copies: &[(usize, Bits)],
) -> Result<(), String> {
    for &(x, bits) in copies {
        let (mut child, mut parent) = (x, machine.caches[x].parent);
        while let Some(around) = parent {
            let cache = &machine.caches[around];
            let held = cache.locate(line);
            match (cache.inclusion, held) {
                (Inclusion::Inclusive, None) => {
                    return Err(format!(
                        "line {line} is in cache {x}, not in {around}, which includes it"
                    ));
                }
                (Inclusion::Inclusive, Some((set, way))) => {
                    let place = machine.caches[child].place;
                    require(cache.may_have(set, way, place), || {
                        format!("{around} does not know that {child} has line {line}")
                    })?;
                }
                (Inclusion::Exclusive, Some(_)) => {
                    return Err(format!(
                        "line {line} is in cache {x} and in {around}, which excludes it"
                    ));
                }
                (Inclusion::MostlyExclusive, Some((set, way))) => {
                    require(!cache.bits(set, way).alone && !bits.alone, || {
                        format!("line {line} is in cache {x} and in {around}, and one has it alone")
                    })?;
                }
                _ => {}
            }
            let filter = cache.snoop_filter.as_ref();
            require(filter.is_none_or(|filter| filter.locate(line).is_some()), || {
                format!("line {line} is in cache {x}; the snoop filter of {around} has no entry")
            })?;
            (child, parent) = (around, cache.parent);
        }
    }
    Ok(())
}

/// Checks that each line has at most one writer and one forwarder, and that only caches allowed to be dirty are
/// dirty.
fn rights(
    machine: &Hierarchy<Ledger>,
    line: LineNumber,
    copies: &[(usize, Bits)],
) -> Result<(), String> {
    let root = |mut x: usize| {
        while let Some(parent) = machine.caches[x].parent {
            x = parent;
        }
        x
    };
    let mut forwarders = BTreeSet::new();
    for &(x, bits) in copies {
        if bits.alone {
            let stranger = copies.iter().find(|&&(other, _)| {
                other != x && !inside(machine, other, x) && !inside(machine, x, other)
            });
            require(stranger.is_none(), || {
                format!("cache {x} has line {line} alone, and so has {stranger:?}")
            })?;
        }
        let owned = machine.protocol == Protocol::Moesi;
        require(owned || !bits.dirty || bits.alone, || {
            format!("cache {x} has newer data of line {line}, and others may have it")
        })?;
        if bits.forward {
            let fits = machine.protocol == Protocol::Mesif && !bits.alone;
            require(fits, || format!("cache {x} forwards line {line}"))?;
            forwarders.insert(root(x));
        }
    }
    require(forwarders.len() <= 1, || format!("line {line} has forwarders {forwarders:?}"))?;
    let owners = copies.iter().filter(|(_, bits)| bits.dirty);
    let owners: BTreeSet<_> = owners.map(|&(x, _)| root(x)).collect();
    require(owners.len() <= 1, || format!("line {line} has owners {owners:?}"))
}
