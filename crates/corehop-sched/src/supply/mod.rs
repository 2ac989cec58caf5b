// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time that a CPU supplies if it is not always available: a hypervisor takes the CPU from its guest, an
//! interrupt or the firmware takes it, or a server gives a budget in each period.
//!
//! `sbf(t)` is the least time supplied in any window of length `t` (Shin and Lee, RTSS 2003; Lipari and Bini, ECRTS
//! 2003; Davis and Burns, RTSS 2005). A test of one CPU then compares demand with supply instead of elapsed time: a
//! response is the least `t` with `sbf(t) >= demand(t)`, and EDF meets all deadlines if `dbf(t) <= sbf(t)` for all
//! `t`. Both conditions need only the inverse of `sbf`: [`Supply::time_for`].

mod claim;
mod resource;
mod rows;
mod trace;

pub use claim::SupplyClaim;
pub use resource::{ResourceError, resources};
pub use rows::ObservedSupply as Summary;
pub use rows::{NoSupplyInFile, ObservedSupply, SupplySummary, read};
pub use trace::{Gap, SupplyWindow, WindowCensus};

use std::collections::BTreeMap;
use std::sync::Arc;

use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::task::{Task, TaskSet, Time};

/// The largest time that any query returns: far beyond any deadline, and far inside 64 bits.
const NEVER: u128 = 1 << 62;
/// The share of a CPU that must remain unused in the long run, because busy windows of tasks that leave less may not
/// end soon.
const SPARE: f64 = 1e-3;
/// The number that represents full speed of a CPU.
const WHOLE: u128 = 1_000_000;

/// A bound on the time that a CPU loses in windows of each length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supply {
    /// Windows that begin and end with a gap, in nanoseconds: the length and the lost time, both rising.
    losses: Vec<(u64, u64)>,
    /// The least time that the windows from each index of `losses` on supply.
    supplied: Vec<u64>,
    /// The length up to which windows are known, in nanoseconds.
    longest: u64,
    /// A window that is longer by the first value loses at most the second value more, in nanoseconds.
    step: (u64, u64),
    /// The share of the time outside gaps that is also lost, in millionths.
    slow: u64,
    /// The length of a time unit, in nanoseconds.
    unit: u64,
}

/// The supply of a CPU that is always available.
pub(crate) static FULL: Supply =
    Supply { losses: Vec::new(), supplied: Vec::new(), longest: 0, step: (0, 0), slow: 0, unit: 1 };

impl Supply {
    /// Creates a supply from windows that begin and end with a gap, each with its length and its lost time, in
    /// nanoseconds. Windows are known up to the length `longest`. A longer window loses at most the second value of
    /// `step` more for each first value of `step` by which it is longer. `slow` millionths of the time outside gaps
    /// are lost too.
    pub(crate) fn new(
        windows: impl IntoIterator<Item = (u64, u64)>,
        longest: u64,
        step: Option<(u64, u64)>,
        slow: u64,
    ) -> Self {
        // A longer window loses no less than what is left of it after a cut.
        let cut = |(length, lost): (u64, u64)| {
            let beyond = length.saturating_sub(longest);
            (length - beyond, lost.saturating_sub(beyond))
        };
        let mut windows: Vec<_> = windows.into_iter().map(cut).filter(|it| it.1 > 0).collect();
        windows.sort_unstable_by_key(|&(length, lost)| (length, std::cmp::Reverse(lost)));
        let mut losses: Vec<(u64, u64)> = Vec::new();
        for window in windows {
            if losses.last().is_none_or(|last| last.1 < window.1) {
                losses.push(window);
            }
        }
        let mut least = u64::MAX;
        let mut supplied: Vec<u64> = losses
            .iter()
            .rev()
            .map(|&(length, lost)| {
                least = least.min(length - lost);
                least
            })
            .collect();
        supplied.reverse();
        let whole = losses.last().map_or(0, |last| last.1);
        let step = step.unwrap_or((longest, whole));
        Self { losses, supplied, longest, step, slow, unit: 1 }
    }

