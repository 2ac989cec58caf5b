// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times that an off-load simulation needs from the simulated caches: the times of switches between cores and
//! of wake-ups across cores, and the speed of each core.
//!
//! A core's speed is the speed of its instructions with all code in the caches. For loads whose code misses, the
//! speed is that of kernel code: all paths of a switch, one after the other, repeated. The 36 KiB of these paths
//! fit into the caches of a complex core of 2009 but not of a simple core, which therefore needs more than twice as
//! long for each instruction. Programs are assumed to miss as often as the kernel, because no source states the
//! difference.

use super::off_load::OffLoadWorkload;
use super::paths::{INTERRUPT, PATHS};
use super::{APPLICATION, OS, SwitchMachine, instruction, library};
use crate::recipe::Recipe;
use crate::times::Picos;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::Platform;
use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::switching::SwitchMechanism;

/// The number of layouts of the kernel's code over which a time is averaged, and the number of calls in each
/// layout.
const LAYOUTS: u64 = 5;
const CALLS: u32 = 4;
/// The random stream for layouts of the kernel's code.
const DRAWS: u64 = 4 << 48;

/// The times of switches between the cores of a machine.
#[derive(Debug)]
pub struct SwitchLatencies {
    /// The time of an instruction on each core.
    pub(super) instructions: Vec<Picos>,
    /// The time of a switch to a polling core, by source and target.
    pub(super) times: Vec<Vec<Picos>>,
    /// The time of a switch to a core that has stopped polling, by source and target.
    pub(super) woken: Vec<Vec<Picos>>,
    /// The time from the end of an interrupt on one core until a waiting thread runs on another core.
    pub(super) wakes: Vec<Vec<Picos>>,
}

impl SwitchLatencies {
    /// Simulates the switches between application cores and OS cores.
    ///
    /// # Errors
    /// Returns [`MachineError::NotPossible`], which names what the platform lacks.
    pub fn simulate(platform: &Platform, load: &OffLoadWorkload) -> Result<Self, MachineError> {
        let recipe = Recipe::new(platform.clone(), crate::Partitioning::default())?;
        let cpus: Vec<Cpu> = platform.cpus.value.iter().collect();
        let count = cpus.last().map_or(0, |cpu| cpu.0 as usize + 1);
        let none = vec![vec![0; count]; count];
        let instructions = vec![0; count];
        let mut it = Self { instructions, times: none.clone(), woken: none.clone(), wakes: none };
        let is_os = |cpu: &Cpu| load.os_cores.contains(*cpu);
        for &from in &cpus {
            let at = from.0 as usize;
            it.instructions[at] = if load.misses {
                over_layouts(&recipe, load.seed, [from; 2], pace)?
            } else {
                instruction(platform, from)?
            };
            for &to in cpus.iter().filter(|to| is_os(to) != is_os(&from)) {
                let [polled, woken] = switch_times(&recipe, load, from, to)?;
                it.times[at][to.0 as usize] = polled;
                it.woken[at][to.0 as usize] = woken;
                if load.after.interrupts.get() > 0 {
                    it.wakes[at][to.0 as usize] =
                        over_layouts(&recipe, load.seed, [from, to], wake_across)?;
                }
            }
        }
        Ok(it)
    }

    /// The time of an instruction on the fastest core, in picoseconds.
    pub fn fastest(&self) -> Picos {
        self.instructions.iter().copied().filter(|&it| it > 0).min().unwrap_or(1)
    }

    /// The mean times of a switch to an OS core and of a switch back, in microseconds, if the target polls.
    pub fn mean_us(&self, os_cores: &CpuList) -> [f64; 2] {
        let mean = |to_os: bool| {
            let is_os = |cpu: usize| os_cores.contains(Cpu(cpu as u32));
            let of = |(to, time): (usize, &Picos)| {
                (is_os(to) == to_os && *time > 0).then_some(*time as f64 / 1e6)
            };
            let times =
                || self.times.iter().flat_map(|from| from.iter().enumerate().filter_map(of));
            times().sum::<f64>() / times().count().max(1) as f64
        };
        [mean(true), mean(false)]
    }
}

/// The reason for which the times of this switch mechanism on a platform are not known; None if the times are
/// known.
///
/// # Errors
/// Returns [`MachineError::NotPossible`], which names any other fact that the platform lacks.
pub fn unknown(
    platform: &Platform,
    mechanism: SwitchMechanism,
) -> Result<Option<String>, MachineError> {
    if !SwitchMechanism::LIBRARY.contains(&mechanism) || mechanism == SwitchMechanism::V4 {
        return Ok(None);
    }
    for cpu in platform.cpus.value.iter() {
        if library::wake(platform, cpu)?.is_none() {
            return Ok(Some(library::unknown(platform)));
        }
    }
    Ok(None)
}

/// The times of a switch from `from` to `to`, for a target that polls and for a target that sleeps.
fn switch_times(
    recipe: &Recipe,
    load: &OffLoadWorkload,
    from: Cpu,
    to: Cpu,
) -> Result<[Picos; 2], MachineError> {
    if load.mechanism.is_strong() {
        let there = |pair: &mut SwitchMachine| pair.there_and_back(load.mechanism)[0];
        return over_layouts(recipe, load.seed, [from, to], there).map(|time| [time; 2]);
    }
    let parts = library::LibrarySwitchTimes::new(recipe, [from, to])?;
    let polled = parts.switch(load.mechanism);
    let woken = if load.mechanism == SwitchMechanism::V5 { parts.woken() } else { polled };
    polled.zip(woken).map(|(polled, woken)| [polled, woken]).ok_or_else(|| {
        MachineError::NotPossible {
            what: format!("off-load by {} on {}", load.mechanism, recipe.platform.name),
            why: library::unknown(&recipe.platform),
            remedy: "name v4, which polls, or a mechanism of the kernel of 2009 (strong-v1 to strong-v5)".to_owned(),
        }
    })
}

/// A switch time of the kernel of 2009 on a pair of cores, averaged over some layouts of the kernel's code.
fn over_layouts(
    recipe: &Recipe,
    seed: u64,
    pair: [Cpu; 2],
    time: impl Fn(&mut SwitchMachine) -> Picos,
) -> Result<Picos, MachineError> {
    let mut sum = 0;
    for layout in 0..LAYOUTS {
        let mut pair = SwitchMachine::new(recipe, pair, seed, DRAWS | layout)?;
        // The first ones fill the caches.
        for call in 0..2 * CALLS {
            let took = time(&mut pair);
            sum += if call < CALLS { 0 } else { took };
        }
    }
    Ok(sum / (LAYOUTS * u64::from(CALLS)))
}

/// The mean time of an instruction of the kernel on a core.
fn pace(pair: &mut SwitchMachine) -> Picos {
    let begun = pair.now;
    for path in 0..PATHS.len() {
        pair.execute(APPLICATION, path);
    }
    let instructions: u64 = PATHS.iter().map(|path| u64::from(path.instructions)).sum();
    (pair.now - begun) / instructions
}

/// The time of the interrupt by which one core wakes a thread on the other core.
fn wake_across(pair: &mut SwitchMachine) -> Picos {
    let begun = pair.now;
    pair.hand_over(APPLICATION);
    pair.now += pair.cores[OS].wake_up;
    pair.execute(OS, INTERRUPT);
    pair.hand_over(OS);
    pair.now - begun
}
