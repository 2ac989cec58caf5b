// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fit`, `predict`, `advise` and `compare` as they are typed, on a simulated machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn corehop(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

/// Runs it, and demands an exit code and words in what it says.
fn says(arguments: &[&str], code: i32, words: &[&str]) -> String {
    let output = corehop(arguments);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    text
}

fn answer(arguments: &[&str]) -> Value {
    let output = corehop(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)))
}

/// The words of a command line.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A text without its line breaks.
fn flat(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Some samples a cell of three sizes on a published machine.
fn samples(folder: &TempDir, name: &str, seed: &str) -> PathBuf {
    let file = folder.path().join(name);
    let events = "idle_leave,preemption,l3_migration,memory_migration";
    let run = format!(
        "measure synthetic --on xeon_x5650 --load idle --wss 16KiB,64KiB,256KiB --event {events} \
         --length 4ms --samples 24 --seed {seed} -q -o"
    );
    says(&[&words(&run)[..], &[text(&file)]].concat(), 0, &[]);
    file
}

/// Takes the ends of every interval out of a model.
fn forget_intervals(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == "low_us" || name == "high_us" {
                    *value = Value::Null;
                } else {
                    forget_intervals(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget_intervals),
        _ => {}
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_model_is_fitted_and_asked_at_sizes_that_were_measured_and_in_between() {
    let folder = TempDir::new().unwrap();
    let file = samples(&folder, "a.parquet", "1");
    let model = folder.path().join("a.json");
    says(
        &["advise", "fit", text(&file), "-o", text(&model)],
        0,
        &["memory_migration", "fitted", "survivors"],
    );
    let question = words("--event memory_migration --wss 64KiB,128KiB --method fitted");
    let ask = [&["advise", "predict", text(&model)], &question[..]].concat();
    let answers = answer(&ask);
    let [at, between] = [0, 1].map(|place| answers[place]["estimate_us"].as_f64().unwrap());
    assert!(0.0 < at && at < between, "{answers}");
    assert_eq!(answers[0]["place"], "measured");
    assert_eq!(answers[1]["place"]["between"]["below_bytes"], 64 << 10);
    // Samples are as good as the model fitted to them.
    assert_eq!(answer(&[&["advise", "predict", text(&file)], &question[..]].concat()), answers);
    let worst = [&ask[..5], &["--wss", "64KiB", "--method", "worst_case"]].concat();
    let computed = answer(&worst);
    assert!(computed[0]["estimate_us"].as_f64().unwrap() > 0.0);
    for end in ["low_us", "high_us"] {
        assert!(computed[0][end].is_null(), "three points give no interval: {computed}");
    }
    says(&worst, 0, &["no interval: computed from the platform"]);
}

#[test]
fn questions_without_an_answer_say_why() {
    let folder = TempDir::new().unwrap();
    let file = samples(&folder, "a.parquet", "1");
    let ask = |more: &[&str], code, words: &[&str]| {
        says(&[&["advise", "predict", text(&file)], more].concat(), code, words);
    };
    ask(&["--wss", "1MiB"], 1, &["1 MiB is beyond", "256 KiB", "corehop measure"]);
    ask(&["--wss", "64KiB", "--load", "heavy"], 2, &["load=heavy", "the measured values are idle"]);
    ask(&["--wss", "64KiB", "--only", "colour=red"], 2, &["no `colour`"]);
    ask(&["--wss", "64KiB", "--only", "page"], 2, &["NAME=VALUE"]);
    ask(&["--wss", "64KiB", "--statistic", "p99"], 1, &["more than 24"]);
    ask(&["--wss", "64"], 2, &["no unit"]);
    let strange = folder.path().join("strange.json");
    std::fs::write(&strange, "{}").unwrap();
    says(&["advise", "predict", text(&strange), "--wss", "64KiB"], 4, &["not a model"]);
    says(&["advise", "predict", "/nowhere/m.json", "--wss", "64KiB"], 2, &["/nowhere/m.json"]);
    says(&["advise", "fit", "/nowhere/a.parquet"], 2, &["no such file"]);
}

#[test]
fn advice_has_the_wait_from_which_each_move_pays_and_what_to_do_for_a_wait() {
    let folder = TempDir::new().unwrap();
    let file = samples(&folder, "a.parquet", "1");
    let told = says(
        &["advise", text(&file)],
        0,
        &["of expected wait on", "memory_migration", "sched_migration_cost_ns"],
    );
    assert!(flat(&told).contains("--event preemption --length"), "no wait is as long as 4 ms");
    let advice = answer(&["advise", text(&file), "--wss", "256KiB"]);
    let moves = advice["rules"][0]["moves"].as_array().unwrap();
    let event = |at: usize| moves[at]["event"].as_str().unwrap();
    assert_eq!((moves.len(), event(0), event(1)), (2, "l3_migration", "memory_migration"));
    let wait = |at: usize, end: &str| moves[at]["pays_from"][end].as_f64().unwrap();
    // With more than the wait, to stay costs no more than the migration.
    assert!(wait(0, "high_us") < wait(1, "low_us"), "{moves:?}");
    assert!(wait(1, "high_us") <= moves[1]["high_us"].as_f64().unwrap(), "{moves:?}");
    let verdict = |length: &str| {
        answer(&["advise", text(&file), "--wss", "256KiB", "--length", length])["rules"][0]["waits"]
            [0]["verdict"]
            .clone()
    };
    assert_eq!(verdict("25ms"), serde_json::json!({"move": "l3_migration"}));
    assert_eq!(verdict("1us"), "stay");
    let asked = ["advise", text(&file), "--length", "25ms"];
    says(&asked, 0, &["for a wait of 25 ms, move (l3_migration) with all"]);
}

#[test]
fn advice_that_samples_do_not_support_names_the_command_that_measures_it() {
    let folder = TempDir::new().unwrap();
    let alone = folder.path().join("alone.parquet");
    let measured = |event: &str, length: &str, into: &Path| {
        let run = format!(
            "measure synthetic --on xeon_x5650 --load idle --wss 16KiB --event {event} --length {length} --samples 12 -q \
             --force -o"
        );
        says(&[&words(&run)[..], &[text(into)]].concat(), 0, &[]);
    };
    measured("flush", "4ms", &alone);
    says(&["advise", text(&alone)], 1, &["No advice"]);
    measured("preemption", "4ms", &alone);
    let why = flat(&says(&["advise", text(&alone), "--json"], 1, &[]));
    let command =
        "corehop measure synthetic --load idle --event l3_migration,memory_migration --length 0us";
    assert!(why.contains(command), "{why}");
    // What it names is what it takes: the two files together have the answer.
    let (moved, model) = (folder.path().join("moved.parquet"), folder.path().join("both.json"));
    measured("l3_migration,memory_migration", "0us", &moved);
    says(&["advise", "fit", text(&alone), text(&moved), "-o", text(&model)], 0, &[]);
    let both = answer(&["advise", text(&model)]);
    assert_eq!(both["rules"][0]["moves"].as_array().unwrap().len(), 2, "{both}");
    assert_eq!(both["rules"][0]["moves"][0]["length_us"], 0.0);
    for (length, words) in [("0us", "waits for nothing"), ("4", "no unit"), ("-1ms", "--length")] {
        says(&["advise", text(&model), &format!("--length={length}")], 2, &[words]);
    }
    says(&["advise", text(&model), "--wss", "1GiB"], 1, &["`--wss 1GiB`"]);
}

#[test]
fn a_result_compared_with_itself_passes_and_one_of_another_machine_does_not() {
    let folder = TempDir::new().unwrap();
    let (a, b) = (samples(&folder, "a.parquet", "1"), folder.path().join("b.parquet"));
    says(&["compare", text(&a), text(&a)], 0, &["0 slower", "0 cannot tell"]);
    let run = words(
        "measure synthetic --on xeon_l7455 --load idle --wss 64KiB --event \
         memory_migration --length 4ms --samples 10 -q -o",
    );
    says(&[&run[..], &[text(&b)]].concat(), 0, &[]);
    let comparison = answer(&["compare", text(&a), text(&b)]);
    assert_eq!(
        comparison["only_b"].as_u64().unwrap()
            + comparison["cells"].as_array().unwrap().len() as u64,
        1
    );
    says(&["compare", text(&a), text(&b)], 1, &["Nothing was compared"]);
    says(&["compare", text(&a), "/nowhere.parquet"], 2, &["/nowhere.parquet"]);
    says(&["compare", text(&a), text(&b), "--margin", "5"], 2, &["5%"]);
    let sure = ["compare", text(&a), text(&b), "--confidence", "150%"];
    says(&sure, 2, &["150%", "0% to 100%", "`95%`"]);
    // Another seed: a gate that fails on slower cells alone lets pass what cannot be told.
    let again = samples(&folder, "again.parquet", "2");
    let gate = |on: &str, code| {
        let run = ["compare", text(&a), text(&again), "--least", "1ms", "--fail-on", on];
        says(&run, code, &["0 slower"])
    };
    gate("slower", 0);
    gate("different", 0);
    says(&["compare", text(&a), text(&b), "--fail-on", "worse"], 2, &["worse", "slower"]);
}

#[test]
fn tasks_are_charged_what_a_model_says_of_their_working_sets() {
    let folder = TempDir::new().unwrap();
    let file = samples(&folder, "a.parquet", "1");
    let model = folder.path().join("a.json");
    says(&["advise", "fit", text(&file), "-o", text(&model)], 0, &[]);
    let set = folder.path().join("set.json");
    let write = |wss: &str| {
        let task = format!(r#"{{"name": "x", "wcet_us": 100, "period_us": 10000{wss}}}"#);
        std::fs::write(&set, format!(r#"{{"cpus": 6, "tasks": [{task}]}}"#)).unwrap();
    };
    // The short one pays for the long one that it preempts.
    let long = r#"{"wcet_us": 100, "period_us": 20000, "wss_kib": 64}"#;
    let short = r#"{"wcet_us": 100, "period_us": 10000, "wss_kib": 16}"#;
    // (On six CPUs it takes seven tasks that one is preempted.)
    let tasks = [&[short][..], &[long; 6]].concat().join(", ");
    std::fs::write(&set, format!(r#"{{"cpus": 6, "tasks": [{tasks}]}}"#)).unwrap();
    let largest = |event: &str| {
        let asked = ["advise", "predict", text(&model), "--event", event, "--wss", "64KiB"];
        let cost = &answer(&[&asked[..], &["--statistic", "max"]].concat())[0]["estimate_us"];
        cost.as_f64().unwrap().max(0.0).ceil() as u64
    };
    let ask = |test: &str, costs: &Path, more: &[&str]| {
        answer(&[&["check", text(&set), "--test", test, "--costs", text(costs)], more].concat())
    };
    let max = ["--statistic", "max"];
    let charged =
        |test: &str, costs: &Path| ask(test, costs, &max)["delays_us"][0].as_u64().unwrap();
    // Partitioned jobs are preempted, global ones migrate too; from samples as from their model.
    assert_eq!(charged("p-edf-ffd", &model), largest("preemption"));
    let dearest = ["preemption", "l3_migration", "memory_migration"].map(largest);
    assert_eq!(charged("gfb", &model), dearest.into_iter().max().unwrap());
    assert_eq!(charged("gfb", &file), charged("gfb", &model));
    assert_eq!(charged("g-np-edf", &model), 0);
    // The largest that was seen bounds nothing, and makes a yes only for who accepts that.
    let seen = ask("gfb", &model, &max);
    assert_eq!(seen["schedulable"], "unknown", "{seen}");
    let why = seen["why"].as_str().unwrap();
    assert!(why.starts_with("yes, if no event costs more than the largest of 24 seen"), "{why}");
    let assumes = |answer: &Value, words: &str| {
        let mut assumed = answer["assumptions"].as_array().unwrap().iter();
        assert!(assumed.any(|it| it.as_str().unwrap().contains(words)), "{answer}");
    };
    let accepted = [&max[..], &["--accept-largest"]].concat();
    let largest_accepted = ask("gfb", &model, &accepted);
    assert_eq!(largest_accepted["schedulable"], true, "{largest_accepted}");
    assumes(&largest_accepted, "largest measured delay");
    // By default it is the highest quantile that the samples bound; a table of them says the same. A median is no bound.
    let by_default = ask("gfb", &model, &[]);
    assert_eq!(by_default["schedulable"], "unknown", "{by_default}");
    assumes(&by_default, "the median of at least 24 samples");
    let table = folder.path().join("costs.csv");
    let csv = corehop(&["report", text(&file), "--table", "csv"]).stdout;
    std::fs::write(&table, csv).unwrap();
    assumes(&ask("p-edf-ffd", &table, &[]), "the median of at least 24 samples");
    assert_eq!(ask("p-edf-ffd", &table, &max)["schedulable"], "unknown");
    // Too few samples for a statistic make no yes, and are no fault of the set's.
    let few = ask("gfb", &model, &["--statistic", "p99"]);
    assert_eq!(few["schedulable"], "unknown", "{few}");
    assert!(few["why"].as_str().unwrap().contains("p99 needs more samples"), "{few}");
    // A median without an interval makes no yes.
    let mut known: Value = serde_json::from_str(&std::fs::read_to_string(&model).unwrap()).unwrap();
    forget_intervals(&mut known);
    let unsure = folder.path().join("unsure.json");
    std::fs::write(&unsure, known.to_string()).unwrap();
    let unsure = ask("gfb", &unsure, &["--statistic", "median"]);
    assert_eq!(unsure["schedulable"], "unknown", "{unsure}");
    assert!(unsure["why"].as_str().unwrap().contains("has no interval"), "{unsure}");
    // Beyond what was measured, or without a size, there is no verdict.
    let refused = |words: &[&str]| {
        let asked = ["check", text(&set), "--test", "gfb", "--costs", text(&model)];
        let output = corehop(&asked);
        assert!(output.stdout.is_empty());
        says(&asked, 4, words);
    };
    write(r#", "wss_kib": 257"#);
    refused(&["task 0 (`x`)", "wss_kib is 257", "beyond the measured sizes"]);
    write("");
    refused(&["task 0 (`x`)", "wss_kib is absent"]);
    write(r#", "wss_kib": 64"#);
    let asked = ["check", text(&set), "--test", "gfb", "--costs", text(&model)];
    says(&[&asked[..], &["--load", "busy"]].concat(), 2, &["busy", "idle"]);
    says(&[&asked[..], &["--statistic", "best"]].concat(), 2, &["best", "median"]);
    // And a crossover leads back to sizes by the same model.
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/bastoni-fig5");
    let asked = ["check", "study", study, "--sets", "40", "--costs", text(&model)];
    let found = answer(&asked);
    let sizes = found["readings"][0]["wss"].as_array().unwrap();
    assert_eq!(sizes.len(), 2, "mean and max of one load");
    assert_eq!(sizes[0]["fixed"]["preferable"], "throughout", "{}", sizes[0]);
    says(&asked, 0, &["load idle, max: g-edf is preferable to p-edf", "to 256 KiB"]);
}

/// The printed text of two tasks, 10 of 40 and 30 of 120, whose preemptions cost 0 and 35 us.
const REMEDIES: &str = "\
EDF with non-preemptive regions: cost of preemptions per job, in us
task   WCET              do  a preemption costs  preemptions  remain      saves at most
quick    10  non-preemptive            0 [0, 0]            0       0           0 [0, 0]
slow     30  non-preemptive   35.0 [35.0, 35.0]            2       0  70.0 [70.0, 70.0]
Fully preemptive the set is not schedulable; with limited preemption the set is schedulable, and
  saves at most 58.33 % [58.33, 58.33] of the CPU.

Fixed priorities with non-preemptive regions: cost of preemptions per job, in us
task   WCET              do  a preemption costs  preemptions  remain   saves at most
quick    10  non-preemptive            0 [0, 0]            0       0        0 [0, 0]
slow     30  non-preemptive   35.0 [35.0, 35.0]            3       0  105 [105, 105]
Fully preemptive the set is not schedulable; with limited preemption the set is schedulable, and
  saves at most 87.50 % [87.50, 87.50] of the CPU.

Fixed priorities with preemption thresholds: cost of preemptions per job, in us
task   WCET              do  a preemption costs  preemptions  remain   saves at most
quick    10  non-preemptive            0 [0, 0]            0       0        0 [0, 0]
slow     30  non-preemptive   35.0 [35.0, 35.0]            3       0  105 [105, 105]
Fully preemptive the set is not schedulable; with limited preemption the set is schedulable, and
  saves at most 87.50 % [87.50, 87.50] of the CPU.

";

#[test]
fn a_set_is_told_which_task_to_make_non_preemptive_for_how_long_and_what_that_saves() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let costs = file(
        "costs.csv",
        "load,event,statistic,wss_kib,cost_us\nidle,preemption,max,4,0\nidle,preemption,max,64,35\n",
    );
    let set = |cpus: u32, wss: &str| {
        let text = format!(
            r#"{{"cpus": {cpus}, "tasks": [{{"name": "quick", "wcet_us": 10, "period_us": 40, "wss_kib": 4}},
               {{"name": "slow", "wcet_us": 30, "period_us": 120{wss}}}]}}"#
        );
        file("set.json", &text)
    };
    let path = set(1, r#", "wss_kib": 64"#);
    let asked = ["advise", text(&path), "--costs", text(&costs)];
    // By hand: the slack before the deadline of `slow` is 30, its WCET; two reloads of 35 are saved.
    let said = says(&asked, 0, &["EDF with", "non-preemptive", "70.0 [70.0, 70.0]", "58.33 %"]);
    assert!(said.contains("Fully preemptive the set is not schedulable"), "{said}");
    let sentence =
        "Fixed priorities with preemption thresholds save at most 87.50 % of the CPU.\n\n";
    assert_eq!(said.strip_prefix(sentence), Some(REMEDIES), "{said}");
    let told = answer(&asked);
    assert_eq!(told[0]["limit"], "edf_regions");
    assert_eq!(told[0]["tasks"][1]["region_us"], 30);
    assert_eq!(
        (&told[0]["preemptive"], &told[0]["tasks"][1]["remaining"]),
        (&false.into(), &0.into())
    );
    // What cannot be advised on names the task, the field and what would do.
    set(2, r#", "wss_kib": 64"#);
    says(&asked, 2, &["cpus is 2", "one CPU"]);
    set(1, "");
    says(&asked, 4, &["task 1 (`slow`)", "wss_kib is absent"]);
    set(1, r#", "wss_kib": 65"#);
    says(&asked, 4, &["task 1 (`slow`)", "wss_kib is 65"]);
    says(&["advise", "--on", "xeon_x5650", "--costs", text(&costs)], 2, &["--costs"]);
}

/// Costs with their numbers of samples: p90 has an upper end at 4 KiB only, the median at both sizes.
const SAMPLED: &str = "load,event,statistic,wss_kib,cost_us\n\
    idle,preemption,max,4,9\nidle,preemption,max,64,35\n\
    idle,preemption,n,4,200\nidle,preemption,n,64,60\n\
    idle,preemption,p90,4,5\nidle,preemption,p90_high,4,6\nidle,preemption,p90,64,20\n\
    idle,preemption,p50,4,2\nidle,preemption,p50_high,4,3\n\
    idle,preemption,p50,64,10\nidle,preemption,p50_high,64,12\n";

#[test]
fn a_set_is_advised_and_judged_by_the_same_statistic_where_none_is_named() {
    let folder = TempDir::new().unwrap();
    let (set, costs) = (folder.path().join("set.json"), folder.path().join("costs.csv"));
    let tasks = r#"{"cpus": 1, "tasks": [{"wcet_us": 10, "period_us": 100, "wss_kib": 4},
        {"wcet_us": 30, "period_us": 400, "wss_kib": 64}]}"#;
    std::fs::write(&set, tasks).unwrap();
    std::fs::write(&costs, SAMPLED).unwrap();
    let by = "the median of at least 60 samples";
    let advise = ["advise", text(&set), "--costs", text(&costs)];
    let check = ["check", text(&set), "--costs", text(&costs), "--test", "edf-rta"];
    let said = flat(&says(&advise, 0, &[]));
    assert!(
        said.contains(&format!("of the CPU, if no preemption costs more than {by}.")),
        "{said}"
    );
    let said = flat(&says(&check, 1, &[]));
    let half = format!("yes, if no event costs more than {by} (half of them do)");
    assert!(said.starts_with(&half), "{said}");
    let told = answer(&advise);
    assert_eq!((&told[0]["charged_by"], &told[2]["charged_by"]), (&by.into(), &by.into()));
    assert_eq!(told[0]["tasks"][1]["delay"]["high_us"], 12.0);
    // The largest is asked for, and bounds nothing.
    let largest = [&advise[..], &["--statistic", "max"]].concat();
    let said = flat(&says(&largest, 0, &[]));
    assert!(
        said.contains("if no preemption costs more than was seen, which nothing bounds"),
        "{said}"
    );
    let told = answer(&largest);
    assert_eq!(told[0]["tasks"][1]["delay"]["us"], 35.0);
    // A condition is an answer, although the costs say nothing of migrations, which some other tests let happen.
    let own = ["check", text(&set), "--costs", text(&costs), "--statistic", "max"];
    let said = flat(&says(&own, 1, &[]));
    assert!(said.contains("no event costs more than the largest of 60 seen"), "{said}");
    assert!(told[0].get("charged_by").is_none(), "{told}");
}
