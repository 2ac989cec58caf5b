// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of replaying traces as recordings.

use super::*;
use crate::kinds::{Absence, ObservedThread, Program, Target};
use crate::machine::Records;

/// Returns the records and the facts of a replayed trace.
fn replayed(text: &str, pid: Option<u32>) -> Result<(Records, RecordingFacts), MachineError> {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let source = Box::new(io::Cursor::new(text.to_owned().into_bytes()));
    let mut machine = TraceMachine::new(platform, source, "trace".to_owned(), pid);
    let plan = Plan::new("program", 1, Program::once(Target::Process(1), false));
    let mut records = Records::default();
    machine.run(&plan, &mut records)?;
    Ok((records, machine.facts))
}

fn switch(us: u32, cpu: u32, prev: (&str, u32, &str), next: (&str, u32)) -> String {
    format!(
        "{0}-{1} [{cpu:03}] d..2. 10.{us:06}: sched_switch: prev_comm={0} prev_pid={1} prev_prio=120 prev_state={2} ==> next_comm={3} next_pid={4} next_prio=120\n",
        prev.0, prev.1, prev.2, next.0, next.1
    )
}

fn wake(us: u32, cpu: u32, current: (&str, u32), woken: (&str, u32)) -> String {
    format!(
        "{}-{} [{cpu:03}] d..2. 10.{us:06}: sched_wakeup: comm={} pid={} prio=120 target_cpu=000\n",
        current.0, current.1, woken.0, woken.1
    )
}

fn absences(records: &Records) -> Vec<&Absence> {
    let all = records.program.iter();
    all.filter_map(|it| if let ProgramRecord::Absence(it) = it { Some(it) } else { None }).collect()
}

fn threads(records: &Records) -> Vec<&ObservedThread> {
    let all = records.program.iter();
    all.filter_map(|it| if let ProgramRecord::Thread(it) = it { Some(it) } else { None }).collect()
}

/// Writes a trace in which `a` is preempted by `b` for 30 us, returns on CPU 1, sleeps, and is woken 50 us before
/// it runs again on CPU 1.
fn story() -> String {
    [
        switch(0, 0, ("a", 7, "R"), ("b", 8)),
        switch(20, 1, ("swapper/1", 0, "R"), ("c", 9)),
        switch(30, 1, ("c", 9, "S"), ("a", 7)),
        switch(50, 1, ("a", 7, "S"), ("swapper/1", 0)),
        wake(100, 0, ("b", 8), ("a", 7)),
        switch(150, 1, ("swapper/1", 0, "R"), ("a", 7)),
        switch(160, 0, ("b", 8, "S"), ("swapper/0", 0)),
    ]
    .concat()
}

#[test]
fn a_preemption_a_migration_and_the_waiting_come_out_as_they_happened() {
    let (records, facts) = replayed(&story(), Some(7)).unwrap();
    let absences = absences(&records);
    assert_eq!(absences.len(), 1, "the sleep on one CPU is no absence");
    let it = absences[0];
    assert_eq!((it.length_ns(), it.from, it.to, it.preempted), (30_000, Cpu(0), Cpu(1), true));
    assert_eq!((it.by.clone(), it.seen), (Some((8, "b".to_owned())), true));
    let threads = threads(&records);
    assert_eq!(threads.len(), 1);
    let of = threads[0];
    assert_eq!((of.preemptions, of.voluntary, of.cpu_changes, of.preempted_ns), (1, 1, 1, 30_000));
    assert_eq!((of.waited_ns, of.cpu_ns), (Some(80_000), Some(20_000 + 10_000)));
    assert_eq!((facts.span_ns, facts.began_ns), (160_000, 10_000_000_000));
    assert_eq!(facts.ran, [(Cpu(0), 0), (Cpu(1), 30_000)]);
}

