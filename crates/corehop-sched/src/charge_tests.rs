// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the verdicts that include delays and overheads.

use super::*;
use crate::TaskParameters;
use crate::answer_json;
use crate::catalogue::{all, test};
use crate::delays::largest_seen;
use crate::verdict::Verdict;
use corehop_fixtures::task_sets::implicit;
use corehop_plan::workload::set_file;
use corehop_stats::costs::{Basis, Cost, NoCost};

fn overheads() -> SystemOverheads {
    SystemOverheads {
        scheduling: Time::new(1_000),
        context_switch: Time::new(1_000),
        release: Time::new(1_000),
        ..SystemOverheads::default()
    }
}

/// Two tasks with working sets of 64 KiB on one CPU.
fn two_on_64_kib() -> TaskSet {
    let task = |wcet, period| TaskParameters {
        wcet: Time::new(wcet),
        period: Time::new(period),
        wss_kib: Some(64),
        ..TaskParameters::default()
    };
    TaskSet::new(1, &[task(10, 100), task(20, 200)]).unwrap()
}

#[test]
fn each_scheduler_pays_in_its_own_way_and_what_cannot_be_charged_is_not_told() {
    let set = implicit(1, &[(10, 100), (20, 200)]);
    let mut charged =
        ChargedSet::new(&set, None, DelayCharge::Each(Time::new(5)), Some(overheads()));
    // By hand: 20 + 2 (1 + 1) + 5, and above it the other task, 10 + 4 + 5, and two releases.
    let asked = charged.ask(test("p-fp-rta").unwrap()).unwrap();
    assert_eq!(asked.answer.bounds.as_ref().map(Vec::len), Some(2));
    // 19 + 29 + 2 releases, and the jitter of its own release: 51.
    assert_eq!(asked.answer.bounds.unwrap()[1], Time::new(51));
    let asked = charged.ask(test("qpa").unwrap()).unwrap();
    assert_eq!(asked.delays, Some([5, 5].map(Time::new).to_vec()));
    assert!((asked.charged.unwrap()[0][1] - 100.0).abs() < 1e-9);
    let asked = charged.ask(test("g-fp-guan").unwrap()).unwrap();
    assert_eq!(asked.answer.verdict, Verdict::Unknown);
    assert!(asked.answer.why.unwrap().contains("overheads"));
}

#[test]
fn overheads_never_make_a_set_schedulable() {
    let set = implicit(1, &[(30, 60), (30, 60)]);
    let mut bare = ChargedSet::new(&set, None, DelayCharge::Nothing, None);
    let mut charged = ChargedSet::new(&set, None, DelayCharge::Nothing, Some(overheads()));
    let yes = |asked: ChargedAnswer| asked.answer.verdict == Verdict::Schedulable;
    let mut accepted = 0;
    for test in all() {
        accepted += usize::from(yes(bare.ask(test).unwrap()));
        assert!(!yes(charged.ask(test).unwrap()), "{}", test.name);
    }
    assert!(accepted > 10, "{accepted}");
}

#[test]
fn a_yes_that_rests_on_a_median_or_a_mean_is_conditional_and_one_by_an_upper_quantile_names_it() {
    use corehop_stats::costs::{CostSource, CostTable, Selection};
    let mut text = "load,event,statistic,wss_kib,cost_us\nidle,preemption,n,64,200\n".to_owned();
    for (name, us) in [("p50", 5), ("mean", 6), ("p90", 8)] {
        for name in [name.to_owned(), format!("{name}_high")] {
            text += ["idle,preemption", &name, "64", &format!("{us}\n")].join(",").as_str();
        }
    }
    let source = CostSource::Table(CostTable::parse(&text).unwrap());
    let set = two_on_64_kib();
    let ask = |statistic: Option<&str>| {
        let statistic = statistic.map(ToOwned::to_owned);
        let costs = source.for_a_verdict(&Selection { statistic, ..Selection::default() }).unwrap();
        let mut charged = ChargedSet::new(&set, None, DelayCharge::Costs(costs.costs), None);
        charged.ask(test("qpa").unwrap()).unwrap()
    };
    for (name, says) in [
        ("p50", "the median of at least 200 samples (half of them do)"),
        ("mean", "some of them do"),
    ] {
        let asked = ask(Some(name));
        assert_eq!(asked.answer.verdict, Verdict::Unknown, "{name}");
        assert!(asked.answer.is_conditional());
        assert!(asked.answer.why.unwrap().contains(says), "{name}");
    }
    let asked = ask(Some("p90"));
    assert_eq!(asked.answer.verdict, Verdict::Schedulable);
    assert_eq!(asked.charged_by.as_deref(), Some("the p90 of at least 200 samples"));
    // A job pays for what it preempts: the one with the later deadline preempts none.
    assert_eq!(asked.delays, Some([8, 0].map(Time::new).to_vec()));
}

