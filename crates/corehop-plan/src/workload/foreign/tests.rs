// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of task sets in the files of other programs.

use super::*;
use crate::workload::set_file;

fn of(format: &str, text: &str, stated: Stated) -> Result<Workload, TaskFileError> {
    read(format, text, stated).unwrap()
}

/// Returns the task set of a text, with the notes about the text.
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
        "no number of CPUs, so corehop assumes 2",
        "the tasks without CPUs (1) may use all 2",
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
    assert!(notes.contains("corehop ignores `offset`"), "{notes}");
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
            "line 2: `deadlin_ms` is not a known column (the nearest is `deadline`)",
        ),
        (CSV, "C_ms,T_ms\n1\n", "line 2: this line has 1 cells, but the header has 2 columns"),
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
        (YAML, "quantum: 3\ntasks: []\n", "`quantum`: is not a known key"),
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
        matches!(&error, TaskFileError::Option(what) if what.contains("--cpus is 4, but the file states 2")),
        "{error}"
    );
}

const SCHEDCAT_SET: &str = r#"<?xml version="1.0"?>
<taskset><properties utilization="0.7"/>
  <task id="1" wcet="2.5" period="10" partition="0" wss="64"/>
  <task id="2" wcet="3" period="20" deadline="15" partition="1" response_time="4"/></taskset>"#;

#[test]
fn a_set_of_schedcat_is_in_microseconds_and_says_so() {
    let (set, notes) = told(SCHEDCAT, SCHEDCAT_SET);
    let expected = serde_json::json!({"cpus": 2, "tasks": [
        {"name": "1", "wcet_us": 2.5, "period_us": 10, "cpus": [0], "wss_kib": 64},
        {"name": "2", "wcet_us": 3, "period_us": 20, "deadline_us": 15, "cpus": [1]}]});
    assert_eq!(set, expected);
    assert!(notes.contains("times are taken as microseconds"), "{notes}");
}

const SIMULATION: &str = r#"<simulation duration="420000000" cycles_per_ms="1000000" etm="wcet">
  <sched className="schedulers/EDF.py" overhead="0"/><caches memory_access_time="100"/>
  <processors><processor name="CPU 1" id="1"/><processor name="CPU 2" id="2"/></processors>
  <tasks><task name="T1" id="1" period="7" activationDate="0" WCET="3.3333333333" deadline="7" instructions="0" mix="0.5"
    base_cpi="1.0" task_type="Periodic" abort_on_miss="yes" list_activation_dates=""/></tasks></simulation>"#;

