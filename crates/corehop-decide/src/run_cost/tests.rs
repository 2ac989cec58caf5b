// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with three absences on the L7455 whose cost can be added up by hand.

use super::*;
use corehop_plan::samples::{
    Absences, Bar, Bars, CpuHoldTime, ObservedThread, RecordingFacts, Rooms,
};
use corehop_plan::units::Cpu;
use corehop_stats::costs::{CostTable, ProgramPrices};
use corehop_stats::program_costs::{EventCost, ProgramCost, ProgramCostResults};

const TABLE: &str = "load,event,statistic,wss_kib,cost_us\n\
    idle,preemption,max,64,10\nidle,preemption,max,256,30\n\
    idle,l2_migration,max,64,5\nidle,l2_migration,max,256,20\n";

fn absence(tid: u32, from: u32, to: u32, length_ns: u64) -> Absence {
    Absence {
        tid,
        out_ns: 1_000,
        in_ns: 1_000 + length_ns,
        seen: true,
        from: Cpu(from),
        to: Cpu(to),
        preempted: true,
        pinned: false,
        ran_ns: 0,
        cpu_ns: None,
        by: Some((9, "make".to_owned())),
    }
}

fn platform() -> Platform {
    Platform::named("xeon_l7455").unwrap().unwrap()
}

/// The nearest CPU to CPU 0 in this class of migration.
fn neighbour(platform: &Platform, event: Event) -> u32 {
    let class = |cpu: &Cpu| platform.affinity(Cpu(0), *cpu).event() == event.word();
    platform.usable().iter().find(class).unwrap().0
}

fn counted(absences: &[Absence]) -> Absences {
    let mut counted = Absences::default();
    for it in absences {
        counted.take(Some(0), event(&platform(), it), it);
    }
    counted
}

fn recording(platform: &Platform) -> Recording {
    let l2 = neighbour(platform, Event::L2Migration);
    let thread = |tid| ObservedThread { tid, preemptions: 2, ..ObservedThread::default() };
    Recording {
        facts: RecordingFacts {
            span_ns: 1_000_000,
            rss_bytes: Some(256 << 10),
            ..RecordingFacts::default()
        },
        threads: vec![thread(1), thread(2)],
        absences: counted(&[
            absence(1, 0, 0, 2_000),
            absence(2, 0, 0, 4_000),
            absence(2, 0, l2, 8_000),
        ]),
        ..Recording::default()
    }
}

fn cost(wss: WssRange, recording: &Recording) -> RunCost {
    let source = CostSource::Table(CostTable::parse(TABLE).unwrap());
    let prices = Prices { source: &source, selection: Selection::default() };
    run_cost(recording, Some(&prices), wss).unwrap()
}

fn between(low_us: f64, high_us: f64) -> CostBounds {
    let us = (low_us.to_bits() == high_us.to_bits()).then_some(low_us);
    CostBounds { us, low_us, high_us: Some(high_us) }
}

const fn at_least(low_us: f64) -> CostBounds {
    CostBounds { us: None, low_us, high_us: None }
}

#[test]
fn at_a_known_size_a_run_costs_what_its_absences_cost() {
    let platform = platform();
    let answer = cost(WssRange::known("64KiB".parse().unwrap()), &recording(&platform));
    assert_eq!(answer.total, Some(between(25.0, 25.0)));
    assert_eq!(answer.share, Some((0.025, Some(0.025))));
    let classes: Vec<_> = answer.classes.iter().map(|it| (it.event, it.count, it.cost)).collect();
    let expected = [
        (Event::Preemption, 2, Some(between(20.0, 20.0))),
        (Event::L2Migration, 1, Some(between(5.0, 5.0))),
    ];
    assert_eq!(classes, expected);
    let threads: Vec<_> = answer.threads.iter().flatten().map(|it| (it.tid, it.cost)).collect();
    assert_eq!(threads, [(2, Some(between(15.0, 15.0))), (1, Some(between(10.0, 10.0)))]);
    let by = &answer.waits.occupants[0];
    assert_eq!((by.name.as_str(), by.preemptions, by.held_ns), ("make", 3, None));
    // Of 2 and 4 us.
    assert_eq!((answer.classes[0].median_length_us, answer.classes[0].longest_us), (3.0, 4.0));
}

#[test]
fn of_an_unknown_program_the_answer_is_a_range_from_nothing() {
    let platform = platform();
    let recording = recording(&platform);
    let wss = WssRange::unknown(recording.facts.rss_bytes, &platform);
    assert_eq!((wss.low, wss.high), (Bytes::new(0), Bytes::new(256 << 10)));
    let answer = cost(wss, &recording);
    assert_eq!((answer.total, answer.clipped_to), (Some(between(0.0, 80.0)), None));
    // A resident set above the last-level cache cannot have been in it.
    let most = WssRange::unknown(Some(1 << 40), &platform).high;
    assert_eq!(Some(most), platform.llc_size());
    let answer = cost(WssRange::unknown(Some(1 << 40), &platform), &recording);
    assert_eq!(
        (answer.total, answer.clipped_to),
        (Some(at_least(0.0)), Some(Bytes::new(256 << 10)))
    );
}

