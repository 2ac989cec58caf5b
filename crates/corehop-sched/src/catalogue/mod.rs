// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists every schedulability test by name, with its purpose, assumptions, source and function.

mod cached_entries;
mod entries;
mod partitioned;
mod partitioned_entries;

pub use cached_entries::NO_PAIRS;

use super::bill::{Bill, Payer};
use super::chains;
use super::clusters;
use super::contents::{self, SetFeature};
use super::verdict::{TestAnswer, Verdict};
use crate::ranking::Ranking;
use crate::system::System;
use corehop_plan::platform::Platform;
use corehop_plan::words::edit_distance;
use corehop_plan::workload::Event;
use corehop_plan::workload::task::{Task, TaskSet, Time};

/// The answers that a test can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestExactness {
    /// An exact test answers yes or no.
    Exact,
    /// A sufficient test answers yes or unknown.
    Sufficient,
    /// A necessary test answers no or unknown.
    Necessary,
}

impl TestExactness {
    /// Returns the name of the kind, and the verdicts that a test of this kind can give, as text.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Exact => "exact: yes or no",
            Self::Sufficient => "sufficient: yes or unknown",
            Self::Necessary => "necessary: no or unknown",
        }
    }
}

/// The relative deadlines that a test accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadlines {
    /// Each deadline equals the period: D = T.
    Implicit,
    /// Each deadline is at most the period: D <= T.
    Constrained,
    /// Deadlines may be shorter or longer than the period.
    Arbitrary,
}

/// A schedulability test: its name, its assumptions and its function.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
#[derive(Debug)]
pub struct Test {
    /// The name of the test in options and answers.
    pub name: &'static str,
    /// The scheduler that the test analyses.
    pub scheduler: &'static str,
    /// The condition that the test checks, in the notation of the paper.
    pub title: &'static str,
    /// The answers that the test can give.
    pub kind: TestExactness,
    /// The deadlines that the test accepts. For a set with other deadlines the answer is unknown.
    pub deadlines: Deadlines,
    /// Whether the test applies to one CPU only.
    pub one_cpu: bool,
    /// The features of a set that the test handles beside C, T, D and priorities. For a set with other features the
    /// answer is unknown.
    pub knows: &'static [SetFeature],
    /// The interruptions that jobs suffer under the test's scheduler and that the test itself does not charge. A test
    /// that is necessary for every scheduler states [`Suffers::Nothing`], because some schedulers interrupt no job.
    pub suffers: Suffers,
    /// The way in which the test treats tasks that share a priority.
    pub equals: Equals,
    /// The jobs that pay for interruptions ([`bill`](super::bill)).
    pub payer: Payer,
    /// The way in which an operating system's overheads are charged to a set before the test runs.
    pub charging: Charging,
    /// Whether the test charges cache reloads by the cache blocks that tasks use.
    pub reloads: bool,
    /// Whether the test charges measured delays by pair of tasks, and nothing to jobs.
    pub by_pair: bool,
    /// Whether the test can analyse a CPU that is not available all of the time ([`supply`](super::supply)).
    pub supplied: bool,
    /// A variant of the test that charges the delays of preempted jobs in its own windows, if there is one. The
    /// delays follow the order of the tasks.
    in_windows: Option<fn(System<'_>, &[Time]) -> TestAnswer>,
    /// The further assumptions of the test.
    pub assumes: &'static [&'static str],
    /// The publication that the test comes from.
    pub citation: &'static str,
    run: fn(System<'_>) -> TestAnswer,
}

/// Returns every test.
pub fn all() -> impl Iterator<Item = &'static Test> + Clone {
    let cached = cached_entries::BY_BLOCKS.iter().flatten();
    let packed = partitioned_entries::PACKED.iter().flatten().flatten();
    let clustered = partitioned_entries::CLUSTERED.iter().flatten();
    let partitioned = packed.chain(partitioned_entries::PARTITIONED).chain(clustered);
    let all = entries::OTHERS.iter().chain(partitioned);
    all.chain(cached).chain(&cached_entries::BY_PAIRS)
}

