// SPDX-License-Identifier: MIT OR Apache-2.0
//! Misses under way at once, by the level that they miss, on a machine of a nanosecond a cycle: times by hand.

use corehop_plan::experiment::{Experiment, Length, SamplingGroup, Synthetic};
use corehop_plan::machine::{Machine, Records};
use corehop_plan::platform::{Fact, Platform};
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::{Absence, Event, Load, Mover, Page, Pattern, Polluter, WorkingSet};
use corehop_sim::SimMachine;

/// Two cores with 4 KiB, 32 KiB and a common 256 KiB.
const MACHINE: &str = r#"
schema = 1
id = "toy"
name = "A toy"
cpus = { value = "0-1", source = "assumed" }
packages = { value = "0-1 by 2", source = "assumed" }
cores = { value = "0-1 by 1", source = "assumed" }

[clock]
core = { value = "1 GHz", source = "assumed" }

[memory]
local = { value = "100 ns", source = "assumed" }

[[cache]]
level = 1
kind = "data"
size = { value = "4 KiB", source = "assumed" }
ways = { value = 4, source = "assumed" }
line = { value = "64 B", source = "assumed" }
instances = { value = "0-1 by 1", source = "assumed" }
latency = { value = "4 cycles", source = "assumed" }
mechanism.parallelism = { value = 2000, source = "assumed" }

[[cache]]
level = 2
kind = "unified"
size = { value = "32 KiB", source = "assumed" }
ways = { value = 8, source = "assumed" }
line = { value = "64 B", source = "assumed" }
instances = { value = "0-1 by 1", source = "assumed" }
latency = { value = "12 cycles", source = "assumed" }
mechanism.parallelism = { value = 4000, source = "assumed" }

[[cache]]
level = 3
kind = "unified"
size = { value = "256 KiB", source = "assumed" }
ways = { value = 16, source = "assumed" }
line = { value = "64 B", source = "assumed" }
instances = { value = "0-1 by 2", source = "assumed" }
latency = { value = "40 cycles", source = "assumed" }
mechanism.parallelism = { value = 5000, source = "assumed" }

[core]
outstanding = { value = 10, source = "assumed" }
parallelism = { value = 1000, source = "assumed" }
"#;

/// The picoseconds per line of the cold and of the warm touch of a working set of `kib` KiB.
fn touches(platform: &Platform, pattern: Pattern, kib: u64) -> [u64; 2] {
    let wss = Bytes::from_kib(kib);
    let set = WorkingSet { pattern, page: Page::Base, ..WorkingSet::list(wss, 0.0) };
    let group = SamplingGroup {
        load: Load::Idle,
        sets: vec![set],
        events: vec![Event::None],
        length: Length::Fixed(Nanos::from_millis(1)),
        absence: Absence::Nothing,
        samples: 1,
    };
    let experiment = Synthetic {
        mover: Mover::Affinity,
        preemptor: Polluter { wss, pattern: Pattern::Shuffled, write_ratio: 0.0 },
        preemptor_sizes: Vec::new(),
        passes: 0,
        groups: vec![group],
        cpus: CpuList::default(),
    };
    let plan = experiment.plan(platform, 7).unwrap();
    let mut records = Records::default();
    SimMachine::new(platform.clone()).unwrap().run(&plan, &mut records).unwrap();
    let touches = &records.jobs[0].touches;
    [0, 1].map(|at| (1e3 * touches[at].ns / touches[at].lines as f64).round() as u64)
}

#[test]
fn misses_of_each_level_overlap_as_that_level_lets_them() {
    let platform = Platform::from_toml(MACHINE).unwrap();
    assert_eq!(Platform::from_toml(&platform.to_toml()).as_ref(), Ok(&platform));
    // From memory five at a time, from level 3 four, and from level 2 two.
    let [cold, second] = touches(&platform, Pattern::Scan, 16);
    assert_eq!([cold, second], [100_000 / 5, 12_000 / 2]);
    let [_, third] = touches(&platform, Pattern::Scan, 96);
    assert_eq!(third, 40_000 / 4);
    // Each access of a list waits for the one before, at every level.
    assert_eq!(touches(&platform, Pattern::Shuffled, 16), [100_000, 12_000]);
}

#[test]
fn a_level_that_states_nothing_has_what_the_core_has_and_none_more_than_fits() {
    let mut platform = Platform::from_toml(MACHINE).unwrap();
    platform.caches[1].mechanism.parallelism = None;
    platform.core.parallelism = Some(Fact::assumed(8_000, ""));
    assert_eq!(touches(&platform, Pattern::Scan, 96)[1], 40_000 / 8);
    platform.core.outstanding = Some(Fact::assumed(3, ""));
    let [cold, third] = touches(&platform, Pattern::Scan, 96);
    assert_eq!([cold, third], [33_333, 13_333]);
}

#[test]
fn less_than_a_miss_is_refused() {
    let text = MACHINE.replace("value = 4000", "value = 400");
    let error = Platform::from_toml(&text).unwrap_err().to_string();
    assert!(error.contains("`cache[1].mechanism.parallelism.value`"), "{error}");
}
