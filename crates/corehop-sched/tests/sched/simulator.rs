// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scheduler that is walked through a unit at a time: slow, and plain enough to be believed.

use corehop_sched::TaskSet;

/// The order of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The earlier deadline.
    Edf,
    /// The earlier point `D - floor((m - 1) C / m)`, counted from the release; it may lie before that.
    FairLateness,
    /// The rank of each task: its place in this order.
    Fixed,
}

/// The simulated run.
#[derive(Debug, Clone)]
pub(crate) struct Run<'a> {
    pub(crate) set: &'a TaskSet,
    pub(crate) policy: Policy,
    pub(crate) preemptive: bool,
    /// The tasks by priority, the highest first (for fixed priorities).
    pub(crate) order: &'a [usize],
    /// The first release of each task.
    pub(crate) offsets: &'a [u64],
    /// The lateness of each release, cycled through.
    pub(crate) delays: &'a [u64],
    pub(crate) horizon: u64,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    task: usize,
    release: u64,
    due: u64,
    left: u64,
    begun: bool,
}

/// The observations of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The longest response of each task.
    pub(crate) responses: Vec<u64>,
    /// Whether a deadline was missed.
    pub(crate) missed: bool,
}

/// Simulates until the horizon; jobs that are not done by then and late count as late.
pub(crate) fn simulate(run: &Run<'_>) -> Seen {
    simulate_on(run, |_| true)
}

/// The same on CPUs that run jobs only at some instants.
pub(crate) fn simulate_on(run: &Run<'_>, supplied: impl Fn(u64) -> bool) -> Seen {
    let tasks = run.set.tasks();
    let mut next = run.offsets.to_vec();
    let mut count = 0;
    let mut ready: Vec<Job> = Vec::new();
    let mut seen = Seen { responses: vec![0; tasks.len()], missed: false };
    for now in 0..run.horizon {
        for (at, task) in tasks.iter().enumerate() {
            if next[at] == now {
                let due = now + task.deadline().ticks();
                ready.push(Job {
                    task: at,
                    release: now,
                    due,
                    left: task.wcet().ticks(),
                    begun: false,
                });
                next[at] += task.period().ticks() + run.delays[count % run.delays.len()];
                count += 1;
            }
        }
        let chosen = if supplied(now) { choose(run, &ready) } else { Vec::new() };
        for &at in &chosen {
            ready[at].begun = true;
            ready[at].left -= 1;
        }
        ready.retain(|job| {
            let response = now + 1 - job.release;
            seen.missed |= now + 1 > job.due || (job.left > 0 && now + 1 >= job.due);
            if job.left == 0 {
                let worst = &mut seen.responses[job.task];
                *worst = response.max(*worst);
            }
            job.left > 0
        });
    }
    seen
}

/// The jobs that run now: of each task its earliest, of those as many as there are CPUs.
fn choose(run: &Run<'_>, ready: &[Job]) -> Vec<usize> {
    let first = |&at: &usize| {
        let job = &ready[at];
        !ready.iter().any(|other| other.task == job.task && other.release < job.release)
    };
    let mut able: Vec<usize> = (0..ready.len()).filter(first).collect();
    able.sort_by_key(|&at| {
        let job = &ready[at];
        let stays = !run.preemptive && job.begun;
        let rank = match run.policy {
            Policy::Edf => job.due as i64,
            Policy::FairLateness => {
                let (m, c) =
                    (i64::from(run.set.cpus()), run.set.tasks()[job.task].wcet().ticks() as i64);
                job.due as i64 - (m - 1) * c / m
            }
            Policy::Fixed => run.order.iter().position(|&task| task == job.task).unwrap() as i64,
        };
        (!stays, rank, job.task)
    });
    able.truncate(run.set.cpus() as usize);
    able
}

#[test]
fn the_simulator_does_what_a_hand_does() {
    use crate::draw::implicit;
    // Dhall: the two short ones go first, the long one misses by one; by then its deadline is the
    // earliest, and one of the short ones waits for it.
    let set = implicit(2, &[(1, 10), (1, 10), (11, 11)]);
    let run = Run {
        set: &set,
        policy: Policy::Edf,
        preemptive: true,
        order: &[],
        offsets: &[0, 0, 0],
        delays: &[0],
        horizon: 20,
    };
    let seen = simulate(&run);
    assert!(seen.missed);
    assert_eq!(seen.responses, [1, 2, 12]);
    // With the long one first all is well.
    let seen = simulate(&Run { policy: Policy::Fixed, order: &[2, 0, 1], ..run });
    assert!(!seen.missed, "{seen:?}");
    assert_eq!(seen.responses, [1, 2, 11]);
}
