// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of reports, one for one: every section, table, figure and note of made-up files, beside the text that a reader has
//! checked.
//!
//! `COREHOP_UPDATE_TOLD=1` writes the texts anew: look at each line that changes.

mod pages;
mod rows;

use std::fmt::Write as _;
use std::path::Path;

use corehop_report::figure::{Axis, AxisMark, Figure, FigureSeries, FigureTable, PageSection};
use corehop_report::{answer, listing, page, screen, sections, table};
use corehop_results::Results;

/// Holds a text against the expected one, the file of this name beside this one.
macro_rules! told {
    ($name:literal, $text:expr) => {
        $crate::hold($name, include_str!($name), $text)
    };
}

fn hold(name: &str, expected: &str, text: &str) {
    if std::env::var_os("COREHOP_UPDATE_TOLD").is_some() {
        // The path of this file begins at the root of the workspace.
        let mut roots =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|it| it.join(file!()));
        let path = roots.find(|it| it.exists()).unwrap().with_file_name(name);
        return std::fs::write(path, text).unwrap();
    }
    let mut lines = text.lines().zip(expected.lines()).zip(1..);
    if let Some(((told, expected), at)) = lines.find(|((told, expected), _)| told != expected) {
        panic!("{name}, line {at}\n    told: {told}\nexpected: {expected}\n(see {})", file!());
    }
    let count = |text: &str| text.lines().count();
    assert_eq!(count(text), count(expected), "{name}: the lines behind those that are the same");
}

mod verbs;

/// Sections in lines: all that a page makes its HTML from.
fn outline(sections: &[PageSection]) -> String {
    let mut text = String::new();
    for section in sections {
        let PageSection { place: _, id, title, text: says, drawing, figures, tables } = section;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n# {id}: {title}");
        text.extend(says.iter().map(|it| format!("{it}\n")));
        text.extend(drawing.iter().map(|it| svg(it)));
        text.extend(figures.iter().map(figure));
        text.push_str(&in_lines(tables));
    }
    text
}

