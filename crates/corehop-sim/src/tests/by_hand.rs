// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines small enough to follow with a pencil.

use crate::{Access, AccessOutcome, CacheSpec, Hierarchy, Spec, SpecError};
use corehop_plan::platform::{
    CacheKind, Distance, Fact, Found, Inclusion, Lookup, Platform, Protocol, Supplier,
};
use corehop_plan::units::Bytes;

use Access::{Fetch, Read, Write};

/// A machine with two packages of two cores: each core has one set of two lines, and each package has an inclusive cache of
/// four lines.
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

/// A machine with two cores, each with one set of four lines, in a cache of eight lines that does not include the cores'
/// lines and has a snoop filter for two lines.
fn filtered(inclusion: Inclusion) -> Spec {
    let mut inner = CacheSpec::new(1, CacheKind::Unified, 1, 4);
    inner.instances = vec![vec![0], vec![1]];
    let mut outer = CacheSpec::new(2, CacheKind::Unified, 1, 8);
    outer.instances = vec![vec![0, 1]];
    outer.inclusion = inclusion;
    outer.snoop_filter = Some(Box::new(CacheSpec::new(2, CacheKind::Unified, 1, 2)));
    Spec {
        caches: vec![inner, outer],
        cores: vec![0, 1],
        packages: vec![0, 0],
        protocol: Protocol::Mesi,
        lookup: Lookup::Snooping,
        line: 64,
    }
}

#[test]
fn a_line_leaves_a_cache_that_has_room_when_the_snoop_filter_has_none() {
    let mut machine = Hierarchy::new(&filtered(Inclusion::NonInclusive), 0).unwrap();
    machine.access(0, 1, Write);
    machine.access(0, 2, Read);
    machine.access(1, 3, Read);
    // 1 was the oldest of two entries; its newer data went to the cache outside.
    let again = machine.access(0, 1, Read);
    assert_eq!(source(again), (Supplier::Own, 2, Found::Dirty, Distance::Core));
    // Now 2 had to go, and 3 is still in the other core.
    assert_eq!(machine.access(1, 3, Read), AccessOutcome::HIT);
    assert_eq!(source(machine.access(0, 2, Read)).1, 2);
    let counters = |cpu| machine.cache_counters(cpu, 1, false).unwrap().back_invalidations;
    assert_eq!([counters(0), counters(1)], [2, 1]);
    assert_eq!(machine.counters(0).asked, 0, "the filter knows that the other core has nothing");
}

#[test]
fn an_entry_whose_line_has_left_goes_before_an_older_one() {
    let mut machine = Hierarchy::new(&filtered(Inclusion::Exclusive), 0).unwrap();
    machine.access(0, 1, Read);
    machine.access(0, 2, Read);
    machine.flush(2);
    machine.access(0, 3, Read);
    assert_eq!(machine.access(0, 1, Read), AccessOutcome::HIT);
    // What has to leave both cores is taken in by an exclusive cache, though it was not written.
    machine.access(1, 4, Read);
    assert_eq!(source(machine.access(0, 1, Read)).1, 2);
}

#[test]
fn a_snoop_filter_of_a_cache_that_needs_none_is_refused() {
    let refused = |spec: &Spec| Hierarchy::new(spec, 0).unwrap_err().to_string();
    let inclusive = refused(&filtered(Inclusion::Inclusive));
    assert!(inclusive.starts_with("`cache[1].mechanism.snoop_filter`"), "{inclusive}");
    let mut innermost = filtered(Inclusion::NonInclusive);
    innermost.caches[0].snoop_filter = innermost.caches[1].snoop_filter.take();
    assert!(refused(&innermost).contains("cache[0]"));
    // Of a sampled machine the filter is sampled too.
    let mut sets = filtered(Inclusion::NonInclusive);
    for cache in &mut sets.caches {
        cache.sets = 8;
    }
    assert_eq!(sets.sampled(8), None, "the filter has one set");
    sets.caches[1].snoop_filter.as_mut().unwrap().sets = 16;
    let sampled = sets.sampled(8).unwrap();
    assert_eq!(sampled.caches[1].snoop_filter.as_ref().unwrap().sets, 2);
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

#[test]
fn lines_and_pages_of_other_sizes_are_refused_and_not_simulated_as_something_else() {
    let x5650 = || Platform::named("xeon_x5650").unwrap().unwrap();
    let mut narrow = x5650();
    for cache in &mut narrow.caches {
        cache.line = Some(Fact::cited(Bytes::new(32), "a test"));
    }
    assert_eq!(
        Spec::from_platform(&narrow).unwrap_err().to_string(),
        "`cache[0].line`: lines of 32 B; corehop simulates only lines of 64 B, which working sets visit"
    );
    let mut paged = x5650();
    paged.tlbs[0].pages.value = vec![Bytes::from_kib(64)];
    assert_eq!(
        Spec::from_platform(&paged).unwrap_err().to_string(),
        "`tlb[0].pages`: corehop simulates pages of 4 KiB, 2 MiB and 1 GiB, not of 64 KiB"
    );
}
