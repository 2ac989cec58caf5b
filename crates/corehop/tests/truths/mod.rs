// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ten answers, each against its truth.

use std::fs;
use std::path::Path;
use std::process::Output;

use corehop_fixtures::text;
use serde_json::{Value, json};

use crate::quoted::recipes;
use crate::recipe::short;
use crate::{alone, could_not_look, follow, page_of, said};

/// A machine like `xeon_x5650` on which a line from the neighbour's cache takes longer than 81 cycles.
const PLANTED: &str = "planted.toml";

/// A machine on which such a line takes twice as long.
fn plant(folder: &Path) {
    plant_cycles(folder, 162);
}

fn plant_cycles(folder: &Path, cycles: u32) {
    let known = text("platforms/xeon_x5650.toml");
    let planted = known
        .replace("id = \"xeon_x5650\"", "id = \"planted\"")
        .replace("value = \"81 cycles\"", &format!("value = \"{cycles} cycles\""));
    assert_ne!(known, planted);
    fs::write(folder.join(PLANTED), planted).unwrap();
}

fn nothing(_: &Path) {}

/// The short form on a simulated machine, with a working set of 64 KiB. Few samples end the run, not a time: a busy host would lack
/// samples.
fn simulated(command: &str) -> String {
    let words = command.replace("256KiB", "64KiB");
    let kept = words.split(' ').scan(false, |of_budget, word| {
        let is_time = std::mem::replace(of_budget, word == "--budget");
        Some(if is_time || word == "--budget" { None } else { Some(word) })
    });
    short(&kept.flatten().collect::<Vec<_>>().join(" "), false)
}

/// The medians of a file's cells, in us, by event.
fn medians(table: &Output) -> Vec<(String, f64)> {
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let medians = rows.filter(|row| row.get(6) == Some(&"p50"));
    medians.map(|row| (row[3].to_owned(), row[8].parse().unwrap())).collect()
}

fn median_of(all: &[(String, f64)], event: &str) -> f64 {
    all.iter().find(|(name, _)| name == event).unwrap_or_else(|| panic!("{event}: {all:?}")).1
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", said(output)))
}

