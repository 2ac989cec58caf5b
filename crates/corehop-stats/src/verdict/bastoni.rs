// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the five observations of Bastoni, Brandenburg and Anderson (OSPERT 2010, section 4.2).

use super::{
    CellView, ClaimVerdict, Comparison, Expect, MachineView, ObservationClaim, Sureness, checked,
    difference, margin, says,
};
use crate::ordered::{BadInput, Interval, Ordered};
use crate::quantile::{median, quantile};
use crate::replicates::{median_difference, replicate_order};
use corehop_plan::workload::Event;

/// The distance between the quartiles of a normal distribution, in standard deviations.
const QUARTILES_IN_STD: f64 = 1.349;

/// The probability that marks a strong relation: the later of two samples is the larger one with at
/// least this probability, or at most its complement. Relations between this medium value (0.64) and
/// no effect do not count as strong.
const STRONG: f64 = 0.64;

/// The smallest number of samples in a cell for testing a relation with the preemption length.
const FEWEST_FOR_LENGTH: usize = 50;

const FIRST: ObservationClaim = ObservationClaim {
    id: "bastoni-1",
    claim: "How well a delay can be predicted depends on the cache sizes: under load, its spread \
            becomes as large as the delay itself once the working set reaches the L2 cache.",
    source: "Bastoni et al. 2010, section 4.2, observation 1",
    rule: "Spread: the distance of the quartiles over 1.349, relative to the median delay. For every \
           loaded event: below 1 at the largest working set up to a quarter of the L2 cache, at least \
           1 at the smallest one from its size on. It contradicts if the large one stays below 1, or \
           the small one is not.",
};

/// Tests observation 1 of Bastoni et al., on predictability and cache size.
///
/// # Errors
/// Returns [`BadInput`] for invalid cells or an invalid `alpha`.
pub fn bastoni_1(
    cells: &[CellView],
    machine: &MachineView,
    alpha: f64,
) -> Result<ClaimVerdict, BadInput> {
    let cells = checked(cells, alpha)?;
    let Some(l2) = machine.second_level() else {
        return Ok(FIRST.cannot_tell("the cache sizes of this machine are not known"));
    };
    let pairs = small_and_large(&cells, l2);
    let sure = Sureness { alpha, comparisons: 2 * pairs.len() };
    let mut comparisons = Vec::new();
    for (small, large) in pairs {
        comparisons.push(spread(small, sure, |low, high| (high < 1.0, low >= 1.0))?);
        comparisons.push(spread(large, sure, |low, high| (low >= 1.0, high < 1.0))?);
    }
    let missing = format!(
        "cells of one event under load, with a working set of at most {} KiB and another of at least {} KiB",
        l2 / 4096,
        l2 / 1024
    );
    Ok(FIRST.judge(comparisons, &missing))
}

/// Returns two cells for every kind of loaded cell, if both exist: the cell with the largest working
/// set up to a quarter of the L2 cache, and the cell with the smallest working set of at least the L2
/// cache's size.
fn small_and_large<'a, 'b>(
    cells: &[&'b CellView<'a>],
    l2: u64,
) -> Vec<(&'b CellView<'a>, &'b CellView<'a>)> {
    let of_interest = |cell: &&&CellView| cell.loaded() && leaves(cell.event);
    let loaded: Vec<_> = cells.iter().filter(of_interest).copied().collect();
    let alike = |a: &CellView, b: &CellView| {
        a.event == b.event && a.comparable_to(&CellView { wss_bytes: a.wss_bytes, ..*b })
    };
    let largest_small = |cell: &&&CellView| {
        let larger = |other: &&CellView| {
            alike(other, cell) && other.wss_bytes > cell.wss_bytes && 4 * other.wss_bytes <= l2
        };
        4 * cell.wss_bytes <= l2 && !loaded.iter().any(larger)
    };
    loaded
        .iter()
        .filter(largest_small)
        .filter_map(|small| {
            let large = loaded.iter().filter(|cell| alike(cell, small) && cell.wss_bytes >= l2);
            Some((*small, *large.min_by_key(|cell| cell.wss_bytes)?))
        })
        .collect()
}

