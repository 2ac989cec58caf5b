// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the partitioned, split and soft tests of the catalogue.

use super::{Payer, with_bounds};
use crate::cache_aware::Approach;
use crate::chains;
use crate::partition::split::{self, Subtask};
use crate::partition::{
    Admission, Fit, Packing, analysed, edf_os, exhaustive, given, payer, responses,
    responses_by_blocks, responses_by_pairs,
};
use crate::soft::{self, compliant, tardiness};
use crate::system::System;
use crate::verdict::{Charges, TestAnswer, Verdict};
use corehop_plan::workload::placement::{PlacedPiece, PlacedShare, TaskPlacement};
use corehop_plan::workload::task::{Task, Time};

pub(super) const NO_BLOCKS: &str = "the set does not state the cache blocks of its tasks: add ucb and ecb to each task, and block_reload_ns";

/// Packs tasks by utilisation. With implicit deadlines, a CPU whose utilisation is at most 1 meets all deadlines.
pub(super) fn by_utilisation<const FIT: usize, const DECREASING: bool>(
    system: System<'_>,
) -> TestAnswer {
    pack(system, FIT, DECREASING, Admission::Utilisation)
}

/// Packs tasks by processor demand.
pub(super) fn by_demand<const FIT: usize, const DECREASING: bool>(
    system: System<'_>,
) -> TestAnswer {
    pack(system, FIT, DECREASING, Admission::Demand)
}

fn pack(system: System<'_>, fit: usize, decreasing: bool, admission: Admission) -> TestAnswer {
    match packed(system, fit, decreasing, admission) {
        Ok(bins) => in_bins(system, 1, bins),
        Err(why) => TestAnswer::unknown(why),
    }
}

fn packed(
    system: System<'_>,
    fit: usize,
    decreasing: bool,
    admission: Admission,
) -> Result<Vec<Vec<usize>>, String> {
    let packing = Packing { fit: Fit::ALL[fit], decreasing, admission, cluster: 1 };
    packing.pack(system).map_err(|task| format!("no CPU admits task {task}"))
}

/// Answers yes with the tasks in bins of `cpus` CPUs each under EDF, and with their charges there.
fn in_bins(system: System<'_>, cpus: u32, bins: Vec<Vec<usize>>) -> TestAnswer {
    let charges = system.bill.map(|bill| {
        let of = |group: &[usize]| bill.group(payer(cpus), cpus, system.tasks, group);
        by_task(system, bins.iter().map(|bin| (&bin[..], of(bin))))
    });
    TestAnswer {
        partition: Some(bins),
        charged: charges,
        ..TestAnswer::plain(Verdict::Schedulable)
    }
}

/// Collects the charges of groups into one list in the order of the tasks.
fn by_task<'a>(
    system: System<'_>,
    groups: impl Iterator<Item = (&'a [usize], Charges)>,
) -> Charges {
    let mut all =
        Charges { tasks: system.tasks.to_vec(), paid: vec![Time::ZERO; system.tasks.len()] };
    for (group, charges) in groups {
        for (place, &at) in group.iter().enumerate() {
            (all.tasks[at], all.paid[at]) = (charges.tasks[place], charges.paid[place]);
        }
    }
    all
}

/// Tests fixed priorities on one CPU by exact responses, including preemption costs.
pub(super) fn one_cpu_by_priority(system: System<'_>) -> TestAnswer {
    let group: Vec<usize> = (0..system.tasks.len()).collect();
    if chains::activates(system) {
        return activated(system, vec![group]);
    }
    let (verdict, bounds) = analysed(system, &group);
    let answer = match verdict {
        Verdict::Schedulable => TestAnswer::bounded(verdict, bounds),
        other => TestAnswer::plain(other),
    };
    TestAnswer { charged: priority_charges(system, &[group]), ..answer }
}

/// Packs tasks by falling utilisation, where each CPU must pass response-time analysis with its preemption costs.
pub(super) fn by_response<const FIT: usize>(system: System<'_>) -> TestAnswer {
    let bins = match packed(system, FIT, true, Admission::Response) {
        Ok(bins) => bins,
        Err(why) => return TestAnswer::unknown(why),
    };
    in_bins_by_priority(system, bins)
}

