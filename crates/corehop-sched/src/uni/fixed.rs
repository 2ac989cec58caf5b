// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests for preemptive fixed priorities on one CPU.

use super::{STEPS, fifo};
use crate::exact::{Natural, compare_sum, gcd};
use crate::ranking::Ranking;
use crate::supply::{FULL, Supply};
use crate::verdict::Verdict;
use corehop_plan::workload::task::{LONGEST, Task, Time};

/// Tests `U <= n (2^(1/n) - 1)` (Liu and Layland 1973), which is sufficient for rate-monotonic priorities and D >= T.
///
/// The test computes `(U/n + 1)^n <= 2`, so that no root is rounded. The bound is the hyperbolic bound of `n` tasks
/// with the mean utilisation.
pub fn liu_layland(tasks: &[Task]) -> Verdict {
    if !rate_monotonic(tasks) {
        return Verdict::Unknown;
    }
    let n = tasks.len() as f64;
    let sum: f64 = tasks.iter().map(|task| task.wcet.as_f64() / task.period.as_f64()).sum();
    let power = (0..tasks.len()).fold(1.0, |power, _| power * (sum / n + 1.0));
    // Rounding is on the safe side; what lies within it of the bound is left to exact tests.
    Verdict::sufficient(power * (1.0 + growth(tasks.len())) <= 2.0 || is_single(tasks))
}

/// Tests that the product of `u + 1` is at most 2 (Bini and Buttazzo 2001). The test is sufficient like
/// [`liu_layland`], and accepts every set that [`liu_layland`] accepts.
pub fn hyperbolic(tasks: &[Task]) -> Verdict {
    if !rate_monotonic(tasks) {
        return Verdict::Unknown;
    }
    Verdict::sufficient(product_at_most_two(tasks))
}

/// A generous bound on the rounding error of a product of `terms` factors.
fn growth(terms: usize) -> f64 {
    (terms * terms + 12 * terms + 12) as f64 * f64::EPSILON
}

/// Whether there is only one task, which always fits because every task satisfies u <= 1 and the bound for one task
/// is 1.
fn is_single(tasks: &[Task]) -> bool {
    tasks.len() == 1
}

/// Whether the product of `u + 1` is at most 2; doubtful cases are decided in whole numbers: `prod (C + T) <= 2 prod
/// T`.
fn product_at_most_two(tasks: &[Task]) -> bool {
    let rounded: f64 =
        tasks.iter().map(|task| task.wcet.as_f64() / task.period.as_f64() + 1.0).product();
    let error = growth(tasks.len());
    if rounded * (1.0 + error) <= 2.0 || rounded * (1.0 - error) > 2.0 {
        return rounded < 2.0;
    }
    let product = |of: fn(&Task) -> Time, first: u64| {
        let factors = tasks.iter().map(|task| Natural::from(u128::from(of(task))));
        factors.fold(Natural::from(u128::from(first)), |product, factor| product.times(&factor))
    };
    product(|task| task.wcet + task.period, 1) <= product(|task| task.period, 2)
}

/// Whether the assumptions of the utilisation bounds hold: priorities are rate-monotonic and distinct, deadlines are
/// not before the period's end, and nothing else delays a job.
fn rate_monotonic(tasks: &[Task]) -> bool {
    let plain = |task: &Task| {
        task.deadline >= task.period && task.jitter == Time::ZERO && task.blocking == Time::ZERO
    };
    let Ok(order) = Ranking::distinct(tasks) else { return false };
    let rising = order.windows(2).all(|pair| tasks[pair[0]].period <= tasks[pair[1]].period);
    tasks.iter().all(plain) && rising
}

/// Runs response-time analysis with blocking, jitter and arbitrary deadlines (Joseph and Pandya 1986; Audsley et al.
/// 1993; Lehoczky 1990; Tindell, Burns and Wellings 1994). Tasks that share a priority run in the order of their
/// releases ([`fifo`]).
///
/// The verdict is exact if no task has blocking (a bound on blocking need not be attained) and tasks that share a
/// priority have deadlines within periods. `responses` receives the response times in the tasks' order, but none for
/// a task beyond its deadline.
pub fn response_time_analysis(tasks: &[Task], responses: Option<&mut [Time]>) -> Verdict {
    response_time_analysis_on(tasks, &FULL, responses)
}

