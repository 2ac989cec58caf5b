// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slow twin of the analyses: a schedule, unit by unit, with regions and thresholds.

use corehop_plan::workload::task::{Task, Time};

/// The rules that limit preemptions.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    /// Whether the earlier deadline goes first, otherwise the lower rank.
    pub(super) edf: bool,
    /// The rank of each task; the smaller is served first.
    pub(super) rank: Vec<usize>,
    /// The rank that a task has once it began.
    pub(super) begun: Vec<usize>,
    /// For how long each runs on once it would be preempted.
    pub(super) regions: Vec<Time>,
}

/// The outcome of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SimulatedResponse {
    /// The longest response of a job that ended, or that time has run out for.
    pub(super) response: Time,
    /// The most preemptions of a job.
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

/// Runs jobs released at `releases` of each task, to their end.
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