#[test]
fn beyond_the_largest_measured_size_the_cost_is_at_least_that_of_the_largest() {
    let answer = cost(WssRange::known("7.5MiB".parse().unwrap()), &recording(&platform()));
    assert_eq!(answer.total, Some(at_least(80.0)));
    assert_eq!(answer.share, Some((0.08, None)));
    assert_eq!(answer.clipped_to, Some(Bytes::new(256 << 10)));
}

#[test]
fn where_nothing_is_known_the_cost_is_none_and_not_zero() {
    let platform = platform();
    let far = neighbour(&platform, Event::MemoryMigration);
    let recording =
        Recording { absences: counted(&[absence(1, 0, far, 1)]), ..recording(&platform) };
    let answer = cost(WssRange::known("64KiB".parse().unwrap()), &recording);
    assert_eq!((answer.total, answer.share, answer.priced), (None, None, true));
}

#[test]
fn a_run_without_absences_cost_nothing_for_sure() {
    let recording = Recording { absences: Absences::default(), ..recording(&platform()) };
    let answer = cost(WssRange::known("64KiB".parse().unwrap()), &recording);
    assert_eq!(answer.total, Some(between(0.0, 0.0)));
}

#[test]
fn a_class_without_costs_is_named_and_the_others_are_added_up() {
    let platform = platform();
    let mut recording = recording(&platform);
    let far = neighbour(&platform, Event::MemoryMigration);
    recording.absences.take(Some(0), Event::MemoryMigration, &absence(1, 0, far, 1));
    let answer = cost(WssRange::known("64KiB".parse().unwrap()), &recording);
    assert_eq!(answer.total, Some(at_least(25.0)));
    let last = answer.classes.last().unwrap();
    assert_eq!((last.event, last.cost), (Event::MemoryMigration, None));
    assert!(last.why_not.as_ref().unwrap().contains("memory_migration"), "{last:?}");
}

#[test]
fn without_costs_absences_are_counted_and_nothing_is_charged() {
    let platform = platform();
    let wss = WssRange::unknown(None, &platform);
    let answer = run_cost(&recording(&platform), None, wss).unwrap();
    assert_eq!((answer.total, answer.share), (None, None));
    assert!(answer.classes.iter().all(|class| class.cost.is_none() && class.why_not.is_none()));
}

#[test]
fn waiting_is_booked_to_who_had_the_cpu_and_the_rest_is_unknown() {
    let thread = |tid, pid, name: &str, waited_ns, held_ns| ObservedThread {
        tid,
        pid,
        name: name.to_owned(),
        cpu_ns: Some(300),
        waited_ns,
        held_ns: Some(held_ns),
        ..ObservedThread::default()
    };
    let mut recording = recording(&platform());
    recording.threads = vec![
        thread(1, 1, "a", Some(60), 0),
        thread(2, 1, "b", Some(40), 50),
        thread(3, 3, "c", None, 5),
    ];
    recording.facts.idle_ns = Some(7);
    let others = [("make", 20), ("b", 10)]
        .map(|(name, held_ns)| CpuHoldTime { name: name.to_owned(), held_ns });
    recording.facts.others = Some(others.to_vec());
    let answer = uncosted(&recording, &platform());
    let waits = &answer.waits;
    assert_eq!(
        (waits.waited_ns, waits.cpu_ns, waits.unknown_threads),
        (Some(100), Some(900), Some(1))
    );
    let by: Vec<_> =
        waits.occupants.iter().map(|it| (it.name.as_str(), it.held_ns, it.preemptions)).collect();
    assert_eq!(by, [("b", Some(60), 0), ("make", Some(20), 3), ("c", Some(5), 0)]);
    assert_eq!((waits.idle_ns, waits.unknown_ns, waits.share()), (Some(7), Some(8), Some(0.1)));
    let processes: Vec<_> = answer
        .processes
        .iter()
        .flatten()
        .map(|it| (it.pid, it.name.as_str(), it.threads, it.waited_ns))
        .collect();
    assert_eq!(processes, [(1, "a", 2, Some(100)), (3, "c", 1, None)]);
    recording.facts.others = None;
    assert_eq!(uncosted(&recording, &platform()).waits.unknown_ns, None, "nothing is known of it");
}

