// SPDX-License-Identifier: MIT OR Apache-2.0
//! `report`, `show` and `explain` as they are typed: what they answer, and with which exit code.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use corehop_plan::samples::{BatchWriter, PreemptionLength, Provenance, RowKind};

fn corehop(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(arguments).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

/// A platform of two CPUs, one core each, with an L2 cache of this size.
fn platform(id: &str, l2: &str, more: &str) -> String {
    format!(
        "schema = 1\nid = \"{id}\"\nname = \"{id}\"\n\
         cpus = {{ value = \"0-1\", source = \"assumed\" }}\n\
         packages = {{ value = [\"0-1\"], source = \"assumed\" }}\n\
         cores = {{ value = \"0-1 by 1\", source = \"assumed\" }}\n{more}\n\
         [[cache]]\nlevel = 2\nkind = \"unified\"\n\
         size = {{ value = \"{l2}\", source = \"assumed\" }}\n\
         instances = {{ value = \"0-1 by 1\", source = \"assumed\" }}\n"
    )
}

/// One measured pair of CPUs.
const EXCHANGE: &str = "exchange = { value = [{ from = 0, to = 1, min = \"61.5 ns\", \
    median = \"73.2 ns\", batches = 1000 }], source = \"measured\" }";

const KIND: RowKind = RowKind::PreemptionLengths;

/// Absences of 1 ms, asked for on a machine with this id, as a run writes them.
fn absences(folder: &Path, name: &str, machine: &str) -> PathBuf {
    let path = folder.join(name);
    let provenance = Provenance {
        experiment: "preemption-length".into(),
        platform: platform(machine, "2 MiB", ""),
        ..Default::default()
    };
    let mut part =
        BatchWriter::begin(std::fs::File::create(&path).unwrap(), KIND, &provenance).unwrap();
    let row = |job: u64| PreemptionLength {
        machine: machine.into(),
        seed: 1,
        job,
        cell: 0,
        load: "idle".into(),
        cpu: 0,
        start_ns: 0,
        requested_length_ns: 1_000_000,
        length_ns: 1_050_000.0 + job as f64,
        policy: "fifo:2".into(),
        replicate: None,
    };
    for batch in 0..4 {
        let rows: Vec<_> = (0..50).map(|job| row(50 * batch + job)).collect();
        part.append(&rows.into()).unwrap();
    }
    part.end().unwrap();
    path
}

#[test]
fn a_file_that_is_given_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let once = absences(folder.path(), "once.parquet", "a");
    let twice = corehop(&["report", once.to_str().unwrap(), once.to_str().unwrap()]);
    assert_eq!(code(&twice), Some(2), "{}", said(&twice));
    assert!(said(&twice).contains("named twice"));
}

#[test]
fn a_run_that_was_killed_before_its_first_rows_left_a_file_that_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("early.parquet.part");
    let file = std::fs::File::create(&path).unwrap();
    let part = BatchWriter::begin(file, KIND, &Provenance::default()).unwrap();
    // Killed: nothing is dropped, nothing is finished.
    std::mem::forget(part);
    let shown = corehop(&["report", "contents", path.to_str().unwrap()]);
    assert_eq!(code(&shown), Some(0), "{}", said(&shown));
}

#[test]
fn a_file_that_is_not_there_is_usage_and_one_that_is_not_ours_is_damaged_input() {
    let folder = tempfile::tempdir().unwrap();
    let strange = folder.path().join("strange.parquet");
    std::fs::write(&strange, "a,b\n1,2\n").unwrap();
    let strange = strange.to_str().unwrap();
    for verb in ["report", "show"] {
        let missing = corehop(&[verb, "/nowhere/x.parquet"]);
        assert_eq!(code(&missing), Some(2), "{}", said(&missing));
        assert!(said(&missing).contains("/nowhere/x.parquet"));
        let strange = corehop(&[verb, strange]);
        assert_eq!(code(&strange), Some(4), "{}", said(&strange));
        assert!(
            said(&strange).contains("strange.parquet")
                && said(&strange).contains("not a corehop file")
        );
    }
    assert_eq!(code(&corehop(&["report", "contents", folder.path().to_str().unwrap()])), Some(2));
}

