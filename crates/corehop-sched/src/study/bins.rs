// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bins that are filled task by task, for one prefix of a stream of tasks after another.
//!
//! The packing of a shorter prefix is reused: completely for packing in task order, and up to the first new task for
//! packing by falling utilisation.

use crate::partition::Fit;

/// The outcome of packing: all tasks fit, a task fits in no bin, or rounding leaves a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackOutcome {
    In,
    Nowhere,
    Doubt,
}

/// The fill levels of the bins after each task.
#[derive(Debug, Default)]
pub(super) struct Bins {
    count: usize,
    size: f64,
    fit: Option<Fit>,
    guard: f64,
    /// The tasks of the prefix in the order of packing.
    order: Vec<f64>,
    /// The number of prefix tasks in the packing order.
    taken: usize,
    /// The fill levels before the first task, after the first task, and so on, as far as tasks were packed.
    levels: Vec<f64>,
    /// The bin that was used last, after each packed task.
    last: Vec<usize>,
    /// The reason why the next task was not packed.
    stop: Option<PackOutcome>,
    /// Temporary fill levels for a trial packing.
    trial: Vec<f64>,
}

impl Bins {
    /// Starts with empty bins.
    pub(super) fn restart(&mut self, count: usize, size: f64, fit: Fit, guard: f64) {
        (self.count, self.size, self.fit, self.guard) = (count, size, Some(fit), guard);
        (self.taken, self.stop) = (0, None);
        self.order.clear();
        self.levels.clear();
        self.levels.resize(count, 0.0);
        self.last.clear();
        self.last.push(0);
    }

    /// Packs the prefix, and `extra` if given, in task order.
    pub(super) fn in_order(&mut self, prefix: &[f64], extra: Option<f64>) -> PackOutcome {
        self.order.extend_from_slice(&prefix[self.taken..]);
        self.taken = prefix.len();
        let all = self.order.len();
        self.pack(all);
        self.with(all, extra, all)
    }

    /// Packs the prefix, and `extra` if given, by falling utilisation; `room` is the capacity that all tasks together
    /// leave in the bins.
    pub(super) fn falling(&mut self, prefix: &[f64], extra: Option<f64>, room: f64) -> PackOutcome {
        for &u in &prefix[self.taken..] {
            let at = self.order.partition_point(|&other| other >= u);
            self.order.insert(at, u);
            if at < self.last.len() {
                // Those before it are packed as they were.
                self.last.truncate(at + 1);
                self.levels.truncate((at + 1) * self.count);
                self.stop = None;
            }
        }
        self.taken = prefix.len();
        // From the first that is so small that no bin can refuse it, or one after it, all go in: a task that is
        // refused finds each bin fuller than its size less that task. Next fit does not look at each.
        let others = (self.count - 1) as f64;
        let guard = if self.fit == Some(Fit::Next) { f64::INFINITY } else { self.guard };
        let small = |u: f64| room - others * u > guard;
        let enough = self.order.partition_point(|&u| !small(u));
        let at =
            extra.map_or(self.order.len(), |own| self.order.partition_point(|&other| other >= own));
        self.pack(at.min(enough));
        let reached = self.last.len() > enough;
        if reached && (enough < at || extra.is_some_and(small)) {
            return PackOutcome::In;
        }
        self.with(at, extra, enough)
    }

    /// Packs the first `until` tasks of the order, as far as possible.
    fn pack(&mut self, until: usize) {
        while self.stop.is_none() && self.last.len() <= until {
            let packed = self.last.len() - 1;
            let from = packed * self.count;
            self.levels.extend_from_within(from..from + self.count);
            let (levels, last) = (&mut self.levels[from + self.count..], self.last[packed]);
            match place(levels, last, self.order[packed], self.size, self.guard, self.fit) {
                Ok(chosen) => self.last.push(chosen),
                Err(why) => {
                    self.levels.truncate(from + self.count);
                    self.stop = Some(why);
                }
            }
        }
    }

    /// Packs the order with one more task at index `at`, until all further tasks are known to fit.
    fn with(&mut self, at: usize, extra: Option<f64>, enough: usize) -> PackOutcome {
        let packed = self.last.len() - 1;
        if let Some(why) = self.stop.filter(|_| packed < at) {
            return why;
        }
        let Some(own) = extra else { return PackOutcome::In };
        self.trial.clear();
        self.trial.extend_from_slice(&self.levels[at * self.count..(at + 1) * self.count]);
        let mut last = self.last[at];
        let rest = &self.order[at..enough.max(at)];
        for &u in [own].iter().chain(rest) {
            match place(&mut self.trial, last, u, self.size, self.guard, self.fit) {
                Ok(chosen) => last = chosen,
                Err(why) => return why,
            }
        }
        PackOutcome::In
    }
}

/// Adds `u` to the bin that the fit chooses among the bins with room for it.
fn place(
    levels: &mut [f64],
    last: usize,
    u: f64,
    size: f64,
    guard: f64,
    fit: Option<Fit>,
) -> Result<usize, PackOutcome> {
    let maybe = size - u + guard;
    let chosen = match fit.unwrap_or(Fit::First) {
        Fit::First => levels.iter().position(|&level| level <= maybe),
        Fit::Next => levels[last..].iter().position(|&level| level <= maybe).map(|at| last + at),
        Fit::Worst => Some(emptiest(levels)).filter(|&at| levels[at] <= maybe),
        Fit::Best => fullest(levels, maybe),
        Fit::AlmostWorst => Some(emptiest(levels)).filter(|&at| levels[at] <= maybe).map(|worst| {
            let second = emptiest_but(levels, worst).filter(|&at| levels[at] <= maybe);
            second.unwrap_or(worst)
        }),
    };
    let chosen = chosen.ok_or(PackOutcome::Nowhere)?;
    if levels[chosen] > maybe - 2.0 * guard {
        return Err(PackOutcome::Doubt);
    }
    levels[chosen] += u;
    Ok(chosen)
}

fn emptiest(levels: &[f64]) -> usize {
    let mut least = 0;
    for (at, &level) in levels.iter().enumerate() {
        if level < levels[least] {
            least = at;
        }
    }
    least
}

fn emptiest_but(levels: &[f64], but: usize) -> Option<usize> {
    let others = (0..levels.len()).filter(|&at| at != but);
    others.reduce(|a, b| if levels[b] < levels[a] { b } else { a })
}

fn fullest(levels: &[f64], maybe: f64) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (at, &level) in levels.iter().enumerate() {
        if level <= maybe && best.is_none_or(|best| level > levels[best]) {
            best = Some(at);
        }
    }
    best
}
