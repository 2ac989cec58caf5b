// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs that once made the program panic, abort or run without end, and what they are answered with now.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use arrow_schema::Schema;
use corehop_plan::samples::Reader;
use parquet::arrow::ArrowWriter;

use crate::Bench;
use crate::verdict::{Ended, Limits, finding, run};

/// Runs a command line on the seed files, as they are.
fn ended(bench: &Bench, folder: &Path, words: &[OsString]) -> Ended {
    // The machine may be busy.
    let limits = Limits { patience: Duration::from_mins(1), ..Limits::USUAL };
    let ended = run(&bench.program, words, folder, limits);
    assert_eq!(finding(&ended), None, "{words:?}: {}", ended.said);
    ended
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

/// A copy of a file of rows, with `value` in row `row` of a column, and without checksums.
fn with_value(from: &Path, to: &Path, column: &str, (row, value): (usize, f64)) {
    let mut reader = Reader::open(fs::File::open(from).unwrap()).unwrap();
    let metadata = reader.kind().metadata();
    let batch = reader.next_batch().unwrap().unwrap();
    let at = batch.schema().index_of(column).unwrap();
    let mut columns = batch.columns().to_vec();
    let old = columns[at].as_any().downcast_ref::<Float64Array>().unwrap();
    let new = old.iter().enumerate().map(|(it, old)| if it == row { Some(value) } else { old });
    columns[at] = std::sync::Arc::new(new.collect::<Float64Array>()) as ArrayRef;
    let schema = Schema::new_with_metadata(batch.schema().fields().clone(), metadata);
    let schema = std::sync::Arc::new(schema);
    let file = fs::File::create(to).unwrap();
    let mut out = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
    out.write(&RecordBatch::try_new(schema, columns).unwrap()).unwrap();
    out.close().unwrap();
}

#[test]
fn a_time_whose_square_is_infinite_is_refused_with_file_row_column_value_and_bound() {
    let bench = Bench::shared();
    let folder = bench.scratch("times");
    let (from, to) = (bench.seeds.folder.join("samples.parquet"), folder.join("far.parquet"));
    fs::copy(bench.seeds.folder.join("set.json"), folder.join("set.json")).unwrap();
    for (value, said) in
        [(1.4e154, "1.4e154"), (f64::INFINITY, "inf"), (f64::NAN, "NaN"), (-1.0, "-1e0")]
    {
        with_value(&from, &to, "warm_ns", (3, value));
        for line in [
            "report far.parquet",
            "report far.parquet --table csv",
            "advise fit far.parquet",
            "advise far.parquet",
            "compare far.parquet far.parquet",
            "advise predict far.parquet --wss 4KiB",
            "check set.json --costs far.parquet",
            "convert rows far.parquet -o new.parquet",
        ] {
            let ended = ended(&bench, &folder, &words(line));
            // Two files of one name are a question of usage.
            let code = ended.status.code();
            assert_eq!(
                code,
                Some(if line.starts_with("compare") { code.unwrap() } else { 4 }),
                "{line}: {}",
                ended.said
            );
            if code == Some(4) {
                for word in ["far.parquet", "warm_ns", "row 3", said, "1e18"] {
                    assert!(ended.said.contains(word), "{line}, {word}: {}", ended.said);
                }
            }
        }
    }
}

#[test]
fn every_reader_of_text_refuses_a_number_beyond_the_bound_by_name() {
    let bench = Bench::shared();
    let folder = bench.scratch("numbers");
    let seed = |name: &str| fs::read_to_string(bench.seeds.folder.join(name)).unwrap();
    let first_cost =
        seed("costs.csv").lines().nth(1).unwrap().rsplit(',').next().unwrap().to_owned();
    let costs = seed("costs.csv").replacen(&first_cost, "1e200", 1);
    fs::write(folder.join("costs.csv"), costs).unwrap();
    fs::write(folder.join("schedcat.csv"), "WSS,L1\n4,1e200\n").unwrap();
    fs::write(folder.join("overheads.csv"), "TASK-COUNT,CXS\n10,1e200\n").unwrap();
    fs::write(folder.join("cached.json"), seed("cached.json")).unwrap();
    fs::write(folder.join("set.json"), seed("set.json").replacen("2000", "1e200", 1)).unwrap();
    fs::write(folder.join("rtapp.json"), seed("rtapp.json").replacen("2000", "1e200", 1)).unwrap();
    let model = seed("model.json").replacen("\"mean\": ", "\"mean\": 1e200, \"old\": ", 1);
    let model = if model.contains("1e200") { model } else { model.replacen("0.", "1e200, 0.", 1) };
    fs::write(folder.join("model.json"), model).unwrap();
    let study = seed("study.toml") + "\n[choices]\n";
    fs::write(folder.join("study.toml"), format!("far = 1e200\n{study}")).unwrap();
    fs::write(folder.join("numa.toml"), format!("far = 1e200\n{}", seed("numa.toml"))).unwrap();
    let log = seed("placement.jsonl").replacen("2528.05", "1e200", 1);
    fs::write(folder.join("placement.jsonl"), log).unwrap();
    let plan = seed("plan.json").replacen("\"write_ratio\":0.5", "\"write_ratio\":1e200", 1);
    fs::write(
        folder.join("plan.json"),
        plan.replacen("\"write_ratio\": 0.5", "\"write_ratio\": 1e200", 1),
    )
    .unwrap();
    for (file, line) in [
        ("costs.csv", "check cached.json --costs costs.csv"),
        ("schedcat.csv", "convert costs schedcat.csv"),
        ("overheads.csv", "convert schedcat overheads.csv"),
        ("set.json", "check set.json"),
        ("rtapp.json", "convert tasks rtapp.json"),
        ("model.json", "advise predict model.json --wss 4KiB"),
        ("numa.toml", "platform numa.toml"),
        ("placement.jsonl", "place --replay placement.jsonl"),
        ("plan.json", "measure --on xeon_x5650 --plan plan.json -q"),
    ] {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.contains("1e200"), "{file} has no such number: {text}");
        let ended = ended(&bench, &folder, &words(line));
        assert_eq!(ended.status.code(), Some(4), "{line}: {}", ended.said);
        assert!(
            ended.said.contains("e200") || ended.said.contains("e+200"),
            "{line}: {}",
            ended.said
        );
    }
}

