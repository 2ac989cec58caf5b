// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stated facts of a machine against made-up measurements whose truth is known.

use corehop_plan::platform::observed::{
    Contention, Exchange, LatencyCurve, ListAccessTime, PlatformObservations,
};
use corehop_plan::platform::{Check, Fact, Latency, Platform};
use corehop_plan::units::{Bytes, Cpu};
use proptest::prelude::*;

/// Sizes of the three levels as stated, in KiB; `by` CPUs share a level-3 cache; two a core.
fn stated(kib: [u64; 3], cpus: u32, smt: u32, by: u32) -> Platform {
    let last = cpus - 1;
    let cache = |level: usize, by: u32| {
        format!(
            "[[cache]]\nlevel = {}\nkind = \"unified\"\nsize = {{ value = \"{} KiB\", source = \"assumed\" }}\n\
             instances = {{ value = \"0-{last} by {by}\", source = \"assumed\" }}\n",
            level + 1,
            kib[level]
        )
    };
    let text = format!(
        "schema = 1\nid = \"x\"\nname = \"x\"\ncpus = {{ value = \"0-{last}\", source = \"assumed\" }}\n\
         packages = {{ value = \"0-{last} by {cpus}\", source = \"assumed\" }}\n\
         cores = {{ value = \"0-{last} by {smt}\", source = \"assumed\" }}\n{}{}{}",
        cache(0, smt),
        cache(1, smt),
        cache(2, by)
    );
    Platform::from_toml(&text).unwrap()
}

const NANOS: [f64; 4] = [1.5, 5.0, 25.0, 110.0];

/// The curve of a machine with levels of these sizes: a list larger than a level misses it more
/// and more, wholly from twice its size on.
fn curve(platform: &Platform, kib: [f64; 3], noise: impl Fn(usize) -> f64) -> LatencyCurve {
    let sizes = platform.curve_sizes(Cpu(0), Bytes::from_mib(4096));
    let time = |size: Bytes| {
        let mut time = NANOS[0];
        for (level, &capacity) in kib.iter().enumerate() {
            let missed = (size.kib() / capacity - 1.0).clamp(0.0, 1.0);
            time += missed * (NANOS[level + 1] - NANOS[level]);
        }
        time
    };
    let point = |(place, size): (usize, Bytes)| {
        let cold = (size >= Bytes::from_mib(1)).then_some(NANOS[3] * noise(place));
        ListAccessTime { size, warm: time(size) * noise(place), cold }
    };
    let points = sizes.into_iter().enumerate().map(point);
    LatencyCurve { cpu: Cpu(0), points: points.collect(), memory: Some(NANOS[3]), remote: None }
}

/// The platform after being told of one curve.
fn told(mut platform: Platform, real: [f64; 3]) -> Platform {
    let curve = curve(&platform, real, |_| 1.0);
    platform.check_against(&PlatformObservations {
        curves: vec![curve],
        ..PlatformObservations::default()
    });
    platform
}

fn checks(platform: &Platform) -> Vec<char> {
    let letter = |check: &Check| match check {
        Check::Unchecked => '?',
        Check::Observed { .. } => 'o',
        Check::Contradicted { .. } => 'c',
    };
    platform.caches.iter().map(|cache| letter(&cache.size.as_ref().unwrap().check)).collect()
}

fn nanos(fact: Option<&Fact<Latency>>) -> f64 {
    match fact.unwrap().value {
        Latency::Picos(picos) => picos as f64 / 1e3,
        Latency::MilliCycles(_) => panic!("measured in time"),
    }
}

#[test]
fn sizes_as_stated_are_observed_and_give_the_latency_of_each_level() {
    let platform = told(stated([32, 1024, 16_384], 4, 2, 4), [32.0, 1024.0, 16_384.0]);
    assert_eq!(checks(&platform), ['o', 'o', 'o']);
    for (cache, expected) in platform.caches.iter().zip(NANOS) {
        assert!((nanos(cache.latency.as_ref()) / expected - 1.0).abs() < 0.01);
    }
    assert!((nanos(platform.memory.local.as_ref()) - 110.0).abs() < 0.01);
    assert!(Platform::from_toml(&platform.to_toml()).is_ok());
}