/// The interruptions that a job can suffer under a scheduler after the job began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Suffers {
    /// No job is interrupted.
    Nothing,
    /// Jobs suffer preemptions.
    Preemptions,
    /// Jobs suffer preemptions, and migrations within clusters of this many CPUs.
    Within(u32),
    /// Jobs suffer preemptions, and migrations to any CPU.
    Everything,
}

/// The way in which a test treats tasks that share a priority. `SCHED_FIFO` never preempts a task of equal priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Equals {
    /// The test ignores the priorities of the set, or assigns its own.
    NotAsked,
    /// The test assumes that jobs of equal priority run in the order of their releases.
    Served,
    /// The test cannot decide sets in which tasks share a priority.
    NotKnown,
}

/// The assumption of every test that uses the priorities of the set.
const RANKS: &str = "Priorities are as stated; tasks of the same priority run in the order of their releases (SCHED_FIFO, not SCHED_RR). If none are stated, priorities are deadline-monotonic and distinct, with ties by index.";

/// The assumption of exact tests for shared priorities.
const EQUALS: &str =
    "If tasks share a priority, the test is exact if their deadlines are within their periods.";

/// The assumption of exact tests that charge blocking.
const BLOCKED: &str = "Blocking is a bound; if a task has blocking, the test is only sufficient.";

/// The way in which overheads are charged ([`overhead::system`](super::overhead::system)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Charging {
    /// Overheads are charged to each job, which pays for the preemption that it causes.
    JobLevel,
    /// Overheads are charged as tasks of the highest priority, and as jitter.
    FixedPriority,
    /// Overheads need no charge, because overheads cannot turn a no of this test into a yes.
    NotNeeded,
    /// No way is known to charge overheads for this test.
    NotKnown,
}

/// The fields that most tests share.
const BASE: Test = Test {
    name: "",
    scheduler: "global EDF",
    title: "",
    kind: TestExactness::Sufficient,
    deadlines: Deadlines::Constrained,
    one_cpu: false,
    knows: &[],
    suffers: Suffers::Everything,
    equals: Equals::NotAsked,
    payer: Payer::Others,
    charging: Charging::JobLevel,
    reloads: false,
    by_pair: false,
    supplied: false,
    in_windows: None,
    assumes: &[],
    citation: "",
    run: |_| TestAnswer::plain(Verdict::Unknown),
};

/// The fields that tests for global EDF share.
const G_EDF: Test = Test { payer: Payer::Deadlines, ..BASE };

/// The fields that tests for EDF on one CPU share.
const ONE_EDF: Test = Test {
    scheduler: "EDF on one CPU",
    one_cpu: true,
    suffers: Suffers::Preemptions,
    payer: Payer::LaterDeadline,
    ..BASE
};

/// The fields that tests for fixed priorities on one CPU share.
const ONE_FP: Test = Test {
    scheduler: "fixed priorities on one CPU",
    one_cpu: true,
    equals: Equals::Served,
    suffers: Suffers::Preemptions,
    payer: Payer::LowerPriority,
    charging: Charging::NotKnown,
    ..BASE
};

/// The fields that tests for global fixed priorities share.
const G_FP: Test = Test {
    scheduler: "global fixed priorities",
    equals: Equals::NotKnown,
    payer: Payer::LowerPriority,
    charging: Charging::NotKnown,
    ..BASE
};

/// The fields that tests for partitioned EDF share.
const P_EDF: Test = Test {
    scheduler: "partitioned EDF",
    suffers: Suffers::Preemptions,
    payer: Payer::EachGroup,
    ..BASE
};

/// The fields that partitioned tests by processor demand share.
const P_EDF_QPA: Test =
    Test { knows: contents::MOST, deadlines: Deadlines::Arbitrary, supplied: true, ..P_EDF };

/// The fields that tests for partitioned fixed priorities share.
const P_FP: Test = Test {
    scheduler: "partitioned fixed priorities",
    equals: Equals::Served,
    suffers: Suffers::Preemptions,
    payer: Payer::Affected,
    charging: Charging::FixedPriority,
    knows: contents::MOST,
    ..BASE
};

