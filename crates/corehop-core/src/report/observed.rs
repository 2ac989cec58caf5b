// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded run: the waiting for CPUs, its preemptions and migrations, and their cost of cache affinity, as text
//! and as a trace.

use serde_json::{Value, json};

use super::figure::Table;
use super::label::{size, time};
use super::table::plain;
use crate::decision::run_cost::{
    Between, ClassCost, Occupant, ProcessCost, RunCost, ThreadCost, Waits, WssRange, event,
};
use crate::platform::Platform;
use crate::samples::{Absence, ObservedThread, Recording};
use crate::workload::Event;

/// Threads, processes and names shown in the text; the others are in the JSON answer.
const SHOWN: usize = 10;
/// Names in the sentence on the threads that had the CPU.
const NAMED: usize = 3;

/// The run, as text: first what weighs the most.
pub fn text(recording: &Recording, cost: &RunCost) -> String {
    let tables: String = tables(cost).iter().map(plain).collect();
    let first = firsts(recording, cost).join("\n");
    let notes = notes(recording, cost).join("\n");
    format!("{first}\n{}\n\n{tables}{notes}\n", head(recording))
}

/// The sentences that come first: the waiting, the threads that had the CPU, the preemptions and migrations,
/// and their cost, if costs were given.
pub(super) fn firsts(recording: &Recording, cost: &RunCost) -> Vec<String> {
    let all = [
        Some(waited(recording, &cost.waits)),
        had_the_cpu(&cost.waits),
        Some(counted(recording, cost)),
        answer(cost),
    ];
    all.into_iter().flatten().collect()
}

fn waited(recording: &Recording, waits: &Waits) -> String {
    let span = time(recording.facts.span_ns as f64);
    let Some(waited_ns) = waits.waited_ns else {
        return format!("in a run of {span}, the time that runnable threads waited is unknown");
    };
    let share = waits.share().map_or_else(String::new, |share| {
        format!(
            ", {} of the time in which they could have run",
            percent(share * 100.0, share * 100.0)
        )
    });
    let unknown = match waits.unknown_threads {
        0 => String::new(),
        threads => format!("; of {threads} threads it is unknown"),
    };
    format!(
        "runnable threads waited {} for a CPU in a run of {span}{share}{unknown}",
        ns(Some(waited_ns))
    )
}

/// The threads that had the CPU meanwhile, if any waited.
fn had_the_cpu(waits: &Waits) -> Option<String> {
    waits.waited_ns.filter(|&ns| ns > 0)?;
    if waits.unknown_ns.is_none() {
        return Some("the threads that had the CPU meanwhile are unknown".to_owned());
    }
    let held = waits.occupants.iter().filter_map(|it| Some((&it.name, it.held_ns?)));
    let named = held.clone().take(NAMED);
    let mut parts: Vec<String> =
        named.map(|(name, held)| format!("{name} {}", ns(Some(held)))).collect();
    let rest = [
        ("other threads", held.skip(NAMED).map(|(_, held)| held).sum()),
        ("no thread, as it was idle and had to wake up,", waits.idle_ns.unwrap_or(0)),
        ("unknown threads", waits.unknown_ns.unwrap_or(0)),
    ];
    let rest = rest.into_iter().filter(|&(_, held)| held > 0);
    parts.extend(rest.map(|(name, held)| format!("{name} {}", ns(Some(held)))));
    Some(format!("the CPU was meanwhile with: {}", parts.join(", ")))
}

fn counted(recording: &Recording, cost: &RunCost) -> String {
    let sum = |of: fn(&ObservedThread) -> u64| recording.threads.iter().map(of).sum::<u64>();
    let migrations = cost.classes.iter().filter(|class| class.event != Event::Preemption);
    let at_wake_up: u64 = migrations.map(|class| class.count - class.preempted).sum();
    format!(
        "{} preemptions, and {} returns to another CPU than before, {at_wake_up} of them at wake-up",
        sum(|it| it.preemptions),
        sum(|it| it.cpu_changes),
    )
}