/// A time such as `3.85 µs` after these words.
fn us_after(text: &str, words: &str) -> f64 {
    let (_, after) = text.split_once(words).unwrap_or_else(|| panic!("no `{words}` in {text}"));
    after.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn question_1_finds_the_cost_that_was_planted_in_a_simulated_machine_and_nothing_else() {
    let known = follow(1, nothing, |_, command| simulated(command));
    let told = known.said();
    let table = "corehop report mine.parquet --table csv";
    let before = medians(&known.then(table));
    let on = |_: usize, command: &str| simulated(command).replace("xeon_x5650", PLANTED);
    let planted = follow(1, plant, on);
    let after = medians(&planted.then(table));
    for alike in ["idle_leave", "preemption"] {
        let (a, b) = (median_of(&before, alike), median_of(&after, alike));
        assert!((a - b).abs() < 0.01 * a, "{alike}: {a} and {b} us");
    }
    // 1,024 lines, each at most 81 cycles of 2.66 GHz later.
    let grown = median_of(&after, "l3_migration") - median_of(&before, "l3_migration");
    let most = 1024.0 * 81.0 / 2660.0;
    assert!(grown > 0.1 * most && grown <= 1.02 * most, "{grown} of at most {most} us");
    // The sentence has the control and the migrations of one company and length, and their medians.
    let (alike, apart) = told.split_once(" If a preemptor walked").unwrap();
    assert!(
        alike.contains("leaving the CPU (the control) costs")
            && !alike.contains("preemption costs")
    );
    assert!(apart.contains("a preemption costs"), "{told}");
    let control = us_after(alike, "the control) costs ");
    let migration = us_after(alike, "an L3 migration ");
    assert!((control - median_of(&before, "idle_leave")).abs() < 0.01 * control, "{told}");
    assert!((migration - median_of(&before, "l3_migration")).abs() < 0.01 * migration, "{told}");
}

#[test]
fn question_2_gives_the_margin_that_the_bound_of_edf_gives_and_simulation_refutes_more() {
    let followed = follow(2, nothing, |_, command| simulated(command));
    assert!(followed.said().starts_with("yes"), "{}", followed.said());
    let told = answer(&followed.then("corehop check set.json --costs costs.parquet --json"));
    let set = fs::read_to_string(followed.folder.path().join("set.json")).unwrap();
    let set: Value = serde_json::from_str(&set).unwrap();
    let tasks = set["tasks"].as_array().unwrap();
    let us = |task: &Value, name: &str| task[name].as_f64().unwrap();
    let used: f64 = tasks.iter().map(|it| us(it, "wcet_us") / us(it, "period_us")).sum();
    let delays = told["delays_us"].as_array().unwrap();
    let charged = tasks.iter().zip(delays);
    let lost: f64 = charged.map(|(it, delay)| delay.as_f64().unwrap() / us(it, "period_us")).sum();
    // EDF on one CPU meets implicit deadlines exactly up to a utilisation of one.
    let margin = told["slack"]["every_wcet_thousandths"].as_f64().unwrap() / 1e3;
    let bound = (1.0 - lost) / used;
    assert!((margin - bound).abs() < 0.02 * bound, "{margin} against {bound}: {told}");
    let grown = |factor: f64| {
        let grow = |task: &Value| {
            let mut task = task.clone();
            task["wcet_us"] = json!((us(&task, "wcet_us") * factor).ceil());
            task
        };
        let tasks: Vec<Value> = tasks.iter().map(grow).collect();
        let grown = json!({"cpus": set["cpus"], "tasks": tasks});
        fs::write(followed.folder.path().join("grown.json"), grown.to_string()).unwrap();
        followed.then("corehop check grown.json --costs costs.parquet --gantt miss.svg --force")
    };
    let less = grown(0.95 * margin);
    assert!(said(&less).starts_with("yes"), "{}", said(&less));
    let more = grown(1.05 * margin);
    assert_eq!(more.status.code(), Some(1));
    assert!(said(&more).starts_with("no") && said(&more).contains("miss"), "{}", said(&more));
}

#[test]
fn question_3_finds_the_crossing_of_the_printed_figure() {
    let followed = follow(3, nothing, |_, command| short(command, false));
    let told = followed.said();
    assert!(
        told.starts_with("g-edf is preferable to p-edf with 0 us if the delay of g-edf is below "),
        "{told}"
    );
    // Fig. 5 of the paper: the curve of G-EDF falls below that of P-EDF without delays between 500 and 1,000 us.
    let crossing = us_after(&told, "with 0 us if the delay of g-edf is below ");
    assert!((500.0..1000.0).contains(&crossing), "{told}");
}

#[test]
fn question_4_finds_a_planted_change_and_finds_none_where_there_is_none() {
    let seeded = |at: usize, command: &str| {
        let command = simulated(command);
        if at == 1 { format!("{command} --seed 2") } else { command }
    };
    let equal = follow(4, nothing, seeded);
    assert!(equal.said().starts_with("No sign that B is slower"), "{}", equal.said());
    assert_eq!(equal.outputs.last().unwrap().status.code(), Some(0));
    let slowed = |at: usize, command: &str| {
        let command = simulated(command);
        if at == 1 { command.replace("xeon_x5650", PLANTED) } else { command }
    };
    let slower = follow(4, plant, slowed);
    assert!(slower.said().starts_with("B is slower than A in 1 of"), "{}", slower.said());
    assert!(slower.said().contains("most in l3_migration"), "{}", slower.said());
    assert_eq!(slower.outputs.last().unwrap().status.code(), Some(1));
}

/// Most of a migration's cost is lines from the neighbour, so that 12, 22 and 55 % more for a line are some 10, 20 and 50 % more for
/// the migration.
#[test]
fn question_4_finds_planted_changes_of_10_20_and_50_percent_in_the_class_that_has_them() {
    for cycles in [91, 99, 126] {
        let slowed = |at: usize, command: &str| {
            let command = simulated(command);
            let many = "--event idle_leave,l3_migration --length 4ms --samples 150";
            match command.split_once(" --samples 12") {
                Some((before, after)) if at < 2 => {
                    let events = before.split(" --event").next().unwrap_or(before);
                    let machine = if at == 1 {
                        events.replace("xeon_x5650", PLANTED)
                    } else {
                        events.to_owned()
                    };
                    format!("{machine} {many}{after}")
                }
                _ => command,
            }
        };
        let slower = follow(4, |folder| plant_cycles(folder, cycles), slowed);
        let said = slower.said();
        assert!(said.starts_with("B is slower than A in"), "{cycles} cycles: {said}");
        assert!(said.contains("most in l3_migration"), "{cycles} cycles: {said}");
        assert_eq!(slower.outputs.last().unwrap().status.code(), Some(1));
    }
}

/// A program that computes, and then writes down what the kernel counted for it: ns on a CPU, and ns of waiting.
const COUNTED: &str = "#!/bin/sh
i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done
cat /proc/$$/schedstat > schedstat
";

/// Two threads that only compute.
const PARALLEL: &str = "#!/bin/sh
burn() { i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; }
burn & burn; wait
";

/// The command of a recipe with this program in place of its own.
fn with_program(command: &str, program: &str) -> String {
    match command.split_once(" -- ") {
        Some((before, _)) => format!("{before} -- sh {program}"),
        None => command.to_owned(),
    }
}

#[test]
fn question_5_counts_the_waiting_that_the_kernel_counted() {
    let _alone = alone();
    let bring = |folder: &Path| fs::write(folder.join("program"), COUNTED).unwrap();
    let brief = |_: usize, command: &str| {
        let command = with_program(command, "program");
        if command.contains("program-costs") { short(&command, false) } else { command }
    };
    let followed = follow(5, bring, brief);
    if followed.outputs.iter().any(|it| could_not_look(5, it)) {
        return;
    }
    assert!(followed.said().contains("waited"), "{}", followed.said());
    let again = "corehop record --costs none --json -- taskset -c 0 sh program";
    let hog = followed.then(&format!(
        "taskset -c 0 sh -c 'while :; do :; done' & hog=$!; {again}; ended=$?; kill $hog; exit $ended"
    ));
    let told = answer(&hog);
    if told["rung"] != "bpf" {
        println!("question 5: could not look: recorded by {}", told["rung"]);
        return;
    }
    let counted = fs::read_to_string(followed.folder.path().join("schedstat")).unwrap();
    let counted: Vec<f64> = counted.split_whitespace().map(|it| it.parse().unwrap()).collect();
    let waited = told["waited_ns"].as_f64().unwrap();
    assert!(waited > 0.2 * counted[0], "a hog had the CPU half of the time: {waited} {counted:?}");
    assert!(told["sentence"].as_str().unwrap().contains("waited"), "{told}");
    assert!((waited - counted[1]).abs() < 0.1 * counted[1] + 2e7, "{waited} against {counted:?}");
}

#[test]
fn question_6_does_not_pin_two_threads_that_compute_to_one_cpu() {
    let _alone = alone();
    let bring = |folder: &Path| fs::write(folder.join("program"), PARALLEL).unwrap();
    let followed = follow(6, bring, |_, command| {
        with_program(command, "program").replace(" -- ", " --duration 12s -- ")
    });
    let output = followed.outputs.last().unwrap();
    if could_not_look(6, output) {
        return;
    }
    let told = followed.said();
    // Half of the CPUs cannot be faster, and on a busy host the trial says that nothing is known.
    assert!(!told.contains("(one-cpu):"), "{told}");
    assert_eq!(told.starts_with("Pin to"), output.status.code() == Some(0), "{told}");
}

#[test]
fn question_7_names_the_two_processes_that_were_built_as_a_pair() {
    let _alone = alone();
    let followed = follow(7, nothing, |_, command| command.replace("timeout 30", "timeout 6"));
    let output = followed.outputs.last().unwrap();
    if could_not_look(7, output) {
        return;
    }
    let told = followed.said();
    let (_, pair) = told.split_once("wake-ups/s").unwrap_or_else(|| panic!("{told}"));
    assert!(!pair.is_empty() && told.contains("yes (") && told.contains("cat ("), "{told}");
}

#[test]
fn question_8_ranks_polling_before_the_ways_that_sleep() {
    let _alone = alone();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let brief = |_: usize, command: &str| format!("{command} --samples 5 --json");
        let followed = follow(8, nothing, brief);
        if could_not_look(8, followed.outputs.last().unwrap()) {
            return;
        }
        let told = answer(followed.outputs.last().unwrap());
        let median = |mechanism: &str| {
            let all = told["switches"].as_array().unwrap();
            let of = all.iter().find(|it| it["mechanism"] == mechanism)?;
            of["percentiles_ns"][1].as_f64()
        };
        seen = ["none", "v5", "futex", "pipe"].map(median).to_vec();
        let [Some(none), Some(polls), Some(futex), Some(pipe)] = seen[..] else { continue };
        if none < polls && polls < futex.min(pipe) {
            return;
        }
    }
    println!("question 8: could not look: the other CPU did not take the calls in time: {seen:?}");
}