/// Returns whether an event is a preemption or a migration, and not a control.
const fn leaves(event: Event) -> bool {
    matches!(event, Event::Preemption) || event.is_migration()
}

/// Returns the relative spread of the delays of `cell`; `rule(low, high)` judges it and returns (fits,
/// contradicts).
fn spread(
    cell: &CellView,
    sure: Sureness,
    rule: impl Fn(f64, f64) -> (bool, bool),
) -> Result<Comparison, BadInput> {
    let delays = Ordered::new(cell.delay_ns)?;
    let [q1, q2, q3] = [quantile(&delays, 0.25)?, median(&delays), quantile(&delays, 0.75)?];
    let narrow = relative_spread(cell, sure.to_fit())?;
    let wide = relative_spread(cell, sure.to_contradict())?;
    let fits = narrow.is_some_and(|i| rule(i.low, i.high).0);
    let contradicts = wide.is_some_and(|i| rule(i.low, i.high).1);
    Ok(Comparison {
        what: format!("relative spread of {}, load {}", cell.event, cell.load),
        wss_bytes: cell.wss_bytes,
        estimate: (q3 - q1) / QUARTILES_IN_STD / q2.abs().max(f64::MIN_POSITIVE),
        interval: narrow,
        why_none: cell.nested()?.median(sure.to_fit() / 3.0)?.why_none.map(|it| it.to_string()),
        margin: 1.0,
        unit: "1",
        says: says(fits, contradicts),
    })
}

/// Returns an interval of the relative spread that assumes no distribution: the three quartiles are in
/// their intervals over replicates, each at a third of `alpha`.
fn relative_spread(cell: &CellView, alpha: f64) -> Result<Option<Interval>, BadInput> {
    let nested = cell.nested()?;
    let quartile =
        |p| -> Result<Option<Interval>, BadInput> { Ok(nested.quantile(p, alpha / 3.0)?.interval) };
    let (Some(q1), Some(q2), Some(q3)) = (quartile(0.25)?, quartile(0.5)?, quartile(0.75)?) else {
        return Ok(None);
    };
    let furthest = q2.low.abs().max(q2.high.abs());
    let nearest = if q2.contains(0.0) { 0.0 } else { q2.low.abs().min(q2.high.abs()) };
    if furthest <= 0.0 {
        return Ok(None);
    }
    let low = (q3.low - q1.high).max(0.0) / QUARTILES_IN_STD / furthest;
    // Infinite where the median may be 0: then the delay is as unpredictable as can be.
    let high = (q3.high - q1.low) / QUARTILES_IN_STD / nearest;
    Ok(Some(Interval { low, high, level: 1.0 - alpha }))
}

const SECOND: ObservationClaim = ObservationClaim {
    id: "bastoni-2",
    claim: "Under load there is no substantial difference between what a preemption and what a \
            migration costs, neither on average nor in the worst case.",
    source: "Bastoni et al. 2010, section 4.2, observation 2",
    rule: "For every loaded working set below the L2 cache and every class of migration: the median \
           delay, and the highest of the quantiles 0.99, 0.95, 0.9 and 0.75 that both cells can bound, \
           differ by at most half of the smaller (or 5 % of the warm touch). It contradicts if they \
           differ by more.",
};

/// Tests observation 2 of Bastoni et al., on preemption against migration under load.
///
/// # Errors
/// Returns [`BadInput`] for invalid cells or an invalid `alpha`.
pub fn bastoni_2(
    cells: &[CellView],
    machine: &MachineView,
    alpha: f64,
) -> Result<ClaimVerdict, BadInput> {
    let cells = checked(cells, alpha)?;
    let l2 = machine.second_level().unwrap_or(u64::MAX);
    let from = |cell: &CellView| cell.loaded() && cell.event == Event::Preemption;
    let to = |cell: &CellView| cell.loaded() && cell.event.is_migration();
    let mut pairs = pairs(&cells, from, to);
    pairs.retain(|(preemption, _)| preemption.wss_bytes < l2);
    let sure = Sureness { alpha, comparisons: 2 * pairs.len() };
    let mut comparisons = Vec::new();
    for (preemption, migration) in pairs {
        for p in [0.5, highest_bounded(preemption, migration, sure)?] {
            let [a, b] = [quantile(&preemption.delays()?, p)?, quantile(&migration.delays()?, p)?];
            let margin = margin(preemption, a, b)?;
            comparisons.push(difference(preemption, migration, p, margin, Expect::Equal, sure)?);
        }
    }
    let missing = "a preemption and a migration under load at a working set below the L2 cache";
    Ok(SECOND.judge(comparisons, missing))
}

