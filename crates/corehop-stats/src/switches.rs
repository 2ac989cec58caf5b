// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of a core switch for each mechanism, and the break-even point of a switch.
//!
//! **Cost of a switch**: `(T - T_none) / 2`, where `T` is the mean time of a call that switches to the other core and
//! back, and `T_none` is that of a call without a switch (Strong et al. 2009, section 5.1, gettidbench).
//!
//! **Break-even.** A caller that waits for each call loses `T - T_none` per call; a switch pays if the call itself is
//! faster by more than this time on the other core, for example because of warm caches. A caller with several
//! outstanding calls continues its own work while it waits. The caller needs `max(T_k, w + c)` per call with `w` ns of
//! own work, where `T_k` is the time per call with `k` outstanding and no own work, and `c` is the caller's own part of
//! a switch. The caller without switches needs `T_none + w`. A switch therefore pays if `c < T_none`, from
//! `w = T_k - T_none` on. The time of an empty call with `k` outstanding is an upper bound of `c`, and corehop uses
//! this bound for `c`.
//!
//! The break-even point ignores other uses of the other core. The mechanism `second-worker` measures two workers, each
//! on its own core, and [`Instead`] compares a switch with them.

use std::collections::BTreeMap;

use serde::Serialize;

mod pays;

pub use self::Switchings as Summary;
pub use pays::{Instead, MedianDifference, Pays};
use pays::{Medians, SwitchMedians};

use super::estimator::Estimator;
use super::ordered::Ordered;
use super::quantile::median;
use super::replicates::{Nested, ReplicateStatistic};
use super::summarise::{FromFile, Summarise};
use corehop_plan::samples::{Rows, SwitchBatch};
use corehop_plan::workload::Event;
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};

/// The confidence of all intervals is one minus this number.
const ALPHA: f64 = 0.05;

/// A call from one CPU to another, without its mechanism.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Switched {
    /// The id of the platform on which the calls were measured.
    pub machine: String,
    /// The application core, from which the call comes.
    pub from_cpu: u64,
    /// The OS core, on which the call is executed.
    pub to_cpu: u64,
    /// The measured class of a migration between the two CPUs, if known.
    pub pair_class: Option<Event>,
    /// The system call that the caller makes.
    pub call: SwitchCall,
    /// The size of the call in bytes; 0 without a size.
    pub bytes: u64,
}

/// The times of one call with one mechanism.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwitchSummary {
    /// The call and the CPUs to which the times belong.
    #[serde(flatten)]
    pub of: Switched,
    /// The mechanism that makes the call.
    pub mechanism: SwitchMechanism,
    /// The number of calls outstanding at a time.
    pub outstanding: u64,
    /// The number of valid batches behind the times.
    pub batches: usize,
    /// The number of batches that are not valid.
    pub invalid: usize,
    /// The mean time of a call in a batch, in nanoseconds, as a median over replicates.
    pub mean_ns: ReplicateStatistic,
    /// The shortest and the longest batch mean, in nanoseconds.
    pub range_ns: (f64, f64),
    /// The 10th, 50th, 90th and 99th percentiles of single calls, in nanoseconds, as medians over batches.
    pub percentiles_ns: [f64; 4],
    /// The one-way time of a line exchange between the two CPUs, in nanoseconds, as a median over batches.
    pub exchange_ns: Option<f64>,
    /// The time of a call minus the time of the call without a switch, in nanoseconds.
    pub extra_ns: Option<ReplicateStatistic>,
    /// The break-even point of the switch, or `None` for the mechanism without a switch.
    pub pays: Option<Pays>,
    /// The break-even point if a second worker could use the other core instead, or `None` for the mechanism without a
    /// switch.
    pub instead: Option<Instead>,
}

impl SwitchSummary {
    /// Returns the cost of one switch, in nanoseconds, with the ends of its interval if there is one. Returns `None`
    /// for the mechanism without a switch, and for several outstanding calls.
    pub fn per_switch_ns(&self) -> Option<(f64, Option<(f64, f64)>)> {
        let is_switch = self.outstanding == 1 && self.mechanism.switches();
        let extra = self.extra_ns.as_ref().filter(|_| is_switch)?;
        let ends = extra.interval.map(|interval| (interval.low / 2.0, interval.high / 2.0));
        Some((extra.estimate / 2.0, ends))
    }
}