/// The fields that tests with reloads by cache blocks share.
const CACHED: Test = Test {
    suffers: Suffers::Nothing,
    payer: Payer::NoJob,
    charging: Charging::NotKnown,
    reloads: true,
    ..BASE
};

/// The refusal of a test without reloads for a set that states its cache blocks.
const IGNORES_RELOADS: &str = "the test accepts the set, but the set states the cache blocks of its tasks (ucb, ecb), and this test does not charge reloads: use a test that does (`multiset-combined`), or charge a delay with --delay or --costs";

/// The assumption of tests that model locks and suspension.
const HELD_UP: &str = "Tasks are sporadic. Jobs wait for each other only at the stated locks, and suspend themselves at most for the stated times.";

/// A further assumption of tests that model locks and suspension.
const SECTIONS: &str = "The length of a section includes nested sections. Under pi sections are not nested, and a released lock has no owner until a waiter runs (as with rt_mutex).";

/// A further assumption of tests that model locks and suspension under EDF.
const BY_DEADLINE: &str = "The deadline and the priority of a job count from its arrival. At most one section (blocking_us) blocks the jobs of a busy interval, as under srp.";

/// The assumptions of every test.
const ALWAYS: [&str; 2] = [
    "Time is integer: releases and execution times are multiples of the unit.",
    "Overheads are negligible, or charged in the execution times.",
];

