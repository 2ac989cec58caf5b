// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charges delays of preempted jobs in the window of each response, for global EDF and global fixed priorities.
//!
//! A job that resumes reloads its lost cache contents, for at most the `d` of its task each time.
//! [`bill`](crate::bill) charges every job the largest delay among all tasks that the job can keep waiting. This
//! module charges the response of each task `k` separately. Tasks that nothing preempts, and tasks outside every
//! window of `k`, cost nothing. A task with a large delay and few preemptions pays for its own preemptions.
//!
//! **The most preemptions of a job** (`Preempted::most`). Each preemption is caused by a release, and a release
//! preempts at most one job: a job of lower priority that was released earlier. A job that began waits only while `m`
//! jobs of other tasks with higher priority are ready. So nothing preempts a task with fewer than `m` tasks above it.
//! Under EDF nothing preempts the tasks with the shortest relative deadline either, because a job that is released
//! later and due no later has a shorter relative deadline. Let `N` be the number of tasks with a ready job of higher
//! priority. The job runs only while `N < m`, and each of its preemptions is a release that makes `N` reach `m`. If
//! `N` was `n0` when the job began, the first preemption takes `m - n0` releases, and each later one at least one.
//! Each of the `n0` tasks that were ready at that instant had released a job less than its response `R_j` before, so
//! the task releases at most `ceil((L + R_j) / T_j) - 1` further jobs within `L`. A task that was not ready releases
//! at most `ceil(L / T_j)`.
//!
//! **Theorem.** Divide the tasks that are preempted into a set `E`, whose tasks pay for themselves, and a set `F` of
//! the others. Let `E_i = C_i + P_i d_i` for `i` in `E`, where `P_i` is the most preemptions of a job, and `E_i =
//! C_i` otherwise. Let `c_i` be the largest `d_v` of all `v` in `F` (including `k`) that a job of `i` can keep
//! waiting in a window of `k`. Then the response of `k` is at most that of a job of `E_k` without delays. The other
//! jobs each occupy a CPU for up to `E_i + c_i`, and not later than `R_i + c_i` after their release.
//!
//! *Proof.* Say that a job of `i` *lingers* for `c_i` after its end. Say that a job of a task in `F` *reloads* while
//! it runs within `d` of its task after it resumed. Say that a job *counts* while it lingers, and while it runs and
//! does not reload. Look at an instant at which the job of `k` waits, or reloads. Claim: at that instant jobs of `m`
//! different tasks count, with a higher priority. If no job with at least the priority of `k` reloads, the job of `k`
//! waits, and the `m` jobs that run are the jobs of the claim. Otherwise let `v` be the job of highest priority that
//! reloads. The job `v` resumed at some `s`. At `s - 1` the job `v` waited for jobs of `m` tasks, all of higher
//! priority. Each of these jobs either still runs (`v` runs, so no job of higher priority waits) and does not reload,
//! because `v` is the highest job that reloads; or the job ended less than `d_v <= c_i` ago, and lingers. So all
//! these jobs count.
//!
//! Now let the job of `k` be unfinished `L` after the beginning of its window. The job of `k` ran for at most `E_k -
//! 1` at other instants, so there were at least `Y = L - E_k + 1` instants at which it waited or reloaded. The tasks
//! of higher priority therefore count for `m Y` in the window, each for at most `Y`. The result is the condition of
//! the analyses without delays, with `E_i + c_i` for `C_i` and `R_i + c_i` for `R_i`. ∎
//!
//! Under EDF one of the jobs for which `v` waited may be the previous job of `k` (`Known::job_before`). That job has
//! ended and lingers into the window for at most `R_k + c_k - T_k`, which is added to the work of the other tasks.
//!
//! Under fixed priorities at most `m - 1` tasks carry in (Guan et al.): let the window begin with the longest stretch
//! before the release throughout which `m` higher tasks are ready or linger. Then jobs of `m` tasks count throughout:
//! if a job reloads or `m` tasks are ready, the argument above applies. Otherwise all ready jobs run, and with the
//! lingering jobs there are `m`. Just before that stretch, fewer than `m` tasks were ready or lingered, so only these
//! tasks carry work in. None of these tasks reloaded then, because otherwise `m` would have counted. So each of them
//! has counted for a unit before, and the bound `E_i + c_i - 1` on carried work remains.
//!
//! A job that is preempted while it reloads starts its reload again. If the reload is instead spread over the time
//! after the job resumed, the job has done no less work at any instant.

