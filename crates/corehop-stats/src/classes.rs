// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns the measured class to every sample, from the exchanges around the batches of a run.
//!
//! The description of a machine states which caches two CPUs share. A host that moves the virtual CPUs of its
//! guests makes this statement sometimes true and sometimes false. The exchanges of all pairs with one declared
//! class fall into levels (see [`crate::distance`]), and a sample has the class of its batch. If the class
//! cannot be determined, the samples are invalid: for a batch whose two exchanges disagree, and for a batch
//! without exchanges on a machine with several levels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distance::{BatchClass, ExchangeLevels, LevelResidence, measured_event, stays};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Cause, Sample, SwitchBatch};
use corehop_plan::units::Cpu;
use corehop_plan::workload::{Absence, Event};

/// Collects exchanges while rows stream in, each batch once.
#[derive(Debug, Clone, Default)]
pub struct ClassExchanges {
    /// The exchanges by the declared class of their pair, each with its time in nanoseconds since the start of
    /// the run.
    of_class: BTreeMap<Event, Vec<(u64, f64)>>,
    last: Option<(u64, Option<f64>, Option<f64>)>,
    batches: u64,
    /// The number of batches that lack one or both exchanges.
    incomplete: u64,
}

/// The exchanges around the batch of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exchanged {
    from_cpu: u64,
    with: Option<u64>,
    before_ns: Option<f64>,
    after_ns: Option<f64>,
    start_ns: u64,
}

impl From<&Sample> for Exchanged {
    fn from(it: &Sample) -> Self {
        Self {
            from_cpu: it.from_cpu,
            with: it.exchange_cpu,
            before_ns: it.exchange_ns,
            after_ns: it.exchange_after_ns,
            start_ns: it.start_ns,
        }
    }
}

impl From<&SwitchBatch> for Exchanged {
    fn from(it: &SwitchBatch) -> Self {
        Self {
            from_cpu: it.from_cpu,
            // On a simulated machine no lines are exchanged.
            with: it.exchange_ns.or(it.exchange_after_ns).map(|_| it.to_cpu),
            before_ns: it.exchange_ns,
            after_ns: it.exchange_after_ns,
            start_ns: it.start_ns,
        }
    }
}

impl Exchanged {
    /// Returns the declared class of the pair that exchanged lines.
    fn declared(&self, platform: &Platform) -> Option<Event> {
        let (from, with) = (Cpu(self.from_cpu as u32), Cpu(self.with? as u32));
        Some(Event::resuming(platform, from, with)).filter(|class| class.is_migration())
    }
}

impl ClassExchanges {
    /// Adds the exchanges of a row, unless they equal the exchanges of the previous row.
    pub fn take(&mut self, platform: &Platform, row: impl Into<Exchanged>) {
        let row = row.into();
        let Some(class) = row.declared(platform) else { return };
        let (before, after) = (row.before_ns, row.after_ns);
        // The pair, whichever way round.
        let with = row.with.unwrap_or_default();
        let pair = row.from_cpu.min(with) << 32 | row.from_cpu.max(with);
        let batch = Some((pair, before, after));
        if self.last == batch {
            return;
        }
        self.last = batch;
        self.batches += 1;
        self.incomplete += u64::from(before.is_none() || after.is_none());
        let series = self.of_class.entry(class).or_default();
        // What stands after one batch stands before the next one too.
        let known = series.last().map(|&(_, exchange)| exchange);
        series.extend(before.filter(|_| before != known).map(|ns| (row.start_ns, ns)));
        series.extend(after.map(|ns| (row.start_ns + AFTER_NS, ns)));
    }

    /// Returns the levels of the exchanges and the classes of pairs.
    pub fn finish(&self) -> Classes {
        let told = |(&declared, series): (&Event, &Vec<(u64, f64)>)| {
            let exchanges: Vec<f64> = series.iter().map(|&(_, exchange)| exchange).collect();
            let levels = ExchangeLevels::of(&exchanges);
            let stays = stays(series, &levels);
            OfPairs { declared, levels, stays }
        };
        Classes {
            pairs: self.of_class.iter().map(told).collect(),
            batches: self.batches,
            batches_without_exchange: self.incomplete,
        }
    }
}

/// The approximate time from a batch's first job to the end of the batch, in nanoseconds.
const AFTER_NS: u64 = 100_000_000;

/// The measured distances of a run's pairs of CPUs, by declared class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Classes {
    /// The pairs of CPUs, one entry for each declared class.
    pub pairs: Vec<OfPairs>,
    /// The number of batches around which lines were to be exchanged.
    pub batches: u64,
    /// The number of batches that lack an exchange because the other CPU was not free in time.
    pub batches_without_exchange: u64,
}

