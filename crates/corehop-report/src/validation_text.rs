// SPDX-License-Identifier: MIT OR Apache-2.0
//! The validation of the simulated machine as text.

use std::fmt::Write;

use corehop_decide::validation::aim::{Aim, AimVerdict, ErrorQuantiles};
use corehop_decide::validation::sheet::{
    JudgementRole, PrintedQuantity, QuantityErrors, Sheet, Tested, ValidationRow,
};
use corehop_stats::verdict::TestOutcome;

/// Whether the simulated machine comes near enough to what was printed, of studies with their titles.
pub fn sentence(studies: &[(String, bool)]) -> String {
    let missed: Vec<&str> =
        studies.iter().filter(|(_, missed)| *missed).map(|(title, _)| title.as_str()).collect();
    let count = studies.len();
    if missed.is_empty() {
        let s = if count == 1 { "study" } else { "studies" };
        format!("The simulated machine meets its aims in {count} {s}.")
    } else {
        format!(
            "The simulated machine misses its aims, or too few samples judge them, in {} of {count}: {}.",
            missed.len(),
            missed.join("; ")
        )
    }
}

/// Every row of a study, and what it comes to.
pub fn of(sheet: &Sheet) -> String {
    let kind = sheet.rows.first().map(|row| &row.what);
    let unit = match (kind, &*sheet.quantities) {
        (Some(PrintedQuantity::Point { .. }), [it]) => format!(", {}", it.word),
        _ => String::new(),
    };
    let basis = sheet.basis.as_ref().map_or_else(String::new, |basis| format!(", {basis}"));
    let mut text = format!("{} ({}{unit}{basis})\n", sheet.title, sheet.platform);
    text += &heading(kind);
    sheet.rows.iter().for_each(|row| text.push_str(&line(row)));
    if matches!(kind, Some(PrintedQuantity::Gang { .. })) {
        sheet.quantities.iter().for_each(|it| text.push_str(&quantity(sheet, it)));
    } else {
        sheet.quantities.iter().for_each(|it| text.push_str(&summary(it)));
    }
    if kind.is_none() || !sheet.claims.is_empty() {
        text.push_str(&claims(&sheet.claims));
    }
    text + "\n"
}

/// The heading of the rows of a kind.
fn heading(kind: Option<&PrintedQuantity>) -> String {
    match kind {
        Some(PrintedQuantity::Cost { .. }) => format!(
            "{:18}{:16}{:>10}{:>12}{:>12}{:>9}\n",
            "event", "length", "WSS KiB", "printed us", "simulated", "error"
        ),
        Some(PrintedQuantity::Gang { .. }) => format!(
            "{:36}{:>10}  {:16}{:>12}{:>12}{:>9}\n",
            "program", "items", "quantity", "printed", "simulated", "error"
        ),
        _ => String::new(),
    }
}

/// A row. Deviations are not shown.
fn line(row: &ValidationRow) -> String {
    let error = row.error.unwrap_or_default();
    let (printed, simulated) = (row.printed, row.simulated.unwrap_or_default());
    let mark = Some(row.role.mark()).filter(|it| !it.is_empty());
    let mark = mark.map_or_else(String::new, |it| format!(" {it}"));
    match &row.what {
        PrintedQuantity::Cost { statistic, .. } if statistic == "std" => String::new(),
        PrintedQuantity::Cost { event, preemption_length, statistic, wss_kib } => {
            let note = match row.n {
                Some(n) if statistic == "max" => format!(" maximum of {n}, not judged"),
                _ => mark,
            };
            format!(
                "{:18}{preemption_length:16}{wss_kib:>10}{printed:>12.2}{simulated:>12.2}{:>8.1}%{note}\n",
                event.word(),
                error * 100.0,
            )
        }
        PrintedQuantity::Point { name } => {
            format!("{name:44}{printed:>12.2}{simulated:>12.2}{:>8.1}%{mark}\n", error * 100.0)
        }
        PrintedQuantity::Gang { program, items, parameters, quantity } => {
            let program = format!("{program} {parameters}");
            let simulated = row.simulated.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
            let error =
                row.error.map_or_else(|| "no miss".to_owned(), |it| show(!quantity.is_share(), it));
            format!(
                "{program:36}{items:>10}  {:16}{printed:>12.2}{simulated:>12}{error:>9}{mark}\n",
                quantity.word(),
            )
        }
    }
}

