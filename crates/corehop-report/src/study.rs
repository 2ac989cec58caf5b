// SPDX-License-Identifier: MIT OR Apache-2.0
//! A schedulability study as sections of a page: curves of W(D_c), crossovers, and tables of both.

use super::figure::{
    Axis, AxisMark, Figure, FigureKind, FigureSeries, FigureTable, PageSection, SectionPlace,
    SeriesPoint, Style, ValueUnit, Variant,
};
use super::front::{PageFront, SurenessCheck, WordedChart, WordedLine};
use super::html;
use super::study_svg::drawing;
use corehop_plan::workload::task::Time;
use corehop_sched::study::tally::ShareEstimate;
use corehop_sched::study::{DelayCrossing, Measure, Preferable, StudyCounts, StudyReading};

/// The colours of a page that readers can tell apart most easily.
const COLOURS: [usize; 8] = [3, 6, 5, 7, 10, 12, 1, 14];

/// The half width of the widest interval of a curve that is narrow enough to read the curve.
const ENOUGH: f64 = 0.05;

/// Writes the page of a study, with the sentence that answers the study's question; the command `everything` prints
/// the complete counts.
pub fn page(outcome: &StudyCounts, answer: &str, everything: &str) -> String {
    let study = &outcome.study;
    let part = if outcome.is_whole() { "" } else { " (a part of the study)" };
    let facts = vec![
        format!("{} sets per cap{part}", outcome.sets()),
        format!("seed {}", study.seed),
        format!("study {}", study.id),
    ];
    let front = PageFront {
        title: study.title.clone(),
        answer: answer.to_owned(),
        next: Some((
            "corehop check TASKS.json".to_owned(),
            "tests a task set of your own under these schedulers.",
        )),
        everything: everything.to_owned(),
        checks: checks(outcome),
        chart: chart(outcome),
        facts,
        ..PageFront::default()
    };
    html::page_of(&front, sections(outcome))
}

/// Returns the checks behind the curves: whether all sets were counted, and whether the intervals are narrow.
fn checks(outcome: &StudyCounts) -> Vec<SurenessCheck> {
    let is_whole = outcome.is_whole();
    let whole = if is_whole {
        "all sets of the study were counted"
    } else {
        "only a part of the study was counted"
    };
    let width = widest(outcome).map(|half| {
        let text =
            format!("the widest interval of a curve is \u{b1}{half:.3} (enough: \u{b1}{ENOUGH})");
        SurenessCheck::new(half <= ENOUGH, text)
    });
    [Some(SurenessCheck::new(is_whole, whole)), width].into_iter().flatten().collect()
}

/// Returns half the width of the widest interval in the reading that the page shows first.
fn widest(outcome: &StudyCounts) -> Option<f64> {
    let at = ordered(outcome).next()?;
    let reading = outcome.study.readings.get(at)?;
    let cells = (0..reading.schedulers.len())
        .flat_map(|scheduler| (0..reading.delays.len()).map(move |delay| (scheduler, delay)));
    let halves = cells.filter_map(|(scheduler, delay)| outcome.weighted(at, scheduler, delay));
    halves.map(|it| (it.high - it.low) / 2.0).max_by(f64::total_cmp)
}

/// Returns a chart of the delays below which a scheduler is preferable, for the reading that the page shows first.
fn chart(outcome: &StudyCounts) -> Option<WordedChart> {
    let at = ordered(outcome).next()?;
    let line = |it: DelayCrossing| {
        let Preferable::Below { crossover_us, interval_us: [low, high] } = it.preferable else {
            return None;
        };
        Some(WordedLine {
            words: format!("{} better than {} at {} µs", it.of, it.against, it.at_us),
            value: crossover_us,
            ends: Some((low, high)),
            group: 0,
        })
    };
    let lines: Vec<WordedLine> = outcome.crossings(at).into_iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| WordedChart {
        quantity: "delay D_c below which a scheduler is preferable, in µs".to_owned(),
        unit: "µs",
        point: "estimate",
        level: 0.95,
        under: format!("reading {}", outcome.study.readings[at].name),
        lines: WordedLine::spread(lines),
    })
}

