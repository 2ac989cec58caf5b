// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares actual with requested preemption lengths.

use std::collections::BTreeMap;

use serde::Serialize;

use super::delay::{ALPHA, nested_quantile};
use super::ordered::Ordered;
use super::quantile::{Maximum, Quantile, maximum};
use super::replicates::Nested;
use corehop_plan::samples::{PreemptionLength, Text};

/// The actual lengths for one requested length; times in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthSummary {
    /// The id of the platform on which the absences were measured.
    pub machine: String,
    /// The background load during the absences.
    pub load: String,
    /// The requested length of the absences in microseconds.
    pub requested_us: f64,
    /// The median of the actual lengths.
    pub got_us: Quantile,
    /// The median excess over the requested length.
    pub excess_us: Quantile,
    /// The 99 % quantile of the excess, or `None` if there are too few absences.
    pub excess_p99_us: Option<Quantile>,
    /// The largest excess, with the number of absences.
    pub excess_max_us: Maximum,
}

/// The actual lengths for a requested length, and the replicate of each.
type Got = (Vec<f64>, Vec<u64>);

/// Collects absences by requested length while they stream in.
#[derive(Debug, Clone, Default)]
pub struct AbsenceLengths {
    got: BTreeMap<(Text, Text, u64), Got>,
}

impl AbsenceLengths {
    /// Adds absences to the lengths.
    pub fn take(&mut self, absences: &[PreemptionLength]) {
        for absence in absences.iter().filter(|absence| absence.length_ns.is_finite()) {
            let key = (absence.machine.clone(), absence.load.clone(), absence.requested_length_ns);
            let (got, replicates) = self.got.entry(key).or_default();
            got.push(absence.length_ns / 1e3);
            replicates.push(absence.replicate.unwrap_or_default());
        }
    }

    /// Returns the actual lengths, by requested length.
    pub fn finish(&self) -> Vec<LengthSummary> {
        self.got.iter().filter_map(|(key, got)| summary(key, got)).collect()
    }
}

fn summary(
    (machine, load, requested): &(Text, Text, u64),
    (got, replicates): &Got,
) -> Option<LengthSummary> {
    let requested_us = *requested as f64 / 1e3;
    let excess: Vec<f64> = got.iter().map(|got| got - requested_us).collect();
    let [of_got, of_excess] =
        [got, &excess].map(|values| Nested::from_labelled(values, replicates).ok());
    let (of_got, of_excess) = (of_got?, of_excess?);
    let carried = excess.len() >= 100;
    Some(LengthSummary {
        machine: machine.to_string(),
        load: load.to_string(),
        requested_us,
        got_us: nested_quantile(&of_got, 0.5)?,
        excess_us: nested_quantile(&of_excess, 0.5)?,
        excess_p99_us: nested_quantile(&of_excess, 0.99).filter(|_| carried),
        excess_max_us: maximum(&Ordered::new(&excess).ok()?, 1.0 - ALPHA).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::preemption_length;

    #[test]
    fn what_was_got_is_held_against_what_was_asked_for() {
        let got = |us: f64| PreemptionLength { length_ns: 1e3 * us, ..preemption_length() };
        let other = PreemptionLength { requested_length_ns: 2_000_000, ..got(2_500.0) };
        let mut lengths = AbsenceLengths::default();
        lengths.take(&[got(1_050.0), got(1_060.0), got(1_400.0), other]);
        let [one, two] = lengths.finish().try_into().unwrap();
        assert_eq!((one.requested_us, one.got_us.estimate), (1_000.0, 1_060.0));
        assert_eq!((one.excess_us.estimate, one.excess_max_us.value), (60.0, 400.0));
        assert_eq!((one.excess_max_us.n, one.excess_p99_us), (3, None));
        assert_eq!((two.requested_us, two.excess_us.estimate), (2_000.0, 500.0));
    }
}