/// Why a cost may lie anywhere.
fn unbounded(cost: &RunCost) -> String {
    let of_class = cost.classes.iter().find_map(|class| class.why_not.clone());
    let of_size = cost.clipped_to.map(|largest| {
        format!(
            "the working set may be nothing or beyond {}, the largest that was measured; --wss or \
             --estimate-wss says more",
            size(largest)
        )
    });
    of_class.or(of_size).unwrap_or_else(|| "it has no upper bound".to_owned())
}

/// The cost of cache affinity in one sentence, if costs were given.
pub(super) fn answer(cost: &RunCost) -> Option<String> {
    let Some((low, high)) = cost.share else {
        let why = || cost.classes.iter().find_map(|class| class.why_not.clone());
        let why = || why().unwrap_or_else(|| "no cost applies".to_owned());
        return cost.priced.then(|| format!("the cost of cache affinity is unknown: {}", why()));
    };
    let share = |high| percent(low * 100.0, high * 100.0);
    Some(match high {
        Some(high) => format!("cache affinity cost {} of the time of the run", share(high)),
        None if low <= 0.0 => format!("the cost of cache affinity is unknown: {}", unbounded(cost)),
        None => format!(
            "cache affinity cost at least {} of the time of the run; no upper bound is known",
            share(low)
        ),
    })
}

/// A range of percentages, with no more digits than its width supports.
fn percent(low: f64, high: f64) -> String {
    let width = if high > low { high - low } else { low };
    let digits =
        if width > 0.0 { (1.0 - width.log10().floor()).clamp(0.0, 6.0) as usize } else { 0 };
    if high > low {
        format!("{low:.digits$} % to {high:.digits$} %")
    } else {
        format!("{low:.digits$} %")
    }
}

/// The tables of a run that have rows: the threads that had CPUs, classes, processes, threads.
pub(super) fn tables(cost: &RunCost) -> Vec<Table> {
    let [occupants, processes, threads] = [occupants(cost), processes(cost), threads(cost)];
    let all = [occupants, classes(cost), processes, threads];
    all.into_iter()
        .enumerate()
        .filter(|(place, it)| *place == 1 || !it.rows.is_empty())
        .map(|(_, it)| it)
        .collect()
}

/// The run in one line: its duration, threads and end.
pub(super) fn head(recording: &Recording) -> String {
    let (threads, span) = (recording.threads.len(), recording.facts.span_ns as f64 / 1e9);
    let ended =
        recording.facts.status.map_or_else(String::new, |code| format!(", exit status {code}"));
    let runs = match recording.runs.len() {
        0 | 1 => String::new(),
        several => format!("{several} runs, "),
    };
    format!(
        "{}: {runs}{span:.3} s, {threads} threads{ended}; recorded by {}",
        recording.facts.what, recording.facts.method
    )
}

pub(super) fn classes(cost: &RunCost) -> Table {
    let columns =
        ["what", "times", "preempted", "at wake-up", "by affinity", "median", "longest", "cost"];
    let mut table = Table::new("Preemptions and migrations, by class", &columns);
    let row = |class: &ClassCost| {
        vec![
            class.event.to_string(),
            class.count.to_string(),
            class.preempted.to_string(),
            (class.count - class.preempted).to_string(),
            class.pinned.to_string(),
            time(class.median_length_us * 1e3),
            time(class.longest_us * 1e3),
            range(class.cost),
        ]
    };
    table.rows = cost.classes.iter().map(row).collect();
    if let Some(total) = cost.total {
        let mut row = vec![String::new(); columns.len()];
        "all".clone_into(&mut row[0]);
        row[columns.len() - 1] = range(Some(total));
        table.rows.push(row);
    }
    table
}