use super::bar::largest_sum;
use super::fixed::{Split, carried};
use super::window::{Sweep, WindowRange};
use super::workload::{Neighbour, WorkloadBound};
use super::{constrained, each_fits};
use crate::divisor::Divisor;
use crate::ranking::Ranking;
use crate::system::System;
use crate::uni::fixed::optimal_assignment;
use corehop_plan::workload::task::{Task, Time};

/// The largest number of EDF rounds, and of windows for one response.
const ROUNDS: usize = 25;
const WINDOWS: usize = 100;

/// The largest number of tasks that is analysed, because the time grows with the square of the number of tasks, and in
/// part with the fourth power.
const MOST_TASKS: usize = 1_000;
const MOST_ORDERED: usize = 100;

/// The tasks that carry work into a window under fixed priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// All other tasks carry work in (Bertogna and Cirinei).
    All,
    /// At most `m - 1` tasks carry work in (Guan et al.).
    Limited,
}

/// Bounds responses under global fixed priorities with distinct priorities; `None` if a task may miss its deadline.
/// `delays` follows the order of the tasks.
pub fn fixed(system: System<'_>, delays: &[Time], carry: Carry) -> Option<Vec<Time>> {
    if !is_covered(system.tasks, MOST_TASKS) {
        return None;
    }
    let order = Ranking::distinct(system.tasks).ok()?;
    let mut known = ResponseContext::new(system, delays, PreemptionOrder::Fixed);
    let (mut sweep, mut split) = (Sweep::default(), Split::default());
    for (at, &k) in order.iter().enumerate() {
        let above = &order[..at];
        let bound = known.least_response(k, above, |felt, own| match carry {
            Carry::All => densest(&mut sweep, system.m(), felt, own),
            Carry::Limited => limited(&mut split, system.m(), felt, own),
        })?;
        known.settle(k, above, bound);
    }
    Some(known.responses)
}

/// Bounds responses under global EDF; `None` if a task may miss its deadline. Each round takes the responses of
/// earlier rounds as responses of the other jobs. The method is sound: if a job were the first to exceed its bound,
/// all jobs in its window would have kept their bounds.
pub fn edf(system: System<'_>, delays: &[Time]) -> Option<Vec<Time>> {
    let tasks = system.tasks;
    if !is_covered(tasks, MOST_TASKS) {
        return None;
    }
    let mut known = ResponseContext::new(system, delays, PreemptionOrder::Deadline);
    let others: Vec<Vec<usize>> =
        (0..tasks.len()).map(|k| (0..tasks.len()).filter(|&i| i != k).collect()).collect();
    for (k, beside) in others.iter().enumerate() {
        known.settle(k, beside, tasks[k].deadline);
    }
    let (mut accepted, mut sweep) = (false, Sweep::default());
    for _ in 0..ROUNDS {
        let (mut all_fit, mut changed) = (true, false);
        for (k, beside) in others.iter().enumerate() {
            let analysis = |felt: &[Felt], own| densest(&mut sweep, system.m(), felt, own);
            let found = known.least_response(k, beside, analysis);
            all_fit &= found.is_some();
            if let Some(bound) = found.filter(|&bound| bound < known.responses[k]) {
                known.settle(k, beside, bound);
                changed = true;
            }
        }
        accepted |= all_fit;
        if !changed {
            break;
        }
    }
    accepted.then_some(known.responses)
}

