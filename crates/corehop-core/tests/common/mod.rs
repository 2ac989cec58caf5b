// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common parts of several tests of the simulated machine.
#![allow(dead_code, reason = "no test uses all of it")]

use corehop_core::experiment::{Group, Length, Synthetic};
use corehop_core::platform::Platform;
use corehop_core::study::{Shard, Study, StudyCounts, run};
use corehop_core::units::{Bytes, CpuList, Nanos};
use corehop_core::workload::{Absence, Event, Load, Mover, Pattern, Polluter, WorkingSet};

/// The machine of Wächtler.
pub(crate) fn x5650() -> Platform {
    Platform::named("xeon_x5650").unwrap().unwrap()
}

/// Events of one working set of so many KiB on an idle machine, beside a preemptor of 64 KiB, on
/// these CPUs (all where the text is empty).
pub(crate) fn idle(
    wss_kib: u64,
    events: &[Event],
    length: Nanos,
    samples: u32,
    cpus: &str,
) -> Synthetic {
    let wss = Bytes::from_kib(64);
    Synthetic {
        mover: Mover::Affinity,
        preemptor: Polluter { wss, pattern: Pattern::Shuffled, write_ratio: 0.5 },
        preemptor_sizes: Vec::new(),
        passes: 0,
        groups: vec![Group {
            load: Load::Idle,
            sets: vec![WorkingSet::list(Bytes::from_kib(wss_kib), 0.5)],
            events: events.to_vec(),
            length: Length::Fixed(length),
            absence: Absence::Preemptor,
            samples,
        }],
        cpus: cpus.parse::<CpuList>().unwrap(),
    }
}

/// The counts of a study of some sets.
pub(crate) fn study_counts() -> StudyCounts {
    const SMALL: &str = r#"
        id = "small"
        title = "small"
        seed = 5
        sets = 6
        cpus = 2
        caps = { from = 0.6, to = 2.0, step = 0.2 }
        delays_us = [0, 400]
        tasks = { deadline = "implicit", utilisation = "bimo-medium", period_us = "short" }

        [schedulers]
        g-edf = { test = "soft-g-edf" }
        p-edf = { test = "p-edf-wfd" }
    "#;
    run(&Study::parse(SMALL).unwrap(), Shard::WHOLE, Some(1), &()).unwrap()
}
