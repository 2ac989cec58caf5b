// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of a recorded run as words and as a trace.

use super::*;
use corehop_decide::run_cost::{WssRange, event, run_cost};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Absences, CpuHoldTime, RecordingFacts, SwitchesTook, Took};
use corehop_plan::units::Cpu;

pub(crate) fn recording() -> Recording {
    let absence = Absence {
        tid: 7,
        out_ns: 2_000,
        in_ns: 5_000,
        seen: true,
        from: Cpu(0),
        to: Cpu(1),
        preempted: true,
        pinned: false,
        ran_ns: 1_000,
        cpu_ns: None,
        by: Some((9, "make".to_owned())),
    };
    let thread =
        ObservedThread { tid: 7, pid: 6, name: "sh".to_owned(), unseen: 2, ..Default::default() };
    Recording {
        facts: RecordingFacts {
            what: "sh -c true".to_owned(),
            status: Some(0),
            method: "bpf".to_owned(),
            began_ns: 1_000,
            span_ns: 1_000_000_000,
            lost: 3,
            took: Took {
                own_ns: 1_000_000,
                switches: Some(SwitchesTook {
                    count: 400,
                    each_ns: 1_000.0,
                    others: Some(1_000),
                    other_ns: 100.0,
                }),
                ..Took::default()
            },
            ..RecordingFacts::default()
        },
        threads: vec![thread],
        absences: counted(&[absence]),
        ..Recording::default()
    }
}

pub(crate) fn counted(absences: &[Absence]) -> Absences {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let mut counted = Absences::default();
    for it in absences {
        counted.take(Some(0), event(&platform, it), it);
    }
    counted
}

#[test]
fn losses_and_what_recording_took_are_said() {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let recording = recording();
    let cost = run_cost(&recording, None, WssRange::unknown(None, &platform)).unwrap();
    let text = text(&recording, &cost);
    for part in [
        "sh -c true: 1.000 s, 1 threads, exit status 0; recorded by bpf",
        "3 absences were lost",
        "2 times the return of a thread was missed",
        "recording took 1.00 ms of CPU time, and made each of 400 switches of the program take 1.00 µs longer, and \
         each of 1000 switches between other threads take 100 ns longer (measured",
        "without recording): 0.150 % of one CPU",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("cache affinity cost"), "nothing is charged without costs:\n{text}");
}

#[test]
fn percentages_have_the_digits_that_their_width_supports() {
    assert_eq!(percent(0.0, 0.052_3), "0.000 % to 0.052 %");
    assert_eq!(percent(1.234_5, 12.9), "1 % to 13 %");
    assert_eq!(percent(0.25, 0.25), "0.25 %");
    assert_eq!(percent(0.0, 0.0), "0 %");
}

#[test]
fn an_unknown_cost_is_said_in_the_first_lines_and_never_zero() {
    let cost = |share, priced| RunCost {
        priced,
        own: false,
        wss: WssRange::known("7.5MiB".parse().unwrap()),
        clipped_to: None,
        classes: Vec::new(),
        waits: Waits::default(),
        threads: Some(Vec::new()),
        processes: Some(Vec::new()),
        total: None,
        share,
    };
    assert_eq!(answer(&cost(None, false)), None);
    assert!(answer(&cost(None, true)).unwrap().contains("is unknown"));
    assert!(answer(&cost(Some((0.0, None)), true)).unwrap().contains("is unknown"));
    let least = answer(&cost(Some((0.012, None)), true)).unwrap();
    assert!(least.contains("at least 1.2 %") && least.contains("no upper bound"), "{least}");
    let text = text(&recording(), &cost(Some((0.0, Some(0.1))), true));
    assert!(text.lines().nth(2).unwrap().contains("cost 0 % to 10 %"), "{text}");
}

#[test]
fn the_waiting_comes_first_then_who_had_the_cpu_then_the_counts() {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let mut recording = recording();
    let range = WssRange::unknown(None, &platform);
    let lines = |recording: &Recording| {
        let cost = run_cost(recording, None, range).unwrap();
        firsts(recording, &cost)
    };
    assert_eq!(
        lines(&recording)[0],
        "in a run of 1.00 s, the time that runnable threads waited is unknown"
    );
    let thread = &mut recording.threads[0];
    (thread.waited_ns, thread.cpu_ns) = (Some(3_000), Some(9_000));
    (thread.preemptions, thread.cpu_changes) = (1, 1);
    assert!(lines(&recording)[1].contains("had the CPU meanwhile are unknown"));
    recording.facts.others = Some(vec![CpuHoldTime { name: "make".to_owned(), held_ns: 2_000 }]);
    recording.facts.idle_ns = Some(400);
    let expected = [
        "runnable threads waited 3.00 µs for a CPU in a run of 1.00 s, 25 % of the time in which they could \
         have run",
        "the CPU was meanwhile with: make 2.00 µs, no thread, as it was idle and had to wake up, 400 ns, unknown \
         threads 600 ns",
        "1 preemptions, and 1 returns to another CPU than before, 0 of them at wake-up",
    ];
    assert_eq!(lines(&recording), expected);
}

#[test]
fn without_the_rows_of_the_threads_no_count_of_theirs_is_zero() {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let recording = Recording { threads: Vec::new(), ..recording() };
    let cost = run_cost(&recording, None, WssRange::unknown(None, &platform)).unwrap();
    let text = text(&recording, &cost);
    for part in [
        "an unknown number of threads",
        "at least 1 preemptions, and 1 returns to another CPU",
        "the file of thread rows is missing",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("0 threads") && !text.contains("By thread"), "{text}");
    let json = json(&recording, &cost);
    for unknown in ["/threads", "/cost/threads", "/cost/processes", "/cost/waits/unknown_threads"] {
        assert_eq!(json.pointer(unknown), Some(&Value::Null), "{unknown}: {json:#}");
    }
}

#[test]
fn a_trace_has_a_row_for_each_thread_and_a_bar_for_each_absence() {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let (recording, mut bytes) = (recording(), Vec::new());
    let unknown = WssRange::unknown(None, &platform);
    let mut cost = run_cost(&recording, None, unknown).unwrap();
    for class in &mut cost.classes {
        let us = 2.0 * class.count as f64;
        class.cost = Some(CostBounds { us: Some(us), low_us: us, high_us: Some(us) });
    }
    let mut trace = TraceWriter::begin(&mut bytes, &recording, &platform, &cost).unwrap();
    let absence = recording.absences.kept()[0].clone();
    let row = corehop_plan::samples::example::recorded_absence(&platform, &absence);
    trace.take(&[row]).unwrap();
    trace.end().unwrap();
    let trace: Value = serde_json::from_slice(&bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(events[0]["args"]["name"], "sh");
    let of_cpus: Vec<&Value> = events.iter().filter(|it| it["pid"] == 0).collect();
    let names: Vec<&Value> = of_cpus.iter().map(|it| &it["args"]["name"]).collect();
    assert_eq!(names[0], "CPUs");
    assert!(names.contains(&&json!("CPU 1: lost time, as expected")), "{of_cpus:#?}");
    let lost = of_cpus.last().unwrap();
    assert_eq!((&lost["ts"], &lost["dur"]), (&json!(4.0), &json!(2.0)));
    let bar = &events[1];
    assert_eq!((&bar["ts"], &bar["dur"], &bar["pid"]), (&json!(1.0), &json!(3.0), &json!(6)));
    assert_eq!(bar["name"], "preempted by make 0→1");
}
