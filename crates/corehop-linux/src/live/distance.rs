// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distance between the CPUs of a batch of jobs. Threads of another process, parked on the CPUs, exchange cache
//! lines before and after the batch, while no job runs (`probe::partners`).

use std::collections::BTreeMap;

use corehop_plan::experiment::{Job, Step};
use corehop_plan::samples::BatchExchange;
use corehop_plan::units::{Cpu, CpuList};

pub(super) use crate::probe::partners::{CpuPair, Partners};

/// The largest number of CPU pairs that are measured around one batch of jobs.
const MOST_PAIRS: usize = 4;

impl Partners {
    /// Measures the line exchange times of these pairs.
    pub(super) fn all(&self, pairs: &[CpuPair]) -> PairExchanges {
        PairExchanges(pairs.iter().map(|&pair| (pair, self.exchange(pair))).collect())
    }
}

/// The line exchange times of some pairs, measured at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct PairExchanges(BTreeMap<CpuPair, Option<f64>>);

impl PairExchanges {
    /// The exchange times before and after a batch between the CPUs `from` and `with`.
    pub(super) fn between(before: &Self, after: &Self, from: Cpu, with: Cpu) -> BatchExchange {
        let pair = (from.min(with), from.max(with));
        let of = |at: &Self| at.0.get(&pair).copied().flatten();
        BatchExchange { from, with, before_ns: of(before), after_ns: of(after) }
    }

    /// The exchange times around a batch for one of its jobs; `None` if no measured pair includes the job's CPU.
    pub(super) fn around(before: &Self, after: &Self, job: &Job) -> Option<BatchExchange> {
        let pair = pair_of(job).filter(|pair| before.0.contains_key(pair));
        let holds = |pair: &&CpuPair| pair.0 == job.start || pair.1 == job.start;
        let pair = pair.or_else(|| before.0.keys().find(holds).copied())?;
        let with = if pair.0 == job.start { pair.1 } else { pair.0 };
        Some(Self::between(before, after, job.start, with))
    }
}

/// The two CPUs between which a job migrates.
fn pair_of(job: &Job) -> Option<CpuPair> {
    let to = job.steps.iter().find_map(|step| match step {
        Step::Leave(away) if away.to != job.start => Some(away.to),
        _ => None,
    })?;
    Some((job.start.min(to), job.start.max(to)))
}

/// The pairs to measure around these jobs: the pairs between which jobs migrate, if there are few enough; for jobs
/// that stay, their CPU and the next CPU of `cpus`.
pub(super) fn pairs(jobs: &[Job], cpus: &CpuList) -> Vec<CpuPair> {
    let mut pairs: Vec<CpuPair> = Vec::new();
    for pair in jobs.iter().filter_map(pair_of) {
        if pairs.len() < MOST_PAIRS && !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    for job in jobs {
        let held = pairs.iter().any(|pair| pair.0 == job.start || pair.1 == job.start);
        let after = cpus.iter().find(|&cpu| cpu > job.start).or(cpus.first());
        if let Some(other) = after.filter(|&other| !held && other != job.start)
            && pairs.len() < MOST_PAIRS
        {
            pairs.push((job.start.min(other), job.start.max(other)));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::experiment::Absent;
    use corehop_plan::units::Nanos;
    use corehop_plan::workload::Absence;

    fn job(start: u32, to: Option<u32>) -> Job {
        let leave = |to| {
            let (to, length) = (Cpu(to), Nanos::from_millis(1));
            Step::Leave(Absent { to, length, to_whom: Absence::Nothing })
        };
        Job { cell: 0, start: Cpu(start), steps: to.map(leave).into_iter().collect() }
    }

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn migrations_name_the_pairs_and_jobs_that_stay_use_one_that_holds_their_cpu() {
        let jobs = [job(0, None), job(2, Some(1)), job(1, Some(2)), job(2, None)];
        let (one, zero) = ((Cpu(1), Cpu(2)), (Cpu(0), Cpu(1)));
        assert_eq!(pairs(&jobs, &list("0-3")), [one, zero]);
        assert_eq!(pairs(&jobs[..1], &list("0-3")), [zero]);
        assert_eq!(pairs(&jobs[..1], &list("0")), [], "one CPU has no other");
    }

    #[test]
    fn a_job_is_given_the_exchange_of_its_own_pair_and_none_where_there_is_none() {
        let at = |ns| PairExchanges([((Cpu(0), Cpu(1)), Some(ns))].into());
        let given = PairExchanges::around(&at(40.0), &at(200.0), &job(1, Some(0))).unwrap();
        assert_eq!((given.from, given.with), (Cpu(1), Cpu(0)));
        assert_eq!((given.before_ns, given.after_ns), (Some(40.0), Some(200.0)));
        assert_eq!(PairExchanges::around(&at(1.0), &at(1.0), &job(5, None)), None);
    }
}
