// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads lines of scheduler events as text: `perf script`, `perf sched script`, `trace-cmd report`, ftrace's `trace`
//! file, and the text of systrace that Perfetto reads and writes.
//!
//! A line of each format has the thread, its CPU in brackets, the time in seconds, and the event with its fields. perf
//! writes `comm tid`, the other programs `comm-tid`. The fields are `prev_comm=…`, or the short form of the plugins,
//! `comm:tid [prio] S ==> comm:tid [prio]`.

use crate::units::{Cpu, scaled};

/// A thread that an event names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedThread {
    /// The number of the thread; 0 is an idle CPU.
    pub tid: u32,
    /// The name of the thread in the trace.
    pub name: String,
}

/// The content of an event in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceEvent {
    /// `sched_switch`: a CPU passes from one thread to another.
    Switch {
        /// The thread that leaves the CPU.
        prev: TracedThread,
        /// Whether the leaving thread was preempted: it was still runnable.
        preempted: bool,
        /// The thread that the CPU runs next.
        next: TracedThread,
    },
    /// `sched_waking`, `sched_wakeup` or `sched_wakeup_new`: a thread can run from now on.
    Wake(TracedThread),
    /// `sched_migrate_task`: the scheduler changes the CPU of a thread.
    Migrate(TracedThread),
    /// `sched_process_fork`: a thread starts another thread.
    Fork {
        /// The thread that starts the child.
        parent: TracedThread,
        /// The thread that the parent starts.
        child: TracedThread,
    },
    /// The line has an event that corehop does not use, with its name.
    Other(String),
}

/// A line of a trace describes one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceLine {
    /// The thread that had the CPU at the event.
    pub current: TracedThread,
    /// The process of the thread `current`, if the line states the process.
    pub pid: Option<u32>,
    /// The CPU on which the event happened.
    pub cpu: Cpu,
    /// The time in nanoseconds, on the clock of the trace.
    pub ns: u64,
    /// The event that the line describes.
    pub event: TraceEvent,
}

/// Returns the event of a line, or `None` if the line has no known form.
pub fn event(line: &str) -> Option<TraceLine> {
    let (before, cpu, (ns, rest)) = around_cpu(line)?;
    let (current, pid) = thread(before)?;
    let (name, fields) = rest.split_once(':').filter(|(name, _)| !name.is_empty())?;
    // perf names the subsystem, too: `sched:sched_switch`.
    let (name, fields) = match fields.split_once(':') {
        Some((event, fields)) if is_word(event) && is_word(name) && !fields.is_empty() => {
            (event, fields)
        }
        _ => (name, fields),
    };
    let event = content(name, fields.trim())?;
    Some(TraceLine { current, pid, cpu, ns, event })
}

/// Returns the number of lost events that a line reports, or `None` if the line reports no loss.
pub fn lost(line: &str) -> Option<u64> {
    if let Some((_, counts)) = line.split_once("entries-in-buffer/entries-written:") {
        let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
        let lost = written.parse::<u64>().ok()?.saturating_sub(kept.parse().ok()?);
        return (lost > 0).then_some(lost);
    }
    if let Some((_, told)) = line.split_once("PERF_RECORD_LOST") {
        return Some(told.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(1));
    }
    let rest = line.trim().strip_prefix("CPU:")?;
    let told = rest.split_once('[')?.1.strip_suffix(']')?;
    let is_loss = told.contains("EVENTS") && (told.contains("LOST") || told.contains("DROPPED"));
    let number = told.split_whitespace().find_map(|word| word.parse().ok());
    is_loss.then(|| number.unwrap_or(1))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Splits a line at its CPU, a number in brackets: the text before the CPU, the CPU, and the time with the text behind
/// the time; returns `None` if the line lacks a CPU or a time. The CPU is the last number in brackets before the time,
/// because the name of a thread can also contain a number in brackets.
fn around_cpu(line: &str) -> Option<(&str, Cpu, (u64, &str))> {
    let mut split: Option<(&str, Cpu, (u64, &str))> = None;
    for (at, _) in line.match_indices('[') {
        if let Some((digits, after)) = line[at + 1..].split_once(']')
            && line[..at].ends_with([' ', '\t'])
            && after.starts_with([' ', '\t'])
            && let Some(cpu) = number(digits)
            && let Some(timed) = after_time(after)
            && split.is_none_or(|(.., (_, rest))| rest.len() == timed.1.len())
        {
            split = Some((&line[..at], Cpu(cpu), timed));
        }
    }
    split
}

fn number(digits: &str) -> Option<u32> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| digits.parse().ok())?
}