impl Test {
    /// Returns the assumptions of the verdict, in printing order.
    pub fn assumptions(&self) -> Vec<&'static str> {
        let deadlines = match self.deadlines {
            Deadlines::Implicit => Some("Deadlines are periods."),
            Deadlines::Constrained => Some("Deadlines are within periods."),
            Deadlines::Arbitrary => None,
        };
        let knows = |content| self.knows.contains(&content);
        let jitter =
            (!knows(SetFeature::Jitter)).then_some("There is no release jitter and no blocking.");
        let tasks = match knows(SetFeature::Locks) {
            true if self.scheduler.contains("EDF") => [HELD_UP, SECTIONS, BY_DEADLINE].as_slice(),
            true => &[HELD_UP, SECTIONS],
            false => &[
                "Tasks are sporadic and independent: no job waits for another job, or suspends itself.",
            ],
        };
        let cpus = (!self.one_cpu).then_some("The CPUs are identical.");
        let own = self.assumes.iter().copied();
        let always = tasks.iter().copied().chain(ALWAYS);
        always.chain(deadlines).chain(jitter).chain(cpus).chain(own).collect()
    }

    /// Returns the events that may cost a job its delay on `cpus` CPUs under the test's scheduler, nearest first.
    /// `platform` says which migrations are possible between its first `cpus` CPUs, and which of them stay within a
    /// cluster. Without a platform all migrations count.
    pub fn events(&self, platform: Option<&Platform>, cpus: u32) -> Vec<Event> {
        let all = Event::RESUMING;
        let reached = match self.suffers {
            Suffers::Nothing => 0,
            // From one CPU no job gets to another one.
            _ if cpus == 1 => 1,
            Suffers::Preemptions => 1,
            Suffers::Everything => all.len(),
            Suffers::Within(size) => {
                let sizes = platform.map(clusters::sizes).unwrap_or_default();
                let cache = sizes.iter().find(|&&(it, _)| it == size);
                cache.map_or(all.len(), |&(_, level)| (level as usize).clamp(1, 3) + 1)
            }
        };
        let there = platform.map(|platform| Event::among_first(platform, cpus as usize));
        let reached = all[..reached].iter().copied();
        reached.filter(|it| there.as_ref().is_none_or(|there| there.contains(it))).collect()
    }

    /// Runs the test on a system, including its charges.
    pub fn run(&self, system: System<'_>) -> TestAnswer {
        if let Some(why) = self.refusal(system) {
            return TestAnswer::unknown(why);
        }
        let answer = match system.bill {
            Some(bill) if self.charges_a_whole_set() => self.run_charged(system, bill),
            _ => (self.run)(system),
        };
        if system.cache.is_some() && self.ignores_reloads() && answer.verdict.is_schedulable() {
            return TestAnswer::unknown(IGNORES_RELOADS);
        }
        if let (Verdict::Schedulable, Some(resource)) = (answer.verdict, torn(system, &answer)) {
            return TestAnswer::unknown(format!(
                "the test accepts the set, but tasks on several CPUs use `{resource}`, and locks across CPUs have no known bound"
            ));
        }
        let answer = chains::judged(system, self.is_soft(), answer);
        match misplaced(system, &answer) {
            Some(at) if answer.verdict.is_schedulable() => TestAnswer::unknown(format!(
                "the test accepts the set, but not with task {at} on the CPUs that the set states (`cpus`, `pieces`, `shares`)"
            )),
            _ => answer,
        }
    }

    /// Whether the test can analyse jobs that are released later than the jobs after them. The test knows release
    /// jitter for fixed priorities, and for EDF with jobs that stay on one CPU and are judged by their demand alone.
    pub fn knows_release_jitter(&self) -> bool {
        match self.charging {
            Charging::FixedPriority | Charging::NotNeeded => true,
            Charging::JobLevel => {
                self.suffers == Suffers::Preemptions && self.payer != Payer::EachPiece
            }
            Charging::NotKnown => false,
        }
    }

    /// Whether the test's scheduler preempts no job of `set`, because there are at most as many tasks as CPUs on one
    /// shared queue.
    pub(super) fn leaves_jobs_alone(&self, set: &TaskSet) -> bool {
        let by_itself = [Payer::EachGroup, Payer::Affected, Payer::EachPiece];
        let one_queue = self.suffers == Suffers::Everything && !by_itself.contains(&self.payer);
        one_queue && set.tasks().len() <= set.cpus() as usize
    }

    /// Whether the test charges less than "every job pays for all others" if the preempted jobs are known.
    pub(super) fn charges_victims(&self) -> bool {
        self.in_windows.is_some()
            || matches!(self.payer, Payer::Deadlines | Payer::EachTest)
            || matches!(self.suffers, Suffers::Within(_)) && !self.is_soft()
    }

    /// Whether the charge to a job is independent of the assignment that the test finds.
    fn charges_a_whole_set(&self) -> bool {
        let by_itself = [Payer::EachTest, Payer::EachGroup, Payer::Affected, Payer::EachPiece];
        self.charging != Charging::NotNeeded && !by_itself.contains(&self.payer)
    }

    fn run_charged(&self, system: System<'_>, bill: &Bill) -> TestAnswer {
        let charges = bill.jobs(self.payer, system.cpus, system.tasks, &bill.resumed);
        let mut answer = (self.run)(System { tasks: &charges.tasks, bill: None, ..system });
        if answer.verdict == Verdict::Unknown
            && let Some(by_window) = self.run_in_windows(system, bill)
        {
            let charges = charges.within(system.tasks, by_window.bounds.as_deref());
            return TestAnswer { charged: Some(charges), ..by_window };
        }
        for bound in answer.bounds.iter_mut().flatten() {
            *bound += bill.latency();
        }
        TestAnswer { charged: Some(charges), ..answer }
    }

    /// Runs the variant with delays in the test's own windows; returns its answer only if that answer is yes.
    fn run_in_windows(&self, system: System<'_>, bill: &Bill) -> Option<TestAnswer> {
        let run = self.in_windows.filter(|_| bill.overheads.is_none() && !bill.own)?;
        let answer = run(System { bill: None, ..system }, &bill.resumed);
        answer.verdict.is_schedulable().then_some(answer)
    }

    /// Whether jobs are preempted under the test's scheduler while the test ignores their lost cache contents.
    fn ignores_reloads(&self) -> bool {
        !self.reloads && self.suffers != Suffers::Nothing
    }

    /// The reason why the test cannot decide the system, or `None` if the test can.
    pub(super) fn refusal(&self, system: System<'_>) -> Option<String> {
        let which = |wrong: fn(&Task) -> bool| system.tasks.iter().position(wrong);
        if system.supply.is_some() && !self.supplied {
            return Some(takes_no_supply());
        }
        if self.one_cpu && system.cpus != 1 {
            return Some(format!("the test applies to one CPU, but the set has {}", system.cpus));
        }
        let beyond = match self.deadlines {
            Deadlines::Implicit => which(|task| task.deadline != task.period).map(|at| (at, "not")),
            Deadlines::Constrained => {
                which(|task| task.deadline > task.period).map(|at| (at, "beyond"))
            }
            Deadlines::Arbitrary => None,
        };
        if let Some((at, how)) = beyond {
            return Some(format!("the deadline of task {at} is {how} its period"));
        }
        if let (Equals::NotKnown, Some((one, other))) =
            (self.equals, Ranking::of(system.tasks).tie())
        {
            return Some(format!(
                "tasks {one} and {other} have the same priority, which the test does not support: use distinct priorities, or p-fp-rta, p-fp-ffd or g-fp-bertogna"
            ));
        }
        contents::refusal(self, system)
    }
}

