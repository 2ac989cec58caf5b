// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking a model: which series a question means, and its answer with interval.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::cell::walked_bytes;
use super::analytic::ComputedCost;
use super::point::{CostEstimate, Statistic};
use super::series::{DelaySeries, SeriesValue, ValueOrigin};
use super::{DelayModel, FittedSeries, HoldoutErrors, Method, SeriesKey};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayQuery {
    /// The event.
    pub event: Event,
    /// The background load.
    pub load: String,
    /// The working-set size.
    pub wss: Bytes,
    /// The preemption length; the longest measured where there is none.
    pub length: Option<Nanos>,
    /// The statistic.
    pub statistic: Statistic,
    /// By which method; the best one where there is none.
    pub method: Option<Method>,
    /// Other fields of the series, as names and values.
    pub only: Vec<(String, String)>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The common properties of the cells that it is read off.
    pub series: SeriesKey,
    /// The size.
    pub wss_bytes: u64,
    /// The length, in microseconds; None for the longest measured.
    pub length_us: Option<f64>,
    /// The statistic.
    pub statistic: Statistic,
    /// The cost. A computed one has no interval, unless its errors on measured points give it one.
    #[serde(flatten)]
    pub cost: CostEstimate,
    /// The curve's value there, where it pools the measured value with its neighbours to stay monotone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<CostEstimate>,
    /// By which method.
    pub method: Method,
    /// The position among the measured sizes; None where it was computed.
    pub place: Option<ValueOrigin>,
    /// Samples at that size, or the fewer of those at the two sizes around it; None where it was computed.
    pub n: Option<usize>,
    /// The replicates that the samples of [`Self::n`] come from; None where the value was computed.
    pub replicates: Option<usize>,
    /// In how many measured classes of its neighbour such a CPU was: the answer is that of the dearest.
    pub classes: usize,
    /// The nearest length measured, in microseconds, where that asked for was not.
    pub nearest_length_us: Option<f64>,
    /// The error of the method on points of this series that it had not seen.
    pub errors: Option<HoldoutErrors>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// Nothing like that was measured.
    #[error("nothing was measured with {field}={value}; there is {known}")]
    Unknown {
        /// The missing field.
        field: String,
        /// The missing value.
        value: String,
        /// The known values.
        known: String,
    },
    /// There is no such field.
    #[error("series have no `{field}`; they have {known}")]
    NoField {
        /// The field.
        field: String,
        /// Those that there are.
        known: String,
    },
    /// Several series fit.
    #[error(
        "{count} series match; they differ in {differences}: choose one with --only NAME=VALUE"
    )]
    Several {
        /// The number.
        count: usize,
        /// In what, with the values.
        differences: String,
    },
    /// The size was not measured, nor one above it.
    #[error(
        "{wss} is beyond the measured sizes: {sizes}; measure this size with `corehop measure … --wss {wss}`"
    )]
    Beyond {
        /// The size.
        wss: Bytes,
        /// Those that were measured.
        sizes: String,
    },
    /// Preemptors of one size were measured, or none.
    #[error(
        "only one size of preemptors was measured; `corehop measure synthetic --preemptor-wss \
         16KiB,256KiB,4MiB` measures several"
    )]
    OnePreemptor,
    /// Too few samples for the statistic.
    #[error("no size has enough samples for {statistic}: there are at most {most}")]
    TooFew {
        /// The statistic.
        statistic: Statistic,
        /// The most samples that a size has.
        most: usize,
    },
    /// The model has no such method for this series.
    #[error("`{method}` cannot compute this cost: {why}")]
    NotComputed {
        /// The method.
        method: Method,
        /// Why not.
        why: &'static str,
    },
}

/// The usual values, in the order in which they are assumed.
const USUAL: [(&str, &str); 8] = [
    ("workload", "none"),
    ("page", "4k"),
    ("pattern", "shuffled"),
    ("chains", "1"),
    ("node", "none"),
    ("mover", "affinity"),
    ("preempted_by", "preemptor"),
    ("experiment", "synthetic"),
];

impl DelayModel {
    /// The answer to a question.
    ///
    /// # Errors
    /// [`NoAnswer`] says why there is none.
    pub fn predict(&self, asked: &DelayQuery) -> Result<Prediction, NoAnswer> {
        let (curve, classes) = self.curve(asked)?;
        let length_us = asked.length.map(|length| length.get() as f64 / 1e3);
        let method = match asked.method {
            Some(method) => method,
            None => self.method(curve, asked)?,
        };
        let errors = curve.errors.iter().find(|errors| errors.method == method).cloned();
        let reading = match method {
            Method::Fitted => Some(self.reading(&curve.series, asked)?),
            _ => None,
        };
        let cost = if let Some(reading) = &reading {
            reading.cost
        } else {
            let computed = self.computed(&curve.series, asked, length_us, method)?;
            errors.as_ref().map_or_else(|| computed.estimate(), |errors| errors.widened(computed))
        };
        Ok(Prediction {
            series: curve.series.key.clone(),
            wss_bytes: asked.wss.get(),
            length_us,
            statistic: asked.statistic,
            cost,
            curve: reading.and_then(|reading| reading.curve),
            method,
            place: reading.map(|reading| reading.place),
            n: reading.map(|reading| reading.n),
            replicates: reading.and_then(|reading| reading.replicates),
            classes,
            nearest_length_us: reading.and_then(|reading| reading.nearest_length_us),
            errors,
        })
    }