/// A drawing, a line for each element, without its colours.
fn svg(drawing: &str) -> String {
    let elements = drawing.replace("><", ">\n<");
    let lines = elements.lines().filter(|line| !line.starts_with("<style>"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn in_lines(tables: &[FigureTable]) -> String {
    let mut text = String::new();
    for FigureTable { caption, head, rows, open } in tables {
        let shown = if *open { ", shown" } else { "" };
        let _ = writeln!(text, "table: {caption}{shown}\n  {}", head.join(" | "));
        text.extend(rows.iter().map(|row| format!("  {}\n", row.join(" | ").replace('\n', "\\"))));
    }
    text
}

fn axis(it: &Axis) -> String {
    format!("{} ({}, log: {}, {:?})", it.name, it.short, it.log, it.unit)
}

fn marks(marks: &[AxisMark]) -> String {
    let mut text = String::new();
    for it in marks {
        let _ = writeln!(text, "  mark {} at {}", it.label, it.x);
    }
    text
}

fn figure(it: &Figure) -> String {
    let views: Vec<String> = it.views.iter().map(axis).collect();
    let mut text =
        format!("figure {}: {:?} over {}, of {}\n", it.id, it.kind, axis(&it.x), views.join("; "));
    let statistics: Vec<String> =
        it.statistics.iter().map(|(name, on)| format!("{name}: {on}")).collect();
    let _ = writeln!(text, "  statistics {}; marked: {}", statistics.join(", "), it.marked);
    text += &marks(&it.marks);
    for variant in &it.variants {
        let _ = writeln!(text, "  variant {} of {}", variant.label, variant.categories.join(", "));
        text += &marks(&variant.marks);
        text.extend(variant.series.iter().map(series));
    }
    text
}

fn series(it: &FigureSeries) -> String {
    let values = |of: &[Option<f64>]| {
        let all: Vec<String> =
            of.iter().map(|it| it.map_or_else(|| "-".to_owned(), digits)).collect();
        all.join("/")
    };
    let mut text = format!("    {} {} in {} {:?}:", it.name, it.statistic, it.colour, it.style);
    for point in &it.points {
        let _ = write!(text, " {}={}", digits(point.x), values(&point.y));
        if !point.low.is_empty() || !point.high.is_empty() {
            let _ = write!(text, " [{}, {}]", values(&point.low), values(&point.high));
        }
        if !point.note.is_empty() {
            let _ = write!(text, " ({})", point.note);
        }
    }
    text + "\n"
}

/// Six digits: what follows is rounding.
fn digits(value: f64) -> String {
    let places = if value.abs() >= 1_000.0 { 1 } else { 5 };
    let text = format!("{value:.places$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The sections of a page without those of these ids, which other texts have.
fn sections_but(data: &Results, others: &[&str]) -> Vec<PageSection> {
    let mut all = sections::sections(data);
    all.retain(|it| !others.contains(&it.id.as_str()));
    all
}

/// Everything that is said of `data`: on the page but for sections of these ids, on one screen, in lists.
fn all_of(data: &Results, but: &[&str]) -> String {
    let mut text = format!("answer: {}\n", answer::answer(data).unwrap_or_default());
    let _ =
        writeln!(text, "listed: {}\nsentence: {}", listing::answer(data), listing::sentence(data));
    text += &outline(&sections_but(data, but));
    let _ = writeln!(text, "\n# around cells\n{}", in_lines(&sections::other_tables(data)));
    let _ = writeln!(text, "# notes\n{}", sections::notes(data).join("\n"));
    let _ = writeln!(text, "\n# screen\n{}", screen::screen(data, 100, true));
    text
}

#[test]
fn samples_of_two_machines_with_all_that_their_files_know() {
    let data = rows::samples().finish();
    let mut text = all_of(&data, &[]);
    let _ = writeln!(text, "\n# text\n{}", table::text(&data.jobs.summaries, 100));
    let _ = writeln!(text, "\n# csv\n{}", table::csv(&table::joinable(&data.jobs.summaries[..4])));
    told!("samples.txt", &text);
}

#[test]
fn results_that_are_no_cells() {
    told!("others.txt", &all_of(&rows::others().finish(), &["machine", "provenance"]));
}

#[test]
fn a_recorded_program_and_one_whose_threads_are_not_there() {
    let data = rows::recorded(true).finish();
    let mut text = all_of(&data, &["machine", "provenance", "exchange"]);
    let _ = writeln!(text, "\n# listing\n{}", listing::text(&data));
    let data = rows::recorded(false).finish();
    let _ = writeln!(text, "# without threads\n{}", sections::notes(&data).join("\n"));
    let _ = writeln!(text, "\n# listing\n{}", listing::text(&data));
    told!("recorded.txt", &text);
}

#[test]
fn what_was_measured_of_a_machine_and_the_balance_of_its_delays() {
    let data = rows::balanced().finish();
    let others = ["cost", "length", "access", "budget", "provenance", "overview"];
    told!("measured.txt", &outline(&sections_but(&data, &others)));
}

fn html(data: &Results) -> String {
    all_lines(&page::page(data))
}

/// The lines of a page between its style and its scripts.
fn all_lines(page: &str) -> String {
    let (_, page) = page.split_once("</head>\n").unwrap();
    let (page, _) = page.split_once("<script>").unwrap();
    svg(&without_version(&shown(page)))
}

/// The page without drawings that are hidden at first: other units, scales and selections of those that are shown.
fn shown(page: &str) -> String {
    let mut parts = page.split("<div class=\"plot\"");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        let (drawing, rest) = part.split_once("</div>").unwrap();
        if !drawing.lines().next().unwrap().contains(" hidden>") {
            text += &["<div class=\"plot\"", drawing, "</div>"].concat();
        }
        text += rest;
    }
    text
}

fn without_version(text: &str) -> String {
    text.replace(concat!("corehop ", env!("CARGO_PKG_VERSION")), "corehop VERSION")
}

#[test]
fn the_page_in_html() {
    let cells = html(&rows::samples().finish());
    let (head, _) = cells.split_once("<main>").unwrap();
    let (_, one) = cells.split_once("<section id=\"sweep\">").unwrap();
    let (one, _) = one.split_once("</section>").unwrap();
    let recorded = html(&rows::recorded(false).finish());
    told!("page.html", &[head, one, &recorded].concat());
}

#[test]
fn a_report_of_nothing_says_nothing() {
    let data = rows::nothing().finish();
    assert_eq!(outline(&sections::sections(&data)), "");
    assert!(sections::other_tables(&data).is_empty() && sections::notes(&data).is_empty());
    assert_eq!((answer::answer(&data), screen::screen(&data, 100, true)), (None, String::new()));
    assert_eq!(listing::text(&data), "");
}
