// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the cells that lack samples of an observed class of migration.
//!
//! A host that moves its virtual CPUs determines the class of each migration. If the host shows several
//! classes for a relevant part of the time, each class should have its part of a cell's samples. Corehop
//! takes further replicates for this, but a bounded number, because nobody knows the class of a replicate
//! in advance.

use crate::classes::{ClassExchanges, Classes, depends_on_class};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Sample, SwitchBatch};
use corehop_plan::workload::Event;

/// The smallest share of time for which the machine must be in a class so that corehop waits for samples
/// of the class.
const OFTEN: f64 = 0.1;

/// The samples of a run, reduced to the facts about their classes.
#[derive(Debug, Clone)]
pub struct ClassQuota {
    platform: Platform,
    exchanges: ClassExchanges,
    /// The valid samples whose delay depends on the class, which is not yet decided.
    samples: Vec<Sample>,
}

impl ClassQuota {
    /// Makes a quota that has no samples yet.
    pub fn new(platform: Platform) -> Self {
        Self { platform, exchanges: ClassExchanges::default(), samples: Vec::new() }
    }

    /// Adds a sample with its declared class.
    pub fn take(&mut self, sample: &Sample) {
        self.exchanges.take(&self.platform, sample);
        if sample.valid && depends_on_class(sample) && sample.exchange_cpu.is_some() {
            self.samples.push(sample.clone());
        }
    }

    /// Adds a batch of core switches with its declared class. Batches count for the classes, but have no
    /// quota.
    pub fn take_switches(&mut self, batch: &SwitchBatch) {
        self.exchanges.take(&self.platform, batch);
    }

    /// Returns the classes that the run has shown so far.
    pub fn classes(&self) -> Classes {
        self.exchanges.finish()
    }

    /// Returns the number of samples that each cell lacks in its rarest class: each frequent class should
    /// have an equal part of the requested number.
    pub fn lacking(&self, asked: &[u32]) -> Vec<u32> {
        let classes = self.classes();
        let often: Vec<Event> = often(&classes);
        let mut lacking = vec![0; asked.len()];
        if often.len() < 2 {
            return lacking;
        }
        let mut counts = vec![vec![0_u32; often.len()]; asked.len()];
        let mut concerned = vec![false; asked.len()];
        for sample in &self.samples {
            let cell = sample.cell as usize;
            let (Some(counts), Some(concerned)) = (counts.get_mut(cell), concerned.get_mut(cell))
            else {
                continue;
            };
            *concerned = true;
            let class = classes.class_of(&self.platform, sample);
            if let Some(at) = often.iter().position(|&of| Some(of) == class) {
                counts[at] += 1;
            }
        }
        for (cell, lacks) in lacking.iter_mut().enumerate().filter(|&(cell, _)| concerned[cell]) {
            let part = asked[cell] / often.len() as u32;
            let fewest = counts[cell].iter().copied().min().unwrap_or(part);
            *lacks = part.saturating_sub(fewest);
        }
        lacking
    }
}

/// Returns the classes that the run has shown often enough to wait for them.
fn often(classes: &Classes) -> Vec<Event> {
    let mut all = Vec::new();
    for of in classes.pairs.iter().filter(|of| of.levels.count() > 1) {
        for (level, stay) in of.stays.levels.iter().enumerate() {
            let class = crate::distance::measured_event(of.declared, level, of.levels.count());
            if stay.share >= OFTEN && !all.contains(&class) {
                all.push(class);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{guest, sample};

    /// Makes a run in which `far` of a hundred batches were far, with one sample of cell 1 each.
    fn run(far: u64) -> ClassQuota {
        let mut quota = ClassQuota::new(guest());
        for at in 0..100 {
            let ns = |at: u64| {
                if at < 100 - far { 45.0 + (at % 7) as f64 } else { 205.0 + (at % 5) as f64 }
            };
            quota.take(&Sample {
                event: Event::L3Migration,
                declared_event: Some(Event::L3Migration),
                cell: 1,
                from_cpu: 0,
                to_cpu: 1,
                exchange_cpu: Some(1),
                exchange_ns: Some(ns(at)),
                exchange_after_ns: Some(ns(at) + 0.5),
                start_ns: at * 100_000_000,
                ..sample()
            });
        }
        quota
    }

    #[test]
    fn a_class_that_is_met_often_is_to_have_its_part_and_a_rare_one_is_not_waited_for() {
        assert_eq!(run(0).lacking(&[10, 100]), [0, 0]);
        assert_eq!(run(5).lacking(&[10, 100]), [0, 0], "too rare to be waited for");
        assert_eq!(run(20).lacking(&[10, 100]), [0, 30]);
        assert_eq!(run(50).lacking(&[10, 100]), [0, 0]);
    }
}
