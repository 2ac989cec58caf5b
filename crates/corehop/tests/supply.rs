// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure supply` and `corehop check --supply` as a user types them.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use corehop_plan::samples::{BatchWriter, Provenance, Reader, RowKind, Rows, SupplyGap};
use serde_json::Value;

fn corehop(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(words.split(' ')).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A folder with a set of two tasks on one CPU.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let set = r#"{"cpus": 1, "tasks": [{"name": "fast", "wcet_us": 1000, "period_us": 10000},
        {"name": "slow", "wcet_us": 8000, "period_us": 40000}]}"#;
    fs::write(folder.path().join("set.json"), set).unwrap();
    folder
}

/// A file of windows of 40 ms on CPU 0, each with one gap of 2 ms.
fn observed(folder: &Path, name: &str, windows: u64) {
    let row = |window: u64| SupplyGap {
        machine: "box".into(),
        seed: 1,
        window,
        cpu: 0,
        replicate: Some(0),
        start_ns: window * 100_000_000,
        asked_ns: 40_000_000,
        watched_ns: 40_000_000,
        short_ns: 0,
        gap: 0,
        gap_at_ns: Some(5_000_000),
        gap_ns: Some(2_000_000),
        cut: false,
        threshold_ns: 500,
        policy: "fifo:2".into(),
    };
    let rows: Vec<SupplyGap> = (0..windows).map(row).collect();
    let file = File::create(folder.join(name)).unwrap();
    let mut part = BatchWriter::begin(file, RowKind::Supply, &Provenance::default()).unwrap();
    part.append(&Rows::from(rows)).unwrap();
    part.end().unwrap();
}

#[test]
fn a_run_watches_each_cpu_and_check_reads_its_gaps() {
    let folder = folder();
    let at = folder.path();
    let run = "measure supply --watched 400ms --window 20ms --json -o supply.parquet";
    let output = corehop(at, run);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cpus = answer["supply"].as_array().unwrap();
    assert!(!cpus.is_empty());
    for cpu in cpus {
        assert_eq!(cpu["windows"], 20, "{cpu}");
        let number = |name: &str| cpu[name].as_f64().unwrap();
        assert!((0.4..4.0).contains(&number("watched_s")), "{cpu}");
        assert!((0.0..100.0).contains(&number("lost_percent")), "{cpu}");
    }
    let mut reader = Reader::open(File::open(at.join("supply.parquet")).unwrap()).unwrap();
    let rows: Vec<SupplyGap> = reader.all().unwrap();
    for row in &rows {
        assert!(row.watched_ns >= row.asked_ns && row.asked_ns == 20_000_000, "{row:?}");
        let end = row.gap_at_ns.zip(row.gap_ns).map_or(0, |(at, length)| at + length);
        assert!(end <= row.watched_ns, "{row:?}");
    }
    let report = said(&corehop(at, "report supply.parquet --table text"));
    assert!(report.contains("Time that CPUs did not supply"), "{report}");
    let page = corehop(at, "report supply.parquet -o page.html");
    assert_eq!(page.status.code(), Some(0), "{}", said(&page));
    assert!(fs::read_to_string(at.join("page.html")).unwrap().contains("Supply of the CPUs"));
    let checked = corehop(at, "check set.json --test p-fp-rta --supply supply.parquet --json");
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{}", said(&checked));
    let answer: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(answer["supply"]["windows"], 20, "{answer}");
    // On a CPU with gaps a response is no shorter.
    let bound = answer["bounds_us"][0].as_u64();
    assert!(bound.is_none_or(|bound| bound >= 1_000), "{answer}");
}

#[test]
fn a_yes_on_many_windows_states_the_share_beyond_and_one_on_few_is_a_condition() {
    let folder = folder();
    observed(folder.path(), "many.parquet", 600);
    observed(folder.path(), "few.parquet", 12);
    let many = corehop(folder.path(), "check set.json --scheduler p-fp --supply many.parquet");
    let text = said(&many);
    assert_eq!(many.status.code(), Some(0), "{text}");
    for part in [
        "yes: every deadline holds under partitioned fixed priorities",
        "28 ms of 40 ms left, if no window up to 40 ms loses more than the most seen at its length",
        "(2 ms in any of 600 of 40 ms; at most 0.5 % of the windows lose more, at 95 % confidence)",
        "the bounds and the slack include the observed gaps: up to 2 ms in 40 ms; in the long run the CPU supplies at least 95.0 %",
        "fast: within 3000 us",
        "slow: within 12000 us",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let few = corehop(folder.path(), "check set.json --test edf-rta --supply few.parquet");
    let text = said(&few);
    assert_eq!(few.status.code(), Some(1), "{text}");
    let condition = "yes, if no window up to 40 ms loses more than the most seen at its length (2 ms in any of 12 of 40 ms; \
                     up to 23 % of the windows may lose more, at 95 % confidence: a longer `corehop measure supply` lowers this share)";
    assert!(text.contains(condition), "{text}");
}

#[test]
fn a_stated_budget_is_a_supply_and_other_tests_name_those_that_take_one() {
    let folder = folder();
    let at = folder.path();
    let stated = r#"{"cpus": "0", "period_us": 10000, "budget_us": 8000}"#;
    fs::write(at.join("quota.json"), stated).unwrap();
    let output = corehop(at, "check set.json --test p-fp-rta --supply quota.json");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("fast: within 5000 us") && text.contains("slow: within 16000 us"),
        "{text}"
    );
    let output = corehop(at, "check set.json --test g-edf --supply quota.json");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("unknown: g-edf does not support --supply") && text.contains("p-fp-rta"));
    // With delays beside it, and with what is left to grow.
    let output = corehop(at, "check set.json --test p-fp-rta --supply quota.json --delay 500us");
    let text = said(&output);
    assert!(
        text.contains("fast: within 5500 us") && text.contains("every WCET may grow"),
        "{text}"
    );
    // Too much for the supply, and not for the CPU: no proof of a miss.
    fs::write(at.join("little.json"), stated.replace("8000", "3500")).unwrap();
    let output = corehop(at, "check set.json --test p-fp-rta --supply little.json");
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("unknown: `fast` can take 14 ms on this supply and has 10 ms"), "{text}");
}

