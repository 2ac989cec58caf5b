// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether tasks fit into bins by their utilisations, for all sets of a family at once.
//!
//! Sums are floating-point numbers with a bound on their error. What they leave in doubt is asked again in
//! whole numbers ([`Packing::pack`]), so that a verdict is always the exact one. Bins that are equally full
//! but for that error may be mistaken for one another; the fill levels stay the same up to it.

use super::family::{Family, Member};
use super::Clusters;
use crate::decision::sched::exact::relative_error;
use crate::decision::sched::partition::{Admission, Fit, Packing};
use crate::decision::sched::task::{System, Time};

/// What all schedulers need of a family with a delay charged.
#[derive(Debug, Default)]
pub(super) struct Charged {
    delay: Time,
    /// The utilisation of each task.
    u: Vec<f64>,
    /// The sum and the largest of the first so many.
    sums: Vec<(f64, f64)>,
    /// How many of the first tasks fit into their periods.
    viable: usize,
    /// The tasks by falling utilisation; only where somebody asks for it.
    falling: Vec<(f64, usize)>,
}

impl Charged {
    /// Charges `delay` to each task.
    pub(super) fn fill(&mut self, family: &Family, delay: Time, sorted: bool) {
        self.delay = delay;
        self.u.clear();
        self.sums.clear();
        self.falling.clear();
        let (mut sum, mut largest) = (0.0, 0.0);
        self.sums.push((sum, largest));
        for task in &family.tasks {
            let wcet = task.wcet + delay;
            if wcet > task.period {
                // No set with this task, or one after it, has a chance.
                break;
            }
            let u = wcet as f64 / task.period as f64;
            sum += u;
            largest = f64::max(largest, u);
            self.u.push(u);
            self.sums.push((sum, largest));
        }
        self.viable = self.u.len();
        if sorted {
            self.falling.extend(self.u.iter().copied().zip(0..));
            self.falling.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        }
    }
}

/// Bins, and what was packed into them so far.
#[derive(Debug, Default)]
pub(super) struct Bins {
    levels: Vec<f64>,
    /// For packing in the order of the tasks: how many are in.
    packed: usize,
    last: usize,
}

/// Where a task went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    In,
    Nowhere,
    Doubt,
}

/// How the sets of a family are packed into the clusters of a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    pub(super) cpus: u32,
    pub(super) clusters: Clusters,
}

impl Rule {
    fn bins(self) -> usize {
        (self.cpus / self.clusters.cpus) as usize
    }

    /// Whether each member of the family can be packed, in their order.
    pub(super) fn verdicts(
        self,
        family: &Family,
        charged: &Charged,
        bins: &mut Bins,
        verdicts: &mut Vec<bool>,
    ) {
        let terms = family.tasks.len() + 1;
        // Of sums of so many terms, none of which exceeds what the machine can carry by more than one.
        let guard = 4.0 * relative_error(terms) * (f64::from(self.cpus) + 2.0);
        bins.restart(self.bins());
        let mut stuck = false;
        for member in &family.members {
            let viable = member.prefix <= charged.viable && !stuck;
            let verdict = viable && {
                let member = Asked { rule: self, family, member, charged, guard };
                match member.quickly() {
                    Some(verdict) => verdict,
                    None if self.clusters.decreasing => member.falling(bins),
                    None => member.in_order(bins, &mut stuck),
                }
            };
            verdicts.push(verdict);
        }
    }
}

/// A member, and what is asked of it.
struct Asked<'a> {
    rule: Rule,
    family: &'a Family,
    member: &'a Member,
    charged: &'a Charged,
    guard: f64,
}

