// SPDX-License-Identifier: MIT OR Apache-2.0
//! A calibration finds the numbers of a machine that it does not see: another simulated one, of which it has samples alone.

use corehop_decide::calibration::{calibrate, experiment};
use corehop_plan::experiment::{Experiment, Preset, Synthetic};
use corehop_plan::machine::samples_of;
use corehop_plan::platform::{
    Check, Distance, Fact, Latency, LatencyRow, Loss, Platform, Supplier,
};
use corehop_plan::samples::Sample;
use corehop_plan::units::{Bytes, Nanos};
use corehop_sim::SimMachine;

/// Two cores with a level-3 cache of 4 MiB in common, as a kernel describes them to a guest.
const DECLARED: &str = r#"
schema = 1
id = "guest"
name = "A guest"
cpus = { value = "0-1", source = "assumed" }
packages = { value = "0-1 by 2", source = "assumed" }
cores = { value = "0-1 by 1", source = "assumed" }
[clock]
core = { value = "3 GHz", source = "assumed" }
[memory]
local = { value = "90 ns", source = "assumed" }
[[cache]]
level = 1
kind = "data"
size = { value = "32 KiB", source = "assumed" }
line = { value = "64 B", source = "assumed" }
ways = { value = 8, source = "assumed" }
instances = { value = "0-1 by 1", source = "assumed" }
latency = { value = "1.2 ns", source = "assumed" }
[[cache]]
level = 2
kind = "unified"
size = { value = "512 KiB", source = "assumed" }
line = { value = "64 B", source = "assumed" }
ways = { value = 8, source = "assumed" }
instances = { value = "0-1 by 1", source = "assumed" }
latency = { value = "4 ns", source = "assumed" }
[[cache]]
level = 3
kind = "unified"
size = { value = "4 MiB", source = "assumed" }
line = { value = "64 B", source = "assumed" }
ways = { value = 16, source = "assumed" }
instances = { value = "0-1 by 2", source = "assumed" }
latency = { value = "15 ns", source = "assumed" }
[[tlb]]
level = 1
kind = "data"
entries = { value = 1024, source = "assumed" }
ways = { value = 4, source = "assumed" }
pages = { value = ["4 KiB"], source = "assumed" }
penalty = { value = "0 ns", source = "assumed" }
"#;

fn declared() -> Platform {
    Platform::from_toml(DECLARED).unwrap()
}

fn nanos(ns: u64) -> Fact<Latency> {
    Fact::assumed(Latency::Picos(ns * 1_000), "")
}

/// The machine that the guest really is.
fn hidden() -> Platform {
    let mut it = declared();
    it.memory.local = Some(nanos(140));
    let last = it.caches.last_mut().unwrap();
    last.size.as_mut().unwrap().check = Check::Contradicted { why: "a test".to_owned() };
    last.effective = Some(Fact::assumed(Bytes::from_mib(2), ""));
    last.latency = Some(nanos(24));
    it.tlbs[0].penalty = nanos(40);
    let second = &mut it.caches[1];
    second.size.as_mut().unwrap().check = Check::Contradicted { why: "a test".to_owned() };
    second.effective = Some(Fact::assumed(Bytes::from_kib(384), ""));
    let (supplier, distance, time) = (Supplier::Peer, Some(Distance::L3), nanos(45));
    it.latencies = vec![LatencyRow { distance, ..LatencyRow::of(supplier, time) }];
    let loss = |millis: u64, kib: u64, share: &[u32]| Loss {
        length: Nanos::from_millis(millis),
        wss: Bytes::from_kib(kib),
        share: Fact::assumed(share.to_vec(), ""),
    };
    it.losses = vec![
        loss(2, 32, &[100, 200, 300]),
        loss(8, 32, &[400, 600, 800]),
        loss(2, 2_048, &[50, 100, 150]),
        loss(8, 2_048, &[200, 300, 400]),
    ];
    it
}

/// The samples of the cells that give numbers, taken on the hidden machine.
fn samples() -> Vec<Sample> {
    let declared = declared();
    let quick = Preset::Quick.synthetic(&declared, None, None).groups.len();
    let whole = experiment(&declared);
    let own = Synthetic { groups: whole.groups[quick..].to_vec(), ..whole };
    let plan = own.replicated(&declared, 3, 10).unwrap();
    let mut machine = SimMachine::new(hidden()).unwrap();
    samples_of(&mut machine, &plan).unwrap()
}

fn ns(latency: Latency) -> f64 {
    match latency {
        Latency::Picos(picos) => picos as f64 / 1e3,
        Latency::MilliCycles(_) => panic!("{latency:?}"),
    }
}

fn near(what: &str, found: f64, truth: f64, off: f64) {
    assert!((found / truth - 1.0).abs() <= off, "{what}: {found} and not {truth}");
}

#[test]
fn the_numbers_of_a_hidden_machine_are_found_from_its_samples_alone() {
    let declared = declared();
    let calibrated = calibrate(&declared, declared.clone(), &samples(), &mut |_| true).unwrap();
    assert_eq!(calibrated.notes, Vec::<String>::new());
    let found = calibrated.platform;
    found.validate().unwrap();
    near("memory", ns(found.memory.local.unwrap().value), 140.0, 0.03);
    let last = found.caches.last().unwrap();
    assert_eq!(last.capacity(), Some(Bytes::from_mib(2)), "{:?}", last.effective);
    assert_eq!(found.caches[1].capacity(), Some(Bytes::from_kib(384)), "{:?}", found.caches[1]);
    near("hit", ns(last.latency.as_ref().unwrap().value), 24.0, 0.1);
    near("walk", ns(found.tlbs[0].penalty.value), 40.0, 0.3);
    let peer = found.latencies.iter().find(|it| it.distance == Some(Distance::L3)).unwrap();
    near("peer", ns(peer.time.value), 45.0, 0.05);
    // A set of 2 MiB fills the last level of this machine and never comes to rest: its losses are not told.
    for (millis, kib, median) in [(2, 32, 200), (8, 32, 600)] {
        let (length, wss) = (Nanos::from_millis(millis), Bytes::from_kib(kib));
        let loss = found.losses.iter().find(|it| (it.length, it.wss) == (length, wss)).unwrap();
        let at_half = loss.share.value[loss.share.value.len() / 2];
        assert!(at_half.abs_diff(median) <= 80, "{millis} ms, {kib} KiB: {:?}", loss.share.value);
    }
    // Each number says how sure it is, and where it comes from.
    assert!(calibrated.numbers.iter().all(|it| it.n >= 48), "{:?}", calibrated.numbers);
    let toml = Platform::from_toml(&hidden().to_toml()).unwrap();
    assert_eq!(toml, hidden());
}

#[test]
fn without_a_valid_sample_the_description_stays_and_says_so() {
    let declared = declared();
    let calibrated = calibrate(&declared, declared.clone(), &[], &mut |_| true).unwrap();
    assert_eq!(calibrated.platform, declared);
    let notes = calibrated.notes.join("\n");
    for word in ["memory.local", "second level", "last level", "latency of a peer", "loss"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
}