/// Returns the thread before the CPU, with its process if the line states the process.
fn thread(text: &str) -> Option<(TracedThread, Option<u32>)> {
    let mut text = text.trim();
    let mut pid = None;
    // ftrace with `record-tgid`: `bash-1977  ( 1977)`, or `(-----)`.
    if let Some((thread, group)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        pid = number(group.trim());
        text = thread.trim_end();
    }
    let (name, last) = text.rsplit_once([' ', '\t']).unwrap_or(("", text));
    let of = |name: &str, tid| TracedThread { tid, name: name.trim().to_owned() };
    if last == "-1" {
        // perf does not know the thread: like an idle CPU it is none.
        return Some((of("", 0), None));
    }
    match last.split_once('/') {
        Some((process, tid)) if number(process).is_some() => {
            return Some((of(name, number(tid)?), number(process)));
        }
        _ => {}
    }
    if let Some(tid) = number(last) {
        return Some((of(name, tid), pid));
    }
    let (name, tid) = text.rsplit_once('-')?;
    Some((of(name, number(tid)?), pid))
}

/// Returns the time behind the CPU, and the text behind the time. Flags of ftrace stand between the CPU and the time.
fn after_time(text: &str) -> Option<(u64, &str)> {
    let mut rest = text.trim_start();
    for _ in 0..3 {
        let (word, more) = rest.split_once([' ', '\t'])?;
        if let Some(seconds) = word.strip_suffix(':').filter(|word| word.contains('.'))
            && let Some(ns) = scaled(seconds, 1_000_000_000)
        {
            return Some((ns, more.trim_start()));
        }
        rest = more.trim_start();
    }
    None
}

/// Returns an event by its name and fields, or `None` if the fields of a known event have an unknown form.
fn content(name: &str, fields: &str) -> Option<TraceEvent> {
    match name {
        "sched_switch" => switch(fields),
        "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
            named(fields, "").map(TraceEvent::Wake)
        }
        "sched_migrate_task" => named(fields, "").map(TraceEvent::Migrate),
        "sched_process_fork" => {
            let (parent, child) = (named(fields, "")?, named(fields, "child_")?);
            Some(TraceEvent::Fork { parent, child })
        }
        other => is_word(other).then(|| TraceEvent::Other(other.to_owned())),
    }
}

fn switch(fields: &str) -> Option<TraceEvent> {
    let (left, right) = fields.split_once(" ==> ")?;
    let (prev, state) = match named(left, "prev_") {
        Some(prev) => (prev, left.rsplit_once("prev_state=")?.1),
        None => (short(left)?, left.split_whitespace().last()?),
    };
    let next = named(right, "next_").or_else(|| short(right))?;
    Some(TraceEvent::Switch { prev, preempted: could_run(state.trim()), next })
}

/// Returns whether `state` is the state of a preempted thread, which is `R`, `R+`, or a number whose low eight bits are
/// zero. perf writes a number if it does not know the kernel's letters; each of the eight bits is a reason to wait.
fn could_run(state: &str) -> bool {
    match number(state) {
        Some(bits) => bits.trailing_zeros() >= 8,
        None => state.starts_with('R'),
    }
}

/// Returns the thread in `PREFIXcomm=NAME PREFIXpid=TID`, or in the short form. A name of a thread may contain blanks.
fn named(fields: &str, prefix: &str) -> Option<TracedThread> {
    let Some((_, rest)) = fields.split_once(&format!("{prefix}comm=")) else {
        return (prefix.is_empty()).then(|| short(fields))?;
    };
    let (name, rest) = rest.split_once(&format!(" {prefix}pid="))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(TracedThread { tid: number(digits)?, name: name.to_owned() })
}

