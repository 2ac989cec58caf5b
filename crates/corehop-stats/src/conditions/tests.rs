// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with made-up runs of known parts, whose shares must be found.

use super::*;
use crate::example::sample;
use corehop_fixtures::designs::SeededSource;
use corehop_plan::experiment::{Conditions, Preset};
use corehop_plan::platform::Platform;

/// The standard deviations of the parts of a made-up run, in the logarithm.
#[derive(Debug, Clone, Copy, Default)]
struct Truth {
    frames: f64,
    order: f64,
    others: f64,
    threads: f64,
    /// The standard deviation of a slow process: its increments have a memory of fifty steps.
    run: f64,
    /// The standard deviation of a sample around its step.
    sample: f64,
    /// The increase of a delay's logarithm in every other block of fifty steps.
    far: f64,
}

impl Truth {
    fn variance_between(self) -> f64 {
        [self.frames, self.order, self.others, self.threads, self.run]
            .iter()
            .map(|it| it * it)
            .sum::<f64>()
            + (self.far / 2.0).powi(2)
    }

    /// Returns the samples of a run with `rounds` rounds and eight samples in each step.
    fn run(self, rounds: u32, seed: u64) -> Vec<Sample> {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let conditions = Conditions { rounds, ..Preset::Quick.conditions(&platform) };
        let mut draw = SeededSource::new(seed);
        let mut drawn: BTreeMap<(u8, u32), f64> = BTreeMap::new();
        let mut slow = draw.normal();
        let mut samples = Vec::new();
        for step in 0..conditions.steps() {
            let condition = conditions.condition(seed, step);
            let parts = [
                (self.frames, condition.frames),
                (self.order, condition.order),
                (self.others, condition.others),
                (self.threads, condition.threads),
            ];
            let of = |(kind, (deviation, number)): (usize, (f64, u32))| {
                deviation * *drawn.entry((kind as u8, number)).or_insert_with(|| draw.normal())
            };
            let sum: f64 = parts.into_iter().enumerate().map(of).sum();
            slow = 0.98 * slow + (1.0_f64 - 0.98 * 0.98).sqrt() * draw.normal();
            let is_far = self.far > 0.0 && step / 50 % 2 == 1;
            let value = sum + self.run * slow + if is_far { self.far } else { 0.0 };
            for _ in 0..8 {
                let delay = 1e5 * (value + self.sample * draw.normal()).exp();
                let class = if is_far { Event::MemoryMigration } else { Event::L3Migration };
                samples.push(Sample {
                    renewed: Some(condition.renewed),
                    replicate: Some(u64::from(step)),
                    warm_ns: 1_000.0,
                    resumed_ns: 1_000.0 + delay,
                    event: if self.far > 0.0 { class } else { Event::L3Migration },
                    declared_event: Some(Event::L3Migration),
                    pair_class: (self.far > 0.0).then_some(class),
                    llc_share: Some(0.5 + 0.1 * slow),
                    ..sample()
                });
            }
        }
        samples
    }

