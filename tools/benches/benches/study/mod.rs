// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of the study of Fig. 5, and the gain of a second thread.

use std::path::Path;
use std::time::Instant;

use corehop_sched::study::{SchedulabilityStudy, Shard, run};
use serde_json::{Value, json};

use crate::{Fallible, compared, figure};

/// The same verdicts in numpy, a prefix of a stream judged once for all its caps, in seconds; on another
/// machine of the kind.
const NUMPY: f64 = 12.6;

/// One reading: 8,000 streams, 231 caps, four schedulers, seven delays, and the crossover.
pub(crate) fn figures() -> Fallible<Vec<Value>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/bastoni-fig5/study.toml");
    let study = SchedulabilityStudy::parse(&std::fs::read_to_string(file)?)?;
    let held = study.held.as_ref().map(|held| held.reading.clone());
    let mut one = study.clone();
    one.readings.retain(|reading| Some(&reading.name) == held.as_ref());
    one.held = None;
    let cores = std::thread::available_parallelism()?.get();
    let threads = Some(cores);
    let mut figures = vec![
        compared("study/fig5-seconds", seconds(&one, threads)?, NUMPY, "s"),
        figure("study/fig5-all-readings-seconds", seconds(&study, threads)?, "s"),
    ];
    if cores > 1 {
        let (alone, both) = (seconds(&one, Some(1))?, seconds(&one, Some(2))?);
        figures
            .push(json!({"name": "study/two-threads-over-one", "value": alone / both, "unit": ""}));
    }
    Ok(figures)
}

/// The least of three.
fn seconds(study: &SchedulabilityStudy, threads: Option<usize>) -> Fallible<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let begin = Instant::now();
        run(study, Shard::WHOLE, threads, &())?;
        best = best.min(begin.elapsed().as_secs_f64());
    }
    Ok(best)
}
