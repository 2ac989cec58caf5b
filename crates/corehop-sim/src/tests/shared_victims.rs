// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mostly exclusive cache, beside an exclusive one, with a pencil.

use crate::{Access, AccessOutcome, CacheSpec, Hierarchy, Spec};
use corehop_plan::platform::{CacheKind, Distance, Found, Inclusion, Lookup, Protocol, Supplier};

use Access::{Read, Write};

/// A machine with two cores, each with a cache of two lines, and a shared cache of four lines for their victims.
fn two_cores(inclusion: Inclusion) -> Hierarchy {
    let mut inner = CacheSpec::new(1, CacheKind::Unified, 1, 2);
    inner.instances = vec![vec![0], vec![1]];
    let mut outer = CacheSpec::new(2, CacheKind::Unified, 1, 4);
    outer.instances = vec![vec![0, 1]];
    outer.inclusion = inclusion;
    let spec = Spec {
        caches: vec![inner, outer],
        cores: vec![0, 1],
        packages: vec![0, 0],
        protocol: Protocol::Moesi,
        lookup: Lookup::Directory,
        line: 64,
    };
    Hierarchy::new(&spec, 0).unwrap()
}

fn source(outcome: AccessOutcome) -> (Supplier, u8, Found) {
    (outcome.supplier, outcome.level, outcome.state)
}

/// Lets both cores read line 7; then core 0 reads two other lines, so that line 7 leaves the cache of core 0.
fn shared(inclusion: Inclusion, first: Access) -> Hierarchy {
    let mut machine = two_cores(inclusion);
    machine.access(0, 7, first);
    let second = machine.access(1, 7, Read);
    assert_eq!((second.supplier, second.distance), (Supplier::Peer, Distance::L2));
    machine.access(0, 1, Read);
    let third = machine.access(0, 2, Read);
    let lost = inclusion == Inclusion::Exclusive && first == Write;
    assert_eq!(third.written_back, u8::from(lost), "newer data goes no further than it must");
    machine
}

const OUTER: (Supplier, u8, Found) = (Supplier::Own, 2, Found::Clean);

#[test]
fn a_line_that_another_core_has_enters_and_stays_when_it_is_read() {
    let mut exclusive = shared(Inclusion::Exclusive, Read);
    assert_eq!(source(exclusive.access(0, 7, Read)), (Supplier::Peer, 1, Found::Clean));
    let mut mostly = shared(Inclusion::MostlyExclusive, Read);
    assert_eq!(source(mostly.access(0, 7, Read)), OUTER);
    // Still there: core 1 loses its copy to two other lines, too.
    mostly.access(1, 3, Read);
    mostly.access(1, 4, Read);
    assert_eq!(source(mostly.access(1, 7, Read)), OUTER);
    assert_eq!(mostly.access(0, 7, Read), AccessOutcome::HIT);
}

#[test]
fn a_line_of_one_core_moves_inwards_and_leaves() {
    for inclusion in [Inclusion::Exclusive, Inclusion::MostlyExclusive] {
        let mut machine = two_cores(inclusion);
        for line in [7, 1, 2] {
            machine.access(0, line, Read);
        }
        assert_eq!(source(machine.access(0, 7, Read)), OUTER, "{inclusion}");
        // Core 0 has it now, and nothing else.
        let other = machine.access(1, 7, Read);
        assert_eq!(source(other), (Supplier::Peer, 1, Found::Clean), "{inclusion}");
    }
}

#[test]
fn a_write_takes_the_shared_line_out() {
    let mut machine = shared(Inclusion::MostlyExclusive, Read);
    machine.access(0, 7, Read);
    assert_eq!(machine.access(0, 7, Write).invalidated, 1, "the copy of core 1");
    let read = machine.access(1, 7, Read);
    assert_eq!(source(read), (Supplier::Peer, 1, Found::Dirty));
}

#[test]
fn the_owner_of_newer_data_leaves_it_to_the_cache_around() {
    let mut machine = shared(Inclusion::MostlyExclusive, Write);
    assert_eq!(source(machine.access(0, 7, Read)), (Supplier::Own, 2, Found::Dirty));
    assert_eq!(machine.access(1, 7, Read), AccessOutcome::HIT);
    // Four lines that nobody shares push it out, and memory gets it.
    let lines = (10..20).map(|line| machine.access(0, line, Read).written_back);
    assert_eq!(lines.map(u32::from).sum::<u32>(), 1);
    assert!(!machine.flush(7));
}