/// Runs deadline analysis with at most `m - 1` carry-in tasks for a given order, the highest priority first.
pub fn da_lc_in_order(system: System<'_>, delays: &[Time], order: &[usize]) -> bool {
    let covered = is_covered(system.tasks, MOST_ORDERED);
    covered && order.iter().enumerate().all(|(at, &k)| da_lc(system, delays, k, &order[..at]))
}

/// Returns a priority order that passes this analysis, if one exists. Audsley's algorithm applies because whether a
/// task meets its deadline depends on which tasks are above and not on their order.
pub fn da_lc_assignment(system: System<'_>, delays: &[Time]) -> Option<Vec<usize>> {
    if !is_covered(system.tasks, MOST_ORDERED) {
        return None;
    }
    optimal_assignment(system.tasks.len(), |k, above| da_lc(system, delays, k, above))
}

/// Runs deadline analysis with at most `m - 1` carry-in tasks (Davis and Burns). Returns whether task `k` meets its
/// deadline below the tasks `above`, in any order, if the tasks `above` meet their deadlines.
fn da_lc(system: System<'_>, delays: &[Time], k: usize, above: &[usize]) -> bool {
    let mut known = ResponseContext::new(system, delays, PreemptionOrder::Any);
    for &i in above {
        let beside: Vec<usize> = above.iter().copied().filter(|&j| j != i).collect();
        known.settle(i, &beside, system.tasks[i].deadline);
    }
    let by_deadline = |felt: &[Felt], own: AnalysedJob| within_deadline(system.m(), felt, own);
    known.least_response(k, above, by_deadline).is_some()
}

/// Whether each job meets its deadline and period if run alone, and there are at most `most` tasks.
fn is_covered(tasks: &[Task], most: usize) -> bool {
    tasks.len() <= most && each_fits(tasks) && constrained(tasks)
}

/// The order of priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreemptionOrder {
    /// Jobs are ordered by absolute deadlines.
    Deadline,
    /// Jobs are ordered by their tasks' priorities; the other tasks in a window are the tasks of higher priority.
    Fixed,
    /// Jobs are ordered by their tasks' priorities, but the order of the tasks above is not known: each of them can
    /// preempt every other.
    Any,
}

/// The interference of one task in the window of another.
#[derive(Debug, Clone, Copy)]
struct Felt {
    /// The longest time for which a job interferes, the period of the jobs, and the longest time from the release of a
    /// job until the job no longer interferes.
    wcet: Time,
    period: Divisor,
    response: Time,
    /// The longest total time for which jobs of higher priority interfere.
    most: Time,
}

/// The job whose response is computed: its execution time, and its deadline.
#[derive(Debug, Clone, Copy)]
struct AnalysedJob {
    wcet: Time,
    deadline: Time,
}

/// Bounds the number of preemptions of a job within some time.
#[derive(Debug)]
struct Preempted {
    /// The period and the response of each task that can be ready with a higher priority, and the latest release that
    /// still has priority, relative to the job's release; `None` if only earlier releases have priority.
    higher: Vec<(Time, Time, Option<Time>)>,
    cpus: usize,
}

impl Preempted {
    fn is_possible(&self) -> bool {
        self.higher.len() >= self.cpus && self.higher.iter().any(|it| it.2.is_some())
    }

    /// The largest number of preemptions within `window`; the module describes the derivation.
    fn most(&self, window: Time) -> u64 {
        if !self.is_possible() {
            return 0;
        }
        let (mut releases, mut ready) = (0, 0);
        for &(period, response, latest) in &self.higher {
            let span = latest.unwrap_or(Time::ZERO).min(window);
            let fresh = span.div_ceil(period);
            let of_ready = (span + response).div_ceil(period) - 1;
            releases += fresh;
            ready += usize::from(of_ready >= fresh);
        }
        let spared = (self.cpus - 1).saturating_sub(ready) as u64;
        releases.saturating_sub(spared)
    }
}

