// SPDX-License-Identifier: MIT OR Apache-2.0
//! Common parts of several tests of the simulated machine.
#![allow(dead_code, reason = "no test uses all of it")]

use corehop_core::experiment::{Group, Length, Synthetic};
use corehop_core::platform::Platform;
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
