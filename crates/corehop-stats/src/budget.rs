// SPDX-License-Identifier: MIT OR Apache-2.0
//! The disturbance budget: how many of all samples were lost, to which causes, and how many were
//! repaired.

use std::collections::BTreeMap;

use serde::Serialize;

use super::summary::CellSummary;
use corehop_plan::samples::Cause;
use corehop_plan::units::Bytes;

/// The fate of a group of samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SampleFate {
    /// The common property of the samples: an event, or a working-set size.
    pub of: String,
    /// The number of all samples, valid or not.
    pub n_all: usize,
    /// The number of valid samples that needed no repair.
    pub clean: usize,
    /// The number of samples that are valid after disturbed segments were cut out.
    pub repaired: usize,
    /// The number of invalid samples by cause; each sample counts once, for its most telling cause.
    pub lost_to: BTreeMap<Cause, usize>,
    /// The number of valid samples, untouched or repaired.
    pub n_valid: usize,
    /// The share of valid samples among all.
    pub valid_share: f64,
    /// The share of valid samples without repair among all.
    pub clean_share: f64,
    /// The share of repaired samples among all.
    pub repaired_share: f64,
    /// The share of all samples that each cause made invalid.
    pub lost_share: BTreeMap<Cause, f64>,
}

impl SampleFate {
    fn add(&mut self, summary: &CellSummary) {
        self.n_all += summary.n_all;
        self.n_valid += summary.n_valid;
        self.clean += summary.n_valid - summary.n_repaired;
        self.repaired += summary.n_repaired;
        for (&cause, &count) in &summary.lost_to {
            *self.lost_to.entry(cause).or_default() += count;
        }
        let share = |count: usize| count as f64 / self.n_all as f64;
        self.valid_share = share(self.n_valid);
        self.clean_share = share(self.clean);
        self.repaired_share = share(self.repaired);
        self.lost_share = self.lost_to.iter().map(|(&cause, &n)| (cause, share(n))).collect();
    }
}

/// The fates of samples, by event under each load and by working-set size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SampleBudget {
    /// The fate of all samples of the files.
    pub total: SampleFate,
    /// The fates of samples by load and event.
    pub by_event: Vec<SampleFate>,
    /// The fates of samples by working-set size; long touches are disturbed more often.
    pub by_wss: Vec<SampleFate>,
}

/// Computes the disturbance budget of the given cells.
pub fn budget(summaries: &[CellSummary]) -> SampleBudget {
    let mut budget = SampleBudget { total: of("all"), ..SampleBudget::default() };
    let mut by_wss: BTreeMap<u64, SampleFate> = BTreeMap::new();
    for summary in summaries {
        let cell = &summary.cell;
        budget.total.add(summary);
        let event = format!("{}, {}", cell.event, cell.load);
        let known = budget.by_event.iter().position(|fate| fate.of == event);
        let place = known.unwrap_or_else(|| {
            budget.by_event.push(of(&event));
            budget.by_event.len() - 1
        });
        budget.by_event[place].add(summary);
        let size = || of(&Bytes::new(cell.wss_bytes).to_string());
        by_wss.entry(cell.wss_bytes).or_insert_with(size).add(summary);
    }
    budget.by_wss = by_wss.into_values().collect();
    budget
}

fn of(what: &str) -> SampleFate {
    SampleFate { of: what.to_owned(), ..SampleFate::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimator::Estimator;
    use crate::example::sample;
    use crate::summary::summarize;
    use corehop_plan::samples::Sample;
    use corehop_plan::workload::Event;

    #[test]
    fn every_sample_has_one_fate_in_every_view() {
        let lost =
            |causes: &[Cause]| Sample { valid: false, disturbed_by: causes.to_vec(), ..sample() };
        let samples = [
            sample(),
            Sample { repaired: vec![Cause::Gap], ..sample() },
            lost(&[Cause::Preempted, Cause::Gap]),
            Sample { event: Event::Flush, wss_bytes: 8192, ..lost(&[Cause::Gap]) },
        ];
        let budget = budget(&summarize(&samples, Estimator::Difference));
        let total = &budget.total;
        assert_eq!((total.n_all, total.clean, total.repaired), (4, 1, 1));
        assert_eq!(total.lost_to, [(Cause::Preempted, 1), (Cause::Gap, 1)].into());
        assert!((total.valid_share - 0.5).abs() < 1e-12);
        for view in [&budget.by_event, &budget.by_wss] {
            let counted: usize = view
                .iter()
                .map(|fate| fate.clean + fate.repaired + fate.lost_to.values().sum::<usize>())
                .sum();
            assert_eq!((view.len(), counted), (2, 4));
        }
        let names: Vec<&str> = budget.by_wss.iter().map(|fate| fate.of.as_str()).collect();
        assert_eq!(names, ["4 KiB", "8 KiB"]);
    }
}