impl Asked<'_> {
    /// What can be told from the sum and the largest utilisation; none where that is not enough.
    fn quickly(&self) -> Option<bool> {
        let (mut sum, mut largest) = self.charged.sums[self.member.prefix];
        let mut count = self.member.prefix;
        if let Some(extra) = &self.member.extra {
            if extra.wcet + self.charged.delay > extra.period {
                return Some(false);
            }
            let u = self.extra()?;
            sum += u;
            largest = f64::max(largest, u);
            count += 1;
        }
        let bins = self.rule.bins();
        let room = f64::from(self.rule.cpus) - sum;
        if room < -self.guard {
            return Some(false);
        }
        if room <= self.guard {
            return Some(self.exactly());
        }
        // One bin, or a bin for each.
        if bins == 1 || count <= bins {
            return Some(true);
        }
        // A task that no bin admits found each of them fuller than its size less that task
        // (Lopez, Diaz and Garcia 2004). Next fit does not look at all of them.
        let others = (bins - 1) as f64;
        let enough = room - others * largest > self.guard && self.rule.clusters.fit != Fit::Next;
        if enough {
            return Some(true);
        }
        // No bin holds more tasks above 1/2 than twice its CPUs, less one.
        let most = bins * (2 * self.rule.clusters.cpus as usize - 1);
        let heavy = |u: &&f64| **u * 2.0 > 1.0 + self.guard;
        let crowded = count > most
            && self.charged.u[..self.member.prefix].iter().filter(heavy).count() > most;
        crowded.then_some(false)
    }

    fn extra(&self) -> Option<f64> {
        let extra = self.member.extra.as_ref()?;
        Some((extra.wcet + self.charged.delay) as f64 / extra.period as f64)
    }

    /// By falling utilisation, from empty bins.
    fn falling(&self, bins: &mut Bins) -> bool {
        bins.restart(self.rule.bins());
        let mut extra = self.extra();
        for &(u, at) in &self.charged.falling {
            if at >= self.member.prefix {
                continue;
            }
            if let Some(own) = extra.filter(|own| *own > u) {
                extra = None;
                match self.place(bins, own) {
                    Place::In => {}
                    Place::Nowhere => return false,
                    Place::Doubt => return self.exactly(),
                }
            }
            match self.place(bins, u) {
                Place::In => {}
                Place::Nowhere => return false,
                Place::Doubt => return self.exactly(),
            }
        }
        match extra.map_or(Place::In, |own| self.place(bins, own)) {
            Place::Doubt => self.exactly(),
            place => place == Place::In,
        }
    }

    /// In the order of the tasks: what was packed for a shorter member stays.
    fn in_order(&self, bins: &mut Bins, stuck: &mut bool) -> bool {
        while bins.packed < self.member.prefix {
            match self.place(bins, self.charged.u[bins.packed]) {
                Place::In => bins.packed += 1,
                // What does not fit after these tasks does not with more behind it.
                Place::Nowhere => {
                    *stuck = true;
                    return false;
                }
                Place::Doubt => return self.exactly(),
            }
        }
        let Some(own) = self.extra() else { return true };
        let (levels, last) = (bins.levels.clone(), bins.last);
        let place = self.place(bins, own);
        (bins.levels, bins.last) = (levels, last);
        if place == Place::Doubt { self.exactly() } else { place == Place::In }
    }

    fn place(&self, bins: &mut Bins, u: f64) -> Place {
        let most = f64::from(self.rule.clusters.cpus) - u;
        bins.place(u, most, self.guard, self.rule.clusters.fit)
    }

    fn exactly(&self) -> bool {
        let tasks = self.family.charged(self.member, self.charged.delay);
        let Clusters { cpus, fit, decreasing } = self.rule.clusters;
        let admission = Admission::Utilisation;
        let packing = Packing { fit, decreasing, admission, cluster: cpus };
        packing.pack(System { cpus: self.rule.cpus, tasks: &tasks }).is_ok()
    }
}

impl Bins {
    fn restart(&mut self, count: usize) {
        self.levels.clear();
        self.levels.resize(count, 0.0);
        (self.packed, self.last) = (0, 0);
    }

    /// Adds `u` to the bin that the fit chooses among those filled to at most `most`.
    fn place(&mut self, u: f64, most: f64, guard: f64, fit: Fit) -> Place {
        let (sure, maybe) = (most - guard, most + guard);
        let levels = &mut self.levels;
        let chosen = match fit {
            Fit::First => levels.iter().position(|&level| level <= maybe),
            Fit::Next => {
                let from = self.last;
                levels[from..].iter().position(|&level| level <= maybe).map(|at| from + at)
            }
            Fit::Worst => extreme(levels, |a, b| a < b).filter(|&at| levels[at] <= maybe),
            Fit::Best => {
                let mut best: Option<usize> = None;
                for (at, &level) in levels.iter().enumerate() {
                    if level <= maybe && best.is_none_or(|best| level > levels[best]) {
                        best = Some(at);
                    }
                }
                best
            }
            Fit::AlmostWorst => extreme(levels, |a, b| a < b)
                .filter(|&at| levels[at] <= maybe)
                .map(|worst| second(levels, worst).filter(|&at| levels[at] <= maybe).unwrap_or(worst)),
        };
        let Some(chosen) = chosen else { return Place::Nowhere };
        if levels[chosen] > sure {
            return Place::Doubt;
        }
        levels[chosen] += u;
        self.last = chosen;
        Place::In
    }
}

/// The first of those that no other is before.
fn extreme(levels: &[f64], before: impl Fn(f64, f64) -> bool) -> Option<usize> {
    (0..levels.len()).reduce(|a, b| if before(levels[b], levels[a]) { b } else { a })
}

/// The emptiest but this one.
fn second(levels: &[f64], but: usize) -> Option<usize> {
    let others = (0..levels.len()).filter(|&at| at != but);
    others.reduce(|a, b| if levels[b] < levels[a] { b } else { a })
}