    /// Whether the CPU is always available.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.losses.is_empty() && self.slow == 0
    }

    /// Converts the supply to units of `ns` nanoseconds.
    #[must_use]
    pub fn in_units_of(&self, ns: u64) -> Self {
        Self { unit: ns, ..self.clone() }
    }

    /// The share of the time that is guaranteed in the long run.
    pub fn long_run(&self) -> f64 {
        let (step, lost) = self.step;
        let outside = if step == 0 { 1.0 } else { (step - lost) as f64 / step as f64 };
        outside * (1.0 - self.slow as f64 / WHOLE as f64)
    }

    /// Whether the CPU supplies the long-run demand of the tasks, with enough to spare that busy windows end soon.
    pub(crate) fn sustains<'t>(&self, tasks: impl Iterator<Item = &'t Task>) -> bool {
        let load = || tasks.map(Task::u).map(|(c, t)| c as f64 / t as f64).sum::<f64>();
        self.is_full() || load() <= self.long_run() - SPARE
    }

    /// The largest time lost in a window of this length, rounded up.
    pub fn lost(&self, length: Time) -> Time {
        length - self.supplied_in(length)
    }

    /// Returns `sbf(t)`, the least time supplied in a window of this length, rounded down.
    pub fn supplied_in(&self, length: Time) -> Time {
        if self.is_full() {
            return length;
        }
        let ns = u128::from(length) * u128::from(self.unit);
        let rest = self.rest(ns) * (WHOLE - u128::from(self.slow)) / WHOLE;
        Time::new((rest / u128::from(self.unit)) as u64)
    }

    /// The shortest window that is guaranteed to supply `work`; far beyond all deadlines if no window does.
    #[inline]
    pub fn time_for(&self, work: Time) -> Time {
        if self.is_full() { work } else { self.inverse(work) }
    }

    fn inverse(&self, work: Time) -> Time {
        let unit = u128::from(self.unit);
        let need = (u128::from(work) * unit * WHOLE).div_ceil(WHOLE - u128::from(self.slow));
        Time::new((self.length_for(need).min(NEVER).div_ceil(unit)) as u64)
    }

    /// The least time outside gaps in a window of this length.
    fn rest(&self, length: u128) -> u128 {
        let longest = u128::from(self.longest);
        let (step, lost) = (u128::from(self.step.0), u128::from(self.step.1));
        if length <= longest || step == 0 {
            return self.rest_within(length);
        }
        let times = (length - longest).div_ceil(step);
        self.rest_within(length - times * step) + times * (step - lost)
    }

    fn rest_within(&self, length: u128) -> u128 {
        let shorter = self.losses.partition_point(|it| u128::from(it.0) <= length);
        let lost = shorter.checked_sub(1).map_or(0, |last| self.losses[last].1);
        let cut = self.supplied.get(shorter).map_or(u128::MAX, |&it| u128::from(it));
        (length - u128::from(lost)).min(cut)
    }

    /// The shortest window with `need` time outside gaps.
    fn length_for(&self, need: u128) -> u128 {
        let (step, lost) = (u128::from(self.step.0), u128::from(self.step.1));
        let known = self.rest_within(u128::from(self.longest));
        if need <= known || step == 0 {
            return self.length_within(need);
        }
        if step == lost {
            return NEVER;
        }
        let times = (need - known).div_ceil(step - lost);
        times * step + self.length_within(need - times * (step - lost))
    }

    fn length_within(&self, need: u128) -> u128 {
        // Where all windows that are longer supply enough, no more than the windows before have to be waited for.
        let enough = self.supplied.partition_point(|&it| u128::from(it) < need);
        match enough.checked_sub(1) {
            None => need,
            Some(last) => {
                let (length, lost) = self.losses[last];
                u128::from(length).max(need + u128::from(lost))
            }
        }
    }
}

/// The supply of each CPU of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Supplies {
    cpus: BTreeMap<u32, Supply>,
    /// At each length, the least supply of all CPUs.
    worst: Supply,
    /// The observations of each CPU; empty if the supply is stated.
    watched: BTreeMap<u32, WindowCensus>,
    /// The source of the supply, as an assumption.
    note: String,
}

/// The error for a set that needs a CPU whose supply is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSupply(String);