/// Runs response-time analysis on a CPU with this supply: a response is the shortest time that supplies the work of
/// the window.
pub fn response_time_analysis_on(
    tasks: &[Task],
    supply: &Supply,
    responses: Option<&mut [Time]>,
) -> Verdict {
    let ranking = Ranking::of(tasks);
    let mut steps = STEPS;
    levels(tasks, &ranking, responses, |at| at_place(tasks, &ranking, at, supply, &mut steps))
}

/// The worst response of the task at index `place` of the ranking.
fn at_place(
    tasks: &[Task],
    ranking: &Ranking,
    at: usize,
    supply: &Supply,
    steps: &mut u64,
) -> ResponseOutcome {
    let i = ranking.order()[at];
    match ranking.level(at) {
        [_] => response(tasks, ranking.above(at), i, supply, steps),
        level => fifo::response(tasks, ranking.above(at), level, i, supply, steps),
    }
}

/// The tasks that can miss their deadlines, from the highest priority down, each with its longest response; `None` if
/// that response is not known or a backlog grows without limit.
pub(crate) fn late(tasks: &[Task], supply: &Supply) -> Vec<(usize, Option<Time>)> {
    let ranking = Ranking::of(tasks);
    let mut steps = STEPS;
    let misses =
        |at: &usize| at_place(tasks, &ranking, *at, supply, &mut steps) == ResponseOutcome::Miss;
    let places: Vec<usize> = (0..tasks.len()).filter(misses).collect();
    let of = |at: usize| (ranking.order()[at], longest(tasks, &ranking, at, supply));
    places.into_iter().map(of).collect()
}

/// The longest response of the task at index `at` of the ranking, whatever its deadline.
fn longest(tasks: &[Task], ranking: &Ranking, at: usize, supply: &Supply) -> Option<Time> {
    let i = ranking.order()[at];
    let load: Vec<_> = ranking.down_to(at).iter().map(|&j| tasks[j].u()).collect();
    if compare_sum(load.into_iter(), 1).is_gt() {
        return None;
    }
    let mut steps = STEPS;
    let found = match ranking.level(at) {
        [_] => {
            let mut patient = tasks.to_vec();
            patient[i].deadline = LONGEST;
            response(&patient, ranking.above(at), i, supply, &mut steps)
        }
        level => fifo::longest(tasks, ranking.above(at), level, i, supply, &mut steps),
    };
    match found {
        ResponseOutcome::Bound(response) => Some(response),
        _ => None,
    }
}

/// Runs response-time analysis with preemption delays (Altmeyer, Davis and Maiza 2012, section 2). Each preemption by
/// `j` in a busy window of `i` costs the largest of `delays` in `aff(i, j)`: the tasks that `j` may preempt among `i`
/// and the tasks of higher priority than `i`. `delays` may be shorter than `tasks`: interrupts are listed after the
/// tasks and cost no cache reloads.
pub fn response_time_analysis_with_delays(
    tasks: &[Task],
    delays: &[Time],
    supply: &Supply,
    responses: Option<&mut [Time]>,
) -> Verdict {
    let ranking = Ranking::of(tasks);
    let mut steps = STEPS;
    let mut charged = tasks.to_vec();
    levels(tasks, &ranking, responses, |at| {
        charge_affected(&mut charged, tasks, delays, &ranking, at);
        at_place(&charged, &ranking, at, supply, &mut steps)
    })
}

/// Whether all deadlines are still met with the task `newest`, if all were met without it and the utilisation is at
/// most 1.
///
/// Tasks of higher priority are not affected. The task of lowest priority is checked first, because an overload shows
/// there.
pub(crate) fn still_meet(tasks: &[Task], newest: usize) -> bool {
    let ranking = Ranking::of(tasks);
    let at = ranking.order().iter().position(|&i| i == newest).unwrap_or(0);
    let mut steps = STEPS;
    let mut meets = |at: usize| {
        matches!(at_place(tasks, &ranking, at, &FULL, &mut steps), ResponseOutcome::Bound(_))
    };
    (ranking.above(at).len()..tasks.len()).rev().all(&mut meets)
}

