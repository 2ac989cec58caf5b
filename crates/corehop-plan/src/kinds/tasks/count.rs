// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts runs of task sets: a run counts when the next one begins, or when the plan has ended.

use super::TaskJob;
use crate::kinds::{Counting, Observation, Rows};

/// Counts the runs of task sets that have ended.
pub(super) struct Runs {
    planned: u64,
    under_way: Option<u64>,
}

impl Runs {
    /// Of a plan with this number of runs.
    pub(super) const fn planned(planned: u64) -> Self {
        Self { planned, under_way: None }
    }

    /// A run counts for its place in the plan, whatever its number: see [`super::TaskRun::number`].
    fn observation(planned: u64, number: u64) -> Observation {
        Observation::of_run(number % planned.max(1))
    }
}

impl Counting for Runs {
    fn take(&mut self, rows: &Rows) -> Vec<Observation> {
        let ended = |job: &TaskJob| {
            let before = self.under_way.replace(job.run)?;
            (before != job.run).then(|| Self::observation(self.planned, before))
        };
        rows.task_jobs.iter().filter_map(ended).collect()
    }

    fn complete(&mut self) -> Option<Observation> {
        Some(Self::observation(self.planned, self.under_way.take()?))
    }

    fn cut_off(&mut self) {
        self.under_way = None;
    }
}
