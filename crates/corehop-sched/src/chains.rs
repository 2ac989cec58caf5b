// SPDX-License-Identifier: MIT OR Apache-2.0
//! End-to-end latencies of task chains.
//!
//! **Periodic** chains pass data through variables. `L = sum of (R_i + T_i)`, because data that just missed a job
//! waits for the next job, at most a period later (Davare, Zhu, Di Natale, Pinello, Kanajan and
//! Sangiovanni-Vincentelli, DAC 2007). This bound needs tasks that are activated exactly once in each period, up to
//! their jitter late, and not merely at most once.
//!
//! In **event-triggered** chains under fixed priorities, the end of a job activates a job of the next task on the
//! same or on another CPU. `n` activations of a task span at least `(n - 1) T - J`. The next task has the jitter `J +
//! R - C_min`, where `C_min` is the least execution time and `R` the longest response from the activation. The next
//! task's activations are at least `C_min` apart, because ends of jobs of one task are at least that far apart
//! (Tindell and Clark 1994; Richter, Jersak and Ernst 2003; pyCPA's propagation `jitter_dmin`). Jitter and response
//! times are recomputed in turn until neither changes. The latency of an event-triggered chain is `L = sum of R_i`,
//! from the release of the first job.

use super::held_up;
use super::system::System;
use super::uni::STEPS;
use super::verdict::{TestAnswer, Verdict};
use crate::ranking::Ranking;
use corehop_plan::workload::chains::{Activation, Chain, Chains};
use corehop_plan::workload::task::{LONGEST, Task, Time};

/// Returns the answer with the latency of each chain. If a chain ends too late, the answer is not yes.
pub(super) fn judged(system: System<'_>, soft: bool, answer: TestAnswer) -> TestAnswer {
    let Some(chains) = system.chains.filter(|it| !it.all.is_empty()) else { return answer };
    if answer.verdict != Verdict::Schedulable {
        return answer;
    }
    let responds = |at: usize| match &answer.bounds {
        Some(bounds) => Some(bounds[at]),
        None => (!soft).then(|| system.tasks[at].deadline),
    };
    let latency = |chain: &Chain| -> Option<Time> {
        let each = |&at: &usize| match chain.activation {
            Activation::Periodic => Some(responds(at)? + system.tasks[at].period),
            Activation::Event => {
                // The response of the first counts from the arrival; what it takes comes with its release.
                let late = if chains.activator(at).is_none() {
                    system.tasks[at].jitter
                } else {
                    Time::ZERO
                };
                Some(responds(at)?.saturating_sub(late))
            }
        };
        chain.tasks.iter().map(each).sum()
    };
    let Some(latencies) = chains.all.iter().map(latency).collect::<Option<Vec<Time>>>() else {
        return TestAnswer::unknown(
            "the test does not bound response times, and the set has chains",
        );
    };
    let late =
        chains.all.iter().zip(&latencies).find(|(chain, latency)| **latency > chain.deadline);
    let why = late.map(|(chain, _)| {
        format!("the test accepts the set, but chain `{}` may end after its deadline", chain.name)
    });
    let verdict = if why.is_some() { Verdict::Unknown } else { answer.verdict };
    TestAnswer { verdict, why, latencies: Some(latencies), ..answer }
}

/// Whether the ends of jobs activate other tasks.
pub(super) fn activates(system: System<'_>) -> bool {
    system.chains.is_some_and(|chains| chains.by_events().any(|chain| chain.tasks.len() > 1))
}

/// A task's activations: for each distance `d` and slack `s` in the list, `n` activations span at least `(n - 1) d -
/// s`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Activations(Vec<(Time, Time)>);

impl Activations {
    /// The most activations within `length`.
    fn within(&self, length: Time) -> u64 {
        let most = self.0.iter().map(|&(distance, slack)| (length + slack).div_ceil(distance));
        most.min().unwrap_or(0)
    }

    /// The least time from the first of `n` activations to the last.
    fn span(&self, n: u64) -> Time {
        let of = |&(distance, slack): &(Time, Time)| ((n - 1) * distance).saturating_sub(slack);
        self.0.iter().map(of).max().unwrap_or(Time::ZERO)
    }

    /// The activations that the ends of jobs cause, if jobs respond within `least` to `most` and execute for at least
    /// `least`.
    fn ends(&self, least: Time, most: Time) -> Self {
        let later = self.0.iter().map(|&(distance, slack)| (distance, slack + most - least));
        Self(later.chain((least > Time::ZERO).then_some((least, Time::ZERO))).collect())
    }
}

/// Response times of tasks on CPUs under fixed priorities, where tasks activate each other. The response of an
/// activated task counts from its activation, and of any other task from its arrival. Returns `None` if response times
/// grow without limit, or the iteration takes too many steps.
pub(crate) fn responses(system: System<'_>, bins: &[Vec<usize>]) -> Option<Vec<Time>> {
    let chains = system.chains?;
    let tasks: Vec<Vec<Task>> = bins.iter().map(|bin| held_up::by_priority(system, bin)).collect();
    let mut steps = STEPS;
    let stated = |task: &Task| Activations(vec![(task.period, task.jitter)]);
    let mut activations: Vec<Activations> = system.tasks.iter().map(stated).collect();
    loop {
        let mut local = vec![Time::ZERO; activations.len()];
        for (bin, tasks) in bins.iter().zip(&tasks) {
            let of_bin: Vec<Activations> = bin.iter().map(|&at| activations[at].clone()).collect();
            let ranking = Ranking::of(tasks);
            for (place, &i) in ranking.order().iter().enumerate() {
                let above = ranking.above(place);
                local[bin[i]] = response(tasks, &of_bin, above, i, &mut steps)?;
            }
        }
        let next = propagated(chains, &activations, &local);
        if next == activations {
            let late = |at: usize| match chains.activator(at) {
                None => system.tasks[at].jitter,
                Some(_) => Time::ZERO,
            };
            return Some((0..local.len()).map(|at| local[at] + late(at)).collect());
        }
        activations = next;
    }
}