/// Answers yes with the tasks in bins of one CPU under fixed priorities, and with their charges there.
fn in_bins_by_priority(system: System<'_>, bins: Vec<Vec<usize>>) -> TestAnswer {
    let charges = priority_charges(system, &bins);
    let answer = by_priority(system, bins, responses);
    TestAnswer { charged: charges, ..answer }
}

/// Packs tasks by falling utilisation, where each CPU must pass response-time analysis with reloads by cache blocks.
pub(super) fn by_blocks<const FIT: usize>(system: System<'_>) -> TestAnswer {
    if system.cache.is_none() {
        return TestAnswer::unknown(NO_BLOCKS);
    }
    let bins = match packed(system, FIT, true, Admission::Blocks(Approach::Combined)) {
        Ok(bins) => bins,
        Err(why) => return TestAnswer::unknown(why),
    };
    by_priority(system, bins, |system, group| {
        responses_by_blocks(system, group, Approach::Combined)
    })
}

/// Packs tasks by falling utilisation, where each CPU must pass response-time analysis with measured delays by pair
/// of tasks.
pub(super) fn by_pairs<const FIT: usize>(system: System<'_>) -> TestAnswer {
    if system.pairs.is_none() {
        return TestAnswer::unknown(super::NO_PAIRS);
    }
    match packed(system, FIT, true, Admission::Pairs) {
        Ok(bins) => by_priority(system, bins, responses_by_pairs),
        Err(why) => TestAnswer::unknown(why),
    }
}