pub(super) fn threads(cost: &RunCost) -> Table {
    let columns = ["thread", "CPU time", "waited", "preemptions", "CPU changes", "cost"];
    let mut table = Table::new("By thread", &columns);
    let row = |thread: &ThreadCost| {
        vec![
            format!("{} ({})", thread.name, thread.tid),
            ns(thread.cpu_ns),
            ns(thread.waited_ns),
            thread.preemptions.to_string(),
            thread.cpu_changes.to_string(),
            range(thread.cost),
        ]
    };
    table.rows = cost.threads.iter().take(SHOWN).map(row).collect();
    more(&mut table, cost.threads.len());
    table.rows.push(vec![
        "all".to_owned(),
        ns(cost.waits.cpu_ns),
        ns(cost.waits.waited_ns),
        cost.threads.iter().map(|it| it.preemptions).sum::<u64>().to_string(),
        cost.threads.iter().map(|it| it.cpu_changes).sum::<u64>().to_string(),
        range(cost.total),
    ]);
    table
}

/// By process, where there are several.
pub(super) fn processes(cost: &RunCost) -> Table {
    let columns =
        ["process", "threads", "CPU time", "waited", "preemptions", "CPU changes", "cost"];
    let mut table = Table::new("By process", &columns);
    let row = |process: &ProcessCost| {
        vec![
            format!("{} ({})", process.name, process.pid),
            process.threads.to_string(),
            ns(process.cpu_ns),
            ns(process.waited_ns),
            process.preemptions.to_string(),
            process.cpu_changes.to_string(),
            range(process.cost),
        ]
    };
    if cost.processes.len() > 1 {
        table.rows = cost.processes.iter().take(SHOWN).map(row).collect();
        more(&mut table, cost.processes.len());
    }
    table
}

/// The threads that had CPUs that threads of the program waited for.
pub(super) fn occupants(cost: &RunCost) -> Table {
    let columns = ["name", "had the CPU", "came first after preemptions"];
    let mut table = Table::new("Who had the CPU while threads waited", &columns);
    let row = |by: &Occupant| vec![by.name.clone(), ns(by.held_ns), by.preemptions.to_string()];
    table.rows = cost.waits.occupants.iter().take(SHOWN).map(row).collect();
    more(&mut table, cost.waits.occupants.len());
    let rest =
        [("(idle: had to wake up)", cost.waits.idle_ns), ("(unknown)", cost.waits.unknown_ns)];
    let rest = rest.into_iter().filter(|(_, held)| held.is_some_and(|ns| ns > 0));
    table.rows.extend(rest.map(|(name, held)| vec![name.to_owned(), ns(held), String::new()]));
    table
}

/// A time for reading, or that it is unknown.
fn ns(ns: Option<u64>) -> String {
    ns.map_or_else(|| "unknown".to_owned(), |ns| time(ns as f64))
}

fn more(table: &mut Table, all: usize) {
    if all > SHOWN {
        table.rows.push(vec![format!("… {} more", all - SHOWN)]);
    }
}

fn range(cost: Option<Between>) -> String {
    let us = |us: f64| time(us * 1e3);
    match cost {
        None => "–".to_owned(),
        Some(Between { low_us, high_us: None }) if low_us <= 0.0 => "unknown".to_owned(),
        Some(Between { low_us, high_us: None }) => format!("≥ {}", us(low_us)),
        Some(Between { low_us, high_us: Some(high) }) if low_us.to_bits() == high.to_bits() => {
            us(low_us)
        }
        Some(Between { low_us, high_us: Some(high) }) => format!("[{}, {}]", us(low_us), us(high)),
    }
}