/// Returns the thread in `NAME:TID [PRIO] …`.
fn short(fields: &str) -> Option<TracedThread> {
    let (thread, _) = fields.trim().rsplit_once(" [")?;
    let (name, tid) = thread.rsplit_once(':')?;
    Some(TracedThread { tid: number(tid)?, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tid: u32, name: &str) -> TracedThread {
        TracedThread { tid, name: name.to_owned() }
    }

    #[test]
    fn a_switch_is_the_same_event_in_every_program_that_prints_it() {
        let long = "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=c-1 next_pid=9 next_prio=0";
        let short = "a b:7 [120] R+ ==> c-1:9 [0]";
        for line in [
            format!("             a b     7 [001]    12.000003: sched:sched_switch: {long}"),
            format!("             a b     7 [001]    12.000003:       sched:sched_switch: {short}"),
            format!("             a b-7     [001]    12.000003: sched_switch:         {short}"),
            format!("             a b-7     [001] d..2.    12.000003: sched_switch: {long}"),
            format!("             a b-7     (-----) [001] d..2    12.000003: sched_switch: {long}"),
        ] {
            let read = event(&line).unwrap_or_else(|| panic!("{line}"));
            let switch =
                TraceEvent::Switch { prev: of(7, "a b"), preempted: true, next: of(9, "c-1") };
            let expected = TraceLine {
                current: of(7, "a b"),
                pid: None,
                cpu: Cpu(1),
                ns: 12_000_003_000,
                event: switch,
            };
            assert_eq!(read, expected, "{line}");
        }
    }

    #[test]
    fn processes_other_events_and_blocked_threads_are_read() {
        let read = |line: &str| event(line).unwrap_or_else(|| panic!("{line}"));
        let perf =
            read("perf 30/31 [000] 1.5: sched:sched_waking: comm=x y pid=3 prio=1 target_cpu=001");
        assert_eq!((perf.pid, perf.current.tid, perf.ns), (Some(30), 31, 1_500_000_000));
        assert_eq!(perf.event, TraceEvent::Wake(of(3, "x y")));
        let tgid = read("<...>-31 ( 30) [000] .... 1.5: sched_wakeup: x:3 [120] success=1 CPU:000");
        assert_eq!((tgid.pid, tgid.event), (Some(30), TraceEvent::Wake(of(3, "x"))));
        let fork = read("a-1 [000] 1.5: sched_process_fork: comm=a pid=1 child_comm=b child_pid=2");
        assert_eq!(fork.event, TraceEvent::Fork { parent: of(1, "a"), child: of(2, "b") });
        let moved =
            read("a-1 [000] 1.5: sched_migrate_task: comm=b pid=2 prio=120 orig_cpu=0 dest_cpu=1");
        assert_eq!(moved.event, TraceEvent::Migrate(of(2, "b")));
        let blocked = read(
            "a-1 [000] 1.5: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120",
        );
        assert!(matches!(blocked.event, TraceEvent::Switch { preempted: false, .. }));
        let other = read("a-1 [000] 1.5: irq_handler_entry: irq=4 name=x");
        assert_eq!(other.event, TraceEvent::Other("irq_handler_entry".to_owned()));
    }

    #[test]
    fn a_name_with_a_number_in_brackets_is_no_cpu() {
        let read =
            event("odd [007] name-31 [001] d..2. 1.5: sched_wakeup: x [002]:3 [120]").unwrap();
        assert_eq!((read.cpu, read.current), (Cpu(1), of(31, "odd [007] name")));
        assert_eq!(read.event, TraceEvent::Wake(of(3, "x [002]")));
    }

    #[test]
    fn states_as_numbers_tell_preempted_from_blocked() {
        for (state, expected) in [
            ("0", true),
            ("256", true),
            ("R+", true),
            ("1", false),
            ("2", false),
            ("128", false),
            ("S", false),
        ] {
            let line = format!(
                "a-1 [000] 1.5: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state={state} ==> next_comm=b next_pid=2 next_prio=120"
            );
            let TraceEvent::Switch { preempted, .. } = event(&line).unwrap().event else {
                panic!("{line}")
            };
            assert_eq!(preempted, expected, "{state}");
        }
    }

    #[test]
    fn lines_of_another_form_are_no_events() {
        for line in [
            "",
            "# tracer: nop",
            "cpus=2",
            "        ffffffff81 __schedule+0x1 ([kernel.kallsyms])",
            "a-1 [000] 1.5: sched_switch: prev_comm=a",
            "a-1 [0x0] 1.5: sched_wakeup: x:3 [120]",
            "a-1 [000] soon: sched_wakeup: x:3 [120]",
            "a-x [000] 1.5: sched_wakeup: x:3 [120]",
        ] {
            assert_eq!(event(line), None, "{line}");
        }
        assert_eq!(lost("CPU:1 [LOST 128 EVENTS]"), Some(128));
        assert_eq!(lost(" CPU:1 [12 EVENTS DROPPED]"), Some(12));
        assert_eq!(lost("CPU:1 [LOST EVENTS]"), Some(1));
        assert_eq!((lost("CPU:1"), lost("a-1 [000] 1.5: x: y")), (None, None));
    }
}
