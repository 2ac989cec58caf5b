// SPDX-License-Identifier: MIT OR Apache-2.0
//! The default question about a set: are all deadlines met under its scheduler, with its priorities and on its CPUs?
//!
//! If a set states no scheduler, partitioned fixed priorities are assumed for a set with priorities, and partitioned
//! EDF otherwise. The tests for that scheduler run in turn until one decides. Tests of other schedulers do not run.

use super::answer_json::answer_json;
use super::catalogue::{Suffers, Test, all, test};
use super::charge::{AS_CHARGED, ChargedAnswer, ChargedSet};
use super::sentence::{called, sentence, with_bounds};
use super::verdict::{TestAnswer, Verdict};
use crate::System;
use corehop_plan::platform::{self, Platform};
use corehop_plan::units::CpuList;
use corehop_plan::workload::locks::Locking;
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::task::{Task, TaskError, TaskSet, Time};

/// The reason why a rejection of deadline-ordered priorities does not reject a set without priorities.
const OTHER_ORDERS: &str = "the test rejects the priorities by deadline, but with deadlines beyond periods, jitter or blocking another order can be better: state the `priority` of each task";

/// The question whether a set meets all deadlines under a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedulabilityQuestion {
    /// The scheduler of the question.
    pub scheduler: Scheduler,
    /// Whether the scheduler is assumed because neither the set nor an option names one.
    pub assumed: bool,
}

/// The answer to the question of a set.
#[derive(Debug)]
pub struct Answered {
    /// The test that decided, or the last test that ran.
    pub test: &'static Test,
    /// The answer of that test.
    pub asked: ChargedAnswer,
    /// The answer as a sentence.
    pub sentence: String,
}

/// The reason why a question cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoQuestion(String);

/// The remark for a set for which partitioned EDF is assumed.
const NOTHING_STATED: &str = "assumed: the set states no scheduler";

/// The reason why fixed priorities are assumed for a set: the set's locks need a fixed-priority scheduler. Returns
/// `None` for other sets.
fn by_priority(set: &TaskSet) -> Option<&'static str> {
    match set.locks()?.protocol {
        Locking::Srp => None,
        Locking::Pcp => Some("assumed: the set states locking pcp and no scheduler"),
        Locking::Pi => Some("assumed: the set states locking pi and no scheduler"),
    }
}

/// Whether the set states priorities.
fn has_priorities(set: &TaskSet) -> bool {
    set.tasks().iter().any(|task| task.priority().is_some())
}

impl SchedulabilityQuestion {
    /// The question about a set under the `named` scheduler, or else under the set's own scheduler.
    pub fn of(set: &TaskSet, named: Option<Scheduler>) -> Self {
        let stated = named.or(set.scheduler());
        let fixed = has_priorities(set) || by_priority(set).is_some();
        let assumed = if fixed { Scheduler::PFp } else { Scheduler::PEdf };
        Self { scheduler: stated.unwrap_or(assumed), assumed: stated.is_none() }
    }

    /// Returns the scheduler in words, with the assumptions of the question: a scheduler or priorities that the set
    /// does not state. `order` is a priority order that the answer found.
    pub fn under(self, set: &TaskSet, order: Option<&[usize]>) -> String {
        let words = match self.scheduler {
            Scheduler::PEdf => "partitioned EDF",
            Scheduler::PFp => "partitioned fixed priorities",
            Scheduler::GEdf => "global EDF",
            Scheduler::GFp => "global fixed priorities",
            Scheduler::CEdf => "clustered EDF",
            Scheduler::Eevdf => "the kernel's fair scheduler",
            Scheduler::SchedExt => "a scheduler of sched_ext",
        };
        let ranked = has_priorities(set);
        let by_us = self.assigns_priorities(set).then(|| match order {
            None => "priorities by deadline, because the set states none".to_owned(),
            Some(order) => {
                format!(
                    "priorities in the order {}, because the set states none",
                    listed(set, order)
                )
            }
        });
        let notes = [
            (self.assumed && ranked)
                .then_some("assumed: the set states priorities and no scheduler"),
            (self.assumed && !ranked).then(|| by_priority(set).unwrap_or(NOTHING_STATED)),
            by_us.as_deref(),
        ];
        let notes: Vec<&str> = notes.into_iter().flatten().collect();
        if notes.is_empty() { words.to_owned() } else { format!("{words} ({})", notes.join("; ")) }
    }