/// The activations of all tasks that follow from the given response times.
fn propagated(
    chains: &Chains,
    activations: &[Activations],
    responses: &[Time],
) -> Vec<Activations> {
    let of = |at: usize| match chains.activator(at) {
        None => activations[at].clone(),
        Some(before) => activations[before].ends(chains.least[before], responses[before]),
    };
    (0..activations.len()).map(of).collect()
}

/// The longest response of task `i` from its activation.
fn response(
    tasks: &[Task],
    activations: &[Activations],
    above: &[usize],
    i: usize,
    steps: &mut u64,
) -> Option<Time> {
    let (own, mut done, mut worst) = (&tasks[i], Time::ZERO, Time::ZERO);
    for n in 1.. {
        done = done.max(own.blocking + n * own.wcet);
        loop {
            *steps = steps.checked_sub(above.len() as u64 + 1)?;
            let interference = |&j: &usize| activations[j].within(done) * tasks[j].wcet;
            let next = own.blocking + n * own.wcet + above.iter().map(interference).sum::<Time>();
            if next == done {
                break;
            }
            done = next;
        }
        worst = worst.max(done - activations[i].span(n));
        if worst > LONGEST {
            return None;
        }
        if done <= activations[i].span(n + 1) {
            break;
        }
    }
    Some(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::test;
    use corehop_plan::workload::set_file::parse;
    use corehop_plan::workload::task::TaskSet;

    /// A set with tasks `0`, `1`, … given by C, C_min, T, J, CPU and rank, and with chains given by their tasks.
    fn set(tasks: &[[u64; 6]], chains: &[&[usize]]) -> TaskSet {
        let task = |(at, [wcet, least, period, jitter, cpu, rank]): (usize, &[u64; 6])| {
            format!(
                r#"{{"name": "{at}", "wcet_us": {wcet}, "bcet_us": {least}, "period_us": {period}, "deadline_us": 999,
                "jitter_us": {jitter}, "cpus": [{cpu}], "priority": {rank}}}"#
            )
        };
        let chain = |tasks: &&[usize]| {
            let tasks: Vec<String> = tasks.iter().map(|at| format!("\"{at}\"")).collect();
            format!(
                r#"{{"name": "c", "activation": "event", "deadline_us": 999, "tasks": [{}]}}"#,
                tasks.join(", ")
            )
        };
        let tasks: Vec<String> = tasks.iter().enumerate().map(task).collect();
        let chains: Vec<String> = chains.iter().map(chain).collect();
        let (tasks, chains) = (tasks.join(", "), chains.join(", "));
        parse(&format!(r#"{{"cpus": 2, "tasks": [{tasks}], "chains": [{chains}]}}"#)).unwrap()
    }

    fn asked(set: &TaskSet) -> (Vec<Time>, Vec<Time>) {
        let answer = test("p-fp-given").unwrap().run(System::of(set));
        (answer.bounds.unwrap(), answer.latencies.unwrap())
    }

    #[test]
    fn the_distributed_example_of_pycpa() {
        // spp_test: responses from the activation are 10, 13, 2 and 19; those of the first ones count from the arrival here.
        let set = set(
            &[[10, 5, 30, 5, 0, 1], [3, 1, 15, 6, 0, 2], [2, 2, 30, 0, 1, 1], [9, 4, 15, 0, 1, 2]],
            &[&[0, 2], &[1, 3]],
        );
        assert_eq!(
            asked(&set),
            ([10 + 5, 13 + 6, 2, 19].map(Time::new).to_vec(), [12, 32].map(Time::new).to_vec())
        );
    }

    #[test]
    fn the_example_of_pycpa_on_one_cpu() {
        // simple: T11 of 5 in 30 with jitter 60 activates T12 of 9.
        let set = set(&[[5, 5, 30, 60, 0, 1], [9, 1, 30, 0, 0, 2]], &[&[0, 1]]);
        let (bounds, latencies) = asked(&set);
        assert_eq!(
            (bounds[0] - Time::new(60), bounds[1], latencies[0]),
            (Time::new(15), Time::new(37), Time::new(52))
        );
    }

    #[test]
    fn periodic_chains_wait_for_each_period() {
        let text = |deadline: u64| {
            format!(
                r#"{{"cpus": 1, "chains": [{{"name": "c", "tasks": ["b", "a"], "deadline_us": {deadline}}}],
                "tasks": [{{"name": "a", "wcet_us": 2, "period_us": 10}}, {{"name": "b", "wcet_us": 5, "period_us": 20}}]}}"#
            )
        };
        // R + T: 7 + 20 and 2 + 10.
        let answer = |name: &str, deadline| {
            test(name).unwrap().run(System::of(&parse(&text(deadline)).unwrap()))
        };
        for name in ["p-fp-rta", "edf-rta"] {
            assert_eq!(answer(name, 39).latencies, Some([39].map(Time::new).to_vec()), "{name}");
            assert_eq!(answer(name, 38).verdict, Verdict::Unknown, "{name}");
        }
        // Where no response is known, the deadline bounds it.
        assert_eq!(answer("qpa", 60).latencies, Some([60].map(Time::new).to_vec()));
        assert!(answer("qpa", 59).why.unwrap().contains("chain `c` may end after its deadline"));
        assert_eq!(answer("soft-g-edf", 99).verdict, Verdict::Unknown);
    }
}
