// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defects of the replicates of a run, and the traces of these defects in the run's file.
//!
//! A confidence interval is only as good as its replicates. Four defects make an interval too narrow, although no
//! table shows these defects: frames that the next replicate uses again, samples counted as replicates, one
//! replicate counted as several, and classes pooled although the CPUs were at several distances. This module finds
//! each defect by its trace in the rows or in the provenance. [`Planted`] creates each defect on purpose.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use corehop_plan::platform::Platform;
use corehop_plan::samples::{Provenance, Sample};
use corehop_plan::words::words;
use corehop_stats::classes::{ClassExchanges, as_declared, depends_on_class};

/// A file of samples.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleFile {
    /// The origin of the samples.
    pub provenance: Provenance,
    /// The samples, in the order of the file, which is the order of time.
    pub samples: Vec<Sample>,
}

/// A defect in the replicates of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// More than one in `REUSED` frames of a replicate also belonged to the previous replicate.
    FramesReused {
        /// The number of frames used again.
        reused: u64,
        /// The number of frames examined.
        frames: u64,
    },
    /// The machine lacked the memory to give each replicate its own frames.
    FramesNotFresh,
    /// The run has as many replicates as samples, or nearly as many.
    SamplesForReplicates {
        /// The number of replicates in the rows.
        replicates: usize,
        /// The number of rows.
        samples: usize,
    },
    /// A replicate continues after the next replicate has begun.
    Alternating {
        /// The number of the replicate that continues.
        replicate: u64,
        /// The number of the replicate that began in between.
        other: u64,
    },
    /// The rows contain more replicates than the machine has started.
    MoreThanRenewed {
        /// The number of replicates in the rows.
        replicates: usize,
        /// The number of replicates that the machine started.
        renewed: u64,
    },
    /// The CPUs were at several distances, but samples that depend on the distance have no class.
    ClassesPooled {
        /// The number of valid samples without a class.
        samples: usize,
        /// The number of distances.
        levels: usize,
    },
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FramesReused { reused, frames } => write!(
                f,
                "frames reused: {reused} of {frames} frames of a replicate are those of the one before, \
                 so the replicates are alike; measure with more free memory"
            ),
            Self::FramesNotFresh => write!(
                f,
                "frames reused: there was too little memory to give replicates frames of their own; free \
                 some, or choose smaller working sets (--wss)"
            ),
            Self::SamplesForReplicates { replicates, samples } => write!(
                f,
                "samples taken for replicates: {samples} samples are of {replicates} replicates, with \
                 hardly two in one"
            ),
            Self::Alternating { replicate, other } => write!(
                f,
                "one replicate counted as several: samples of replicate {replicate} stand before and after \
                 those of replicate {other}, which a replicate's own stretch of time does not allow"
            ),
            Self::MoreThanRenewed { replicates, renewed } => write!(
                f,
                "one replicate counted as several: the samples are of {replicates} replicates, and the \
                 machine began {renewed} (a resumed run tells of its last part only)"
            ),
            Self::ClassesPooled { samples, levels } => write!(
                f,
                "classes pooled: the CPUs were at {levels} distances, and {samples} valid samples that \
                 depend on it have no class"
            ),
        }
    }
}

/// The tolerance for frames used again by chance: one in this many frames.
const REUSED: u64 = 20;

/// Finds the defects of a run; reports each defect once.
pub fn defects(run: &SampleFile) -> Vec<Defect> {
    let found = [
        frames(&run.provenance),
        samples_for_replicates(&run.samples),
        alternating(&run.samples),
        more_than_renewed(run),
        pooled(run),
    ];
    found.into_iter().flatten().collect()
}

/// The machine's note in the provenance about the start of replicates, by name.
fn renewal<'a>(provenance: &'a Provenance, name: &str) -> Option<&'a Value> {
    provenance.machine.get("renewal")?.get(name).filter(|it| !it.is_null())
}