#[test]
fn a_run_that_was_cut_off_is_shown_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = absences(folder.path(), "cut.part", "box");
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 2_000).unwrap();
    let path = path.to_str().unwrap();
    let shown = corehop(&["report", "contents", path]);
    assert_eq!(code(&shown), Some(0));
    assert!(
        said(&shown).contains("150 rows") && said(&shown).contains("cut off"),
        "{}",
        said(&shown)
    );
    let rows = corehop(&["report", "contents", "--rows", "160", path]);
    let text = String::from_utf8(rows.stdout).unwrap();
    assert_eq!(text.lines().count(), 150);
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&first["job"], &first["load"]), (&0.into(), &"idle".into()));
}

#[test]
fn files_are_joined_into_one_page_that_names_them_all() {
    let folder = tempfile::tempdir().unwrap();
    let one = absences(folder.path(), "one.part", "box");
    let two = absences(folder.path(), "two.part", "box");
    let out = folder.path().join("page.html");
    let [one, two, out] = [&one, &two, &out].map(|path| path.to_str().unwrap());
    let made = corehop(&["report", one, two, "-o", out]);
    let first = said(&made).lines().next().unwrap_or_default().to_owned();
    assert_eq!((code(&made), first.as_str()), (Some(0), "2 files hold 400 rows."));
    assert_eq!(said(&made).matches("the run is in progress").count(), 2, "{}", said(&made));
    let page = std::fs::read_to_string(out).unwrap();
    assert!(page.contains("one.part, two.part"));
    // The absences of both files are one point: 1 ms were asked for, and 50.1 us more is the median of 0 to 199 ns beyond 50 us.
    let shown = page
        .split("<div class=\"plot\"")
        .find(|it| it.contains("data-view=\"0\" data-scale=\"linear\">"));
    let shown = shown.unwrap().split("</div>").next().unwrap();
    assert_eq!(shown.matches("<svg").count(), 2, "for a screen and for a phone: {shown}");
    assert!(shown.contains("asked: 1000\nmedian: 50.1"), "{shown}");
    let unwritable = corehop(&["report", one, "-o", "/nowhere/page.html"]);
    assert_eq!(code(&unwritable), Some(2), "{}", said(&unwritable));
}

#[test]
fn what_was_measured_of_the_machine_joins_the_page_and_another_machine_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let samples = absences(folder.path(), "one.part", "box");
    let out = folder.path().join("page.html");
    let report = |platform: &str| {
        let path = folder.path().join("measured.toml");
        std::fs::write(&path, platform).unwrap();
        let [samples, path, out] = [&samples, &path, &out].map(|path| path.to_str().unwrap());
        // The order of the files does not matter.
        corehop(&["report", path, samples, "--force", "-o", out])
    };
    let made = report(&platform("box", "2 MiB", EXCHANGE));
    assert_eq!(code(&made), Some(0));
    assert!(said(&made).starts_with("one.part holds 200 rows"), "{}", said(&made));
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.contains("CPU 0 to CPU 1 (memory_migration): shortest 61.5 ns, median 73.2 ns"));
    assert!(!page.contains("measure platform"));
    for (other, words) in [
        (platform("shelf", "2 MiB", EXCHANGE), "id shelf, of the samples box"),
        (platform("box", "1 MiB", EXCHANGE), "L2 1 MiB, of the samples 2 MiB"),
    ] {
        let refused = report(&other);
        assert_eq!(code(&refused), Some(2), "{}", said(&refused));
        let text = said(&refused);
        assert!(text.contains("measured.toml") && text.contains(words), "{text}");
    }
    let broken = report("schema = 1");
    assert_eq!(code(&broken), Some(4), "{}", said(&broken));
    let samples = samples.to_str().unwrap();
    corehop(&["report", samples, "--force", "-o", out.to_str().unwrap()]);
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.contains("<code>corehop measure platform -o FILE.toml</code>"));
}