/// The refusal of `--supply` by a test that assumes CPUs that are available all of the time.
fn takes_no_supply() -> String {
    let takes: Vec<_> = all().filter(|test| test.supplied).map(|test| test.name).collect();
    format!("the test does not support --supply; tests that support it are {}", takes.join(", "))
}

/// A resource that tasks on different CPUs would share if the tasks ran as this answer assigns them.
fn torn<'a>(system: System<'a>, answer: &TestAnswer) -> Option<&'a str> {
    let locks = system.locks?;
    let resource = locks.shared_across(answer.partition.as_ref()?)?;
    Some(&locks.names[resource])
}

/// The first task whose CPU in the answer differs from its CPU in the set.
fn misplaced(system: System<'_>, answer: &TestAnswer) -> Option<usize> {
    let by_bins = || answer.partition.as_ref().map(|bins| system.places_of(bins));
    let places = answer.placement.clone().or_else(by_bins);
    system.first_misplaced(places.as_deref())
}

/// The error for a name that no test has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown test `{name}`; the nearest names are: {nearest}; `all` runs every test")]
pub struct UnknownTest {
    /// The requested name, which no test has.
    pub name: String,
    /// Names of tests that are spelled similarly.
    pub nearest: String,
}

/// Returns the test of this name.
///
/// # Errors
/// Returns [`UnknownTest`], with the names of similar tests, if no test has this name.
pub fn test(name: &str) -> Result<&'static Test, UnknownTest> {
    all().find(|test| test.name == name).ok_or_else(|| {
        let mut near: Vec<_> =
            all().map(|test| (edit_distance(test.name, name), test.name)).collect();
        near.sort_unstable();
        let nearest: Vec<_> = near.into_iter().take(4).map(|(_, name)| name).collect();
        UnknownTest { name: name.to_owned(), nearest: nearest.join(", ") }
    })
}

