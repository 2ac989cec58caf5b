// SPDX-License-Identifier: MIT OR Apache-2.0
//! A slow check of the analyses: simulates a schedule unit by unit, with regions and thresholds.

use corehop_plan::workload::task::{Task, Time};

/// The rules that limit preemptions.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// Whether the task with the earlier deadline runs first; otherwise the task with the lower rank runs first.
    pub(super) edf: bool,
    /// The rank of each task; the smallest rank runs first.
    pub(super) rank: Vec<usize>,
    /// The rank that each task has after it began.
    pub(super) begun: Vec<usize>,
    /// The time for which each task continues when it would be preempted.
    pub(super) regions: Vec<Time>,
}

/// The simulated result for one task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SimulatedResponse {
    /// The longest response of a job that ended, or that was still running when the simulation
    /// ended.
    pub(super) response: Time,
    /// The largest number of preemptions of a job.
    pub(super) preemptions: u64,
}

#[derive(Debug, Clone)]
struct PendingJob {
    task: usize,
    release: Time,
    left: Time,
    begun: bool,
    preemptions: u64,
}

/// Simulates the jobs of each task, released at `releases`, until all have ended.
pub(super) fn run(tasks: &[Task], rules: &Rules, releases: &[Vec<Time>]) -> Vec<SimulatedResponse> {
    let mut jobs: Vec<PendingJob> = Vec::new();
    for (task, releases) in releases.iter().enumerate() {
        jobs.extend(releases.iter().map(|&release| PendingJob {
            task,
            release,
            left: tasks[task].wcet,
            begun: false,
            preemptions: 0,
        }));
    }
    let mut seen = vec![SimulatedResponse::default(); tasks.len()];
    // The job that has the CPU, and what is left of its region once it began.
    let mut running: Option<(usize, Option<Time>)> = None;
    let mut now = Time::ZERO;
    while jobs.iter().any(|job| job.left > Time::ZERO) {
        let ready = |at: &usize| jobs[*at].left > Time::ZERO && jobs[*at].release <= now;
        let urgency = |&at: &usize| {
            let (job, task) = (&jobs[at], jobs[at].task);
            let by = if rules.edf {
                (job.release + tasks[task].deadline).ticks()
            } else if job.begun {
                rules.begun[task] as u64
            } else {
                rules.rank[task] as u64
            };
            // Among equals what began goes on.
            (by, !job.begun, rules.rank[task], job.release)
        };
        let best = (0..jobs.len()).filter(ready).min_by_key(urgency);
        running = match (running, best) {
            (_, None) => None,
            (None, Some(best)) => Some((best, None)),
            (Some((at, region)), Some(best)) if at == best => Some((at, region)),
            (Some((at, region)), Some(best)) => {
                match region.unwrap_or(rules.regions[jobs[at].task]) {
                    Time::ZERO => {
                        jobs[at].preemptions += 1;
                        Some((best, None))
                    }
                    left => Some((at, Some(left))),
                }
            }
        };
        now += Time::new(1);
        let Some((at, region)) = running else { continue };
        let job = &mut jobs[at];
        job.begun = true;
        job.left -= Time::new(1);
        running = (job.left > Time::ZERO).then_some((at, region.map(|left| left - Time::new(1))));
        let of = &mut seen[job.task];
        of.preemptions = of.preemptions.max(job.preemptions);
        if job.left == Time::ZERO {
            of.response = of.response.max(now - job.release);
        }
    }
    seen
}
