// SPDX-License-Identifier: MIT OR Apache-2.0
//! The features of sets beside C, T, D and priorities, and the tests that handle each feature. A test that does not
//! handle a feature of a set answers `unknown`.

use super::catalogue::{Charging, Equals, Test};
use super::ranking::Ranking;
use super::system::System;
use corehop_plan::workload::locks::Locking;
use corehop_plan::workload::task::{Task, Time};

/// A feature of a set that makes jobs wait, or be released late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetFeature {
    /// Jobs are released later than they arrive.
    Jitter,
    /// Jobs of lower priority delay other jobs for a stated time.
    Blocking,
    /// Jobs suspend themselves.
    Suspension,
    /// Jobs wait for each other at locks.
    Locks,
    /// The end of a job activates another task.
    Events,
}

/// The features that most tests of one CPU and of partitioned sets handle.
pub(super) const MOST: &[SetFeature] =
    &[SetFeature::Jitter, SetFeature::Blocking, SetFeature::Suspension, SetFeature::Locks];

/// The features that tests for fixed priorities handle if the set states the CPU of each task.
pub(super) const ALL: &[SetFeature] = &[
    SetFeature::Jitter,
    SetFeature::Blocking,
    SetFeature::Suspension,
    SetFeature::Locks,
    SetFeature::Events,
];

/// The features that a test without preemption handles.
pub(super) const STATED: &[SetFeature] = &[SetFeature::Jitter, SetFeature::Blocking];

impl SetFeature {
    /// A clause that names the field of the first task with this feature.
    fn of_task(self, at: usize) -> String {
        match self {
            Self::Jitter | Self::Blocking => format!("task {at} has jitter or blocking"),
            Self::Suspension => format!("task {at} suspends itself (`suspension_us`)"),
            Self::Locks => format!("task {at} has critical sections (`locks`)"),
            Self::Events => format!("task {at} is activated by a task of its chain (`chains`)"),
        }
    }
}

/// The features of a system, each with the first task that has it. Every new field of a task or of a system must be
/// added to this function.
fn contents(system: System<'_>) -> Vec<(SetFeature, usize)> {
    let System {
        cpus: _,
        tasks,
        cache: _,
        bill: _,
        pairs: _,
        placement: _,
        clusters: _,
        supply: _,
        locks,
        chains,
    } = system;
    // A chain whose tasks have timers of their own is judged by the responses of a test.
    let activated = chains.and_then(|it| (0..tasks.len()).find(|&at| it.activator(at).is_some()));
    let holding = locks.and_then(|it| it.sections.iter().position(|own| !own.is_empty()));
    let of_tasks = tasks.iter().enumerate().flat_map(|(at, task)| {
        let &Task { wcet: _, period: _, deadline: _, jitter, blocking, suspension, priority: _ } =
            task;
        let all = [
            (SetFeature::Jitter, jitter),
            (SetFeature::Blocking, blocking),
            (SetFeature::Suspension, suspension),
        ];
        all.into_iter().filter(|it| it.1 > Time::ZERO).map(move |(content, _)| (content, at))
    });
    let mut found: Vec<(SetFeature, usize)> = Vec::new();
    let others = [(SetFeature::Locks, holding), (SetFeature::Events, activated)];
    let others = others.into_iter().filter_map(|(content, at)| Some((content, at?)));
    for (content, at) in of_tasks.chain(others) {
        if found.iter().all(|it| it.0 != content) {
            found.push((content, at));
        }
    }
    found
}

/// The reason why a test cannot decide a system because of the system's features, or `None` if it can.
pub(super) fn refusal(test: &Test, system: System<'_>) -> Option<String> {
    let contents = contents(system);
    if contents.is_empty() {
        return None;
    }
    if let Some((content, at)) = contents.iter().find(|(content, _)| !test.knows.contains(content))
    {
        return Some(format!("{}, which the test does not charge", content.of_task(*at)));
    }
    if test.charging == Charging::NotNeeded {
        return None;
    }
    let less = |(content, _): &&(SetFeature, usize)| {
        system.supply.is_some() && matches!(content, SetFeature::Suspension | SetFeature::Events)
    };
    if let Some((content, at)) = contents.iter().find(less) {
        return Some(format!(
            "{}, which the test does not charge with --supply",
            content.of_task(*at)
        ));
    }
    let has = |content| contents.iter().find(|it| it.0 == content).map(|it| it.1);
    let late = has(SetFeature::Events)
        .and_then(|at| activated(test, system, at, has(SetFeature::Suspension)));
    late.or_else(|| {
        has(SetFeature::Suspension)
            .and_then(|at| suspended(test, system, at, has(SetFeature::Locks).is_some()))
    })
    .or_else(|| has(SetFeature::Locks).and_then(|at| locked(test, system, at)))
}