impl Supplies {
    /// The CPUs whose supply is known.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.keys().copied()
    }

    /// The supply of a CPU, or `None` if the supply is not known.
    pub fn of_cpu(&self, cpu: u32) -> Option<&Supply> {
        self.cpus.get(&cpu)
    }

    /// At each length, the least supply of all CPUs.
    pub fn worst(&self) -> &Supply {
        &self.worst
    }

    /// Converts the supplies to units of `ns` nanoseconds.
    #[must_use]
    pub fn in_units_of(&self, ns: u64) -> Self {
        let cpus = self.cpus.iter().map(|(&cpu, it)| (cpu, it.in_units_of(ns))).collect();
        Self { cpus, worst: self.worst.in_units_of(ns), ..self.clone() }
    }

    /// Checks that the supply is known for the CPUs that the set names, or else for as many CPUs as the set has.
    ///
    /// # Errors
    /// Returns [`NoSupply`], which names the CPUs.
    pub fn check(&self, set: &TaskSet) -> Result<(), NoSupply> {
        let known: Vec<String> = self.cpus().map(|cpu| cpu.to_string()).collect();
        let known = known.join(", ");
        let named = set.placement().into_iter().flatten().flat_map(TaskPlacement::cpus);
        if let Some(cpu) = named.into_iter().find(|&cpu| !self.cpus.contains_key(&(cpu as u32))) {
            return Err(NoSupply(format!(
                "the set puts a task on CPU {cpu}, but the supply covers CPUs {known}: also measure that CPU (`corehop measure supply --cpus LIST`)"
            )));
        }
        let wants = set.cpus() as usize;
        if set.placement().is_none() && wants > self.cpus.len() {
            return Err(NoSupply(format!(
                "the set has {wants} CPUs, but the supply covers CPUs {known}: measure as many CPUs as the set has (`corehop measure supply --cpus LIST`)"
            )));
        }
        Ok(())
    }

    fn noting(self, more: &str) -> Self {
        Self { note: format!("{} {more}", self.note), ..self }
    }

    /// The source of the supply, as an assumption.
    pub fn note(&self) -> &str {
        &self.note
    }

    fn of(cpus: BTreeMap<u32, Supply>, watched: BTreeMap<u32, WindowCensus>, origin: &str) -> Self {
        let worst = Supply::worst_of(cpus.values());
        let note = format!(
            "{origin} A test that assigns tasks to CPUs itself, or tests one CPU, uses the smallest supply of all CPUs; a task that the set assigns to a CPU gets the supply of that CPU."
        );
        Self { cpus, worst, watched, note }
    }
}

impl Supply {
    /// At each length, the least supply of these CPUs.
    fn worst_of<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let longest = all.clone().map(|it| it.longest).filter(|&it| it > 0).min().unwrap_or(0);
        let slow = all.clone().map(|it| it.slow).max().unwrap_or(0);
        let windows = all.clone().flat_map(|it| it.losses.iter().copied());
        let whole = Self::new(windows, longest, None, slow);
        let step = all.map(|it| it.step).reduce(|a, b| if a == b { a } else { (0, 0) });
        match step {
            // Stated resources that are alike repeat as each does.
            Some(step) if step.0 > 0 => Self { step, ..whole },
            _ => whole,
        }
    }
}

/// The supply of each CPU in both time units in which tests run, shared by many questions.
#[derive(Debug, Clone)]
pub struct InUnits(Arc<[Supplies; 2]>);

impl InUnits {
    /// Converts the supplies to microseconds and to nanoseconds.
    pub fn of(supplies: &Supplies) -> Self {
        Self(Arc::new([1_000, 1].map(|ns| supplies.in_units_of(ns))))
    }

    /// The supplies in units of `ns` nanoseconds, which must be 1,000 or 1.
    pub fn of_unit(&self, ns: u64) -> &Supplies {
        &self.0[usize::from(ns == 1)]
    }
}

/// The supply in the form that a test uses.
#[derive(Debug, Clone, Copy)]
pub struct Supplied<'a> {
    all: &'a Supplies,
    cpu: SupplyCpu,
}

/// The CPU whose supply counts.
#[derive(Debug, Clone, Copy)]
enum SupplyCpu {
    /// The CPU with the least supply, because the test chooses CPUs or the set names none.
    Worst,
    /// The CPU that corresponds to each bin.
    Own,
    /// The CPU with this number.
    Of(u32),
}

impl<'a> Supplied<'a> {
    /// The least supply of all CPUs, or the supply of a CPU if the set puts all tasks on that CPU.
    pub(crate) fn of(all: &'a Supplies, set: &TaskSet) -> Self {
        let mut places = set.placement().into_iter().flatten().map(TaskPlacement::cpus);
        let first = places.next().filter(|cpus| cpus.len() == 1);
        let cpu = first.filter(|first| places.all(|cpus| cpus == *first));
        Self { all, cpu: cpu.map_or(SupplyCpu::Worst, |cpus| SupplyCpu::Of(cpus[0] as u32)) }
    }

    /// Selects, for each bin, the supply of the CPU that corresponds to the bin.
    pub(crate) fn own(self) -> Self {
        Self { cpu: SupplyCpu::Own, ..self }
    }

    /// Selects the supply for the tasks of a bin.
    pub(crate) fn at(self, bin: usize) -> Self {
        match self.cpu {
            SupplyCpu::Own => Self { cpu: SupplyCpu::Of(bin as u32), ..self },
            _ => self,
        }
    }

    /// The supply of the selected CPU.
    pub(crate) fn supply(self) -> &'a Supply {
        match self.cpu {
            SupplyCpu::Of(cpu) => self.all.cpus.get(&cpu).unwrap_or(&self.all.worst),
            SupplyCpu::Worst | SupplyCpu::Own => &self.all.worst,
        }
    }
}

#[cfg(test)]
mod tests;
