// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop validate`: tables of threads with common data.

use std::fmt::Write;

use corehop_core::machine::rows_of;
use corehop_core::model::sharing::Sharings;
use corehop_core::sim::SimMachine;
use corehop_core::validation::aim::{Aim, Samples};
use corehop_core::validation::gangs::{GangJoined, GangQuantity, GangStudy};
use corehop_core::validation::tables::Errors;
use serde_json::{Value, json};

use super::{Args, described, said};
use crate::exit::Failure;

/// Reruns a table, and joins it with the printed one.
pub(super) fn simulate(study: &GangStudy, args: &Args) -> Result<Vec<GangJoined>, Failure> {
    let platform = described(args.on.as_deref().unwrap_or(&study.platform))?;
    let plan = study.plan(&platform, args.seed)?;
    let rows = rows_of(&mut SimMachine::new(platform)?, &plan)?;
    let mut sharings = Sharings::default();
    sharings.take(&rows.shared_data);
    Ok(study.join(&sharings.finish()))
}

/// A quantity of a table, with the errors of the judged rows, and the aim if there is one.
pub(super) struct Judged {
    quantity: GangQuantity,
    judged: Option<Errors>,
    pub(super) aim: Option<Aim>,
}

/// The quantities of a table that have rows.
pub(super) fn aims(study: &GangStudy, rows: &[GangJoined], samples: Samples) -> Vec<Judged> {
    let has = |&&quantity: &&GangQuantity| rows.iter().any(|row| row.quantity == quantity);
    let of = |&quantity| {
        let judged = GangJoined::errors(rows, quantity, false);
        let aim = study.limit(quantity).map(|limit| Aim::of(judged, None, limit, samples));
        Judged { quantity, judged, aim }
    };
    GangQuantity::ALL.iter().filter(has).map(of).collect()
}

pub(super) fn json(study: &GangStudy, rows: &[GangJoined], aims: &[Judged]) -> Value {
    let errors = aims.iter().map(|it| {
        let limit = study.limit(it.quantity);
        json!({ "quantity": it.quantity, "limit": limit, "judged": it.judged, "aim": it.aim })
    });
    json!({
        "study": study.id,
        "title": study.title,
        "platform": study.platform,
        "samples": study.samples,
        "quantities": errors.collect::<Vec<_>>(),
        "rows": rows,
    })
}

pub(super) fn text(study: &GangStudy, rows: &[GangJoined], aims: &[Judged]) -> String {
    let mut text =
        format!("{} ({}, {} runs a value)\n", study.title, study.platform, study.samples);
    let _ = writeln!(
        text,
        "{:36}{:>10}  {:16}{:>12}{:>12}{:>9}",
        "program", "items", "quantity", "printed", "simulated", "error"
    );
    for row in rows {
        let program = format!("{} {}", row.program, row.parameters);
        let simulated = row.simulated.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
        let error = row.error.map_or_else(|| "no miss".to_owned(), |it| show(row.quantity, it));
        let fitted = if row.fitted { " fitted" } else { "" };
        let _ = writeln!(
            text,
            "{program:36}{:>10}  {:16}{:>12.2}{simulated:>12}{error:>9}{fitted}",
            row.items,
            row.quantity.word(),
            row.printed,
        );
    }
    for Judged { quantity, judged, aim } in aims {
        let (quantity, Some(errors)) = (*quantity, judged) else { continue };
        let aim = aim.as_ref().map_or_else(String::new, |aim| {
            let of = rows.iter().filter(|row| row.quantity == quantity && !row.fitted);
            let within =
                of.filter(|row| row.error.is_some_and(|error| error <= aim.median)).count();
            format!("; {within} rows are within {}\n{}", aim.median, said(aim))
        });
        let _ = writeln!(
            text,
            "{}: {} rows, median error {}, 90th percentile {}{aim}",
            quantity.word(),
            errors.rows,
            show(quantity, errors.median),
            show(quantity, errors.p90),
        );
    }
    text + "\n"
}

/// An error, as a difference or in percent.
fn show(quantity: GangQuantity, error: f64) -> String {
    if quantity.is_share() { format!("{error:.2}") } else { format!("{:.1}%", error * 100.0) }
}