/// The reason why a test cannot decide a system in which another task activates task `at`.
fn activated(
    test: &Test,
    system: System<'_>,
    at: usize,
    suspended: Option<usize>,
) -> Option<String> {
    if let Some(other) = suspended {
        return Some(format!(
            "task {other} suspends itself, and task {at} is activated by a task of its chain: such sets are not analysed"
        ));
    }
    tie(test, system).map(|(one, other)| {
        format!("task {at} is activated by a task of its chain, and tasks {one} and {other} have the same priority: use distinct priorities")
    })
}

/// The reason why a test cannot decide a system whose task `at` suspends itself.
fn suspended(test: &Test, system: System<'_>, at: usize, locks: bool) -> Option<String> {
    if locks {
        return Some(format!(
            "task {at} suspends itself, and tasks have locks: a job can find a lock taken each time it resumes, and the set does not state how often it resumes"
        ));
    }
    let late = system.tasks.iter().position(|task| task.deadline > task.period);
    if let Some(late) = late {
        return Some(format!(
            "task {at} suspends itself, and the deadline of task {late} is beyond its period: such sets are not analysed"
        ));
    }
    tie(test, system).map(|(one, other)| {
        format!(
            "task {at} suspends itself, and tasks {one} and {other} have the same priority: use distinct priorities"
        )
    })
}

/// The reason why a test cannot decide a system whose task `at` has critical sections.
fn locked(test: &Test, system: System<'_>, at: usize) -> Option<String> {
    let protocol = system.locks?.protocol;
    if let Some((one, other)) = tie(test, system) {
        return Some(format!(
            "task {at} has locks, and tasks {one} and {other} have the same priority: use distinct priorities"
        ));
    }
    if test.scheduler.contains("EDF") {
        if protocol != Locking::Srp {
            return Some(format!(
                "locks under EDF are analysed by the stack resource policy (\"locking\": \"srp\"), and the set states \
                 \"{protocol}\""
            ));
        }
        if let Some(late) = system.tasks.iter().position(|task| task.jitter > Time::ZERO) {
            return Some(format!(
                "task {at} has locks and task {late} has jitter: the stack resource policy defines no order for jobs that are released late"
            ));
        }
    }
    None
}

/// Two tasks that share a priority and can run on one CPU, for a test that uses the priorities of the set.
fn tie(test: &Test, system: System<'_>) -> Option<(usize, usize)> {
    if test.equals == Equals::NotAsked {
        return None;
    }
    let meet = |a: usize, b: usize| {
        let on = |at: usize, cpu: &usize| {
            system.placement.is_none_or(|all| all[at].cpus().contains(cpu))
        };
        system.placement.is_none_or(|all| all[a].cpus().iter().any(|cpu| on(b, cpu)))
    };
    let ranking = Ranking::of(system.tasks);
    ranking.levels().find_map(|level| {
        let pairs = level
            .iter()
            .enumerate()
            .flat_map(|(at, &a)| level[at + 1..].iter().map(move |&b| (a, b)));
        pairs.into_iter().find(|&(a, b)| meet(a, b))
    })
}

