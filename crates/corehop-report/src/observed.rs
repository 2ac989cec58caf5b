// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded run as text and as a trace: how long threads waited for CPUs, the preemptions and migrations, and the
//! cache affinity that these cost.

mod bars;
mod tracks;

pub use tracks::TraceWriter;

use serde_json::{Value, json};

use super::figure::FigureTable;
use super::label::{size, time};
use super::table::plain;
use corehop_decide::run_cost::{
    ClassCost, CostBounds, Occupant, ProcessCost, RunCost, ThreadCost, Waits, WssRange,
};
use corehop_plan::samples::{Absence, ObservedThread, Recording};
use corehop_plan::shown;
use corehop_plan::workload::Event;

/// The text shows at most this many threads, processes and names; the JSON answer has all of them.
const SHOWN: usize = 10;
/// The sentence about the threads that had the CPU lists at most this many names.
const NAMED: usize = 3;

/// Describes a recorded run as text that begins with what weighs the most.
pub fn text(recording: &Recording, cost: &RunCost) -> String {
    let tables: String = tables(cost).iter().map(plain).collect();
    let first = firsts(recording, cost).join("\n");
    let notes = notes(recording, cost).join("\n");
    format!("{first}\n{}\n\n{tables}{notes}\n", head(recording))
}

/// Returns the first sentences of a recorded run: the waiting, the threads that had the CPU, the preemptions and
/// migrations, and their cost if costs were given.
pub(super) fn firsts(recording: &Recording, cost: &RunCost) -> Vec<String> {
    let all = [
        lost(recording, cost),
        Some(waited(recording, &cost.waits)),
        bars::throttled(&cost.waits),
        bars::halted(&cost.waits),
        had_the_cpu(&cost.waits),
        Some(counted(recording, cost)),
        answer(cost),
    ];
    all.into_iter().flatten().collect()
}

/// Returns a sentence about CPU time that events took from a program, such as
/// `redis-server lost 3.1 % [2.4 %, 3.9 %] of its CPU time to 11204 migrations (27 µs each)`. The result is `None` if
/// the costs were not caused in the program, or if the CPU time is unknown.
fn lost(recording: &Recording, cost: &RunCost) -> Option<String> {
    let threads = recording.known_threads().filter(|_| cost.own)?;
    let cpu_us = threads.iter().map(|it| it.cpu_ns).sum::<Option<u64>>()? as f64 / 1e3;
    let parts: Vec<String> = [("migrations", true), ("preemptions", false)]
        .into_iter()
        .filter_map(|(name, migrations)| lost_to(cost, name, migrations, cpu_us))
        .collect();
    let name = busiest(cost).unwrap_or("the program");
    if parts.is_empty() || cpu_us <= 0.0 {
        let to = "to preemptions or migrations whose cost is known";
        return Some(format!("{name} lost none of its CPU time {to}"));
    }
    let first = parts[0].replacen(" to ", " of its CPU time to ", 1);
    let waited = cost.waits.share().map_or_else(String::new, |share| {
        format!("; waiting for a CPU took {}", percent(share * 100.0, share * 100.0))
    });
    Some(format!("{name} lost {}{waited}", [&[first], &parts[1..]].concat().join(" and ")))
}

/// Returns a clause such as `3.1 % [2.4 %, 3.9 %] to 11204 migrations (27 µs each)`, or `None` if the run has no
/// migrations or preemptions of this kind.
fn lost_to(cost: &RunCost, name: &str, migrations: bool, cpu_us: f64) -> Option<String> {
    let is_meant = |it: &&ClassCost| {
        let is_preemption = it.event == Event::Preemption;
        it.cost.is_some() && if migrations { it.event.is_migration() } else { is_preemption }
    };
    let classes: Vec<&ClassCost> = cost.classes.iter().filter(is_meant).collect();
    let count: u64 = classes.iter().map(|it| it.count).sum();
    let bounds = || classes.iter().filter_map(|it| it.cost);
    let low = bounds().map(|it| it.low_us).sum::<f64>().min(cpu_us);
    let high = bounds().map(|it| it.most_us()).sum::<f64>().min(cpu_us);
    let expected = bounds().map(|it| it.us).sum::<Option<f64>>().map(|us| us.min(cpu_us));
    let share = |us: f64| 100.0 * us / cpu_us;
    let within = percent(share(low), share(high));
    let (share, each) = match expected {
        Some(us) if high > low => {
            let [us_share, low, high] = in_percent([us, low, high].map(share));
            let each = format!(" ({} each)", time(1e3 * us / count.max(1) as f64));
            (format!("{us_share} [{low}, {high}]"), each)
        }
        _ => (within, String::new()),
    };
    (count > 0).then(|| format!("{share} to {count} {name}{each}"))
}

