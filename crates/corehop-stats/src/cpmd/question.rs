// SPDX-License-Identifier: MIT OR Apache-2.0
//! Questions to a model: finds the series that a question concerns, and answers with an interval.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::cell::walked_bytes;
use super::analytic::ComputedCost;
use super::point::{CostEstimate, Statistic};
use super::series::{DelaySeries, SeriesValue, ValueOrigin};
use super::{DelayModel, FittedSeries, HoldoutErrors, Method, SeriesKey};
use corehop_plan::units::{Bytes, Nanos};
use corehop_plan::workload::Event;

/// A question to a model about a delay.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayQuery {
    /// The event that the question is about.
    pub event: Event,
    /// The background load that the question is about.
    pub load: String,
    /// The working-set size that the question is about.
    pub wss: Bytes,
    /// The preemption length that the question is about, or `None` for the longest measured length.
    pub length: Option<Nanos>,
    /// The statistic that the question asks for.
    pub statistic: Statistic,
    /// The prediction method that the question wants, or `None` for the best method.
    pub method: Option<Method>,
    /// The names and values of the series for fields other than event, load, size and statistic.
    pub only: Vec<(String, String)>,
}

/// The answer of a model to a question.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The common properties of the cells behind the answer.
    pub series: SeriesKey,
    /// The working-set size of the prediction in bytes.
    pub wss_bytes: u64,
    /// The preemption length in microseconds, or `None` for the longest measured length.
    pub length_us: Option<f64>,
    /// The statistic that the model predicted.
    pub statistic: Statistic,
    /// The cost that the model predicted. A computed cost has an interval only if the method's errors on measured
    /// points give one.
    #[serde(flatten)]
    pub cost: CostEstimate,
    /// The value of the curve at this size, if the curve pools the measured value with its neighbours to stay
    /// monotone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curve: Option<CostEstimate>,
    /// The method by which the model predicted the cost.
    pub method: Method,
    /// The position among the measured sizes, or `None` for a computed value.
    pub place: Option<ValueOrigin>,
    /// The number of samples at the size, or the smaller number at the two neighbouring sizes, or `None` for a
    /// computed value.
    pub n: Option<usize>,
    /// The number of replicates of the samples in [`Self::n`], or `None` for a computed value.
    pub replicates: Option<usize>,
    /// The number of measured classes of a neighbouring CPU; the answer is for the most expensive class.
    pub classes: usize,
    /// The nearest measured length, in microseconds, if the requested length was not measured.
    pub nearest_length_us: Option<f64>,
    /// The errors of the method on points of this series to which it was not fitted.
    pub errors: Option<HoldoutErrors>,
}

/// The reason why a model has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The model has no series with a requested value.
    #[error("nothing was measured with {field}={value}; the measured values are {known}")]
    Unknown {
        /// The field of the requested value.
        field: String,
        /// The value that the question requested.
        value: String,
        /// The values that the field has in the model.
        known: String,
    },
    /// The question names a field that series do not have.
    #[error("series have no `{field}`; they have {known}")]
    NoField {
        /// The name of the unknown field.
        field: String,
        /// The names of the known fields.
        known: String,
    },
    /// Several series of the model match the question.
    #[error(
        "{count} series match; they differ in {differences}: choose one with --only NAME=VALUE"
    )]
    Several {
        /// The number of series that match the question.
        count: usize,
        /// The fields in which the series differ, with their values.
        differences: String,
    },
    /// The requested size is above all measured sizes.
    #[error(
        "{wss} is beyond the measured sizes: {sizes}; measure this size with `corehop measure … --wss {wss}`"
    )]
    Beyond {
        /// The size that the question requested.
        wss: Bytes,
        /// The range of sizes that were measured.
        sizes: String,
    },
    /// Preemptors of only one size were measured, or none.
    #[error(
        "only one size of preemptors was measured; `corehop measure synthetic --preemptor-wss \
         16KiB,256KiB,4MiB` measures several"
    )]
    OnePreemptor,
    /// A size has too few samples for the statistic.
    #[error(
        "{statistic} needs more samples than any size has: measure more than {most} samples of a cell"
    )]
    TooFew {
        /// The statistic that the question requested.
        statistic: Statistic,
        /// The largest number of samples at a size.
        most: usize,
    },
    /// The model cannot use the requested method for this series.
    #[error("`{method}` cannot compute this cost: {why}")]
    NotComputed {
        /// The method that the question requested.
        method: Method,
        /// The reason why the method cannot be used.
        why: &'static str,
    },
}

/// The usual values of fields, in the order in which the model assumes them.
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
    /// Answers a question by a prediction.
    ///
    /// # Errors
    /// Returns [`NoAnswer`] with the reason why there is no answer.
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

    /// Returns the method that answers a question that names none. The samples answer at a measured size, and
    /// beyond the largest measured size there is no answer.
    fn method(&self, curve: &FittedSeries, asked: &DelayQuery) -> Result<Method, NoAnswer> {
        let reading = self.reading(&curve.series, asked)?;
        let measured =
            reading.place == ValueOrigin::Measured && reading.nearest_length_us.is_none();
        let samples = measured || asked.statistic != Statistic::Mean;
        Ok(if samples { Method::Fitted } else { curve.method })
    }

    /// Returns the prediction from the measured points of a series, for the size, length and statistic of the
    /// question.
    ///
    /// # Errors
    /// Returns [`NoAnswer::Beyond`] for a size above all measured sizes, and [`NoAnswer::TooFew`] for too few
    /// samples.
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

    /// Returns the measured series that a question concerns.
    ///
    /// # Errors
    /// Returns [`NoAnswer`] if no series matches the question, or several do.
    pub fn measured(&self, asked: &DelayQuery) -> Result<&DelaySeries, NoAnswer> {
        Ok(&self.curve(asked)?.0.series)
    }

    /// Returns the measured series of preemptions for each size of the preemptor, in bytes, ascending. A delay
    /// grows with the preemptor's size, so the next larger size gives an upper bound.
    ///
    /// # Errors
    /// Returns [`NoAnswer`], as [`DelayModel::measured`] does; [`NoAnswer::OnePreemptor`] if at most one size was
    /// measured.
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

    /// Returns the size in bytes of the largest cache that is private to one core of the question's machine.
    ///
    /// # Errors
    /// Returns [`NoAnswer`], as [`DelayModel::measured`] does.
    pub fn own_cache(&self, asked: &DelayQuery) -> Result<Option<u64>, NoAnswer> {
        let machine = &self.measured(asked)?.key.machine;
        Ok(self.machines.get(machine).and_then(|caches| caches.own))
    }

    /// Returns the common properties of the series under a load whose other fields have the values of `only`.
    ///
    /// # Errors
    /// Returns [`NoAnswer::NoField`] if `only` names an unknown field; if a value was not measured, the list is
    /// empty.
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

    /// Returns the only matching series. If several series differ only in a neighbour's class or in the
    /// preemptor's size, the function returns the most expensive of these series and their number.
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

    /// Returns the series that match a question as far as it is specific; at least one.
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

/// Returns the series of `curves` whose field has this value.
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

/// Returns the fields in which series differ, as text such as `page (4k, thp)`.
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

/// Returns the most expensive of series that differ only in a neighbour's measured class or in the size of the
/// preemptor. The most expensive series bounds the others, because nobody can predict the class of the machine or
/// the preemptor. Sizes that some of the series lack are left out. Returns `None` if the series differ in further
/// fields.
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
