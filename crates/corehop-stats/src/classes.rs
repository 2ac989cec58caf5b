// SPDX-License-Identifier: MIT OR Apache-2.0
//! The class of every sample, as it was measured: from the exchanges around the batches of a run.
//!
//! A description of a machine says which caches two CPUs share. A host that moves the virtual CPUs of
//! its guests makes that true at one time and false at another. The exchanges of a run, of all pairs
//! that are declared alike, fall into levels (see [`crate::distance`]); a sample's class is that
//! of its batch. What cannot be told is said: a batch whose two exchanges disagree, and one without
//! exchanges on a machine that has several levels, give no valid samples.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::distance::{BatchClass, ExchangeLevels, LevelResidence, measured_event, stays};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Cause, Sample, SwitchBatch};
use corehop_plan::units::Cpu;
use corehop_plan::workload::{Absence, Event};

/// Exchanges as they stream by, each batch once.
#[derive(Debug, Clone, Default)]
pub struct ClassExchanges {
    /// By the declared class of the pair: the time in nanoseconds since the run began, and the exchange.
    of_class: BTreeMap<Event, Vec<(u64, f64)>>,
    last: Option<(u64, Option<f64>, Option<f64>)>,
    batches: u64,
    /// Batches that lack one of their exchanges or both.
    incomplete: u64,
}

/// The exchanges around a batch that a row belongs to.
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
    /// The declared class of the pair whose lines were exchanged.
    fn declared(&self, platform: &Platform) -> Option<Event> {
        let (from, with) = (Cpu(self.from_cpu as u32), Cpu(self.with? as u32));
        Some(Event::resuming(platform, from, with)).filter(|class| class.is_migration())
    }
}

impl ClassExchanges {
    /// Takes the exchanges of a row, unless they are those of the row before.
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

    /// The levels.
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

/// About how long after its first job a batch ends, in nanoseconds.
const AFTER_NS: u64 = 100_000_000;

/// The measured distances of a run's pairs of CPUs, by their declared class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Classes {
    /// By the declared class.
    pub pairs: Vec<OfPairs>,
    /// Batches of jobs around which lines were to be exchanged.
    pub batches: u64,
    /// Those that lack an exchange before or after them: the other CPU was not free in time.
    pub batches_without_exchange: u64,
}

/// The levels of pairs that are declared alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfPairs {
    /// The declared class of a migration between such CPUs.
    pub declared: Event,
    /// The levels of their exchanges.
    pub levels: ExchangeLevels,
    /// The time at each distance.
    pub stays: LevelResidence,
}

impl Classes {
    /// The pairs that a row's belongs to, and what the exchanges around its batch say.
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

    /// The class of a sample's pair as it was measured; None where that cannot be told.
    pub fn class_of(&self, platform: &Platform, sample: &Sample) -> Option<Event> {
        let (of, batch) = self.batch(platform, sample)?;
        let BatchClass::Level(level) = batch else { return None };
        Some(measured_event(of.declared, level, of.levels.count()))
    }

    /// Gives a sample its class: what it is, and whether that can be told.
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

    /// Gives a batch of core switches the class of its pair of CPUs. One whose class changed is not valid, nor,
    /// where there are several classes, one whose class cannot be told.
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

    /// Whether some pairs showed more than one level.
    pub fn several(&self) -> bool {
        self.pairs.iter().any(|of| of.levels.count() > 1)
    }
}

/// Whether what is measured differs with the distance to the other CPU: migrations, and whatever runs
/// beside a load.
pub fn depends_on_class(sample: &Sample) -> bool {
    sample.event.is_migration() || sample.preempted_by == Absence::Load
}

/// The sample as it was before classes were assigned: what the machine's description calls it.
pub fn as_declared(sample: &mut Sample) {
    sample.event = sample.declared_event.unwrap_or(sample.event);
    sample.pair_class = None;
    sample.disturbed_by.retain(|&cause| cause != Cause::ClassChanged);
    sample.valid = sample.disturbed_by.is_empty();
}

/// The same for a batch of core switches.
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

    /// The samples of a run with their classes.
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

    /// Near for thirty batches, far for thirty, with a batch between them in which the host moves.
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