/// The batches of one call with one mechanism.
#[derive(Debug, Clone, Default)]
struct CallBatches {
    /// The batch means, by seed and replicate.
    means: BTreeMap<(u64, u64), Vec<f64>>,
    percentiles: [Vec<f64>; 4],
    exchanges: Vec<f64>,
    invalid: usize,
    /// The reason why the first unmeasured batch was not measured.
    why: Option<String>,
}

/// A mechanism without a valid batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotMeasured {
    /// The call and the CPUs for which the mechanism was not measured.
    #[serde(flatten)]
    pub of: Switched,
    /// The mechanism that was not measured.
    pub mechanism: SwitchMechanism,
    /// The number of calls outstanding at a time.
    pub outstanding: u64,
    /// The number of batches without a measurement.
    pub batches: usize,
    /// The reason why the mechanism was not measured.
    pub why: String,
}

/// Returns the mechanisms without a valid batch, with their reasons.
pub fn not_measured(rows: &[SwitchBatch]) -> Vec<NotMeasured> {
    let mut switchings = Switchings::default();
    switchings.take(rows);
    switchings.not_measured()
}

impl CallBatches {
    fn take(&mut self, row: &SwitchBatch) {
        let Some(mean_ns) = row.mean_ns.filter(|_| row.valid) else {
            self.invalid += 1;
            if let Some(why) = &row.not_measured {
                self.why.get_or_insert_with(|| why.to_string());
            }
            return;
        };
        let replicate = (row.seed, row.replicate.unwrap_or_default());
        self.means.entry(replicate).or_default().push(mean_ns);
        let values = [row.p10_ns, row.p50_ns, row.p90_ns, row.p99_ns];
        self.percentiles.iter_mut().zip(values).for_each(|(all, value)| all.extend(value));
        self.exchanges.extend(row.exchange_ns);
    }

    /// Returns the median batch mean of each replicate.
    fn medians(&self) -> Medians {
        let of = |(&replicate, means): (&(u64, u64), &Vec<f64>)| Some((replicate, middle(means)?));
        self.means.iter().filter_map(of).collect()
    }

    /// Returns the differences to `other`, replicate by replicate.
    fn beyond(&self, other: &Self) -> Option<ReplicateStatistic> {
        let without = other.medians();
        let difference = |(replicate, with): (&(u64, u64), &f64)| {
            without.get(replicate).map(|without| vec![with - without])
        };
        let differences = self.medians().iter().filter_map(difference).collect();
        Nested::new(differences).ok()?.median(ALPHA).ok()
    }
}

fn middle(values: &[f64]) -> Option<f64> {
    Ordered::new(values).ok().map(|values| median(&values))
}

/// A mechanism, with its number of outstanding calls.
type MechanismKey = (SwitchMechanism, u64);

/// The collector gathers batches of core switches.
#[derive(Debug, Clone, Default)]
pub struct Switchings {
    batches: BTreeMap<Switched, BTreeMap<MechanismKey, CallBatches>>,
}

/// The core switches of all files.
#[derive(Debug, Clone, Default)]
pub struct SwitchResults {
    /// The summaries of calls, by mechanism.
    pub summaries: Vec<SwitchSummary>,
    /// The mechanisms without a valid batch.
    pub not_measured: Vec<NotMeasured>,
}

impl Summarise for Switchings {
    type Said = SwitchResults;

    fn new(_: Estimator) -> Self {
        Self::default()
    }

    fn take(&mut self, rows: &Rows, _: &FromFile<'_>) {
        Self::take(self, &rows.switches);
    }

    fn finish(&mut self) -> SwitchResults {
        SwitchResults { summaries: Self::finish(self), not_measured: self.not_measured() }
    }
}

impl Switchings {
    /// Adds batches of calls to the collection.
    pub fn take(&mut self, rows: &[SwitchBatch]) {
        for row in rows {
            let of = Switched {
                machine: row.machine.to_string(),
                from_cpu: row.from_cpu,
                to_cpu: row.to_cpu,
                pair_class: row.pair_class,
                call: row.call,
                bytes: row.bytes,
            };
            let ways = self.batches.entry(of).or_default();
            ways.entry((row.mechanism, row.outstanding)).or_default().take(row);
        }
    }

