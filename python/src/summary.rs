// SPDX-License-Identifier: MIT OR Apache-2.0
//! Summaries: the numbers of `corehop report`, as a table and as JSON.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, StringArray, UInt64Array};
use corehop_plan::samples::RowKind;
use corehop_report::{sections, table};
use corehop_stats::access::{AccessCurve, CurvePoint, Curves};
use corehop_stats::estimator::Estimator;
use corehop_stats::gangs::{SharingSummary, Sharings};
use corehop_stats::lengths::{AbsenceLengths, LengthSummary};
use corehop_stats::quantile::Quantile;
use corehop_stats::summary::{CellSummary, summarize};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors;
use crate::file::File;
use crate::table::Table;

/// The statistics of each cell of a file, with intervals.
#[pyclass(frozen, module = "corehop")]
#[derive(Debug)]
pub(crate) struct Summary(Cells);

/// The cells of a file, by the kind of its rows.
#[derive(Debug)]
enum Cells {
    /// Of samples: delays.
    Delays(Vec<CellSummary>),
    /// Of walks: access times.
    Curves(Vec<AccessCurve>),
    /// Of absences: preemption lengths.
    Lengths(Vec<LengthSummary>),
    /// Of gangs: runtime ratios.
    Sharings(Vec<SharingSummary>),
    /// Of all other kinds: core switches, overheads, task sets, recorded programs.
    Results(Vec<Value>),
}

impl Summary {
    pub(crate) fn of(file: &File, estimator: &str) -> PyResult<Self> {
        let estimator: Estimator = estimator.parse().map_err(errors::usage)?;
        let own = OWN_COLUMNS.iter().find(|(kind, _)| *kind == file.rows_kind());
        Ok(Self(match own {
            Some((_, summary)) => summary(file, estimator)?,
            None => Cells::Results(sections::results(&file.gathered(estimator)?)),
        }))
    }
}

/// The summary of a file whose rows have a table with columns of their own.
type OwnSummary = fn(&File, Estimator) -> PyResult<Cells>;

/// The kinds of rows with such a table; the results of all others, known by the registry of kinds, are objects.
const OWN_COLUMNS: [(RowKind, OwnSummary); 4] = [
    (RowKind::Samples, |file, estimator| Ok(Cells::Delays(summarize(&file.rows()?, estimator)))),
    (RowKind::AccessTimes, |file, _| {
        let mut curves = Curves::default();
        curves.take(&file.rows()?);
        Ok(Cells::Curves(curves.finish()))
    }),
    (RowKind::PreemptionLengths, |file, _| {
        let mut lengths = AbsenceLengths::default();
        lengths.take(&file.rows()?);
        Ok(Cells::Lengths(lengths.finish()))
    }),
    (RowKind::SharedData, |file, _| {
        let mut sharings = Sharings::default();
        sharings.take(&file.rows()?);
        Ok(Cells::Sharings(sharings.finish()))
    }),
];

#[pymethods]
impl Summary {
    /// One row a cell: what its rows have in common, then its statistics.
    fn table(&self) -> PyResult<Table> {
        Table::of(match &self.0 {
            Cells::Delays(cells) => of_cells(cells),
            Cells::Curves(curves) => of_curves(curves),
            Cells::Lengths(lengths) => of_lengths(lengths),
            Cells::Sharings(sharings) => of_sharings(sharings),
            Cells::Results(results) => return of_results(results),
        })
        .map_err(errors::broken)
    }

    /// Every cell with all its statistics, as JSON: what `corehop report --table json` prints.
    fn json(&self) -> String {
        match &self.0 {
            Cells::Delays(cells) => json!(cells),
            Cells::Curves(curves) => json!(curves),
            Cells::Lengths(lengths) => json!(lengths),
            Cells::Sharings(sharings) => json!(sharings),
            Cells::Results(results) => json!(results),
        }
        .to_string()
    }