/// Charges preemptions within a busy window of the task at this index, by each task of at least its priority. Tasks
/// of the same priority do not preempt each other.
fn charge_affected(
    charged: &mut [Task],
    tasks: &[Task],
    delays: &[Time],
    ranking: &Ranking,
    at: usize,
) {
    let (mut most, mut place) = (Time::ZERO, ranking.down_to(at).len());
    while let Some(last) = place.checked_sub(1) {
        let level = ranking.level(last);
        for &j in level {
            charged[j] = delays.get(j).map_or(tasks[j], |_| tasks[j].longer(most));
        }
        most = level.iter().filter_map(|&j| delays.get(j)).fold(most, |most, &it| most.max(it));
        place = ranking.above(last).len();
    }
}

/// Analyses each level of priority from the highest down, with the result of `found`.
fn levels(
    tasks: &[Task],
    ranking: &Ranking,
    mut responses: Option<&mut [Time]>,
    mut found: impl FnMut(usize) -> ResponseOutcome,
) -> Verdict {
    // Late jobs may be due after later ones: then overload shows only in the long run.
    let due_later = tasks.iter().any(|task| task.deadline > task.period);
    if due_later && compare_sum(tasks.iter().map(Task::u), 1).is_gt() {
        return Verdict::Unschedulable;
    }
    let mut verdict = Verdict::Schedulable;
    for (at, &i) in ranking.order().iter().enumerate() {
        match found(at) {
            ResponseOutcome::Bound(response) => {
                if let Some(responses) = responses.as_deref_mut() {
                    responses[i] = response;
                }
            }
            ResponseOutcome::Miss if tasks.iter().any(|task| task.blocking > Time::ZERO) => {
                verdict = Verdict::Unknown;
            }
            ResponseOutcome::Miss => return Verdict::Unschedulable,
            ResponseOutcome::Doubt => verdict = Verdict::Unknown,
            ResponseOutcome::OutOfSteps => return Verdict::Unknown,
        }
    }
    verdict
}

/// The result of analysing one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseOutcome {
    /// The worst response of the task, which is not after its deadline.
    Bound(Time),
    /// The task may respond after its deadline.
    Miss,
    /// The bound is after the task's deadline, but need not be attained.
    Doubt,
    /// The analysis needs more steps than are allowed.
    OutOfSteps,
}

/// The worst response of task `i` below the tasks `above`.
#[inline]
pub(crate) fn response(
    tasks: &[Task],
    above: &[usize],
    i: usize,
    supply: &Supply,
    steps: &mut u64,
) -> ResponseOutcome {
    let own = &tasks[i];
    let (mut worst, mut jobs, mut last) = (Time::ZERO, 1, None);
    // The first job is done no sooner than its own work and one job of each task above.
    let mut done = own.blocking + own.wcet;
    loop {
        let work = own.blocking + jobs * own.wcet;
        let latest = own.deadline + (jobs - 1) * own.period;
        loop {
            let charge = above.len() as u64 + 1;
            let Some(left) = steps.checked_sub(charge) else { return ResponseOutcome::OutOfSteps };
            *steps = left;
            let interference = |&j: &usize| {
                let task = &tasks[j];
                (done + task.jitter).div_ceil(task.period) * task.wcet
            };
            let next = supply.time_for(work + above.iter().map(interference).sum::<Time>());
            if next + own.jitter > latest {
                return ResponseOutcome::Miss;
            }
            if next == done {
                break;
            }
            done = next;
        }
        worst = worst.max(done + own.jitter - (jobs - 1) * own.period);
        if done + own.jitter <= jobs * own.period {
            return ResponseOutcome::Bound(worst);
        }
        let level = above.iter().map(|&j| &tasks[j]).chain([own]);
        if jobs == 1 && !supply.sustains(level) {
            return ResponseOutcome::Doubt;
        }
        if jobs >= *last.get_or_insert_with(|| jobs_of_a_cycle(tasks, above, own, supply)) {
            return ResponseOutcome::Bound(worst);
        }
        jobs += 1;
        done += own.wcet;
    }
}