/// The delays, preemption counts and response bounds known so far.
struct ResponseContext<'a> {
    system: System<'a>,
    delays: &'a [Time],
    order: PreemptionOrder,
    responses: Vec<Time>,
    /// The largest number of preemptions of a job of each task.
    preemptions: Vec<u64>,
}

impl<'a> ResponseContext<'a> {
    fn new(system: System<'a>, delays: &'a [Time], order: PreemptionOrder) -> Self {
        let responses = system.tasks.iter().map(|task| task.deadline).collect();
        let preemptions = vec![0; system.tasks.len()];
        Self { system, delays, order, responses, preemptions }
    }

    fn settle(&mut self, k: usize, others: &[usize], bound: Time) {
        self.responses[k] = bound;
        self.preemptions[k] = self.preempted(k, others).most(bound);
    }

    /// Whether a job of `i` with a higher priority can be unfinished after the release of a job of `k`.
    fn is_felt(&self, i: usize, k: usize) -> bool {
        let (own, other) = (&self.system.tasks[k], &self.system.tasks[i]);
        self.order != PreemptionOrder::Deadline || own.deadline + self.responses[i] > other.deadline
    }

    fn preempted(&self, k: usize, others: &[usize]) -> Preempted {
        let own = &self.system.tasks[k];
        let of = |&j: &usize| {
            let task = &self.system.tasks[j];
            let latest = match self.order {
                PreemptionOrder::Deadline => {
                    own.deadline.checked_sub(task.deadline).filter(|&it| it > Time::ZERO)
                }
                PreemptionOrder::Fixed | PreemptionOrder::Any => Some(Time::MAX),
            };
            (task.period, self.responses[j], latest)
        };
        let higher = others.iter().filter(|&&j| self.is_felt(j, k)).map(of).collect();
        Preempted { higher, cpus: self.system.cpus as usize }
    }

    /// The tasks that are preempted in a window of `k`, those with the largest delays first. `above` are the other
    /// tasks in that window; under fixed priorities the highest priority comes first.
    fn victims(&self, k: usize, above: &[usize]) -> Vec<usize> {
        let of = |i: usize| self.delays[i] > Time::ZERO && self.preemptions[i] > 0;
        let others = above.iter().copied().filter(|&i| of(i) && self.is_felt(i, k));
        let itself = Some(k)
            .filter(|_| self.delays[k] > Time::ZERO && self.preempted(k, above).is_possible());
        let mut victims: Vec<usize> = others.chain(itself).collect();
        victims.sort_by_key(|&v| std::cmp::Reverse(self.delays[v]));
        victims
    }

    /// The least response bound over divisions of the preempted tasks, by an analysis of a window.
    fn least_response(
        &self,
        k: usize,
        above: &[usize],
        mut analysis: impl FnMut(&[Felt], AnalysedJob) -> Option<Time>,
    ) -> Option<Time> {
        let victims = self.victims(k, above);
        let all = victims.len();
        let mut paying: Vec<usize> =
            [0, 1, 2, 3, all / 2, all].into_iter().filter(|&it| it <= all).collect();
        paying.sort_unstable();
        paying.dedup();
        let of = |count: usize| self.response(k, above, victims.split_at(count), &mut analysis);
        paying.into_iter().filter_map(of).min()
    }

    /// The response bound if the first preempted tasks pay for themselves, and other preempted tasks are paid for by
    /// the jobs that keep them waiting.
    fn response(
        &self,
        k: usize,
        above: &[usize],
        (paying, paid): (&[usize], &[usize]),
        analysis: &mut impl FnMut(&[Felt], AnalysedJob) -> Option<Time>,
    ) -> Option<Time> {
        let lingers = self.lingers(k, above, paid);
        let pays = |i: usize| paying.contains(&i);
        let each = above.iter().zip(lingers);
        let mut felt: Vec<Felt> =
            each.map(|(&i, lingers)| self.felt(i, k, pays(i), lingers)).collect();
        if self.order == PreemptionOrder::Deadline {
            felt.extend(self.job_before(k, paid));
        }
        let task = &self.system.tasks[k];
        let own = |count: u64| AnalysedJob {
            wcet: task.wcet.saturating_add(self.delays[k].saturating_mul(count)),
            deadline: task.deadline,
        };
        if !pays(k) {
            return analysis(&felt, own(0));
        }
        let preempted = self.preempted(k, above);
        let mut count = 0;
        // More preemptions make a longer window, and that more preemptions.
        for _ in 0..WINDOWS {
            let bound = analysis(&felt, own(count))?;
            let more = preempted.most(bound);
            if more <= count {
                return Some(bound);
            }
            count = more;
        }
        None
    }

