// SPDX-License-Identifier: MIT OR Apache-2.0
//! The judge of whether the next run lands, on two measured runs and on the same with planted defects.
#![expect(clippy::print_stdout, reason = "figures are printed")]

use std::fs::File;
use std::path::Path;

use corehop_plan::experiment::Experiment;
use corehop_plan::machine::samples_of;
use corehop_plan::samples::{Reader, Sample};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::{Event, WorkingSet};
use corehop_repeat::defects::{Planted, SampleFile, defects};
use corehop_repeat::landing::{Landings, landings, lands, together};
use corehop_sim::SimMachine;
use corehop_stats::cpmd::{
    CostEstimate, DelayFitter, DelayModel, DelayQuery, SeriesKey, Statistic,
};
use corehop_stats::estimator::Estimator;
use corehop_stats::summary::{CellSummary, summarize};

/// Two runs, one after the other, of which the first saw its CPUs at two distances.
fn measured() -> [SampleFile; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/2026-11-22-guest-2cpu");
    ["quick.parquet", "quick-again.parquet"].map(|name| {
        let mut reader = Reader::open(File::open(folder.join(name)).unwrap()).unwrap();
        let provenance = reader.kind().provenance.clone();
        SampleFile { provenance, samples: reader.all().unwrap() }
    })
}

fn landed(runs: &[SampleFile]) -> Landings {
    let summaries = runs.iter().map(|run| summarize(&run.samples, Estimator::Difference));
    together(&landings(&summaries.collect::<Vec<_>>()))
}

#[test]
fn two_measured_runs_have_no_defect_and_land_in_each_other() {
    let runs = measured();
    for run in &runs {
        assert_eq!(defects(run), []);
    }
    assert!(lands(&landed(&runs), runs.len()), "{:?}", landed(&runs));
}

#[test]
fn every_planted_defect_of_a_measured_run_is_named() {
    for (run, number) in measured().iter().zip(1..) {
        for &planted in Planted::ALL {
            let found = defects(&planted.into(run));
            // The second run saw one distance: there classes are what they are declared to be.
            let shows = planted.can_show(run);
            assert_eq!(shows, planted != Planted::ClassesPooled || number == 1, "{planted}");
            assert_eq!(found.iter().any(|it| planted.is(it)), shows, "{planted}: {found:?}");
        }
    }
}

#[test]
fn samples_taken_for_replicates_land_less_often_than_they_say() {
    let spoiled = measured().map(|run| Planted::SamplesForReplicates.into(&run));
    assert!(!lands(&landed(&spoiled), spoiled.len()), "{:?}", landed(&spoiled));
}

/// The answer of a model of the first run to a cell of the second.
fn predicted(model: &DelayModel, of: &CellSummary, statistic: Statistic) -> Option<CostEstimate> {
    let mut only = SeriesKey::of(&of.cell).fields();
    only.retain(|(name, _)| name != "event" && name != "load");
    let length_us = of.length_us.map_or(0.0, |length| length.estimate);
    let length = Some(Nanos::new((1e3 * length_us) as u64)).filter(|it| it.get() > 0);
    let (event, load) = (of.cell.event, of.cell.load.to_string());
    let wss = Bytes::new(of.cell.wss_bytes);
    let asked = DelayQuery { event, load, wss, length, statistic, method: None, only };
    Some(model.predict(&asked).ok()?.cost)
}

/// A simulated run of absences of two sizes, each an experiment of its own.
fn simulated(seed: u64) -> Vec<Sample> {
    const REPLICATES: u32 = 20;
    let events = [Event::Preemption, Event::L3Migration, Event::MemoryMigration, Event::Flush];
    let mut all =
        corehop_fixtures::idle(16, &events, Nanos::from_micros(200), 2 * REPLICATES, "0-11");
    all.groups[0].sets.push(WorkingSet::list(Bytes::from_kib(64), 0.5));
    let plan = all.replicated(&corehop_fixtures::x5650(), seed, REPLICATES).unwrap();
    samples_of(&mut SimMachine::new(corehop_fixtures::x5650()).unwrap(), &plan).unwrap()
}

/// The figure of the model: of the medians of the next run at least 78 % lie inside. `make soundness` asks ten pairs of runs.
#[test]
fn a_model_of_one_simulated_run_holds_most_medians_of_the_next_for_soundness() {
    let thorough = std::env::var_os("COREHOP_SOUNDNESS_SETS").is_some();
    let pairs = if thorough { 10 } else { 2 };
    let (mut cells, mut inside) = (0, 0);
    for seed in 0..pairs {
        let mut fit = DelayFitter::new(Estimator::Difference);
        fit.take(&simulated(2 * seed + 1));
        let model = fit.finish();
        for of in summarize(&simulated(2 * seed + 2), Estimator::Difference) {
            let Some(seen) = of.delay.as_ref().map(|it| it.median().estimate) else { continue };
            let Some(answer) = predicted(&model, &of, Statistic::Median) else { continue };
            let Some((low, high)) = answer.low_us.zip(answer.high_us) else { continue };
            cells += 1;
            inside += usize::from((low..=high).contains(&seen));
        }
    }
    println!("of {cells} medians of the next simulated run {inside} lie inside");
    assert!(cells >= 4 * pairs as usize, "{cells}");
    assert!(100 * inside >= 78 * cells, "{inside} of {cells}");
}

#[test]
fn a_model_of_one_run_holds_as_many_medians_of_the_next_as_the_samples_themselves() {
    for [first, next] in [measured(), {
        let [a, b] = measured();
        [b, a]
    }] {
        let mut fit = DelayFitter::new(Estimator::Difference);
        fit.take(&first.samples);
        let model = fit.finish();
        let own = summarize(&first.samples, Estimator::Difference);
        let (mut cells, mut by_model, mut by_samples) = (0, 0, 0);
        for of in summarize(&next.samples, Estimator::Difference) {
            let fixed = !of.cell.preemption_length.starts_with("uniform");
            let same = own.iter().find(|it| it.cell == of.cell).and_then(|it| it.delay.as_ref());
            let (Some(seen), Some(same), true) = (&of.delay, same, fixed) else { continue };
            let Some((low, high)) = same.median().low.zip(same.median().high) else { continue };
            let median = seen.median().estimate;
            let answer = predicted(&model, &of, Statistic::Median).unwrap();
            let ends = answer.low_us.unwrap()..=answer.high_us.unwrap();
            cells += 1;
            by_samples += usize::from((low..=high).contains(&median));
            by_model += usize::from(ends.contains(&median));
            // By default `predict` gives means: these are of the samples, too.
            let mean = predicted(&model, &of, Statistic::Mean).unwrap();
            let own = same.moments.mean;
            assert!(mean.low_us.is_none_or(|low| low <= own), "{:?}", of.cell);
            assert!(mean.high_us.is_none_or(|high| own <= high), "{:?}", of.cell);
        }
        assert!(cells > 40, "{cells}");
        println!(
            "of {cells} medians of the next run: {by_samples} by samples, {by_model} by model"
        );
        assert!(20 * by_model + cells >= 20 * by_samples, "{by_model} {by_samples} of {cells}");
    }
}
