// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doubts about input files, as a user sees them: files without checksums, and recordings of which a file is missing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use corehop_plan::platform::Platform;
use corehop_plan::samples::{
    Absence, BatchWriter, EndedRun, ObservedThread, Provenance, Reader, RecordingFacts, RowKind,
    Rows, example, write_parquet,
};
use corehop_plan::units::Cpu;
use serde_json::{Value, json};

fn corehop(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(words).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file of samples that an early corehop wrote.
const OLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/before-checksums/quick.parquet");

#[test]
fn every_verb_says_once_that_a_file_without_checksums_is_not_verified() {
    let folder = tempfile::tempdir().unwrap();
    let [set, page, new] =
        ["set.json", "page.html", "new.parquet"].map(|name| folder.path().join(name));
    fs::write(&set, r#"{"cpus": 1, "tasks": [{"wcet_us": 1, "period_us": 9000, "wss_kib": 64}]}"#)
        .unwrap();
    let verbs: [&[&str]; 15] = [
        &["report", "contents", OLD],
        &["report", "contents", OLD, "--rows", "1"],
        &["report", "contents", OLD, "--plan"],
        &["report", "contents", OLD, "--json"],
        &["report", OLD],
        &["report", OLD, "--table", "text"],
        &["report", OLD, "--table", "csv"],
        &["report", OLD, "--table", "json"],
        &["report", OLD, "-o", text(&page)],
        &["compare", OLD, OLD, "--json"],
        &["advise", "fit", OLD],
        &["advise", OLD, "--json"],
        &["advise", "predict", OLD, "--wss", "64KiB"],
        &["check", text(&set), "--costs", OLD, "--test", "rta"],
        &["convert", "rows", OLD, "-o", text(&new)],
    ];
    for verb in verbs {
        let output = corehop(verb);
        let said = said(&output);
        // The file has no migrations, so that check cannot price its set.
        let code = output.status.code();
        let is_fine = matches!(code, Some(0 | 1)) || (verb[0] == "check" && code == Some(4));
        assert!(is_fine, "{verb:?}: {said}");
        assert_eq!(said.matches("not verified").count(), 1, "{verb:?}: {said}");
        let unfolded = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let note = format!("note: {OLD}: not verified: written by another program");
        assert!(unfolded.contains(&note), "{said}");
        if verb.contains(&"--json") {
            assert_eq!(answer(&output)["not_verified"], json!([OLD]), "{verb:?}");
        }
    }
    assert_eq!(answer(&corehop(&["report", "contents", OLD, "--json"]))["verified"], json!(false));
    assert!(printed(&corehop(&["report", "contents", OLD])).contains("checksums     not verified"));
    assert!(fs::read_to_string(&page).unwrap().contains("<strong>No checksums:</strong>"));
    // The remedy that the note names gives a file of the same rows that is verified.
    let rows = |file| printed(&corehop(&["report", "contents", file, "--rows", "1000000"]));
    assert!(rows(OLD) == rows(text(&new)) && rows(OLD).lines().count() > 100);
    let shown = corehop(&["report", "contents", text(&new), "--json"]);
    assert!(!said(&shown).contains("not verified"), "{}", said(&shown));
    assert_eq!(answer(&shown)["verified"], json!(true));
    assert_eq!(
        answer(&shown)["provenance"],
        answer(&corehop(&["report", "contents", OLD, "--json"]))["provenance"]
    );
}

#[test]
fn every_verb_says_once_that_a_run_was_cut_off_or_stopped_early() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) =
        (folder.path().join("whole.parquet"), folder.path().join("cut.parquet.part"));
    let stream = corehop(
        &"measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 6 --quiet --stream"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    assert_eq!(stream.status.code(), Some(0), "{}", said(&stream));
    fs::write(&whole, &stream.stdout).unwrap();
    fs::write(&cut, &stream.stdout[..stream.stdout.len() - 20]).unwrap();
    for verb in [
        &["compare", text(&whole), text(&cut), "--json"][..],
        &["advise", "predict", text(&cut), "--wss", "4KiB", "--json"],
        &["advise", text(&cut), "--json"],
        &["report", text(&cut), "--table", "json"],
    ] {
        let output = corehop(verb);
        let sentence = format!("note: {}: the run was cut off while writing", text(&cut));
        assert_eq!(said(&output).matches(&sentence).count(), 1, "{verb:?}: {}", said(&output));
        if verb[0] == "compare" {
            let incomplete = answer(&output)["incomplete_files"].as_array().unwrap().len();
            assert_eq!(incomplete, 1, "{verb:?}");
        }
    }
}

/// SplitMix64.
fn drawn(seed: u64) -> usize {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

#[test]
fn a_flipped_bit_ends_with_code_4_and_names_the_file_or_the_file_is_not_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (sealed, flipped) = (folder.path().join("sealed.parquet"), folder.path().join("flipped"));
    let converted = corehop(&["convert", "rows", OLD, "-o", text(&sealed)]);
    assert_eq!(converted.status.code(), Some(0), "{}", said(&converted));
    for round in 0..24 {
        let is_sealed = round % 2 == 0;
        let mut bytes = fs::read(if is_sealed { text(&sealed) } else { OLD }).unwrap();
        let bit = drawn(round) % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&flipped, &bytes).unwrap();
        let output = corehop(&["report", "contents", text(&flipped)]);
        let (code, said) = (output.status.code(), said(&output));
        let is_told = said.contains(text(&flipped))
            && (code == Some(4) || !is_sealed && code == Some(0) && said.contains("not verified"));
        assert!(is_told, "round {round}, bit {bit}: {code:?} {said}");
    }
}

