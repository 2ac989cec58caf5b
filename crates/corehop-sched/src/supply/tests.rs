// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the supply against slow, simple computations: all windows of a trace, and all lengths one after the other.

use super::trace::merged;
use super::*;
use corehop_plan::workload::draw::DrawStream;

/// A trace of unit intervals: whether the CPU is available in each.
fn trace(draw: &mut DrawStream, length: usize) -> Vec<bool> {
    let mut trace = Vec::new();
    while trace.len() < length {
        trace.extend(vec![true; draw.below(12) as usize]);
        trace.extend(vec![false; draw.below(7) as usize]);
    }
    trace.truncate(length);
    trace
}

/// The gaps of a trace.
fn gaps(trace: &[bool]) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    for (at, _) in (0..).zip(trace).filter(|it| !*it.1) {
        match gaps.last_mut().filter(|gap| gap.at + gap.length == at) {
            Some(gap) => gap.length += 1,
            None => gaps.push(Gap { at, length: 1 }),
        }
    }
    gaps
}

fn window(trace: &[bool]) -> SupplyWindow {
    let length = trace.len() as u64;
    SupplyWindow { cpu: 0, asked: length, watched: length, short: 0, gaps: gaps(trace) }
}

/// The largest loss in any window of this length, found by checking each window.
fn most_lost(trace: &[bool], length: usize) -> u64 {
    let lost = |part: &[bool]| part.iter().filter(|it| !**it).count() as u64;
    trace.windows(length).map(lost).max().unwrap_or(0)
}

fn supply(windows: &[SupplyWindow]) -> Supply {
    Supplies::watched(windows).unwrap().worst().clone()
}

#[test]
fn the_loss_is_that_of_the_worst_of_all_windows() {
    for seed in 0..60 {
        let mut draw = DrawStream::new(seed, 0);
        let traces = [trace(&mut draw, 90), trace(&mut draw, 90)];
        let supply = supply(&traces.each_ref().map(|it| window(it)));
        for length in 1..=90 {
            let slow = traces.iter().map(|it| most_lost(it, length)).max().unwrap();
            let lost = supply.lost(Time::new(length as u64));
            assert_eq!(lost, Time::new(slow), "{seed}: {length} of {traces:?}");
        }
        // Beyond, as many whole windows as fit, and a part.
        for (length, whole) in [(91, 1), (180, 1), (181, 2), (450, 4)] {
            let rest = supply.lost(Time::new(length - whole * 90));
            assert_eq!(
                supply.lost(Time::new(length)),
                whole * supply.lost(Time::new(90)) + rest,
                "{length}"
            );
        }
    }
}

#[test]
fn the_time_for_work_is_the_first_length_that_supplies_as_much() {
    for seed in 0..40 {
        let mut draw = DrawStream::new(seed, 1);
        let mut of = window(&trace(&mut draw, 60));
        of.short = draw.below(4);
        for unit in [1, 1_000] {
            let wide = SupplyWindow {
                asked: of.asked * unit,
                watched: of.watched * unit,
                short: of.short * unit,
                gaps: of
                    .gaps
                    .iter()
                    .map(|it| Gap { at: it.at * unit, length: it.length * unit })
                    .collect(),
                ..of
            };
            let supply = supply(&[wide]).in_units_of(unit);
            for work in (1..=80).map(Time::new) {
                let slow =
                    (1..5_000).map(Time::new).find(|&length| supply.supplied_in(length) >= work);
                let found = supply.time_for(work);
                assert_eq!(slow.unwrap_or(found), found, "{seed}: {work}");
            }
            let supplied = |length| supply.supplied_in(Time::new(length));
            let rises = (1..400).all(|length| supplied(length) >= supplied(length - 1));
            assert!(rises, "{seed}");
        }
    }
}

#[test]
fn a_window_is_known_as_far_as_it_was_planned_and_what_lies_beyond_counts_as_a_part_of_it() {
    // A gap of 6 crosses the end of a window of 10: nine of 15 are lost in the last 10, or 6 + 3.
    let gaps = vec![Gap { at: 2, length: 4 }, Gap { at: 9, length: 6 }];
    let supply = supply(&[SupplyWindow { cpu: 0, asked: 10, watched: 15, short: 0, gaps }]);
    // Windows that end at 15: of 10 from 5 on, of 13 from 2 on.
    assert_eq!(
        [6, 7, 9, 10].map(|length| supply.lost(Time::new(length))),
        [6, 6, 6, 7].map(Time::new)
    );
    // Twice as long, twice as much at the most.
    assert_eq!(supply.lost(Time::new(20)), Time::new(14));
}

