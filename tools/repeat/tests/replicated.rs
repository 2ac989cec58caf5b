// SPDX-License-Identifier: MIT OR Apache-2.0
//! Intervals against a truth found another way: the simulated machine draws frames, so two thousand
//! replicates show what a cell really costs, and runs of ten must hold it as often as they say.

#[path = "../examples/quick_cells/mod.rs"]
mod quick_cells;

use corehop_fixtures::x5650;
use corehop_plan::experiment::{Body, Experiment, Synthetic};
use corehop_plan::machine::{Machine, RunEnd, SinkFn, samples_of};
use corehop_plan::samples::{Batch, Projector, Sample};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;
use corehop_sim::SimMachine;
use corehop_stats::estimator::Estimator;
use corehop_stats::replicates::Nested;
use corehop_stats::summary::summarize;

/// A cell of `quick`, as small as it can be for frames to matter: a working set that fills a good part
/// of a physically indexed second level, beside a preemptor that takes a part of it.
fn experiment(samples: u32) -> Synthetic {
    corehop_fixtures::idle(96, &[Event::Preemption], Nanos::from_micros(30), samples, "0-1")
}

/// The samples of so many replicates with three each, as one long run.
fn taken(seed: u64, replicates: u32) -> Vec<Sample> {
    let platform = x5650();
    let plan = experiment(3 * replicates).replicated(&platform, seed, replicates).unwrap();
    samples_of(&mut SimMachine::new(platform).unwrap(), &plan).unwrap()
}

/// The delays of an event by replicate, in microseconds.
fn delays(samples: &[Sample], event: Event) -> (Vec<f64>, Vec<u64>) {
    let of_event: Vec<Sample> = samples.iter().filter(|it| it.event == event).cloned().collect();
    let delays = Estimator::Difference.delays_us(&of_event);
    delays.map(|(sample, delay)| (delay, sample.replicate.unwrap())).unzip()
}

/// The share of runs of ten replicates whose interval, by `label`, holds `truth`; of how many.
fn covered(
    (delays, replicates): &(Vec<f64>, Vec<u64>),
    truth: f64,
    label: impl Fn(u64, usize) -> u64,
) -> (f64, u32) {
    let (mut held, mut runs) = (0, 0);
    let last = replicates.iter().max().unwrap() / 10;
    for run in 0..=last {
        let own = replicates.iter().enumerate().filter(|&(_, &number)| number / 10 == run);
        let (values, labels): (Vec<f64>, Vec<u64>) =
            own.map(|(at, &number)| (delays[at], label(number, at))).unzip();
        let median = Nested::from_labelled(&values, &labels).unwrap().median(0.05).unwrap();
        // A run that says nothing is not held to anything.
        if let Some(interval) = median.interval {
            runs += 1;
            held += u32::from(interval.contains(truth));
        }
    }
    (f64::from(held) / f64::from(runs), runs)
}

#[test]
fn runs_of_ten_replicates_hold_what_two_thousand_show_and_planted_defects_do_not() {
    let all = delays(&taken(11, 2_000), Event::Preemption);
    let nested = Nested::from_labelled(&all.0, &all.1).unwrap();
    // Each of the two hundred runs has a two-hundredth part in the truth.
    let (truth, spread) = (nested.median(0.05).unwrap().estimate, nested.spread());
    assert!(spread.high > spread.low * 1.02, "frames make a difference: {spread:?}");
    let (right, runs) = covered(&all, truth, |number, _| number);
    assert!(runs > 180, "only {runs} runs have an interval");
    // Two hundred runs of 95 % have a standard error of 1.5 points.
    assert!((0.91..=0.985).contains(&right), "{right}");
    // Out of their order, since neighbours that are alike would be noticed.
    let apart = |at: usize| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let (samples, _) = covered(&all, truth, |_, at| apart(at));
    assert!(samples < right - 0.05, "samples taken for replicates: {samples}, {right}");
    let (dealt, _) = covered(&all, truth, |_, at| at as u64 % 10);
    assert!(dealt < right - 0.05, "samples dealt out to replicates: {dealt}, {right}");
}