/// The busy window that attains the bound of task `i` below the tasks `above`: the number of the task's jobs in the
/// window, and the end of the last of them. Returns `None` if the task has no bound.
pub(crate) fn worst_window(
    tasks: &[Task],
    above: &[usize],
    i: usize,
    supply: &Supply,
) -> Option<(u64, Time)> {
    let mut steps = STEPS;
    let ResponseOutcome::Bound(bound) = response(tasks, above, i, supply, &mut steps) else {
        return None;
    };
    let own = &tasks[i];
    let mut done = own.wcet + own.blocking;
    for jobs in 1..=u64::MAX {
        loop {
            steps = steps.checked_sub(above.len() as u64 + 1)?;
            let released = |&j: &usize| (done + tasks[j].jitter).div_ceil(tasks[j].period);
            let higher: Time = above.iter().map(|j| released(j) * tasks[*j].wcet).sum();
            let next = supply.time_for(own.blocking + jobs * own.wcet + higher);
            if next == done {
                break;
            }
            done = next;
        }
        if done + own.jitter - (jobs - 1) * own.period == bound {
            return Some((jobs, done));
        }
        done += own.wcet;
    }
    None
}

/// The tasks including the charges for preemptions in a busy window of task `i`, as
/// [`response_time_analysis_with_delays`] computes them.
pub(crate) fn charged_for(tasks: &[Task], delays: &[Time], i: usize) -> Vec<Task> {
    let ranking = Ranking::of(tasks);
    let mut charged = tasks.to_vec();
    if let Some(at) = ranking.order().iter().position(|&it| it == i) {
        charge_affected(&mut charged, tasks, delays, &ranking, at);
    }
    charged
}

/// The number of a task's jobs after which a busy window repeats. At a utilisation of 1 with jitter the window never
/// ends. With `H`, the least common multiple of the periods, `w(q + H / T) = w(q) + H` solves the recurrence again,
/// and each `w(q + H / T)` is at least `H`, so the responses repeat. Below a utilisation of 1 the window ends by
/// itself.
///
/// At a utilisation of 1 on a CPU that is not always available, the window ends only with a missed deadline.
fn jobs_of_a_cycle(tasks: &[Task], above: &[usize], own: &Task, supply: &Supply) -> u64 {
    if !supply.is_full() {
        return u64::MAX;
    }
    let all = || above.iter().map(|&j| &tasks[j]).chain([own]);
    if compare_sum(all().map(Task::u).collect::<Vec<_>>().into_iter(), 1).is_ne() {
        return u64::MAX;
    }
    let lcm = |a: Time, b: Time| {
        let cycle = b.checked_mul(a.ticks() / gcd(a.ticks(), b.ticks()));
        cycle.filter(|&cycle| cycle < LONGEST)
    };
    all()
        .map(|task| task.period)
        .try_fold(Time::TICK, lcm)
        .map_or(u64::MAX, |cycle| cycle / own.period)
}

/// Runs Audsley's priority assignment (1991): from the lowest priority up, each priority goes to any task that meets
/// its deadline below all unassigned tasks. The assignment is optimal for this analysis.
///
/// # Errors
/// Returns [`Verdict::Unschedulable`] if no order passes, or [`Verdict::Unknown`] if blocking or a limit on steps
/// leaves a doubt.
pub fn audsley(tasks: &[Task]) -> Result<Vec<usize>, Verdict> {
    audsley_on(tasks, &FULL)
}

/// Runs [`audsley`] on a CPU with this supply.
///
/// # Errors
/// Returns the errors of [`audsley`].
pub fn audsley_on(tasks: &[Task], supply: &Supply) -> Result<Vec<usize>, Verdict> {
    let mut steps = STEPS;
    let mut out_of_steps = false;
    let assigned = optimal_assignment(tasks.len(), |i, above| {
        let found = response(tasks, above, i, supply, &mut steps);
        out_of_steps |= found == ResponseOutcome::OutOfSteps;
        matches!(found, ResponseOutcome::Bound(_))
    });
    assigned.ok_or(if out_of_steps || tasks.iter().any(|task| task.blocking > Time::ZERO) {
        Verdict::Unknown
    } else {
        Verdict::Unschedulable
    })
}