    /// Returns the summaries by pair of CPUs and call; the mechanisms of one call are in their usual order. A mechanism
    /// without a valid batch has no summary.
    pub fn finish(&self) -> Vec<SwitchSummary> {
        let of_call = |(of, ways): (&Switched, &BTreeMap<MechanismKey, CallBatches>)| {
            let medians = |mechanism| ways.get(&(mechanism, 1)).map(CallBatches::medians);
            let none = ways.get(&(SwitchMechanism::None, 1));
            let summary = |(&way, batches): (&MechanismKey, &CallBatches)| {
                let extra = none.filter(|_| way.0 != SwitchMechanism::None);
                let extra = extra.and_then(|none| batches.beyond(none));
                let beside = SwitchMedians {
                    outstanding: way.1,
                    way: batches.medians(),
                    none: medians(SwitchMechanism::None),
                    part: self.callers_part(of, way),
                    two: medians(SwitchMechanism::SecondWorker),
                };
                summary(of, way, batches, extra, &beside)
            };
            ways.iter().filter_map(summary).collect::<Vec<_>>()
        };
        self.batches.iter().flat_map(of_call).collect()
    }

    /// Returns the mechanisms without a valid batch. Only measured batches of a pair can show several classes, so a
    /// mechanism that was measured in any class of the pair counts as measured.
    pub fn not_measured(&self) -> Vec<NotMeasured> {
        let measured = |of: &Switched, way: &MechanismKey| {
            let same = |other: &Switched| Switched { pair_class: None, ..other.clone() };
            let others = self.batches.iter().filter(|(other, _)| same(other) == same(of));
            others.filter_map(|(_, ways)| ways.get(way)).any(|it| !it.means.is_empty())
        };
        let all = self.batches.iter().flat_map(|(of, ways)| ways.iter().map(move |it| (of, it)));
        let lacking = all.filter(|(of, (way, _))| !measured(of, way));
        lacking
            .map(|(of, (&(mechanism, outstanding), batches))| NotMeasured {
                of: of.clone(),
                mechanism,
                outstanding,
                batches: batches.invalid,
                why: batches.why.clone().unwrap_or_else(|| {
                    "the other CPU did not take the calls, or changed its distance".to_owned()
                }),
            })
            .collect()
    }

    /// Returns an upper bound of the caller's part of a switch: the time of an empty call with the same mechanism.
    fn callers_part(&self, of: &Switched, way: MechanismKey) -> Option<Medians> {
        let empty = Switched { call: SwitchCall::Gettid, bytes: 0, ..of.clone() };
        Some(self.batches.get(&empty)?.get(&way)?.medians())
    }
}

