// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost differences between events: the cost of company to a job that stays, the additional cost of a migration, and
//! the time after which a job is cold. Each difference compares absences of one length.

use super::asking::{AdviceChoice, AdviceSubject, MIGRATIONS};
use super::{Advice, Company, Constants, Extra, Isolation};
use corehop_plan::units::Bytes;
use corehop_plan::workload::{Absence, Event};
use corehop_stats::cpmd::NoAnswer;

/// The events that resume in place after nothing ran, with the control first.
const UNDISTURBED: [Event; 2] = [Event::IdleLeave, Event::Preemption];

/// An absence length in microseconds, with its samples and replicates.
type SampledLength = (f64, (usize, Option<usize>));

impl AdviceSubject<'_> {
    /// Adds the cost of company at every size, and the constants.
    pub(super) fn price(&self, sizes: &[Bytes], advice: &mut Advice) -> Result<(), NoAnswer> {
        if self.company.preempted_by != Absence::Nothing {
            let alone = self.in_company(Company::nothing())?;
            let prices = sizes.iter().filter_map(|&wss| self.isolation(&alone, wss));
            advice.isolation.extend(prices);
        }
        advice.constants.extend(self.constants(sizes));
        Ok(())
    }

    /// The cost of a preemption minus the cost of an absence in which nothing ran, after the longest length that was
    /// measured for both.
    fn isolation(&self, alone: &Self, wss: Bytes) -> Option<Isolation> {
        let lengths = self.points(Event::Preemption, wss).iter().map(|point| point.length_us);
        let both = |length_us: f64| {
            let here = self.choice(Event::Preemption, wss, length_us)?;
            Some((length_us, here, alone.first(&UNDISTURBED, wss, length_us)?))
        };
        let (length_us, here, undisturbed) = lengths.rev().find_map(both)?;
        let (n, replicates) = fewer(&here, &undisturbed);
        Some(Isolation {
            load: self.load.to_owned(),
            company: self.company.clone(),
            wss_bytes: wss.get(),
            length_us,
            saves: here.seen().less(&undisturbed.seen()),
            n,
            replicates,
        })
    }

    /// The constants at the largest measured size that fits into a core's private caches; `None` if there are no
    /// constants.
    fn constants(&self, sizes: &[Bytes]) -> Option<Constants> {
        let stay = self.company.stays().iter().find_map(|&event| self.series(event))?;
        let own = self.model.machines.get(&stay.key.machine).and_then(|caches| caches.own);
        let held = sizes.iter().filter(|size| own.is_none_or(|own| size.get() <= own));
        let wss = *held.max()?;
        let (extra, budget) = (self.extra(wss), self.warm_budget(wss));
        let withheld = extra.as_ref().and_then(why_withheld);
        (extra.is_some() || budget.is_some()).then(|| Constants {
            load: self.load.to_owned(),
            company: self.company.clone(),
            wss_bytes: wss.get(),
            migration: extra.filter(|_| withheld.is_none()),
            withheld,
            warm_budget_us: budget.map(|(us, _)| us),
            warm_budget_n: budget.map(|(_, n)| n),
        })
    }

    /// The cost of the nearest migration minus the cost of staying, after the longest length that was measured for
    /// both.
    fn extra(&self, wss: Bytes) -> Option<Extra> {
        let length_us = *self.lengths(wss).last()?;
        let stays: &[Event] = match self.company.preempted_by {
            Absence::Nothing => &UNDISTURBED,
            _ => self.company.stays(),
        };
        let stay = self.first(stays, wss, length_us)?;
        let migration = self.first(&MIGRATIONS, wss, length_us)?;
        let (n, replicates) = fewer(&stay, &migration);
        let cost = migration.seen().less(&stay.seen());
        Some(Extra { event: migration.event, beyond: stay.event, length_us, cost, n, replicates })
    }

    /// The shortest measured length after which half of the largest cost is reached, with the smallest numbers of
    /// samples and replicates of a length. Returns `None` if this length is the shortest measured length, if the
    /// largest cost is not known to be above zero, or if the cost at the length before is not surely below the largest
    /// cost.
    fn warm_budget(&self, wss: Bytes) -> Option<SampledLength> {
        let points = self.points(Event::Preemption, wss).iter();
        let costs: Vec<(f64, AdviceChoice)> = points
            .filter_map(|point| {
                let us = point.length_us;
                Some((us, self.choice(Event::Preemption, wss, us)?))
            })
            .collect();
        let estimate = |choice: &AdviceChoice| choice.cost.estimate_us;
        let most = costs.iter().max_by(|a, b| estimate(&a.1).total_cmp(&estimate(&b.1)));
        let (_, most) = most.filter(|(_, most)| most.cost.surely_positive())?;
        let half = costs.iter().position(|(_, it)| 2.0 * estimate(it) >= estimate(most));
        let at = half.filter(|&at| at > 0 && costs[at - 1].1.surely_less(most))?;
        let n = costs.iter().map(|(_, it)| it.n).min().unwrap_or(0);
        let replicates = costs.iter().filter_map(|(_, it)| it.replicates).min();
        Some((costs[at].0, (n, replicates)))
    }
}

/// The smaller number of samples and the smaller number of replicates of two costs.
fn fewer(a: &AdviceChoice, b: &AdviceChoice) -> (usize, Option<usize>) {
    (a.n.min(b.n), a.replicates.zip(b.replicates).map(|(a, b)| a.min(b)))
}

/// The reason why the additional cost of a migration cannot serve as a constant; `None` if the cost can.
fn why_withheld(extra: &Extra) -> Option<String> {
    let Extra { event, beyond, cost, n, replicates, .. } = extra;
    let what = format!("the cost of {event} minus the cost of {beyond}");
    let (n, more) = (super::counted(*n, *replicates), "measure more replicates (--replicates)");
    let Some((low, high)) = cost.low_us.zip(cost.high_us) else {
        return Some(format!("{what} has no interval, from {n}: {more}"));
    };
    let between = format!("{what} is {low:.3} to {high:.3} us, from {n}");
    match (low > 0.0, high < 0.0) {
        (true, _) => None,
        (_, true) => Some(format!("{between}: moving costs less than staying")),
        _ => Some(format!("{between}, and may be zero: {more}")),
    }
}