/// The levels of all pairs of CPUs with one declared class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfPairs {
    /// The declared class of a migration between the two CPUs of a pair.
    pub declared: Event,
    /// The levels of the pairs' exchanges.
    pub levels: ExchangeLevels,
    /// The time that the pairs spent at each distance.
    pub stays: LevelResidence,
}

impl Classes {
    /// Returns the pairs to which a row belongs, and the class that the exchanges around its batch show.
    fn batch(
        &self,
        platform: &Platform,
        row: impl Into<Exchanged>,
    ) -> Option<(&OfPairs, BatchClass)> {
        let row = row.into();
        let declared = row.declared(platform)?;
        let of = self.pairs.iter().find(|of| of.declared == declared)?;
        Some((of, of.levels.batch(row.before_ns, row.after_ns)))
    }

    /// Returns the measured class of a sample's pair, or `None` if it cannot be determined.
    pub fn class_of(&self, platform: &Platform, sample: &Sample) -> Option<Event> {
        let (of, batch) = self.batch(platform, sample)?;
        let BatchClass::Level(level) = batch else { return None };
        Some(measured_event(of.declared, level, of.levels.count()))
    }

    /// Assigns the measured class to a sample, and marks the sample as invalid if the class cannot be
    /// determined.
    pub fn assign(&self, platform: &Platform, sample: &mut Sample) {
        let Some((of, batch)) = self.batch(platform, &*sample) else { return };
        let (declared, several) = (of.declared, of.levels.count() > 1);
        match batch {
            BatchClass::Level(level) => {
                let class = measured_event(declared, level, of.levels.count());
                sample.pair_class = Some(class);
                if sample.event == declared && Some(sample.to_cpu) == sample.exchange_cpu {
                    sample.event = class;
                }
            }
            BatchClass::Changed => disturb(sample),
            BatchClass::Unknown if several && depends_on_class(sample) => disturb(sample),
            BatchClass::Unknown => {}
        }
    }

    /// Assigns the measured class of its pair to a batch of core switches. A batch is invalid if its class
    /// changed, or if its class is unknown and the pairs have several classes.
    pub fn assign_switches(&self, platform: &Platform, row: &mut SwitchBatch) {
        let Some((of, batch)) = self.batch(platform, &*row) else { return };
        match batch {
            BatchClass::Level(level) => {
                row.pair_class = Some(measured_event(of.declared, level, of.levels.count()));
            }
            BatchClass::Changed => row.valid = false,
            BatchClass::Unknown => row.valid &= of.levels.count() == 1,
        }
    }

    /// Returns whether some pairs have more than one level.
    pub fn several(&self) -> bool {
        self.pairs.iter().any(|of| of.levels.count() > 1)
    }
}

/// Returns whether the measured value depends on the distance to the other CPU, which applies to migrations and
/// to jobs beside a load.
pub fn depends_on_class(sample: &Sample) -> bool {
    sample.event.is_migration() || sample.preempted_by == Absence::Load
}

/// Resets a sample to the declared class, as it was before measured classes were assigned.
pub fn as_declared(sample: &mut Sample) {
    sample.event = sample.declared_event.unwrap_or(sample.event);
    sample.pair_class = None;
    sample.disturbed_by.retain(|&cause| cause != Cause::ClassChanged);
    sample.valid = sample.disturbed_by.is_empty();
}

/// Resets a batch of core switches to its declared class.
pub fn switches_as_declared(row: &mut SwitchBatch) {
    row.pair_class = None;
    row.valid = row.stayed == 0;
}

