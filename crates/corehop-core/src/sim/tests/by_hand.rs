// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines small enough to follow with a pencil.

use crate::platform::{
    CacheKind, Distance, Found, Inclusion, Lookup, Platform, Protocol, Supplier,
};
use crate::sim::{Access, AccessOutcome, CacheSpec, Hierarchy, Spec, SpecError};

use Access::{Fetch, Read, Write};

/// Two packages of two cores: one set of two lines a core, four lines a package (inclusive).
fn two_packages(protocol: Protocol) -> Hierarchy {
    let mut inner = CacheSpec::new(1, CacheKind::Unified, 1, 2);
    inner.instances = (0..4).map(|cpu| vec![cpu]).collect();
    let mut outer = CacheSpec::new(2, CacheKind::Unified, 1, 4);
    outer.instances = vec![vec![0, 1], vec![2, 3]];
    let spec = Spec {
        caches: vec![inner, outer],
        cores: vec![0, 1, 2, 3],
        packages: vec![0, 0, 1, 1],
        protocol,
        lookup: Lookup::Snooping,
        line: 64,
    };
    Hierarchy::new(&spec, 0).unwrap()
}

fn source(outcome: AccessOutcome) -> (Supplier, u8, Found, Distance) {
    (outcome.supplier, outcome.level, outcome.state, outcome.distance)
}

const MEMORY: (Supplier, u8, Found, Distance) = (Supplier::Memory, 0, Found::Clean, Distance::Core);

#[test]
fn the_third_line_of_two_ways_comes_from_the_next_level() {
    let mut machine = two_packages(Protocol::Mesi);
    for line in [1, 2, 3] {
        assert_eq!(source(machine.access(0, line, Read)), MEMORY);
    }
    assert_eq!(machine.access(0, 3, Read), AccessOutcome::HIT);
    // 1 was the least recently used of two.
    let second = machine.access(0, 1, Read);
    assert_eq!(source(second), (Supplier::Own, 2, Found::Clean, Distance::Core));
    let counters = machine.counters(0);
    assert_eq!((counters.reads, counters.hits, counters.memory), (5, [1, 1, 0, 0], 3));
}

#[test]
fn a_line_that_a_neighbour_modified_comes_from_it_and_stays_below_the_shared_cache() {
    let mut machine = two_packages(Protocol::Mesi);
    machine.access(0, 7, Write);
    let read = machine.access(1, 7, Read);
    assert_eq!(source(read), (Supplier::Peer, 1, Found::Dirty, Distance::L2));
    assert_eq!((read.asked, read.written_back), (1, 0));
    // Now the shared cache has the newer data, and both cores a copy.
    let third = machine.access(1, 7, Write);
    assert_eq!((third.supplier, third.level, third.invalidated), (Supplier::Own, 1, 1));
    assert_eq!(machine.counters(1).upgrades, 1);
    assert_eq!(machine.counters(0).invalidations, 0);
    assert_eq!(machine.cache_counters(0, 1, false).unwrap().invalidations, 1);
    assert!(machine.flush(7));
    assert!(!machine.flush(7));
}

#[test]
fn the_protocols_differ_in_who_answers_another_package() {
    let modified = (Supplier::Peer, 1, Found::Dirty, Distance::Machine);
    let clean = (Supplier::Peer, 2, Found::Clean, Distance::Machine);
    for (protocol, after_write, written_back, after_read) in [
        (Protocol::Mesi, modified, 1, MEMORY),
        (Protocol::Mesif, modified, 1, clean),
        (Protocol::Moesi, modified, 0, MEMORY),
    ] {
        let mut machine = two_packages(protocol);
        machine.access(0, 7, Write);
        let outcome = machine.access(2, 7, Read);
        assert_eq!(source(outcome), after_write, "{protocol}");
        assert_eq!(outcome.written_back, written_back, "{protocol}");
        assert_eq!(machine.counters(2).snoop_hits_modified, 1);

        let mut machine = two_packages(protocol);
        machine.access(0, 7, Read);
        assert_eq!(source(machine.access(2, 7, Read)), after_read, "{protocol}");
        let counters = machine.counters(2);
        assert_eq!((counters.snoop_hits, counters.last_level_misses()), (1, 1), "{protocol}");
    }
}