/// Builds an answer: a verdict and the bounds on response times, if the test found them.
fn with_bounds(bounds: Option<Vec<Time>>) -> TestAnswer {
    bounds.map_or_else(
        || TestAnswer::plain(Verdict::Unknown),
        |bounds| TestAnswer::bounded(Verdict::Schedulable, bounds),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_fixtures::task_sets::{implicit, set};
    use corehop_plan::workload::task::TaskParameters;

    #[test]
    fn names_are_unique_and_every_test_says_where_it_comes_from() {
        for (at, test) in all().enumerate() {
            assert!(all().take(at).all(|other| other.name != test.name), "{}", test.name);
            assert!(test.citation.chars().any(|c| c.is_ascii_digit()), "{}", test.name);
            assert!(test.assumptions().len() >= 4, "{}", test.name);
        }
    }

    #[test]
    fn a_test_that_takes_priorities_states_its_treatment_of_equals() {
        for test in all() {
            let takes = test.assumes.contains(&RANKS);
            assert_eq!(takes, test.equals != Equals::NotAsked, "{}", test.name);
        }
    }

    #[test]
    fn every_test_answers_where_periods_differ_by_twelve_digits() {
        let set = set(
            1,
            &[(1, 3, 2), (1, 3, 3), (366_503_875_925, 1_099_511_627_775, 1_099_511_627_775)],
        );
        for name in ["rta", "g-edf", "g-fp-guan", "g-fp-bertogna", "g-np-edf", "edf-rta", "qpa"] {
            let verdict = test(name).unwrap().run(System::of(&set)).verdict;
            assert_ne!(verdict, Verdict::Unschedulable, "{name}");
        }
    }

    #[test]
    fn equals_are_served_by_release_or_refused_by_name() {
        let task = |wcet, period| TaskParameters {
            wcet: Time::new(wcet),
            period: Time::new(period),
            priority: Some(10),
            ..TaskParameters::default()
        };
        let set = TaskSet::new(1, &[task(1_000, 5_000), task(20_000, 100_000)]).unwrap();
        for test in all().filter(|test| test.equals != Equals::NotAsked) {
            let answer = test.run(System::of(&set));
            assert_ne!(answer.verdict, Verdict::Schedulable, "{}", test.name);
            if test.equals == Equals::NotKnown {
                assert!(answer.why.unwrap().contains("tasks 0 and 1"), "{}", test.name);
            }
        }
        assert_eq!(test("p-fp-rta").unwrap().run(System::of(&set)).verdict, Verdict::Unschedulable);
        // An order that is assigned has no equals.
        assert_eq!(
            test("p-fp-audsley").unwrap().run(System::of(&set)).verdict,
            Verdict::Schedulable
        );
    }

    #[test]
    fn a_name_that_is_mistyped_is_answered_with_what_is_near() {
        let error = test("g-fp-gaun").unwrap_err().to_string();
        assert!(error.contains("g-fp-guan"), "{error}");
        assert_eq!(test("gfb").unwrap().name, "gfb");
    }

    #[test]
    fn a_scheduler_suffers_what_it_lets_happen() {
        for (name, suffers) in [
            ("np-edf", Suffers::Nothing),
            ("g-np-fp", Suffers::Nothing),
            ("qpa", Suffers::Preemptions),
            ("p-edf-ffd", Suffers::Preemptions),
            ("c-edf-6", Suffers::Within(6)),
            ("soft-c-edf-2", Suffers::Within(2)),
            ("sp-edf-c=d", Suffers::Everything),
            ("sp-edf-os", Suffers::Preemptions),
            ("edf-ucb-union", Suffers::Nothing),
            ("rta", Suffers::Everything),
        ] {
            assert_eq!(test(name).unwrap().suffers, suffers, "{name}");
        }
    }

    #[test]
    fn a_test_says_why_it_does_not_tell() {
        let two = implicit(2, &[(1, 2)]);
        let answer = test("qpa").unwrap().run(System::of(&two));
        assert_eq!(answer.verdict, Verdict::Unknown);
        assert_eq!(answer.why.unwrap(), "the test applies to one CPU, but the set has 2");
        let long = set(2, &[(1, 2, 2), (1, 2, 3)]);
        let answer = test("rta").unwrap().run(System::of(&long));
        assert_eq!(answer.why.unwrap(), "the deadline of task 1 is beyond its period");
    }

    #[test]
    fn a_sufficient_test_never_says_no_and_a_necessary_one_never_yes() {
        let sets = [
            implicit(1, &[(1, 2)]),
            implicit(1, &[(2, 3), (2, 3)]),
            implicit(2, &[(1, 10), (1, 10), (11, 11)]),
            set(1, &[(3, 9, 2)]),
        ];
        for test in all() {
            for set in &sets {
                let verdict = test.run(System::of(set)).verdict;
                match test.kind {
                    TestExactness::Exact => {}
                    TestExactness::Sufficient => {
                        assert_ne!(verdict, Verdict::Unschedulable, "{}", test.name);
                    }
                    TestExactness::Necessary => {
                        assert_ne!(verdict, Verdict::Schedulable, "{}", test.name);
                    }
                }
            }
        }
    }
}