#[test]
fn a_simulation_of_simso_is_in_milliseconds_on_its_processors() {
    let (set, notes) = told(SIMSO, SIMULATION);
    let task = serde_json::json!({"name": "T1", "wcet_us": 3333.334, "period_us": 7000});
    assert_eq!(set, serde_json::json!({"cpus": 2, "tasks": [task]}));
    for words in
        ["the scheduler `schedulers/EDF.py`", "caches, costs", "ignores `offset`", "rounded"]
    {
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

const MODEL: &str = r#"<cheddar><core_units><core_unit id="1"><name>c</name></core_unit></core_units>
  <processors><mono_core_processor id="2"><name>p</name><core><core_unit ref="1"/></core></mono_core_processor></processors>
  <tasks><periodic_task id="3"><name>a</name><cpu_name>p</cpu_name><capacity>2</capacity><deadline>8</deadline>
      <priority>1</priority><start_time>0</start_time><period>10</period></periodic_task>
    <periodic_task id="4"><name>b</name><cpu_name>p</cpu_name><capacity>1</capacity><deadline>5</deadline>
      <priority>9</priority><period>5</period></periodic_task></tasks></cheddar>"#;

#[test]
fn a_model_of_cheddar_needs_its_unit_and_its_largest_priority_is_rank_0() {
    let error = of(CHEDDAR, MODEL, Stated::default()).unwrap_err().to_string();
    assert!(error.contains("a time without a unit"), "{error}");
    let stated = Stated { unit: Some(TimeUnit::Milli), cpus: None };
    let read = of(CHEDDAR, MODEL, stated).unwrap();
    let expected = serde_json::json!({"cpus": 1, "tasks": [
        {"name": "a", "wcet_us": 2000, "period_us": 10000, "deadline_us": 8000, "priority": 8, "cpus": [0]},
        {"name": "b", "wcet_us": 1000, "period_us": 5000, "priority": 0, "cpus": [0]}]});
    assert_eq!(set_file::write(&read.set), expected);
    let notes = read.notes.join("\n");
    assert!(notes.contains("rank 0 is priority 9") && notes.contains("start_time"), "{notes}");
    let one = of(CHEDDAR, &MODEL.replace(">9<", ">1<"), stated).unwrap();
    assert!(one.set.tasks().iter().all(|task| task.priority().is_none()));
}

#[test]
fn what_models_have_and_no_task_set_has_is_refused_by_line() {
    let two = format!("<testpoint>{0}{0}</testpoint>", SCHEDCAT_SET.split_once("?>").unwrap().1);
    let resources = SCHEDCAT_SET.replace("/></taskset>", "><resources/></task></taskset>");
    for (format, text, words) in [
        (SCHEDCAT, SCHEDCAT_SET.replace("wss=", "color="), "line 3, <task>: `color` is 64"),
        (SCHEDCAT, resources, "line 4, <resources>"),
        (SCHEDCAT, two, "2 task sets"),
        (SCHEDCAT, SCHEDCAT_SET.replace("wcet=\"3\"", ""), "task 1 (`2`): wcet_us is missing"),
        (
            SCHEDCAT,
            SCHEDCAT_SET.replace("/></taskset>", "><suspension/></task></taskset>"),
            "line 4, <suspension>",
        ),
        (SIMSO, SIMULATION.replace("id=\"2\"/>", "id=\"2\" speed=\"0.5\"/>"), "`speed` is 0.5"),
        (SIMSO, SIMULATION.replace("overhead=\"0\"", "overhead=\"7\""), "`overhead` is 7"),
        (CSV, "name,C [ms],T [ms]\na,2,10\n#b,9,10\n".to_owned(), "line 3: begins with `#`"),
        (
            YAML,
            "tasks: {a: {C: 9ms, T: 10ms}}\nTaskSet: {b: {C: 5ms, T: 10ms}}\n".to_owned(),
            "keep only one",
        ),
        (
            CHEDDAR,
            MODEL.replace("<name>c</name>", "<name>c</name><speed>0.5</speed>"),
            "scale the capacities",
        ),
        (
            CHEDDAR,
            MODEL.replace("<name>c</name>", "<preemptive_type>NOT_PREEMPTIVE</preemptive_type>"),
            "only preemptive",
        ),
        (
            CHEDDAR,
            MODEL.replace("<tasks>", "<resources><pip_resource/></resources><tasks>"),
            "<resources>",
        ),
        (SIMSO, SIMULATION.replace("\"Periodic\"", "\"APeriodic\""), "`task_type` is APeriodic"),
        (SIMSO, SIMULATION.replace("mix=", "blend="), "`blend` is 0.5: not known"),
        (SIMSO, SIMULATION.replace("mix=", "followed_by="), "starts another task"),
        (CHEDDAR, MODEL.replace("periodic_task", "aperiodic_task"), "line 3, <aperiodic_task>"),
        (CHEDDAR, MODEL.replace("<cpu_name>p", "<cpu_name>q"), "no mono_core_processor `q`"),
        (CHEDDAR, MODEL.replace("<tasks>", "<dependency/><tasks>"), "<dependency>"),
        (CHEDDAR, "<cheddar>".to_owned(), "not valid XML"),
    ] {
        let said = of(format, &text, Stated::default()).unwrap_err().to_string();
        assert!(said.contains(words), "{words}: {said}");
    }
}
