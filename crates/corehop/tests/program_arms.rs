// SPDX-License-Identifier: MIT OR Apache-2.0
//! Repeated recordings in arms, and the costs of this host, as a user types them.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A user with a folder for data, and files.
struct User(TempDir);

impl User {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    fn corehop(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
        command.env("XDG_DATA_HOME", self.0.path()).args(words).output().unwrap()
    }

    fn program(&self, words: &[&str]) -> Output {
        self.corehop(&[&["record"], words].concat())
    }

    /// The recording, or None with the reason where this host does not let programs be recorded.
    fn recorded(&self, words: &[&str]) -> Option<Output> {
        let output = self.program(words);
        if output.status.code() == Some(3) {
            eprintln!("skipped: {}", said(&output));
            return None;
        }
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        Some(output)
    }

    /// The rows of a file.
    fn rows(&self, name: &str) -> Vec<Value> {
        let output = self.corehop(&["report", "contents", &self.path(name), "--rows", "1000000"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The file of costs that are kept, of a machine with this description.
    fn keep_costs(&self, platform: &str) {
        let (samples, model) = (self.path("q.parquet"), self.path("model.json"));
        let words =
            "measure synthetic --on xeon_l7455 --wss 4KiB,16KiB --load idle --samples 12 --quiet";
        let words: Vec<&str> = words.split(' ').collect();
        let made = self.corehop(&[&words, &["-o", &samples, "--force"][..]].concat());
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        let fitted = self.corehop(&["advise", "fit", &samples, "-o", &model, "--force"]);
        assert_eq!(fitted.status.code(), Some(0), "{}", said(&fitted));
        let model: Value = serde_json::from_str(&text_of(Path::new(&model))).unwrap();
        let kept = json!({
            "schema": "corehop-host-costs-1", "identity": null, "date": "2026-11-23T00:00:00Z",
            "platform": platform, "model": model,
        });
        std::fs::create_dir_all(self.path("corehop")).unwrap();
        std::fs::write(self.path("corehop/costs.json"), kept.to_string()).unwrap();
    }

    /// The description of this machine, or of another one.
    fn platform(&self, name: Option<&str>) -> String {
        let file = self.path("platform.toml");
        let words: Vec<&str> = ["platform"].into_iter().chain(name).collect();
        let output = self.corehop(&[&words, &["-o", &file, "--force"][..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        text_of(Path::new(&file))
    }
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).replace("\n         ", " ")
}

/// An arm that sleeps before the program.
const LATER: &str = "later=sh -c 'sleep 0.2; exec \"$@\"' sh";

#[test]
fn arms_run_in_blocks_and_are_compared_by_pairs() {
    let user = User::new();
    let file = user.path("run.parquet");
    let words =
        ["--repeat", "6", "--arm", LATER, "--json", "-o", &file, "--", "sh", "-c", "echo said"];
    let Some(output) = user.recorded(&words) else { return };
    assert_eq!(said(&output).matches("said\n").count(), 18, "the program's own output");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = user.rows("run.runs.parquet");
    assert_eq!(runs.len(), 18);
    for (block, rows) in runs.chunks(3).enumerate() {
        let mut arms: Vec<&str> = rows.iter().map(|row| row["arm"].as_str().unwrap()).collect();
        arms.sort_unstable();
        assert_eq!(arms, ["again", "later", "plain"]);
        assert!(rows.iter().all(|row| row["block"] == block && row["status"] == 0), "{rows:?}");
        assert!(rows.iter().all(|row| row["cpu_ns"].is_u64()), "{rows:?}");
    }
    assert!(runs.iter().enumerate().all(|(number, row)| row["run"] == number));
    let last = user.rows("run.threads.parquet").last().unwrap()["run"].clone();
    assert_eq!(last, 17, "threads name their run");
    let arm = &answer["comparison"]["arms"][0];
    let wall = &arm["effects"][0];
    assert_eq!((&arm["name"], &wall["quantity"]), (&json!("later"), &json!("wall_time")));
    assert_eq!(wall["pairs"], 6);
    assert!(wall["with"].as_f64() > wall["without"].as_f64(), "{wall}");
    assert!(wall["interval"].is_object() && wall["floor"].is_f64() && wall["smallest"].is_f64());
    let compared = user.corehop(&["compare", &file, "--json", "--margin", "5%"]);
    let mut again: Value = serde_json::from_slice(&compared.stdout).unwrap();
    // The answer of the gate is the verb's own.
    let gate = again.as_object_mut().unwrap().remove("gate").unwrap();
    let fails = gate["gate"] == "fails";
    assert_eq!(compared.status.code(), Some(i32::from(fails)), "{gate}");
    assert_eq!(gate["arms"][0]["outcome"] == "slower", fails, "{gate}");
    for of_the_verb in ["answer", "sentence"] {
        assert!(again.as_object_mut().unwrap().remove(of_the_verb).is_some(), "{of_the_verb}");
    }
    assert_eq!(again, answer["comparison"], "{}", said(&compared));
    let reported = user.corehop(&["report", &file]);
    let text = String::from_utf8_lossy(&reported.stdout).into_owned();
    assert!(text.contains("later against plain") && text.contains("18 runs"), "{text}");
}

#[test]
fn a_run_that_fails_ends_all_with_its_status_and_is_not_compared() {
    let user = User::new();
    let Some(_) = user.recorded(&["--", "true"]) else { return };
    let file = user.path("run.parquet");
    let words = ["--repeat", "3", "-o", &file, "--", "sh", "-c", "exit 7"];
    let output = user.program(&words);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("run 0, of arm `plain`, failed with exit status 7"));
    assert_eq!(user.rows("run.runs.parquet").len(), 1, "its row is kept");
}

#[test]
fn a_missing_command_of_an_arm_is_named_before_the_first_run() {
    let user = User::new();
    let ran = user.path("ran");
    let words = ["--repeat", "3", "--arm", "x=no-such-command -c 1", "--", "touch", &ran];
    let output = user.program(&words);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("no-such-command -c 1 touch"), "{}", said(&output));
    assert!(!Path::new(&ran).exists(), "nothing ran");
}

#[test]
fn an_interrupted_comparison_is_resumed_with_the_runs_that_are_missing() {
    let user = User::new();
    let file = user.path("run.parquet");
    let run = |more: &[&str]| {
        let words = ["--repeat", "3", "--arm", "x=env A=b", "-o", &file];
        [&words[..], more, &["--", "true"]].concat().into_iter().map(str::to_owned).collect()
    };
    let recorded = |words: Vec<String>| {
        user.recorded(&words.iter().map(String::as_str).collect::<Vec<_>>()).is_some()
    };
    // A run that is under way when the time is over ends as it would have.
    if !recorded(run(&["--budget", "1us"])) {
        return;
    }
    let first = user.rows("run.runs.parquet").len();
    assert!(first < 9, "{first}");
    assert!(recorded(run(&["--resume"])));
    let rows = user.rows("run.runs.parquet");
    let of = |arm: &str| rows.iter().filter(|row| row["arm"] == arm).count();
    assert_eq!(["plain", "again", "x"].map(of), [3, 3, 3]);
    let numbers: Vec<u64> = rows.iter().map(|row| row["run"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
}

#[test]
fn the_plan_of_arms_runs_like_any_other() {
    let user = User::new();
    let (plan, file) = (user.path("plan.json"), user.path("run.parquet"));
    let words = ["--repeat", "2", "--arm", "x=env A=b", "--dry-run"];
    let outline = user.program(&[&words[..], &["--", "true"]].concat());
    let text = String::from_utf8_lossy(&outline.stdout).into_owned();
    assert!(text.contains("3 arms, 6 runs of true") && text.contains("  again"), "{text}");
    let printed = user.program(&[&words[..], &["--json", "--", "true"]].concat());
    std::fs::write(&plan, &printed.stdout).unwrap();
    let ran = user.corehop(&["measure", "plan", &plan, "-o", &file]);
    if ran.status.code() == Some(3) {
        return eprintln!("skipped: {}", said(&ran));
    }
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("x: cannot tell from 2 runs"));
    assert_eq!(user.rows("run.runs.parquet").len(), 6);
}

#[test]
fn two_recordings_are_compared_by_their_runs() {
    let user = User::new();
    let [a, b] = ["a.parquet", "b.parquet"].map(|name| user.path(name));
    let sleeps = |seconds, file| {
        user.recorded(&["--repeat", "6", "-o", file, "--", "sleep", seconds]).is_some()
    };
    if !(sleeps("0", &a) && sleeps("0.5", &b)) {
        return;
    }
    let output = user.corehop(&["compare", &a, &b, "--json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let effects = answer["arms"][0]["effects"].as_array().unwrap();
    let quantities: Vec<&str> = effects.iter().map(|it| it["quantity"].as_str().unwrap()).collect();
    for quantity in ["wall_time", "cpu_time", "preemptions", "migrations"] {
        assert!(quantities.contains(&quantity), "{quantities:?}");
    }
    assert!(effects[0]["change"].as_f64() > Some(0.0), "{answer}");
    assert_eq!((&answer["paired"], &answer["baseline"]), (&json!(false), &json!(a)));
    let alone = user.corehop(&["compare", &a]);
    assert_eq!(alone.status.code(), Some(1), "{}", said(&alone));
    assert!(said(&alone).contains("--arm"), "{}", said(&alone));
    let one = user.path("one.parquet");
    assert!(user.recorded(&["-o", &one, "--", "true"]).is_some());
    let few = user.corehop(&["compare", &one, &b, "--fail-on", "unknown"]);
    assert_eq!(few.status.code(), Some(1), "one run has no interval");
    let text = String::from_utf8_lossy(&few.stdout).into_owned();
    assert!(text.contains("1 replicates; an interval needs 6"), "{text}");
    // One run could not have failed: its silence is no pass.
    let few = user.corehop(&["compare", &one, &one, "--fail-on", "slower"]);
    assert_eq!(few.status.code(), Some(0), "a recording is equal to itself");
    let few = user.corehop(&["compare", &b, &one]);
    assert_eq!(few.status.code(), Some(1));
    let text = String::from_utf8_lossy(&few.stdout).into_owned();
    assert!(text.starts_with("Cannot tell whether B is slower"), "{text}");
    assert!(text.replace('\n', " ").contains("record --repeat 6"), "{text}");
    let estimator = user.corehop(&["compare", &a, &b, "--estimator", "with_switch"]);
    assert!(estimator.status.code() == Some(2) && said(&estimator).contains("--estimator"));
    // The second recording sleeps 0.2 s longer: less than what counts.
    let least = user.corehop(&["compare", &a, &b, "--least", "30s"]);
    assert_eq!(least.status.code(), Some(0), "{}", String::from_utf8_lossy(&least.stdout));
    let slower = user.corehop(&["compare", &a, &b]);
    let text = String::from_utf8_lossy(&slower.stdout).into_owned();
    // On a busy host the runs may be too alike, one after the other, to tell.
    let passes = text.starts_with("No sign");
    assert_eq!(slower.status.code(), Some(i32::from(!passes)), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn arms_that_make_no_sense_are_refused_with_their_reason() {
    let user = User::new();
    for (words, part) in [
        (&["--arm", "taskset -c 1", "--", "true"][..], "NAME=COMMAND"),
        (&["--arm", "x=", "--", "true"], "no command"),
        (&["--arm", "=taskset", "--", "true"], "no name"),
        (&["--arm", "x=env", "--arm", "x=nice", "--", "true"], "two arms have the name `x`"),
        (&["--arm", "plain=env", "--", "true"], "`plain` always exists"),
        (&["--repeat", "0", "--", "true"], "--repeat 0"),
        (&["--repeat", "2", "--pid", "1"], "cannot run repeatedly"),
        (&["--resume", "-o", "x.parquet", "--", "true"], "--resume"),
        (&["--load", "idle", "--", "true"], "no costs to choose from"),
        (&["--costs", "none", "--statistic", "mean", "--", "true"], "no costs to choose from"),
    ] {
        let output = user.program(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(part), "{words:?}: {}", said(&output));
    }
}

#[test]
fn the_costs_of_this_host_are_used_unless_others_are_named() {
    let user = User::new();
    let Some(without) = user.recorded(&["--", "true"]) else { return };
    let none = "no costs: this host has no stored costs";
    assert!(said(&without).contains(none), "{}", said(&without));
    assert!(said(&without).contains("fit FILE.parquet --default"), "{}", said(&without));
    user.keep_costs(&user.platform(None));
    let kept = user.recorded(&["--json", "--", "true"]).unwrap();
    let answer: Value = serde_json::from_slice(&kept.stdout).unwrap();
    let origin = answer["costs"].as_str().unwrap();
    assert!(origin.contains("costs of this host, measured 2026-11-23"), "{origin}");
    assert_eq!(answer["cost"]["priced"], true);
    let off = user.recorded(&["--costs", "none", "--json", "--", "true"]).unwrap();
    let answer: Value = serde_json::from_slice(&off.stdout).unwrap();
    assert_eq!(answer["cost"]["priced"], false);
}

#[test]
fn refilling_is_compared_where_costs_are_known() {
    let user = User::new();
    user.keep_costs(&user.platform(None));
    let words = ["--repeat", "2", "--arm", "x=env A=b", "--json", "--wss", "16KiB", "--", "true"];
    let Some(output) = user.recorded(&words) else { return };
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let effects = answer["comparison"]["arms"][0]["effects"].as_array().unwrap();
    assert!(effects.iter().any(|it| it["quantity"] == "refill_least"), "{answer}");
}

#[test]
fn costs_of_another_machine_and_damaged_ones_are_refused_before_the_program_runs() {
    let user = User::new();
    let ran = user.path("ran");
    let refused = |part: &str| {
        let output = user.program(&["--", "touch", &ran]);
        assert_eq!(output.status.code(), Some(4), "{}", said(&output));
        assert!(said(&output).contains(part), "{}", said(&output));
        assert!(said(&output).contains("costs.json"), "{}", said(&output));
        assert!(!Path::new(&ran).exists());
    };
    user.keep_costs(&user.platform(Some("xeon_l7455")));
    refused("to another machine (id");
    refused("--costs none");
    std::fs::write(user.path("corehop/costs.json"), "{").unwrap();
    refused("fit --default");
}

#[test]
fn a_set_with_working_sets_is_charged_what_this_host_kept_unless_costs_are_named_or_not_wanted() {
    let user = User::new();
    user.keep_costs(&user.platform(None));
    let set = user.path("set.json");
    let text = r#"{"cpus": 1, "tasks": [{"wcet_us": 5000, "period_us": 100000, "wss_kib": 4},
        {"wcet_us": 9000, "period_us": 200000, "wss_kib": 16}]}"#;
    std::fs::write(&set, text).unwrap();
    let check = |more: &[&str]| {
        let output = user.corehop(&[&["check", &set, "--json"], more].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (answer["bounds_us"].clone(), said(&output))
    };
    let (kept, why) = check(&[]);
    let (named, said_of_named) = check(&["--costs", &user.path("model.json")]);
    assert!(why.contains("costs of this host"), "{why}");
    assert!(kept == named && kept[0].is_number() && !said_of_named.contains("of this host"));
    let (none, why) = check(&["--costs", "none"]);
    assert!(none[1].as_f64() < kept[1].as_f64() && !why.contains("of this host"), "{none} {kept}");
    std::fs::remove_file(user.path("corehop/costs.json")).unwrap();
    let (unknown, why) = check(&[]);
    assert!(unknown.is_null() && why.contains("--costs"), "{why}");
    let advised = user.corehop(&["advise", "set", &set]);
    assert_eq!(advised.status.code(), Some(2), "{}", said(&advised));
    assert!(said(&advised).contains("fit FILE.parquet --default"), "{}", said(&advised));
}

#[test]
fn samples_of_another_machine_do_not_become_the_costs_of_this_one() {
    let user = User::new();
    user.keep_costs(&user.platform(None));
    let output = user.corehop(&["advise", "fit", &user.path("q.parquet"), "--default", "--force"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("from another machine (a simulated one)"), "{}", said(&output));
}

#[test]
fn samples_of_this_host_are_kept_and_not_replaced_without_force() {
    let user = User::new();
    let file = user.path("mine.parquet");
    let words = "measure synthetic --wss 4KiB,16KiB --load idle --event preemption --samples 12 --length 1ms \
                 --no-real-time --quiet -o";
    let words: Vec<&str> = words.split_whitespace().chain([file.as_str()]).collect();
    let measured = user.corehop(&words);
    if measured.status.code() == Some(3) {
        return eprintln!("skipped: {}", said(&measured));
    }
    assert_eq!(measured.status.code(), Some(0), "{}", said(&measured));
    let fitted = user.corehop(&["advise", "fit", &file, "--default"]);
    if fitted.status.code() == Some(1) {
        return eprintln!("skipped: too busy for a valid sample: {}", said(&fitted));
    }
    assert_eq!(fitted.status.code(), Some(0), "{}", said(&fitted));
    let text = String::from_utf8_lossy(&fitted.stdout).replace('\n', " ");
    assert!(text.contains("stored as the costs of this host"), "{text}");
    let again = user.corehop(&["advise", "fit", &file, "--default"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    assert!(said(&again).contains("--force"), "{}", said(&again));
    assert_eq!(
        user.corehop(&["advise", "fit", &file, "--default", "--force"]).status.code(),
        Some(0)
    );
    let Some(recorded) = user.recorded(&["--", "true"]) else { return };
    assert!(said(&recorded).contains("costs of this host"), "{}", said(&recorded));
}