/// A cost source that gives all tasks one cost, with these interval ends.
struct Same(f64, Option<f64>, Option<f64>);

impl EventCosts for Same {
    fn cost(&self, _: Event, _: f64) -> Result<Cost, NoCost> {
        Ok(Cost { us: self.0, low_us: self.1, high_us: self.2 })
    }
    fn happens(&self, _: Event) -> bool {
        true
    }
    fn measured(&self, _: Event) -> Vec<f64> {
        Vec::new()
    }
}

#[test]
fn a_delay_is_the_upper_end_of_its_interval_and_without_one_there_is_no_yes() {
    let set = two_on_64_kib();
    let ask = |costs: Same| {
        let delay = DelayCharge::Costs(Box::new(costs));
        ChargedSet::new(&set, None, delay, None).ask(test("qpa").unwrap()).unwrap()
    };
    let known = ask(Same(5.0, Some(4.5), Some(6.1)));
    assert_eq!((known.delays.unwrap(), known.note.clone()), ([7, 0].map(Time::new).to_vec(), None));
    // An interval of no width charges what it says.
    assert_eq!(ask(Same(0.0, Some(0.0), Some(0.0))).answer.verdict, Verdict::Schedulable);
    let largest = ask(Same(5.0, Some(5.0), None));
    assert_eq!(largest.answer.verdict, Verdict::Unknown);
    assert!(largest.answer.why.unwrap().starts_with("yes, if no event costs more than"));
    assert_eq!(
        (largest.delays.unwrap(), largest.note),
        ([5, 0].map(Time::new).to_vec(), Some(largest_seen(None)))
    );
    let delay = DelayCharge::Costs(Box::new(Same(5.0, Some(5.0), None)));
    let accepted = ChargedSet::new(&set, None, delay, None).accepting_largest(true);
    let accepted = { accepted }.ask(test("qpa").unwrap()).unwrap();
    assert_eq!(accepted.answer.verdict, Verdict::Schedulable);
    let unsure = ask(Same(5.0, None, None)).answer;
    assert_eq!(unsure.verdict, Verdict::Unknown);
    assert!(unsure.why.unwrap().contains("64 KiB (task 0) has no interval"));
}

/// A cost source whose largest cost is 9 and whose quantile is 5 without an upper end.
struct Open;

impl EventCosts for Open {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        Same(9.0, Some(9.0), None).cost(event, wss_kib)
    }
    fn quantiles(&self) -> Vec<(&str, &dyn EventCosts)> {
        const P99: &dyn EventCosts = &Same(5.0, Some(4.0), None);
        vec![("p99", P99)]
    }
    fn happens(&self, _: Event) -> bool {
        true
    }
    fn measured(&self, _: Event) -> Vec<f64> {
        Vec::new()
    }
}

#[test]
fn accepting_the_largest_charges_the_largest_and_no_quantile_without_an_upper_end() {
    let set = two_on_64_kib();
    for accepted in [false, true] {
        let charged = ChargedSet::new(&set, None, DelayCharge::Costs(Box::new(Open)), None);
        let mut charged = charged.accepting_largest(accepted);
        let asked = charged.ask(test("qpa").unwrap()).unwrap();
        assert_eq!((asked.delays, asked.charged_by), (Some([9, 0].map(Time::new).to_vec()), None));
        assert_eq!(asked.answer.verdict.is_schedulable(), accepted);
    }
}