/// The reason why delays or overheads cannot be charged for a test: the charge covers one event, but a feature of the
/// system allows several.
pub(super) fn not_charged(
    test: &Test,
    system: System<'_>,
    overheads: bool,
    each: bool,
) -> Option<String> {
    let contents = contents(system);
    let has = |wanted| contents.iter().find(|it| it.0 == wanted).map(|it| it.1);
    if let Some(at) = has(SetFeature::Suspension) {
        return Some(format!(
            "task {at} suspends itself, and loses its cache contents each time; the set does not state how often, so no delay can be charged"
        ));
    }
    if let (Some(at), Some(Locking::Pi)) =
        (has(SetFeature::Locks), system.locks.map(|it| it.protocol))
    {
        return Some(format!(
            "task {at} has locks with priority inheritance: a waiting job loses its cache contents, and the set does not state how often a job waits, so no delay can be charged (\"locking\": \"pcp\" has no such waits)"
        ));
    }
    if let (Some(at), false) = (has(SetFeature::Events), each && !overheads) {
        return Some(format!(
            "task {at} is activated by a task of its chain: only one delay per job can be charged there (--delay)"
        ));
    }
    let (content, at) =
        contents.first().filter(|_| overheads && test.charging == Charging::JobLevel)?;
    Some(format!("{}, for which overheads cannot be charged under EDF", content.of_task(*at)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{TestExactness, all};
    use crate::verdict::Verdict;
    use corehop_plan::workload::set_file::parse;
    use corehop_plan::workload::task::TaskSet;

    /// Each feature with a set that has only that feature, for a test: two tasks that leave much slack.
    fn sets(test: &Test, much: bool) -> Vec<(SetFeature, TaskSet)> {
        let of = |content| {
            let edf = test.scheduler.contains("EDF");
            // So much that no task with a deadline of 100 can bear it.
            let time = if much { 1_000 } else { 1 };
            let (set, first, second) = match content {
                SetFeature::Jitter => {
                    (String::new(), format!(r#", "jitter_us": {time}"#), String::new())
                }
                SetFeature::Blocking => {
                    (String::new(), format!(r#", "blocking_us": {time}"#), String::new())
                }
                SetFeature::Suspension => {
                    (String::new(), format!(r#", "suspension_us": {time}"#), String::new())
                }
                SetFeature::Locks => {
                    let lock = |longest: u64| {
                        format!(r#", "locks": [{{"resource": "r", "longest_us": {longest}}}]"#)
                    };
                    let locking = if edf { "srp" } else { "pi" };
                    (
                        format!(r#", "locking": "{locking}""#),
                        lock(1),
                        lock(if much { 150 } else { 1 }),
                    )
                }
                SetFeature::Events => {
                    let chain = r#"{"name": "c", "tasks": ["a", "b"], "activation": "event", "deadline_us": 9000}"#;
                    let first = if much { r#", "jitter_us": 99"# } else { "" };
                    (format!(r#", "chains": [{chain}]"#), first.to_owned(), String::new())
                }
            };
            let period = if content == SetFeature::Events { 100 } else { 1_000 };
            let wcet = if much && content == SetFeature::Locks { 150 } else { 10 };
            let place = if test.name.ends_with("-given") { r#", "cpus": [0]"# } else { "" };
            let text = format!(
                r#"{{"cpus": 1{set}, "tasks": [
                {{"name": "a", "wcet_us": 10, "period_us": 100, "priority": 1{place}{first}}},
                {{"name": "b", "wcet_us": {wcet}, "period_us": {period}, "priority": 2{place}{second}}}]}}"#
            );
            (content, parse(&text).expect(&text))
        };
        ALL.iter().map(|&content| of(content)).collect()
    }

    #[test]
    fn a_test_that_does_not_know_what_a_set_contains_says_so() {
        for test in all() {
            for (content, set) in sets(test, false) {
                let answer = test.run(System::of(&set));
                if !test.knows.contains(&content) {
                    assert_eq!(answer.verdict, Verdict::Unknown, "{} {content:?}", test.name);
                    let why = answer.why.unwrap_or_default();
                    let refused = why.contains("which the test does not charge");
                    let elsewhere = test.deadlines == crate::catalogue::Deadlines::Implicit;
                    assert!(refused || elsewhere, "{} {content:?}: {why}", test.name);
                } else if test.kind != TestExactness::Necessary {
                    assert_eq!(
                        answer.verdict,
                        Verdict::Schedulable,
                        "{} {content:?}: {:?}",
                        test.name,
                        answer.why
                    );
                }
            }
        }
    }

    #[test]
    fn a_test_that_knows_of_something_charges_it() {
        for test in all() {
            for (content, set) in sets(test, true).iter().filter(|it| test.knows.contains(&it.0)) {
                let verdict = test.run(System::of(set)).verdict;
                assert_ne!(verdict, Verdict::Schedulable, "{} {content:?}", test.name);
            }
        }
    }

    #[test]
    fn no_delay_is_charged_once_to_what_happens_more_often() {
        use crate::charge::{ChargedSet, DelayCharge};
        let asked = |test: &Test, content| {
            let (_, set) = sets(test, false).into_iter().find(|it| it.0 == content).unwrap();
            let mut charged = ChargedSet::new(&set, None, DelayCharge::Each(Time::new(1)), None);
            charged.ask(test).unwrap().answer
        };
        let named = |name| crate::catalogue::test(name).unwrap();
        for name in ["qpa", "p-fp-rta", "p-fp-audsley", "p-edf-ffd-qpa", "p-fp-ffd"] {
            let why = asked(named(name), SetFeature::Suspension).why.unwrap();
            assert!(why.contains("no delay can be charged"), "{name}: {why}");
        }
        let why = asked(named("p-fp-rta"), SetFeature::Locks).why.unwrap();
        assert!(why.contains("priority inheritance"), "{why}");
        // Under the stack resource policy no job waits once it began.
        assert_eq!(asked(named("qpa"), SetFeature::Locks).verdict, Verdict::Schedulable);
    }
}