/// The tasks in a priority order, the highest first, such that `fits(i, above)` holds for each task; `fits` must not
/// depend on the order of `above`.
pub(crate) fn optimal_assignment(
    n: usize,
    mut fits: impl FnMut(usize, &[usize]) -> bool,
) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = (0..n).collect();
    let mut above = Vec::with_capacity(n);
    let mut order = vec![0; n];
    for level in (0..n).rev() {
        let lowest = (0..left.len()).rev().find(|&at| {
            above.clear();
            above
                .extend(left.iter().enumerate().filter(|&(other, _)| other != at).map(|(_, &i)| i));
            fits(left[at], &above)
        })?;
        order[level] = left.remove(lowest);
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Verdict::{Schedulable, Unknown, Unschedulable};
    use corehop_fixtures::task_sets::{implicit, set};
    use corehop_plan::workload::task::{TaskParameters, TaskSet};

    fn responses(set: &TaskSet) -> (Verdict, Vec<Time>) {
        let mut found = vec![Time::ZERO; set.tasks().len()];
        let verdict = response_time_analysis(set.tasks(), Some(&mut found));
        (verdict, found)
    }

    #[test]
    fn response_times_of_the_textbook() {
        // Burns and Wellings, Real-Time Systems and Programming Languages, table "process set B":
        // C 5, 20, 40 and T 20, 40, 80 respond in 5, 15 and 80 when C is 5, 10, 40.
        let set = implicit(1, &[(40, 80), (10, 40), (5, 20)]);
        assert_eq!(responses(&set), (Schedulable, [80, 15, 5].map(Time::new).to_vec()));
        let more = implicit(1, &[(41, 80), (10, 40), (5, 20)]);
        assert_eq!(response_time_analysis(more.tasks(), None), Unschedulable);
    }

    #[test]
    fn a_deadline_beyond_the_period_takes_several_jobs() {
        // Lehoczky 1990, the example of RTSS: C 26 T 70 and C 62 T 100, D 118: the jobs of the second
        // respond in 114, 102, 116, 104, 118, 106, 94.
        let set = set(1, &[(26, 70, 70), (62, 100, 118)]);
        assert_eq!(responses(&set), (Schedulable, [26, 118].map(Time::new).to_vec()));
    }

    #[test]
    fn jitter_and_blocking_are_charged() {
        let task = |wcet, period, jitter, blocking| TaskParameters {
            wcet,
            period,
            jitter,
            blocking,
            ..TaskParameters::default()
        };
        // R_1 = 2 + 3 + 1; of the other w = 6 + 2 is too little, as ceil((8 + 3) / 10) = 2: 6 + 4.
        let set = TaskSet::new(
            1,
            &[
                task(Time::new(2), Time::new(10), Time::new(3), Time::new(1)),
                task(Time::new(6), Time::new(20), Time::ZERO, Time::ZERO),
            ],
        )
        .unwrap();
        assert_eq!(responses(&set), (Schedulable, [6, 10].map(Time::new).to_vec()));
        let blocked = TaskSet::new(
            1,
            &[
                task(Time::new(2), Time::new(10), Time::ZERO, Time::new(9)),
                task(Time::new(4), Time::new(20), Time::ZERO, Time::ZERO),
            ],
        )
        .unwrap();
        assert_eq!(response_time_analysis(blocked.tasks(), None), Unknown);
    }

    #[test]
    fn a_full_cpu_with_jitter_is_answered() {
        // U = 1/2 + 1/2, and the busy window never ends. H = 4 holds one job of the second: w = 2 + ceil((w + 1) / 2) = 5, and
        // of its next one 4 + ceil((w + 1) / 2) = 9, which is 5 after its release again.
        let task = |wcet, period, deadline, jitter| TaskParameters {
            wcet,
            period,
            deadline: Some(deadline),
            jitter,
            ..TaskParameters::default()
        };
        let of = |deadline| {
            let tasks = [
                task(Time::new(1), Time::new(2), Time::new(3), Time::new(1)),
                task(Time::new(2), Time::new(4), deadline, Time::ZERO),
            ];
            TaskSet::new(1, &tasks).unwrap()
        };
        assert_eq!(responses(&of(Time::new(5))), (Schedulable, [2, 5].map(Time::new).to_vec()));
        assert_eq!(responses(&of(Time::new(4))).0, Unschedulable);
    }

    #[test]
    fn at_full_utilisation_the_first_cycle_tells_what_many_do() {
        // Shares of twelfths that make 1, with jitter: ten cycles of the lowest task, each job by itself.
        let mut state = 3_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let (mut left, mut given) = (12, Vec::new());
            while left > 0 {
                let period = [2, 3, 4, 6, 12][draw(5) as usize];
                let wcet = (1 + draw(period / 2)).min(left * period / 12);
                let (wcet, period) =
                    if wcet == 0 || given.len() == 3 { (left, 12) } else { (wcet, period) };
                left -= wcet * 12 / period;
                let jitter = draw(period);
                let deadline = Some(Time::new(1_000));
                let [wcet, period, jitter] = [wcet, period, jitter].map(Time::new);
                given.push(TaskParameters {
                    wcet,
                    period,
                    deadline,
                    jitter,
                    ..TaskParameters::default()
                });
            }
            let set = TaskSet::new(1, &given).unwrap();
            let (verdict, found) = responses(&set);
            assert_eq!(verdict, Schedulable, "{given:?}");
            let lowest = given.len() - 1;
            let own = &given[lowest];
            let slow = (0..10 * 12 / own.period.ticks()).map(|q| {
                let work = |w: Time| {
                    let above = given[..lowest].iter();
                    (q + 1) * own.wcet
                        + above
                            .map(|it| (w + it.jitter).div_ceil(it.period) * it.wcet)
                            .sum::<Time>()
                };
                let mut w = Time::new(1);
                while work(w) > w {
                    w += Time::new(1);
                }
                w + own.jitter - q * own.period
            });
            assert_eq!(found[lowest], slow.max().unwrap(), "{given:?}");
        }
    }

    #[test]
    fn a_preemption_costs_the_largest_delay_that_it_may_cause_by_hand() {
        // By deadline: 5 of 50, 10 of 100, 20 of 400, with delays 9, 2, 6. The first does not wait; of the second, the first
        // preempts it alone: 10 + (5 + 2). Of the third the first may preempt both: 5 + 6, and so may the second: 10 + 6.
        let set = implicit(1, &[(5, 50), (10, 100), (20, 400)]);
        let mut found = vec![Time::ZERO; 3];
        let verdict = response_time_analysis_with_delays(
            set.tasks(),
            &[Time::new(9), Time::new(2), Time::new(6)],
            &FULL,
            Some(&mut found),
        );
        // 20 + 11 + 16 = 47.
        assert_eq!((verdict, found), (Schedulable, [5, 17, 47].map(Time::new).to_vec()));
    }

    #[test]
    fn bounds_on_utilisation_accept_no_more_than_they_should() {
        // Two tasks of 1/2 and 1/3: product 2 exactly; the sum 5/6 is beyond 0.828.
        let exactly = implicit(1, &[(1, 2), (1, 3)]);
        assert_eq!(hyperbolic(exactly.tasks()), Schedulable);
        assert_eq!(liu_layland(exactly.tasks()), Unknown);
        let below = implicit(1, &[(41, 100), (41, 101)]);
        assert_eq!(liu_layland(below.tasks()), Schedulable);
        assert_eq!(hyperbolic(implicit(1, &[(1, 2), (334, 1000)]).tasks()), Unknown);
        assert_eq!(hyperbolic(implicit(1, &[(5, 5)]).tasks()), Schedulable);
    }

    #[test]
    fn audsley_finds_an_order_where_deadline_monotonic_has_none() {
        // With D > T deadline-monotonic is not optimal (Lehoczky 1990).
        let set = set(1, &[(52, 100, 110), (52, 140, 154)]);
        assert_eq!(response_time_analysis(set.tasks(), None), Unschedulable);
        assert_eq!(audsley(set.tasks()), Ok(vec![1, 0]));
    }

    #[test]
    fn a_rank_that_was_given_is_taken() {
        let task = |wcet, period, rank| TaskParameters {
            wcet,
            period,
            priority: Some(rank),
            ..TaskParameters::default()
        };
        let set = TaskSet::new(
            1,
            &[task(Time::new(1), Time::new(4), 2), task(Time::new(3), Time::new(10), 1)],
        )
        .unwrap();
        assert_eq!(responses(&set), (Schedulable, [4, 3].map(Time::new).to_vec()));
    }
}
