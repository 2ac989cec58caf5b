// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files to paste: tables of `report`, the dashboard for Grafana, and the gates for continuous integration.

use std::collections::BTreeSet;
use std::process::Command;

use corehop_app::failure::Exit;
use corehop_fixtures::text as read;

/// The names of metrics in a text, with the prefix that all have.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let names = text.split(|c| !is_name(c)).filter_map(|word| word.strip_prefix("corehop_"));
    names.map(str::to_owned).collect()
}

/// The names of metrics that the program writes: the first words of the families in their source.
fn written() -> BTreeSet<String> {
    let source = read("crates/corehop-report/src/metrics.rs");
    let (code, _) = source.split_once("#[cfg(test)]").unwrap();
    let words = code.split('"').skip(1).step_by(2);
    let begins = ["run_", "event_", "place_", "measurement_"];
    let is_name = |word: &&str| begins.iter().any(|begin| word.starts_with(begin));
    words.filter(is_name).map(str::to_owned).collect()
}

#[test]
fn the_dashboard_asks_for_metrics_that_are_written_and_for_all_of_them() {
    let dashboard = read("packaging/grafana.json");
    let json: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let asked = metrics(&json["panels"].to_string());
    let written = written();
    let unknown: Vec<_> = asked.difference(&written).collect();
    assert!(unknown.is_empty() && !asked.is_empty(), "no metric has these names: {unknown:?}");
    // What a panel of its own would show.
    let left_out = ["measurement_slowdown_ratio", "place_windows_total", "place_proposals_total"];
    let missing: Vec<&String> =
        written.difference(&asked).filter(|it| !left_out.contains(&it.as_str())).collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

#[test]
fn the_gates_name_the_true_exit_codes_and_options_of_compare() {
    let codes = [Exit::Done, Exit::No, Exit::Usage, Exit::Damaged, Exit::Failed];
    let words = [
        "not slower",
        "slower or undecided",
        "wrong command line",
        "damaged input",
        "system failure",
    ];
    let told: Vec<String> =
        codes.iter().zip(words).map(|(code, word)| format!("{} {word}", code.code())).collect();
    let sentence = format!("Exit codes of `corehop compare`: {}.", told.join(", "));
    let help = Command::new(env!("CARGO_BIN_EXE_corehop")).args(["compare", "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    for file in ["packaging/ci/github-compare.yml", "packaging/ci/gitlab-compare.yml"] {
        let text = read(file);
        assert!(text.contains(&sentence), "{file}: {sentence}");
        let command =
            text.lines().find(|line| line.contains("corehop compare times.json")).unwrap();
        let options = command.split_whitespace().filter(|word| word.starts_with("--"));
        for option in options {
            assert!(help.contains(option), "{file}: {option}");
        }
        assert!(text.contains("--export-json times.json"), "{file}");
    }
}

#[test]
fn a_report_is_pasted_as_markdown_and_as_latex_with_the_same_cells() {
    let folder = tempfile::tempdir().unwrap();
    let corehop = |words: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_corehop"));
        let output = program.args(words.split(' ')).current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let (code, _, said) = corehop(
        "measure synthetic --on m5_cc --wss 4KiB,64KiB --load idle --event preemption --length 1ms --samples 6 --replicates 3 -q -o a.parquet",
    );
    assert_eq!(code, Some(0), "{said}");
    let (code, markdown, said) = corehop("report a.parquet --table markdown");
    assert_eq!(code, Some(0), "{said}");
    let (code, latex, said) = corehop("report a.parquet --table latex");
    assert_eq!(code, Some(0), "{said}");
    let rows = markdown.lines().filter(|line| line.starts_with("| preemption ")).count();
    assert!(rows >= 2 && markdown.contains("| --- | --:"), "{markdown}");
    let tex = latex.lines().filter(|line| line.starts_with("preemption ")).count();
    assert_eq!((rows, latex.contains("\\toprule")), (tex, true), "{latex}");
    let (code, only, _) = corehop("report a.parquet --table markdown --only wss_bytes=4096");
    assert!(code == Some(0) && !only.contains("64 KiB") && only.contains("4 KiB"), "{only}");
}