#[test]
fn a_delay_below_zero_is_refused_with_the_task() {
    let task = |wss_kib| TaskParameters {
        wcet: Time::new(10),
        period: Time::new(100),
        wss_kib,
        ..TaskParameters::default()
    };
    let set = TaskSet::new(1, &[task(Some(64)), task(Some(64))]).unwrap();
    let delay = DelayCharge::Costs(Box::new(Same(-2.0, Some(-3.0), Some(-1.0))));
    let error = ChargedSet::new(&set, None, delay, None).ask(test("qpa").unwrap()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("task 0") && said.contains("below zero"), "{said}");
}

#[test]
fn a_largest_delay_says_among_how_many_samples_replicates_and_classes() {
    struct Seen;
    impl EventCosts for Seen {
        fn cost(&self, _: Event, us: f64) -> Result<Cost, NoCost> {
            Ok(Cost { us, low_us: Some(us), high_us: None })
        }
        fn basis(&self, _: Event, wss_kib: f64) -> Option<Basis> {
            let few = wss_kib < 64.0;
            let (samples, classes) = if few { (30, 1) } else { (900, 2) };
            Some(Basis { samples, replicates: Some(if few { 20 } else { 12 }), classes })
        }
        fn happens(&self, _: Event) -> bool {
            true
        }
        fn measured(&self, _: Event) -> Vec<f64> {
            Vec::new()
        }
    }
    let note = |sizes: [u64; 2]| {
        let task = |kib: u64| TaskParameters {
            wcet: Time::new(1),
            period: Time::new(9_000),
            wss_kib: Some(kib),
            ..TaskParameters::default()
        };
        let set = TaskSet::new(1, &sizes.map(task)).unwrap();
        let delay = DelayCharge::Costs(Box::new(Seen));
        ChargedSet::new(&set, None, delay, None).ask(test("qpa").unwrap()).unwrap().note.unwrap()
    };
    let same = note([64, 128]);
    assert!(same.contains("900 samples") && same.contains("2 classes"), "{same}");
    // The least of each, whichever size has it.
    let least = note([64, 4]);
    assert!(least.contains("30 samples") && least.contains("12 replicates"), "{least}");
    assert!(least.contains("one class"), "{least}");
}

#[test]
fn a_no_that_rests_on_a_charge_is_not_certain() {
    let task = |wcet| TaskParameters {
        wcet,
        period: Time::new(100),
        wss_kib: Some(64),
        ..TaskParameters::default()
    };
    let ask = |wcet, test_name: &str| {
        let given =
            [task(wcet), TaskParameters { deadline: Some(Time::new(90)), ..task(Time::new(20)) }];
        let set = TaskSet::new(1, &given).unwrap();
        let delay = DelayCharge::Costs(Box::new(Same(5.0, Some(5.0), Some(5.0))));
        let answer = ChargedSet::new(&set, None, delay, None).ask(test(test_name).unwrap());
        answer.unwrap().answer.verdict
    };
    for name in ["qpa", "edf-rta", "p-fp-rta"] {
        assert_eq!(ask(Time::new(75), name), Verdict::Schedulable, "{name}");
        assert_eq!(ask(Time::new(76), name), Verdict::Unknown, "{name}");
        assert_eq!(ask(Time::new(81), name), Verdict::Unschedulable, "{name}");
    }
}