#[test]
fn the_owner_answers_again_and_writes_back_when_it_evicts() {
    let mut machine = two_packages(Protocol::Moesi);
    machine.access(0, 0, Write);
    machine.access(2, 0, Read);
    machine.flush(99);
    // Four more lines push 0 out of package 0; its owner has the only newer data.
    let written: u32 = [4, 8, 12, 16]
        .map(|line| u32::from(machine.access(0, line, Read).written_back))
        .iter()
        .sum();
    assert_eq!(written, 1);
    assert_eq!(machine.access(2, 0, Read), AccessOutcome::HIT);
}

#[test]
fn a_write_takes_the_line_from_everyone_and_says_how_far() {
    let mut machine = two_packages(Protocol::Mesif);
    for cpu in [0, 1, 2, 3] {
        machine.access(cpu, 5, Read);
    }
    let write = machine.access(0, 5, Write);
    // CPU 1's copy, two innermost ones of the other package, and its shared one.
    assert_eq!((write.invalidated, write.farthest), (4, Distance::Machine));
    assert_eq!(machine.access(0, 5, Write), AccessOutcome::HIT);
}

#[test]
fn an_instruction_that_is_written_is_fetched_anew() {
    let mut data = CacheSpec::new(1, CacheKind::Data, 1, 2);
    data.instances = vec![vec![0]];
    let instructions = CacheSpec { kind: CacheKind::Instruction, ..data.clone() };
    let mut outer = CacheSpec::new(2, CacheKind::Unified, 4, 2);
    outer.instances = vec![vec![0]];
    for inclusion in [Inclusion::Inclusive, Inclusion::Exclusive, Inclusion::NonInclusive] {
        outer.inclusion = inclusion;
        let spec = Spec {
            caches: vec![data.clone(), instructions.clone(), outer.clone()],
            cores: vec![0],
            packages: vec![0],
            protocol: Protocol::Mesi,
            lookup: Lookup::Snooping,
            line: 64,
        };
        let mut machine = Hierarchy::new(&spec, 0).unwrap();
        machine.access(0, 1, Fetch);
        assert_eq!(machine.access(0, 1, Fetch), AccessOutcome::HIT);
        assert_eq!(machine.access(0, 1, Write).invalidated, 1, "{inclusion}");
        let again = machine.access(0, 1, Fetch);
        assert_eq!(
            (again.supplier, again.distance),
            (Supplier::Peer, Distance::Core),
            "{inclusion}"
        );
    }
}

#[test]
fn a_partition_keeps_what_the_others_would_evict() {
    let survivors = |machine: &mut Hierarchy| {
        for line in [0, 1] {
            machine.access(0, line, Read);
        }
        for line in 10..30 {
            machine.access(1, line, Read);
        }
        machine.flush(99);
        (0..2).filter(|&line| machine.access(0, line, Read) == AccessOutcome::HIT).count()
    };
    assert_eq!(survivors(&mut two_packages(Protocol::Mesi)), 0);
    let mut machine = two_packages(Protocol::Mesi);
    machine.set_ways(0, 2, 0b0011);
    machine.set_ways(1, 2, 0b1100);
    assert_eq!(survivors(&mut machine), 2);
}

#[test]
fn a_clone_is_a_snapshot_and_unused_caches_take_no_room_in_it() {
    let mut machine = two_packages(Protocol::Mesi);
    machine.access(0, 1, Write);
    let snapshot = machine.clone();
    for line in 10..20 {
        machine.access(0, line, Read);
    }
    let mut again = snapshot.clone();
    assert_eq!(again.access(0, 1, Read), AccessOutcome::HIT);
    assert_ne!(machine.access(0, 1, Read), AccessOutcome::HIT);
    assert!(snapshot.caches.iter().filter(|cache| cache.is_allocated()).count() == 2);
}

#[test]
fn the_platforms_that_come_with_the_program_can_be_simulated() {
    for id in Platform::names() {
        let platform = Platform::named(id).unwrap().unwrap();
        let spec = Spec::from_platform(&platform).unwrap();
        let mut machine = Hierarchy::new(&spec, 1).unwrap();
        assert_eq!(source(machine.access(0, 1, Read)), MEMORY);
        assert_eq!(machine.access(0, 1, Write), AccessOutcome::HIT);
    }
    let mut platform = Platform::named("xeon_l7455").unwrap().unwrap();
    platform.caches[2].ways = None;
    let missing = Spec::from_platform(&platform).unwrap_err();
    assert_eq!(missing, SpecError::Missing { fact: "cache[2].ways".to_owned() });
}