/// Returns the highest quantile that both cells bound from above. The numbers of samples alone
/// determine the choice, so that it favours no outcome.
fn highest_bounded(x: &CellView, y: &CellView, sure: Sureness) -> Result<f64, BadInput> {
    let samples = x.delay_ns.len().min(y.delay_ns.len());
    for p in [0.99, 0.95] {
        let needed = crate::quantile::samples_for_upper_end(p, sure.to_contradict())?;
        // An interval over replicates needs some of them beyond the quantile.
        if samples >= needed && samples as f64 * (1.0 - p) >= BEYOND {
            return Ok(p);
        }
    }
    Ok(if samples as f64 * 0.1 >= BEYOND { 0.9 } else { 0.75 })
}

/// The smallest number of samples beyond a quantile of all samples that is compared.
const BEYOND: f64 = 10.0;

/// Returns all pairs of a `from` cell and a `to` cell that differ only in the event.
fn pairs<'a, 'b>(
    cells: &[&'b CellView<'a>],
    from: impl Fn(&CellView) -> bool,
    to: impl Fn(&CellView) -> bool,
) -> Vec<(&'b CellView<'a>, &'b CellView<'a>)> {
    let starts = cells.iter().filter(|cell| from(cell));
    starts
        .flat_map(|x| {
            let ends = cells.iter().filter(|y| to(y) && x.comparable_to(y));
            ends.map(|y| (*x, *y)).collect::<Vec<_>>()
        })
        .collect()
}

const THIRD_A: ObservationClaim = ObservationClaim {
    id: "bastoni-3a",
    claim: "In an idle system preemptions always cause less delay than migrations.",
    source: "Bastoni et al. 2010, section 4.2, observation 3, first half",
    rule: "For every working set and every class of migration, nothing else running: the median delay \
           of the migration is not below that of the preemption (by more than 5 % of the warm touch), \
           and in every class it is above it at some working set. At working sets at which no \
           preemption was measured with nothing running, an idle leave stands in for it.",
};

/// Returns whether the replicates of a migration tend to cost more than those of a preemption.
fn dearer(preemption: &CellView, migration: &CellView, sure: Sureness) -> Result<bool, BadInput> {
    let alpha = sure.to_contradict();
    let difference = median_difference(&preemption.nested()?, &migration.nested()?, alpha)?;
    let shown = difference.p_value.is_some_and(|p_value| p_value < alpha);
    Ok(shown && difference.estimate > 0.0)
}

/// Tests the first half of observation 3 of Bastoni et al., on preemption against migration in an idle
/// system.
///
/// # Errors
/// Returns [`BadInput`] for invalid cells or an invalid `alpha`.
pub fn bastoni_3a(cells: &[CellView], alpha: f64) -> Result<ClaimVerdict, BadInput> {
    let cells = checked(cells, alpha)?;
    let pairs = quiet_pairs(&cells);
    let sure = Sureness { alpha, comparisons: pairs.len() };
    let (mut comparisons, mut classes) = (Vec::new(), Vec::new());
    for (preemption, migration) in pairs {
        let margin = super::NEGLIGIBLE * preemption.warm()?;
        comparisons.push(difference(preemption, migration, 0.5, margin, Expect::NotLess, sure)?);
        let shown = dearer(preemption, migration, sure)?;
        classes.push((migration.event, shown));
    }
    let never = classes
        .iter()
        .map(|&(event, _)| event)
        .find(|&event| !classes.iter().any(|&(other, dearer)| other == event && dearer));
    let missing = "a preemption (or an idle leave) and a migration with nothing else running";
    let verdict = THIRD_A.judge(comparisons, missing);
    Ok(match (verdict.outcome, never) {
        (super::TestOutcome::Holds, Some(event)) => THIRD_A.verdict(
            super::TestOutcome::CannotTell,
            format!(
                "the samples show at no working set that a {event} costs more than a preemption"
            ),
            verdict.comparisons,
        ),
        _ => verdict,
    })
}

