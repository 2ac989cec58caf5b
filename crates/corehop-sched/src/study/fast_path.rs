// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether tasks fit into bins by their utilisations, for all sets of a family together.
//!
//! Sums are floating-point numbers with a bound on their error. Doubtful cases are decided again in whole numbers
//! ([`Packing::pack`]), so every verdict is exact. Bins whose levels differ by no more than that error may be
//! mistaken for one another; their levels then agree up to the error.

use super::Clusters;
use super::bins::{Bins, PackOutcome};
use super::family::{Family, FamilyMember};
use crate::exact::{compare_sum, relative_error};
use crate::partition::{Admission, Fit, Packing};
use crate::system::System;
use corehop_plan::workload::task::{Task, Time};

/// The utilisations of a family's tasks with a delay charged, shared by all schedulers.
#[derive(Debug, Default)]
pub(super) struct FamilyNeeds {
    delay: Time,
    /// The utilisation of each of the first tasks, as far as they fit into their periods.
    u: Vec<f64>,
    /// The shape of each set that consists of these first tasks, possibly with one own task.
    shapes: Vec<UtilisationShape>,
    /// A margin that is larger than the rounding error of a sum.
    guard: f64,
}

/// The numbers that describe one set of a family.
#[derive(Debug, Clone, Copy)]
struct UtilisationShape {
    sum: f64,
    largest: f64,
    /// The number of prefix tasks with utilisation above 1/2.
    heavy: usize,
    /// The utilisation of the set's own task; more than 1 if that task does not fit into its period.
    extra: Option<f64>,
}

/// An upper bound on the rounding error of a sum of `tasks` utilisations on `cpus` CPUs.
fn guard(tasks: usize, cpus: u32) -> f64 {
    4.0 * relative_error(tasks + 1) * (f64::from(cpus) + 2.0)
}

impl FamilyNeeds {
    /// Charges `delay` to each task.
    pub(super) fn fill(&mut self, family: &Family, delay: Time, cpus: u32) {
        self.delay = delay;
        self.guard = guard(family.tasks.len(), cpus);
        self.u.clear();
        self.shapes.clear();
        let (mut sum, mut largest, mut heavy) = (0.0, 0.0, 0);
        let most = f64::from(cpus) + self.guard;
        for member in &family.members {
            while self.u.len() < member.prefix {
                let task = &family.tasks[self.u.len()];
                let wcet = task.wcet + delay;
                if wcet > task.period {
                    // No set with this task, or one after it, has a chance.
                    return;
                }
                let u = wcet.as_f64() / task.period.as_f64();
                sum += u;
                largest = f64::max(largest, u);
                heavy += usize::from(u * 2.0 > 1.0 + self.guard);
                self.u.push(u);
            }
            if sum > most {
                return;
            }
            let extra = member.extra.as_ref().map(|extra| {
                let wcet = extra.wcet + delay;
                if wcet > extra.period { 2.0 } else { wcet.as_f64() / extra.period.as_f64() }
            });
            let u = extra.unwrap_or(0.0);
            let largest = f64::max(largest, u);
            self.shapes.push(UtilisationShape { sum: sum + u, largest, heavy, extra });
        }
    }
}

/// The way in which the sets of a family are packed into the clusters of a machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackingRule {
    pub(super) cpus: u32,
    pub(super) clusters: Clusters,
}

impl PackingRule {
    pub(super) fn bins(self) -> usize {
        (self.cpus / self.clusters.cpus) as usize
    }

    /// Whether each set of the family can be packed, in their order. Sets without a verdict cannot be packed.
    pub(super) fn verdicts(
        self,
        family: &Family,
        charged: &FamilyNeeds,
        bins: &mut Bins,
        verdicts: &mut Vec<bool>,
    ) {
        let Clusters { cpus, fit, decreasing } = self.clusters;
        bins.restart(self.bins(), f64::from(cpus), fit, charged.guard);
        for (member, &shape) in family.members.iter().zip(&charged.shapes) {
            let asked = MemberQuestion { rule: self, family, member, charged, shape };
            let verdict = asked.quickly().unwrap_or_else(|| {
                let u = &charged.u[..member.prefix];
                let place = if decreasing {
                    bins.falling(u, shape.extra, f64::from(self.cpus) - shape.sum)
                } else {
                    bins.in_order(u, shape.extra)
                };
                match place {
                    PackOutcome::In => true,
                    PackOutcome::Nowhere => false,
                    PackOutcome::Doubt => asked.exactly(),
                }
            });
            verdicts.push(verdict);
        }
    }

