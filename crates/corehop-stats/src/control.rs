// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws conclusions from the two controls: which delays are only the method's own error, and which are
//! only the cost of being off the CPU.

use super::cell::CellKey;
use super::summary::CellSummary;
use corehop_plan::workload::{Absence, Event};

/// Returns whether a median delay is not larger than the delay of the control `none` for the same
/// working set, which should be zero. Returns false if the summaries have no control for the working
/// set.
pub fn within_error(summary: &CellSummary, summaries: &[CellSummary]) -> bool {
    if summary.cell.event == Event::None {
        return false;
    }
    let error = summaries
        .iter()
        .filter(|other| other.cell.event == Event::None && same_set(&other.cell, &summary.cell))
        .filter_map(median)
        .map(f64::abs)
        .fold(None, |most: Option<f64>, error| Some(most.map_or(error, |most| most.max(error))));
    median(summary).zip(error).is_some_and(|(delay, error)| delay.abs() <= error)
}

/// A size at which leaving the CPU idle cost as much as being preempted.
#[derive(Debug, Clone, PartialEq)]
pub struct LeavingAlone {
    /// The cell of the preemption that is compared with leaving the CPU alone.
    pub cell: CellKey,
    /// The median cost of the preemption, in microseconds.
    pub preemption_us: f64,
    /// The cost of an equal absence in which no other thread ran, in microseconds.
    pub idle_leave_us: f64,
}

/// Returns the preemptions by a preemptor or a load whose median cost is not higher than that of an
/// equally long absence in which no other thread ran.
pub fn leaving_alone(summaries: &[CellSummary]) -> Vec<LeavingAlone> {
    let preemptions = summaries.iter().filter(|summary| {
        summary.cell.event == Event::Preemption && summary.cell.preempted_by != Absence::Nothing
    });
    let pair = |preemption: &CellSummary| {
        let idle = summaries.iter().find(|other| {
            let length = &other.cell.preemption_length;
            other.cell.event == Event::IdleLeave
                && *length == preemption.cell.preemption_length
                && same_set(&other.cell, &preemption.cell)
        })?;
        let (preemption_us, idle_leave_us) = (median(preemption)?, median(idle)?);
        let cell = preemption.cell.clone();
        (idle_leave_us >= preemption_us).then_some(LeavingAlone {
            cell,
            preemption_us,
            idle_leave_us,
        })
    };
    preemptions.filter_map(pair).collect()
}

fn same_set(a: &CellKey, b: &CellKey) -> bool {
    a.same_panel(b) && a.wss_bytes == b.wss_bytes
}

fn median(summary: &CellSummary) -> Option<f64> {
    Some(summary.delay.as_ref()?.median().estimate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Estimator;
    use crate::example::sample;
    use crate::summary::summarize;
    use corehop_plan::samples::Sample;

    fn samples(event: Event, preempted_by: Absence, us: f64) -> Vec<Sample> {
        let polluter =
            (preempted_by == Absence::Preemptor).then(|| "shuffled 4 MiB write 0.5".into());
        let resumed_ns = 1e3 * (1.0 + us);
        let length = if event == Event::None { "none" } else { "fixed_4ms" };
        let like = Sample { event, preempted_by, polluter, warm_ns: 1e3, resumed_ns, ..sample() };
        vec![Sample { preemption_length: length.into(), ..like }; 9]
    }

    fn summaries(none: f64, idle_leave: f64, preemption: f64) -> Vec<CellSummary> {
        let all = [
            samples(Event::None, Absence::Nothing, none),
            samples(Event::IdleLeave, Absence::Nothing, idle_leave),
            samples(Event::Preemption, Absence::Preemptor, preemption),
        ];
        summarize(&all.concat(), Estimator::Difference)
    }

    fn preemption(summaries: &[CellSummary]) -> &CellSummary {
        summaries.iter().find(|it| it.cell.event == Event::Preemption).unwrap()
    }

    #[test]
    fn a_delay_that_is_no_larger_than_the_controls_is_the_methods_own_error() {
        for (none, delay, within) in [(-0.5, 0.4, true), (-0.5, 0.6, false), (0.0, 0.1, false)] {
            let all = summaries(none, 0.0, delay);
            assert_eq!(within_error(preemption(&all), &all), within, "{none} {delay}");
        }
        let alone = summaries(0.5, 0.0, 0.1);
        let without: Vec<_> =
            alone.iter().filter(|it| it.cell.event != Event::None).cloned().collect();
        assert!(!within_error(preemption(&without), &without));
        let control = alone.iter().find(|it| it.cell.event == Event::None).unwrap();
        assert!(!within_error(control, &alone));
    }

    #[test]
    fn a_preemption_that_costs_no_more_than_leaving_alone_is_told() {
        assert_eq!(leaving_alone(&summaries(0.0, 1.0, 2.0)), []);
        let [told] = leaving_alone(&summaries(0.0, 3.0, 2.0)).try_into().unwrap();
        assert_eq!((told.preemption_us, told.idle_leave_us), (2.0, 3.0));
    }
}
