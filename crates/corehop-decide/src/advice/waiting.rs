// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares waiting for the CPU with moving immediately: the cost of a wait, and the wait from which a move costs
//! less.

use super::asking::{AdviceSubject, MIGRATIONS, remedy};
use super::{Advice, AdviceRule, AdvisedMove, AdvisedWait, Company, Preference};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Absence, Event};
use corehop_stats::cpmd::{CostEstimate, NoAnswer};
use serde::Serialize;

/// The waits covered by the advice if the user requests none, in microseconds.
const USUAL_WAITS_US: [f64; 9] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4];

/// The way in which a wait relates to the lengths of the measured preemptions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitOrigin {
    /// The wait is between two measured lengths, or equals one.
    Measured,
    /// The wait is shorter than all measured lengths: a preemption of that length costs between nothing and the cost
    /// at the shortest length.
    BelowAll {
        /// The shortest measured length, in microseconds.
        shortest_us: f64,
    },
    /// The wait is longer than all measured lengths: a preemption of that length costs at least as much as at the
    /// longest length.
    BeyondAll {
        /// The longest measured length, in microseconds.
        longest_us: f64,
    },
}

/// The cost of a preemption as a function of its length: the measured lengths in microseconds, ascending and not empty,
/// each with its cost.
#[derive(Debug, Clone)]
pub(super) struct StayCurve(Vec<(f64, CostEstimate)>);

/// A straight line from one length and cost to another, in microseconds.
type CostLine = ((f64, f64), (f64, f64));

impl StayCurve {
    /// Returns the curve through these costs; `None` if there is no measured length.
    pub(super) fn of(costs: Vec<(f64, CostEstimate)>) -> Option<Self> {
        (!costs.is_empty()).then_some(Self(costs))
    }

    fn shortest(&self) -> (f64, CostEstimate) {
        self.0[0]
    }

    fn longest(&self) -> (f64, CostEstimate) {
        self.0[self.0.len() - 1]
    }

    /// The costs at the measured lengths as line segments, starting at the cost of no wait. Beyond the longest length
    /// the cost stays constant, because a longer preemption costs at least as much.
    fn lines(&self, at_once: f64, costs: impl Iterator<Item = f64>) -> Vec<CostLine> {
        let points = self.0.iter().map(|(length, _)| *length).zip(costs);
        let all: Vec<(f64, f64)> = std::iter::once((0.0, at_once)).chain(points).collect();
        let last = all[all.len() - 1];
        let to_the_end = (last, (f64::INFINITY, last.1));
        all.windows(2).map(|pair| (pair[0], pair[1])).chain([to_the_end]).collect()
    }

    /// The line of estimates; an absence of length zero costs nothing.
    fn estimates(&self) -> Vec<CostLine> {
        self.lines(0.0, self.0.iter().map(|(_, cost)| cost.estimate_us))
    }

    /// The line of lower ends. Lengths below all measured lengths may cost nothing. A length without a lower end
    /// costs at least as much as the length before.
    fn lows(&self) -> Vec<CostLine> {
        let (length, shortest) = self.shortest();
        let least = shortest.low_us.unwrap_or(0.0).min(0.0);
        let known = self.0.iter().scan(least, |low, (_, cost)| {
            *low = cost.low_us.unwrap_or(*low);
            Some(*low)
        });
        let mut lines = self.lines(least, known);
        lines[0] = ((0.0, least), (length, least));
        lines
    }

    /// The line of upper ends. Lengths below all measured lengths cost at most as much as the shortest measured length.
    /// A length without an upper end costs at most as much as the length after it, and longer lengths have no bound.
    fn highs(&self) -> Vec<CostLine> {
        let mut known: Vec<f64> = self
            .0
            .iter()
            .rev()
            .scan(f64::INFINITY, |high, (_, cost)| {
                *high = cost.high_us.unwrap_or(*high);
                Some(*high)
            })
            .collect();
        known.reverse();
        let mut lines = self.lines(known[0], known.into_iter());
        if let Some(beyond) = lines.last_mut() {
            beyond.0.1 = f64::INFINITY;
            beyond.1.1 = f64::INFINITY;
        }
        lines
    }

    /// The wait from which a move of cost `moved` costs less, in microseconds. The low end is the shortest wait after
    /// which staying may cost as much as the move, and the high end is the shortest wait from which staying surely
    /// costs as much.
    pub(super) fn pays_from(&self, moved: &CostEstimate) -> CostEstimate {
        CostEstimate {
            estimate_us: last_missed(&self.estimates(), moved.estimate_us),
            low_us: moved.low_us.map(|low| first_reached(&self.highs(), low)),
            high_us: moved.high_us.map(|high| last_missed(&self.lows(), high)),
        }
    }

    /// The cost of a preemption of this length.
    pub(super) fn at(&self, wait_us: f64) -> CostEstimate {
        let next = self.0.partition_point(|(length, _)| *length < wait_us);
        let before = next.checked_sub(1).map(|before| self.0[before]);
        match (before, self.0.get(next)) {
            (_, None) => CostEstimate { high_us: None, ..self.longest().1 },
            (_, Some((length, cost))) if *length <= wait_us => *cost,
            (None, Some((length, cost))) => cost.down_to_nothing(wait_us / length),
            (Some((from, cheaper)), Some((to, dearer))) => {
                cheaper.towards(*dearer, (wait_us - from) / (to - from))
            }
        }
    }