fn frames(provenance: &Provenance) -> Option<Defect> {
    if renewal(provenance, "why_not_fresh").is_some() {
        return Some(Defect::FramesNotFresh);
    }
    let count = |name| renewal(provenance, name)?.as_u64();
    let (frames, reused) = (count("frames")?, count("frames_of_the_replicate_before")?);
    (REUSED * reused > frames).then_some(Defect::FramesReused { reused, frames })
}

fn numbers(samples: &[Sample]) -> BTreeSet<u64> {
    samples.iter().filter_map(|it| it.replicate).collect()
}

fn samples_for_replicates(samples: &[Sample]) -> Option<Defect> {
    let replicates = numbers(samples).len();
    let many = replicates > 1 && 2 * replicates > samples.len();
    many.then_some(Defect::SamplesForReplicates { replicates, samples: samples.len() })
}

fn alternating(samples: &[Sample]) -> Option<Defect> {
    let all: Vec<u64> = samples.iter().filter_map(|it| it.replicate).collect();
    let mut over = BTreeSet::new();
    for pair in all.windows(2).filter(|pair| pair[0] != pair[1]) {
        over.insert(pair[0]);
        if over.contains(&pair[1]) {
            return Some(Defect::Alternating { replicate: pair[1], other: pair[0] });
        }
    }
    None
}

fn more_than_renewed(run: &SampleFile) -> Option<Defect> {
    let renewed = renewal(&run.provenance, "replicates")?.as_u64()?;
    let replicates = numbers(&run.samples).len();
    (replicates as u64 > renewed).then_some(Defect::MoreThanRenewed { replicates, renewed })
}

fn pooled(run: &SampleFile) -> Option<Defect> {
    let platform = Platform::from_toml(&run.provenance.platform).ok()?;
    let mut exchanges = ClassExchanges::default();
    for sample in &run.samples {
        let mut declared = sample.clone();
        as_declared(&mut declared);
        exchanges.take(&platform, &declared);
    }
    let levels = exchanges.finish().pairs.iter().map(|of| of.levels.count()).max().unwrap_or(0);
    let unclassed = |it: &&Sample| {
        it.valid && depends_on_class(it) && it.exchange_cpu.is_some() && it.pair_class.is_none()
    };
    let samples = run.samples.iter().filter(unclassed).count();
    (levels > 1 && samples > 0).then_some(Defect::ClassesPooled { samples, levels })
}

words! {
    /// A defect that is made on purpose.
    Planted, "a planted defect" {
        /// Every replicate has the frames of the one before.
        FramesReused = "frames reused",
        /// Every sample is a replicate.
        SamplesForReplicates = "samples taken for replicates",
        /// The samples of each ten replicates are dealt out to ten numbers in turn, so that each number has its part of all ten.
        OneCountedAsTen = "one replicate counted as ten",
        /// Classes by topology, for every distance.
        ClassesPooled = "classes pooled",
    }
}

impl Planted {
    /// Returns a copy of the run with this defect.
    #[must_use]
    pub fn into(self, run: &SampleFile) -> SampleFile {
        let mut run = run.clone();
        match self {
            Self::FramesReused => reuse(&mut run.provenance),
            Self::SamplesForReplicates => {
                run.samples.iter_mut().zip(0..).for_each(|(it, at)| it.replicate = Some(at));
            }
            Self::OneCountedAsTen => {
                for (sample, at) in run.samples.iter_mut().zip(0..) {
                    sample.replicate = sample.replicate.map(|own| 10 * (own / 10) + at % 10);
                }
            }
            Self::ClassesPooled => run.samples.iter_mut().for_each(as_declared),
        }
        run
    }

    /// Whether `found` is the defect that was planted.
    pub fn is(self, found: &Defect) -> bool {
        found.to_string().starts_with(match self {
            Self::OneCountedAsTen => "one replicate counted as several",
            other => other.word(),
        })
    }

