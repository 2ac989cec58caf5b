// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the counts of a study as a sentence, and as text.

use std::fmt::Write as _;

use corehop_sched::study::{
    DelayCrossing, Preferable, PreferenceRange, Sizes, StudyCounts, StudyReading,
};
use corehop_stats::costs::Selected;

use crate::layout::{Paint, TerminalLayout};

/// Returns the first finding about the delay up to which one scheduler is preferable to another, or else the best
/// scheduler at the smallest and the largest delay.
pub fn sentence(outcome: &StudyCounts) -> String {
    let counted = format!("{} task sets a cap, seed {}", outcome.sets(), outcome.study.seed);
    let first = outcome.study.readings.iter().enumerate().find_map(|(at, reading)| {
        let line = crossings(outcome, at).lines().next()?.trim().to_owned();
        Some(format!("{line} ({}, {counted}).", reading.name))
    });
    let best = || {
        let reading = outcome.study.readings.first()?;
        let last = reading.delays.len().checked_sub(1)?;
        let (least, greatest) =
            (most_weight(outcome, reading, 0)?, most_weight(outcome, reading, last)?);
        let of = if last == 0 { least } else { format!("{least}, {greatest}") };
        Some(format!(
            "The scheduler with the highest weighted schedulability is {of} ({}, {counted}).",
            reading.name
        ))
    };
    first.or_else(best).unwrap_or_else(|| format!("{counted}: no scheduler was tested."))
}

/// The scheduler with the largest W at a delay of the first reading, as `G-EDF at 500 us (0.6210 ±0.0040)`.
fn most_weight(outcome: &StudyCounts, reading: &StudyReading, d: usize) -> Option<String> {
    let weighted =
        (0..reading.schedulers.len()).filter_map(|s| Some((outcome.weighted(0, s, d)?, s)));
    let (w, s) = weighted.max_by(|(a, _), (b, _)| a.value.total_cmp(&b.value))?;
    let reach = f64::midpoint(w.high - w.value, w.value - w.low);
    Some(format!(
        "{} at {} us ({:.4} ±{reach:.4})",
        reading.schedulers[s].name, reading.delays[d], w.value
    ))
}

/// Returns a table for each reading, and the delays up to which a scheduler is preferable.
pub fn text(outcome: &StudyCounts, costs: &[Selected<'_>], terminal: TerminalLayout) -> String {
    let study = &outcome.study;
    let mut text = format!("{}\n", terminal.wrap(&study.title, 0));
    let part = if outcome.is_whole() {
        String::new()
    } else {
        format!(", a part of {} (shards {})", study.sets, outcome.shards)
    };
    let _ = writeln!(text, "{} sets per cap, seed {}{part}\n", outcome.sets(), study.seed);
    let held = study.held.as_ref();
    for (at, reading) in study.readings.iter().enumerate() {
        let mark =
            if held.is_some_and(|held| held.reading == reading.name) { " (held)" } else { "" };
        let _ =
            writeln!(text, "{}", terminal.paint(&format!("{}{mark}", reading.name), Paint::Bold));
        text.push_str(&weights(outcome, at, reading));
        text.push_str(&crossings(outcome, at));
        for Selected { load, statistic, costs } in costs {
            for sizes in outcome.sizes(at, costs.as_ref()) {
                text.push_str(&by_size(&sizes, load, statistic));
            }
        }
        text.push('\n');
    }
    if let Some(held) = held {
        let why = terminal
            .wrap(&format!("Reading closest to the paper: {}. {}", held.reading, held.why), 0);
        let _ = writeln!(text, "{why}");
    }
    text
}

/// A table of W by delay, with a column for each scheduler.
fn weights(outcome: &StudyCounts, at: usize, reading: &StudyReading) -> String {
    let width = reading.schedulers.iter().map(|it| it.name.len()).max().unwrap_or(0).max(14);
    let mut text = format!("  {:>8}", "D_c, us");
    for scheduler in &reading.schedulers {
        let _ = write!(text, "  {:>width$}", scheduler.name);
    }
    text.push('\n');
    for (d, delay) in reading.delays.iter().enumerate() {
        let _ = write!(text, "  {delay:>8}");
        for s in 0..reading.schedulers.len() {
            let Some(w) = outcome.weighted(at, s, d) else { continue };
            let reach = f64::midpoint(w.high - w.value, w.value - w.low);
            let _ = write!(text, "  {:>width$}", format!("{:.4} ±{reach:.4}", w.value));
        }
        text.push('\n');
    }
    text
}

fn crossings(outcome: &StudyCounts, at: usize) -> String {
    let line = |crossing: DelayCrossing| {
        let DelayCrossing { of, against, at_us, .. } = &crossing;
        let what = match crossing.preferable {
            Preferable::Below { crossover_us, interval_us: [low, high] } => {
                format!(
                    "if the delay of {of} is below {crossover_us:.0} us ({low:.0} to {high:.0})"
                )
            }
            Preferable::Throughout => "at every delay of the study".to_owned(),
            Preferable::Never => "at no delay of the study".to_owned(),
        };
        format!("  {of} is preferable to {against} with {at_us} us {what}\n")
    };
    outcome.crossings(at).into_iter().map(line).collect()
}

fn by_size(sizes: &Sizes, load: &str, statistic: &str) -> String {
    let word = |reach: PreferenceRange| match reach {
        PreferenceRange::Below { wss_kib } => format!("below {wss_kib:.0} KiB"),
        PreferenceRange::Throughout { up_to_kib } => {
            format!("at all known sizes, to {up_to_kib:.0} KiB")
        }
        PreferenceRange::Never => "at no size".to_owned(),
        PreferenceRange::Unknown => "unknown".to_owned(),
    };
    let within = |reach: PreferenceRange, ends: [PreferenceRange; 2]| {
        let ends = if ends == [reach; 2] {
            String::new()
        } else {
            format!(" (95 %: {} to {})", word(ends[0]), word(ends[1]))
        };
        format!("{}{ends}", word(reach))
    };
    let (of, against) = (&sizes.of, &sizes.against);
    let fixed = within(sizes.fixed, sizes.fixed_interval);
    let own = within(sizes.each_its_own, sizes.each_its_own_interval);
    format!(
        "    load {load}, {statistic}: {of} is preferable to {against} with that delay {fixed}; \
         if {against} suffers its own delay, {own}\n"
    )
}