#[test]
fn a_set_in_nanoseconds_is_answered_as_the_same_set_a_thousand_times_slower() {
    let of = |unit: &str| {
        let text = r#"{"cpus":2,"tasks":[{"wcet_us":"3U","period_us":"10U","jitter_us":"1U"},
            {"wcet_us":"4U","period_us":"13U"},{"wcet_us":"5U","period_us":"17U"},{"wcet_us":"2U","period_us":"9U"}]}"#;
        set_file::parse(&text.replace('U', unit)).unwrap()
    };
    let (fine, coarse) = (of(" ns"), of(" us"));
    for test in crate::all() {
        let ask = |set| {
            ChargedSet::new(set, None, DelayCharge::Each(Time::new(1)), None).ask(test).unwrap()
        };
        let (fine, coarse) = (ask(&fine), ask(&coarse));
        assert_eq!(fine.answer.verdict, coarse.answer.verdict, "{}", test.name);
        assert_eq!(fine.answer.bounds, coarse.answer.bounds, "{}", test.name);
    }
    let bounds = |set, unit| {
        let asked = ChargedSet::new(set, None, DelayCharge::Each(Time::new(1)), None)
            .ask(test("p-fp-ffd").unwrap());
        let json = answer_json(test("p-fp-ffd").unwrap(), &asked.unwrap());
        json["charged"][0]["wcet_us"].as_f64().unwrap() * unit
    };
    assert_eq!((bounds(&fine, 1e3), bounds(&coarse, 1.0)), (4.0, 4.0));
}

#[test]
fn overheads_are_charged_in_nanoseconds_whatever_the_unit_of_the_set() {
    let of = |wcet: &str| {
        let tasks =
            format!(r#"[{{"wcet_us":{wcet},"period_us":50}},{{"wcet_us":20,"period_us":90}}]"#);
        set_file::parse(&format!(r#"{{"cpus":1,"tasks":{tasks}}}"#)).unwrap()
    };
    let wcet = |set: &TaskSet| {
        let mut charged =
            ChargedSet::new(set, None, DelayCharge::Each(Time::ZERO), Some(overheads()));
        let asked = charged.ask(test("qpa").unwrap()).unwrap();
        let json = answer_json(test("qpa").unwrap(), &asked);
        json["charged"][0]["wcet_us"].as_f64().unwrap()
    };
    let (whole, finer) = (of("10"), of("10.001"));
    let more = wcet(&finer) - wcet(&whole);
    assert!((0.0009..0.0031).contains(&more), "{more}");
}

/// The set has two tasks that use one set of cache blocks, and leaves much slack. The reload costs of both tasks must
/// be charged by the test or by a delay. Overheads do not count as that charge.
#[test]
fn reloads_without_a_charge_leave_no_yes_whatever_else_is_charged() {
    let text = r#"{"cpus": 1, "block_reload_ns": 1000, "tasks": [
        {"wcet_us": 10, "period_us": 100, "wss_kib": 64, "ucb": "1-3", "ecb": "1-3"},
        {"wcet_us": 20, "period_us": 200, "wss_kib": 64, "ucb": "1-3", "ecb": "1-3"}]}"#;
    let set = set_file::parse(text).unwrap();
    let costs = || DelayCharge::Costs(Box::new(Same(5.0, Some(5.0), Some(5.0))));
    let ask = |name: &str, delay, overheads: bool| {
        let overheads = overheads.then(self::overheads);
        let asked = ChargedSet::new(&set, None, delay, overheads).ask(test(name).unwrap()).unwrap();
        (asked.answer.verdict, asked.answer.why.unwrap_or_default())
    };
    for name in ["qpa", "p-fp-rta"] {
        for overheads in [false, true] {
            let (verdict, why) = ask(name, DelayCharge::Nothing, overheads);
            assert_eq!(verdict, Verdict::Unknown, "{name}, overheads: {overheads}");
            assert!(why.contains("does not charge reloads"), "{name}: {why}");
            for delay in [DelayCharge::Each(Time::new(1)), costs()] {
                let (verdict, why) = ask(name, delay, overheads);
                assert_eq!(verdict, Verdict::Schedulable, "{name}, {overheads}: {why}");
            }
        }
    }
    // A test that charges the reloads itself has them beside nothing else.
    assert_eq!(
        ask("edf-ucb-union", DelayCharge::Nothing, false),
        (Verdict::Schedulable, String::new())
    );
    let (verdict, why) = ask("edf-ucb-union", DelayCharge::Nothing, true);
    assert_eq!((verdict, why.as_str()), (Verdict::Unknown, "the test cannot charge overheads"));
}