    /// One statistic a line, in the columns of the printed tables: `corehop report --table csv`.
    fn csv(&self) -> PyResult<String> {
        Ok(table::csv(&table::joinable(self.delays()?)))
    }

    /// Aligned, for a terminal of `width` columns: `corehop report --table text`.
    fn text(&self, width: usize) -> PyResult<String> {
        Ok(table::text(self.delays()?, width))
    }
}

impl Summary {
    fn delays(&self) -> PyResult<&[CellSummary]> {
        match &self.0 {
            Cells::Delays(cells) => Ok(cells),
            _ => {
                Err(errors::usage("the printed tables are of delays, which this file has none of"))
            }
        }
    }
}

/// Columns with their names.
type Columns = Vec<(&'static str, ArrayRef)>;

/// A column of texts; what is empty is absent.
fn texts<T: ToString>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.map(|value| value.map(|value| value.to_string())).collect::<StringArray>())
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn numbers(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

/// The columns of the table of cells, under the names that the statistics have in CSV.
fn of_cells(cells: &[CellSummary]) -> Columns {
    let mut columns = keys(cells);
    columns.extend(numbers_of_samples(cells));
    columns.extend(delays(cells));
    columns.extend(quantiles(cells));
    columns.extend(beside(cells));
    columns
}

/// The common properties of the samples of each cell.
fn keys(cells: &[CellSummary]) -> Columns {
    let all = || cells.iter().map(|summary| &summary.cell);
    vec![
        ("machine", texts(all().map(|cell| Some(&cell.machine)))),
        ("memory_architecture", texts(all().map(|cell| Some(cell.memory_architecture)))),
        ("experiment", texts(all().map(|cell| Some(&cell.experiment)))),
        ("load", texts(all().map(|cell| Some(&cell.load)))),
        ("pattern", texts(all().map(|cell| Some(cell.pattern)))),
        ("page", texts(all().map(|cell| Some(cell.page)))),
        ("chains", counts(all().map(|cell| cell.chains))),
        ("write_ratio", numbers(all().map(|cell| Some(cell.write_ratio)))),
        ("cache_state", texts(all().map(|cell| Some(cell.cache_state)))),
        ("event", texts(all().map(|cell| Some(cell.event)))),
        ("preempted_by", texts(all().map(|cell| Some(cell.preempted_by)))),
        ("preemption_length", texts(all().map(|cell| Some(&cell.preemption_length)))),
        ("polluter", texts(all().map(|cell| cell.polluter.as_ref()))),
        ("mover", texts(all().map(|cell| Some(cell.mover)))),
        ("pair_class", texts(all().map(|cell| cell.pair_class))),
        ("wss_bytes", counts(all().map(|cell| cell.wss_bytes))),
        ("estimator", texts(cells.iter().map(|cell| Some(cell.estimator)))),
    ]
}

fn numbers_of_samples(cells: &[CellSummary]) -> Columns {
    vec![
        ("n", counts(cells.iter().map(|cell| cell.n_valid as u64))),
        ("n_all", counts(cells.iter().map(|cell| cell.n_all as u64))),
        ("n_repaired", counts(cells.iter().map(|cell| cell.n_repaired as u64))),
        ("replicates", counts(cells.iter().map(replicates))),
    ]
}

fn replicates(cell: &CellSummary) -> u64 {
    cell.delay.as_ref().map_or(0, |delay| delay.spread.replicates as u64)
}

fn delays(cells: &[CellSummary]) -> Columns {
    let all = || cells.iter().map(|cell| cell.delay.as_ref());
    let mean = || all().map(|delay| delay?.moments.interval.as_ref());
    vec![
        ("max_us", numbers(all().map(|delay| Some(delay?.max.value)))),
        ("avg_us", numbers(all().map(|delay| Some(delay?.moments.mean)))),
        ("avg_low_us", numbers(mean().map(|interval| Some(interval?.low)))),
        ("avg_high_us", numbers(mean().map(|interval| Some(interval?.high)))),
        ("std_us", numbers(all().map(|delay| delay?.moments.std))),
        ("min_us", numbers(all().map(|delay| Some(delay?.min)))),
        ("spread_low_us", numbers(all().map(|delay| Some(delay?.spread.low)))),
        ("spread_high_us", numbers(all().map(|delay| Some(delay?.spread.high)))),
        ("share_between", numbers(all().map(|delay| delay?.spread.share_between))),
    ]
}

/// The quantiles of delays: name of the value and of the ends of its interval, and the quantile.
const QUANTILES: [([&str; 3], f64); 4] = [
    (["p50_us", "p50_low_us", "p50_high_us"], 0.5),
    (["p90_us", "p90_low_us", "p90_high_us"], 0.9),
    (["p99_us", "p99_low_us", "p99_high_us"], 0.99),
    (["p999_us", "p999_low_us", "p999_high_us"], 0.999),
];

/// A quantile that too few samples carry is absent.
fn quantiles(cells: &[CellSummary]) -> Columns {
    let of = |p: f64, value: fn(&Quantile) -> Option<f64>| {
        numbers(cells.iter().map(move |cell| cell.delay.as_ref()?.quantile(p).and_then(value)))
    };
    let three = |([estimate, low, high], p): ([&'static str; 3], f64)| {
        [
            (estimate, of(p, |quantile| Some(quantile.estimate))),
            (low, of(p, |quantile| quantile.low)),
            (high, of(p, |quantile| quantile.high)),
        ]
    };
    QUANTILES.into_iter().flat_map(three).collect()
}

/// Medians of what is reported beside the delay.
fn beside(cells: &[CellSummary]) -> Columns {
    let of = |median: fn(&CellSummary) -> Option<&Quantile>| {
        numbers(cells.iter().map(|cell| Some(median(cell)?.estimate)))
    };
    vec![
        ("warm_us", of(|cell| cell.warm_us.as_ref())),
        ("cold_bound_us", of(|cell| cell.cold_bound_us.as_ref())),
        ("switch_us", of(|cell| cell.switch_us.as_ref())),
        ("length_us", of(|cell| cell.length_us.as_ref())),
        ("extra_misses", of(|cell| cell.extra_misses.as_ref())),
        ("load_bytes_per_s", of(|cell| cell.load_bytes_per_s.as_ref())),
        ("huge_share", numbers(cells.iter().map(|cell| Some(cell.huge_share)))),
    ]
}

/// One row a point of a curve.
fn of_curves(curves: &[AccessCurve]) -> Columns {
    let points = curves.iter().flat_map(|curve| curve.points.iter().map(move |at| (curve, at)));
    let points: Vec<(&AccessCurve, &CurvePoint)> = points.collect();
    let keys = || points.iter().map(|(curve, _)| &curve.key);
    let at = || points.iter().map(|(_, point)| *point);
    let access = || at().map(|point| point.access_ns);
    vec![
        ("machine", texts(keys().map(|key| Some(&key.machine)))),
        ("pattern", texts(keys().map(|key| Some(key.pattern)))),
        ("page", texts(keys().map(|key| Some(key.page)))),
        ("chains", counts(keys().map(|key| key.chains))),
        ("write_ratio", numbers(keys().map(|key| Some(key.write_ratio)))),
        ("node", Arc::new(keys().map(|key| key.node).collect::<UInt64Array>())),
        ("cache_state", texts(keys().map(|key| Some(key.cache_state)))),
        ("wss_bytes", counts(at().map(|point| point.wss_bytes))),
        ("n", counts(access().map(|access| access.map_or(0, |access| access.n as u64)))),
        ("n_all", counts(at().map(|point| point.n_all as u64))),
        ("p50_ns", numbers(access().map(|access| Some(access?.estimate)))),
        ("p50_low_ns", numbers(access().map(|access| access?.low))),
        ("p50_high_ns", numbers(access().map(|access| access?.high))),
        ("min_ns", numbers(at().map(|point| point.min_ns))),
    ]
}

/// One row a length asked for.
fn of_lengths(lengths: &[LengthSummary]) -> Columns {
    let all = || lengths.iter();
    let tail = || all().map(|length| length.excess_p99_us);
    vec![
        ("machine", texts(all().map(|length| Some(&length.machine)))),
        ("load", texts(all().map(|length| Some(&length.load)))),
        ("requested_us", numbers(all().map(|length| Some(length.requested_us)))),
        ("n", counts(all().map(|length| length.got_us.n as u64))),
        ("p50_us", numbers(all().map(|length| Some(length.got_us.estimate)))),
        ("p50_low_us", numbers(all().map(|length| length.got_us.low))),
        ("p50_high_us", numbers(all().map(|length| length.got_us.high))),
        ("excess_p50_us", numbers(all().map(|length| Some(length.excess_us.estimate)))),
        ("excess_p50_low_us", numbers(all().map(|length| length.excess_us.low))),
        ("excess_p50_high_us", numbers(all().map(|length| length.excess_us.high))),
        ("excess_p99_us", numbers(tail().map(|quantile| Some(quantile?.estimate)))),
        ("excess_max_us", numbers(all().map(|length| Some(length.excess_max_us.value)))),
    ]
}

/// One row a result, a column for each number and word in it; a list is in the JSON only.
fn of_results(results: &[Value]) -> PyResult<Table> {
    let rows: Vec<Vec<(String, Value)>> = results.iter().map(fields).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let value = |row: &[(String, Value)], name: &str| {
        row.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
    };
    let column = |name: &str| {
        let values = || rows.iter().map(|row| value(row, name));
        let are_numbers = values().flatten().all(|it| it.is_number());
        if are_numbers {
            return numbers(values().map(|it| it?.as_f64()));
        }
        let word = |it: Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
        texts(values().map(|it| it.map(word)))
    };
    let columns = names.iter().map(|&name| (name, column(name))).collect();
    Table::of(columns).map_err(errors::broken)
}

/// The numbers and words of an object, those of an object inside under both names.
fn fields(result: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (name, value) in result.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => all.extend(
                fields(value).into_iter().map(|(inner, value)| (format!("{name}_{inner}"), value)),
            ),
            Value::Array(_) | Value::Null => {}
            value => all.push((name.clone(), value.clone())),
        }
    }
    all
}