#[test]
fn a_level_3_cache_of_480_mib_of_which_a_guest_gets_32_is_contradicted() {
    let platform = told(stated([48, 2048, 491_520], 2, 1, 2), [48.0, 2048.0, 32_768.0]);
    assert_eq!(checks(&platform), ['o', 'o', 'c']);
    let l3 = &platform.caches[2];
    assert!((nanos(l3.latency.as_ref()) - 25.0).abs() < 1.0);
    let effective = l3.effective.as_ref().unwrap().value;
    assert!((32..=64).contains(&(effective.get() >> 20)), "{effective}");
    assert_eq!(platform.llc_size(), Some(effective));
    assert_eq!(l3.size.as_ref().unwrap().value, Bytes::from_mib(480));
    let Check::Contradicted { why } = &l3.size.as_ref().unwrap().check else { unreachable!() };
    assert!(why.contains("slow down between 32 MiB and 48 MiB"), "{why}");
}

#[test]
fn a_stated_cache_of_which_nothing_is_there_is_contradicted_and_as_slow_as_memory() {
    let platform = told(stated([48, 2048, 491_520], 2, 1, 2), [48.0, 2048.0, 2048.0]);
    assert_eq!(checks(&platform), ['o', 'o', 'c']);
    let l3 = &platform.caches[2];
    let Check::Contradicted { why } = &l3.size.as_ref().unwrap().check else { unreachable!() };
    assert!(why.contains("110.0 ns"), "{why}");
    assert!(l3.effective.is_none());
    // A simulation of this machine needs a time for the cache: that of the list.
    assert!((nanos(l3.latency.as_ref()) - 110.0).abs() < 0.01);
    assert!(l3.latency.as_ref().unwrap().source.to_string().contains("that fits the cache"));
}

#[test]
fn caches_smaller_or_larger_than_stated_are_contradicted() {
    let platform = told(stated([32, 1024, 16_384], 4, 2, 4), [32.0, 256.0, 16_384.0]);
    assert_eq!(checks(&platform), ['o', 'c', 'o']);
    let platform = told(stated([32, 1024, 8_192], 4, 2, 4), [32.0, 1024.0, 32_768.0]);
    assert_eq!(checks(&platform), ['o', 'o', 'c']);
    assert_eq!(platform.llc_size(), Some(Bytes::from_mib(32)));
    let platform = told(stated([32, 1024, 4_096], 4, 2, 4), [32.0, 1024.0, 65_536.0]);
    assert_eq!(checks(&platform), ['o', 'o', 'c']);
    assert_eq!(platform.llc_size(), Some(Bytes::from_mib(32)));
}

#[test]
fn what_a_curve_does_not_reach_stays_unchecked() {
    let mut platform = stated([32, 1024, 65_536], 4, 2, 4);
    let mut short = curve(&platform, [32.0, 1024.0, 65_536.0], |_| 1.0);
    short.points.retain(|point| point.size <= Bytes::from_mib(32));
    platform.check_against(&PlatformObservations {
        curves: vec![short.clone()],
        ..PlatformObservations::default()
    });
    assert_eq!(checks(&platform), ['o', 'o', '?']);
    let mut platform = stated([32, 1024, 65_536], 4, 2, 4);
    short.memory = None;
    short.points.iter_mut().for_each(|point| point.cold = None);
    platform.check_against(&PlatformObservations {
        curves: vec![short],
        ..PlatformObservations::default()
    });
    assert_eq!(checks(&platform), ['o', 'o', '?']);
    assert!(platform.memory.local.is_none());
}

#[test]
fn a_small_list_that_something_slowed_down_is_not_taken_for_an_edge() {
    let mut platform = stated([32, 1024, 16_384], 4, 2, 4);
    let spoiled =
        curve(&platform, [32.0, 1024.0, 16_384.0], |place| [1.0, 30.0][usize::from(place == 11)]);
    assert_eq!(spoiled.points[11].size, Bytes::from_kib(192));
    platform.check_against(&PlatformObservations {
        curves: vec![spoiled],
        ..PlatformObservations::default()
    });
    assert_eq!(checks(&platform), ['o', 'o', 'o']);
}

