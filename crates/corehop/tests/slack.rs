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
    assert_eq!(
        no["changes"][0]["what"],
        "with other CPUs for its tasks: CPU 0: task 0; CPU 1: task 1"
    );
    assert_eq!(answer(pinned, &["--ignore-cpus"])["schedulable"], true);
    // Many tasks are asked where that is wished.
    let task = r#"{"wcet_us":1,"period_us":1000}"#;
    let many = format!(r#"{{"cpus":1,"tasks":[{}]}}"#, vec![task; 21].join(","));
    assert!(answer(&many, &[])["slack"].is_null());
    assert!(answer(&many, &["--slack"])["slack"].is_object());
}

/// Runs `corehop check` on a set in a folder with more words, and gives its exit code and both outputs.
fn check(folder: &std::path::Path, text: &str, more: &[&str]) -> (Option<i32>, String, String) {
    std::fs::write(folder.join("set.json"), text).unwrap();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_corehop"));
    let output = program.current_dir(folder).args([&["check", "set.json"], more].concat());
    let output = output.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const DHALL: &str = r#"{"cpus":2,"scheduler":"g-edf","tasks":[{"name":"a","wcet_us":1000,"period_us":10000},
    {"name":"b","wcet_us":1000,"period_us":10000},{"name":"c","wcet_us":11000,"period_us":11000}]}"#;

#[test]
fn an_unknown_shows_the_first_miss_as_bars_and_as_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let (code, text, _) = check(folder.path(), DHALL, &["--gantt", "miss.svg"]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("`c` ends 1 ms after its deadline if all tasks are released at once"),
        "{text}"
    );
    let bar = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("  {name} ")));
        line.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
    };
    // `a` and `b` have both CPUs; then `c` has the first one until the end.
    assert!(bar("a").contains("000") && bar("b").contains("111"), "{text}");
    assert!(bar("c").contains("..000") && bar("c").ends_with("000"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let svg = std::fs::read_to_string(folder.path().join("miss.svg")).unwrap();
    for expected in
        ["1 ms late", "CPU 1", "due at 11 ms", "released at 10 ms", "prefers-color-scheme:dark"]
    {
        assert!(svg.contains(expected), "{expected}: {svg}");
    }
    let (_, json, _) = check(folder.path(), DHALL, &["--json"]);
    let miss = serde_json::from_str::<serde_json::Value>(&json).unwrap()["miss"].clone();
    let schedule = &miss["schedule"];
    let subject = &schedule["jobs"][schedule["subject"].as_u64().unwrap() as usize];
    assert_eq!(
        (&miss["late_us"], &subject["task"], &subject["ended_us"]),
        (&1000.into(), &2.into(), &12000.into())
    );
}

#[test]
fn a_yes_draws_its_busiest_window_and_what_cannot_be_drawn_is_said() {
    let folder = tempfile::tempdir().unwrap();
    // Five jobs of the second, by when it is least in time (Lehoczky 1990).
    let text = r#"{"cpus":1,"tasks":[{"wcet_us":26,"period_us":70,"priority":1},
        {"wcet_us":62,"period_us":100,"deadline_us":118,"priority":2}]}"#;
    let (code, said, _) = check(folder.path(), text, &["--gantt", "yes.svg"]);
    assert_eq!(code, Some(0), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts =
        "task 1 responds within 118 us of 118 us: 310 us of its own (5 jobs), 208 us of task 0 (8";
    assert!(said.contains(parts) && said.contains("less 400 us before its arrival"), "{said}");
    assert!(said.contains("task 1 responds after 118 us, the longest in 1 simulation"), "{said}");
    assert!(folder.path().join("yes.svg").exists());
    // Below U = m no schedule of two tasks misses on as many CPUs, and what eevdf does is not simulated.
    let (_, said, notes) =
        check(folder.path(), text, &["--scheduler", "eevdf", "--gantt", "none.svg"]);
    assert!(said.contains("not simulated") && notes.contains("none.svg: "), "{said} {notes}");
    assert!(!folder.path().join("none.svg").exists());
    let (code, _, error) = check(folder.path(), text, &["--test", "all", "--gantt", "all.svg"]);
    assert!(code == Some(2) && error.contains("--gantt"), "{error}");
}

#[test]
fn a_change_in_json_is_a_set_that_check_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let (_, json, _) = check(folder.path(), DHALL, &["--delay", "100us", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let changes = answer["changes"].as_array().unwrap();
    assert!(changes.len() >= 2, "{changes:?}");
    for change in changes {
        let (code, said, _) =
            check(folder.path(), &change["set"].to_string(), &["--delay", "100us"]);
        assert_eq!(code, Some(0), "{}: {said}", change["what"]);
    }
}

#[test]
fn smaller_working_sets_are_named_where_costs_grow_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [4, 64, 256, 1024];
    let row = |kib: &u64| format!("idle,preemption,max,{kib},{}\n", kib * 2);
    let table: String = sizes.iter().map(row).collect();
    let costs = format!("load,event,statistic,wss_kib,cost_us\n{table}");
    std::fs::write(folder.path().join("costs.csv"), costs).unwrap();
    // By hand: 2000 + 2 (d + 1000) by 5000 leaves d = 500, the cost of 250 KiB.
    let text = r#"{"cpus":1,"tasks":[{"wcet_us":1000,"period_us":2500,"wss_kib":4},
        {"name":"big","wcet_us":2000,"period_us":5000,"wss_kib":1024}]}"#;
    let (code, said, _) = check(folder.path(), text, &["--costs", "costs.csv"]);
    assert_eq!(code, Some(1));
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let kib: u64 = flat
        .split_once("with a working set of ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("{said}"));
    assert!((248..=250).contains(&kib), "{said}");
}