    /// The method that answers, if none is asked for. At a measured size the samples answer, and beyond the largest
    /// measured size nothing does.
    fn method(&self, curve: &FittedSeries, asked: &DelayQuery) -> Result<Method, NoAnswer> {
        let reading = self.reading(&curve.series, asked)?;
        let measured =
            reading.place == ValueOrigin::Measured && reading.nearest_length_us.is_none();
        let samples = measured || asked.statistic != Statistic::Mean;
        Ok(if samples { Method::Fitted } else { curve.method })
    }

    /// The prediction from the measured points of a series, at the size, length and statistic of a question.
    ///
    /// # Errors
    /// [`NoAnswer::Beyond`] and [`NoAnswer::TooFew`].
    pub fn reading(
        &self,
        series: &DelaySeries,
        asked: &DelayQuery,
    ) -> Result<SeriesValue, NoAnswer> {
        let length_us = asked.length.map(|length| length.get() as f64 / 1e3);
        let caches = self.machines.get(&series.key.machine);
        let caches = caches.map_or(&[][..], |caches| &caches.sizes);
        let reading = series.read(asked.statistic, asked.wss.get(), length_us, caches);
        reading.ok_or_else(|| refusal(series, asked))
    }

    fn computed(
        &self,
        series: &DelaySeries,
        asked: &DelayQuery,
        length_us: Option<f64>,
        method: Method,
    ) -> Result<ComputedCost, NoAnswer> {
        let refuse = |why| NoAnswer::NotComputed { method, why };
        if asked.statistic != Statistic::Mean {
            return Err(refuse("the method gives only the mean"));
        }
        let hierarchy = self.machines.get(&series.key.machine).and_then(|it| it.hierarchy.as_ref());
        let hierarchy = hierarchy.ok_or_else(|| {
            refuse(
                "the machine's ways or times are not known (corehop measure platform -o FILE.toml)",
            )
        })?;
        let longest = series.points.iter().map(|point| point.length_us).fold(0.0, f64::max);
        let expected = hierarchy
            .expected(&series.key, asked.wss.get(), length_us.unwrap_or(longest))
            .ok_or_else(|| refuse("only for one chain, shuffled, and a polluter of known size"))?;
        Ok(if method == Method::WorstCase { expected.worst_case } else { expected.survivors })
    }

    /// The measured series that a question means.
    ///
    /// # Errors
    /// [`NoAnswer`] where none is meant, or several are.
    pub fn measured(&self, asked: &DelayQuery) -> Result<&DelaySeries, NoAnswer> {
        Ok(&self.curve(asked)?.0.series)
    }

    /// The measured preemptions by preemptors of each size, in bytes, ascending. A delay grows with what the
    /// preemptor walks, so the next larger size is a bound from above.
    ///
    /// # Errors
    /// [`NoAnswer`], as for [`DelayModel::measured`]; [`NoAnswer::OnePreemptor`] where there is one size or none.
    pub fn by_preemptor(&self, asked: &DelayQuery) -> Result<Vec<(u64, &DelaySeries)>, NoAnswer> {
        let asked = DelayQuery { event: Event::Preemption, ..asked.clone() };
        let mut by_size: Vec<(u64, &DelaySeries)> = Vec::new();
        for curve in self.meant(&asked)? {
            let walked = curve.series.key.polluter.as_deref().and_then(walked_bytes);
            by_size.extend(walked.map(|bytes| (bytes, &curve.series)));
        }
        by_size.sort_by_key(|&(bytes, _)| bytes);
        by_size.dedup_by_key(|&mut (bytes, _)| bytes);
        if by_size.len() > 1 { Ok(by_size) } else { Err(NoAnswer::OnePreemptor) }
    }

    /// The size of the largest cache that one core of the machine in question has for itself, in bytes.
    ///
    /// # Errors
    /// [`NoAnswer`], as for [`DelayModel::measured`].
    pub fn own_cache(&self, asked: &DelayQuery) -> Result<Option<u64>, NoAnswer> {
        let machine = &self.measured(asked)?.key.machine;
        Ok(self.machines.get(machine).and_then(|caches| caches.own))
    }