/// Returns the name of the process that used the most CPU time.
fn busiest(cost: &RunCost) -> Option<&str> {
    let busiest = cost.processes.iter().flatten().max_by_key(|it| it.cpu_ns);
    busiest.map(|it| it.name.as_str())
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
        None | Some(0) => String::new(),
        Some(threads) => format!("; of {threads} threads it is unknown"),
    };
    format!(
        "runnable threads waited {} for a CPU in a run of {span}{share}{unknown}",
        ns(Some(waited_ns))
    )
}

/// Returns a sentence about the threads that had the CPU while threads of the program waited, or `None` if no thread
/// waited.
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
    let when = if waits.throttled_ns() > 0 { "for the rest" } else { "meanwhile" };
    (!parts.is_empty()).then(|| format!("the CPU was {when} with: {}", parts.join(", ")))
}

fn counted(recording: &Recording, cost: &RunCost) -> String {
    let migrations = cost.classes.iter().filter(|class| class.event != Event::Preemption);
    let at_wake_up: u64 = migrations.clone().map(|class| class.count - class.preempted).sum();
    let Some(threads) = recording.known_threads() else {
        let preempted: u64 = cost.classes.iter().map(|class| class.preempted).sum();
        let moved: u64 = migrations.map(|class| class.count).sum();
        return format!(
            "at least {preempted} preemptions, and {moved} returns to another CPU than before, {at_wake_up} of them at \
             wake-up; the counts of the threads are unknown"
        );
    };
    let sum = |of: fn(&ObservedThread) -> u64| threads.iter().map(of).sum::<u64>();
    format!(
        "{} preemptions, and {} returns to another CPU than before, {at_wake_up} of them at wake-up",
        sum(|it| it.preemptions),
        sum(|it| it.cpu_changes),
    )
}

/// Returns the reason why the cost of cache affinity may have any size.
fn unbounded(cost: &RunCost) -> String {
    let of_class = cost.classes.iter().find_map(|class| class.why_not.clone());
    let of_size = cost.clipped_to.map(|largest| {
        format!(
            "the working set may be zero or beyond {}, the largest measured size; --wss or --estimate-wss narrows it",
            size(largest)
        )
    });
    of_class.or(of_size).unwrap_or_else(|| "it has no upper bound".to_owned())
}

/// Returns a sentence about the cost of cache affinity, or `None` if no costs were given.
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

/// Returns a range of percentages with only as many digits as the width of the range supports.
fn percent(low: f64, high: f64) -> String {
    let digits = digits(if high > low { high - low } else { low });
    if high > low {
        format!("{low:.digits$} % to {high:.digits$} %")
    } else {
        format!("{low:.digits$} %")
    }
}

/// Returns an amount and its bounds in percent, with only as many digits as the width of the interval supports.
fn in_percent([amount, low, high]: [f64; 3]) -> [String; 3] {
    let digits = digits(high - low);
    [amount, low, high].map(|it| format!("{it:.digits$} %"))
}

/// Returns the number of decimals that an interval of this width supports.
fn digits(width: f64) -> usize {
    if width > 0.0 { (1.0 - width.log10().floor()).clamp(0.0, 6.0) as usize } else { 0 }
}

/// Returns the tables of a recorded run that have rows: the threads that had CPUs, the classes of events, the processes
/// and the threads.
pub(super) fn tables(cost: &RunCost) -> Vec<FigureTable> {
    let [occupants, processes, threads] = [occupants(cost), processes(cost), threads(cost)];
    let all = [occupants, classes(cost), processes, threads];
    all.into_iter()
        .enumerate()
        .filter(|(place, it)| *place == 1 || !it.rows.is_empty())
        .map(|(_, it)| it)
        .collect()
}

