// SPDX-License-Identifier: MIT OR Apache-2.0
//! The gain of threads that are together, from runs to a fitted model to predictions, as a user does it.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn corehop(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

/// The file of a run with these options.
fn measured(folder: &Path, name: &str, options: &str) -> PathBuf {
    let path = folder.join(name);
    let file = path.to_str().unwrap();
    let options: Vec<&str> = options.split_whitespace().collect();
    let output = corehop(&[&["measure", "shared-data", "-q", "-o", file], &options[..]].concat());
    assert!(output.status.success(), "{}", said(&output));
    path
}

/// The model that is fitted to a file, and what `fit` said of it.
fn fitted(rows: &Path) -> (PathBuf, String) {
    let model = rows.with_extension("json");
    let output = corehop(&["advise", "fit", rows.to_str().unwrap(), "-o", model.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    (model, String::from_utf8(output.stdout).unwrap())
}

/// The exit code and the answer to a question.
fn predicted(model: &Path, question: &str) -> (Option<i32>, Value) {
    let options: Vec<&str> = question.split_whitespace().collect();
    let model = model.to_str().unwrap();
    let output = corehop(&[&["advise", "gain", model, "--json"], &options[..]].concat());
    let answer = serde_json::from_slice(&output.stdout);
    (output.status.code(), answer.unwrap_or_else(|_| panic!("{}", said(&output))))
}

const SIMULATED: &str = "--on xeon_e5520 --program swap,bucket-sort --rounds 500 --samples 1";

#[test]
fn a_simulated_machine_predicts_a_size_that_it_has_not_seen_and_says_where_it_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let rows = measured(folder.path(), "rows.parquet", &format!("{SIMULATED} --items 100,1k,4k"));
    let (model, said) = fitted(&rows);
    assert!(
        said.contains("saturating") && said.contains("lines") && said.contains("simulated"),
        "{said}"
    );
    assert!(said.contains("each program left out in turn (2)"), "{said}");
    // The same size, measured.
    let truth = measured(folder.path(), "truth.parquet", &format!("{SIMULATED} --items 2k"));
    let of = |file: &Path| predicted(file, "--program swap --items 2000").1["predicted"].clone();
    let (guess, truth) = (of(&model), of(&fitted_alone(&rows, &truth)));
    let number = |of: &Value| of["ratio"].as_f64().unwrap();
    let off = number(&guess) / number(&truth);
    assert!((0.75..1.33).contains(&off), "{guess} against {truth}");
    assert!(guess["by"].is_string() && truth["by"].is_null(), "{guess} {truth}");
    // Far more misses than any row has: a bound alone.
    let (code, beyond) = predicted(&model, "--smr 1 --mpmi 900000");
    assert_eq!((code, &beyond["predicted"]["ratio"]), (Some(0), &Value::Null), "{beyond}");
    assert!(
        beyond["predicted"]["high"].is_f64() && beyond["predicted"]["low"].is_null(),
        "{beyond}"
    );
    // A size beyond, and a program that did not run.
    for unknown in ["--program swap --items 1000000", "--program exchange --items 66"] {
        let (code, answer) = predicted(&model, unknown);
        assert_eq!((code, &answer["predicted"]), (Some(1), &Value::Null), "{answer}");
        assert!(answer["why"].as_str().unwrap().len() > 20, "{answer}");
    }
    is_of_another_machine(&model);
}

/// A model of both files: the second has the size that is asked for.
fn fitted_alone(first: &Path, second: &Path) -> PathBuf {
    let model = second.with_extension("json");
    let [first, second] = [first, second].map(|it| it.to_str().unwrap());
    let output = corehop(&["advise", "fit", first, second, "-o", model.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    model
}

/// `place` says so, and goes on.
fn is_of_another_machine(model: &Path) {
    let model = model.to_str().unwrap();
    let output = corehop(&["place", "--model", model, "--for", "600ms", "--", "true"]);
    assert!(said(&output).contains("from another machine"), "{}", said(&output));
}

#[test]
fn this_host_predicts_from_lines_and_says_that_it_counted_nothing() {
    if corehop_system::thread::affinity().is_ok_and(|cpus| cpus.len() < 2) {
        println!("skipped: threads on several CPUs need two");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = "--program swap,bucket-sort --sharing write,none --items 100,4k,40k --samples 24";
    let (model, said) = fitted(&measured(folder.path(), "live.parquet", options));
    let text = std::fs::read_to_string(&model).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    if file["rows"][0]["inputs"]["mpmi"].is_number() {
        println!("skipped: this host counts misses");
        return;
    }
    assert!(said.contains("No misses were counted"), "{said}");
    assert!(["physical", "lines"].contains(&file["taken"].as_str().unwrap()), "{file}");
    assert_eq!(file["schema"], "corehop-gain-1");
    assert!(file["source"].as_str().unwrap().contains("24 replicates"), "{}", file["source"]);
    let (_, between) = predicted(&model, "--program swap --items 1000");
    let it = &between["predicted"];
    let [low, ratio, high] = ["low", "ratio", "high"].map(|name| it[name].as_f64());
    match (low, ratio, high) {
        (Some(low), Some(ratio), Some(high)) => assert!(low <= ratio && ratio <= high, "{between}"),
        // On a disturbed host a run may tell no more.
        _ => println!("skipped: no interval from this run: {between}"),
    }
    let (code, counts) = predicted(&model, "--smr 1 --mpmi 10000");
    assert_eq!((code, &counts["predicted"]), (Some(1), &Value::Null), "{counts}");
}

#[test]
fn files_that_are_no_models_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.json");
    std::fs::write(&foreign, "{\"schema\": \"corehop-model-1\"}").unwrap();
    let torn = folder.path().join("torn.json");
    std::fs::write(&torn, "{\"schema\": \"corehop-gain-1\", \"rows\": [").unwrap();
    for (option, file) in [("--model", &foreign), ("--model", &torn), ("--costs", &torn)] {
        let name = file.to_str().unwrap();
        let output = corehop(&["place", option, name, "--", "true"]);
        assert_eq!(output.status.code(), Some(4), "{option} {}", said(&output));
        assert!(said(&output).contains(name) && said(&output).contains("fit"), "{}", said(&output));
    }
    let usage = corehop(&["advise", "gain", torn.to_str().unwrap(), "--program", "swap"]);
    assert_eq!(usage.status.code(), Some(2), "{}", said(&usage));
    assert!(said(&usage).contains("--items"), "{}", said(&usage));
}