fn of_sharings(sharings: &[SharingSummary]) -> Columns {
    let all = || sharings.iter();
    let (shared, separate) = (|| all().map(|it| it.shared), || all().map(|it| it.separate));
    vec![
        ("machine", texts(all().map(|it| Some(&it.machine)))),
        ("program", texts(all().map(|it| Some(&it.program)))),
        ("items", counts(all().map(|it| it.items))),
        ("parameters", texts(all().map(|it| Some(&it.parameters)))),
        ("sharing", texts(all().map(|it| Some(it.sharing)))),
        ("runtime_ratio", numbers(all().map(|it| it.runtime_ratio))),
        ("ratio_low", numbers(all().map(|it| Some(it.ratio_interval?.low)))),
        ("ratio_high", numbers(all().map(|it| Some(it.ratio_interval?.high)))),
        ("predicted_ratio", numbers(all().map(|it| it.predicted_ratio))),
        ("same_round_ns", numbers(all().map(|it| Some(it.same?.round_ns)))),
        ("shared_round_ns", numbers(shared().map(|it| Some(it?.round_ns)))),
        ("separate_round_ns", numbers(separate().map(|it| Some(it?.round_ns)))),
        ("smr_separate", numbers(separate().map(|it| it?.smr))),
        ("mpmi_shared", numbers(shared().map(|it| it?.mpmi))),
        ("mpmi_separate", numbers(separate().map(|it| it?.mpmi))),
    ]
}