/// Answers yes, with the bounds that an analysis gives on each CPU.
fn by_priority(
    system: System<'_>,
    bins: Vec<Vec<usize>>,
    responses: impl Fn(System<'_>, &[usize]) -> Option<Vec<Time>>,
) -> TestAnswer {
    let mut bounds = vec![Time::ZERO; system.tasks.len()];
    for (number, bin) in bins.iter().enumerate() {
        let mut group = bin.clone();
        group.sort_unstable();
        let system = system.at_bin(number);
        for (at, response) in group.iter().zip(responses(system, &group).unwrap_or_default()) {
            bounds[*at] = response;
        }
    }
    TestAnswer { partition: Some(bins), ..TestAnswer::bounded(Verdict::Schedulable, bounds) }
}

/// The charge to each task under partitioned fixed priorities, in the busy window of the lowest task on its CPU.
fn priority_charges(system: System<'_>, bins: &[Vec<usize>]) -> Option<Charges> {
    let bill = system.bill?;
    let of = |group: &[usize]| {
        let mut group = group.to_vec();
        group.sort_unstable();
        let own: Vec<Task> = group.iter().map(|&at| system.tasks[at]).collect();
        let delays = bill.of(&group);
        let paid = bill.paid(Payer::LowerPriority, &own, &delays);
        let (mut tasks, _) = bill.priorities(&own, &delays);
        tasks.truncate(own.len());
        for ((task, &paid), own) in tasks.iter_mut().zip(&paid).zip(&own) {
            task.priority = own.priority;
            task.wcet += if bill.own { Time::ZERO } else { paid };
        }
        (group, Charges { tasks, paid })
    };
    let groups: Vec<_> = bins.iter().map(|bin| of(bin)).collect();
    Some(by_task(system, groups.iter().map(|(group, charges)| (&group[..], charges.clone()))))
}

/// Packs tasks into clusters of `SIZE` CPUs by worst fit and falling utilisation, then tests global EDF in each
/// cluster. Utilisations first include the largest payment that any job could owe. If that packing fails, the plain
/// utilisations are used, because a job's payment depends on its cluster.
pub(super) fn clustered<const SIZE: u32>(system: System<'_>) -> TestAnswer {
    let charged = clustered_by::<SIZE>(system, system);
    if charged.verdict.is_schedulable() || system.bill.is_none() {
        return charged;
    }
    let bare = clustered_by::<SIZE>(system, System { bill: None, ..system });
    if bare.verdict.is_schedulable() { bare } else { charged }
}

fn clustered_by<const SIZE: u32>(system: System<'_>, packed: System<'_>) -> TestAnswer {
    let bins = match clusters(packed, SIZE) {
        Ok(bins) => bins,
        Err(why) => return TestAnswer::unknown(why),
    };
    for (cluster, bin) in bins.iter().enumerate() {
        let tasks: Vec<Task> = bin.iter().map(|&at| system.tasks[at]).collect();
        let bill = system.bill.map(|bill| bill.alone(bin));
        let own = System { bill: bill.as_ref(), ..System::plain(SIZE, &tasks) };
        if !bin.is_empty() && g_edf(own).verdict != Verdict::Schedulable {
            return TestAnswer::unknown(format!(
                "no test for global EDF accepts cluster {cluster}"
            ));
        }
    }
    in_bins(system, SIZE, bins)
}

/// Packs tasks into clusters of `SIZE` CPUs by worst fit and falling utilisation. If no cluster's utilisation exceeds
/// its CPUs, tardiness is bounded.
pub(super) fn softly_clustered<const SIZE: u32>(system: System<'_>) -> TestAnswer {
    match clusters(system, SIZE) {
        Ok(bins) => in_bins(system, SIZE, bins),
        Err(why) => TestAnswer::unknown(why),
    }
}

fn clusters(system: System<'_>, cluster: u32) -> Result<Vec<Vec<usize>>, String> {
    if !system.cpus.is_multiple_of(cluster) {
        return Err(format!("{} CPUs make no clusters of {cluster}", system.cpus));
    }
    let packing =
        Packing { fit: Fit::Worst, decreasing: true, admission: Admission::Utilisation, cluster };
    packing.pack(system).map_err(|task| format!("no cluster admits task {task}"))
}

/// Tries every assignment of tasks to CPUs under EDF, if the number of assignments is small enough.
pub(super) fn every_assignment(system: System<'_>) -> TestAnswer {
    tried(exhaustive::partition(system, exhaustive::by_deadline), |bins| in_bins(system, 1, bins))
}

/// Tries every assignment of tasks to CPUs under fixed priorities, if the number of assignments is small enough.
pub(super) fn every_assignment_by_priority(system: System<'_>) -> TestAnswer {
    let bins = exhaustive::partition(system, exhaustive::by_priority);
    tried(bins, |bins| in_bins_by_priority(system, bins))
}

fn tried(
    bins: Result<Vec<Vec<usize>>, Verdict>,
    accepted: impl FnOnce(Vec<Vec<usize>>) -> TestAnswer,
) -> TestAnswer {
    match bins {
        Ok(bins) => accepted(bins),
        Err(Verdict::Unknown) => TestAnswer::unknown("there are too many assignments to try"),
        Err(verdict) => TestAnswer {
            why: Some("no assignment of the tasks to CPUs meets every deadline".to_owned()),
            ..TestAnswer::plain(verdict)
        },
    }
}

/// Tests EDF with the CPU that the set states for each task.
pub(super) fn given_by_deadline(system: System<'_>) -> TestAnswer {
    let system = system.on_own_cpus();
    on_given_cpus(system, exhaustive::by_deadline, |bins| in_bins(system, 1, bins))
}

/// Tests fixed priorities with the CPU that the set states for each task.
pub(super) fn given_by_priority(system: System<'_>) -> TestAnswer {
    let system = system.on_own_cpus();
    match given::bins(system) {
        Ok(bins) if chains::activates(system) => activated(system, bins),
        _ => {
            on_given_cpus(system, exhaustive::by_priority, |bins| in_bins_by_priority(system, bins))
        }
    }
}

/// Tests CPUs under fixed priorities whose tasks activate each other.
fn activated(system: System<'_>, bins: Vec<Vec<usize>>) -> TestAnswer {
    let Some(bounds) = chains::responses(system, &bins) else {
        return TestAnswer::unknown(
            "responses in the chains grow without limit, or need too many steps",
        );
    };
    let late = (0..bounds.len()).find(|&at| bounds[at] > system.tasks[at].deadline);
    let partition = (system.cpus > 1).then_some(bins);
    match late {
        Some(at) => TestAnswer::unknown(format!("task {at} can respond after its deadline")),
        None => TestAnswer { partition, ..TestAnswer::bounded(Verdict::Schedulable, bounds) },
    }
}

/// Tests each CPU by itself. If one CPU misses a deadline the answer is no, and if one CPU is undecided the answer is
/// unknown.
fn on_given_cpus(
    system: System<'_>,
    one: exhaustive::OneCpu,
    accepted: impl FnOnce(Vec<Vec<usize>>) -> TestAnswer,
) -> TestAnswer {
    let bins = match given::bins(system) {
        Ok(bins) => bins,
        Err(why) => return TestAnswer::unknown(why),
    };
    let on = |(cpu, bin): (usize, &Vec<usize>)| one(system.at_bin(cpu), bin);
    let verdicts: Vec<Verdict> = bins.iter().enumerate().map(on).collect();
    let which = |verdict| verdicts.iter().position(|&it| it == verdict);
    if let Some(cpu) = which(Verdict::Unschedulable) {
        let why = Some(format!("the tasks on CPU {cpu} miss a deadline"));
        return TestAnswer { why, ..TestAnswer::plain(Verdict::Unschedulable) };
    }
    match which(Verdict::Unknown) {
        Some(cpu) => TestAnswer::unknown(format!("the tasks on CPU {cpu} are not decided")),
        None => accepted(bins),
    }
}

/// Tests semi-partitioned EDF with C=D splitting.
pub(super) fn c_equals_d(system: System<'_>) -> TestAnswer {
    match split::c_equals_d(system) {
        Ok(pieces) => in_pieces(system, &pieces),
        Err(task) => TestAnswer::unknown(format!("no splitting places task {task}")),
    }
}

/// Tests semi-partitioned EDF with the CPUs and pieces that the set states.
pub(super) fn as_given(system: System<'_>) -> TestAnswer {
    match given::check(system) {
        Ok(pieces) => in_pieces(system, &pieces),
        Err(why) => TestAnswer::unknown(why),
    }
}

/// Answers yes, with the pieces of the split tasks and each piece's charge.
fn in_pieces(system: System<'_>, pieces: &[Subtask]) -> TestAnswer {
    let mut places = vec![Vec::new(); system.tasks.len()];
    let mut cpus = vec![Vec::new(); system.cpus as usize];
    let mut charges =
        Charges { tasks: system.tasks.to_vec(), paid: vec![Time::ZERO; system.tasks.len()] };
    for piece in pieces {
        cpus[piece.cpu].push(piece.task);
        let delays = piece.paid + piece.budget - piece.wcet;
        charges.paid[piece.task] += delays;
        charges.tasks[piece.task].wcet += delays;
        let &Subtask { cpu, wcet, budget, deadline, .. } = piece;
        places[piece.task].push(PlacedPiece { cpu, wcet, budget, deadline });
    }
    let place = |pieces: Vec<PlacedPiece>| match pieces.as_slice() {
        [whole] => TaskPlacement::Cpus(vec![whole.cpu]),
        _ => TaskPlacement::Pieces(pieces),
    };
    TestAnswer {
        partition: Some(cpus),
        placement: Some(places.into_iter().map(place).collect()),
        charged: system.bill.map(|_| charges),
        ..TestAnswer::plain(Verdict::Schedulable)
    }
}

/// Tests EDF-os, which combines fixed tasks with tasks that change their CPU between jobs.
pub(super) fn edf_os(system: System<'_>) -> TestAnswer {
    let Some(assignment) = edf_os::assign(system) else {
        return TestAnswer::plain(soft::bounded(system));
    };
    let mut cpus = assignment.fixed;
    let mut places = TaskPlacement::of_bins(&cpus, |cpu| vec![cpu], system.tasks.len());
    for portions in assignment.cut.chunk_by(|a, b| a.task == b.task) {
        let share = |it: &edf_os::Portion| PlacedShare { cpu: it.cpu, share: it.share };
        places[portions[0].task] = TaskPlacement::Shares(portions.iter().map(share).collect());
    }
    for portion in assignment.cut {
        cpus[portion.cpu].push(portion.task);
    }
    TestAnswer {
        partition: Some(cpus),
        placement: Some(places),
        ..soft_bounds(system, edf_os::responses(system))
    }
}

/// Tests for bounded tardiness under global EDF: `U <= m` and each `u <= 1`.
pub(super) fn bounded_tardiness(system: System<'_>) -> TestAnswer {
    TestAnswer::plain(soft::bounded(system))
}

/// Computes Devi and Anderson's tardiness bounds.
pub(super) fn devi_anderson(system: System<'_>) -> TestAnswer {
    soft_bounds(system, tardiness::devi_anderson(system))
}

/// Computes compliant-vector tardiness bounds.
pub(super) fn compliant(system: System<'_>, points: compliant::Points) -> TestAnswer {
    soft_bounds(system, compliant::responses(system, points))
}

/// Builds the answer of a soft test. Without a bound on tardiness the answer is no.
fn soft_bounds(system: System<'_>, bounds: Option<Vec<Time>>) -> TestAnswer {
    match bounds {
        None => TestAnswer::plain(soft::bounded(system)),
        bounds => with_bounds(bounds),
    }
}

/// Runs the tests for global EDF, the cheap tests first. Tests that need D <= T run only if the set has such
/// deadlines.
pub(super) fn g_edf(system: System<'_>) -> TestAnswer {
    let one_cpu: &[&str] = if system.cpus == 1 { &["qpa"] } else { &[] };
    let several = ["gfb", "bak", "bcl-iterative", "rta", "bar", "load", "ff-dbf"];
    let charges = || charges_of(system, Payer::Deadlines);
    first_that_accepts(system, &[one_cpu, &several].concat()).unwrap_or_else(|| TestAnswer {
        charged: charges(),
        ..TestAnswer::unknown("no test for global EDF accepts")
    })
}

/// Runs the tests for global fixed priorities. Tests that need distinct priorities run only if the set has them.
pub(super) fn g_fp(system: System<'_>) -> TestAnswer {
    let one_cpu: &[&str] = if system.cpus == 1 { &["p-fp-rta"] } else { &[] };
    let several = ["g-fp-guan", "g-fp-bertogna", "g-fp-da-lc"];
    let charges = || charges_of(system, Payer::LowerPriority);
    first_that_accepts(system, &[one_cpu, &several].concat()).unwrap_or_else(|| TestAnswer {
        charged: charges(),
        ..TestAnswer::unknown("no test for global fixed priorities accepts")
    })
}

fn charges_of(system: System<'_>, payer: Payer) -> Option<Charges> {
    system.bill.map(|bill| bill.jobs(payer, system.cpus, system.tasks, &bill.resumed))
}

/// Returns the answer of the first test that accepts. `own-cpu` runs first, because no job is preempted or pays if
/// that test accepts.
fn first_that_accepts(system: System<'_>, names: &[&str]) -> Option<TestAnswer> {
    let unpreempted: &[&str] =
        if system.bill.is_none_or(|bill| bill.overheads.is_none()) { &["own-cpu"] } else { &[] };
    let names = unpreempted.iter().chain(names);
    let mut tests = names.filter_map(|name| super::test(name).ok());
    tests.find_map(|test| {
        let answer = test.run(system);
        let accepted = answer.verdict == Verdict::Schedulable;
        accepted.then_some(TestAnswer { accepted_by: Some(test.name), ..answer })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::Bill;
    use crate::{TaskParameters, TaskSet, test};
    use corehop_fixtures::task_sets::implicit;
    use corehop_plan::workload::blocks::{Footprint, Reload};

    fn run(name: &str, system: System<'_>) -> TestAnswer {
        test(name).unwrap().run(system)
    }

    #[test]
    fn fixed_priorities_are_packed_by_exact_responses_by_hand() {
        // By utilisation: 3 of 4, 40 of 80, then 10 of 40 and 5 of 20. Beside the first 10 + 3 ceil(w / 4) = 40: in time, and
        // the CPU is full. Beside the second 5 of 20 leave 40 + 5 ceil(w / 20) = 55.
        let set = implicit(2, &[(40, 80), (10, 40), (5, 20), (3, 4)]);
        let answer = run("p-fp-ffd", System::of(&set));
        assert_eq!(answer.partition, Some(vec![vec![3, 1], vec![0, 2]]));
        assert_eq!(answer.bounds, Some([55, 40, 5, 3].map(Time::new).to_vec()));
        // By utilisation alone the process set of Burns and Wellings (5 of 20, 10 of 40, 40 of 80) would fit with 41, too.
        let one = |long| implicit(1, &[(long, 80), (10, 40), (5, 20)]);
        for name in ["p-fp-ffd", "p-fp-bfd", "p-fp-wfd"] {
            assert_eq!(
                run(name, System::of(&one(40))).bounds,
                Some([80, 15, 5].map(Time::new).to_vec()),
                "{name}"
            );
            assert_eq!(run(name, System::of(&one(41))).verdict, Verdict::Unknown, "{name}");
        }
    }

    #[test]
    fn best_and_worst_fit_choose_by_utilisation() {
        // 5 and 3 of 10, then 2 of 10: beside the fuller one, or the emptier.
        let set = implicit(2, &[(5, 10), (6, 10), (2, 10)]);
        let bins = |name| run(name, System::of(&set)).partition.unwrap();
        assert_eq!(bins("p-fp-bfd"), [vec![1, 2], vec![0]]);
        assert_eq!(bins("p-fp-wfd"), [vec![1], vec![0, 2]]);
    }

    #[test]
    fn a_delay_moves_a_task_to_another_cpu() {
        // Each of the ten preemptions of 10 of 40 by 3 of 4 costs 1: that CPU has no room for it any more.
        let set = implicit(2, &[(20, 80), (10, 40), (5, 20), (3, 4)]);
        let bill = Bill {
            resumed: vec![Time::new(1); 4],
            moved: vec![Time::new(1); 4],
            overheads: None,
            own: false,
        };
        let answer = run("p-fp-ffd", System { bill: Some(&bill), ..System::of(&set) });
        // 5 of 20; 10 + (5 + 1); 20 + 2 (5 + 1) + (10 + 1) = 43 by 60: within the second of 10 of 40 as well, 20 + 3 (6) + 2 (11) = 60.
        assert_eq!(answer.partition, Some(vec![vec![3], vec![0, 1, 2]]));
        assert_eq!(answer.bounds, Some([60, 16, 5, 3].map(Time::new).to_vec()));
        let charges = answer.charged.unwrap();
        assert_eq!(charges.paid, [0, 1, 1, 0].map(Time::new));
        assert_eq!(charges.tasks[2].wcet(), Time::new(6));
    }

    #[test]
    fn blocks_are_charged_on_each_cpu() {
        // One preempter with blocks 1-4, one task that finds 3-7 useful, as in the test of one CPU: 17 + 2 (2 + 2) = 25.
        let task = |wcet, period, ucb: &str, ecb: &str| TaskParameters {
            wcet,
            period,
            footprint: Some(Footprint { ucb: ucb.parse().unwrap(), ecb: ecb.parse().unwrap() }),
            ..TaskParameters::default()
        };
        let given = [
            task(Time::new(2), Time::new(20), "", "1-4"),
            task(Time::new(17), Time::new(60), "3-7", "3-8"),
            task(Time::new(19), Time::new(20), "", "1"),
        ];
        let set = TaskSet::new(2, &given)
            .unwrap()
            .sharing(&given, Reload { time: Time::new(1), blocks: 1 });
        let set = set.unwrap();
        for name in ["p-fp-ffd", "p-fp-bfd", "p-fp-wfd"] {
            let answer = run(&format!("{name}-multiset-combined"), System::of(&set));
            assert_eq!(answer.bounds, Some([2, 25, 19].map(Time::new).to_vec()), "{name}");
            assert_eq!(run(name, System::of(&set)).verdict, Verdict::Unknown, "{name}");
        }
    }

    #[test]
    fn at_most_as_many_tasks_as_cpus_have_one_each() {
        let full = implicit(2, &[(10, 10), (10, 10)]);
        assert_eq!(run("own-cpu", System::of(&full)).verdict, Verdict::Schedulable);
        assert_eq!(run("bcl", System::of(&full)).verdict, Verdict::Unknown);
        let more = implicit(2, &[(1, 10), (1, 10), (1, 10)]);
        assert_eq!(run("own-cpu", System::of(&more)).verdict, Verdict::Unknown);
    }
}