/// Assumptions, unknowns, and the overhead of recording.
pub(super) fn notes(recording: &Recording, cost: &RunCost) -> Vec<String> {
    let mut notes = Vec::new();
    if cost.priced {
        let sampled = WssRange::sampled(&recording.facts.touched_bytes) == Some(cost.wss);
        notes.push(if sampled {
            format!(
                "a working set between {} and {}: the median of {} samples of what processes touch within 10 ms, \
                 in whole pages, with 95 % confidence",
                size(cost.wss.low),
                size(cost.wss.high),
                recording.facts.touched_bytes.len()
            )
        } else if cost.wss.low == cost.wss.high {
            format!("assumed working set: {}", size(cost.wss.high))
        } else {
            format!(
                "assumed working set: between {} and {} (the resident set, or the last-level cache \
                 where that is smaller); --wss SIZE or --estimate-wss narrows it",
                size(cost.wss.low),
                size(cost.wss.high)
            )
        });
    }
    if let Some(largest) = cost.clipped_to {
        notes.push(format!(
            "costs were measured up to {}: larger working sets cost at least as much",
            size(largest)
        ));
    }
    for class in cost.classes.iter().filter(|class| class.why_not.is_some()) {
        let why = class.why_not.as_deref().unwrap_or_default();
        notes.push(format!("unknown: some of {} × {} ({why})", class.count, class.event));
    }
    notes.extend(losses(recording));
    let brief: u64 = cost.classes.iter().map(|class| class.brief).sum();
    if brief > 0 {
        notes.push(format!(
            "{brief} preemptions shorter than 10 µs were counted with their mean length, and have no rows of their own"
        ));
    }
    notes.push(took(recording));
    notes
}

/// The cost of recording, in one sentence.
fn took(recording: &Recording) -> String {
    let took = &recording.facts.took;
    let own = format!("recording took {} of CPU time", time(took.own_ns as f64));
    let share = took.share(recording.facts.span_ns) * 100.0;
    let Some(switches) = took.switches else {
        let programs = took.programs_ns.map_or_else(
            || "an unknown time in the kernel".to_owned(),
            |ns| format!("{} in its programs", time(ns as f64)),
        );
        return format!("{own} and {programs}: {share:.3} % of one CPU");
    };
    let others = switches.others.map_or_else(String::new, |count| {
        format!(", and each of {count} switches between others {}", time(switches.other_ns))
    });
    format!(
        "{own}, and made each of {} switches of the program take {} longer{others} (measured on this host after the \
         run, with and without it): {share:.3} % of one CPU. Colder caches are not in it: `make bench` measures how much \
         longer a program takes (observe/pipe-slowdown-percent)",
        switches.count,
        time(switches.each_ns),
    )
}

/// The events that were not recorded.
fn losses(recording: &Recording) -> Vec<String> {
    let unseen: u64 = recording.threads.iter().map(|thread| thread.unseen).sum();
    let said = [
        (recording.facts.lost, "absences were lost: no room in the buffer"),
        (recording.facts.unfollowed, "threads were not followed: no room in the table"),
        (
            recording.not_kept,
            "absences were counted in their threads but not kept: there were too many",
        ),
        (unseen, "times a thread was not seen to come back: those absences are upper bounds"),
    ];
    let lines = said.into_iter().filter(|(count, _)| *count > 0);
    let mut lines: Vec<String> = lines.map(|(count, what)| format!("{count} {what}")).collect();
    if let Some(why) = &recording.facts.why_not_bpf {
        lines.push(format!(
            "the threads that had the CPU, and the migrations that affinity made necessary, were not recorded, as \
             there is no BPF: {why}"
        ));
    }
    if lines.is_empty() { vec!["nothing was lost".to_owned()] } else { lines }
}

/// The one machine-readable answer.
pub fn json(recording: &Recording, cost: &RunCost) -> Value {
    json!({
        "what": recording.facts.what,
        "status": recording.facts.status,
        "rung": recording.facts.method,
        "why_not_bpf": recording.facts.why_not_bpf,
        "span_ns": recording.facts.span_ns,
        "rss_bytes": recording.facts.rss_bytes,
        "touched_bytes": recording.facts.touched_bytes,
        "absences": recording.absences.len(),
        "lost": recording.facts.lost,
        "unfollowed": recording.facts.unfollowed,
        "not_kept": recording.not_kept,
        "waited_ns": cost.waits.waited_ns,
        "cpu_ns": cost.waits.cpu_ns,
        "took": recording.facts.took,
        "took_share_of_a_cpu": recording.facts.took.share(recording.facts.span_ns),
        "threads": recording.threads,
        "cost": cost,
    })
}

