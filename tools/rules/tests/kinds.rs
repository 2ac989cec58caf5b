// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every kind of measurement has its places, and no source decides by kinds with a default for those that it forgot.

use std::fs;
use std::path::Path;

use corehop_fixtures::{repository, text};
use corehop_plan::for_each_kind;
use corehop_plan::samples::RowKind;
use corehop_rules::sources;

macro_rules! names {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// The names of the kinds.
        const KINDS: &[&str] = &[$(stringify!($name)),+];
    };
}

for_each_kind!(names);

/// Kinds whose summaries need more than statistics, each with the module that exports the summary as `Summary`.
const SUMMARIES_ELSEWHERE: [(&str, &str); 2] = [
    ("program", "crates/corehop-results/src/program"),
    ("supply", "crates/corehop-sched/src/supply"),
];

/// Files that may match over kinds by hand: one for each machine, and the tally of a run.
const BY_HAND: [&str; 3] = [
    "crates/corehop-linux/src/live/mod.rs",
    "crates/corehop-sim/src/machine.rs",
    "crates/corehop-app/src/run/tally.rs",
];

/// The enums over kinds.
const ENUMS: [&str; 3] = ["Body::", "Batch::", "RowKind::"];

/// The text of a module, which is a file or a folder.
fn module(path: &str) -> Option<String> {
    let places = [format!("{path}.rs"), format!("{path}/mod.rs")];
    places.iter().find_map(|place| fs::read_to_string(repository(place)).ok())
}

#[test]
fn every_kind_has_its_folder_its_summary_and_its_section() {
    for name in KINDS {
        let folder = format!("crates/corehop-plan/src/kinds/{name}");
        let kind = text(&format!("{folder}/mod.rs"));
        assert!(kind.contains("impl Kind for "), "{folder}/mod.rs has no `impl Kind`");
        let rows = text(&format!("{folder}/rows.rs"));
        assert!(rows.contains("row! {"), "{folder}/rows.rs has no rows");
        let elsewhere = SUMMARIES_ELSEWHERE.iter().find(|(kind, _)| kind == name);
        let summary = elsewhere.map_or_else(
            || format!("crates/corehop-stats/src/{name}"),
            |(_, path)| (*path).to_owned(),
        );
        let source = module(&summary).unwrap_or_else(|| panic!("no summary in {summary}"));
        assert!(source.contains(" as Summary;"), "{summary} exports no `Summary`");
        let section = format!("crates/corehop-report/src/sections/{name}");
        let source = module(&section).unwrap_or_else(|| panic!("no section in {section}"));
        for item in ["HEADINGS", "fn sections", "fn tables", "fn notes", "fn results"] {
            assert!(source.contains(item), "{section} has no `{item}`");
        }
    }
    let folders = fs::read_dir(repository("crates/corehop-plan/src/kinds")).unwrap();
    for folder in folders.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(KINDS.contains(&name.as_str()), "{} is not in the registry", folder.display());
    }
}

#[test]
fn every_kind_and_every_kind_of_rows_has_its_part_of_the_reference() {
    let page = text("docs/reference/samples.md");
    for name in KINDS {
        assert!(page.contains(&format!("\n| `{name}` |")), "{name}");
    }
    for kind in RowKind::ALL {
        assert!(page.contains(&format!("\nKind `{}`.\n", kind.word())), "{}", kind.word());
    }
}

/// Python finds the results of a kind by the registry: it names the kinds whose tables have columns of their own, and no other.
#[test]
fn python_decides_by_no_kind_but_for_tables_with_columns_of_their_own() {
    let summary = text("python/src/summary.rs");
    let (_, list) = summary.split_once("const OWN_COLUMNS").unwrap();
    let (list, _) = list.split_once("\n];").unwrap();
    assert_eq!(summary.matches("RowKind::").count(), list.matches("RowKind::").count());
    assert!(summary.contains("sections::results("));
}

/// The Rust sources of the crates and of the Python extension, with their places in the repository.
fn all_sources() -> Vec<(String, String)> {
    let found: Vec<_> = ["crates", "python/src"]
        .iter()
        .flat_map(|folder| sources(&repository(folder), "rs"))
        .collect();
    assert!(found.len() > 300, "only {} sources", found.len());
    found
}

/// The number of blanks before a line.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line is an arm of a match over kinds.
fn is_arm(line: &str) -> bool {
    let arm = line.trim_start().trim_start_matches("| ").trim_start_matches('(');
    ENUMS.iter().any(|it| arm.starts_with(it))
        && (arm.contains("=>") || line.trim().starts_with('|'))
}

/// A match over kinds that is written by hand.
struct ByHand {
    /// The line of the source, from 1.
    line: usize,
    has_default: bool,
}

/// The matches over kinds in a source.
fn matches(source: &str) -> Vec<ByHand> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found: Vec<ByHand> = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_arm(line)) {
        let before = lines[..at].iter().enumerate().rev();
        let mut outer = before.filter(|(_, it)| !it.trim().is_empty() && depth(it) < depth(line));
        let Some((begin, head)) = outer.next().filter(|(_, head)| head.contains("match ")) else {
            continue;
        };
        if found.iter().any(|it| it.line == begin + 1) {
            continue;
        }
        let arms =
            lines[at..].iter().take_while(|it| it.trim().is_empty() || depth(it) > depth(head));
        let mut arms = arms.filter(|it| depth(it) == depth(line)).map(|it| it.trim());
        let is_default = |arm: &str| {
            let pattern = arm.split("=>").next().unwrap_or_default().trim();
            let name = pattern.split(' ').next().unwrap_or_default();
            arm.contains("=>")
                && !name.is_empty()
                && !name.contains("::")
                && name.chars().all(|c| c.is_lowercase() || c == '_')
        };
        found.push(ByHand { line: begin + 1, has_default: arms.any(is_default) });
    }
    found
}

#[test]
fn no_match_over_kinds_has_a_default_and_few_are_written_by_hand() {
    for (path, source) in all_sources() {
        let is_test = Path::new(&path)
            .components()
            .any(|it| ["tests", "benches"].iter().any(|of| it.as_os_str() == *of));
        for ByHand { line, has_default } in matches(&source) {
            assert!(
                !has_default,
                "{path}:{line}: a match over kinds with a default: a new kind would be taken for another"
            );
            let allowed = is_test || BY_HAND.contains(&path.as_str());
            assert!(
                allowed,
                "{path}:{line}: a match over kinds by hand: make it from the registry"
            );
        }
    }
}

#[test]
fn a_match_over_kinds_is_found_with_its_default_and_without() {
    let with = |last: &str| {
        format!(
            "fn f() {{\n    match &plan.body {{\n        Body::Jobs(jobs) => {{\n            1\n        }}\n        {last}\n    }}\n}}\n"
        )
    };
    let defaults =
        |last: &str| matches(&with(last)).iter().map(|it| it.has_default).collect::<Vec<_>>();
    assert_eq!(defaults("Body::Tasks(_) | Body::Gangs(_) => 2,"), [false]);
    assert_eq!(defaults("_ => 2,"), [true]);
    assert_eq!(defaults("_ if true => 2,"), [true]);
    assert_eq!(defaults("other => g(other),"), [true]);
    let rows = "match kind {\n    RowKind::Samples\n    | RowKind::Runs => 1,\n    _ => 2,\n}\n";
    assert_eq!(matches(rows).iter().map(|it| it.has_default).collect::<Vec<_>>(), [true]);
    assert!(
        matches("let rows = match x {\n    JobRows::Samples => &[RowKind::Samples],\n};\n")
            .is_empty()
    );
}