fn summary(
    of: &Switched,
    (mechanism, outstanding): MechanismKey,
    batches: &CallBatches,
    extra_ns: Option<ReplicateStatistic>,
    beside: &SwitchMedians,
) -> Option<SwitchSummary> {
    let all: Vec<f64> = batches.means.values().flatten().copied().collect();
    let ordered = Ordered::new(&all).ok()?;
    let nested = Nested::new(batches.means.values().cloned().collect()).ok()?;
    let switches = mechanism.switches();
    Some(SwitchSummary {
        of: of.clone(),
        mechanism,
        outstanding,
        batches: all.len(),
        invalid: batches.invalid,
        mean_ns: nested.median(ALPHA).ok()?,
        range_ns: (ordered.min(), ordered.max()),
        percentiles_ns: [0, 1, 2, 3].map(|at| middle(&batches.percentiles[at]).unwrap_or(f64::NAN)),
        exchange_ns: middle(&batches.exchanges),
        pays: switches.then(|| beside.pays()),
        instead: switches.then(|| beside.instead()),
        extra_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example::switch_batch;

    /// Makes eight replicates with one batch each, whose means are `ns` to `ns` + 7.
    fn batches(
        mechanism: SwitchMechanism,
        outstanding: u64,
        call: SwitchCall,
        ns: f64,
    ) -> Vec<SwitchBatch> {
        let bytes = if call.is_sized() { 4096 } else { 0 };
        let batch = |replicate: u64| SwitchBatch {
            mechanism,
            outstanding,
            call,
            bytes,
            mean_ns: Some(ns + replicate as f64),
            replicate: Some(replicate),
            ..switch_batch()
        };
        (0..8).map(batch).collect()
    }

    fn summaries(rows: &[Vec<SwitchBatch>]) -> Vec<SwitchSummary> {
        let mut all = Switchings::default();
        for rows in rows {
            all.take(rows);
        }
        all.finish()
    }

    #[test]
    fn a_switch_costs_half_of_what_a_call_takes_longer_in_the_same_replicate() {
        use SwitchMechanism::{None, V4};
        let rows = [(None, 70.0), (V4, 470.0)]
            .map(|(mechanism, ns)| batches(mechanism, 1, SwitchCall::Gettid, ns));
        let [none, v4] = &summaries(&rows)[..] else { unreachable!("two mechanisms") };
        assert_eq!((none.per_switch_ns(), none.pays), (Option::None, Option::None));
        let (estimate, _) = v4.per_switch_ns().unwrap();
        assert!((estimate - 200.0).abs() < 1e-9, "{estimate}");
        let exact = |ns| MedianDifference { ns, interval: Some((ns, ns)), replicates: 8 };
        assert_eq!(v4.pays, Some(Pays::FasterThere(exact(400.0))));
        assert_eq!(v4.instead, Some(Instead::Unknown), "no second worker was measured");
        assert_eq!((v4.batches, v4.range_ns), (8, (470.0, 477.0)));
    }

    #[test]
    fn outstanding_calls_pay_from_the_own_work_that_fills_the_time_of_the_other_core() {
        use SwitchMechanism::{None, V4};
        let of = |ns_of_write| {
            summaries(&[
                batches(None, 1, SwitchCall::Gettid, 70.0),
                batches(V4, 16, SwitchCall::Gettid, 60.0),
                batches(None, 1, SwitchCall::Pwrite, ns_of_write),
                batches(V4, 16, SwitchCall::Pwrite, 350.0),
            ])
        };
        // The caller's part is 60 ns of a write of 270, and the other core needs 80 ns more for one.
        let exact = |ns| MedianDifference { ns, interval: Some((ns, ns)), replicates: 8 };
        assert_eq!(of(270.0)[3].pays, Some(Pays::OwnWork(exact(80.0))));
        assert_eq!(of(2_000.0)[3].pays, Some(Pays::OwnWork(exact(0.0))));
        let Some(Pays::Never { part_ns, .. }) = of(50.0)[3].pays else { panic!("it pays") };
        assert!((part_ns - 63.5).abs() < 1.0, "{part_ns}");
    }

    #[test]
    fn without_the_call_that_stays_nothing_is_said_of_a_switch() {
        let rows = [batches(SwitchMechanism::V4, 1, SwitchCall::Gettid, 400.0)];
        let [v4] = &summaries(&rows)[..] else { unreachable!("one mechanism") };
        assert_eq!((v4.per_switch_ns(), v4.pays), (Option::None, Some(Pays::Unknown)));
    }

    #[test]
    fn near_and_far_batches_are_not_mixed_and_invalid_ones_only_counted() {
        let mut rows = batches(SwitchMechanism::V4, 1, SwitchCall::Gettid, 400.0);
        for (at, row) in rows.iter_mut().enumerate() {
            let far = at % 2 == 1;
            row.pair_class = Some(if far { Event::MemoryMigration } else { Event::L3Migration });
            row.valid = at != 7;
        }
        let [near, far] = &summaries(&[rows])[..] else { unreachable!("two classes") };
        assert_eq!((near.batches, near.invalid, far.batches, far.invalid), (4, 0, 3, 1));
    }
    #[test]
    fn a_mechanism_that_was_never_measured_says_why_and_one_that_failed_once_is_measured() {
        let failed = |rows: &mut [SwitchBatch]| {
            for row in rows {
                (row.mean_ns, row.valid) = (None, false);
                row.not_measured = Some("no answer".into());
            }
        };
        let mut sqpoll = batches(SwitchMechanism::Sqpoll, 1, SwitchCall::Gettid, 400.0);
        failed(&mut sqpoll[..1]);
        let mut v3 = batches(SwitchMechanism::V3, 1, SwitchCall::Gettid, 400.0);
        failed(&mut v3);
        let mut all = Switchings::default();
        all.take(&[sqpoll, v3].concat());
        let [lacks] = &all.not_measured()[..] else { panic!("{:?}", all.not_measured()) };
        assert_eq!((lacks.mechanism, &*lacks.why), (SwitchMechanism::V3, "no answer"));
        let [sqpoll] = &all.finish()[..] else { panic!("{:?}", all.finish()) };
        assert_eq!((sqpoll.batches, sqpoll.invalid), (7, 1));
    }
}