/// The run in the trace-event format, which Perfetto and Chrome show: a row for each thread, a bar for
/// each absence.
pub fn trace(recording: &Recording, platform: &Platform) -> Value {
    let name = |thread: &crate::samples::ObservedThread| {
        json!({
            "ph": "M", "name": "thread_name", "pid": thread.pid, "tid": thread.tid,
            "args": { "name": thread.name },
        })
    };
    let process = |tid: u32| {
        let thread = recording.threads.iter().find(|thread| thread.tid == tid);
        thread.map_or(tid, |thread| thread.pid)
    };
    let bar = |absence: &Absence| {
        let us = |ns: u64| ns as f64 / 1e3;
        json!({
            "ph": "X",
            "name": title(absence),
            "cat": event(platform, absence).word(),
            "pid": process(absence.tid),
            "tid": absence.tid,
            "ts": us(absence.out_ns.saturating_sub(recording.facts.began_ns)),
            "dur": us(absence.length_ns()),
            "args": {
                "from_cpu": absence.from, "to_cpu": absence.to, "by": absence.by,
                "ran_us": us(absence.ran_ns), "by_affinity": absence.pinned, "seen": absence.seen,
            },
        })
    };
    let names = recording.threads.iter().map(name);
    let events: Vec<Value> = names.chain(recording.absences.iter().map(bar)).collect();
    json!({ "traceEvents": events, "displayTimeUnit": "ns", "otherData": { "what": recording.facts.what } })
}

pub(super) fn title(absence: &Absence) -> String {
    let moved = if absence.from == absence.to {
        String::new()
    } else {
        format!(" {}→{}", absence.from.0, absence.to.0)
    };
    match &absence.by {
        Some((_, name)) => format!("preempted by {name}{moved}"),
        None if absence.preempted => format!("preempted{moved}"),
        None => format!("blocked{moved}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::decision::run_cost::{WssRange, run_cost};
    use crate::samples::{Held, RecordingFacts, SwitchesTook, Took};
    use crate::units::Cpu;

    pub(in crate::report) fn recording() -> Recording {
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
            by: Some((9, "make".to_owned())),
        };
        let thread = ObservedThread {
            tid: 7,
            pid: 6,
            name: "sh".to_owned(),
            unseen: 2,
            ..Default::default()
        };
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
            absences: vec![absence],
            ..Recording::default()
        }
    }

    #[test]
    fn losses_and_what_recording_took_are_said() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let recording = recording();
        let cost =
            run_cost(&recording, &platform, None, WssRange::unknown(None, &platform)).unwrap();
        let text = text(&recording, &cost);
        for part in [
            "sh -c true: 1.000 s, 1 threads, exit status 0; recorded by bpf",
            "3 absences were lost",
            "2 times a thread was not seen to come back",
            "recording took 1.00 ms of CPU time, and made each of 400 switches of the program take 1.00 µs longer, and \
             each of 1000 switches between others 100 ns (measured",
            "it): 0.150 % of one CPU",
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
            wss: WssRange::known("7.5MiB".parse().unwrap()),
            clipped_to: None,
            classes: Vec::new(),
            waits: Waits::default(),
            threads: Vec::new(),
            processes: Vec::new(),
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
            let cost = run_cost(recording, &platform, None, range).unwrap();
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
        recording.facts.others = Some(vec![Held { name: "make".to_owned(), held_ns: 2_000 }]);
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
    fn a_trace_has_a_row_for_each_thread_and_a_bar_for_each_absence() {
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        let trace = trace(&recording(), &platform);
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events[0]["args"]["name"], "sh");
        let bar = &events[1];
        assert_eq!((&bar["ts"], &bar["dur"], &bar["pid"]), (&json!(1.0), &json!(3.0), &json!(6)));
        assert_eq!(bar["name"], "preempted by make 0→1");
    }
}