#[test]
fn brief_preemptions_count_with_their_mean_length_and_cost_as_often() {
    let platform = platform();
    let mut recording = recording(&platform);
    (recording.threads[0].brief, recording.threads[0].brief_ns) = (Some(4), Some(4_000));
    let answer = cost(WssRange::known("64KiB".parse().unwrap()), &recording);
    let class = &answer.classes[0];
    // Of 1, 1, 1, 1, 2 and 4 us; a table knows no lengths, so that each costs 10 us.
    assert_eq!((class.count, class.brief, class.preempted, class.median_length_us), (6, 4, 6, 1.0));
    assert_eq!((class.cost, class.longest_us), (Some(between(60.0, 60.0)), 4.0));
    assert_eq!(answer.total, Some(between(65.0, 65.0)));
    let paid = answer.threads.iter().flatten().find(|it| it.tid == 1).unwrap();
    assert_eq!(paid.cost, Some(between(50.0, 50.0)));
}

#[test]
fn without_the_rows_of_the_threads_their_costs_are_unknown_and_the_sum_has_no_upper_bound() {
    let platform = platform();
    let recording = Recording { threads: Vec::new(), ..recording(&platform) };
    let answer = cost(WssRange::known("64KiB".parse().unwrap()), &recording);
    assert_eq!((&answer.threads, &answer.processes), (&None, &None));
    assert_eq!((answer.waits.unknown_threads, answer.waits.waited_ns), (None, None));
    assert_eq!(answer.total, Some(at_least(25.0)), "brief preemptions are not among them");
}

#[test]
fn an_absence_shorter_than_the_measured_ones_has_no_lower_bound_whatever_came_before() {
    let one = |length_ns| Happened {
        thread: (Some(0), 1),
        event: Event::Preemption,
        octave: 10,
        shortest_ns: length_ns,
        longest_ns: length_ns,
        times: 1,
        preempted: 1,
        pinned: 0,
        brief: false,
        rooms: Rooms::default(),
        cost: None,
    };
    let source = CostSource::Table(CostTable::parse(TABLE).unwrap());
    let prices = Prices { source: &source, selection: Selection::default() };
    let mut pricing = Pricing::new(&prices, WssRange::known("64KiB".parse().unwrap())).unwrap();
    pricing.known.insert((Event::Preemption, 10), (Ok(between(10.0, 10.0)), Some(1.5)));
    let mut cost = |length_ns| pricing.cost(&one(length_ns)).unwrap();
    let costs = [1_500, 1_200, 1_500].map(&mut cost);
    let expected_in_proportion = CostBounds { us: Some(8.0), ..between(0.0, 10.0) };
    let all = [between(10.0, 10.0), expected_in_proportion, between(10.0, 10.0)];
    assert_eq!(costs, all.map(Ok));
}

#[test]
fn a_refill_ends_with_the_cpu_time_until_the_next_absence() {
    let platform = platform();
    let mut recording = recording(&platform);
    // Of thread 1: 4 us of CPU time until its second absence, 40 until the third, 2 to its end.
    let at = |out_us: u64, cpu_us: u64| Absence {
        out_ns: out_us * 1_000,
        in_ns: (out_us + 100) * 1_000,
        cpu_ns: Some(cpu_us * 1_000),
        ..absence(1, 0, 0, 0)
    };
    recording.absences = counted(&[at(1_000, 7), at(2_000, 11), at(3_000, 51)]);
    recording.threads[0].cpu_ns = Some(53_000);
    // Each costs 10 us where there is room for it.
    let answer = cost(WssRange::known("64KiB".parse().unwrap()), &recording);
    let Some(CostBounds { low_us, high_us: Some(high_us), .. }) = answer.total else {
        panic!("{answer:?}")
    };
    assert!(low_us <= 16.0 && 16.0 <= high_us + 1e-9 && high_us <= 16.0 + 1e-9, "{answer:?}");
    assert!(low_us > 12.0, "{answer:?}");
    // A working set without an upper bound of its cost cannot take more than all of it.
    let beyond = cost(WssRange::known("7.5MiB".parse().unwrap()), &recording);
    assert!(beyond.total.unwrap().high_us.unwrap() <= 46.0 + 1e-9, "{beyond:?}");
}