#[test]
fn a_file_name_may_be_any_bytes() {
    let bench = Bench::shared();
    let folder = bench.scratch("names");
    let name = |end: &[u8]| OsString::from_vec([b"\xff\xfe", end].concat());
    let copy = |from: &str, end: &[u8]| {
        fs::copy(bench.seeds.folder.join(from), folder.join(name(end))).unwrap();
    };
    copy("samples.parquet", b".parquet");
    copy("numa.toml", b".toml");
    copy("plan.json", b".json");
    copy("costs.csv", b".csv");
    let rows = name(b".parquet");
    for (before, file, after) in [
        ("report", rows.clone(), vec![name(b".toml")]),
        ("show", rows.clone(), vec![]),
        ("fit", rows.clone(), vec!["-o".into(), name(b"-model.json")]),
        ("convert --to rows", rows, vec!["-o".into(), name(b"-new.parquet")]),
        ("convert --to costs", name(b".csv"), vec![]),
        (
            "measure --on xeon_x5650 -q --plan",
            name(b".json"),
            vec!["-o".into(), name(b"-run.parquet")],
        ),
    ] {
        let line: Vec<OsString> = words(before).into_iter().chain([file]).chain(after).collect();
        let ended = ended(&bench, &folder, &line);
        assert!(matches!(ended.status.code(), Some(0 | 1)), "{line:?}: {}", ended.said);
    }
    assert!(folder.join(name(b"-run.parquet")).exists());
}

#[test]
fn an_answer_that_cannot_be_written_is_found_before_the_program_runs_and_keeps_its_status() {
    let bench = Bench::shared();
    let folder = bench.scratch("answers");
    let run_it = |line: &str| {
        let mut words = words(line);
        words.extend(["--", "sh", "-c", "touch ran; exit 7"].map(OsString::from));
        run(&bench.program, &words, &folder, Limits::USUAL)
    };
    let early = run_it("offload --os-cores 0 --decide never -q -o /proc/answer.json");
    assert_eq!(early.status.code(), Some(6), "{}", early.said);
    assert!(early.said.contains("/proc/answer.json"), "{}", early.said);
    assert!(!folder.join("ran").exists());
    // As the user of the test: one who owns no folder is refused a place for the library.
    let mut late = std::process::Command::new(env!("CARGO_BIN_EXE_corehop"));
    late.args("offload --os-cores 0 --decide never -q -o /dev/full -- sh -c".split(' '));
    let late = late.arg("touch ran; exit 7").current_dir(&folder).output().unwrap();
    let said = String::from_utf8_lossy(&late.stderr).replace("\n         ", " ");
    if late.status.code() == Some(3) {
        return crate::say(&format!("skipped: off-load here: {said}"));
    }
    assert_eq!(late.status.code(), Some(7), "{said}");
    assert!(said.contains("/dev/full"), "{said}");
    assert!(folder.join("ran").exists());
}

#[test]
fn more_replicates_than_any_run_takes_are_refused_with_the_largest_number() {
    let bench = Bench::shared();
    let folder = bench.scratch("counts");
    for count in ["2147483647", "4294967295", "10000001"] {
        for option in ["--replicates", "--samples"] {
            let line =
                format!("measure conditions --on xeon_x5650 --load idle -q {option} {count}");
            let ended = ended(&bench, &folder, &words(&line));
            assert_eq!(ended.status.code(), Some(2), "{line}: {}", ended.said);
            assert!(ended.said.contains("at most 10000000"), "{line}: {}", ended.said);
        }
    }
}
