// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about several cores that a platform leaves open, and what a simulation takes instead.

use super::mechanism::{Distance, Supplier, Traffic};
use super::{Affinity, Platform};
use crate::units::CpuList;

/// A fact that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFact {
    /// Its table in the file.
    pub table: &'static str,
    /// The missing fact, and what follows.
    pub what: String,
}

impl std::fmt::Display for MissingFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.table, self.what)
    }
}

impl Platform {
    /// The facts that a simulation of several cores takes and that are not stated. None for one core.
    pub fn gaps(&self) -> Vec<MissingFact> {
        if self.cores.value.iter().count() < 2 {
            return Vec::new();
        }
        self.no_controller().into_iter().chain(self.no_peers()).collect()
    }

    /// Nothing that memory is read through.
    fn no_controller(&self) -> Option<MissingFact> {
        let reads = |it: &Traffic| *it == Traffic::MemoryRead;
        let stated = self.servers.iter().any(|it| it.carries.value.iter().any(reads));
        (!stated).then(|| MissingFact {
            table: "[[server]]",
            what: "none carries memory_read: cores never wait for each other's misses".to_owned(),
        })
    }

    /// The distances between cores for which no time of a line is stated or measured.
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
                "no peer at distance {}: a line from such a core costs as much as memory",
                open.join(", ")
            ),
        })
    }

    /// The distances between two cores that there are, with what their CPUs have in common: those from the first CPU of each
    /// package, as packages are alike inside.
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

    #[test]
    fn a_machine_without_a_controller_or_the_time_of_a_peer_is_told_so() {
        let mut machine = platform("xeon_x5650");
        assert_eq!(machine.gaps(), []);
        let latencies = std::mem::take(&mut machine.latencies);
        let text = machine.gaps()[0].to_string();
        assert!(
            text.contains("shared_l3, other_package") && !text.contains("same_package"),
            "{text}"
        );
        machine.latencies = latencies;
        machine.servers.clear();
        let [gap] = &machine.gaps()[..] else { panic!("{:?}", machine.gaps()) };
        assert_eq!(gap.table, "[[server]]");
    }

    #[test]
    fn a_time_of_any_distance_and_a_measured_exchange_leave_nothing_open() {
        let mut machine = platform("xeon_x5650");
        machine.latencies.retain(|it| it.supplier == Supplier::Peer);
        machine.latencies.truncate(1);
        machine.latencies[0].distance = None;
        assert_eq!(machine.gaps(), []);
    }
}
