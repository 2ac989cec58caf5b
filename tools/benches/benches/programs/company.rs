// SPDX-License-Identifier: MIT OR Apache-2.0
//! A load that preempts: a process for each CPU, which takes the CPU for as long as the preemptor of a measurement, again and again.

use std::process::Command;
use std::time::{Duration, Instant};

use corehop_plan::units::Cpu;
use corehop_system::thread::{affinity, best_ordinary_policy, set_affinity, set_policy};

use crate::Fallible;
use crate::packages::Started;
use crate::strangers::silent;
use crate::walker::Walk;

/// The time on the CPU, and the mean time off it.
pub(crate) const LENGTH: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(3);
/// The set that the load walks, in KiB.
pub(crate) const KIB: u64 = 2048;

/// Lines between two looks at the clock.
const LOOK: usize = 64;

/// Starts the load on every CPU. It ends with the answer.
pub(crate) fn begin() -> Fallible<Vec<Started>> {
    let me = std::env::current_exe()?;
    let one = |cpu: Cpu| {
        let mut command = Command::new(&me);
        Started::of(silent(command.arg("disturb").arg(cpu.0.to_string())))
    };
    affinity()?.iter().map(one).collect()
}

/// Takes one CPU for a while, sleeps, and so on, until a signal ends it.
pub(crate) fn disturb(cpu: u32) -> ! {
    let _bound = set_affinity([Cpu(cpu)]);
    let _weight = set_policy(best_ordinary_policy());
    let mut walk = Walk::of(KIB);
    // A step that is no multiple of the period of anything.
    for turn in 0_u32.. {
        let end = Instant::now() + LENGTH;
        while Instant::now() < end {
            walk.visit(LOOK);
        }
        std::thread::sleep(PAUSE.mul_f64(0.5 + f64::from(turn * 7 % 11) / 10.0));
    }
    unreachable!("it goes on until a signal")
}