    /// For each set, the number of `delays` at which the set fits into one bin; the delays ascend, and the set fits at
    /// the first delays. Sets without a number fit at no delay.
    pub(super) fn latest(self, family: &Family, delays: &[Time], latest: &mut Vec<usize>) {
        let guard = guard(family.tasks.len(), self.cpus);
        // Of the prefix: the sums of the utilisations and of the rates, and the shortest slack.
        let (mut sum, mut rate, mut slack) = (0.0, 0.0, Time::MAX);
        let mut at = 0;
        let with = |(sum, rate, slack): (f64, f64, Time), task: &Task| {
            let period = task.period.as_f64();
            (
                sum + task.wcet.as_f64() / period,
                rate + 1.0 / period,
                slack.min(task.period - task.wcet),
            )
        };
        for member in &family.members {
            while at < member.prefix {
                (sum, rate, slack) = with((sum, rate, slack), &family.tasks[at]);
                at += 1;
            }
            let whole = (sum, rate, slack);
            let (sum, rate, slack) = member.extra.iter().fold(whole, with);
            // No task, no rate: nothing ever fills the CPUs.
            let rate = f64::max(rate, f64::MIN_POSITIVE.sqrt());
            // Where the CPUs are full, give or take what the sums are off by.
            let full = (f64::from(self.cpus) - sum) / rate;
            let error = guard * (1.0 + full.abs()) * (1.0 + 1.0 / rate);
            let sure =
                delays.partition_point(|&delay| delay <= slack && delay.as_f64() < full - error);
            let doubtful = |&&delay: &&Time| delay <= slack && delay.as_f64() <= full + error;
            let doubtful = delays[sure..].iter().take_while(doubtful);
            let count =
                sure + doubtful.take_while(|&&delay| self.fits(family, member, delay)).count();
            latest.push(count);
            if count == 0 && member.extra.is_none() {
                return;
            }
        }
    }

    fn fits(self, family: &Family, member: &FamilyMember, delay: Time) -> bool {
        let tasks = family.charged(member, delay);
        compare_sum(tasks.iter().map(Task::u), u64::from(self.cpus)).is_le()
    }
}

/// One set of a family, with the packing question about it.
struct MemberQuestion<'a> {
    rule: PackingRule,
    family: &'a Family,
    member: &'a FamilyMember,
    charged: &'a FamilyNeeds,
    shape: UtilisationShape,
}

impl MemberQuestion<'_> {
    /// The answer from the sum and the largest utilisation; `None` if these do not decide.
    fn quickly(&self) -> Option<bool> {
        let UtilisationShape { sum, largest, heavy, extra } = self.shape;
        let guard = self.charged.guard;
        let room = f64::from(self.rule.cpus) - sum;
        if largest > 1.5 || room < -guard {
            return Some(false);
        }
        if room <= guard {
            return Some(self.exactly());
        }
        // One bin, or a bin for each.
        let bins = self.rule.bins();
        let count = self.member.prefix + usize::from(extra.is_some());
        if bins == 1 || count <= bins {
            return Some(true);
        }
        // A task that no bin admits found each of them fuller than its size less that task
        // (Lopez, Diaz and Garcia 2004). Next fit does not look at all of them.
        let others = (bins - 1) as f64;
        if room - others * largest > guard && self.rule.clusters.fit != Fit::Next {
            return Some(true);
        }
        // No bin holds more tasks above 1/2 than twice its CPUs, less one.
        let most = bins * (2 * self.rule.clusters.cpus as usize - 1);
        (heavy > most).then_some(false)
    }

    fn exactly(&self) -> bool {
        let tasks = self.family.charged(self.member, self.charged.delay);
        let Clusters { cpus, fit, decreasing } = self.rule.clusters;
        let admission = Admission::Utilisation;
        let packing = Packing { fit, decreasing, admission, cluster: cpus };
        packing.pack(System::plain(self.rule.cpus, &tasks)).is_ok()
    }
}
