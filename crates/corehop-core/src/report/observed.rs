// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded run and its cost of cache affinity: as text, and as a trace.

use serde_json::{Value, json};

use super::figure::Table;
use super::label::size;
use super::table::{micros, plain};
use crate::decision::run_cost::{Between, ClassCost, RunCost, ThreadCost, WssRange, event};
use crate::platform::Platform;
use crate::samples::{Absence, Recording};

/// Threads and preemptors shown in the text; the others are in the JSON answer.
const SHOWN: usize = 10;

/// The run, as text.
pub fn text(recording: &Recording, cost: &RunCost) -> String {
    let tables: String = tables(cost).iter().map(plain).collect();
    let answer = answer(cost).map_or_else(String::new, |answer| format!("{answer}\n"));
    let notes = notes(recording, cost).join("\n");
    format!("{}\n{answer}\n{tables}{notes}\n", head(recording))
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

/// The tables of a run that have rows: classes, threads, preempters.
pub(super) fn tables(cost: &RunCost) -> Vec<Table> {
    let others = [threads(cost), preemptors(cost)].into_iter().filter(|it| !it.rows.is_empty());
    std::iter::once(classes(cost)).chain(others).collect()
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
        ["what", "times", "preempted", "by affinity", "median µs", "longest µs", "cost µs"];
    let mut table = Table::new("Preemptions and migrations, by class", &columns);
    let row = |class: &ClassCost| {
        vec![
            class.event.to_string(),
            class.count.to_string(),
            class.preempted.to_string(),
            class.pinned.to_string(),
            micros(class.median_length_us),
            micros(class.longest_us),
            range(class.cost),
        ]
    };
    table.rows = cost.classes.iter().map(row).collect();
    if let Some(total) = cost.total {
        let blank = String::new;
        table.rows.push(vec![
            "all".to_owned(),
            blank(),
            blank(),
            blank(),
            blank(),
            blank(),
            range(Some(total)),
        ]);
    }
    table
}

pub(super) fn threads(cost: &RunCost) -> Table {
    let mut table =
        Table::new("Cost by thread", &["thread", "preemptions", "CPU changes", "cost µs"]);
    let row = |thread: &ThreadCost| {
        vec![
            format!("{} ({})", thread.name, thread.tid),
            thread.preemptions.to_string(),
            thread.cpu_changes.to_string(),
            range(thread.cost),
        ]
    };
    table.rows = cost.threads.iter().take(SHOWN).map(row).collect();
    more(&mut table, cost.threads.len());
    table
}

pub(super) fn preemptors(cost: &RunCost) -> Table {
    let mut table = Table::new("Preempted by", &["name", "times", "µs away"]);
    let row = |by: &crate::decision::run_cost::Preemptor| {
        vec![by.name.clone(), by.count.to_string(), micros(by.length_us)]
    };
    table.rows = cost.preemptors.iter().take(SHOWN).map(row).collect();
    more(&mut table, cost.preemptors.len());
    table
}

fn more(table: &mut Table, all: usize) {
    if all > SHOWN {
        table.rows.push(vec![format!("… {} more", all - SHOWN)]);
    }
}

fn range(cost: Option<Between>) -> String {
    match cost {
        None => "–".to_owned(),
        Some(Between { low_us, high_us: None }) => format!("≥ {}", micros(low_us)),
        Some(Between { low_us, high_us: Some(high) }) if low_us.to_bits() == high.to_bits() => {
            micros(low_us)
        }
        Some(Between { low_us, high_us: Some(high) }) => {
            format!("[{}, {}]", micros(low_us), micros(high))
        }
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
    let took = &recording.facts.took;
    let programs = took.programs_ns.map_or_else(
        || "an unknown time in the kernel".to_owned(),
        |ns| format!("{:.3} ms in its programs ({} runs)", ns as f64 / 1e6, took.runs.unwrap_or(0)),
    );
    let share = took.share(recording.facts.span_ns) * 100.0;
    notes.push(format!(
        "recording took {:.3} ms of CPU time and {programs}: {share:.3} % of one CPU",
        took.own_ns as f64 / 1e6
    ));
    notes
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
            "the preempters, and the migrations that affinity made necessary, were not recorded, as \
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
    use crate::samples::{ObservedThread, RecordingFacts, Took};
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
                took: Took { own_ns: 1_000_000, programs_ns: Some(500_000), runs: Some(10_000) },
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
            "recording took 1.000 ms of CPU time and 0.500 ms in its programs (10000 runs): 0.150 %",
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
            threads: Vec::new(),
            preemptors: Vec::new(),
            total: None,
            share,
        };
        assert_eq!(answer(&cost(None, false)), None);
        assert!(answer(&cost(None, true)).unwrap().contains("is unknown"));
        let least = answer(&cost(Some((0.012, None)), true)).unwrap();
        assert!(least.contains("at least 1.2 %") && least.contains("no upper bound"), "{least}");
        let text = text(&recording(), &cost(Some((0.0, Some(0.1))), true));
        assert!(text.lines().nth(1).unwrap().contains("cost 0 % to 10 %"), "{text}");
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
