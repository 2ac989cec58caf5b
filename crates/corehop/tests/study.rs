// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check study`, as a script sees it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn fig5() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/bastoni-fig5"))
}

fn study(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop"))
        .args(["check", "study"])
        .args(arguments)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn error(output: &Output) -> (Option<i32>, String) {
    assert!(output.stdout.is_empty());
    (
        output.status.code(),
        String::from_utf8(output.stderr.clone()).unwrap().replace("\n         ", " "),
    )
}

#[test]
fn fig_5_has_the_form_that_its_text_tells() {
    let folder = fig5().to_str().unwrap();
    let answer = json(&study(&[folder, "--sets", "400", "--json"]));
    let readings = answer["readings"].as_array().unwrap();
    assert_eq!(readings.len(), 12);
    let held = &answer["held"]["reading"];
    assert!(readings.iter().any(|reading| reading["name"] == *held));
    for reading in readings {
        let w = |scheduler: &str, delay: &str| reading["w"][scheduler][delay].as_f64().unwrap();
        // An optimal scheduler without delays carries everything; G-EDF is one, for soft deadlines.
        assert!((w("g-edf", "0") - 1.0).abs() < 1e-12);
        for delay in ["0", "250", "500", "750", "1000", "1500", "2000"] {
            // "In Fig. 5, the G-EDF curve dominates the P-EDF curve."
            assert!(w("g-edf", delay) >= w("p-edf", delay), "{delay}");
            assert!(w("g-edf", delay) >= w("c-edf-l3", delay), "{delay}");
            assert!(w("c-edf-l2", delay) >= w("p-edf", delay), "{delay}");
        }
        let crossover = reading["crossover_us"].as_f64().unwrap();
        let ends = reading["interval_us"].as_array().unwrap();
        assert!(ends[0].as_f64().unwrap() < crossover && crossover < ends[1].as_f64().unwrap());
        // There the two are worth the same.
        assert!(w("g-edf", "500") > w("p-edf", "0") && w("g-edf", "1000") < w("p-edf", "0"));
        assert!((500.0..1000.0).contains(&crossover));
    }
}

#[test]
fn costs_lead_back_to_working_sets() {
    let costs = fig5().join("costs.csv");
    let folder = fig5().to_str().unwrap();
    let options = [folder, "--sets", "2000", "--costs", costs.to_str().unwrap()];
    let answer = json(&study(&[&options[..], &["--json"]].concat()));
    let held = &answer["held"]["reading"];
    let readings = answer["readings"].as_array().unwrap();
    let reading = readings.iter().find(|reading| reading["name"] == *held).unwrap();
    let of = |load: &str, statistic: &str| {
        let mut all = reading["wss"].as_array().unwrap().iter();
        all.find(|it| it["load"] == load && it["statistic"] == statistic).unwrap().clone()
    };
    // "D_c^G does not exceed [the crossover] for WSSs smaller than 1024 KB, and thus G-EDF is preferable
    // for such WSSs", in an idle system: of the printed sizes, 512 KiB is below, 1024 KiB is not.
    let idle = of("idle", "max");
    assert!((512.0..1024.0).contains(&idle["fixed"]["wss_kib"].as_f64().unwrap()), "{idle}");
    // Under load "D_c^G = D_c^P, and thus G-EDF is preferable for any WSS": so it is on average.
    let loaded = of("constructed", "avg");
    assert_eq!(loaded["each_its_own"]["preferable"], "throughout", "{loaded}");
    let words = String::from_utf8(study(&options).stdout).unwrap();
    assert!(words.contains("load idle, max: g-edf is preferable to p-edf"), "{words}");
    let (code, said) = error(&study(&[folder, "--costs", "nowhere.csv"]));
    assert!(code == Some(2) && said.contains("nowhere.csv"), "{said}");
}

#[test]
fn merged_parts_are_the_whole_to_the_last_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let folder = fig5().to_str().unwrap();
    let common = [folder, "--sets", "30", "--seed", "7"];
    let with = |more: &[&str]| study(&[&common[..], more].concat());
    json(&with(&["--json", "-o", &file("whole.parquet")]));
    let parts: Vec<String> = (1..=3).map(|at| file(&format!("{at}.parquet"))).collect();
    for (at, part) in (1..).zip(&parts) {
        let answer = json(&with(&["--json", "--shard", &format!("{at}/3"), "-o", part]));
        assert_eq!((&answer["complete"], &answer["sets"]), (&false.into(), &10.into()));
    }
    let merged = file("merged.parquet");
    let answer = json(&study(&["merge", &parts[2], &parts[0], &parts[1], "--json", "-o", &merged]));
    assert_eq!(answer["complete"], true);
    assert_eq!(fs::read(&merged).unwrap(), fs::read(file("whole.parquet")).unwrap());
    // A file is read back; its page needs no network.
    let (page, picture) = (file("page.html"), file("picture.svg"));
    let drawn = study(&[&merged, "--json", "--page", &page, "--picture", &picture]);
    assert_eq!(json(&drawn), answer);
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.matches("<polyline").count() == 4);
    assert!(picture.contains("whole-ms/discard/wfd"));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("any/discard/wfd") && page.contains("by-delay"));
    // A part twice is no whole.
    let (code, said) = error(&study(&["merge", &parts[0], &parts[0]]));
    assert!(code == Some(2) && said.contains("in common"), "{said}");
}