    /// The common properties of the series under a load whose other fields are `only`.
    ///
    /// # Errors
    /// [`NoAnswer::NoField`] where one of them is no field; where a value was not measured, there are none.
    pub fn under(
        &self,
        load: &str,
        only: &[(String, String)],
    ) -> Result<Vec<&SeriesKey>, NoAnswer> {
        let mut left: Vec<&FittedSeries> = self.curves.iter().collect();
        let load = ("load".to_owned(), load.to_owned());
        for (field, value) in std::iter::once(&load).chain(only) {
            left = match with(&left, field, value) {
                Ok(fewer) => fewer,
                Err(NoAnswer::Unknown { .. }) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
        }
        Ok(left.into_iter().map(|curve| &curve.series.key).collect())
    }

    /// The one series that is meant, and of how many that differ in the class of a neighbour or in the
    /// preemptor's size alone it is the dearest.
    fn curve(&self, asked: &DelayQuery) -> Result<(&FittedSeries, usize), NoAnswer> {
        let left = self.meant(asked)?;
        match left.as_slice() {
            [one] => Ok((one, 1)),
            several if let Some(dearest) = dearest_of_others(several) => {
                Ok((dearest, several.len()))
            }
            several => {
                Err(NoAnswer::Several { count: several.len(), differences: differences(several) })
            }
        }
    }

    /// The series that a question means, as far as it says; never none.
    fn meant(&self, asked: &DelayQuery) -> Result<Vec<&FittedSeries>, NoAnswer> {
        let mut left: Vec<&FittedSeries> = self.curves.iter().collect();
        let mut wanted = vec![
            ("event".to_owned(), asked.event.word().to_owned()),
            ("load".to_owned(), asked.load.clone()),
        ];
        wanted.extend(asked.only.iter().cloned());
        for (field, value) in &wanted {
            left = with(&left, field, value)?;
        }
        for (field, value) in USUAL {
            if let Ok(fewer) = with(&left, field, value) {
                left = fewer;
            }
        }
        Ok(left)
    }
}

/// Those of `curves` whose field has this value.
fn with<'a>(
    curves: &[&'a FittedSeries],
    field: &str,
    value: &str,
) -> Result<Vec<&'a FittedSeries>, NoAnswer> {
    let of = |curve: &FittedSeries| curve.series.key.field(field);
    let known: BTreeSet<String> = curves.iter().filter_map(|curve| of(curve)).collect();
    let joined = |words: Vec<String>| words.join(", ");
    if known.is_empty() && !curves.is_empty() {
        let names = curves[0].series.key.fields().into_iter().map(|(name, _)| name);
        return Err(NoAnswer::NoField { field: field.to_owned(), known: joined(names.collect()) });
    }
    let left: Vec<&FittedSeries> =
        curves.iter().copied().filter(|curve| of(curve).is_some_and(|its| its == value)).collect();
    if left.is_empty() {
        let (field, value) = (field.to_owned(), value.to_owned());
        let known = if known.is_empty() {
            "no sample".to_owned()
        } else {
            joined(known.into_iter().collect())
        };
        return Err(NoAnswer::Unknown { field, value, known });
    }
    Ok(left)
}

/// In what series differ: `page (4k, thp)`.
fn differences(curves: &[&FittedSeries]) -> String {
    let fields: Vec<Vec<(String, String)>> =
        curves.iter().map(|curve| curve.series.key.fields()).collect();
    let names =
        fields.first().map(|first| first.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let differing = names.unwrap_or_default().into_iter().enumerate().filter_map(|(at, name)| {
        let values: BTreeSet<&str> = fields.iter().map(|all| all[at].1.as_str()).collect();
        let values: Vec<&str> = values.into_iter().collect();
        (values.len() > 1).then(|| format!("{name} ({})", values.join(", ")))
    });
    differing.collect::<Vec<_>>().join(", ")
}

fn refusal(series: &DelaySeries, asked: &DelayQuery) -> NoAnswer {
    let sizes = series.sizes();
    if sizes.last().is_some_and(|&largest| asked.wss.get() > largest) {
        let sizes: Vec<String> = sizes.iter().map(|&size| Bytes::new(size).to_string()).collect();
        return NoAnswer::Beyond { wss: asked.wss, sizes: sizes.join(", ") };
    }
    let most = series.points.iter().map(|point| point.n).max().unwrap_or(0);
    NoAnswer::TooFew { statistic: asked.statistic, most }
}

/// Of series that differ in the measured class of a neighbour alone, or in what else was walked, the
/// dearest: it bounds the others, and none can say in which class the machine will be or who preempts.
/// Those that lack a size that another has are left out. None where the series differ in more.
fn dearest_of_others<'a>(all: &[&'a FittedSeries]) -> Option<&'a FittedSeries> {
    let sizes =
        all.iter().all(|it| it.series.key.polluter.as_deref().and_then(walked_bytes).is_some());
    let key = |it: &FittedSeries| {
        let polluter = it.series.key.polluter.clone().filter(|_| !sizes);
        SeriesKey { pair_class: None, polluter, ..it.series.key.clone() }
    };
    let first = key(all.first()?);
    if all.iter().any(|it| key(it) != first) {
        return None;
    }
    let most = all.iter().map(|it| it.series.sizes().len()).max()?;
    let cost = |it: &FittedSeries| -> f64 {
        let medians = it.series.points.iter().filter_map(|it| it.delay.get(&Statistic::Median));
        medians.map(|cost| cost.estimate_us).sum()
    };
    let whole = all.iter().filter(|it| it.series.sizes().len() == most);
    whole.copied().max_by(|a, b| cost(a).total_cmp(&cost(b)))
}