fn sections(outcome: &StudyCounts) -> Vec<PageSection> {
    let mut all = vec![curves(outcome)];
    all.extend(schedulability(outcome));
    all.extend(held(outcome));
    all
}

/// Returns the quantity on the vertical axis of the curves.
fn what(outcome: &StudyCounts) -> &'static str {
    let first = outcome.study.readings.first();
    match first.map_or(Measure::Schedulability, |reading| reading.measure) {
        Measure::Schedulability => "weighted schedulability W",
        Measure::Breakdown => "mean breakdown utilisation",
    }
}

/// The meaning of the vertical lines in the curves.
const MARKED: &str = "delay up to which a scheduler is preferable to a scheduler without a delay";

fn curves(outcome: &StudyCounts) -> PageSection {
    let readings = &outcome.study.readings;
    let variants = ordered(outcome).map(|at| variant(outcome, at, &readings[at]));
    let figure = Figure {
        id: "by-delay".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("delay D_c in µs", "D_c", false, ValueUnit::Number),
        views: vec![Axis::new(what(outcome), "W", false, ValueUnit::Number)],
        statistics: Vec::new(),
        variants: variants.collect(),
        marks: Vec::new(),
        marked: MARKED,
    };
    let section = PageSection::new(SectionPlace::Result, "by-delay", "Schedulability by delay")
        .says(
            "W(D_c) is the share of task sets that a scheduler can schedule when each job is charged the delay D_c, over all utilisation caps, weighted by the cap. Every scheduler suffers its own delay: read each curve at the cost of that scheduler's preemptions and migrations.",
        )
        .says(
            "Intervals are at 95 %. Marks show the delay up to which a scheduler is preferable to a scheduler without a delay, judged by the differences on the same sets.",
        );
    let tables = ordered(outcome).map(|at| table(outcome, at, &readings[at]));
    let tables = crossings(outcome).into_iter().chain(tables).collect();
    PageSection { figures: vec![figure], tables, ..section }
}

/// Draws as SVG the curves of the reading that corehop attributes to the published source, or of the first reading if
/// there is none.
pub fn picture(outcome: &StudyCounts) -> Option<String> {
    drawing(outcome, ordered(outcome).next()?)
}

/// Returns the order of the readings, in which the reading that corehop attributes to the published source comes first,
/// because the page opens with this reading.
fn ordered(outcome: &StudyCounts) -> impl Iterator<Item = usize> {
    let held = outcome.study.held.as_ref();
    let is_held =
        |at: &usize| held.is_some_and(|it| it.reading == outcome.study.readings[*at].name);
    let (first, rest): (Vec<usize>, Vec<usize>) =
        (0..outcome.study.readings.len()).partition(is_held);
    first.into_iter().chain(rest)
}

fn point(x: f64, estimate: ShareEstimate, note: String) -> SeriesPoint {
    SeriesPoint {
        x,
        y: vec![Some(estimate.value)],
        low: vec![Some(estimate.low)],
        high: vec![Some(estimate.high)],
        note,
    }
}

fn variant(outcome: &StudyCounts, at: usize, reading: &StudyReading) -> Variant {
    let series = reading.schedulers.iter().enumerate().map(|(s, scheduler)| {
        let of = |(d, &delay): (usize, &Time)| {
            let estimate = outcome.weighted(at, s, d)?;
            let note = format!("{:.4} [{:.4}, {:.4}]", estimate.value, estimate.low, estimate.high);
            Some(point(delay.as_f64(), estimate, note))
        };
        FigureSeries {
            name: scheduler.name.clone(),
            statistic: String::new(),
            colour: COLOURS[s % COLOURS.len()],
            style: Style::Solid,
            points: reading.delays.iter().enumerate().filter_map(of).collect(),
        }
    });
    let marks = outcome.crossings(at).into_iter().filter_map(|crossing| {
        let Preferable::Below { crossover_us, .. } = crossing.preferable else { return None };
        let (of, against, free) = (crossing.of, crossing.against, crossing.at_us);
        let label = format!("{of} = {against} at {free}: {crossover_us:.0} µs");
        Some(AxisMark { x: crossover_us, label })
    });
    Variant {
        label: reading.name.clone(),
        series: series.collect(),
        marks: marks.collect(),
        ..Variant::default()
    }
}