#[test]
fn what_the_csv_columns_cannot_tell_apart_is_named_and_can_be_picked() {
    let data =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/2026-11-21-guest-2cpu/quick.parquet");
    let csv = |only: &[&str]| corehop(&[&["report", data, "--table", "csv"][..], only].concat());
    let whole = csv(&[]);
    let said_of_it = String::from_utf8_lossy(&whole.stderr).replace("\n         ", " ");
    assert!(said_of_it.contains("10 with page=thp"), "{said_of_it}");
    let huge = csv(&["--only", "page=thp"]);
    // Beside the data there is the sentence, and nothing is left out.
    let beside = String::from_utf8_lossy(&huge.stderr).replace("\n         ", " ");
    assert_eq!(code(&huge), Some(0), "{beside}");
    assert!(beside.starts_with("On intel_xeon") && !beside.contains("left out"), "{beside}");
    // Two sizes, five events: a line each for its number of samples.
    let lines = String::from_utf8(huge.stdout).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains(",n_all,")).count(), 10, "{lines}");
    assert_eq!(lines.lines().next(), String::from_utf8(whole.stdout).unwrap().lines().next());
    let slip = csv(&["--only", "page=huge"]);
    assert_eq!(code(&slip), Some(2));
    assert!(said(&slip).contains("the cells have 4k, thp"), "{}", said(&slip));
    let page = corehop(&["report", data, "-o", "/nowhere/x.html", "--only", "page=thp"]);
    assert_eq!(code(&page), Some(2), "{}", said(&page));
}

#[test]
fn show_says_as_json_what_every_column_means() {
    let folder = tempfile::tempdir().unwrap();
    let path = absences(folder.path(), "one.part", "box");
    let shown = corehop(&["report", "contents", "--json", path.to_str().unwrap()]);
    let answer: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&answer["n_rows"], &answer["rows"]), (&200.into(), &"preemption_length".into()));
    let columns = answer["columns"].as_array().unwrap();
    assert!(columns.iter().all(|it| it["meaning"].as_str().unwrap().ends_with('.')));
    let plan = corehop(&["report", "contents", "--plan", path.to_str().unwrap()]);
    assert_eq!(code(&plan), Some(1), "{}", said(&plan));
}

#[test]
fn explain_knows_columns_causes_findings_and_codes_and_helps_with_a_slip() {
    for word in ["disturbed_by", "steal", "governor", "130", "exit-codes", "D_c", "estimator"]
        .into_iter()
        // What stands on the first page, verbs, experiments, options, and labels of several words.
        .chain([
            "idle",
            "constructed",
            "fixed_4ms",
            "uniform_0_20ms",
            "0.5..2ms",
            "cold",
            "sampled",
        ])
        .chain(["place", "doctor", "offload", "synthetic", "core-switch", "fail-on", "load idle"])
        .chain(["preemption, constructed", "l3_migration, fixed_4ms, preemptor", "4k pages"])
    {
        let explained = corehop(&["help", word]);
        assert_eq!(code(&explained), Some(0), "{word}: {}", said(&explained));
    }
    let slip = corehop(&["help", "premption"]);
    assert_eq!(code(&slip), Some(2));
    assert!(said(&slip).contains("preemption"), "{}", said(&slip));
}

/// Every label in the headings of the first screen of a report.
#[test]
fn explain_knows_every_label_of_the_first_screen() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/2026-11-22-guest-2cpu/quick.parquet");
    let screen = String::from_utf8(corehop(&["report", file]).stdout).unwrap();
    let mut labels = Vec::new();
    let lines: Vec<&str> = screen.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("WSS ") {
            labels.extend(line.split("  ").map(str::trim).filter(|it| !it.is_empty()));
            // Above it what the columns have in common, below it their lengths and companies.
            // The first is the name of the machine, which is no term.
            labels.extend(lines[at - 1].split(" · ").skip(1));
            let below = lines[at + 1].split("  ").map(str::trim);
            labels.extend(below.filter(|it| !it.is_empty() && *it != "µs"));
        }
    }
    assert!(labels.len() > 15 && labels.contains(&"warm touch"), "{labels:?}");
    for label in labels {
        let explained = corehop(&["help", label]);
        assert_eq!(code(&explained), Some(0), "{label}: {}", said(&explained));
    }
}