/// Returns pairs of quiet preemptions with quiet migrations; at sizes without a quiet preemption of
/// any length, an idle leave takes its place.
fn quiet_pairs<'a, 'b>(cells: &[&'b CellView<'a>]) -> Vec<(&'b CellView<'a>, &'b CellView<'a>)> {
    let migration = |cell: &CellView| cell.quiet() && cell.event.is_migration();
    let preemption = |cell: &CellView| cell.quiet() && cell.event == Event::Preemption;
    let leave = |cell: &CellView| cell.event == Event::IdleLeave && cell.load == "idle";
    let mut found = pairs(cells, preemption, migration);
    let preempted: Vec<_> = found.clone();
    found.extend(pairs(cells, leave, migration).into_iter().filter(|&(_, y)| {
        let alike = |other: &CellView| {
            y.comparable_to(&CellView { variant: y.variant, absence: y.absence, ..*other })
        };
        !preempted.iter().any(|(_, other)| other.event == y.event && alike(other))
    }));
    found
}

const THIRD_B: ObservationClaim = ObservationClaim {
    id: "bastoni-3b",
    claim: "In an idle system L3 migrations and memory migrations cost about the same.",
    source: "Bastoni et al. 2010, section 4.2, observation 3, second half",
    rule: "For every working set, nothing else running: the median delays differ by at most half of \
           the smaller (or 5 % of the warm touch). It contradicts if they differ by more.",
};

/// Tests the second half of observation 3 of Bastoni et al., on L3 against memory migration in an idle
/// system.
///
/// # Errors
/// Returns [`BadInput`] for invalid cells or an invalid `alpha`.
pub fn bastoni_3b(
    cells: &[CellView],
    machine: &MachineView,
    alpha: f64,
) -> Result<ClaimVerdict, BadInput> {
    let cells = checked(cells, alpha)?;
    let of_both = [Event::L3Migration, Event::MemoryMigration];
    if let Some(event) = of_both.into_iter().find(|event| machine.lacks.contains(event)) {
        return Ok(THIRD_B.cannot_tell(format!(
            "no two usable CPUs of this machine are in the class {event}: this class cannot be measured here"
        )));
    }
    let quiet = |event| move |cell: &CellView| cell.quiet() && cell.event == event;
    let pairs = pairs(&cells, quiet(Event::L3Migration), quiet(Event::MemoryMigration));
    let sure = Sureness { alpha, comparisons: pairs.len() };
    let mut comparisons = Vec::new();
    for (near, far) in pairs {
        let margin = margin(near, median(&near.delays()?), median(&far.delays()?))?;
        comparisons.push(difference(near, far, 0.5, margin, Expect::Equal, sure)?);
    }
    let missing = "an L3 migration and a memory migration with nothing else running";
    Ok(THIRD_B.judge(comparisons, missing))
}

const FOURTH: ObservationClaim = ObservationClaim {
    id: "bastoni-4",
    claim: "The size of a delay is strongly related to the preemption length, except where no cache \
            affinity is left to lose, as after a memory migration.",
    source: "Bastoni et al. 2010, section 4.2, observation 4",
    rule: "For every cell with other work in the job's absence, varying lengths and a working set \
           below the L2 cache: the probability that a delay after one of the longest half of the \
           preemptions exceeds one after one of the shortest fifth lies outside 0.36 to 0.64, or, for \
           memory migrations, inside. It contradicts if it lies on the other side. The unit is the \
           replicate.",
};