fn disturb(sample: &mut Sample) {
    sample.valid = false;
    if !sample.disturbed_by.contains(&Cause::ClassChanged) {
        sample.disturbed_by.push(Cause::ClassChanged);
        sample.disturbed_by.sort_unstable();
    }
    // What was cut out is told of valid samples only.
    sample.repaired.clear();
    sample.repaired_ns = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{guest, sample};

    fn taken(event: Event, number: u64, before: Option<f64>, after: Option<f64>) -> Sample {
        Sample {
            event,
            declared_event: Some(event),
            from_cpu: 0,
            to_cpu: u64::from(event.is_migration()),
            exchange_cpu: Some(1),
            exchange_ns: before,
            exchange_after_ns: after,
            start_ns: number * 100_000_000,
            ..sample()
        }
    }

    /// Returns the samples of a run with their classes.
    fn assigned(mut samples: Vec<Sample>) -> (Vec<Sample>, Classes) {
        let platform = guest();
        let mut exchanges = ClassExchanges::default();
        for sample in &samples {
            exchanges.take(&platform, sample);
        }
        let classes = exchanges.finish();
        for sample in &mut samples {
            classes.assign(&platform, sample);
        }
        (samples, classes)
    }

    /// Makes samples that are near for thirty batches and far for thirty, with a batch between them in which
    /// the host moves.
    fn moved() -> Vec<Sample> {
        let near = |i: u64| 45.0 + (i % 7) as f64;
        let far = |i: u64| 205.0 + (i % 5) as f64;
        let mut samples: Vec<Sample> = (0..30)
            .map(|i| taken(Event::L3Migration, i, Some(near(i)), Some(near(i + 1))))
            .collect();
        samples.push(taken(Event::L3Migration, 30, Some(near(30)), Some(far(0))));
        samples.extend(
            (0..30).map(|i| taken(Event::L3Migration, 31 + i, Some(far(i)), Some(far(i + 1)))),
        );
        samples
    }

    #[test]
    fn a_migration_is_what_the_exchanges_around_its_batch_say() {
        let (samples, classes) = assigned(moved());
        assert!(classes.several());
        assert!(samples[..30].iter().all(|it| it.event == Event::L3Migration && it.valid));
        assert!(samples[31..].iter().all(|it| it.event == Event::MemoryMigration && it.valid));
        assert!(samples.iter().all(|it| it.declared_event == Some(Event::L3Migration)));
        let changed = &samples[30];
        assert_eq!((changed.valid, &changed.disturbed_by[..]), (false, &[Cause::ClassChanged][..]));
        assert_eq!(classes.pairs[0].stays.changes, 1);
    }

    #[test]
    fn a_run_that_goes_on_begins_with_its_samples_as_declared() {
        let declared = moved();
        let (mut samples, classes) = assigned(declared.clone());
        samples.iter_mut().for_each(as_declared);
        assert_eq!(samples, declared);
        for sample in &mut samples {
            classes.assign(&guest(), sample);
        }
        assert_eq!(samples, assigned(declared).0);
    }

    #[test]
    fn a_machine_of_one_level_is_as_declared_and_a_missing_exchange_spoils_nothing() {
        let mut all: Vec<Sample> = moved().into_iter().take(30).collect();
        all.push(taken(Event::L3Migration, 40, None, None));
        let (samples, classes) = assigned(all);
        assert!(!classes.several() && samples.iter().all(|it| it.valid));
        assert!(samples.iter().all(|it| it.event == Event::L3Migration));
        assert_eq!(classes.batches_without_exchange, 1);
    }

    #[test]
    fn of_three_distances_the_nearest_is_as_declared_and_none_beyond_memory() {
        let ns = |at: u64| [45.0, 110.0, 260.0][at as usize / 30] + (at % 7) as f64;
        let of = |at| taken(Event::L3Migration, at, Some(ns(at)), Some(ns(at)));
        let (samples, classes) = assigned((0..90).map(of).collect());
        assert_eq!(classes.pairs[0].levels.count(), 3);
        let events: Vec<Event> = samples.iter().step_by(30).map(|it| it.event).collect();
        let far = Event::MemoryMigration;
        assert_eq!(events, [Event::L3Migration, far, far]);
        assert!(samples.iter().all(|it| it.valid));
        assert_eq!(classes.class_of(&guest(), &samples[40]), Some(far));
    }

    #[test]
    fn where_there_are_several_levels_a_migration_without_an_exchange_has_no_class() {
        let mut all = moved();
        all.push(taken(Event::L3Migration, 70, None, None));
        all.push(taken(Event::None, 71, None, None));
        all.push(taken(Event::Preemption, 72, Some(206.0), Some(207.0)));
        let (samples, _) = assigned(all);
        let [lost, control, preemption] = &samples[61..] else { panic!() };
        assert!(!lost.valid && control.valid && preemption.valid);
        assert_eq!(preemption.event, Event::Preemption, "it stays what it is");
        assert_eq!(preemption.pair_class, Some(Event::MemoryMigration));
    }

    #[test]
    fn the_samples_of_a_batch_count_its_exchanges_once() {
        let batch = || taken(Event::None, 3, Some(40.0), Some(41.0));
        let (_, classes) = assigned(vec![batch(), batch(), batch()]);
        assert_eq!((classes.batches, classes.pairs[0].levels.exchanges), (1, 2));
    }
}