#[test]
fn a_measured_cost_without_an_interval_bounds_nothing_but_the_cpu_time_does() {
    let (platform, mut prices) = (platform(), ProgramCostResults::default());
    let mut recording = recording(&platform);
    let at = Absence { cpu_ns: Some(7_000), ..absence(1, 0, 0, 1_000_000) };
    recording.absences = counted(&[at]);
    recording.threads[0].cpu_ns = Some(47_000);
    prices.costs = vec![ProgramCost {
        event: Event::Preemption,
        length_us: Some(1_000.0),
        polluter: None,
        rounds: 3,
        invalid: BTreeMap::new(),
        events: 9,
        tried: 9,
        cost: Some(EventCost { us: 12.0, interval: None }),
        by_dose: Vec::new(),
        bend: None,
        floor: None,
        effect_percent: None,
        exchange_ns: None,
    }];
    let source = CostSource::Program(ProgramPrices::of(prices).unwrap());
    let prices = Prices { source: &source, selection: Selection::default() };
    let answer = run_cost(&recording, Some(&prices), WssRange::known(Bytes::new(0))).unwrap();
    let bounds = CostBounds { us: Some(12.0), low_us: 0.0, high_us: Some(40.0) };
    assert_eq!(answer.classes[0].cost, Some(bounds), "{answer:?}");
}

#[test]
fn what_a_thread_pays_is_never_more_than_its_cpu_time_whatever_its_absences() {
    is_within_the_cpu_time(200);
}

/// `make test-deep` runs this test with 100,000 recordings of four sizes each.
#[test]
#[ignore = "takes ten minutes in a release build"]
fn none_of_a_hundred_thousand_answers_is_more_than_the_cpu_time() {
    is_within_the_cpu_time(25_000);
}

/// Draws recordings, and asserts for each that no cost of a thread or class exceeds the CPU time.
fn is_within_the_cpu_time(cases: u64) {
    let platform = platform();
    let l2 = neighbour(&platform, Event::L2Migration);
    let mut seed = 7_u64;
    let mut drawn = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for case in 0..cases {
        let (mut recording, mut all, mut now, mut cpu) = (recording(&platform), Vec::new(), 0, 0);
        // Some recordings do not know the CPU time at an absence, and time bounds it.
        let known = case % 3 > 0;
        for _ in 0..=drawn(60) {
            let octave = 4 + drawn(16);
            let ran = drawn(1 << octave);
            (now, cpu) = (now + ran + drawn(5_000), cpu + ran);
            let back = now + 1 + drawn(1_000_000);
            let to = if drawn(2) == 0 { 0 } else { l2 };
            let (out_ns, cpu_ns) = (now, known.then_some(cpu));
            all.push(Absence { out_ns, in_ns: back, cpu_ns, ..absence(1, 0, to, 0) });
            now = back;
        }
        recording.absences = counted(&all);
        recording.first_threads = vec![(0, 0)];
        let cpu_ns = cpu + drawn(50_000);
        let thread = &mut recording.threads[0];
        thread.cpu_ns = Some(cpu_ns);
        (thread.brief, thread.brief_ns) = (Some(drawn(40)), Some(40_000));
        for wss in ["64KiB", "100KiB", "256KiB", "7.5MiB"] {
            let answer = cost(WssRange::known(wss.parse().unwrap()), &recording);
            let most_us = cpu_ns as f64 / 1e3 + 1e-6;
            let paid = answer.threads.iter().flatten().find(|it| it.tid == 1).unwrap().cost;
            let of_class = answer.classes.iter().map(|it| it.cost);
            for it in of_class.chain([answer.total, paid]).flatten() {
                assert!(it.low_us <= it.most_us(), "{it:?}");
                let us = it.us.unwrap_or(it.low_us);
                assert!(it.low_us <= us && us <= it.most_us().min(most_us), "{it:?}");
                let bound = if it.high_us.is_some() { it.most_us() } else { it.low_us };
                assert!(bound <= most_us, "case {case}, {wss}: {it:?} of {most_us} us");
            }
        }
    }
}

#[test]
fn time_in_which_a_thread_may_not_run_is_no_neighbours() {
    let mut recording = recording(&platform());
    let barred = |ns| Some(Bars::new(ns));
    recording.facts.others = Some(vec![CpuHoldTime { name: "make".to_owned(), held_ns: 20 }]);
    recording.facts.idle_ns = Some(0);
    for (at, bars) in [[30, 5, 0, 0, 7], [10, 0, 2, 1_000, 0]].into_iter().enumerate() {
        recording.threads[at].waited_ns = Some(50);
        recording.threads[at].barred = barred(bars);
    }
    let waits = uncosted(&recording, &platform()).waits;
    let bars = waits.barred.unwrap();
    assert_eq!((waits.waited_ns, bars.waiting_ns(), waits.unknown_ns), (Some(100), 47, Some(33)));
    let longest = [
        (Bar::Frozen, 1_000),
        (Bar::Quota, 40),
        (Bar::Stopped, 7),
        (Bar::Budget, 5),
        (Bar::Realtime, 2),
    ];
    assert_eq!(bars.longest_first(), longest);
    recording.threads[0].barred = None;
    assert_eq!(uncosted(&recording, &platform()).waits.barred, None, "it is unknown of one");
}