    /// The time for which the jobs of each task `above` linger: the largest delay among the paid-for tasks that can
    /// wait for such a job.
    fn lingers(&self, k: usize, above: &[usize], paid: &[usize]) -> Vec<Time> {
        let of = |i: usize| if paid.contains(&i) { self.delays[i] } else { Time::ZERO };
        if self.order == PreemptionOrder::Fixed {
            let mut most = of(k);
            let mut lingers = vec![Time::ZERO; above.len()];
            for (lingers, &i) in lingers.iter_mut().zip(above).rev() {
                *lingers = most;
                most = most.max(of(i));
            }
            return lingers;
        }
        // The victims come with the largest delay first.
        above.iter().map(|&i| self.longest_but(i, paid)).collect()
    }

    fn longest_but(&self, i: usize, paid: &[usize]) -> Time {
        paid.iter().find(|&&v| v != i).map_or(Time::ZERO, |&v| self.delays[v])
    }

    /// The job of `k` before the analysed job. Under EDF the earlier job may linger into the window.
    fn job_before(&self, k: usize, paid: &[usize]) -> Option<Felt> {
        let period = self.system.tasks[k].period;
        let until = self.responses[k].saturating_add(self.longest_but(k, paid));
        let most = until.checked_sub(period).filter(|&most| most > Time::ZERO)?;
        let wcet = most.min(period);
        Some(Felt { wcet, period: Divisor::new(period), response: wcet + period, most })
    }

    /// The interference of task `i` in the window of `k`. `pays` says whether the jobs of `i` pay for themselves, and
    /// `lingers` for how long the jobs linger.
    fn felt(&self, i: usize, k: usize, pays: bool, lingers: Time) -> Felt {
        let (task, own) = (&self.system.tasks[i], &self.system.tasks[k]);
        let count = if pays { self.preemptions[i] } else { 0 };
        let reloads = self.delays[i].saturating_mul(count);
        let executes = task.wcet.saturating_add(reloads).min(self.responses[i]);
        let wcet = executes.saturating_add(lingers);
        let period = Divisor::new(task.period);
        if wcet >= task.period {
            // A job may count until the next one does.
            return Felt { wcet: task.period, period, response: task.period, most: Time::MAX };
        }
        let response = self.responses[i] + lingers;
        let most = match self.order {
            // Its last job is due no later than that of `k`.
            PreemptionOrder::Deadline => {
                let span = (own.deadline + response).saturating_sub(task.deadline);
                WorkloadBound::periodic(wcet, period, span).value
            }
            PreemptionOrder::Fixed | PreemptionOrder::Any => Time::MAX,
        };
        Felt { wcet, period, response, most }
    }
}

impl Felt {
    /// The largest workload of a task in a window: the first job is as late as possible, and the others come as early
    /// as possible.
    fn densest(&self) -> Neighbour {
        Neighbour::leading(self.wcet, self.period, self.response - self.wcet).at_most(self.most)
    }

    /// The workload without carried-in work.
    fn alone(&self) -> Neighbour {
        Neighbour::leading(self.wcet, self.period, Time::ZERO)
    }

    /// The workload with carried-in work, in a window of `x`.
    fn carried(&self, x: Time) -> WorkloadBound {
        let period = self.period.by();
        if self.response > period || self.wcet >= period {
            let x = x + self.response - self.wcet;
            return WorkloadBound {
                run: Time::ZERO,
                ..WorkloadBound::periodic(self.wcet, self.period, x)
            };
        }
        carried(self.wcet, self.period, self.response, x)
    }
}