/// Returns a line about the duration of a recorded run, the number of its threads, and its exit status.
pub(super) fn head(recording: &Recording) -> String {
    let (threads, span) = (how_many_threads(recording), recording.facts.span_ns as f64 / 1e9);
    let ended =
        recording.facts.status.map_or_else(String::new, |code| format!(", exit status {code}"));
    let runs = match recording.runs.len() {
        0 | 1 => String::new(),
        several => format!("{several} runs, "),
    };
    format!(
        "{}: {runs}{span:.3} s, {threads}{ended}; recorded by {}",
        shown::line(&recording.facts.what),
        recording.facts.method
    )
}

/// Returns the number of recorded threads in words.
pub(super) fn how_many_threads(recording: &Recording) -> String {
    let known = recording.known_threads().map(|threads| format!("{} threads", threads.len()));
    known.unwrap_or_else(|| "an unknown number of threads".to_owned())
}

pub(super) fn classes(cost: &RunCost) -> FigureTable {
    let columns =
        ["what", "times", "preempted", "at wake-up", "by affinity", "median", "longest", "cost"];
    let mut table = FigureTable::new("Preemptions and migrations, by class", &columns);
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

pub(super) fn threads(cost: &RunCost) -> FigureTable {
    let columns = ["thread", "CPU time", "waited", "preemptions", "CPU changes", "cost"];
    let mut table = FigureTable::new("By thread", &columns);
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
    let Some(threads) = &cost.threads else { return table };
    table.rows = threads.iter().take(SHOWN).map(row).collect();
    more(&mut table, threads.len());
    table.rows.push(vec![
        "all".to_owned(),
        ns(cost.waits.cpu_ns),
        ns(cost.waits.waited_ns),
        threads.iter().map(|it| it.preemptions).sum::<u64>().to_string(),
        threads.iter().map(|it| it.cpu_changes).sum::<u64>().to_string(),
        range(cost.total),
    ]);
    table
}

/// Returns a table of the processes of a recorded run, which has rows only if there are several processes.
pub(super) fn processes(cost: &RunCost) -> FigureTable {
    let columns =
        ["process", "threads", "CPU time", "waited", "preemptions", "CPU changes", "cost"];
    let mut table = FigureTable::new("By process", &columns);
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
    if let Some(processes) = cost.processes.as_ref().filter(|it| it.len() > 1) {
        table.rows = processes.iter().take(SHOWN).map(row).collect();
        more(&mut table, processes.len());
    }
    table
}

/// Returns a table of the threads that had a CPU while threads of the program waited for that CPU.
pub(super) fn occupants(cost: &RunCost) -> FigureTable {
    let columns = ["name", "had the CPU", "came first after preemptions"];
    let mut table = FigureTable::new("Who had the CPU while threads waited", &columns);
    let row = |by: &Occupant| vec![by.name.clone(), ns(by.held_ns), by.preemptions.to_string()];
    table.rows = cost.waits.occupants.iter().take(SHOWN).map(row).collect();
    more(&mut table, cost.waits.occupants.len());
    let rest =
        [("(idle: had to wake up)", cost.waits.idle_ns), ("(unknown)", cost.waits.unknown_ns)];
    let rest = rest.into_iter().filter(|(_, held)| held.is_some_and(|ns| ns > 0));
    table.rows.extend(rest.map(|(name, held)| vec![name.to_owned(), ns(held), String::new()]));
    table.rows.extend(bars::rows(&cost.waits));
    table
}

/// Returns a time for people to read, or the word `unknown`.
fn ns(ns: Option<u64>) -> String {
    ns.map_or_else(|| "unknown".to_owned(), |ns| time(ns as f64))
}

fn more(table: &mut FigureTable, all: usize) {
    if all > SHOWN {
        table.rows.push(vec![format!("… {} more", all - SHOWN)]);
    }
}

fn range(cost: Option<CostBounds>) -> String {
    let us = |us: f64| time(us * 1e3);
    let Some(CostBounds { us: expected, low_us, high_us }) = cost else { return "–".to_owned() };
    match (high_us, expected) {
        (None, _) if low_us <= 0.0 => "unknown".to_owned(),
        (None, _) => format!("≥ {}", us(low_us)),
        (Some(high), _) if low_us.to_bits() == high.to_bits() => us(low_us),
        (Some(high), Some(it)) => format!("{} [{}, {}]", us(it), us(low_us), us(high)),
        (Some(high), None) => format!("[{}, {}]", us(low_us), us(high)),
    }
}

/// Returns sentences about the assumptions behind the costs, the unknown facts, and the overhead of recording.
pub(super) fn notes(recording: &Recording, cost: &RunCost) -> Vec<String> {
    let mut notes = Vec::new();
    if cost.priced {
        let sampled = WssRange::sampled(&recording.facts.touched_bytes) == Some(cost.wss);
        notes.push(if cost.own {
            "costs caused in the program itself: no working set is assumed".to_owned()
        } else if sampled {
            format!(
                "a working set between {} and {}: the median of {} samples of the pages that processes touch within 10 ms, with 95 % confidence",
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
    notes.extend(bars::limits(recording));
    notes.extend(losses(recording));
    let brief: u64 = cost.classes.iter().map(|class| class.brief).sum();
    if brief > 0 {
        notes.push(format!(
            "{brief} preemptions shorter than 10 µs were counted with their mean length, and have no rows"
        ));
    }
    match &recording.facts.trace {
        Some(sentences) => notes.extend(sentences.iter().cloned()),
        None => notes.push(took(recording)),
    }
    notes
}

/// Returns a sentence about the CPU time that recording took.
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
        format!(
            ", and each of {count} switches between other threads take {} longer",
            time(switches.other_ns)
        )
    });
    format!(
        "{own}, and made each of {} switches of the program take {} longer{others} (measured on this host after the \
         run, with and without recording): {share:.3} % of one CPU. This share excludes the cost of colder caches: `make \
         bench` measures how much longer a program takes (observe/pipe-slowdown-percent)",
        switches.count,
        time(switches.each_ns),
    )
}

/// Returns sentences about the events that corehop could not record.
fn losses(recording: &Recording) -> Vec<String> {
    let unseen: u64 = recording.threads.iter().map(|thread| thread.unseen).sum();
    let said = [
        (recording.facts.lost, "absences were lost: no room in the buffer"),
        (recording.facts.unfollowed, "threads were not followed: no room in the table"),
        (unseen, "times the return of a thread was missed: these absences are upper bounds"),
    ];
    let lines = said.into_iter().filter(|(count, _)| *count > 0);
    let mut lines: Vec<String> = lines.map(|(count, what)| format!("{count} {what}")).collect();
    if let Some(why) = &recording.facts.why_not_bpf {
        lines.push(format!(
            "without BPF, the threads that had the CPU and the migrations forced by affinity were not recorded: {why}"
        ));
    }
    if recording.known_threads().is_none() {
        lines.push(
            "the file of thread rows is missing: a recording writes it at the end. The number of threads, and preemptions shorter than 10 µs, are unknown"
                .to_owned(),
        );
    }
    if lines.is_empty() {
        let of_trace = recording.facts.trace.is_some();
        let none = if of_trace { "the trace states no loss" } else { "nothing was lost" };
        lines.push(none.to_owned());
    }
    lines
}

/// Returns the whole recorded run as JSON for other programs.
pub fn json(recording: &Recording, cost: &RunCost) -> Value {
    let is_own = recording.facts.trace.is_none();
    let mut answer = json!({
        "what": recording.facts.what,
        "status": recording.facts.status,
        "rung": recording.facts.method,
        "why_not_bpf": recording.facts.why_not_bpf,
        "span_ns": recording.facts.span_ns,
        "rss_bytes": recording.facts.rss_bytes,
        "touched_bytes": recording.facts.touched_bytes,
        "absences": recording.absences.times(),
        "lost": recording.facts.lost,
        "unfollowed": recording.facts.unfollowed,
        "waited_ns": cost.waits.waited_ns,
        "throttled_ns": cost.waits.barred.map(|it| it.waiting_ns()),
        "limits": recording.facts.limits,
        "cpu_ns": cost.waits.cpu_ns,
        "took": is_own.then_some(recording.facts.took),
        "took_share_of_a_cpu": is_own.then(|| recording.facts.took.share(recording.facts.span_ns)),
        "threads": recording.known_threads(),
        "cost": cost,
    });
    if let Some(sentences) = &recording.facts.trace {
        answer["trace"] = json!(sentences);
    }
    answer
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
pub(super) mod tests;
