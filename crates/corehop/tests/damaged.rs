// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damaged and hostile inputs, as a user sees them: a sentence and exit code 2 or 4, and the sound rows can be kept.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn corehop(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(words).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn measured(options: &[&str]) -> Output {
    let words = "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 6 --quiet";
    let words: Vec<&str> = words.split(' ').collect();
    let output = corehop(&[&words, options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    output
}

#[test]
fn every_reader_says_what_is_damaged_and_how_many_rows_are_sound() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.parquet");
    measured(&["-o", text(&file)]);
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let file = text(&file);
    let set = folder.path().join("set.json");
    fs::write(&set, r#"{"cpus": 1, "tasks": [{"wcet_us": 1, "period_us": 9}]}"#).unwrap();
    let out = folder.path().join("new.parquet");
    let verbs: [&[&str]; 9] = [
        &["report", "contents", file],
        &["report", "contents", file, "--rows", "1"],
        &["report", file],
        &["compare", file, file],
        &["advise", "fit", file],
        &["advise", file],
        &["advise", "predict", file, "--wss", "4KiB"],
        &["check", text(&set), "--costs", file],
        &["convert", "rows", file, "-o", text(&out)],
    ];
    for verb in verbs {
        let output = corehop(verb);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(4), "{verb:?}: {said}");
        assert!(said.contains("row group 0") && said.contains("--salvage"), "{verb:?}: {said}");
        assert!(said.contains("0 rows before it are intact"), "{verb:?}: {said}");
    }
    assert!(!out.exists());
}

#[test]
fn a_damaged_stream_is_neither_resumed_nor_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (file, part) = (folder.path().join("q.parquet"), folder.path().join("q.parquet.part"));
    let mut stream = measured(&["--stream"]).stdout;
    fs::write(&part, &stream).unwrap();
    let new = folder.path().join("all.parquet");
    let all = corehop(&["convert", "rows", text(&part), "-o", text(&new)]);
    assert_eq!(all.status.code(), Some(0), "{}", said(&all));
    let middle = stream.len() / 2;
    stream[middle] ^= 0x10;
    fs::write(&part, &stream).unwrap();
    let run =
        "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 6 --quiet --resume";
    let run: Vec<&str> = run.split(' ').chain(["-o", text(&file)]).collect();
    let refused = corehop(&run);
    assert_eq!(refused.status.code(), Some(4), "{}", said(&refused));
    assert!(said(&refused).contains("--salvage") && said(&refused).contains("rows before it"));
    assert_eq!(fs::read(&part).unwrap(), stream, "not a byte of it is touched");
    let new = folder.path().join("new.parquet");
    let words = ["convert", "rows", text(&part), "--salvage", "-o", text(&new)];
    let salvaged = corehop(&words);
    assert_eq!(salvaged.status.code(), Some(0), "{}", said(&salvaged));
    let sentence = String::from_utf8(salvaged.stdout.clone()).unwrap();
    let words: Vec<&str> = sentence.split_whitespace().collect();
    assert!(words.join(" ").contains("rows are kept"), "{words:?}");
    let shown = corehop(&["report", "contents", text(&new)]);
    assert_eq!(shown.status.code(), Some(0), "{}", said(&shown));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("damaged"), "the new file says what it lacks: {shown}");
}

#[test]
fn devices_pipes_folders_and_vast_files_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let [pipe, sparse, marked, log] =
        ["pipe", "sparse", "marked", "log"].map(|it| folder.path().join(it));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, magic) in [(&sparse, &[0; 4]), (&marked, b"PAR1"), (&log, b"    ")] {
        let file = fs::File::create(path).unwrap();
        file.set_len(10 << 30).unwrap();
        file.write_all_at(magic, 0).unwrap();
        file.write_all_at(magic, (10 << 30) - 4).unwrap();
    }
    // The beginning of a placer's log, and no end.
    fs::File::options()
        .write(true)
        .open(&log)
        .unwrap()
        .write_all_at(b"{\"corehop_placement\":", 0)
        .unwrap();
    let inputs =
        ["/dev/zero", text(&log), text(&pipe), text(folder.path()), text(&sparse), text(&marked)];
    let verbs: [&[&str]; 9] = [
        &["report", "contents"],
        &["report"],
        &["fit"],
        &["study"],
        &["check"],
        &["convert", "--to", "costs"],
        &["check", "--test", "rta", "--costs"],
        &["platform"],
        &["measure", "synthetic", "--plan"],
    ];
    for input in inputs {
        for verb in verbs {
            let mut limited = Command::new("sh");
            let script = "ulimit -v 2000000; exec timeout 60 \"$0\" \"$@\"";
            limited.args(["-c", script, env!("CARGO_BIN_EXE_corehop")]).args(verb).arg(input);
            let output = limited.stdin(Stdio::null()).output().unwrap();
            let code = output.status.code();
            let said = said(&output);
            assert!(matches!(code, Some(2 | 4)), "{verb:?} {input}: {code:?} {said}");
            assert!(said.starts_with("corehop: ") || said.contains("error:"), "{said}");
        }
    }
}

#[test]
fn a_plan_and_a_model_of_an_earlier_form_are_refused_with_the_file_what_is_missing_and_the_remedy()
{
    let folder = tempfile::tempdir().unwrap();
    let [file, model, plan] =
        ["q.parquet", "earlier-model.json", "earlier-plan.json"].map(|it| folder.path().join(it));
    measured(&["-o", text(&file)]);
    assert_eq!(corehop(&["fit", text(&file), "-o", text(&model)]).status.code(), Some(0));
    let written = fs::read_to_string(&model).unwrap();
    // Before there were replicates.
    let lines = written.lines().filter(|line| !line.contains("\"replicates\":"));
    fs::write(&model, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let head = "\"schema\": 2, \"experiment\": \"synthetic\", \"seed\": 7";
    let body = "\"mover\": \"affinity\", \"sets\": [], \"cells\": [], \"phases\": []";
    fs::write(&plan, format!("{{{head}, {body}}}")).unwrap();
    let cases: [(&[&str], [&str; 3]); 2] = [
        (
            &["predict", text(&model), "--wss", "4KiB"],
            ["earlier-model.json", "missing field `replicates`", "fit the samples again"],
        ),
        (
            &["measure", "--on", "xeon_l7455", "--plan", text(&plan)],
            ["earlier-plan.json", "schema 2, not 3", "write a new plan"],
        ),
    ];
    for (words, expected) in cases {
        let output = corehop(words);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(4), "{words:?}: {said}");
        for part in expected {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