    fn spreading(self, rounds: u32, seed: u64) -> Spreading {
        let mut spreads = Spreads::new(Estimator::Difference);
        spreads.take(&self.run(rounds, seed));
        let mut all = spreads.finish();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

fn share(spreading: &Spreading, part: VarianceComponent) -> VarianceShare {
    spreading.parts.iter().find(|(of, _)| *of == part).map(|&(_, share)| share).unwrap()
}

const MIXED: Truth =
    Truth { frames: 0.2, order: 0.0, others: 0.1, threads: 0.0, run: 0.1, sample: 0.1, far: 0.0 };

#[test]
fn the_parts_add_up_to_the_whole() {
    let told = MIXED.spreading(20, 1);
    let sum: f64 = told.parts.iter().map(|(_, share)| share.share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!(told.logarithmic && told.why_none.is_none());
    assert_eq!((told.steps, told.rounds, told.samples), (120, 20, 960));
}

#[test]
fn over_many_runs_each_part_is_what_was_put_in() {
    let runs: Vec<Spreading> = (0..60).map(|seed| MIXED.spreading(30, seed)).collect();
    let variance: f64 = runs.iter().map(|it| it.deviation.powi(2)).sum::<f64>() / 60.0;
    let mean = |part| {
        let of = |it: &Spreading| share(it, part).share * it.deviation.powi(2);
        runs.iter().map(of).sum::<f64>() / 60.0
    };
    let close = |part, truth: f64| {
        let found = mean(part);
        assert!((found - truth).abs() < 0.15 * variance, "{part:?}: {found}, {truth}");
    };
    close(VarianceComponent::Renewed(Renewed::Frames), 0.04);
    close(VarianceComponent::Renewed(Renewed::Others), 0.01);
    close(VarianceComponent::Renewed(Renewed::Order), 0.0);
    close(VarianceComponent::Renewed(Renewed::Threads), 0.0);
    close(VarianceComponent::Step, 0.0);
    // The median of eight samples, normally distributed: 1.37 times what a mean would vary.
    close(VarianceComponent::Error, 1.37 * 0.01 / 8.0);
}

/// Returns the share of runs in which the interval of a part contains the part's true share.
fn covered(truth: Truth, part: VarianceComponent, own: f64, rounds: u32) -> f64 {
    let error = 1.37 * truth.sample.powi(2) / 8.0;
    let share_of = own / (truth.variance_between() + error);
    let runs = 120;
    let holds = (0..runs).filter(|&seed| {
        let told = truth.spreading(rounds, 1_000 + seed);
        let interval = share(&told, part).interval.unwrap();
        (interval.low..=interval.high).contains(&share_of)
    });
    holds.count() as f64 / runs as f64
}

#[test]
fn intervals_hold_a_share_in_most_runs() {
    let truth = Truth { run: 0.0, ..MIXED };
    let frames = covered(truth, VarianceComponent::Renewed(Renewed::Frames), 0.04, 30);
    let others = covered(truth, VarianceComponent::Renewed(Renewed::Others), 0.01, 30);
    let order = covered(truth, VarianceComponent::Renewed(Renewed::Order), 0.0, 30);
    assert!([frames, others, order].iter().all(|&it| it >= 0.85), "{frames} {others} {order}");
}

#[test]
fn a_host_that_moves_its_cpus_is_told_as_distance_and_not_as_a_draw() {
    let told = Truth { far: 1.0, ..MIXED }.spreading(30, 3);
    assert_eq!(told.classes.len(), 2);
    let distance = share(&told, VarianceComponent::Distance).share;
    assert!(distance > 0.6, "{told:?}");
    let frames = share(&told, VarianceComponent::Renewed(Renewed::Frames)).share;
    assert!(frames < 0.3, "{told:?}");
}

#[test]
fn what_goes_with_a_covariate_is_told_beside_the_parts() {
    let slow = Truth { run: 0.3, frames: 0.05, sample: 0.05, ..Truth::default() };
    let told = slow.spreading(30, 4);
    let (_, last_level) = told.covariates.iter().find(|it| it.0 == Covariate::LastLevel).unwrap();
    assert!(last_level.share > 0.7, "{told:?}");
    let told = Truth { run: 0.0, frames: 0.3, ..slow }.spreading(30, 4);
    let (_, last_level) = told.covariates.iter().find(|it| it.0 == Covariate::LastLevel).unwrap();
    assert!(last_level.share < 0.2, "{told:?}");
}

#[test]
fn wrong_labels_would_be_seen() {
    let mut samples = MIXED.run(30, 5);
    for sample in &mut samples {
        // As if order and frames had been taken for each other.
        sample.renewed = sample.renewed.map(|renewed| match renewed {
            Renewed::Frames => Renewed::Order,
            Renewed::Order => Renewed::Frames,
            other => other,
        });
    }
    let mut spreads = Spreads::new(Estimator::Difference);
    spreads.take(&samples);
    let told = &spreads.finish()[0];
    let [frames, order] = [Renewed::Frames, Renewed::Order]
        .map(|one| share(told, VarianceComponent::Renewed(one)).interval.unwrap());
    assert!(order.low > 0.0 && frames.low < 0.05, "{told:?}");
}

#[test]
fn one_way_that_costs_more_than_the_other_is_no_error_of_the_median() {
    let mut samples = Truth { sample: 0.01, ..MIXED }.run(20, 12);
    for (at, sample) in samples.iter_mut().enumerate() {
        let delay = sample.resumed_ns - sample.warm_ns;
        sample.resumed_ns = sample.warm_ns + if at % 2 == 0 { delay } else { 1.5 * delay };
    }
    let mut spreads = Spreads::new(Estimator::Difference);
    spreads.take(&samples);
    let error = share(&spreads.finish()[0], VarianceComponent::Error).share;
    assert!(error < 0.05, "{error}");
}

#[test]
fn too_few_rounds_have_no_shares_and_say_so() {
    let told = MIXED.spreading(4, 6);
    assert_eq!(told.why_none, Some(NoShares::TooFewRounds { have: 4 }));
    assert!(told.parts.is_empty() && told.deviation > 0.0);
}

#[test]
fn steps_without_any_spread_are_told_as_such() {
    let mut samples = MIXED.run(10, 7);
    for sample in &mut samples {
        sample.resumed_ns = 2_000.0;
    }
    let mut spreads = Spreads::new(Estimator::Difference);
    spreads.take(&samples);
    assert_eq!(spreads.finish()[0].why_none, Some(NoShares::NoSpread));
}

#[test]
fn two_runs_of_one_cell_stay_apart_and_other_experiments_pass_by() {
    let mut spreads = Spreads::new(Estimator::Difference);
    spreads.take(&[sample()]);
    spreads.take(&MIXED.run(10, 8));
    spreads.next_run();
    spreads.take(&MIXED.run(10, 9));
    assert_eq!(spreads.finish().len(), 2);
}

#[test]
fn delays_that_are_not_positive_are_taken_as_they_are() {
    let mut samples = MIXED.run(10, 10);
    samples[3].resumed_ns = 0.0;
    (0..8).for_each(|at| samples[at].resumed_ns = 500.0);
    let mut spreads = Spreads::new(Estimator::Difference);
    spreads.take(&samples);
    assert!(!spreads.finish()[0].logarithmic);
}