#[test]
fn a_file_that_gives_no_supply_is_named_with_what_would() {
    let folder = folder();
    let at = folder.path();
    observed(at, "one.parquet", 40);
    fs::write(at.join("two.json"), r#"{"cpus": 2, "tasks": [{"wcet_us": 1, "period_us": 9}]}"#)
        .unwrap();
    let pinned = r#"{"cpus": 2, "tasks": [{"wcet_us": 1, "period_us": 9, "cpus": [1]}]}"#;
    fs::write(at.join("pinned.json"), pinned).unwrap();
    fs::write(at.join("wrong.json"), r#"{"cpus": "0", "period_us": 10, "budget_us": 11}"#).unwrap();
    fs::write(at.join("table.csv"), "a,b\n1,2\n").unwrap();
    let made = corehop(
        at,
        "measure synthetic --on m5_cc --wss 4KiB --load idle --samples 4 -q -o samples.parquet",
    );
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    for (words, code, parts) in [
        (
            "two.json --supply one.parquet",
            2,
            &["the set has 2 CPUs", "CPUs 0:", "measure supply"][..],
        ),
        ("pinned.json --supply one.parquet", 2, &["task on CPU 1", "CPUs 0:", "measure supply"]),
        ("set.json --supply wrong.json", 4, &["wrong.json", "budget_us: 11", "expected {"]),
        ("set.json --supply set.json", 4, &["this is a task set (JSON)", "a supply (JSON)"]),
        ("set.json --supply table.csv", 4, &["this is CSV"]),
        ("set.json --supply samples.parquet", 4, &["contains samples", "corehop measure supply"]),
        ("set.json --supply none.parquet", 2, &["none.parquet", "o such file"]),
    ] {
        let output = corehop(at, &format!("check {words}"));
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{words}: {text}");
        assert!(parts.iter().all(|part| text.contains(part)), "{words}: {text}");
    }
}

#[test]
fn an_interrupted_run_keeps_its_windows_and_goes_on() {
    let folder = folder();
    let at = folder.path();
    let run = "measure supply --samples 8 --window 10ms -q -o supply.parquet";
    let output = corehop(at, &format!("{run} --budget 150ms"));
    let text = said(&output);
    assert!(matches!(output.status.code(), Some(0 | 1 | 6)), "{text}");
    let whole = at.join("supply.parquet");
    if !whole.exists() {
        let more = corehop(at, &format!("{run} --resume"));
        assert_eq!(more.status.code(), Some(0), "{}", said(&more));
    }
    let mut reader = Reader::open(File::open(&whole).unwrap()).unwrap();
    let rows: Vec<SupplyGap> = reader.all().unwrap();
    let firsts = rows.iter().filter(|row| row.gap == 0).count();
    let mut windows: Vec<u64> = rows.iter().map(|row| row.window).collect();
    windows.dedup();
    assert_eq!(windows.len(), firsts, "a window has a number of its own");
}

#[test]
fn what_cannot_be_watched_is_refused_with_what_can() {
    let folder = folder();
    for (words, part) in [
        ("--window 60ms", "a window of 60 ms: expected 1 ms to 40 ms"),
        ("--threshold 10ns", "a threshold of 10 ns: expected 200 ns to 1 ms"),
        ("--cpus 4000", "CPU 4000 cannot be watched"),
    ] {
        let output = corehop(folder.path(), &format!("measure supply --dry-run {words}"));
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(said(&output).contains(part), "{words}: {}", said(&output));
    }
    let output = corehop(folder.path(), "measure supply --on m5_cc --samples 2 -o x.parquet");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("use --on live"), "{}", said(&output));
}
