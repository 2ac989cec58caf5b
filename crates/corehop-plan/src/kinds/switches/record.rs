// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine's record of a batch of core switches, and the conversion to a row.

use crate::kinds::RowTime;
use crate::kinds::origin::RunContext;
use crate::kinds::{BatchExchange, RowObservation, SwitchBatch, Switches};
use crate::units::Bytes;

/// The record of one batch of calls.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchRecord {
    /// The index of the cell in the plan.
    pub cell: usize,
    /// The index of the batch in the plan, counted from 0.
    pub batch: u64,
    /// The replicate to which the batch belongs.
    pub replicate: u32,
    /// The start of the batch, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// The number of calls that the caller's core made itself because the other core did not take them in time.
    pub stayed: u64,
    /// The times that the calls of the batch took.
    pub times: SwitchTimes,
    /// The number of times that another thread took the caller's CPU, or `None` if not counted.
    pub preempted: Option<u64>,
    /// The line exchanges between the two CPUs around the batch, if measured.
    pub exchange: Option<BatchExchange>,
}

/// The times of a batch, or the reason why the batch was not measured.
pub type SwitchTimes = Result<CallTimes, String>;

/// The times of the calls of a batch, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTimes {
    /// The number of calls that were timed.
    pub calls: u64,
    /// The time of the batch divided by the number of its calls.
    pub mean_ns: f64,
    /// The time of the shortest call.
    pub least_ns: f64,
    /// The 10th, 50th, 90th and 99th percentiles of the calls' times.
    pub percentiles_ns: [f64; 4],
    /// The time of the longest call.
    pub most_ns: f64,
}

impl CallTimes {
    /// The ranks of the percentiles that corehop computes from the call times.
    const SHARES: [f64; 4] = [0.1, 0.5, 0.9, 0.99];

    /// Returns the times of a batch that took `whole_ns`, with the times of its calls, or `None` if the batch has no
    /// call. The function sorts the times in `each_ns`.
    pub fn of(whole_ns: f64, each_ns: &mut [f64]) -> Option<Self> {
        each_ns.sort_unstable_by(f64::total_cmp);
        let (&least_ns, &most_ns) = (each_ns.first()?, each_ns.last()?);
        let calls = each_ns.len();
        // The smallest time that this share of the calls does not exceed.
        let rank = |share: f64| ((share * calls as f64).ceil() as usize).clamp(1, calls) - 1;
        Some(Self {
            calls: calls as u64,
            mean_ns: whole_ns / calls as f64,
            least_ns,
            percentiles_ns: Self::SHARES.map(|share| each_ns[rank(share)]),
            most_ns,
        })
    }
}

impl SwitchBatch {
    /// Returns the row of a record of `switches` in a run that has already had `first` batches, or `None` if the cell
    /// does not exist.
    pub(super) fn of(
        context: &RunContext,
        switches: &Switches,
        first: u64,
        record: &SwitchRecord,
    ) -> Option<Self> {
        let cell = switches.cells.get(record.cell)?;
        let times = record.times.as_ref().ok();
        let percentile = |at: usize| times.map(|times| times.percentiles_ns[at]);
        Some(Self {
            machine: context.machine.clone(),
            seed: context.seed,
            batch: first + record.batch,
            cell: record.cell as u64,
            mechanism: cell.mechanism,
            from_cpu: u64::from(cell.from.0),
            to_cpu: u64::from(cell.to.0),
            call: cell.call,
            bytes: cell.bytes,
            outstanding: u64::from(cell.outstanding),
            start_ns: record.start_ns,
            calls: times.map_or(0, |times| times.calls),
            stayed: record.stayed,
            mean_ns: times.map(|times| times.mean_ns),
            least_ns: times.map(|times| times.least_ns),
            p10_ns: percentile(0),
            p50_ns: percentile(1),
            p90_ns: percentile(2),
            p99_ns: percentile(3),
            most_ns: times.map(|times| times.most_ns),
            preempted: record.preempted,
            valid: record.stayed == 0 && times.is_some(),
            replicate: Some(u64::from(record.replicate)),
            exchange_ns: record.exchange.and_then(|exchange| exchange.before_ns),
            exchange_after_ns: record.exchange.and_then(|exchange| exchange.after_ns),
            pair_class: None,
            not_measured: record.times.as_ref().err().map(|why| why.as_str().into()),
        })
    }

    /// Returns the observation of the batch for the number of samples.
    pub(super) fn observation(&self) -> RowObservation {
        RowObservation {
            cell: self.cell,
            valid: self.valid,
            measured: self.mean_ns.is_some(),
            value_ns: self.mean_ns.unwrap_or_default(),
            scale_ns: self.mean_ns.unwrap_or_default(),
            replicate: self.replicate,
        }
    }
}

impl SwitchBatch {
    /// Returns the mean time of the batch's calls, for comparisons. The result states the reason if the mechanism was
    /// not measured, and is `None` if the batch is not valid.
    pub(super) fn time(&self) -> Option<RowTime> {
        let ns = match &self.not_measured {
            Some(why) => Err(why.to_string()),
            None => Ok(self.mean_ns.filter(|_| self.valid)?),
        };
        let size =
            if self.bytes > 0 { format!(" {}", Bytes::new(self.bytes)) } else { String::new() };
        let depth = if self.outstanding > 1 {
            format!(", {} at a time", self.outstanding)
        } else {
            String::new()
        };
        Some(RowTime {
            experiment: "core-switch",
            group: format!("time of a call of {}{size}{depth}", self.call),
            place: 0,
            name: format!("{} {}:{}", self.mechanism, self.from_cpu, self.to_cpu),
            replicate: self.replicate.unwrap_or_default(),
            ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut each: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let times = CallTimes::of(21_000.0, &mut each).unwrap();
        assert_eq!((times.least_ns, times.most_ns, times.mean_ns), (1.0, 200.0, 105.0));
        assert_eq!(times.percentiles_ns.map(|ns| ns.round() as u64), [20, 100, 180, 198]);
        let one = CallTimes::of(70.0, &mut [70.0]).unwrap();
        assert_eq!(one.percentiles_ns.map(|ns| ns.round() as u64), [70; 4]);
        assert_eq!(CallTimes::of(0.0, &mut []), None);
    }
}
