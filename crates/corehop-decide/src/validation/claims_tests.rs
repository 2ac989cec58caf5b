// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of growth ends against printed lengths, and of the evidence for observations.

use super::*;
use corehop_plan::samples::example::sample;

/// Samples of a sweep of 1, 2, 4 and 8 ms with these delays in microseconds.
fn sweep(delays: [f64; 4]) -> Vec<Sample> {
    let of = |(ms, us): (u64, f64)| {
        (0..12).map(move |replicate| Sample {
            experiment: corehop_stats::saturation::SWEEP.into(),
            event: Event::Preemption,
            load: "constructed".into(),
            polluter: Some("shuffled 4 MiB write 0.5".into()),
            preemption_length: format!("fixed_{ms}ms").into(),
            length_ns: ms as f64 * 1e6,
            replicate: Some(replicate),
            warm_ns: 1_000.0,
            resumed_ns: 1_000.0 + 1e3 * us * (1.0 + 0.001 * (replicate * 5 % 12) as f64),
            ..sample()
        })
    };
    [1, 2, 4, 8].into_iter().zip(delays).flat_map(of).collect()
}

fn saturates(printed_ms: u64, at_the_latest: bool) -> Saturates {
    let polluter = corehop_plan::workload::Polluter {
        wss: corehop_plan::units::Bytes::from_kib(4_096),
        pattern: corehop_plan::workload::Pattern::Shuffled,
        write_ratio: 0.5,
    };
    let (sets, lengths, loads, cpus) = <_>::default();
    let experiment = PolluterSweep { sets, lengths, loads, polluter, samples: 1, cpus };
    Saturates {
        source: "Fig. 2".to_owned(),
        printed: Nanos::from_millis(printed_ms),
        at_the_latest,
        experiment,
    }
}

#[test]
fn an_end_of_growth_is_held_against_the_printed_length_from_both_sides() {
    let grows = sweep([5.0, 10.0, 10.0, 10.0]);
    let found = |printed_ms, at_the_latest, samples: &[Sample]| {
        saturates(printed_ms, at_the_latest).test(&[], samples)
    };
    for (printed, latest, holds) in
        [(2, false, true), (1, false, false), (1, true, false), (20, true, true)]
    {
        let tested = found(printed, latest, &grows);
        let expected = if holds { TestOutcome::Holds } else { TestOutcome::DoesNot };
        assert_eq!(tested.found, expected, "{printed} {latest}: {}", tested.evidence);
        assert!(
            tested.evidence.starts_with("2.0 ms [2.0, ")
                && tested.evidence.ends_with(" 10 us there"),
            "{}",
            tested.evidence
        );
        assert_eq!(
            (tested.expected, tested.is_missed()),
            (None, false),
            "a length is only compared"
        );
    }
    assert_eq!(
        found(1, true, &grows).claim,
        "Fig. 2: the delay stops growing after 1 ms at the latest"
    );
    assert_eq!(found(2, false, &grows).claim, "Fig. 2: the delay stops growing after 2 ms");
    let still = found(2, false, &sweep([5.0, 10.0, 20.0, 40.0]));
    assert_eq!(
        (still.found, still.evidence.as_str()),
        (TestOutcome::DoesNot, "it still grows at 8.0 ms")
    );
    let none = found(2, false, &sweep([0.0; 4]));
    assert_eq!((none.found, none.evidence.as_str()), (TestOutcome::DoesNot, "there is no delay"));
    let few = found(2, false, &[]);
    assert_eq!(
        (few.found, few.evidence.as_str()),
        (TestOutcome::CannotTell, "fewer than two lengths have samples")
    );
}

#[test]
fn contradictions_beyond_the_first_are_counted_in_the_evidence() {
    let mut verdict = corehop_stats::verdict::bastoni_5(Vec::new());
    assert_eq!(observed(&verdict, TestOutcome::Holds).evidence, verdict.evidence);
    let comparison = |says| corehop_stats::verdict::Comparison {
        what: "a against b".to_owned(),
        wss_bytes: 4_096,
        estimate: 1.0,
        interval: None,
        why_none: None,
        margin: 1.0,
        unit: "us",
        says,
    };
    verdict.comparisons = [Says::Contradicts, Says::Fits, Says::Open].map(comparison).to_vec();
    assert_eq!(observed(&verdict, TestOutcome::Holds).evidence, verdict.evidence);
    verdict.comparisons.extend([comparison(Says::Contradicts)]);
    let told = observed(&verdict, TestOutcome::Holds).evidence;
    assert_eq!(told, format!("{}; 2 in all", verdict.evidence));
}
