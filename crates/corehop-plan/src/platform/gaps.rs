// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the facts with the largest effect on a simulation that a platform does not state, and names the value that the
//! simulation uses instead.

use super::mechanism::{Distance, Supplier, Traffic};
use super::{Affinity, Cache, CacheKind, Platform};
use crate::units::CpuList;
use std::collections::BTreeSet;

/// A fact that the platform does not state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFact {
    /// The table of the platform file to which the fact belongs.
    pub table: &'static str,
    /// The missing fact, with the consequence for a simulation.
    pub what: String,
}

impl std::fmt::Display for MissingFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.table, self.what)
    }
}

impl Platform {
    /// Returns the facts that a simulation needs and the platform does not state; facts about several cores are
    /// included only if the platform has several cores.
    pub fn gaps(&self) -> Vec<MissingFact> {
        let alone =
            self.no_parallelism().into_iter().chain(self.no_tlb()).chain(self.no_policies());
        let several = self.cores.value.iter().count() > 1;
        let together = self.no_controller().into_iter().chain(self.no_peers());
        alone.chain(together.filter(|_| several)).collect()
    }

    /// Returns the gap of a platform that does not state how many misses can be under way at once.
    fn no_parallelism(&self) -> Option<MissingFact> {
        let stated = self.core.parallelism.is_some()
            || self.core_kinds.iter().any(|kind| kind.core.parallelism.is_some())
            || self.caches.iter().any(|cache| cache.mechanism.parallelism.is_some());
        (!stated).then(|| MissingFact {
            table: "[core]",
            what: "no parallelism: a miss waits for the miss before it, in a scan as in a list"
                .to_owned(),
        })
    }

    /// Returns the gap of a platform without a TLB.
    fn no_tlb(&self) -> Option<MissingFact> {
        self.tlbs.is_empty().then(|| MissingFact {
            table: "[[tlb]]",
            what: "no TLB: the address translation of any working set takes no time".to_owned(),
        })
    }

    /// Returns the gaps of data caches without a replacement policy, and of outer caches without an inclusion policy.
    fn no_policies(&self) -> Vec<MissingFact> {
        let missing = |lacks: fn(&Cache) -> bool, instead: &str| {
            let data = self.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
            let levels: BTreeSet<u32> =
                data.filter(|cache| lacks(cache)).map(|cache| cache.level).collect();
            let levels: Vec<String> = levels.iter().map(|level| format!("L{level}")).collect();
            (!levels.is_empty()).then(|| MissingFact {
                table: "[[cache]]",
                what: format!("{} {instead}", levels.join(", ")),
            })
        };
        let replacement = missing(
            |cache| cache.mechanism.replacement.is_none(),
            "without mechanism.replacement: the cache evicts the least recently used line",
        );
        let inclusion = missing(
            |cache| cache.level > 1 && cache.mechanism.inclusion.is_none(),
            "without mechanism.inclusion: a line that leaves the cache stays in the inner caches",
        );
        replacement.into_iter().chain(inclusion).collect()
    }

    /// Returns the gap of a platform without a server that carries reads from memory.
    fn no_controller(&self) -> Option<MissingFact> {
        let reads = |it: &Traffic| *it == Traffic::MemoryRead;
        let stated = self.servers.iter().any(|it| it.carries.value.iter().any(reads));
        (!stated).then(|| MissingFact {
            table: "[[server]]",
            what: "no server carries memory_read: cores never wait for each other's misses"
                .to_owned(),
        })
    }