#[test]
fn without_a_process_all_threads_are_recorded_and_idle_cpus_are_none() {
    let (records, _) = replayed(&story(), None).unwrap();
    let names: Vec<&str> = threads(&records).iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn what_a_trace_does_not_state_is_unknown_and_said() {
    let text = [
        "# tracer: nop\nversion = 6\n",
        &switch(0, 0, ("a", 7, "R"), ("b", 8)),
        "CPU:0 [LOST 4 EVENTS]\n",
        &switch(10, 99, ("b", 8, "R"), ("a", 7)),
        "a-7 [000] 10.000005: sched_wakeup: b:8 [120]\na-7 [000] 10.000011: irq_entry: x=1\nnonsense\n",
    ]
    .concat();
    let (records, facts) = replayed(&text, None).unwrap();
    assert!(threads(&records).iter().all(|it| it.waited_ns.is_none()));
    assert_eq!(facts.lost, 4);
    let said = facts.trace.unwrap().join("\n");
    for words in [
        "no event sched_waking",
        "no event sched_migrate_task",
        "no line states a process",
        "corehop ignores 2 lines that are not events; the first is line 2",
        "corehop ignores 1 lines that are earlier than the line before",
        "irq_entry (1)",
        "CPUs 99 of the trace are unknown to xeon_l7455",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_return_that_the_trace_lost_is_an_upper_bound() {
    let text =
        [switch(0, 0, ("a", 7, "R"), ("b", 8)), switch(40, 1, ("a", 7, "S"), ("c", 9))].concat();
    let (records, _) = replayed(&text, Some(7)).unwrap();
    let absences = absences(&records);
    assert_eq!((absences.len(), absences[0].seen, absences[0].length_ns()), (1, false, 40_000));
    assert_eq!(threads(&records)[0].unseen, 1);
}

#[test]
fn a_started_process_belongs_to_the_recording() {
    let fork = "a-7 [000] 10.000001: sched_process_fork: comm=a pid=7 child_comm=a child_pid=20\n";
    let text = [
        switch(0, 1, ("x", 3, "R"), ("y", 4)),
        fork.to_owned(),
        switch(5, 0, ("a", 7, "S"), ("a", 20)),
        switch(9, 0, ("a", 20, "R"), ("x", 3)),
    ]
    .concat();
    let (records, _) = replayed(&text, Some(7)).unwrap();
    let tids: Vec<u32> = threads(&records).iter().map(|it| it.tid).collect();
    assert_eq!(tids, [7, 20]);
}

#[test]
fn a_text_without_switches_or_without_the_process_is_refused_with_the_remedy() {
    let error = replayed("hello\n", None).unwrap_err().to_string();
    assert!(
        error.contains("no event sched_switch (1 lines are not events")
            && error.contains("perf sched script"),
        "{error}"
    );
    let error = replayed(&story(), Some(77)).unwrap_err().to_string();
    assert!(error.contains("no thread of the process 77"), "{error}");
}

/// The test has a trace in which `a` is preempted and never returns; `c` is woken and never runs.
#[test]
fn a_wait_that_the_end_of_the_trace_cuts_counts_up_to_the_end() {
    let text = [
        switch(0, 0, ("a", 7, "R"), ("b", 8)),
        wake(500, 0, ("b", 8), ("c", 9)),
        switch(1_000, 0, ("b", 8, "S"), ("swapper/0", 0)),
    ];
    let (records, _) = replayed(&text.concat(), None).unwrap();
    let waited = |tid: u32| threads(&records).iter().find(|it| it.tid == tid).unwrap().waited_ns;
    assert_eq!([waited(7), waited(9)], [Some(1_000_000), Some(500_000)]);
}

#[test]
fn one_cpu_has_one_thread_at_a_time_where_switches_are_missing() {
    let text = [
        switch(0, 0, ("swapper/0", 0, "R"), ("a", 7)),
        // The leave of `a` is missing.
        switch(1_000, 0, ("b", 8, "S"), ("c", 9)),
        switch(9_000, 0, ("c", 9, "S"), ("swapper/0", 0)),
    ];
    let (records, facts) = replayed(&text.concat(), None).unwrap();
    let cpu_ns: u64 = threads(&records).iter().filter_map(|it| it.cpu_ns).sum();
    assert!(cpu_ns <= facts.span_ns, "{cpu_ns} in {}", facts.span_ns);
    let said = facts.trace.unwrap().join("; ");
    assert!(said.contains("1 times, the thread that left a CPU was not"), "{said}");
}

#[test]
fn a_thread_that_came_before_its_process_was_known_has_its_first_time_on_the_cpu() {
    let line = "w 30/31 [000] 10.009000: sched:sched_switch: prev_comm=w prev_pid=31 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n";
    let text = switch(1_000, 0, ("swapper/0", 0, "R"), ("w", 31)) + line;
    let (records, _) = replayed(&text, Some(30)).unwrap();
    assert_eq!(threads(&records)[0].cpu_ns, Some(8_000_000));
}

#[test]
fn losses_are_read_in_the_words_of_each_program_and_an_unknown_thread_is_none() {
    let lost = [
        "b 8/8 [000] 1.5: unknown: PERF_RECORD_LOST lost 9\n",
        "# entries-in-buffer/entries-written: 3/250280   #P:4\n",
        ":-1 -1 [003] 9.900000: sched:sched_waking: comm=a pid=7 prio=120 target_cpu=000\n",
    ];
    let (records, facts) = replayed(&(lost.concat() + &story()), None).unwrap();
    assert_eq!(facts.lost, 9 + 250_277);
    assert!(threads(&records).iter().all(|it| it.tid != 1));
}
