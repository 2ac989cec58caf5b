// SPDX-License-Identifier: MIT OR Apache-2.0
//! The section about the causes of the spread of a cell, as shares of the variance between the
//! steps of an experiment of kind `conditions`.

use crate::figure::{FigureTable, PageSection, SectionPlace};
use corehop_plan::units::{Bytes, three_digits};
use corehop_results::Results;
use corehop_stats::conditions::{Spreading, VarianceShare};

/// Returns the section about the causes of the spread, with a table for each run of `conditions`.
pub(super) fn conditions(data: &Results) -> Option<PageSection> {
    data.jobs.spreads.first()?;
    let section = PageSection::new(SectionPlace::Result, "conditions", "Causes of the spread").says(
        "Each step of the run renewed one part of the conditions and kept the other parts. A share is the part's share of the variance between the medians of the steps. The shares add up to 100 %. A share whose interval includes 0 is not significant. An estimate below 0 is noise. “Alone” is the standard deviation of a median if only this part varied. Covariates are not separate parts: they correlate with a part.",
    );
    let section = notes(data).fold(section, PageSection::says);
    let tables = data.jobs.spreads.iter().filter(|it| it.why_none.is_none()).map(table);
    Some(PageSection { tables: tables.map(FigureTable::shown).collect(), ..section })
}

fn name(it: &Spreading) -> String {
    let cell = &it.cell;
    let (event, wss) = (cell.event, Bytes::new(cell.wss_bytes));
    format!("{event} of {wss}, load {}, {}", cell.load, cell.preemption_length)
}

fn why_none(it: &Spreading) -> Option<String> {
    Some(format!("{}: {}.", name(it), it.why_none?))
}

/// Returns sentences about the samples behind the tables, and about the reasons why a table is
/// missing.
pub(super) fn notes(data: &Results) -> impl Iterator<Item = String> + '_ {
    data.jobs.spreads.iter().flat_map(|it| [Some(counts(it)), why_none(it)]).flatten()
}

/// Returns the size of the spread, for the caption of a table.
fn size(it: &Spreading) -> String {
    let spread = if it.logarithmic {
        format!("times or divided by {:.2}", it.deviation.exp())
    } else {
        format!("± {} µs", three_digits(it.deviation))
    };
    format!("median {} µs, {spread} (one σ), {} steps", three_digits(it.median_us), it.steps)
}

/// Returns a sentence about the steps, rounds, samples and measured classes behind a table.
fn counts(it: &Spreading) -> String {
    let Spreading { steps, rounds, samples, .. } = it;
    let classes = it.classes.iter().map(|(class, steps)| format!("{steps} {class}"));
    let classes: Vec<String> = classes.collect();
    let classes = match classes.len() {
        0 | 1 => String::new(),
        _ => format!("; steps by measured class: {}", classes.join(", ")),
    };
    format!("{}: {samples} valid samples of {steps} steps in {rounds} rounds{classes}.", name(it))
}

fn table(it: &Spreading) -> FigureTable {
    let caption = format!("causes of the spread of {}: {}", name(it), size(it));
    let mut table = FigureTable::new(caption, &["part", "share", "95 %", "alone"]);
    let parts = it.parts.iter().map(|(part, share)| row(it, part.name(), share));
    let all = it.everything.iter().map(|share| row(it, "(all draws at once)", share));
    let covariates = it
        .covariates
        .iter()
        .map(|(covariate, share)| row(it, &format!("goes with: {}", covariate.name()), share));
    table.rows = parts.chain(all).chain(covariates).collect();
    table
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn row(it: &Spreading, name: &str, share: &VarianceShare) -> Vec<String> {
    let interval = share.interval.map_or_else(
        || "–".to_owned(),
        |interval| format!("{} to {}", percent(interval.low), percent(interval.high)),
    );
    let deviation = it.deviation * share.share.max(0.0).sqrt();
    let alone = if it.logarithmic {
        format!("± {}", percent(deviation.exp_m1()))
    } else {
        format!("± {} µs", three_digits(deviation))
    };
    vec![name.to_owned(), percent(share.share), interval, alone]
}
