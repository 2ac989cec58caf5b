// SPDX-License-Identifier: MIT OR Apache-2.0
//! The latencies of a Zen processor as AnandTech prints them (2019, show 14694, "Memory Subsystem: Latency", column EPYC 7742), by
//! lists that are followed in random order. The table has no states of lines; that level 3 keeps what several cores read is
//! therefore judged by its row of level 3, for lists that all cores of a complex have read.

use corehop_plan::platform::{Home, Inclusion, Platform};
use corehop_plan::units::Cpu;
use corehop_sim::times::OutcomeTimes;
use corehop_sim::{Access, Hierarchy, Spec};

/// The size of a list in KiB, and the printed time in nanoseconds. Cycles are at 3.4 GHz.
const PRINTED: [(u32, f64); 4] =
    [(16, 4.0 / 3.4), (256, 13.0 / 3.4), (8 << 10, 10.27), (128 << 10, 122.0)];

/// The machine, and the times of what its caches answer.
struct Zen {
    caches: Hierarchy,
    times: OutcomeTimes,
}

impl Zen {
    fn new(inclusion: Inclusion) -> Self {
        let mut platform = Platform::named("epyc_7742").unwrap().unwrap();
        let last = platform.caches.iter_mut().find(|cache| cache.level == 3).unwrap();
        last.mechanism.inclusion.as_mut().unwrap().value = inclusion;
        assert!(platform.validate().is_ok() && platform.cpus.value.contains(Cpu(63)));
        let spec = Spec::from_platform(&platform).unwrap();
        let caches = Hierarchy::new(&spec, 1).unwrap();
        Self { caches, times: OutcomeTimes::from_platform(&platform).unwrap() }
    }

    /// The mean time of the reads of `cpu` that follow a list of so many KiB, which begins at line `from`, in nanoseconds.
    fn walk(&mut self, cpu: usize, from: u32, kib: u32) -> f64 {
        let lines = kib * 16;
        // Odd and about the golden section of the list: each line once, none beside the one before.
        let step = (f64::from(lines) * 0.618) as u32 | 1;
        let mut time = 0;
        for at in 0..lines {
            let line = from + (u64::from(at) * u64::from(step) % u64::from(lines)) as u32;
            let outcome = self.caches.access(cpu, line, Access::Read);
            time += self.times.on(cpu).of(&outcome, Home::Local);
        }
        time as f64 / f64::from(lines) / 1e3
    }
}

fn near(simulated: f64, printed: f64) -> bool {
    (simulated / printed - 1.0).abs() < 0.05
}

/// Lines that nothing else in these tests reads.
const ELSEWHERE: u32 = 1 << 24;

#[test]
fn lists_of_one_core_take_what_is_printed() {
    let mut zen = Zen::new(Inclusion::MostlyExclusive);
    for (kib, printed) in PRINTED {
        zen.walk(0, 0, kib);
        let simulated = zen.walk(0, 0, kib);
        assert!(near(simulated, printed), "{kib} KiB: {simulated}, printed {printed}");
    }
}

/// The time of core 0 for a list of 256 KiB that all four cores have read, after it has read something else.
fn shared_list(inclusion: Inclusion) -> f64 {
    let mut zen = Zen::new(inclusion);
    for cpu in 0..4 {
        zen.walk(cpu, 0, 256);
    }
    zen.walk(0, ELSEWHERE, 1 << 10);
    zen.walk(0, 0, 256)
}

#[test]
fn a_list_that_all_cores_of_a_complex_have_read_takes_the_printed_time_of_level_3() {
    let printed = PRINTED[2].1;
    let mostly = shared_list(Inclusion::MostlyExclusive);
    assert!(near(mostly, printed), "{mostly}, printed {printed}");
    // An exclusive cache lets the line go while another core has it, which then has to be asked.
    let exclusive = shared_list(Inclusion::Exclusive);
    assert!(near(exclusive, 24.0), "{exclusive}");
    // One of the size of level 3's row, whose lines level 3 has from each core in turn.
    let mut zen = Zen::new(Inclusion::MostlyExclusive);
    for cpu in 0..4 {
        zen.walk(cpu, 0, 8 << 10);
    }
    let large = zen.walk(0, 0, 8 << 10);
    assert!(near(large, printed), "{large}, printed {printed}");
}