    pub(super) fn origin(&self, wait_us: f64) -> WaitOrigin {
        let (shortest_us, longest_us) = (self.shortest().0, self.longest().0);
        if wait_us < shortest_us {
            WaitOrigin::BelowAll { shortest_us }
        } else if wait_us > longest_us {
            WaitOrigin::BeyondAll { longest_us }
        } else {
            WaitOrigin::Measured
        }
    }
}

/// The end of the last range of waits for which wait and cost together are less than `cost`; 0 if there is no such
/// range.
fn last_missed(lines: &[CostLine], cost: f64) -> f64 {
    let end = |&((x0, y0), (x1, y1)): &CostLine| {
        if x1 + y1 < cost {
            Some(x1)
        } else {
            (x0 + y0 < cost).then(|| crossing(((x0, y0), (x1, y1)), cost))
        }
    };
    lines.iter().filter_map(end).fold(0.0, f64::max)
}

/// The first wait for which wait and cost together are at least `cost`.
fn first_reached(lines: &[CostLine], cost: f64) -> f64 {
    let start = |&((x0, y0), (x1, y1)): &CostLine| {
        if x0 + y0 >= cost {
            Some(x0)
        } else {
            (x1 + y1 >= cost).then(|| crossing(((x0, y0), (x1, y1)), cost))
        }
    };
    lines.iter().find_map(start).unwrap_or(f64::INFINITY)
}

/// The wait on a segment that starts below `cost` and reaches `cost`.
fn crossing(((x0, y0), (x1, y1)): CostLine, cost: f64) -> f64 {
    if x1.is_infinite() {
        return cost - y0;
    }
    x0 + (x1 - x0) * (cost - x0 - y0) / (x1 + y1 - x0 - y0)
}

/// The cost of staying for a wait, with the verdict on the wait.
pub(super) fn advised(curve: &StayCurve, moves: &[AdvisedMove], wait_us: f64) -> AdvisedWait {
    AdvisedWait { wait_us, stay: curve.at(wait_us), verdict: verdict(moves, wait_us) }
}

/// The verdict on a wait: of the moves that surely pay, the move that pays from the shortest wait.
fn verdict(moves: &[AdvisedMove], wait_us: f64) -> Preference {
    let pays = |it: &AdvisedMove| {
        let from = it.pays_from.high_us.filter(|high| *high <= wait_us)?;
        Some((from, it.event))
    };
    let first = moves.iter().filter_map(pays).min_by(|a, b| a.0.total_cmp(&b.0));
    let dear = |it: &AdvisedMove| it.pays_from.low_us.is_some_and(|low| wait_us < low);
    match first {
        Some((_, event)) => Preference::Move(event),
        None if moves.iter().all(dear) => Preference::Stay,
        None => Preference::Unknown,
    }
}