/// The small cells of `quick`, twenty-four runs each; `examples/coverage.rs` has all of them, and two hundred.
#[test]
fn runs_of_quick_hold_what_all_of_their_replicates_show_in_every_cell() {
    let most = Bytes::from_kib(16);
    let asked = quick_cells::QuickRuns { runs: 24, samples: 1, most, loaded: false };
    let cells = quick_cells::coverage(&x5650(), asked).unwrap();
    assert!(cells.len() > 10, "{}", cells.len());
    let (mut held, mut had) = (0, 0);
    for it in cells.iter().filter(|it| it.differs) {
        held += it.held;
        had += it.had;
        // Of 24 at 95 % fewer than 18 hold it once in ten thousand times.
        assert!(it.had < 18 || 24 * it.held >= 18 * it.had, "{it:?}");
    }
    let share = f64::from(held) / f64::from(had);
    assert!((0.91..=0.99).contains(&share), "{share} of {had}");
}

#[test]
fn replicates_have_frames_of_their_own_and_a_replicate_has_the_same_in_every_chunk() {
    let samples = taken(3, 12);
    let (values, labels) = delays(&samples, Event::Preemption);
    let nested = Nested::from_labelled(&values, &labels).unwrap();
    assert_eq!((nested.replicates(), nested.samples()), (12, 36));
    let share = nested.spread().share_between.unwrap();
    assert!(share > 0.5, "frames decide, and they belong to the replicate: {share}");
    // The planted defect: one replicate for all of it has no interval, and says why.
    let reused: Vec<Sample> =
        samples.iter().map(|it| Sample { replicate: Some(0), ..it.clone() }).collect();
    for cell in summarize(&reused, Estimator::Difference) {
        let delay = cell.delay.unwrap();
        assert!(delay.median().interval().is_none() && delay.no_interval.is_some());
    }
}

#[test]
fn a_run_that_is_cut_off_in_its_first_replicate_has_medians_without_intervals_and_says_why() {
    let platform = x5650();
    let plan = experiment(50).replicated(&platform, 5, 10).unwrap();
    let (mut projector, mut samples) = (Projector::new(&plan, &platform, 0), Vec::new());
    // Takes the first records and asks for the end, as an interrupt does.
    let mut cut_off = SinkFn(|batch: Batch<'_>| {
        samples.extend(projector.rows(batch).samples);
        Ok(false)
    });
    let ended = SimMachine::new(platform.clone()).unwrap().run(&plan, &mut cut_off).unwrap();
    assert_eq!(ended, RunEnd::Stopped);
    samples.retain(|it: &Sample| it.replicate == Some(0));
    assert!(!samples.is_empty());
    for cell in summarize(&samples, Estimator::Difference) {
        let delay = cell.delay.unwrap();
        assert_eq!(delay.median().interval(), None);
        assert_eq!(delay.no_interval.unwrap().to_string(), "1 replicates; an interval needs 6");
    }
}

#[test]
fn a_replicate_is_the_same_whatever_stands_before_it() {
    let platform = x5650();
    let whole = experiment(30).replicated(&platform, 5, 10).unwrap();
    let mut last = whole.clone();
    let Body::Jobs(jobs) = &mut last.body else { unreachable!() };
    jobs.phases = jobs.phases.split_off(jobs.phases.len() - 1);
    let mut machine = SimMachine::new(platform).unwrap();
    let all = samples_of(&mut machine, &whole).unwrap();
    let alone = samples_of(&mut machine, &last).unwrap();
    let touches = |it: &Sample| (it.cell, it.warm_ns.to_bits(), it.resumed_ns.to_bits());
    let of_last: Vec<_> = all.iter().filter(|it| it.replicate == Some(9)).map(touches).collect();
    assert_eq!(of_last, alone.iter().map(touches).collect::<Vec<_>>());
}
