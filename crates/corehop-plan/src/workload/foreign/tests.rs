// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::workload::set_file;

fn of(format: &str, text: &str, stated: Stated) -> Result<Workload, TaskFileError> {
    read(format, text, stated).unwrap()
}

/// The set in a text and the notes about the text.
fn told(format: &str, text: &str) -> (serde_json::Value, String) {
    let read = of(format, text, Stated::default()).unwrap();
    (set_file::write(&read.set), read.notes.join("\n"))
}

#[test]
fn a_table_of_usual_columns_is_the_set_that_it_means() {
    let text = "# mine\nTask; C [ms]; T; D_us; prio; core; wss\n\
                video; 2; 10 ms; 8000; 1; 0-1; 64KiB\n\
                audio; 0.5; 5ms; ; 2; ; \n";
    let (set, notes) = told(CSV, text);
    let expected = serde_json::json!({"cpus": 2, "tasks": [
        {"name": "video", "wcet_us": 2000, "period_us": 10000, "deadline_us": 8000, "priority": 1, "wss_kib": 64, "cpus": [0, 1]},
        {"name": "audio", "wcet_us": 500, "period_us": 5000, "priority": 2, "cpus": [0, 1]}]});
    assert_eq!(set, expected);
    for words in [
        "smaller priority is taken as more urgent",
        "no number of CPUs: 2 is assumed",
        "1 without CPUs may use all 2",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

#[test]
fn yaml_has_tasks_as_a_list_or_by_name_and_the_same_meaning() {
    let expected = serde_json::json!({"cpus": 2, "scheduler": "g-edf", "tasks": [
        {"name": "a", "wcet_us": 0.1, "period_us": 10000}]});
    let list = "cpus: 2\nscheduler: g-edf\ntasks:\n  - {name: a, wcet: 0.1us, period: 10ms}\n";
    let named = "tasks:\n  a:\n    C: 100 ns\n    T: 10 ms\ncpus: 2\nscheduler: g-edf\n";
    assert_eq!((told(YAML, list).0, told(YAML, named).0), (expected.clone(), expected));
    let (set, notes) = told(YAML, "- {C: 1ms, T: 4ms, cpus: [0, 2], offset: 1ms}\n");
    assert_eq!((&set["tasks"][0]["cpus"], &set["cpus"]), (&serde_json::json!([0, 2]), &3.into()));
    assert!(notes.contains("`offset` not used"), "{notes}");
}

#[test]
fn a_number_without_a_unit_is_refused_until_the_user_names_the_unit() {
    let text = "name,C,T\na,2,10\n";
    let error = of(CSV, text, Stated::default()).unwrap_err().to_string();
    assert!(error.starts_with("line 2: `C` is 2: a time without a unit"), "{error}");
    let stated = Stated { unit: Some(TimeUnit::Milli), cpus: Some(3) };
    let read = of(CSV, text, stated).unwrap();
    assert_eq!(
        (read.set.cpus(), read.set.tasks()[0].wcet()),
        (3, crate::workload::task::Time::new(2_000))
    );
    let needless = of(CSV, "name,C_ms,T_ms\na,2,10\n", stated).unwrap_err();
    assert!(
        matches!(&needless, TaskFileError::Option(what) if what.contains("--unit is ms")),
        "{needless}"
    );
}

#[test]
fn what_is_unknown_missing_or_senseless_is_refused_by_its_place() {
    for (format, text, words) in [
        (
            CSV,
            "C_ms,T_ms,deadlin_ms\n1,2,2\n",
            "line 2: `deadlin_ms` is not known (the nearest is `deadline`)",
        ),
        (CSV, "C_ms,T_ms\n1\n", "line 2: 1 cells, but the head has 2 columns"),
        (CSV, "C_ms,T_ms\n,5\n", "task 0: wcet_us is missing"),
        (CSV, "C_ms,T_ms\n-1,5\n", "line 2: `C_ms` is -1: expected a time"),
        (CSV, "C_ms,T_ms,wcet_us\n1,5,3\n", "`wcet_us` and another column have the same meaning"),
        (CSV, "C_ms,T_ms\n1 KiB,5\n", "`C_ms` is 1 KiB: expected a time"),
        (CSV, "C_ms,T_ms,cpu\n1,5,x\n", "`cpu` is x: expected numbers of CPUs"),
        (CSV, "C_ms,T_ms,prio\n1,5,1.5\n", "`prio` is 1.5: expected a whole number"),
        (CSV, "C_ms,T_ms,wss\n1,5,64\n", "`wss` is 64"),
        (CSV, "C_ms,T_ms\n9,5\n", "task 0: wcet_us is 9000"),
        (YAML, "tasks:\n  - {C: 1ms, C: 2ms, T: 5ms}\n", "not valid YAML: `C` is there twice"),
        (YAML, "tasks:\n  - &x {C: 1ms, T: 5ms}\n  - *x\n", "an alias"),
        (YAML, "cores: two\ntasks: []\n", "cores: is two: expected a number of CPUs"),
        (YAML, "quantum: 3\ntasks: []\n", "`quantum`: is not known beside `tasks`"),
        (YAML, "tasks: 3\n", "`tasks` is missing"),
        (YAML, "tasks: [3]\n", "task 0: expected a mapping"),
        (YAML, "tasks:\n  a: {C: {x: 1}, T: 5ms}\n", "task `a`: `C` is a mapping"),
        (YAML, "a: [\n", "not valid YAML"),
        (YAML, "[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", "more than 16 levels"),
    ] {
        let said = of(format, text, Stated::default()).unwrap_err().to_string();
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn an_option_that_contradicts_the_file_is_refused() {
    let stated = Stated { cpus: Some(4), unit: None };
    let error = of(YAML, "cpus: 2\ntasks: [{C: 1ms, T: 5ms}]\n", stated).unwrap_err();
    assert!(
        matches!(&error, TaskFileError::Option(what) if what.contains("--cpus is 4, and the file states 2")),
        "{error}"
    );
}
