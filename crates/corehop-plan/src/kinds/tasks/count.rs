// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts runs of task sets: a run counts when the next one begins, or when the plan has ended.

use super::TaskJob;
use crate::kinds::{RowCounting, RowObservation, Rows};

/// Counts the runs of task sets that have ended.
pub(super) struct TaskRunCounter {
    planned: u64,
    under_way: Option<u64>,
}

impl TaskRunCounter {
    /// Of a plan with this number of runs.
    pub(super) const fn planned(planned: u64) -> Self {
        Self { planned, under_way: None }
    }

    /// A run counts for its place in the plan, whatever its number: see [`super::TaskRun::number`].
    fn observation(planned: u64, number: u64) -> RowObservation {
        RowObservation::of_run(number % planned.max(1))
    }
}

impl RowCounting for TaskRunCounter {
    fn take(&mut self, rows: &Rows) -> Vec<RowObservation> {
        let ended = |job: &TaskJob| {
            let before = self.under_way.replace(job.run)?;
            (before != job.run).then(|| Self::observation(self.planned, before))
        };
        rows.task_jobs.iter().filter_map(ended).collect()
    }

    fn complete(&mut self) -> Option<RowObservation> {
        Some(Self::observation(self.planned, self.under_way.take()?))
    }

    fn cut_off(&mut self) {
        self.under_way = None;
    }
}