    /// Whether the run can show the planted defect: the run needs visible frames, and CPUs at several distances.
    pub fn can_show(self, run: &SampleFile) -> bool {
        match self {
            Self::FramesReused => renewal(&run.provenance, "frames").is_some_and(|it| *it != 0),
            Self::SamplesForReplicates | Self::OneCountedAsTen => numbers(&run.samples).len() > 1,
            Self::ClassesPooled => run.samples.iter().any(|it| it.declared_event != Some(it.event)),
        }
    }
}

fn reuse(provenance: &mut Provenance) {
    let frames = renewal(provenance, "frames").cloned().unwrap_or_default();
    let told = provenance.machine.get_mut("renewal").and_then(Value::as_object_mut);
    if let Some(told) = told {
        told.insert("frames_of_the_replicate_before".to_owned(), frames);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example::{guest, sample};
    use corehop_plan::workload::Event;
    use serde_json::json;

    /// Twenty replicates of ten migrations each, near for the first ten of them and far for the others.
    fn run() -> SampleFile {
        let of = |at: u64| {
            let ns = if at < 100 { 45.0 + (at % 7) as f64 } else { 205.0 + (at % 5) as f64 };
            Sample {
                event: Event::L3Migration,
                declared_event: Some(Event::L3Migration),
                replicate: Some(at / 10),
                to_cpu: 1,
                exchange_cpu: Some(1),
                exchange_ns: Some(ns),
                exchange_after_ns: Some(ns + 0.5),
                start_ns: at * 100_000_000,
                ..sample()
            }
        };
        let mut samples: Vec<Sample> = (0..200).map(of).collect();
        let mut exchanges = ClassExchanges::default();
        for sample in &samples {
            exchanges.take(&guest(), sample);
        }
        let classes = exchanges.finish();
        for sample in &mut samples {
            classes.assign(&guest(), sample);
        }
        let renewal = json!({
            "replicates": 20, "frames": 4000, "frames_of_the_replicate_before": 3,
            "why_not_fresh": null, "why_not_seen": null,
        });
        let mut provenance = Provenance { platform: guest().to_toml(), ..Provenance::default() };
        provenance.machine.insert("renewal".to_owned(), renewal);
        SampleFile { provenance, samples }
    }

    #[test]
    fn a_good_run_has_no_defect_and_every_planted_one_is_named() {
        let good = run();
        assert_eq!(defects(&good), []);
        for &planted in Planted::ALL {
            assert!(planted.can_show(&good), "{planted}");
            let found = defects(&planted.into(&good));
            assert!(found.iter().any(|it| planted.is(it)), "{planted}: {found:?}");
        }
    }

    #[test]
    fn a_defect_is_told_with_its_numbers() {
        let said = |planted: Planted| {
            let found = defects(&planted.into(&run()));
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert!(said(Planted::FramesReused).contains("4000 of 4000 frames"));
        assert!(said(Planted::SamplesForReplicates).contains("200 samples are of 200 replicates"));
        assert!(said(Planted::SamplesForReplicates).contains("and the machine began 20"));
        assert!(said(Planted::OneCountedAsTen).contains("samples of replicate 0 stand before"));
        assert!(said(Planted::ClassesPooled).contains("200 valid samples that depend on it"));
    }

    #[test]
    fn memory_that_was_too_short_and_samples_split_into_stretches_are_found_too() {
        let mut short = run();
        let renewal = short.provenance.machine.get_mut("renewal").unwrap();
        renewal["why_not_fresh"] = json!("too little memory");
        assert_eq!(defects(&short), [Defect::FramesNotFresh]);
        // One replicate cut into stretches, each of them called a replicate.
        let mut cut = run();
        cut.samples.iter_mut().zip(0..).for_each(|(it, at)| it.replicate = Some(at / 4));
        let found = defects(&cut);
        assert_eq!(found, [Defect::MoreThanRenewed { replicates: 50, renewed: 20 }]);
    }

    #[test]
    fn what_is_not_known_is_no_defect() {
        let mut old = run();
        old.provenance.machine.clear();
        assert_eq!(defects(&old), []);
        old.samples.iter_mut().for_each(|it| it.replicate = None);
        assert_eq!(defects(&old), []);
    }
}
