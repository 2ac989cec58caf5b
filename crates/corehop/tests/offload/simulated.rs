// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop offload simulate --on`: the policies on a simulated machine.

use std::process::{Command, Output};

use serde_json::Value;

fn simulate(more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(["offload", "--on"]).args(more).output().unwrap()
}

fn policies(more: &[&str]) -> Vec<Value> {
    let output = simulate(&[more, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["policies"].as_array().unwrap().clone()
}

#[test]
fn policies_are_compared_with_each_other_and_with_none() {
    let all = policies(&["m5_ccss_slow", "--os-cores", "2-3", "--mechanism", "strong-v5"]);
    assert_eq!(all.len(), 8);
    let of = |name: &str, key: &str| {
        let found = all.iter().find(|it| it["policy"].as_str() == Some(name)).unwrap();
        found[key].as_f64().unwrap()
    };
    assert!(all[0]["policy"].is_null() && all[0]["there"] == 0.0, "{}", all[0]);
    assert!(of("af", "there") >= 1.0);
    // Slow OS cores take four times as long: a policy that does not queue there loses less.
    assert!(of("wc", "calls_per_second") > of("af", "calls_per_second"));
    assert!(all[0]["calls_per_second"].as_f64().unwrap() > of("wc", "calls_per_second"));
    // What it is for: the fast cores are powered down for longer.
    assert!(of("af", "quiet") > of("wc", "quiet"));
    assert_eq!(
        policies(&["m5_ccss_slow", "--os-cores", "2-3", "--mechanism", "strong-v5"]),
        all,
        "the same seed"
    );
    let one = policies(&[
        "m5_ccss_slow",
        "--os-cores",
        "2-3",
        "--mechanism",
        "strong-v5",
        "--policy",
        "wc,af",
    ]);
    assert_eq!(one.len(), 2);
    assert_eq!(one[1]["calls_per_second"], of("wc,af", "calls_per_second"));
}

#[test]
fn an_energy_that_is_not_known_is_not_zero() {
    let output = simulate(&["m5_cs", "--os-cores", "1", "--threads", "1", "--mechanism", "v4"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("unknown") && text.contains("active_power"), "{text}");
    let json = policies(&["m5_cs", "--os-cores", "1", "--threads", "1", "--mechanism", "v4"]);
    assert!(json[1]["microjoules"].is_null(), "{}", json[1]);
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let refused = |more: &[&str], code: i32, part: &str| {
        let output = simulate(more);
        let text = String::from_utf8_lossy(&output.stderr).replace("\n         ", " ");
        assert_eq!(output.status.code(), Some(code), "{more:?}: {text}");
        assert!(text.contains(part), "{more:?}: {text}");
    };
    refused(&["nowhere", "--os-cores", "1"], 2, "unknown platform `nowhere`");
    refused(&["m5_cs", "--os-cores", "0-1", "--mechanism", "v4"], 3, "no core is left");
    refused(&["m5_cs", "--os-cores", "9", "--mechanism", "v4"], 3, "its cores are 0-1");
    // The default wakes, and this platform states no wake-up.
    refused(&["m5_cs", "--os-cores", "1"], 1, "states no wake-up");
    refused(&["m5_cs", "--os-cores", "1", "--threads", "0"], 2, "--threads");
    refused(&["m5_cs", "--os-cores", "1", "--", "true"], 2, "--on");
    refused(&["m5_cs", "--os-cores", "1", "--coverage"], 2, "--coverage");
}