fn table(outcome: &StudyCounts, at: usize, reading: &StudyReading) -> FigureTable {
    let mut table = FigureTable::new(format!("{}, {}", what(outcome), reading.name), &["D_c, µs"]);
    table.head.extend(reading.schedulers.iter().map(|scheduler| scheduler.name.clone()));
    for (d, delay) in reading.delays.iter().enumerate() {
        let cells = (0..reading.schedulers.len()).map(|s| {
            outcome.weighted(at, s, d).map_or_else(
                || "–".to_owned(),
                |it| format!("{:.4} [{:.4}, {:.4}]", it.value, it.low, it.high),
            )
        });
        table.rows.push(std::iter::once(delay.to_string()).chain(cells).collect());
    }
    table
}

fn crossings(outcome: &StudyCounts) -> Option<FigureTable> {
    let head = ["reading", "scheduler", "is preferable to", "whose delay is, µs", "below, µs"];
    let mut table =
        FigureTable::new("The preferable scheduler, and the delay up to which it is", &head)
            .shown();
    for at in ordered(outcome) {
        for crossing in outcome.crossings(at) {
            let below = match crossing.preferable {
                Preferable::Below { crossover_us, interval_us: [low, high] } => {
                    format!("{crossover_us:.0} [{low:.0}, {high:.0}]")
                }
                Preferable::Throughout => "every delay here".to_owned(),
                Preferable::Never => "none".to_owned(),
            };
            table.rows.push(vec![
                outcome.study.readings[at].name.clone(),
                crossing.of,
                crossing.against,
                crossing.at_us.to_string(),
                below,
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Returns the section about S(U, D_c) in the first reading, with a selection for each delay.
fn schedulability(outcome: &StudyCounts) -> Option<PageSection> {
    let at = ordered(outcome).next()?;
    let reading = outcome.study.readings.get(at)?;
    let variants = reading.delays.iter().enumerate().map(|(d, delay)| {
        let series = reading.schedulers.iter().enumerate().map(|(s, scheduler)| {
            let of = |cap: usize| {
                let share = outcome.schedulability(at, s, d, cap)?;
                let note = format!("{:.4} [{:.4}, {:.4}]", share.value, share.low, share.high);
                Some(point(reading.caps.at(cap), share, note))
            };
            FigureSeries {
                name: scheduler.name.clone(),
                statistic: String::new(),
                colour: COLOURS[s % COLOURS.len()],
                style: Style::Solid,
                points: (0..reading.caps.len()).filter_map(of).collect(),
            }
        });
        let label = format!("D_c = {delay} µs");
        Variant { label, series: series.collect(), ..Variant::default() }
    });
    let figure = Figure {
        id: "by-cap".to_owned(),
        kind: FigureKind::Curves,
        x: Axis::new("utilisation cap U", "U", false, ValueUnit::Number),
        views: vec![Axis::new("schedulability S(U, D_c)", "S", false, ValueUnit::Number)],
        statistics: Vec::new(),
        variants: variants.collect(),
        marks: Vec::new(),
        marked: "",
    };
    let text = format!("The cells behind the curves, for the reading {}.", reading.name);
    let section = PageSection::new(SectionPlace::Detail, "by-cap", "Schedulability by utilisation")
        .says(text);
    Some(PageSection { figures: vec![figure], ..section })
}

fn held(outcome: &StudyCounts) -> Option<PageSection> {
    let held = outcome.study.held.as_ref()?;
    let text = format!("Reading closest to the paper: {}. {}", held.reading, held.why);
    Some(PageSection::new(SectionPlace::Origin, "reading", "Reading of the source").says(text))
}
