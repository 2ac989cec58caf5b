// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop offload simulate --on`: the policies on a simulated machine.

use std::process::{Command, Output};

use serde_json::Value;

fn simulate(more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    command.args(["offload", "--on"]).args(more).output().unwrap()
}

fn answer(more: &[&str]) -> Value {
    let output = simulate(&[more, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn arms(more: &[&str]) -> Vec<Value> {
    answer(more)["policies"].as_array().unwrap().clone()
}

const SLOW: [&str; 5] = ["m5_ccss_slow", "--os-cores", "2-3", "--mechanism", "strong-v5"];

#[test]
fn policies_are_compared_with_each_other_and_with_the_cores_without_off_load() {
    let all = arms(&SLOW);
    let names: Vec<&str> = all.iter().map(|arm| arm["arm"].as_str().unwrap()).collect();
    let expected =
        ["unmodified", "bound", "in turns", "af", "wc", "wc,af", "wc,af,pa", "static", "wc,static"];
    assert_eq!(names, expected);
    let of = |name: &str, key: &str| {
        all.iter().find(|arm| arm["arm"] == name).unwrap()[key].as_f64().unwrap()
    };
    assert!(of("unmodified", "there") <= 0.0 && of("bound", "there") <= 0.0);
    assert!(of("af", "there") >= 1.0);
    // Slow OS cores take four times as long: a policy that does not queue there loses less.
    assert!(of("wc", "calls_per_second") > of("af", "calls_per_second"));
    // Without off-load two slow cores more make more calls.
    assert!(of("unmodified", "calls_per_second") > of("bound", "calls_per_second"));
    assert!(of("bound", "calls_per_second") > of("wc", "calls_per_second"));
    // What it is for: the fast cores are powered down for longer.
    assert!(of("af", "quiet") > of("wc", "quiet"));
    assert_eq!(arms(&SLOW), all, "the same seed");
    let one = arms(&[&SLOW[..], &["--policy", "wc,af"]].concat());
    assert_eq!(one.len(), 3);
    assert_eq!(one[2]["calls_per_second"], of("wc,af", "calls_per_second"));
}

#[test]
fn a_thread_more_than_cores_lowers_no_arm_without_off_load() {
    let rates = |threads: &str| -> Vec<f64> {
        let more = ["m5_cccc", "--os-cores", "3", "--mechanism", "v4", "--threads", threads];
        arms(&more).iter().take(2).map(|arm| arm["calls_per_second"].as_f64().unwrap()).collect()
    };
    let [three, four, six] = ["3", "4", "6"].map(rates);
    // All cores, then the three application cores: a fourth thread needs a fourth core.
    assert!(four[0] > 1.25 * three[0] && six[0] > 0.98 * four[0], "{three:?} {four:?} {six:?}");
    assert!(four[1] > 0.98 * three[1] && six[1] > 0.98 * three[1], "{three:?} {four:?} {six:?}");
}

#[test]
fn policies_that_decide_alike_are_said_to_and_the_ways_and_the_energy_are_told() {
    let more = ["m5_ccss", "--os-cores", "2,3", "--threads", "2", "--mechanism", "strong-v5"];
    let json = answer(&[&more[..], &["--call-time", "50us"]].concat());
    let arms = json["policies"].as_array().unwrap();
    for (at, arm) in arms.iter().enumerate() {
        let alike = |other: &Value| {
            let figures =
                ["calls_per_second", "mean_us", "p99_us", "there", "quiet", "microjoules"];
            figures.iter().all(|key| other[key] == arm[key])
        };
        let twin = arms[..at].iter().skip(2).find(|other| at > 2 && alike(other));
        assert_eq!(arm.get("same_as"), twin.map(|twin| &twin["arm"]), "{arm}");
    }
    assert!(arms.iter().any(|arm| arm.get("same_as").is_some()), "{json:#}");
    let sentences = json["sentences"].to_string();
    assert!(
        sentences.contains("least energy") && sentences.contains("to an OS core"),
        "{sentences}"
    );
    let [there, back] = [0, 1].map(|way| json["switch_us"][way].as_f64().unwrap());
    assert!(there > 0.5 && back > 0.5, "{there} {back}");
}

#[test]
fn an_energy_that_is_not_known_is_not_zero() {
    let output = simulate(&["m5_cs", "--os-cores", "1", "--threads", "1", "--mechanism", "v4"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("unknown") && text.contains("active_power"), "{text}");
    let json = arms(&["m5_cs", "--os-cores", "1", "--threads", "1", "--mechanism", "v4"]);
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
