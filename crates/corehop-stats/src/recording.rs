// SPDX-License-Identifier: MIT OR Apache-2.0
//! The effect of recording on the recorded schedule: a comparison of runs with and without
//! recording, job by job.

use std::collections::HashMap;

use serde::Serialize;

use super::ordered::BadInput;
use super::paired::Paired;
use corehop_plan::samples::{JobOutcome, TaskJob, Text};

/// The jobs of equal task sets with and without recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordingEffect {
    /// The number of deadlines missed with recording, among the jobs that ran both ways.
    pub missed_with: u64,
    /// The number of deadlines missed without recording, among the jobs that ran both ways.
    pub missed_without: u64,
    /// The number of missed deadlines per job: the difference with recording minus without
    /// recording.
    pub misses: Paired,
    /// The response times in nanoseconds: the difference with recording minus without recording.
    pub response_ns: Paired,
}

/// The key of a job: load, set, number of tasks, working-set size, write ratio, task, and job.
type JobSetKey = (Text, u64, u64, u64, u64, u64, u64);

/// Collects jobs with and without recording.
#[derive(Debug, Default)]
pub struct RecordingPairs {
    without: HashMap<JobSetKey, (f64, f64)>,
    with: Vec<(JobSetKey, f64, f64)>,
}

impl RecordingPairs {
    /// Adds a job of a run with or without recording.
    pub fn take(&mut self, job: &TaskJob) {
        let key = (
            job.load.clone(),
            job.set,
            job.task_count,
            job.wss_bytes,
            job.write_ratio.to_bits(),
            job.task,
            job.job,
        );
        if job.course == JobOutcome::Unwatched {
            self.without.insert(key, (job.response_ns, job.lateness_ns));
        } else {
            self.with.push((key, job.response_ns, job.lateness_ns));
        }
    }

    /// Returns the effect of recording, or `None` if no job ran both ways.
    ///
    /// # Errors
    /// Returns [`BadInput`] if a time is not finite.
    pub fn effect(&self) -> Result<Option<RecordingEffect>, BadInput> {
        let (mut misses, mut response) = (Vec::new(), Vec::new());
        let (mut missed_with, mut missed_without) = (0, 0);
        for (key, response_with, late_with) in &self.with {
            let Some((response_without, late_without)) = self.without.get(key) else { continue };
            let (with, without) = (u8::from(*late_with > 0.0), u8::from(*late_without > 0.0));
            missed_with += u64::from(with);
            missed_without += u64::from(without);
            misses.push(f64::from(with) - f64::from(without));
            response.push(response_with - response_without);
        }
        if misses.is_empty() {
            return Ok(None);
        }
        let (misses, response_ns) =
            (Paired::of(&misses, 0.05, 1)?, Paired::of(&response, 0.05, 1)?);
        Ok(Some(RecordingEffect { missed_with, missed_without, misses, response_ns }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::Event;
    use corehop_plan::workload::scheduler::Scheduler;

    fn job(number: u64, course: JobOutcome, response_ns: f64) -> TaskJob {
        TaskJob {
            machine: "host".into(),
            scheduler: Scheduler::GEdf,
            seed: 1,
            run: 0,
            set: 0,
            load: "idle".into(),
            task: 0,
            task_count: 1,
            wss_bytes: 4096,
            write_ratio: 0.5,
            job: number,
            period_ns: 100,
            deadline_ns: 100,
            wcet_ns: 10,
            release_ns: 0,
            latency_ns: 0.0,
            response_ns,
            lateness_ns: response_ns - 100.0,
            executed_ns: 10,
            course,
            preemptions: 0,
            migrations: 0,
            event: Event::None,
            length_ns: None,
            by: None,
            scale: 1.0,
        }
    }

    #[test]
    fn jobs_are_compared_with_themselves_and_those_that_ran_one_way_only_are_left_out() {
        let mut pairs = RecordingPairs::default();
        for number in 0..100 {
            let noise = (number * 37 % 11) as f64;
            pairs.take(&job(number, JobOutcome::Unwatched, 50.0 + noise));
            // Ten longer, and every tenth beyond its deadline.
            let late = if number % 10 == 0 { 60.0 } else { 0.0 };
            pairs.take(&job(number, JobOutcome::NotAway, 60.0 + noise * 1.5 + late));
        }
        pairs.take(&job(100, JobOutcome::Sample, 1e9));
        pairs.take(&job(101, JobOutcome::Unwatched, 1e9));
        let effect = pairs.effect().unwrap().unwrap();
        assert_eq!((effect.missed_with, effect.missed_without, effect.misses.pairs), (10, 0, 100));
        assert_eq!((effect.response_ns.verdict(), effect.misses.verdict()), ("more", "more"));
        assert!(RecordingPairs::default().effect().unwrap().is_none());
    }

    #[test]
    fn the_same_job_under_another_load_or_of_another_set_is_another_job() {
        let mut pairs = RecordingPairs::default();
        for number in 0..20 {
            let idle = job(number, JobOutcome::Unwatched, 50.0);
            pairs.take(&TaskJob { load: "constructed".into(), ..idle.clone() });
            pairs.take(&TaskJob { set: 1, ..idle.clone() });
            pairs.take(&TaskJob { task: 1, ..idle });
            pairs.take(&job(number, JobOutcome::Sample, 60.0));
        }
        assert!(pairs.effect().unwrap().is_none());
    }

    #[test]
    fn a_job_that_ends_on_its_deadline_misses_none() {
        let mut pairs = RecordingPairs::default();
        pairs.take(&job(0, JobOutcome::Unwatched, 100.0));
        pairs.take(&job(0, JobOutcome::Sample, 100.0));
        let effect = pairs.effect().unwrap().unwrap();
        assert_eq!((effect.missed_with, effect.missed_without), (0, 0));
    }
}