impl AdviceSubject<'_> {
    /// Adds the wait from which to move, for every size, and the measurements that are missing.
    pub(super) fn wait_or_move(&self, advice: &mut Advice) -> Result<(), NoAnswer> {
        let Some(preempted) = self.series(Event::Preemption) else { return Ok(()) };
        let quiet = self.in_company(Company::nothing())?;
        let about = format!("load {}, {}", self.load, self.company);
        if !MIGRATIONS.iter().any(|&event| self.away(&quiet, event).next().is_some()) {
            advice.silent.push(format!("{about}: {}", self.no_migration()));
            return Ok(());
        }
        let mut rules = Vec::new();
        for wss in self.sizes_of(&[preempted]) {
            match self.rule(&quiet, wss) {
                Ok(rule) => rules.push(rule),
                Err(why) => advice.silent.push(format!("{about}, {wss}: {why}")),
            }
        }
        advice.lacking.extend(self.lacking(&rules).map(|what| format!("{about}: {what}")));
        advice.rules.extend(rules);
        Ok(())
    }

    /// The rule for one working set size.
    ///
    /// # Errors
    /// Returns the name of the missing measurement, with the option that takes the measurement.
    fn rule(&self, quiet: &Self, wss: Bytes) -> Result<AdviceRule, String> {
        let lengths = self.points(Event::Preemption, wss).iter().map(|it| it.length_us);
        let cost = |us| Some((us, self.cost(Event::Preemption, wss, us)?.0));
        let curve = StayCurve::of(lengths.filter_map(cost).collect());
        let option = wss.to_string().replace(' ', "");
        let missing = |what: &str| {
            format!(
                "no {what} was measured with a working set of {option} or more: measure one with `--wss {option}`"
            )
        };
        let curve = curve.ok_or_else(|| missing("preemption"))?;
        let moves = self.moves(quiet, &curve, wss);
        if moves.is_empty() {
            return Err(missing("migration"));
        }
        Ok(AdviceRule {
            load: self.load.to_owned(),
            company: self.company.clone(),
            wss_bytes: wss.get(),
            waits: self.waits(&curve, &moves),
            moves,
        })
    }

    /// The companies in which a migration was measured: without activity, and this company.
    fn away<'b>(&'b self, quiet: &'b Self, event: Event) -> impl Iterator<Item = &'b Self> {
        let leads = self.company.leads(event);
        [quiet, self].into_iter().filter(move |from| leads && from.series(event).is_some())
    }

    /// The advice for the requested wait, or for the usual waits.
    fn waits(&self, curve: &StayCurve, moves: &[AdvisedMove]) -> Vec<AdvisedWait> {
        let asked = self.wanted.length.map(|wait| vec![wait.micros()]);
        let wait = |wait_us| advised(curve, moves, wait_us);
        asked.unwrap_or_else(|| USUAL_WAITS_US.to_vec()).into_iter().map(wait).collect()
    }

    /// The migrations at a size, each after the shortest measured absence.
    fn moves(&self, quiet: &Self, curve: &StayCurve, wss: Bytes) -> Vec<AdvisedMove> {
        let measured = |event| {
            let shortest = |from: &'_ Self| from.points(event, wss).first().map(|it| it.length_us);
            let (from, length_us) =
                self.away(quiet, event).find_map(|from| Some((from, shortest(from)?)))?;
            let (cost, n, replicates) = from.cost(event, wss, length_us)?;
            let at_most = from.company.preempted_by != Absence::Nothing && length_us > 0.0;
            let least = if at_most { Some(0.0) } else { cost.low_us };
            let pays_from = curve.pays_from(&CostEstimate { low_us: least, ..cost });
            let known_by = curve.origin(pays_from.estimate_us);
            Some(AdvisedMove {
                event,
                cost,
                length_us,
                at_most,
                n,
                replicates,
                pays_from,
                known_by,
            })
        };
        MIGRATIONS.into_iter().filter_map(measured).collect()
    }

    /// The reason why no migration is available for comparison, and the command that measures one.
    fn no_migration(&self) -> String {
        match self.classes() {
            none if none.is_empty() => "that machine has no other CPU to move to".to_owned(),
            classes => format!("no migration was measured; {}", remedy(self.load, &classes, "0us")),
        }
    }

    /// The classes of migration that can be measured, in the form of an option.
    fn classes(&self) -> String {
        let machine = self.series(Event::Preemption).map(|series| &series.key.machine);
        let known = machine.and_then(|it| self.model.machines.get(it)?.events.as_ref());
        let possible = |event: &Event| known.is_none_or(|events| events.contains(event));
        let leads = MIGRATIONS.into_iter().filter(|&event| self.company.leads(event));
        let words: Vec<&str> = leads.filter(possible).map(Event::word).collect();
        words.join(",")
    }

    /// The missing measurements that leave answers wide, with the commands that take them.
    fn lacking(&self, rules: &[AdviceRule]) -> impl Iterator<Item = String> {
        let all: Vec<AdvisedMove> = rules.iter().flat_map(|rule| rule.moves.clone()).collect();
        let longest = |known: fn(&AdvisedMove) -> bool| {
            let waits = all.iter().filter(|it| known(it));
            waits
                .map(|it| it.pays_from.high_us.unwrap_or(it.pays_from.estimate_us))
                .reduce(f64::max)
        };
        let preempted = |wait| remedy(self.load, "preemption", &one_digit(wait));
        let at_most = all.iter().any(|it| it.at_most).then(|| {
            format!(
                "a migration after an absence in company is only an upper bound for a move at once; {}",
                remedy(self.load, &self.classes(), "0us")
            )
        });
        // Time alone evicts nothing: lengths matter where something ran.
        let ran = self.company.preempted_by != Absence::Nothing;
        let below = longest(|it| matches!(it.known_by, WaitOrigin::BelowAll { .. }));
        let below = below.filter(|_| ran).map(|wait| {
            format!(
                "a move already pays for waits shorter than every measured preemption; {}",
                preempted(wait)
            )
        });
        let beyond = longest(|it| matches!(it.known_by, WaitOrigin::BeyondAll { .. }));
        let beyond = beyond.filter(|_| ran).map(|wait| {
            format!(
                "a move pays only for waits longer than every measured preemption; {}",
                preempted(wait)
            )
        });
        let vague = all.iter().any(|it| it.pays_from.high_us.is_none());
        let vague = vague.then(|| {
            "some costs have no interval, so corehop cannot advise on any wait; measure more replicates (`--replicates 20`)"
                .to_owned()
        });
        [at_most, below, beyond, vague].into_iter().flatten()
    }
}

/// Formats a time with one significant digit for an option, and at least 10 us, the shortest preemption that a timer
/// produces.
fn one_digit(us: f64) -> String {
    let us = us.max(10.0);
    let unit = 10_f64.powi(us.log10().floor() as i32);
    let time = Nanos::new((1e3 * unit * (us / unit).floor()) as u64);
    time.to_string().replace(' ', "")
}

#[cfg(test)]
mod tests;
