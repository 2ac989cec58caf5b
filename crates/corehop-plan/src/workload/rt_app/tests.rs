// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that workloads of rt-app survive writing and reading.

use serde_json::{Value, json};

use super::super::placement::{PlacedShare, TaskPlacement};
use super::super::set_file;
use super::super::task::{TaskParameters, TaskSet, Time};
use super::*;

fn set() -> Vec<TaskParameters> {
    vec![
        TaskParameters {
            name: Some("a".into()),
            wcet: Time::new(200),
            period: Time::new(1000),
            deadline: Some(Time::new(800)),
            ..TaskParameters::default()
        },
        TaskParameters {
            wcet: Time::new(300),
            period: Time::new(1200),
            ..TaskParameters::default()
        },
    ]
}

/// Returns the threads that corehop writes for a task set, as JSON values.
fn threads(set: &TaskSet) -> Value {
    serde_json::from_str(&write(set, 5).unwrap().text).unwrap()
}

#[test]
fn what_is_written_is_read_again() {
    let edf = TaskSet::new(2, &set()).unwrap();
    assert_eq!(read(&write(&edf, 5).unwrap().text, None).unwrap().set, edf);
    let ranked: Vec<_> = set()
        .into_iter()
        .zip([7, 3])
        .map(|(task, rank)| TaskParameters { priority: Some(rank), ..task })
        .collect();
    let workload = threads(&TaskSet::new(2, &ranked).unwrap());
    // The smaller rank is served first, as is the larger priority.
    assert_eq!(workload.pointer("/tasks/a/priority"), Some(&json!(97)));
    assert_eq!(workload.pointer("/tasks/task1/priority"), Some(&json!(98)));
}

#[test]
fn the_way_there_and_back_loses_nothing_of_a_set() {
    let text = r#"{"cpus": 3, "block_reload_ns": 150, "tasks": [
        {"name": "task1", "wcet_us": 300, "budget_us": 320, "period_us": 1000, "deadline_us": 900,
         "priority": 40, "wss_kib": 64, "jitter_us": 5, "blocking_us": 7, "ucb": "1", "ecb": "0-3",
         "cpus": [2]},
        {"wcet_us": 400, "period_us": 2000, "priority": 10, "ucb": "4", "ecb": "4", "cpus": [0, 1]},
        {"name": "b", "wcet_us": 100, "period_us": 2000, "priority": 20, "ucb": "4", "ecb": "4",
         "cpus": [0, 1]}]}"#;
    let set = set_file::parse(text).unwrap();
    let written = write(&set, 5).unwrap();
    assert_eq!(read(&written.text, None).unwrap(), Workload { set, notes: Vec::new() });
    for field in ["deadline_us", "jitter_us", "blocking_us", "wss_kib", "ucb", "budget_us"] {
        assert!(written.notes[0].contains(field), "{:?}", written.notes);
    }
    // The order of the threads is that of the tasks, and no name is taken twice.
    let places =
        ["\"task1\": {", "\"task1_\": {", "\"b\": {"].map(|it| written.text.find(it).unwrap());
    assert!(places.is_sorted(), "{}", written.text);
}

#[test]
fn threads_that_were_edited_are_read_and_the_table_beside_them_is_not() {
    let edf = TaskSet::new(2, &set()).unwrap();
    let text = write(&edf, 5).unwrap().text.replace("\"run\": 200", "\"run\": 150");
    let read = read(&text, Some(2)).unwrap();
    assert_eq!(read.set.tasks(), edf.tasks());
    assert!(read.notes.iter().any(|note| note.contains("differ")), "{:?}", read.notes);
    assert!(read.notes.iter().any(|note| note.contains("150 us of a budget of 200")));
    let error = super::read(&write(&edf, 5).unwrap().text, Some(3)).unwrap_err().to_string();
    assert!(error.contains("--cpus is 3"), "{error}");
}

