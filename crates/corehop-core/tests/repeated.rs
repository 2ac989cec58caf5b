// SPDX-License-Identifier: MIT OR Apache-2.0
//! The judge of whether the next run lands, on two measured runs and on the same with planted defects.

use std::fs::File;
use std::path::Path;

use corehop_core::campaign::defects::{Planted, Run, defects};
use corehop_core::campaign::landing::{Landings, landings, lands, together};
use corehop_core::model::estimator::Estimator;
use corehop_core::model::summary::summarize;
use corehop_core::samples::Reader;

/// Two runs, one after the other, of which the first saw its CPUs at two distances.
fn measured() -> [Run; 2] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/2026-11-22-guest-2cpu");
    ["quick.parquet", "quick-again.parquet"].map(|name| {
        let mut reader = Reader::open(File::open(folder.join(name)).unwrap()).unwrap();
        let provenance = reader.kind().provenance.clone();
        Run { provenance, samples: reader.all().unwrap() }
    })
}

fn landed(runs: &[Run]) -> Landings {
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