/// The files of a recording of two threads, one of which was preempted once and moved once.
fn recording(folder: &Path) -> PathBuf {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let facts = RecordingFacts {
        what: "make".to_owned(),
        status: Some(0),
        method: "bpf".to_owned(),
        span_ns: 1_000_000,
        ..RecordingFacts::default()
    };
    let machine = [(RecordingFacts::KEY.to_owned(), json!(facts))].into_iter().collect();
    let provenance = Provenance {
        experiment: "program".to_owned(),
        platform: platform.to_toml(),
        machine,
        ..Provenance::default()
    };
    let absence = |to, preempted| Absence {
        tid: 7,
        out_ns: 1_000,
        in_ns: 5_000,
        seen: true,
        from: Cpu(0),
        to: Cpu(to),
        preempted,
        pinned: false,
        ran_ns: 0,
        cpu_ns: None,
        by: Some((9, "cc1".to_owned())),
    };
    let absences = [absence(0, true), absence(1, false)];
    let thread = |tid| ObservedThread {
        tid,
        pid: 7,
        name: "make".to_owned(),
        preemptions: 41,
        ..ObservedThread::default()
    };
    let threads = [thread(7), thread(8)];
    let run = EndedRun::of(&facts, &threads);
    let rows = Rows {
        absences: absences.iter().map(|it| example::recorded_absence(&platform, it)).collect(),
        threads: threads.iter().map(|it| example::recorded_thread(&platform, it)).collect(),
        runs: vec![example::recorded_run(&platform, &run)],
        ..Rows::default()
    };
    let first = folder.join("x.parquet");
    for kind in RowKind::OF_RECORDING {
        let part = folder.join("part");
        let mut stream =
            BatchWriter::begin(File::create(&part).unwrap(), kind, &provenance).unwrap();
        stream.append(&rows).unwrap();
        stream.end().unwrap();
        let mut reader = Reader::open(File::open(part).unwrap()).unwrap();
        let out = File::create(kind.beside(&first)).unwrap();
        write_parquet(&mut reader, &provenance, out, |_| {}).unwrap();
    }
    first
}

#[test]
fn a_recording_copied_without_its_threads_has_an_unknown_number_and_names_the_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    let whole = recording(folder.path());
    let shown = corehop(&["report", text(&whole), "--table", "text"]);
    let (table, notes) = (printed(&shown), said(&shown));
    assert!(table.contains("2 threads") && table.contains("82 preemptions"), "{table}{notes}");
    assert!(notes.is_empty(), "{notes}");
    let copy = folder.path().join("copy/x.parquet");
    fs::create_dir(copy.parent().unwrap()).unwrap();
    fs::copy(&whole, &copy).unwrap();
    let (copy, page) = (text(&copy), folder.path().join("page.html"));
    let verbs: [&[&str]; 6] = [
        &["report", "contents", copy],
        &["report", "contents", copy, "--json"],
        &["report", copy, "--table", "text"],
        &["report", copy, "--table", "json", "-o", text(&page)],
        &["compare", copy, text(&whole), "--json"],
        &["compare", copy, copy],
    ];
    for verb in verbs {
        let output = corehop(verb);
        let (said, printed) = (said(&output), printed(&output));
        assert!(matches!(output.status.code(), Some(0 | 1)), "{verb:?}: {said}");
        assert_eq!(
            said.matches("x.threads.parquet is missing beside").count(),
            1,
            "{verb:?}: {said}"
        );
        assert_eq!(said.matches("x.runs.parquet is missing beside").count(), 1, "{verb:?}: {said}");
        assert!(said.contains("from the folder of the run"), "{verb:?}: {said}");
        assert!(!printed.contains("0 threads") && !printed.contains("By thread"), "{printed}");
        if verb.contains(&"--json") {
            let missing = answer(&output)["missing_files"].as_array().unwrap().len();
            assert_eq!(missing, 2, "{verb:?}: {printed}");
        }
    }
    let shown = printed(&corehop(&["report", "contents", copy]));
    assert!(shown.contains("x.threads.parquet is missing"), "{shown}");
    let reported = printed(&corehop(&["report", copy, "--table", "text"]));
    for part in ["an unknown number of threads", "at least 1 preemptions, and 1 returns"] {
        assert!(reported.contains(part), "{part}\n{reported}");
    }
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("<strong>Missing file:</strong> x.threads.parquet"));
    assert!(page.contains("an unknown number of threads") || !page.contains("0 threads"));
    let compared = answer(&corehop(&["compare", copy, text(&whole), "--json"]));
    let effects = compared["arms"][0]["effects"].as_array().unwrap();
    let counts = effects.iter().filter(|it| it["quantity"] == "preemptions").count();
    assert_eq!(counts, 0, "unknown counts are not compared: {compared:#}");
}

#[test]
fn a_recording_is_found_from_each_of_its_files_and_missing_absences_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let whole = recording(folder.path());
    for kind in [RowKind::Threads, RowKind::Runs] {
        let beside = kind.beside(&whole);
        let output = corehop(&["report", text(&beside), "--table", "text"]);
        let table = printed(&output);
        assert!(table.contains("2 threads") && table.contains("82 preemptions"), "{table}");
        assert!(table.contains("l2_migration") || table.contains("migration"), "{table}");
        assert_eq!(said(&output), "");
    }
    fs::remove_file(&whole).unwrap();
    let alone = corehop(&["report", text(&RowKind::Threads.beside(&whole)), "--table", "text"]);
    assert!(
        said(&alone).contains("x.parquet is missing beside x.threads.parquet"),
        "{}",
        said(&alone)
    );
}
