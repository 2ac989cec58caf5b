// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts runs of task sets: a run counts when the next run begins, or when the plan has ended.

use super::TaskJob;
use crate::kinds::{RowCounting, RowObservation, Rows};

/// Counts the runs of task sets that have ended.
pub(super) struct TaskRunCounter {
    planned: u64,
    under_way: Option<u64>,
}

impl TaskRunCounter {
    /// Makes a counter for a plan with `planned` runs.
    pub(super) const fn planned(planned: u64) -> Self {
        Self { planned, under_way: None }
    }

    /// The number of a run modulo the number of planned runs is the run's position in the plan; see
    /// [`super::TaskRun::number`].
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