    /// Returns the tests that can answer the question, in the order in which they run.
    ///
    /// # Errors
    /// Returns [`NoQuestion`] if the clusters of clustered EDF are not known.
    pub fn tests(
        self,
        set: &TaskSet,
        platform: Option<&Platform>,
    ) -> Result<Vec<&'static Test>, NoQuestion> {
        let one_cpu = set.cpus() == 1;
        let names: Vec<String> = match self.scheduler {
            Scheduler::Eevdf | Scheduler::SchedExt => words(&["necessary"]),
            Scheduler::PEdf | Scheduler::GEdf | Scheduler::CEdf if one_cpu => {
                words(&["edf-rta", "qpa", "edf-multiset-combined", "edf-pairs", "sp-edf-given"])
            }
            Scheduler::PFp | Scheduler::GFp if one_cpu && self.assigns_priorities(set) => {
                words(&["p-fp-rta", "p-fp-audsley", "p-fp-multiset-combined", "p-fp-pairs"])
            }
            Scheduler::PFp | Scheduler::GFp if one_cpu => {
                words(&["p-fp-rta", "p-fp-multiset-combined", "p-fp-pairs"])
            }
            Scheduler::PEdf => by_cpu(set, &EDF),
            Scheduler::PFp => by_cpu(set, &FP),
            Scheduler::GEdf => words(&["necessary", "own-cpu", "g-edf"]),
            Scheduler::GFp => {
                words(&["necessary", "own-cpu", "g-fp-guan", "g-fp-bertogna", "g-fp-da-lc"])
            }
            Scheduler::CEdf => vec!["necessary".to_owned(), clustered(set, platform)?],
        };
        names.iter().map(|name| test(name).map_err(|error| NoQuestion(error.to_string()))).collect()
    }

    /// Returns the answer of the first test that decides.
    ///
    /// # Errors
    /// Returns [`TaskError`] for a task whose delay is not known.
    pub fn ask(
        self,
        set: &TaskSet,
        tests: &[&'static Test],
        charged: &mut ChargedSet<'_>,
    ) -> Result<Answered, TaskError> {
        // What a test that accepts is in doubt about tells more than what another one cannot do.
        let accepts = |asked: &ChargedAnswer| {
            let why = asked.answer.why.as_deref();
            asked.answer.is_conditional()
                || why.is_some_and(|why| why.starts_with("the test accepts") || why == OTHER_ORDERS)
        };
        let mut doubt: Option<(&'static Test, ChargedAnswer)> = None;
        for &test in tests {
            let accepted = doubt.as_ref().is_some_and(|(_, before)| accepts(before));
            let knows_costs = doubt.as_ref().is_some_and(|it| it.0.suffers != Suffers::Nothing);
            let mut asked = match charged.ask(test) {
                // Of events that the test before does not let happen.
                Err(_) if accepted || knows_costs => continue,
                asked => asked?,
            };
            if let Some(why) = self.leaves_orders(set, test, &asked.answer) {
                asked.answer = TestAnswer::unknown(why);
            }
            if asked.answer.verdict != Verdict::Unknown {
                return Ok(self.answered(set, test, asked));
            }
            // What a test found of the set tells more than that another test does not take such sets, or no supply, or lacks data
            // where the first one refuses the set with charges.
            let takes_none = charged.has_supply() && !test.supplied;
            let hides = takes_none && doubt.as_ref().is_some_and(|(before, _)| before.supplied);
            let untaken = doubt.is_some() && test.refusal(System::of(set)).is_some();
            let refuses = doubt.as_ref().is_some_and(|(_, before)| refuses_as_charged(before));
            if !accepted && !hides && !untaken && (!refuses || accepts(&asked)) {
                doubt = Some((test, asked));
            }
        }
        let necessary = test("necessary").unwrap_or(tests[0]);
        let (test, mut asked) = match doubt {
            Some(doubt) => doubt,
            None => (necessary, charged.ask(necessary)?),
        };
        if matches!(self.scheduler, Scheduler::Eevdf | Scheduler::SchedExt) {
            let why = format!("no analysis is known for {}", self.under(set, None));
            asked.answer = TestAnswer::unknown(why);
        }
        Ok(self.answered(set, test, asked))
    }

    fn answered(self, set: &TaskSet, test: &'static Test, asked: ChargedAnswer) -> Answered {
        let asked = with_bounds(set, test, asked);
        let under = self.under(set, asked.answer.priorities.as_deref());
        let sentence = sentence(set, &under, test, &asked);
        Answered { test, asked, sentence }
    }

    /// Whether the analysis assigns priorities because the set states none.
    fn assigns_priorities(self, set: &TaskSet) -> bool {
        matches!(self.scheduler, Scheduler::PFp | Scheduler::GFp) && !has_priorities(set)
    }

    /// The reason why other priority orders may still work after a test's no. The test tried only the order by
    /// deadline, which is optimal only for deadlines within periods, without jitter and blocking (Leung and Whitehead
    /// 1982).
    fn leaves_orders(self, set: &TaskSet, test: &Test, answer: &TestAnswer) -> Option<String> {
        let is_best = |task: &Task| {
            task.deadline() <= task.period()
                && task.jitter() == Time::ZERO
                && task.blocking() == Time::ZERO
        };
        let by_deadline = !["necessary", "p-fp-audsley"].contains(&test.name);
        let leaves = answer.verdict == Verdict::Unschedulable
            && by_deadline
            && self.assigns_priorities(set)
            && !set.tasks().iter().all(is_best);
        leaves.then(|| OTHER_ORDERS.to_owned())
    }
}

/// Whether an exact test rejects the set including its charges.
fn refuses_as_charged(asked: &ChargedAnswer) -> bool {
    asked.answer.why.as_deref() == Some(AS_CHARGED)
}

impl Answered {
    /// Returns [`answer_json`] with the additional fields `question` and `sentence`.
    pub fn json(&self, question: SchedulabilityQuestion) -> serde_json::Value {
        let mut value = answer_json(self.test, &self.asked);
        value["question"] =
            serde_json::json!({ "scheduler": question.scheduler, "assumed": question.assumed });
        value["sentence"] = serde_json::json!(self.sentence);
        value
    }
}

/// The first tasks of an order, by name.
fn listed(set: &TaskSet, order: &[usize]) -> String {
    let names: Vec<String> = order.iter().take(4).map(|&at| called(set, at)).collect();
    let more = if order.len() > 4 { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

fn words(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// The tests of a partitioned scheduler.
struct ByCpu {
    /// The tests for sets that give each task its CPU.
    given: &'static [&'static str],
    /// The tests for sets that leave the CPUs open.
    packed: &'static [&'static str],
    /// The tests for sets with pieces or shares, which run only under EDF.
    in_parts: &'static [&'static str],
}

const EDF: ByCpu = ByCpu {
    given: &["necessary", "p-edf-given"],
    packed: &["necessary", "p-edf-ffd-qpa", "p-edf-bfd-qpa", "p-edf-wfd-qpa", "p-edf-exact"],
    in_parts: &["necessary", "sp-edf-given"],
};

const FP: ByCpu = ByCpu {
    given: &["necessary", "p-fp-given", "p-fp-ffd-multiset-combined", "p-fp-ffd-pairs"],
    packed: &[
        "necessary",
        "p-fp-ffd",
        "p-fp-bfd",
        "p-fp-wfd",
        "p-fp-exact",
        "p-fp-ffd-multiset-combined",
        "p-fp-bfd-multiset-combined",
        "p-fp-wfd-multiset-combined",
        "p-fp-ffd-pairs",
    ],
    in_parts: &["necessary", "p-fp-given"],
};

fn by_cpu(set: &TaskSet, tests: &ByCpu) -> Vec<String> {
    let places = set.placement().unwrap_or_default();
    let one = |place: &TaskPlacement| matches!(place, TaskPlacement::Cpus(cpus) if cpus.len() == 1);
    if places.iter().any(|place| !matches!(place, TaskPlacement::Cpus(_))) {
        return words(tests.in_parts);
    }
    words(if !places.is_empty() && places.iter().all(one) { tests.given } else { tests.packed })
}

/// The test for the clusters that a machine's caches form from the CPUs of a set.
fn clustered(set: &TaskSet, platform: Option<&Platform>) -> Result<String, NoQuestion> {
    let none = |what: String| NoQuestion(format!("c-edf: {what}"));
    let platform = platform.ok_or_else(|| {
        none(
            "the caches of a machine define the clusters: name the machine with --platform"
                .to_owned(),
        )
    })?;
    let cpus = CpuList::new(platform.cpus.value.iter().take(set.cpus() as usize));
    if cpus.len() < set.cpus() as usize {
        let (has, wants) = (cpus.len(), set.cpus());
        return Err(none(format!("{} has {has} CPUs, but the set is for {wants}", platform.id)));
    }
    let clusters = platform::clusters::of_cpus(platform, &cpus, None).map_err(none)?;
    let size = clusters[0].len();
    if clusters.iter().any(|cluster| cluster.len() != size) {
        let sizes: Vec<String> = clusters.iter().map(|cluster| cluster.len().to_string()).collect();
        let sizes = sizes.join(", ");
        return Err(none(format!(
            "the clusters have {sizes} CPUs, but every test needs clusters of equal size"
        )));
    }
    let size = size as u32;
    let known = all().find(|it| it.suffers == Suffers::Within(size) && !it.is_soft());
    let known =
        known.ok_or_else(|| none(format!("there is no test for clusters of {size} CPUs")))?;
    Ok(known.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::DelayCharge;
    use corehop_plan::workload::set_file;

    fn asked(text: &str, named: Option<Scheduler>) -> (Verdict, String) {
        let set = set_file::parse(text).unwrap();
        let question = SchedulabilityQuestion::of(&set, named);
        let mut charged = ChargedSet::new(&set, None, DelayCharge::Nothing, None);
        let tests = question.tests(&set, None).unwrap();
        let answered = question.ask(&set, &tests, &mut charged).unwrap();
        (answered.asked.answer.verdict, answered.sentence)
    }

    fn set(cpus: u32, more: &str, tasks: &[(u64, u64, &str)]) -> String {
        let task = |(wcet, period, more): &(u64, u64, &str)| {
            format!(r#"{{"wcet_us": {wcet}, "period_us": {period}{more}}}"#)
        };
        let tasks: Vec<_> = tasks.iter().map(task).collect();
        format!(r#"{{"cpus": {cpus}, "tasks": [{}]{more}}}"#, tasks.join(", "))
    }

    #[test]
    fn a_set_is_asked_about_its_own_scheduler() {
        let of = |text: &str| SchedulabilityQuestion::of(&set_file::parse(text).unwrap(), None);
        let bare = of(&set(1, "", &[(1, 2, "")]));
        assert_eq!(bare, SchedulabilityQuestion { scheduler: Scheduler::PEdf, assumed: true });
        let ranked = set(1, "", &[(1, 2, r#", "priority": 3"#)]);
        assert_eq!(
            of(&ranked),
            SchedulabilityQuestion { scheduler: Scheduler::PFp, assumed: true }
        );
        let stated = of(&set(1, r#", "scheduler": "g-edf""#, &[(1, 2, "")]));
        assert_eq!(stated, SchedulabilityQuestion { scheduler: Scheduler::GEdf, assumed: false });
    }

    #[test]
    fn what_other_schedulers_or_priorities_could_do_is_no_answer() {
        // Under EDF, and with the other order of priorities, both make it.
        let wrong_way =
            [(1_000, 3_000, r#", "priority": 2"#), (4_000, 9_000, r#", "priority": 1"#)];
        let (verdict, says) = asked(&set(1, "", &wrong_way), None);
        assert_eq!(verdict, Verdict::Unschedulable);
        let expected = "no: task 0 can take 5 ms and has 3 ms under partitioned fixed priorities (assumed: the \
                        set states priorities and no scheduler)";
        assert_eq!(says, expected);
        assert_eq!(asked(&set(1, "", &wrong_way), Some(Scheduler::PEdf)).0, Verdict::Schedulable);
    }

    #[test]
    fn locks_are_asked_about_where_they_are_used() {
        let lock = |longest: u64| {
            format!(r#", "locks": [{{"resource": "bus", "longest_us": {longest}}}]"#)
        };
        let of = |locking: &str, longest, cpus: [&str; 2]| {
            let beside = format!(r#", "locking": "{locking}""#);
            let task = |longest, cpu: &str| format!("{}{cpu}", lock(longest));
            let (first, second) = (task(100, cpus[0]), task(longest, cpus[1]));
            let tasks = [(1_000, 5_000, first.as_str()), (4_000, 10_000, second.as_str())];
            asked(&set(if cpus[0].is_empty() { 1 } else { 2 }, &beside, &tasks), None)
        };
        let (verdict, says) = of("pi", 4_000, ["", ""]);
        assert_eq!(verdict, Verdict::Schedulable);
        assert!(
            says.contains("(assumed: the set states locking pi and no scheduler; priorities by"),
            "{says}"
        );
        assert_eq!(of("srp", 4_000, ["", ""]).0, Verdict::Schedulable);
        let apart = [r#", "cpus": [0]"#, r#", "cpus": [1]"#];
        let (verdict, says) = of("pcp", 100, apart);
        assert_eq!(verdict, Verdict::Unknown);
        assert!(says.contains("tasks on several CPUs use `bus`"), "{says}");
    }

    #[test]
    fn stated_cpus_are_kept_by_every_scheduler() {
        let pinned = set(
            2,
            "",
            &[
                (6_000, 10_000, r#", "cpus": [0]"#),
                (7_000, 12_000, r#", "cpus": [0]"#),
                (1_000, 20_000, r#", "cpus": [1]"#),
            ],
        );
        for &scheduler in Scheduler::ALL.iter().filter(|&&it| it != Scheduler::CEdf) {
            let (verdict, says) = asked(&pinned, Some(scheduler));
            assert_eq!(verdict, Verdict::Unschedulable, "{scheduler}: {says}");
            assert!(says.contains("CPU 0"), "{scheduler}: {says}");
        }
        // A global scheduler that keeps them is not analysed.
        let light = set(2, "", &[(1, 10, r#", "cpus": [0]"#), (1, 10, r#", "cpus": [0, 1]"#)]);
        assert_eq!(asked(&light, Some(Scheduler::GEdf)).0, Verdict::Unknown);
        assert_eq!(asked(&light, Some(Scheduler::PEdf)).0, Verdict::Schedulable);
        // One of the tasks would fit on the other CPU only.
        let full = set(2, "", &[(9, 10, r#", "cpus": [0]"#), (9, 10, r#", "cpus": [0, 1]"#)]);
        for scheduler in [Scheduler::PEdf, Scheduler::PFp] {
            assert_eq!(asked(&full, Some(scheduler)).0, Verdict::Schedulable, "{scheduler}");
        }
    }

    #[test]
    fn pieces_are_of_edf_and_no_answer_for_fixed_priorities() {
        let pieces = r#", "pieces": [{"cpu": 0, "wcet_us": 1, "deadline_us": 1}, {"cpu": 1, "wcet_us": 1, "deadline_us": 5}]"#;
        let split = set(2, "", &[(2, 10, pieces), (1, 10, r#", "cpus": [0]"#)]);
        assert_eq!(asked(&split, Some(Scheduler::PEdf)).0, Verdict::Schedulable);
        assert_eq!(asked(&split, Some(Scheduler::PFp)).0, Verdict::Unknown);
    }

    #[test]
    fn a_scheduler_without_analysis_is_not_known_and_says_so() {
        let light = set(2, "", &[(1, 10, "")]);
        let (verdict, says) = asked(&light, Some(Scheduler::Eevdf));
        assert_eq!(verdict, Verdict::Unknown);
        assert!(says.contains("no analysis"), "{says}");
    }

    #[test]
    fn without_stated_priorities_another_order_than_by_deadline_can_answer() {
        // Lehoczky 1990: with deadlines beyond periods the order by deadline is not the best one.
        let tasks = [
            (52, 100, r#", "deadline_us": 110, "name": "a""#),
            (52, 140, r#", "deadline_us": 154, "name": "b""#),
        ];
        let unranked = set(1, "", &tasks);
        let by_deadline = set(
            1,
            "",
            &[
                (52, 100, r#", "deadline_us": 110, "priority": 1"#),
                (52, 140, r#", "deadline_us": 154, "priority": 2"#),
            ],
        );
        assert_eq!(asked(&by_deadline, None).0, Verdict::Unschedulable);
        let (verdict, says) = asked(&unranked, Some(Scheduler::PFp));
        assert_eq!(verdict, Verdict::Schedulable, "{says}");
        assert!(
            says.contains("priorities in the order `b`, `a`, because the set states none"),
            "{says}"
        );
        // On several CPUs no test looks for another order, so that the answer is unknown.
        let pinned = set(2, "", &tasks.map(|(c, t, more)| (c, t, more)))
            .replace("\"name\"", "\"cpus\": [0], \"name\"");
        let (verdict, says) = asked(&pinned, Some(Scheduler::PFp));
        assert_eq!(verdict, Verdict::Unknown, "{says}");
        assert!(says.contains("another order"), "{says}");
        // Within periods the order by deadline is the best one, and its no is one.
        let within =
            set(1, "", &[(3, 6, r#", "deadline_us": 4"#), (3, 6, r#", "deadline_us": 5"#)]);
        assert_eq!(asked(&within, Some(Scheduler::PFp)).0, Verdict::Unschedulable);
    }

    #[test]
    fn the_clusters_that_are_asked_about_are_those_that_are_measured() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let of = |cpus: u32| {
            let text = set(cpus, r#", "scheduler": "c-edf""#, &[(1, 10, "")]);
            let set = set_file::parse(&text).unwrap();
            let tests = SchedulabilityQuestion::of(&set, None).tests(&set, Some(&platform));
            tests.map(|tests| tests.last().unwrap().name).map_err(|error| error.to_string())
        };
        assert_eq!((of(24), of(12), of(6)), (Ok("c-edf-6"), Ok("c-edf-6"), Ok("c-edf-2")));
        assert!(of(9).unwrap_err().contains("the clusters have 6, 3 CPUs"));
        assert!(of(48).unwrap_err().contains("has 24 CPUs, but the set is for 48"));
    }

    #[test]
    fn an_assumption_is_part_of_the_sentence() {
        let (_, says) = asked(&set(2, "", &[(1, 10, "")]), None);
        assert!(says.contains("partitioned EDF (assumed: the set states no scheduler)"), "{says}");
        let (_, says) = asked(&set(2, "", &[(1, 10, "")]), Some(Scheduler::PFp));
        assert!(says.contains("priorities by deadline") && !says.contains("assumed"), "{says}");
    }
}