#[test]
fn arithmetic_that_slows_down_together_tells_who_shares_a_core() {
    let says = |smt: u32, from: u32, to: u32, slowdown: f64| {
        let mut platform = stated([32, 1024, 16_384], 4, smt, 4);
        let contention = Contention { from: Cpu(from), to: Cpu(to), slowdown };
        platform.check_against(&PlatformObservations {
            contentions: vec![contention],
            ..PlatformObservations::default()
        });
        platform.cores.check
    };
    assert!(matches!(says(2, 0, 1, 1.95), Check::Observed { .. }));
    assert!(matches!(says(2, 0, 2, 1.01), Check::Observed { .. }));
    assert!(
        matches!(says(1, 0, 1, 1.95), Check::Contradicted { why } if why.contains("share a core"))
    );
    assert!(
        matches!(says(2, 0, 1, 1.01), Check::Contradicted { why } if why.contains("a core each"))
    );
    assert_eq!(says(2, 0, 1, 1.2), Check::Unchecked);
}

/// Every pair of `cpus`, taking what `time` says.
fn exchanges(cpus: u32, time: impl Fn(u32, u32) -> f64) -> PlatformObservations {
    let pairs = (0..cpus).flat_map(|from| (0..cpus).map(move |to| (from, to)));
    let exchange = |(from, to): (u32, u32)| {
        let time = Latency::Picos((time(from, to) * 1e3) as u64);
        Exchange { from: Cpu(from), to: Cpu(to), min: time, median: time, batches: 100 }
    };
    PlatformObservations {
        exchanges: pairs.map(exchange).collect(),
        ..PlatformObservations::default()
    }
}

#[test]
fn groups_that_exchange_lines_faster_confirm_who_shares_a_cache() {
    let sharing = |by: u32, observed: &PlatformObservations| {
        let mut platform = stated([32, 1024, 16_384], 8, 2, by);
        platform.check_against(observed);
        assert_eq!(platform.exchange.as_ref().unwrap().value.len(), 64);
        platform.caches[2].instances.check.clone()
    };
    // Siblings 10 ns, quads 50 ns, beyond 140 ns; a little different for each pair.
    let quads = exchanges(8, |a, b| match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => 10.0,
        (_, true) => 50.0 + f64::from(a),
        _ => 140.0 + f64::from(b),
    });
    let even = exchanges(8, |a, b| if a / 2 == b / 2 { 10.0 } else { 50.0 + f64::from(a + b) });
    assert!(matches!(sharing(4, &quads), Check::Observed { .. }));
    assert!(matches!(sharing(8, &even), Check::Observed { .. }));
    assert!(
        matches!(sharing(4, &even), Check::Contradicted { why } if why.contains("no difference"))
    );
    // Some pairs of a quad take as long as some between quads: nothing can be said.
    let blurred =
        exchanges(8, |a, b| if a / 4 == b / 4 { 50.0 + 25.0 * f64::from(a % 4) } else { 120.0 });
    assert_eq!(sharing(4, &blurred), Check::Unchecked);
    let Check::Contradicted { why } = sharing(8, &quads) else { panic!("the groups are not seen") };
    assert!(why.contains("0-3 | 4-7"), "{why}");
}

#[test]
fn two_cpus_alone_make_no_groups() {
    let mut platform = stated([32, 1024, 16_384], 2, 1, 2);
    platform.check_against(&exchanges(2, |_, _| 60.0));
    assert_eq!(platform.caches[2].instances.check, Check::Unchecked);
}

#[test]
fn of_large_machines_some_pairs_of_every_class_are_measured_in_both_directions() {
    let platform = stated([32, 1024, 16_384], 256, 2, 16);
    let pairs = platform.exchange_pairs();
    assert!(pairs.len() <= 2 * 5 * 16, "{}", pairs.len());
    for class in platform.classes(Cpu(0)) {
        assert!(pairs.iter().any(|&(from, to)| platform.affinity(from, to) == class.0));
    }
    assert!(pairs.iter().all(|&(from, to)| pairs.contains(&(to, from))));
    let small = stated([32, 1024, 16_384], 8, 2, 8);
    assert_eq!(small.exchange_pairs().len(), 64);
    assert_eq!(small.contention_pairs().len(), 4 + 3);
}

proptest! {
    #[test]
    fn noise_that_only_adds_time_does_not_contradict_what_is_so(
        noise in prop::collection::vec(1.0f64..1.25, 64),
    ) {
        let mut platform = stated([32, 1024, 16_384], 4, 2, 4);
        let curve = curve(&platform, [32.0, 1024.0, 16_384.0], |place| noise[place % 64]);
        platform.check_against(&PlatformObservations { curves: vec![curve], ..PlatformObservations::default() });
        prop_assert_eq!(checks(&platform), vec!['o', 'o', 'o']);
    }
}