    /// Returns the gap of distances between cores for which no transfer time of a line is stated or measured.
    fn no_peers(&self) -> Option<MissingFact> {
        let stated = |distance| {
            let of = |it: Option<Distance>| it.is_none_or(|it| it == distance);
            self.latencies.iter().any(|it| it.supplier == Supplier::Peer && of(it.distance))
        };
        let measured = |affinity| self.exchange_classes().iter().any(|it| it.affinity == affinity);
        let open = self
            .distances()
            .into_iter()
            .filter(|(distance, affinity)| !stated(*distance) && !measured(*affinity));
        let open: Vec<&str> = open.map(|(distance, _)| distance.word()).collect();
        (!open.is_empty()).then(|| MissingFact {
            table: "[[latency]]",
            what: format!(
                "there is no peer at distance {}, so a simulated line from a core at this distance costs as much as memory",
                open.join(", ")
            ),
        })
    }

    /// Returns the distances that occur between two cores, each with the affinity of their CPUs. The function looks
    /// only at distances from the first CPU of each package, because packages are alike inside.
    fn distances(&self) -> Vec<(Distance, Affinity)> {
        let packages = &self.packages.value;
        let all = [
            (Distance::L2, Affinity::L2),
            (Distance::L3, Affinity::L3),
            (Distance::Package, Affinity::Memory),
            (Distance::Machine, Affinity::Memory),
        ];
        let is_between = |it: &(Distance, Affinity), a, b| {
            let far = it.1 == Affinity::Memory;
            let package = packages.share(a, b) == (it.0 == Distance::Package);
            self.affinity(a, b) == it.1 && (!far || package)
        };
        let is_there = |it: &(Distance, Affinity)| {
            let mut firsts = packages.iter().filter_map(CpuList::first);
            firsts.any(|a| self.cpus.value.iter().any(|b| is_between(it, a, b)))
        };
        all.into_iter().filter(is_there).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(id: &str) -> Platform {
        Platform::named(id).unwrap().unwrap()
    }

    fn told(machine: &Platform, table: &str) -> Vec<String> {
        let of = |gap: &MissingFact| (gap.table == table).then(|| gap.what.clone());
        machine.gaps().iter().filter_map(of).collect()
    }

    #[test]
    fn a_machine_without_a_controller_or_the_time_of_a_peer_is_told_so() {
        let mut machine = platform("xeon_x5650");
        let all = |machine: &Platform| {
            [told(machine, "[[latency]]"), told(machine, "[[server]]")].concat()
        };
        assert_eq!(all(&machine), Vec::<String>::new());
        let latencies = std::mem::take(&mut machine.latencies);
        let [text] = &told(&machine, "[[latency]]")[..] else { panic!() };
        assert!(
            text.contains("shared_l3, other_package") && !text.contains("same_package"),
            "{text}"
        );
        machine.latencies = latencies;
        machine.servers.clear();
        assert_eq!(all(&machine).len(), 1);
    }

    #[test]
    fn a_time_of_any_distance_and_a_measured_exchange_leave_nothing_open() {
        let mut machine = platform("xeon_x5650");
        machine.latencies.retain(|it| it.supplier == Supplier::Peer);
        machine.latencies.truncate(1);
        machine.latencies[0].distance = None;
        assert_eq!(told(&machine, "[[latency]]"), Vec::<String>::new());
    }

    #[test]
    fn what_decides_most_is_asked_for_also_of_a_machine_with_one_core() {
        let mut machine = platform("xeon_l7455");
        assert_eq!(machine.gaps(), []);
        machine.core.parallelism = None;
        assert_eq!(told(&machine, "[core]").len(), 1);
        machine.tlbs.clear();
        assert_eq!(told(&machine, "[[tlb]]").len(), 1);
        for cache in machine.caches.iter_mut().filter(|cache| cache.kind != CacheKind::Instruction)
        {
            cache.mechanism.inclusion = None;
            if cache.level > 2 {
                cache.mechanism.replacement = None;
            }
        }
        let [replacement, inclusion] = &told(&machine, "[[cache]]")[..] else { panic!() };
        assert!(replacement.starts_with("L3 without mechanism.replacement"), "{replacement}");
        assert!(inclusion.starts_with("L2, L3 without mechanism.inclusion"), "{inclusion}");
    }
}