#[test]
fn what_linux_refuses_is_refused_by_name() {
    let of = |wcet, period, priority| TaskParameters {
        wcet: Time::new(wcet),
        period: Time::new(period),
        priority,
        ..TaskParameters::default()
    };
    let refused = |tasks: &[TaskParameters]| {
        write(&TaskSet::new(2, tasks).unwrap(), 5).unwrap_err().to_string()
    };
    let error = refused(&[of(1, 50, None), of(1000, 1 << 40, None)]);
    for word in ["`task0`", "a budget of 1 us", "50 us", "`task1`", "1099511627776 us"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert!(write(&TaskSet::new(1, &[of(2, 100, None), of(2, 1 << 22, None)]).unwrap(), 5).is_ok());
    // SCHED_FIFO knows no period; rt-app cuts a longer one.
    assert!(write(&TaskSet::new(1, &[of(1, 50, Some(1))]).unwrap(), 5).is_ok());
    assert!(refused(&[of(1, 1 << 31, Some(1))]).contains("2147483647"));
    let late = TaskParameters { deadline: Some(Time::new(900)), ..of(300, 800, None) };
    assert!(refused(&[late]).contains("beyond the period"));
    let slow = TaskParameters { deadline: Some(Time::new(200)), ..of(300, 800, None) };
    assert!(refused(&[slow]).contains("beyond the deadline"));
    let path = TaskParameters { name: Some("a/b".to_owned()), ..of(300, 800, None) };
    assert!(refused(&[path]).contains("`a/b`"));
    let full = write(&TaskSet::new(1, &[of(960, 1000, None)]).unwrap(), 5).unwrap();
    assert!(full.notes[0].contains("0.96") && full.notes[0].contains("0.95"), "{:?}", full.notes);
}

#[test]
fn fractions_of_a_microsecond_are_rounded_up_for_work_and_refused_for_periods() {
    let of = |wcet: &str, period: &str| {
        let tasks = format!(r#"[{{"wcet_us": {wcet}, "period_us": {period}, "cpus": [0]}}]"#);
        let text = format!(r#"{{"cpus": 1, "scheduler": "p-edf", "tasks": {tasks}}}"#);
        crate::workload::set_file::parse(&text).unwrap()
    };
    let set = of("2500.001", "5000");
    let all = threads(&set);
    let thread = &all["tasks"]["task0"];
    assert_eq!((&thread["run"], &thread["dl-runtime"]), (&json!(2_501), &json!(2_501)));
    assert_eq!(thread["dl-period"], 5_000);
    assert_eq!(read(&write(&set, 10).unwrap().text, None).unwrap().set, set);
    let refused = write(&of("2500", "5000.5"), 10).unwrap_err().to_string();
    assert!(refused.contains("a period of 5000.5 us: rt-app supports only whole"), "{refused}");
}

#[test]
fn a_budget_is_what_the_thread_may_run() {
    let task = TaskParameters { budget: Some(Time::new(250)), ..set().remove(0) };
    let workload = threads(&TaskSet::new(1, &[task]).unwrap());
    assert_eq!(workload.pointer("/tasks/a/run"), Some(&json!(200)));
    assert_eq!(workload.pointer("/tasks/a/dl-runtime"), Some(&json!(250)));
}

#[test]
fn an_assignment_pins_the_threads_and_pieces_are_refused() {
    let set = TaskSet::new(2, &set()).unwrap();
    let places = vec![TaskPlacement::Cpus(vec![1]), TaskPlacement::Cpus(vec![0, 1])];
    let workload = threads(&set.clone().placed(places).unwrap());
    assert_eq!(workload.pointer("/tasks/a/cpus"), Some(&json!([1])));
    assert_eq!(workload.pointer("/tasks/task1/cpus"), Some(&json!([0, 1])));
    let share = |cpu| PlacedShare { cpu, share: 0.5 };
    let places =
        vec![TaskPlacement::Cpus(vec![1]), TaskPlacement::Shares(vec![share(0), share(1)])];
    let error = write(&set.placed(places).unwrap(), 5).unwrap_err().to_string();
    assert!(error.contains("task 1") && error.contains("shares"), "{error}");
}

#[test]
fn a_workload_with_comments_and_trailing_commas_is_read() {
    let text = r#"{
        /* ten per cent, /twice/ */
        "tasks" : { "thread // 0" : {
            "instance" : 2, "loop" : -1, "run" : 10000, // in us
            "timer" : { "ref" : "unique", "period" : 100000 },
            "dl-runtime" : 12000, "dl-period" : 100000,
        } },
        "global" : { "default_policy" : "SCHED_DEADLINE" }
    }"#;
    let set = read(text, Some(4)).unwrap().set;
    assert_eq!(set.names()[1].as_deref(), Some("thread // 0-1"));
    assert_eq!(
        (set.tasks()[0].wcet(), set.tasks()[0].period()),
        (Time::new(12_000), Time::new(100_000))
    );
    assert_eq!(set.cpus(), 4);
}

fn refused(threads: &str) -> String {
    read(&format!(r#"{{"tasks": {{{threads}}}}}"#), Some(1)).expect_err(threads).to_string()
}

#[test]
fn what_is_no_sporadic_task_is_refused_by_thread() {
    let with = |what: &str| format!(r#"{{"run": 5, {what}, "timer": {{"period": 7}}}}"#);
    for (thread, words) in [
        (r#"{"run": 5, "sleep": 7}"#.to_owned(), "`sleep`"),
        (r#"{"phases": {}}"#.to_owned(), "`phases`"),
        (r#"{"timer": {"period": 7}}"#.to_owned(), "`run`"),
        (r#"{"run": 5}"#.to_owned(), "`timer`"),
        (r#"{"run": 5, "timer": {"period": 0}}"#.to_owned(), "`timer`"),
        (r#"{"run": -5, "timer": {"period": 7}}"#.to_owned(), "`run` is -5"),
        (r#"{"run": 3000000000, "timer": {"period": 7}}"#.to_owned(), "2147483647"),
        (with(r#""memrun_a": {}"#), "`memrun_a`"),
        (with(r#""memory": 7"#), "`memory`"),
        (with(r#""iorun0": 7"#), "`iorun0`"),
        (with(r#""sem_wait": "x""#), "`sem_wait`"),
        (with(r#""sem_post": "x""#), "`sem_post`"),
        (with(r#""yield": """#), "`yield`"),
        (with(r#""lock": "m", "lock": "n""#), "`lock`"),
        (with(r#""broadcast": "m""#), "`broadcast`"),
        (with(r#""barrier1": "m""#), "`barrier1`"),
        (with(r#""fork": "m""#), "`fork`"),
        (with(r#""suspend_me": "m""#), "`suspend_me`"),
        (with(r#""sync": {}"#), "`sync`"),
        (with(r#""sleepless": 3"#), "`sleepless`"),
        (with(r#""taskgroup": "/a""#), "`taskgroup`"),
        (with(r#""wcet": 7"#), "`wcet`"),
        (with(r#""run": 7"#), "`run` is duplicated"),
        (with(r#""timer2": {"ref": "b", "period": 9}"#), "`b` and `unknown`"),
        (with(r#""timer2": {"length": 9}"#), "`length`"),
        (with(r#""policy": "SCHED_FIFO", "priority": 0"#), "`priority`"),
        (with(r#""policy": "SCHED_FIFO", "priority": 100"#), "`priority`"),
        (with(r#""policy": "SCHED_ODD""#), "SCHED_ODD"),
        (with(r#""policy": "SCHED_RR", "instance": 2"#), "take turns"),
        (with(r#""instance": 20000"#), "`instance`"),
        (with(r#""instance": 2, "delay": 3"#), "`delay`"),
        (with(r#""policy": "SCHED_DEADLINE", "dl-runtime": 3, "dl-period": 7"#), "`dl-runtime`"),
        (with(r#""policy": "SCHED_DEADLINE", "dl-runtime": 6, "dl-period": 9"#), "`dl-period`"),
        (with(r#""policy": "SCHED_DEADLINE", "dl-runtime": 9, "dl-period": 7"#), "dl-period"),
        (with(r#""policy": "SCHED_DEADLINE", "dl-runtime": 9, "period": 70"#), "`period`"),
        (with(r#""policy": "SCHED_DEADLINE""#), "`dl-runtime` is missing"),
    ] {
        let error = refused(&format!(r#""x": {thread}"#));
        assert!(error.contains("`x`") && error.contains(words), "{words}: {error}");
    }
    assert!(
        refused(r#""x": {"run": 5, "cpus": [7], "timer": {"period": 7}}"#)
            .contains("a thread names CPU 7: expected 8 or more")
    );
    let twice = r#""x": {"run": 5, "timer": {"period": 7}}"#;
    assert!(refused(&format!("{twice}, {twice}")).contains("thread `x` is duplicated"));
    assert!(matches!(read("{}", None), Err(RtAppError::NoTasks)));
    assert!(matches!(read(r#"{"tasks": {}}"#, None), Err(RtAppError::NoTasks)));
    assert!(matches!(read("{", None), Err(RtAppError::Syntax(_))));
    assert!(matches!(read(r#"{"tasks": {}, "threads": {}}"#, None), Err(RtAppError::Global(_))));
}

/// Returns C, T and the notes of the first thread of a workload.
fn first(threads: &str) -> (Time, Time, Vec<String>) {
    let read = read(&format!(r#"{{"tasks": {{{threads}}}}}"#), None).unwrap();
    (read.set.tasks()[0].wcet(), read.set.tasks()[0].period(), read.notes)
}

#[test]
fn the_slice_of_an_ordinary_thread_is_no_budget() {
    let timer = r#""timer": {"ref": "unique", "period": 40}"#;
    for policy in ["SCHED_OTHER", "SCHED_BATCH", "SCHED_FIFO", "SCHED_RR"] {
        let (c, t, notes) = first(&format!(
            r#""a": {{"policy": "{policy}", "run": 20, "dl-runtime": 3, "dl-period": 9, {timer}}}"#
        ));
        assert_eq!((c, t), (Time::new(20), Time::new(40)), "{policy}");
        assert!(notes.iter().any(|note| note.contains("dl-period")), "{notes:?}");
    }
    let (c, t, notes) = first(&format!(
        r#""a": {{"policy": "SCHED_DEADLINE", "run": 20, "dl-runtime": 30, "dl-period": 35, {timer}}}"#
    ));
    assert_eq!((c, t), (Time::new(30), Time::new(35)));
    assert!(notes[0].contains("20 us of a budget of 30 us"), "{notes:?}");
    // The older names: `runtime` is a budget and an event.
    let older = r#""runtime": 20, "period": 35, "deadline": 32"#;
    let (c, t, _) = first(&format!(r#""a": {{"policy": "SCHED_DEADLINE", {older}, {timer}}}"#));
    assert_eq!((c, t), (Time::new(20), Time::new(35)));
}

#[test]
fn named_events_add_up_and_a_phase_is_the_body_of_its_thread() {
    let body = r#""loop": -1, "run_a": 1000, "runtime": 500, "runner": 1500, "sleep0": 0,
        "timer_0": {"ref": "unique", "period": 10000}"#;
    for (at, thread) in [
        format!("{{{body}}}"),
        format!(r#"{{"loop": -1, "instance": 2, "phases": {{"only": {{{body}}}}}}}"#),
        format!(r#"{{"phases": {{"only": {{"policy": "SCHED_FIFO", "priority": 30, {body}}}}}}}"#),
        format!(r#"{{"policy": "SCHED_IDLE", "priority": 3, "util_min": 9, "delay": 4, {body}}}"#),
    ]
    .iter()
    .enumerate()
    {
        let (c, t, notes) = first(&format!(r#""t": {thread}"#));
        assert_eq!((c, t), (Time::new(3_000), Time::new(10_000)), "{at}");
        assert!(notes.iter().any(|note| note.contains("3 runs")), "{notes:?}");
    }
}

#[test]
fn phases_on_one_timer_are_bounded_by_the_longest_job_and_the_shortest_period() {
    let timer = |period| format!(r#""timer": {{"ref": "tick", "period": {period}}}"#);
    let (ten, twenty) = (timer(10_000), timer(20_000));
    let (c, t, notes) = first(&format!(
        r#""t": {{"phases": {{
            "light": {{"loop": 300, "run": 1000, {ten}}},
            "heavy": {{"loop": 300, "run": 7000, {twenty}}}}}}}"#
    ));
    assert_eq!((c, t), (Time::new(7_000), Time::new(10_000)));
    assert!(notes[0].contains("2 phases"), "{notes:?}");
    // A job ends where the thread waits: it can be of several phases, repeated, and of the end and the beginning.
    for (phases, work) in [
        (format!(r#""a": {{{ten}}}, "b": {{"run": 700}}"#), 700),
        (format!(r#""a": {{"run": 5, {ten}}}, "b": {{"loop": 3, "run": 700}}"#), 2_105),
        (format!(r#""a": {{"run0": 5, {ten}, "run1": 40}}, "b": {{"run": 700}}"#), 745),
        (format!(r#""a": {{"loop": 2, "run0": 5, {ten}, "run1": 40}}"#), 45),
        (
            format!(
                r#""a": {{"run0": 5, {ten}, "run1": 40, "timer1": {{"ref": "tick", "period": 90000}}}}"#
            ),
            40,
        ),
    ] {
        let (c, t, notes) = first(&format!(r#""t": {{"phases": {{{phases}}}}}"#));
        assert_eq!((c, t), (Time::new(work), Time::new(10_000)), "{phases}: {notes:?}");
    }
    let endless =
        format!(r#""t": {{"phases": {{"a": {{{ten}}}, "b": {{"loop": -1, "run": 7}}}}}}"#);
    assert!(refused(&endless).contains("longer than any job"));
    for (differ, key) in [
        (r#""policy": "SCHED_FIFO", "priority": 3"#, "`policy`"),
        (r#""priority": 3"#, "`priority`"),
        (r#""cpus": [0]"#, "`cpus`"),
        (r#""instance": 3"#, "`instance`"),
    ] {
        let error = refused(&format!(
            r#""t": {{"phases": {{"a": {{"run": 1, {ten}}}, "b": {{{differ}, "run": 1, {ten}}}}}}}"#
        ));
        assert!(error.contains(key), "{error}");
    }
    let beside = format!(r#""t": {{"run": 5, "phases": {{"a": {{"run": 1, {ten}}}}}}}"#);
    assert!(refused(&beside).contains("outside of `phases`"));
}

#[test]
fn a_timer_that_threads_share_is_said() {
    let thread =
        |name: &str| format!(r#""{name}": {{"run": 1, "timer": {{"ref": "tick", "period": 10}}}}"#);
    let (_, t, notes) = first(&format!("{}, {}", thread("a"), thread("b")));
    assert_eq!(t, Time::new(10));
    assert!(notes.iter().any(|note| note.contains("`b` shares the timer `tick`")), "{notes:?}");
    assert!(!first(&thread("a")).2.iter().any(|note| note.contains("shares")));
}

#[test]
fn pins_are_kept_and_threads_without_have_all_cpus() {
    let text = r#"{"tasks": {"a": {"run": 1, "cpus": [1, 1], "timer": {"ref": "unique", "period": 9}},
        "b": {"run": 1, "timer": {"ref": "unique", "period": 9}}}}"#;
    for (asked, cpus) in [(None, 2), (Some(3), 3)] {
        let read = read(text, asked).unwrap();
        assert_eq!(read.set.cpus(), cpus);
        let places = read.set.placement().unwrap();
        assert_eq!(places[0], TaskPlacement::Cpus(vec![1]));
        assert_eq!(places[1], TaskPlacement::Cpus((0..cpus as usize).collect()));
        assert!(read.notes[0].contains("--cpus"), "{:?}", read.notes);
    }
}

#[test]
fn one_policy_serves_a_task_set() {
    let timer = r#""timer": {"ref": "unique", "period": 150}"#;
    let error = refused(&format!(
        r#""dl": {{"policy": "SCHED_DEADLINE", "dl-runtime": 10, "dl-period": 100}},
        "fifo": {{"policy": "SCHED_FIFO", "priority": 10, "runtime": 20, {timer}}}"#
    ));
    assert!(error.contains("SCHED_DEADLINE") && error.contains("SCHED_FIFO"), "{error}");
    assert!(error.contains("mixed"), "{error}");
    let default = format!(
        r#"{{"tasks": {{"a": {{"run": 20, {timer}}}}}, "global": {{"default_policy": "SCHED_FIFO", "x": 1}}}}"#
    );
    let read = read(&default, None).unwrap();
    // rt-app's own default is priority 10.
    assert_eq!(read.set.tasks()[0].priority(), Some(89));
    assert!(read.notes[0].contains("corehop ignores `x` in `global`"), "{:?}", read.notes);
}

#[test]
fn comments_end_where_they_end_in_c() {
    let text = r#"{/*/ "tasks": {} */"tasks": {"a": {"run": 1, // "run": 2,
        "timer": {"ref": "unique", "period": 9,},}, /* no more */ }}"#;
    assert_eq!(read(text, None).unwrap().set.tasks().len(), 1);
}

#[test]
fn more_ranks_than_priorities_are_ranked_anew_on_each_cpu() {
    let tasks = |cpu: &dyn Fn(u32) -> String| {
        let task = |at: u32| {
            format!(r#"{{"wcet_us": 1, "period_us": 1000, "priority": {at}{}}}"#, cpu(at))
        };
        (0..150).map(task).collect::<Vec<_>>().join(", ")
    };
    let set = |tasks: &str| {
        set_file::parse(&format!(r#"{{"cpus": 3, "scheduler": "p-fp", "tasks": [{tasks}]}}"#))
            .unwrap()
    };
    let pinned = set(&tasks(&|at| format!(r#", "cpus": [{}]"#, at % 3)));
    let text = write(&pinned, 1).unwrap().text;
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    let priority = |at: u32| written["tasks"][format!("task{at}")]["priority"].as_u64().unwrap();
    assert_eq!([priority(0), priority(1), priority(3), priority(147)], [98, 98, 97, 49]);
    assert_eq!(read(&text, None).unwrap().set, pinned);
    // Tasks that share a CPU are ranked together.
    let joined = set(&tasks(&|at| {
        format!(
            r#", "cpus": [{}]"#,
            if at == 9 { "0, 1, 2".to_owned() } else { (at % 3).to_string() }
        )
    }));
    assert_eq!(write(&joined, 1).unwrap_err(), NotRunnable::Priorities);
}
