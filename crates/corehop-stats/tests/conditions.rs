// SPDX-License-Identifier: MIT OR Apache-2.0
//! Causes of the spread, on a machine that draws frames: the shares against a truth found by varying one
//! thing alone.

use corehop_plan::experiment::{
    Body, Condition, Conditions, Experiment, Length, Phase, Plan, Renewed, SamplingGroup, Synthetic,
};
use corehop_plan::machine::samples_of;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Absence, Event, Load, Mover, Pattern, Polluter, WorkingSet};
use corehop_sim::SimMachine;
use corehop_stats::conditions::{Spreading, Spreads, VarianceComponent, VarianceShare};
use corehop_stats::estimator::Estimator;

/// A working set that fills a good part of a physically indexed second level, beside a preemptor that
/// takes a part of it: the frames of both decide.
fn conditions(rounds: u32) -> Conditions {
    let group = SamplingGroup {
        load: Load::Idle,
        sets: vec![WorkingSet::list(Bytes::from_kib(192), 0.5)],
        events: vec![Event::Preemption],
        length: Length::Fixed(Nanos::from_micros(60)),
        absence: Absence::Preemptor,
        samples: rounds * 6 * 2,
    };
    let preemptor =
        Polluter { wss: Bytes::from_kib(64), pattern: Pattern::Shuffled, write_ratio: 0.5 };
    let cpus = "0-1".parse().unwrap();
    let (mover, groups, preemptor_sizes) = (Mover::Affinity, vec![group], Vec::new());
    let cell = Synthetic { mover, preemptor, preemptor_sizes, passes: 0, groups, cpus };
    Conditions { cell, rounds }
}

fn x5650() -> Platform {
    Platform::named("xeon_x5650").unwrap().unwrap()
}

fn samples(plan: &Plan) -> Vec<Sample> {
    samples_of(&mut SimMachine::new(x5650()).unwrap(), plan).unwrap()
}

fn plan(rounds: u32, seed: u64) -> Plan {
    let conditions = conditions(rounds);
    conditions.replicated(&x5650(), seed, conditions.steps()).unwrap()
}

fn phases(plan: &mut Plan) -> &mut Vec<Phase> {
    let Body::Jobs(jobs) = &mut plan.body else { unreachable!("a plan of jobs") };
    &mut jobs.phases
}

fn told(samples: &[Sample]) -> Spreading {
    let mut spreads = Spreads::new(Estimator::Difference);
    spreads.take(samples);
    spreads.finish().remove(0)
}

fn share(told: &Spreading, part: VarianceComponent) -> VarianceShare {
    told.parts.iter().find(|(of, _)| *of == part).unwrap().1
}

/// The mean, over draws of the others, of the variance of the logarithm of the delay over draws of the
/// frames: what renewing frames alone makes.
fn variance_of_frames(seed: u64) -> f64 {
    let (others, frames) = (24, 15);
    let mut whole = plan(others * frames / 6, seed);
    for (at, phase) in phases(&mut whole).iter_mut().enumerate() {
        let (others, frames) = (at as u32 / frames, at as u32 % frames);
        let renewed = Renewed::Frames;
        phase.condition = Some(Condition { renewed, frames, order: 0, others, threads: 0 });
    }
    // The median of two is their mean.
    let of_step = |samples: &[Sample]| {
        (samples.iter().map(|it| it.resumed_ns - it.warm_ns).sum::<f64>() / 2.0).ln()
    };
    let logs: Vec<f64> = samples(&whole).chunks(2).map(of_step).collect();
    let variance = |logs: &[f64]| {
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        logs.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64
    };
    logs.chunks(frames as usize).map(variance).sum::<f64>() / f64::from(others)
}

#[test]
fn the_share_of_frames_is_what_varying_frames_alone_makes() {
    let told = told(&samples(&plan(50, 1)));
    let frames = share(&told, VarianceComponent::Renewed(Renewed::Frames));
    let (found, truth) = (frames.share * told.deviation.powi(2), variance_of_frames(2));
    assert!((0.6..=1.6).contains(&(found / truth)), "{found}, {truth}: {told:?}");
    assert!(frames.interval.unwrap().low > 0.0, "{told:?}");
}

#[test]
fn what_a_simulated_machine_does_not_have_makes_no_spread() {
    let told = told(&samples(&plan(40, 3)));
    // No time passes between its replicates. Two samples of a step differ a little: the first finds the
    // caches as the load left them.
    for part in [VarianceComponent::Step, VarianceComponent::Error] {
        let share = share(&told, part).share;
        assert!(share.abs() < 0.1, "{part:?}: {share}");
    }
    // A shuffled list is a shuffled list.
    let order = share(&told, VarianceComponent::Renewed(Renewed::Order)).share;
    assert!(order.abs() < 0.02, "{order}");
}

#[test]
fn a_machine_that_draws_everything_at_each_step_would_be_seen() {
    let mut everything = plan(40, 4);
    let renewed: Vec<Option<Condition>> =
        phases(&mut everything).iter_mut().map(|phase| phase.condition.take()).collect();
    let mut samples = samples(&everything);
    for sample in &mut samples {
        let step = sample.replicate.unwrap() as usize;
        sample.renewed = renewed[step].map(|condition| condition.renewed);
    }
    let told = told(&samples);
    assert!(share(&told, VarianceComponent::Step).share > 0.6, "{told:?}");
    let frames = share(&told, VarianceComponent::Renewed(Renewed::Frames));
    assert!(frames.share < 0.3, "{told:?}");
}

#[test]
fn a_step_is_the_same_whatever_ran_before_it() {
    let whole = plan(3, 5);
    let mut last = whole.clone();
    let before = phases(&mut last).len() - 1;
    let steps = phases(&mut last).split_off(before);
    *phases(&mut last) = steps;
    let of_whole = samples(&whole);
    let delays = |samples: &[Sample]| -> Vec<u64> {
        samples.iter().map(|sample| sample.resumed_ns.to_bits()).collect()
    };
    assert_eq!(delays(&of_whole[of_whole.len() - 2..]), delays(&samples(&last)));
}