/// A summary of the errors of the one quantity of a study.
fn summary(it: &QuantityErrors) -> String {
    let mut text = String::new();
    if let Some(order) = it.order {
        let _ = writeln!(
            text,
            "order of the events: {} of {} pairs that are printed apart",
            order.agree, order.pairs
        );
    }
    for (what, errors) in
        [("judged", it.judged), ("fitted on", it.fitted), ("not modelled", it.not_modelled)]
    {
        if let Some(ErrorQuantiles { rows, median, p90 }) = errors {
            let _ = writeln!(
                text,
                "{what}: {rows} rows, median error {:.1} %, 90th percentile {:.1} %",
                median * 100.0,
                p90 * 100.0
            );
        }
    }
    text + &it.aim.as_ref().map_or_else(String::new, |aim| format!("{}\n", said(aim)))
}

/// The aim, and whether it is reached.
fn said(aim: &Aim) -> String {
    let outcome = match aim.outcome {
        AimVerdict::Reached => "aim reached",
        AimVerdict::NotReached => "aim not reached",
        AimVerdict::NotJudged => "aim not judged",
    };
    let why = aim.why.join("; ");
    format!(
        "{outcome} (a median error of at most {:.0} %, a 90th percentile of at most {:.0} %, events in the \
         printed order){}{why}",
        aim.median * 100.0,
        aim.p90 * 100.0,
        if why.is_empty() { "" } else { ": " }
    )
}

/// A summary of the errors of a quantity of gangs.
fn quantity(sheet: &Sheet, it: &QuantityErrors) -> String {
    let Some(errors) = it.judged else { return String::new() };
    let aim = it.aim.as_ref().map_or_else(String::new, |aim| {
        let of = sheet.rows.iter().filter(|row| row.is_of(it) && row.role == JudgementRole::Judged);
        let within = of.filter(|row| row.error.is_some_and(|error| error <= aim.median)).count();
        format!("; {within} rows are within {}\n{}", aim.median, said(aim))
    });
    format!(
        "{}: {} rows, median error {}, 90th percentile {}{aim}\n",
        it.word,
        errors.rows,
        show(it.relative, errors.median),
        show(it.relative, errors.p90),
    )
}

/// An error, in percent or as a difference.
fn show(relative: bool, error: f64) -> String {
    if relative { format!("{:.1}%", error * 100.0) } else { format!("{error:.2}") }
}

/// Claims, and how many come out as printed.
fn claims(tested: &[Tested]) -> String {
    let mut text = String::new();
    for it in tested {
        let expected = it.expected.map_or_else(
            || {
                let agrees = if it.found == TestOutcome::Holds { "agrees" } else { "differs" };
                format!("compared: {agrees}")
            },
            |expected| {
                let differs = if it.is_missed() { ", NOT as printed" } else { "" };
                format!("printed: {}, found: {}{differs}", word(expected), word(it.found))
            },
        );
        let _ = writeln!(text, "{}\n    {expected}\n    {}", it.claim, it.evidence);
    }
    let judged = tested.iter().filter(|it| it.expected.is_some()).count();
    let missed = tested.iter().filter(|it| it.is_missed()).count();
    let _ = writeln!(text, "{} of {judged} claims come out as printed", judged - missed);
    text
}

const fn word(outcome: TestOutcome) -> &'static str {
    match outcome {
        TestOutcome::Holds => "holds",
        TestOutcome::DoesNot => "does not hold",
        TestOutcome::CannotTell => "cannot tell",
    }
}