#[test]
fn question_9_errs_little_on_printed_rows_that_were_held_out() {
    let page = text(&page_of(9));
    let held_out = recipes(&page).into_iter().flat_map(|it| it.commands);
    let held_out = held_out.filter(|it| it.starts_with("corehop sim validate")).collect::<Vec<_>>();
    assert_eq!(held_out.len(), 1, "{held_out:?}");
    let followed = follow(9, nothing, |_, command| {
        short(&command.replace("--samples 40", "--samples 4"), false)
    });
    assert!(followed.said().contains("simulated, not measured"), "{}", followed.said());
    let judged = followed.then(&format!("{} --samples 2", held_out[0]));
    let told = said(&judged);
    let (_, averages) = told.split_once("averages: judged: ").unwrap_or_else(|| panic!("{told}"));
    let error = us_after(averages, "median error ");
    assert!(error < 15.0, "a median error of {error} %: {told}");
}

#[test]
fn question_10_states_the_constant_that_the_medians_give() {
    let even = |command: &str| match command.strip_prefix("corehop measure") {
        // As many samples in each replicate give an interval.
        Some(_) => simulated(&format!("{command} --samples 10")),
        None => command.to_owned(),
    };
    let followed = follow(10, nothing, |_, command| even(command));
    let told = followed.said();
    let stated = us_after(&told, "sched_migration_cost_ns: ") / 1e3;
    let all = medians(&followed.then("corehop report mine.parquet --table csv"));
    let expected = median_of(&all, "l3_migration") - median_of(&all, "idle_leave");
    assert!((stated - expected).abs() < 0.15 * expected, "{stated} against {expected}: {told}");
}