#[test]
fn a_periodic_resource_supplies_what_shin_and_lee_say() {
    let supply = resources(r#"{"cpus": "3", "period_us": 10, "budget_us": 6}"#).unwrap();
    let supply = supply.of_cpu(3).unwrap().in_units_of(1_000);
    // Nothing for 2 (10 - 6), then 6 of each 10.
    let slow = |t: u64| {
        let after = t.saturating_sub(8);
        after / 10 * 6 + (after % 10).min(6)
    };
    for t in 0..200 {
        assert_eq!(supply.supplied_in(Time::new(t)), Time::new(slow(t)), "{t}");
    }
    assert_eq!(
        [1, 6, 7, 60].map(|work| supply.time_for(Time::new(work))),
        [9, 14, 19, 104].map(Time::new)
    );
}

#[test]
fn short_gaps_slow_the_cpu_down_by_the_largest_share_of_a_window() {
    let of = |short| SupplyWindow { cpu: 0, asked: 1_000, watched: 1_000, short, gaps: Vec::new() };
    let supply = supply(&[of(1), of(20)]);
    assert_eq!(
        (supply.supplied_in(Time::new(1_000)), supply.time_for(Time::new(980))),
        (Time::new(980), Time::new(1_000))
    );
    // Rounded up: 50 / 0.98 = 51.02.
    assert_eq!(supply.time_for(Time::new(50)), Time::new(52));
    assert!((supply.long_run() - 0.98).abs() < 1e-9);
}

#[test]
fn a_cpu_that_supplies_nothing_in_the_long_run_never_does() {
    let gaps = vec![Gap { at: 0, length: 100 }];
    let supply = supply(&[SupplyWindow { cpu: 0, asked: 100, watched: 100, short: 0, gaps }]);
    assert!(
        supply.time_for(Time::new(1)) >= Time::new(1 << 61)
            && supply.supplied_in(Time::new(1_000_000)) == Time::ZERO
    );
}

#[test]
fn many_gaps_are_merged_and_lose_no_less() {
    let gaps: Vec<Gap> = (0..3_000).map(|at| Gap { at: at * 10 + at % 7, length: 2 }).collect();
    let few = merged(&gaps);
    assert!(few.len() == 512, "{}", few.len());
    let within =
        |gap: &Gap| few.iter().any(|it| it.at <= gap.at && gap.at + 2 <= it.at + it.length);
    assert!(gaps.iter().all(within));
    assert!(few.windows(2).all(|it| it[0].at + it[0].length < it[1].at));
}

#[test]
fn the_least_supply_of_several_cpus_is_no_more_than_that_of_each() {
    for seed in 0..30 {
        let mut draw = DrawStream::new(seed, 2);
        let of = |draw: &mut DrawStream, cpu, length| SupplyWindow {
            cpu,
            ..window(&trace(draw, length))
        };
        let windows = [of(&mut draw, 0, 80), of(&mut draw, 1, 50)];
        let supplies = Supplies::watched(&windows).unwrap();
        for length in (1..300).map(Time::new) {
            let each = [0, 1].map(|cpu| supplies.of_cpu(cpu).unwrap().lost(length));
            let worst = supplies.worst().lost(length);
            assert!(length > Time::new(50) || worst == each[0].max(each[1]), "{seed}: {length}");
            assert!(worst >= each[1], "{seed}: {length}");
        }
    }
}

#[test]
fn the_number_of_windows_and_the_share_beyond_them_are_those_of_the_length() {
    let one =
        SupplyWindow { cpu: 0, asked: 40_000_000, watched: 41_000_000, short: 0, gaps: vec![] };
    let supplies = Supplies::watched(&vec![one; 59]).unwrap();
    let claim = supplies.claim(Time::new(40_000), 1_000).unwrap();
    // Of 59 the largest bounds 95 % with 95 % confidence (Wilks).
    assert_eq!((claim.windows, claim.parts), (59, 1));
    assert!((claim.beyond - 0.0495).abs() < 1e-3 && claim.bounds(), "{claim:?}");
    let short = supplies.claim(Time::new(1_000), 1_000).unwrap();
    assert_eq!((short.windows, short.window_ns), (59 * 40, 1_000_000));
    let long = supplies.claim(Time::new(100_000), 1_000).unwrap();
    assert_eq!((long.windows, long.parts, long.bounds()), (59, 3, false));
}

#[test]
fn windows_and_texts_that_are_none_are_refused_with_a_remedy() {
    let gap = |at, length| Gap { at, length };
    let bad = [vec![gap(5, 3), gap(7, 1)], vec![gap(9, 2)], vec![gap(u64::MAX, 5)]];
    for gaps in bad {
        let window = SupplyWindow { cpu: 7, asked: 10, watched: 10, short: 0, gaps };
        let why = Supplies::watched(&[window]).unwrap_err().to_string();
        assert!(why.contains("CPU 7") && why.contains("measure"), "{why}");
    }
    assert!(Supplies::watched(&[]).is_err());
    for (text, part) in [
        ("{}", "expected {"),
        (r#"{"cpus": "0", "period_us": 0, "budget_us": 1}"#, "period_us: 0"),
        (r#"{"cpus": "0", "period_us": 5, "budget_us": 6}"#, "budget_us: 6"),
        (r#"{"cpus": "", "period_us": 5, "budget_us": 5}"#, "cpus"),
        (
            r#"[{"cpus": "0", "period_us": 5, "budget_us": 5}, {"cpus": "0", "period_us": 5, "budget_us": 4}]"#,
            "twice",
        ),
        (r#"{"cpus": "0", "period_us": 5, "budget_us": 5, "more": 1}"#, "expected {"),
    ] {
        let why = resources(text).unwrap_err().to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
}
