// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure core-switch` as a user types it.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::process::{Command, Output};

use serde_json::Value;

fn corehop(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output().unwrap()
}

fn two_cpus() -> bool {
    let two = corehop_system::thread::affinity().unwrap().len() > 1;
    if !two {
        println!("skipped: one CPU is usable, and a core switch needs two");
    }
    two
}

/// A small run into `file`, and its answer.
fn measured(file: &str, more: &[&str]) -> Value {
    let small = ["--samples", "6", "--replicates", "6", "--batch", "60", "--sleeping-batch", "5"];
    let words = ["measure", "core-switch", "-q", "--json", "-o", file];
    let output = corehop(&[&words[..], &small, more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(file: &str) -> Vec<Value> {
    let shown = corehop(&["report", "contents", "--rows", "100000", file]);
    let text = String::from_utf8(shown.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_mechanism_is_measured_between_two_cpus_and_polling_is_the_cheapest_switch() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.parquet").to_string_lossy().into_owned();
    let answer = measured(&file, &["--call", "gettid"]);
    let rows = rows(&file);
    assert_eq!(answer["samples"].as_u64(), Some(rows.len() as u64));
    // A polling thread of the kernel that gets no CPU in time leaves rows without times.
    for row in rows.iter().filter(|row| row["not_measured"].is_null()) {
        let ns = |name: &str| row[name].as_f64().unwrap();
        assert!(0.0 < ns("least_ns") && ns("least_ns") <= ns("p50_ns"), "{row}");
        assert!(ns("p50_ns") <= ns("p99_ns") && ns("p99_ns") <= ns("most_ns"), "{row}");
        assert_ne!(row["from_cpu"], row["to_cpu"]);
    }
    // The shortest times of all batches: what disturbs only adds.
    let least = |mechanism: &str| {
        let of = rows.iter().filter(|row| row["mechanism"] == mechanism && row["outstanding"] == 1);
        of.filter_map(|row| row["mean_ns"].as_f64()).fold(f64::INFINITY, f64::min)
    };
    assert!(least("none") < least("v4"), "{} {}", least("none"), least("v4"));
    assert!(2.0 * least("v4") < least("v1"), "{} {}", least("v4"), least("v1"));
    // The ways that programs use without the library, in the same run: each wakes a thread and is woken, as V2 does.
    for peer in ["futex", "condvar", "eventfd", "pipe", "mpsc", "crossbeam"] {
        assert!(least("v4") < least(peer) && least(peer).is_finite(), "{peer} {}", least(peer));
    }
    // Two workers are as fast as twice one at best.
    let (one, two) = (least("none"), least("second-worker"));
    assert!(0.4 * one < two && two.is_finite(), "{one} {two}");
    let reported = corehop(&["report", &file]);
    let text = String::from_utf8_lossy(&reported.stdout).into_owned();
    assert!(
        text.contains("The cost of a core switch") && text.contains("a switch costs"),
        "{text}"
    );
    let page = folder.path().join("x.html").to_string_lossy().into_owned();
    assert_eq!(corehop(&["report", &file, "-o", &page]).status.code(), Some(0));
    assert!(std::fs::read_to_string(&page).unwrap().contains("Core switches"));
}

#[test]
fn calls_with_a_size_have_a_break_even_and_files_stay_as_they_were() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.parquet").to_string_lossy().into_owned();
    let answer = measured(&file, &["--mechanism", "v4,second-worker", "--bytes", "64B,16KiB"]);
    let summaries = answer["switches"].as_array().unwrap();
    let of = |call: &str, bytes: u64, outstanding: u64| {
        let is = |it: &&Value| {
            it["call"] == call && it["bytes"] == bytes && it["outstanding"] == outstanding
        };
        summaries.iter().filter(is).find(|it| it["mechanism"] == "v4").unwrap()
    };
    for bytes in [64, 16 << 10] {
        for call in ["pread", "pwrite"] {
            let is = |outstanding: u64, answer: &str, known: &[&str]| {
                let it = &of(call, bytes, outstanding)[answer];
                assert!(known.iter().any(|known| it["when"] == *known), "{it}");
                // A pair that changed its class has fewer replicates in each.
                let replicates = it["replicates"].as_u64().or(it["to"]["replicates"].as_u64());
                assert!(replicates.is_some_and(|it| (1..=6).contains(&it)), "{it}");
            };
            // On a busy machine six replicates may not tell.
            is(1, "pays", &["faster_there", "not_enough"]);
            is(16, "pays", &["own_work", "never", "not_enough"]);
            is(1, "instead", &["never", "own_work", "not_enough"]);
            is(16, "instead", &["never", "own_work", "not_enough"]);
        }
    }
}

/// A file from before there were workers of other ways, second workers and numbers of replicates in the answers.
#[test]
fn a_file_of_an_earlier_build_has_its_ladder_and_its_break_even() {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/2026-11-24-guest-2cpu/switches.parquet");
    let output = corehop(&["report", file, "--table", "text"]);
    let folded = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{folded}");
    let text = folded.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["a switch costs", "v4", "faster there (n=", "not enough evidence"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("without the library"), "{text}");
    assert!(text.contains("unknown: measure second-worker too"), "{text}");
    assert!(folded.lines().all(|line| line.chars().count() <= 100), "{folded}");
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.parquet").to_string_lossy().into_owned();
    let refused = |more: &[&str], code: i32, part: &str| {
        let words = ["measure", "core-switch", "-q", "-o", &file];
        let output = corehop(&[&words[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains(part), "{more:?}: {said}");
        assert!(!std::path::Path::new(&file).exists());
    };
    refused(&["--pair", "0"], 2, "0:1");
    refused(&["--mechanism", "v9"], 2, "v5");
    refused(&["--samples", "0"], 2, "30 batches");
    refused(&["--pair", "0:0"], 2, "two different CPUs");
    refused(&["--pair", "0:4095"], 2, "4095");
    refused(&["--outstanding", "65"], 2, "1 to 64");
    refused(&["--call", "pwrite", "--bytes", "2MiB"], 2, "1048576");
    refused(&["--pair", "0:1", "--cpus", "0,1"], 2, "--cpus");
    refused(&["--on", "m5_cs", "--call", "pwrite"], 3, "--on live");
    refused(&["--on", "m5_c"], 3, "one usable CPU");
    refused(&["--mechanism", "strong-v4"], 3, "simulated only");
}

#[test]
fn what_wakes_is_unknown_on_a_platform_that_states_no_wake_up_and_the_rest_is_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.parquet").to_string_lossy().into_owned();
    let run = |mechanisms: &str| {
        let words = ["measure", "core-switch", "-q", "--force", "-o", &file, "--on", "m5_cs"];
        let output =
            corehop(&[&words[..], &["--samples", "6", "--mechanism", mechanisms]].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = run("v2,v4,strong-v4");
    let row = |name: &str| {
        let found = text.lines().find(|line| line.split_whitespace().any(|word| word == name));
        found.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    assert_eq!(code, Some(0), "{text}");
    assert!(row("v2").contains("not measured") && text.contains("core.futex_wake"), "{text}");
    assert!(!row("v4").contains("not measured") && !row("strong-v4").contains("not measured"));
    // What was never measured is tried a few times and not more, in each of several replicates.
    let tried = rows(&file).iter().filter(|row| row["mechanism"] == "v2").count();
    assert!((1..15).contains(&tried), "{tried}");
    // Nothing that was asked for is known.
    let (code, text) = run("v2");
    assert_eq!(code, Some(1), "{text}");
}

/// The ladder on this host and on its own platform: each mechanism within a factor of two, where the host is calm enough to say
/// so. A busy host is slower than its platform, so that only factors beyond what load explains fail.
#[test]
fn the_simulated_ladder_of_this_host_is_near_the_live_one() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (platform, live, simulated) =
        (path("here.toml"), path("live.parquet"), path("sim.parquet"));
    let found = corehop(&["measure", "platform", "--watch", "0", "-o", &platform]);
    assert_eq!(found.status.code(), Some(0), "{}", String::from_utf8_lossy(&found.stderr));
    let lowest = |answer: &Value, mechanism: &str| {
        let all = answer["switches"].as_array().unwrap().iter();
        let of = all.filter(|it| it["mechanism"] == mechanism && it["outstanding"] == 1);
        of.filter_map(|it| it["range_ns"][0].as_f64()).fold(f64::INFINITY, f64::min)
    };
    let live = measured(&live, &["--call", "gettid", "--pair", "0:1"]);
    let simulated = measured(&simulated, &["--on", &platform, "--pair", "0:1"]);
    for mechanism in ["none", "v1", "v2", "v3", "v4", "v5"] {
        let (there, here) = (lowest(&live, mechanism), lowest(&simulated, mechanism));
        println!("{mechanism}: live {there:.0} ns at least, simulated {here:.0} ns");
        assert!(here.is_finite() && here > 0.0, "{mechanism}: {simulated}");
        assert!(there.is_infinite() || (0.1..10.0).contains(&(here / there)), "{mechanism}");
    }
}
