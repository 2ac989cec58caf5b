// SPDX-License-Identifier: MIT OR Apache-2.0
//! The validation of the simulated machine as text.

use std::fmt::Write;

use corehop_decide::validation::aim::{Aim, AimVerdict, ErrorQuantiles};
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::{
    JudgementRole, PrintedQuantity, PrintedStatistic, QuantityErrors, Sheet, Tested, ValidationRow,
};
use corehop_stats::verdict::TestOutcome;

/// Returns a sentence that says whether the simulated machine reproduces the printed values accurately enough; each
/// study has a title, and a flag that is true if the study missed its aims or too few samples judge them.
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

/// Writes every row of a study, and the summary of its errors.
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
    sheet.quantities.iter().for_each(|it| text.push_str(&summary(it)));
    if kind.is_none() || !sheet.claims.is_empty() {
        text.push_str(&claims(&sheet.claims));
    }
    text + "\n"
}

/// Returns the heading above rows of a kind.
fn heading(kind: Option<&PrintedQuantity>) -> String {
    match kind {
        Some(PrintedQuantity::Cost { .. }) => format!(
            "{:18}{:16}{:10}{:>10}{:>12}{:>12}{:>10}\n",
            "event", "length", "statistic", "WSS KiB", "printed us", "simulated", "error"
        ),
        Some(PrintedQuantity::Gang { .. }) => format!(
            "{:36}{:>10}  {:16}{:>12}{:>12}{:>10}\n",
            "program", "items", "quantity", "printed", "simulated", "error"
        ),
        _ => String::new(),
    }
}

/// Writes one row of a study.
fn line(row: &ValidationRow) -> String {
    let mark = Some(row.role.mark()).filter(|it| !it.is_empty());
    let mark = mark.map_or_else(String::new, |it| format!(" {it}"));
    let simulated = row.simulated.map_or_else(|| "-".to_owned(), |it| format!("{it:.2}"));
    let numbers = |law: ErrorLaw| {
        let error = law.show(row.error.unwrap_or(f64::INFINITY));
        format!("{:>12.2}{simulated:>12}{error:>10}", row.printed)
    };
    match &row.what {
        PrintedQuantity::Cost { event, preemption_length, statistic, wss_kib } => {
            let numbers = numbers(statistic.law());
            let note = extended(row);
            format!(
                "{:18}{preemption_length:16}{statistic:10}{wss_kib:>10}{numbers}{note}{mark}\n",
                event.word()
            )
        }
        PrintedQuantity::Point { name } => {
            format!("{name:44}{}{mark}\n", numbers(ErrorLaw::Relative))
        }
        PrintedQuantity::Gang { program, items, parameters, quantity } => {
            let (program, numbers) = (format!("{program} {parameters}"), numbers(quantity.law()));
            format!("{program:36}{items:>10}  {:16}{numbers}{mark}\n", quantity.word())
        }
    }
}

/// Returns the number of samples behind a simulated maximum, and the number to which the maximum is
/// extended.
fn extended(row: &ValidationRow) -> String {
    let (Some(have), Some(of)) = (row.n, row.printed_n) else { return String::new() };
    format!(" {have} samples, for {of}")
}

/// Returns the name of a quantity.
pub(super) fn name(it: &QuantityErrors) -> String {
    let statistic = PrintedStatistic::ALL.iter().find(|statistic| statistic.word() == it.word);
    match statistic {
        Some(PrintedStatistic::Average) => "averages".to_owned(),
        Some(PrintedStatistic::Maximum) => "maxima".to_owned(),
        Some(PrintedStatistic::Deviation) => "standard deviations".to_owned(),
        None if it.law == ErrorLaw::Gain => format!("{}, as gain", it.word),
        None => it.word.to_owned(),
    }
}

/// Returns a summary of the errors of a quantity.
fn summary(it: &QuantityErrors) -> String {
    let mut text = format!("{}:\n", name(it));
    let mut say = |what: &str, errors: &ErrorQuantiles| {
        let ErrorQuantiles { rows, missing, median, p90 } = *errors;
        let missing =
            if missing > 0 { format!(" ({missing} without a value)") } else { String::new() };
        let _ = writeln!(
            text,
            "    {what}: {rows} rows{missing}, median error {}, 90th percentile {}",
            it.law.show(median),
            it.law.show(p90)
        );
    };
    if let Some(judged) = &it.judged {
        say("judged", judged);
    }
    for (role, errors) in &it.by_role {
        match role {
            JudgementRole::Judged if it.by_role.contains_key(&JudgementRole::NotModelled) => {
                say("without the rows that are not modelled", errors);
            }
            JudgementRole::Judged => {}
            _ => say(role.mark(), errors),
        }
    }
    if let Some(order) = it.order {
        let _ = writeln!(
            text,
            "    printed order: {} of {} judged pairs that are printed apart",
            order.agree, order.pairs
        );
    }
    if let Some(near) = it.near {
        let _ = writeln!(
            text,
            "    printed order: {} of {} pairs that are printed nearer, which are not judged",
            near.agree, near.pairs
        );
    }
    text + &it.aim.as_ref().map_or_else(String::new, |aim| format!("    {}\n", said(it, aim)))
}

/// Returns a sentence about an aim, and whether the simulated machine reaches it.
fn said(it: &QuantityErrors, aim: &Aim) -> String {
    let outcome = match aim.outcome {
        AimVerdict::Reached => "aim reached",
        AimVerdict::NotReached => "aim not reached",
        AimVerdict::NotJudged => "aim not judged",
    };
    let why = aim.why.join("; ");
    format!(
        "{outcome} (a median error of at most {}, a 90th percentile of at most {}{}){}{why}",
        it.law.show(aim.median),
        it.law.show(aim.p90),
        it.order.map_or_else(String::new, |_| order_aimed_at(it)),
        if why.is_empty() { "" } else { ": " }
    )
}

fn order_aimed_at(it: &QuantityErrors) -> String {
    let share = it.limits.map_or(1.0, |limits| limits.order);
    if share < 1.0 {
        return format!(", {:.0} % of the pairs in the printed order", 100.0 * share);
    }
    ", all pairs in the printed order".to_owned()
}

/// Writes the claims of a study, and the number of claims that come out as printed.
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
    let _ = writeln!(text, "{} of {judged} claims agree with the printed ones", judged - missed);
    text
}

const fn word(outcome: TestOutcome) -> &'static str {
    match outcome {
        TestOutcome::Holds => "holds",
        TestOutcome::DoesNot => "does not hold",
        TestOutcome::CannotTell => "cannot tell",
    }
}
