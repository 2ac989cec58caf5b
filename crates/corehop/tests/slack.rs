// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check` says how far its answer is from the other one.

#[test]
fn a_yes_says_how_much_more_fits_and_a_no_what_would_make_it_a_yes() {
    let yes = r#"{"cpus":1,"tasks":[{"wcet_us":2000,"period_us":10000},{"wcet_us":6000,"period_us":20000}]}"#;
    let answer = |text: &str, more: &[&str]| -> serde_json::Value {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.json");
        std::fs::write(&path, text).unwrap();
        let words = [&["check", path.to_str().unwrap(), "--json"][..], more].concat();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).output();
        serde_json::from_slice(&output.unwrap().stdout).unwrap()
    };
    let slack = &answer(yes, &[])["slack"];
    assert!(
        (1_990..=2_000).contains(&slack["every_wcet_thousandths"].as_u64().unwrap()),
        "{slack}"
    );
    assert!((3_300..=3_333).contains(&slack["delay_us"].as_u64().unwrap()), "{slack}");
    // With a delay that is charged already, less is left, and no delay is asked for.
    let charged = &answer(yes, &["--delay", "1ms"])["slack"];
    assert!(charged["every_wcet_thousandths"].as_u64() < slack["every_wcet_thousandths"].as_u64());
    assert!(charged["delay_us"].is_null());
    let pinned = r#"{"cpus":2,"tasks":[{"wcet_us":6000,"period_us":10000,"cpus":[0]},
        {"wcet_us":5000,"period_us":10000,"cpus":[0]}]}"#;
    let no = answer(pinned, &[]);
    assert_eq!(no["schedulable"], false);
    assert_eq!(no["changes"][0]["what"], "with other CPUs for its tasks");
    assert_eq!(answer(pinned, &["--ignore-cpus"])["schedulable"], true);
    // Many tasks are asked where that is wished.
    let task = r#"{"wcet_us":1,"period_us":1000}"#;
    let many = format!(r#"{{"cpus":1,"tasks":[{}]}}"#, vec![task; 21].join(","));
    assert!(answer(&many, &[])["slack"].is_null());
    assert!(answer(&many, &["--slack"])["slack"].is_object());
}