/// The windows of a job; `None` if the job executes for longer than its deadline allows.
fn windows(own: AnalysedJob) -> Option<WindowRange> {
    let limit = own.deadline.checked_sub(own.wcet)? + Time::TICK;
    Some(WindowRange { from: Time::TICK, limit, wait: own.wcet - Time::TICK })
}

/// The response bound from the least unfilled window if all other tasks carry work in.
fn densest(sweep: &mut Sweep, m: u64, felt: &[Felt], own: AnalysedJob) -> Option<Time> {
    let among = windows(own)?;
    let mut others: Vec<Neighbour> = felt.iter().map(Felt::densest).collect();
    sweep.least_unfilled(m, &mut others, among).map(|y| own.wcet + y - Time::TICK)
}

/// The response bound from the least unfilled window if at most `m - 1` tasks carry work in.
fn limited(split: &mut Split, m: u64, felt: &[Felt], own: AnalysedJob) -> Option<Time> {
    let WindowRange { limit, wait, .. } = windows(own)?;
    let mut y = Time::TICK;
    while y <= limit {
        split.clear();
        for it in felt {
            split.add(it.alone(), it.carried(y + wait), y, wait);
        }
        match split.next(m, y, limit) {
            None => return Some(own.wcet + y - Time::TICK),
            Some(later) => y = later,
        }
    }
    None
}