#[test]
fn what_is_no_study_is_an_error_that_names_the_file() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("study.toml");
    let of = |text: &str| {
        fs::write(&path, text).unwrap();
        error(&study(&[scratch.path().to_str().unwrap()]))
    };
    let good = fs::read_to_string(fig5().join("study.toml")).unwrap();
    for (from, to, words) in [
        ("sets = 8000", "sets = -1", ["study.toml", "sets"]),
        ("step = 0.1", "step = 0.07", ["study.toml", "caps"]),
        ("\"xeon_l7455\"", "\"xeon\"", ["study.toml", "xeon_l7455"]),
        ("[0, 250", "[0.5, 250", ["study.toml", "delays_us"]),
        ("uniform = [0.5", "unifrom = [0.5", ["tasks.utilisation", "uniform = [LOW, HIGH]"]),
        ("against = \"p-edf\"", "against = \"g-edf\"", ["crossover", "two different schedulers"]),
    ] {
        let (code, said) = of(&good.replace(from, to));
        assert_eq!(code, Some(4), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    assert_eq!(error(&study(&["nowhere.toml"])).0, Some(2));
    assert_eq!(error(&study(&[fig5().to_str().unwrap(), "--shard", "4/3"])).0, Some(2));
    let (code, said) = error(&study(&["merge", path.to_str().unwrap()]));
    assert!(code == Some(4) && said.contains("study.toml"), "{said}");
}

#[test]
fn a_study_that_compares_no_two_schedulers_begins_with_the_best_at_both_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(fig5().join("study.toml")).unwrap();
    let (before, crossover) = text.split_once("[[crossover]]").unwrap();
    let (_, after) = crossover.split_once("[choices.periods]").unwrap();
    let path = scratch.path().join("study.toml");
    fs::write(&path, format!("{before}[choices.periods]{after}")).unwrap();
    let output = study(&[path.to_str().unwrap(), "--sets", "20"]);
    let all = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(all).unwrap().replace("\n  ", " ");
    let best = "The scheduler with the highest weighted schedulability is g-edf at 0 us (1.0000";
    assert!(said.contains(best) && said.contains("at 2000 us"), "{said}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = fig5().to_str().unwrap();
    let with =
        |threads: &str| study(&[folder, "--sets", "50", "--json", "--threads", threads]).stdout;
    assert_eq!(with("1"), with("3"));
}

#[test]
fn counts_are_shown_and_reported_as_what_they_are() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let counts = file("counts.parquet");
    let folder = fig5().to_str().unwrap();
    json(&study(&[folder, "--sets", "20", "--json", "-o", &counts]));
    let corehop = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_corehop")).args(arguments).output().unwrap()
    };
    let words = |arguments: &[&str]| {
        let output = corehop(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let tables = words(&["check", "study", &counts]);
    assert_eq!(words(&["report", "contents", &counts]), tables);
    assert_eq!(words(&["report", &counts]), tables);
    assert!(words(&["report", "contents", &counts, "--rows", "2"]).contains("\"quantity\""));
    assert!(words(&["report", "contents", &counts, "--plan"]).contains("id = \"bastoni-fig5\""));
    let page = file("page.html");
    words(&["report", &counts, "-o", &page]);
    assert!(std::fs::read_to_string(page).unwrap().contains("weighted schedulability"));
    let (code, said) = error(&corehop(&["report", &counts, &counts]));
    assert!(code == Some(2) || said.contains("counts of a study"), "{said}");
    let (code, said) = error(&corehop(&["advise", "fit", &counts]));
    assert!(code == Some(4) && said.contains("corehop check study FILE"), "{said}");
    let (code, said) = error(&corehop(&["report", &counts, "--table", "csv"]));
    assert!(code == Some(2) && said.contains("--rows"), "{said}");
}

#[test]
fn a_study_of_what_preemptions_cost_counts_pairs_of_tests_and_what_is_saved() {
    let studies = fig5().parent().unwrap();
    let folder = studies.join("delays-by-pair");
    let folder = folder.to_str().unwrap();
    let answer = json(&study(&[folder, "--sets", "40", "--json"]));
    let readings = answer["readings"].as_array().unwrap();
    assert_eq!(readings.len(), 4);
    for reading in readings {
        for counts in reading["all"]["compared"].as_array().unwrap() {
            let of = |name: &str| counts[name].as_u64().unwrap();
            assert_eq!(of("with") + of("only_without"), of("without") + of("only_with"));
            assert!(of("with") >= of("without"), "{counts}");
        }
    }
    let printed = study(&[folder, "--sets", "4"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("one/short, edf: sets accepted"), "{printed}");
    // Costs are those of the study, or given; without either it says so.
    let (code, said) = error(&study(&[folder, "--shard", "1/2"]));
    assert!(code == Some(2) && said.contains("--shard"), "{said}");
    let limited = studies.join("limited-preemption");
    let limited = limited.to_str().unwrap();
    let (code, said) = error(&study(&[limited, "--sets", "2"]));
    assert!(code == Some(2) && said.contains("--costs"), "{said}");
    let costs = fig5().join("costs.csv");
    let asked = [limited, "--sets", "2", "--costs", costs.to_str().unwrap()];
    let more = ["--load", "constructed", "--statistic", "avg", "--json"];
    let answer = json(&study(&[&asked[..], &more].concat()));
    for reading in answer["readings"].as_array().unwrap() {
        for it in reading["all"]["limited"].as_array().unwrap() {
            let of = |name: &str| it[name].as_f64().unwrap();
            assert!(of("before") <= of("after"), "{it}");
            assert!(of("preemptions_after") <= of("preemptions_before"), "{it}");
        }
    }
}

#[test]
fn a_study_that_comes_with_the_program_runs_by_its_name_as_from_its_folder() {
    let folder = fig5().to_str().unwrap();
    let [named, from_folder] = ["bastoni-fig5", folder].map(|what| {
        let empty = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_corehop");
        let words = ["check", "study", what, "--sets", "3"];
        Command::new(program).args(words).current_dir(empty.path()).output().unwrap()
    });
    assert_eq!(text(&named), text(&from_folder));
    let ran = study(&["delays-by-pair", "--sets", "2", "--json"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    // This study is there as well, and needs costs.
    let (code, said) = error(&study(&["limited-preemption"]));
    assert!(code == Some(2) && said.contains("--costs"), "{said}");
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_study_that_does_not_exist_is_refused_with_the_names_of_those_that_come_with_the_program() {
    let (code, said) = error(&study(&["bastoni-fig6"]));
    assert_eq!(code, Some(2));
    for word in ["bastoni-fig6", "bastoni-fig5", "delays-by-pair", "limited-preemption"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}