#[test]
fn an_input_that_no_verb_reads_is_named_with_what_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    let path_of = path.to_str().unwrap();
    for (contents, seen) in [
        (&b"<?xml version=\"1.0\"?><set/>"[..], "this is XML: corehop reads the XML of hwloc"),
        (b"\x1f\x8b\x08\x00rest", "this is gzip: unpack it with `gunzip` first"),
        (
            b"PERFILE2rest",
            "this is a recording of perf: `perf script -i FILE | corehop record from -`",
        ),
    ] {
        std::fs::write(&path, contents).unwrap();
        for words in [
            &["report", "contents", path_of][..],
            &["report", path_of],
            &["advise", "fit", path_of],
            &["compare", path_of, path_of],
            &["check", path_of],
            &["convert", "rows", path_of, "-o", "new.parquet"],
        ] {
            let refused = corehop(words);
            assert!(matches!(code(&refused), Some(2 | 4)), "{words:?}: {}", said(&refused));
            let is_named = said(&refused).contains(seen) || words[0] == "compare";
            assert!(is_named, "{words:?}: {}", said(&refused));
        }
    }
    std::fs::write(&path, r#"{"cpus": 1, "tasks": [{"wcet_us": 1, "period_us": 4}]}"#).unwrap();
    let other = said(&corehop(&["report", path_of]));
    assert!(other.contains("this is a task set (JSON): `corehop check`"), "{other}");
    let table = said(&corehop(&["check", path_of, "--costs", path_of]));
    assert!(!table.contains("expected a task set"), "{table}");
}

#[test]
fn a_pipe_gets_one_screen_that_begins_with_the_sentence_of_the_page() {
    let data =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/2026-11-22-guest-2cpu/quick.parquet");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("page.html");
    let made = corehop(&["report", data, "-o", out.to_str().unwrap()]);
    assert_eq!(code(&made), Some(0));
    assert!(said(&made).starts_with("On amd_epyc"), "{}", said(&made));
    let page = std::fs::read_to_string(out).unwrap();
    let (_, answer) = page.split_once("<p class=\"answer\">").unwrap();
    let answer = answer.split_once("</p>").unwrap().0.replace("&#39;", "'");
    // Like with like: in one company the control and the migration, in another the preemption alone.
    let (alike, apart) = answer.split_once(" If a preemptor walked 4 MiB meanwhile, ").unwrap();
    assert!(alike.contains("leaving the CPU (the control) costs 240 µs [54.0, 376]"), "{answer}");
    assert!(
        alike.contains("L3 migration 275 µs [192, 389]") && !alike.contains("preemption costs")
    );
    assert!(apart.starts_with("a preemption costs 288 µs [261, 375], and no migration"), "{apart}");
    // The table of the documents says the same, with the company of each cost.
    let documented = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/how-sure.md");
    let documented = std::fs::read_to_string(documented).unwrap();
    for row in [
        "| nothing ran | off the CPU (control) | 240 µs [54, 376] |",
        "| nothing ran | migration below one cache | 275 µs [192, 389] |",
        "| a preemptor walked 4 MiB | preemption | 288 µs [261, 375] |",
    ] {
        assert!(documented.contains(row), "{row}");
    }
    assert!(page.find("id=\"cost-by-wss\"").unwrap() < page.find("<table").unwrap());
    for form in ["screen", "text"] {
        let shown = corehop(&["report", data, "--table", form]);
        let text = String::from_utf8(shown.stdout).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.starts_with(&answer), "{form}: {text}");
    }
    let screen = String::from_utf8(corehop(&["report", data]).stdout).unwrap();
    let (_, tables) = screen.split_once("\n\n").unwrap();
    assert!(tables.lines().count() <= 50 && tables.contains("--table text"), "{screen}");
}