/// The deadline as a response bound, if the job ends within its deadline while at most `m - 1` tasks carry work in;
/// otherwise `None`.
fn within_deadline(m: u64, felt: &[Felt], own: AnalysedJob) -> Option<Time> {
    let y = windows(own)?.limit;
    let mut gains = Vec::with_capacity(felt.len());
    let mut sum = Time::ZERO;
    for it in felt {
        let alone = it.alone().at(own.deadline).value.min(y);
        let with = it.densest().at(own.deadline).value.min(y);
        sum += alone;
        gains.push(with.saturating_sub(alone));
    }
    sum += largest_sum(&mut gains, m as usize - 1);
    (own.wcet + sum / m <= own.deadline).then_some(own.deadline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::{fixed as bare, rta};
    use corehop_fixtures::task_sets::{implicit, set};

    #[test]
    fn a_third_task_on_two_cpus_is_preempted_once_by_hand() {
        // Both of the others arrive 1 after the third began: it waits for 10, reloads for 5, and has 19 to do.
        let three = implicit(2, &[(10, 100), (10, 100), (20, 100)]);
        for carry in [Carry::All, Carry::Limited] {
            assert_eq!(
                fixed(System::of(&three), &[Time::new(9), Time::new(9), Time::new(5)], carry),
                Some([10, 10, 35].map(Time::new).to_vec())
            );
        }
        // Beside a job of 150 each arrival within 40 preempts it: at 1, and at 41 after 25 more of its 40. 40 + 2 (10 + 5) = 70.
        let often = implicit(2, &[(150, 200), (10, 40), (40, 200)]);
        let bounds =
            fixed(System::of(&often), &[Time::new(9), Time::new(9), Time::new(5)], Carry::Limited);
        assert_eq!(bounds, Some([150, 10, 70].map(Time::new).to_vec()));
    }

    #[test]
    fn under_edf_what_cannot_be_preempted_costs_nothing_by_hand() {
        // Nothing preempts the first. The second waits only while the third, which is due later, is not done: when it is
        // known to end within 35, it is never ready with an earlier deadline beside the second.
        let three = set(2, &[(10, 100, 50), (10, 100, 60), (20, 100, 100)]);
        assert_eq!(
            edf(System::of(&three), &[Time::new(9), Time::new(9), Time::new(5)]),
            Some([10, 10, 35].map(Time::new).to_vec())
        );
        assert_eq!(
            edf(System::of(&three), &[Time::new(90), Time::new(90), Time::new(5)]),
            Some([10, 10, 35].map(Time::new).to_vec())
        );
        // As many tasks as CPUs.
        let three = set(3, &[(10, 100, 50), (10, 100, 60), (20, 100, 100)]);
        assert_eq!(
            edf(System::of(&three), &[Time::new(90), Time::new(90), Time::new(90)]),
            Some([10, 10, 20].map(Time::new).to_vec())
        );
    }

    #[test]
    fn the_job_before_lingers_into_a_window_under_edf() {
        let system = implicit(2, &[(1, 10), (1, 10), (1, 10)]);
        let delays = [7, 3, 0].map(Time::new);
        let mut known =
            ResponseContext::new(System::of(&system), &delays, PreemptionOrder::Deadline);
        // It may end with its period, and linger for the largest delay of the others.
        assert_eq!(known.job_before(2, &[0, 1]).map(|it| it.most), Some(Time::new(7)));
        assert_eq!(known.job_before(0, &[0, 1]).map(|it| it.most), Some(Time::new(3)));
        known.responses[2] = Time::new(4);
        assert_eq!(known.job_before(2, &[0, 1]).map(|it| it.most), Some(Time::new(1)));
        assert!(known.job_before(2, &[1]).is_none());
    }

    #[test]
    fn a_job_that_lingers_occupies_its_cpu_for_longer_and_until_later() {
        let system = implicit(2, &[(2, 20), (1, 10), (1, 10)]);
        let delays = [3, 0, 0].map(Time::new);
        let mut known = ResponseContext::new(System::of(&system), &delays, PreemptionOrder::Fixed);
        (known.responses[0], known.preemptions[0]) = (Time::new(9), 2);
        let felt = |pays, lingers| {
            let it = known.felt(0, 1, pays, lingers);
            (it.wcet, it.response)
        };
        assert_eq!(felt(false, Time::ZERO), (Time::new(2), Time::new(9)));
        assert_eq!(felt(false, Time::new(4)), (Time::new(6), Time::new(13)));
        // Two reloads of 3 are within its response of 9.
        assert_eq!(felt(true, Time::new(4)), (Time::new(12), Time::new(13)));
        // It may occupy the CPU until its next job does.
        assert_eq!(felt(true, Time::new(15)), (Time::new(20), Time::new(20)));
    }

    #[test]
    fn without_delays_bounds_are_those_of_the_analyses_themselves() {
        let mut state = 17_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        let mut compared = 0;
        for _ in 0..2_000 {
            let tasks: Vec<_> = (0..draw(5) + 2)
                .map(|_| {
                    let period = draw(30) + 4;
                    let wcet = draw(period / 2) + 1;
                    (wcet, period, wcet + draw(period - wcet + 1))
                })
                .collect();
            let set = set(draw(3) as u32 + 1, &tasks);
            let (system, none) = (System::of(&set), vec![Time::ZERO; tasks.len()]);
            assert_eq!(fixed(system, &none, Carry::All), bare::bertogna(system), "{tasks:?}");
            assert_eq!(fixed(system, &none, Carry::Limited), bare::guan(system), "{tasks:?}");
            // What may be due within a window is counted a little closer here.
            if let Some(bounds) = rta::edf_bounds(system) {
                let here = edf(system, &none).unwrap();
                assert!(here.iter().zip(&bounds).all(|(here, it)| here <= it), "{tasks:?}");
                compared += 1;
            }
            let small: Vec<Time> = (0..tasks.len()).map(|_| Time::new(draw(3))).collect();
            if let Some(bounds) = edf(system, &small) {
                let larger: Vec<Time> = small.iter().map(|&it| it + Time::new(draw(2))).collect();
                let more = edf(system, &larger).unwrap_or_else(|| vec![Time::MAX; tasks.len()]);
                assert!(bounds.iter().zip(&more).all(|(a, b)| a <= b), "{tasks:?} {small:?}");
            }
        }
        assert!(compared > 300, "{compared}");
    }
}