/// Tests observation 4 of Bastoni et al., on delay and preemption length.
///
/// # Errors
/// Returns [`BadInput`] for invalid cells or an invalid `alpha`.
pub fn bastoni_4(
    cells: &[CellView],
    machine: &MachineView,
    alpha: f64,
) -> Result<ClaimVerdict, BadInput> {
    let cells = checked(cells, alpha)?;
    let l2 = machine.second_level().unwrap_or(u64::MAX);
    let quiet = |cell: &CellView| cell.preempted_by == corehop_plan::workload::Absence::Nothing;
    let disturbed = |cell: &&&CellView| {
        leaves(cell.event) && (cell.loaded() || !quiet(cell)) && cell.wss_bytes < l2
    };
    let split: Vec<_> = cells
        .iter()
        .filter(disturbed)
        .filter_map(|cell| Some((*cell, short_and_long(cell)?)))
        .collect();
    let sure = Sureness { alpha, comparisons: split.len() };
    let mut comparisons = Vec::new();
    for (cell, (short, long)) in split {
        comparisons.push(relation(cell, &short, &long, sure)?);
    }
    let missing = "50 samples or more of a preemption or migration with preemption lengths drawn from \
                   a range, other work in the job's absence, and a working set below the L2 cache";
    Ok(FOURTH.judge(comparisons, missing))
}

/// Delays in nanoseconds, each with its replicate.
type ReplicateDelays = Vec<(f64, u64)>;

/// Returns the delays after the shortest fifth and the longest half of the preemptions, or `None` if
/// the lengths do not differ enough.
fn short_and_long(cell: &CellView) -> Option<(ReplicateDelays, ReplicateDelays)> {
    let lengths = Ordered::new(cell.length_ns).ok()?;
    if lengths.len() < FEWEST_FOR_LENGTH {
        return None;
    }
    let (short, long) = (lengths.rank(lengths.len() / 5)?, lengths.rank(lengths.len() / 2 + 1)?);
    if long < 1.5 * short {
        return None;
    }
    let delays = |keep: &dyn Fn(f64) -> bool| -> ReplicateDelays {
        let labelled = cell.delay_ns.iter().copied().zip(cell.replicates.iter().copied());
        let both = cell.length_ns.iter().zip(labelled);
        both.filter(|(length, _)| keep(**length)).map(|(_, labelled)| labelled).collect()
    };
    Some((delays(&|length| length <= short), delays(&|length| length >= long)))
}

fn relation(
    cell: &CellView,
    short: &[(f64, u64)],
    long: &[(f64, u64)],
    sure: Sureness,
) -> Result<Comparison, BadInput> {
    let narrow = replicate_order(short, long, cell.in_a_row, sure.to_fit())?;
    let wide = replicate_order(short, long, cell.in_a_row, sure.to_contradict())?;
    let strong = |i: Interval| i.low > STRONG || i.high < 1.0 - STRONG;
    let weak = |i: Interval| i.low > 1.0 - STRONG && i.high < STRONG;
    let [fits, contradicts]: [&dyn Fn(Interval) -> bool; 2] =
        if cell.event == Event::MemoryMigration { [&weak, &strong] } else { [&strong, &weak] };
    let says = says(narrow.interval.is_some_and(fits), wide.interval.is_some_and(contradicts));
    Ok(Comparison {
        what: format!("P(short < long) of {}, load {}", cell.event, cell.load),
        wss_bytes: cell.wss_bytes,
        estimate: narrow.theta,
        interval: narrow.interval,
        why_none: narrow.why_none.map(|why| why.to_string()),
        margin: STRONG,
        unit: "1",
        says,
    })
}

const FIFTH: ObservationClaim = ObservationClaim {
    id: "bastoni-5",
    claim: "Delays do not depend significantly on the size of the task set.",
    source: "Bastoni et al. 2010, section 4.2, observation 5",
    rule: "Under load, with the most tasks and with the fewest that gave samples enough: the largest (of \
           equally many), the mean and the median delay of each class and size differ by at most half.",
};

/// Tests observation 5 of Bastoni et al., on delay and task-set size. The synthetic method imposes
/// every preemption and migration, so it cannot show the effect of a task set's size.
///
/// The caller passes the comparisons of [`crate::tasks`].
pub fn bastoni_5(comparisons: Vec<Comparison>) -> ClaimVerdict {
    if !comparisons.is_empty() {
        return FIFTH.judge(comparisons, "");
    }
    FIFTH.cannot_tell(
        "the synthetic method imposes preemptions and migrations one at a time; whether the number \
         of tasks matters only the schedule-sensitive method can show, with task sets of two sizes at \
         least, under load",
    )
}

#[cfg(test)]
mod tests;
