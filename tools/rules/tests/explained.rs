// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every word that tables print is explained. The words are gathered from the program's own sources: the
//! headings of its tables, the values of its enums of words, and the columns of its files.

use corehop_fixtures::repository;
use corehop_plan::samples::RowKind;
use corehop_report::glossary::{GlossaryEntry, entries, look_up};
use corehop_report::table::COLUMNS;
use corehop_rules::sources;

/// The crates whose words are printed.
const PRINTED: [&str; 6] = ["plan", "sim", "stats", "sched", "decide", "report"];

/// The sources of these crates, without tests.
fn printed() -> Vec<(String, String)> {
    let source = |name: &&str| sources(&repository(&format!("crates/corehop-{name}/src")), "rs");
    let code = |text: String| text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
    PRINTED
        .iter()
        .flat_map(source)
        .filter(|(path, _)| !path.ends_with("tests.rs"))
        .map(|(path, text)| (path, code(text)))
        .collect()
}

/// The string literals of a piece of code without escapes.
fn literals(code: &str) -> Vec<String> {
    code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The text between `open`, which is just before `rest`, and the bracket that closes it.
fn inside(rest: &str) -> &str {
    let mut depth = 1;
    let end = rest.find(|c: char| {
        depth += i32::from("[({".contains(c)) - i32::from("])}".contains(c));
        depth == 0
    });
    &rest[..end.unwrap_or(rest.len())]
}

/// The headings of the tables in a source: the arrays given to `Table::new`, and `head` or `columns`.
fn headings(code: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, what) in code.match_indices("Table::new(") {
        let call = inside(&code[at + what.len()..]);
        if let Some(list) = call.rfind("&[") {
            words.extend(literals(inside(&call[list + 2..])));
        }
    }
    for opening in ["let head = [", "let columns = [", "let columns =\n        ["] {
        for (at, what) in code.match_indices(opening) {
            words.extend(literals(inside(&code[at + what.len()..])));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The values of the enums that a source declares by `words!`.
fn values(code: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, what) in code.match_indices("words! {\n") {
        let body = inside(&code[at + what.len()..]);
        let code = body.lines().filter(|line| !line.trim_start().starts_with("//"));
        let values = code.filter_map(|line| line.split_once(" = \"")?.1.split_once('"'));
        words.extend(values.map(|(word, _)| word.to_owned()));
    }
    words
}

fn unexplained(known: &[GlossaryEntry], words: &[String]) -> Vec<String> {
    let explained = |word: &str| look_up(known, word).iter().any(|entry| entry.meaning.len() > 5);
    words.iter().filter(|word| !explained(word)).cloned().collect()
}

/// Checks what `gather` finds in every source, and that it finds at least `fewest` words.
fn check(fewest: usize, gather: fn(&str) -> Vec<String>) {
    let known = entries();
    let (mut count, mut missing) = (0, Vec::new());
    for (path, code) in printed() {
        let words = gather(&code);
        count += words.len();
        let of = unexplained(&known, &words);
        missing.extend(of.into_iter().map(|word| format!("{path}: {word}")));
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(count >= fewest, "only {count} words were found in the sources");
}

#[test]
fn every_heading_of_a_table_is_explained() {
    check(200, headings);
}

#[test]
fn every_value_of_an_enum_of_words_is_explained() {
    check(130, values);
}

#[test]
fn every_column_of_a_file_and_of_a_summary_is_explained() {
    let known = entries();
    let columns = RowKind::ALL.iter().flat_map(|kind| kind.docs()).map(|(name, _)| name.to_owned());
    let summary = COLUMNS.split(',').map(str::to_owned);
    let statistics = ["max", "avg", "std", "min", "p50", "p90", "p99", "p999", "n", "n_all"];
    let overheads = ["SCHEDULE", "CXS", "TICK", "RELEASE", "RELEASE-LATENCY", "IPI-LATENCY"];
    let words = statistics.into_iter().chain(overheads).map(str::to_owned);
    let all: Vec<String> = columns.chain(summary).chain(words).collect();
    assert_eq!(unexplained(&known, &all), Vec::<String>::new());
    assert!(all.len() > 100);
}

#[test]
fn a_unit_does_not_hide_a_heading() {
    let known = entries();
    for (heading, word) in
        [("measured, µs", "measured"), ("median [95 %]", "median"), ("excess: p99", "excess")]
    {
        let found = look_up(&known, heading);
        assert!(found.iter().any(|entry| entry.word == word), "{heading}");
    }
    assert!(look_up(&known, "nonsense, µs").is_empty());
}
