// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about task sets under a scheduler: how their jobs went, missed deadlines, preemption lengths,
//! and whether the number of tasks matters.

use serde_json::{Value, json};

use super::super::figure::{FigureTable, PageSection, SectionPlace};
use super::account::word;
use super::kind_front::KindFront;
use super::{TerminalTables, tables_of};
use crate::front::{MOST_LINES, WordedChart, WordedLine};
use corehop_plan::samples::JobOutcome;
use corehop_plan::units::{Bytes, three_digits};
use corehop_results::Results;
use corehop_stats::tasks::{
    JobCounts, LengthQuantiles, SchedulerPair, SchedulerSummary, SizeEffect, SizePoint, TaskReport,
    TaskSummary, Under,
};

/// The section lists at most this many tasks, and chooses the tasks that were latest.
const LISTED: usize = 10;

/// Tables of task sets have no headings of their own.
pub(super) const HEADINGS: &[(&str, &str)] = &[];

/// Returns the section about task sets, with a table for everything that is known about them.
pub(super) fn sections(data: &Results) -> Vec<PageSection> {
    data.tasks.as_ref().map(|report| section(data, report)).into_iter().collect()
}

/// Returns the first screen about task sets, with the missed deadlines of each scheduler.
pub(super) fn front(data: &Results) -> Option<KindFront> {
    let tasks = data.tasks.as_ref().filter(|it| !it.schedulers.is_empty())?;
    let line = |it: &SchedulerSummary| WordedLine {
        words: format!("{}, load {}", it.under.scheduler, it.under.load),
        value: 100.0 * it.misses.ratio,
        ends: it.misses.interval.map(|it| (100.0 * it.low, 100.0 * it.high)),
        group: 0,
    };
    Some(KindFront {
        title: "Task sets under their schedulers".to_owned(),
        answer: None,
        chart: Some(WordedChart {
            quantity: "jobs that missed their deadline in %".to_owned(),
            unit: "%",
            point: "share of all jobs",
            level: 0.95,
            under: String::new(),
            lines: tasks.schedulers.iter().take(MOST_LINES).map(line).collect(),
        }),
        checks: Vec::new(),
        next: (
            "corehop check TASKS.json".to_owned(),
            "tests whether a task set always meets its deadlines.",
        ),
    })
}

pub(super) fn tables(data: &Results) -> TerminalTables {
    TerminalTables { before: tables_of(sections(data)), after: Vec::new() }
}

pub(super) fn results(data: &Results) -> Vec<Value> {
    data.tasks.iter().map(|it| json!(it)).collect()
}

fn section(data: &Results, report: &TaskReport) -> PageSection {
    let all = [
        jobs(&report.courses),
        schedulers(&report.schedulers),
        pairs(&report.pairs),
        delays(&report.pairs),
        lengths(&report.lengths),
        late(report),
        sizes(&report.sizes),
        effects(&report.effects),
    ];
    let tables = all.into_iter().filter(|table| !table.rows.is_empty()).map(FigureTable::shown);
    let mut section = PageSection::new(SectionPlace::Result, "task-sets", "Task sets under their schedulers").says(
        "Only jobs that followed the method gave samples; other jobs are counted by their course. Maxima cover the same number of samples for each number of tasks (k_min). Shares have 95 % intervals, computed as if jobs missed their deadlines independently.",
    );
    section.tables = tables.collect();
    notes(data).into_iter().fold(section, PageSection::says)
}

/// Returns notes about what the tables of task sets leave out, and about the outcome of the observations.
pub(super) fn notes(data: &Results) -> Vec<String> {
    let Some(report) = data.tasks.as_ref() else { return Vec::new() };
    let mut notes = Vec::new();
    if report.samples_without_jobs > 0 {
        notes.push(format!(
            "{} samples belong to jobs that are not among the files, so their runs are unknown: also pass the file `….jobs.parquet` of each file of samples.",
            report.samples_without_jobs
        ));
    }
    if report.jobs_without_samples > 0 {
        notes.push(format!(
            "{} jobs gave samples that are not among the files: also pass the file of samples of each `….jobs.parquet`.",
            report.jobs_without_samples
        ));
    }
    notes.extend(report.verdicts.iter().map(|(machine, verdict)| {
        let (claim, evidence) = (verdict.claim.trim_end_matches('.'), &verdict.evidence);
        let outcome = word(verdict.outcome);
        format!("Observation 5 on {machine} ({claim}): {outcome}; {evidence}.")
    }));
    notes
}

const UNDER: [&str; 3] = ["machine", "scheduler", "load"];

fn under(of: &Under) -> Vec<String> {
    vec![of.machine.to_string(), of.scheduler.to_string(), of.load.to_string()]
}

/// Returns a table whose first columns are the machine, the scheduler and the load.
fn table<T>(
    caption: &str,
    head: &[&str],
    rows: &[T],
    row: impl Fn(&T) -> (&Under, Vec<String>),
) -> FigureTable {
    let mut table = FigureTable::new(caption, &[&UNDER, head].concat());
    let whole = |it: &T| {
        let (of, rest) = row(it);
        [under(of), rest].concat()
    };
    table.rows = rows.iter().map(whole).collect();
    table
}

fn jobs(counts: &[JobCounts]) -> FigureTable {
    let words: Vec<&str> = JobOutcome::ALL.iter().map(|course| course.word()).collect();
    table("jobs by course", &[&["jobs"], words.as_slice()].concat(), counts, |outcomes| {
        let count = |course| outcomes.courses.get(course).copied().unwrap_or(0).to_string();
        let counts = JobOutcome::ALL.iter().map(count);
        (&outcomes.under, [outcomes.jobs.to_string()].into_iter().chain(counts).collect())
    })
}

/// Returns a number as text, or the word `unknown`.
fn known(number: Option<String>) -> String {
    number.unwrap_or_else(|| "unknown".to_owned())
}

fn percent(share: f64) -> String {
    format!("{}%", three_digits(100.0 * share))
}

fn schedulers(all: &[SchedulerSummary]) -> FigureTable {
    let head = [
        "runs",
        "seconds",
        "missed",
        "interval",
        "largest tardiness µs",
        "response median µs",
        "p99 µs",
        "samples",
        "a second",
        "preemptions",
        "migrations",
    ];
    table("deadlines, samples and absences", &head, all, |misses_of| {
        let misses = &misses_of.misses;
        let row = vec![
            misses_of.runs.to_string(),
            three_digits(misses_of.seconds),
            percent(misses.ratio),
            misses.interval.map_or_else(
                || misses.why_none.map_or_else(String::new, |why| why.to_string()),
                |it| format!("{} to {}", percent(it.low), percent(it.high)),
            ),
            three_digits(misses.tardiness_us),
            three_digits(misses_of.responses.median_us),
            three_digits(misses_of.responses.p99_us),
            known(misses_of.samples.map(|samples| samples.to_string())),
            known(misses_of.samples_per_second.map(three_digits)),
            misses_of.preemptions.to_string(),
            misses_of.migrations.to_string(),
        ];
        (&misses_of.under, row)
    })
}

fn pairs(all: &[SchedulerPair]) -> FigureTable {
    let head =
        ["machine", "load", "schedulers", "tasks", "execution", "fewer misses", "longest response"];
    let mut table = FigureTable::new("two schedulers with the same task sets", &head);
    let row = |it: &SchedulerPair| {
        let [first, second] = it.schedulers;
        let ratio = it.response_ratio.as_ref().map_or_else(
            || "-".to_owned(),
            |ratio| match (ratio.interval, ratio.why_none) {
                (Some(at), _) => {
                    format!("x {:.3} ({:.3} to {:.3})", ratio.estimate, at.low, at.high)
                }
                (None, Some(why)) => format!("x {:.3} ({why})", ratio.estimate),
                (None, None) => format!("x {:.3}", ratio.estimate),
            },
        );
        vec![
            it.machine.clone(),
            it.load.clone(),
            format!("{second} against {first}"),
            it.tasks.to_string(),
            it.execution_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("x {ratio:.3}")),
            format!("{} with {second}, {} with {first}", it.fewer_misses[1], it.fewer_misses[0]),
            ratio,
        ]
    };
    table.rows = all.iter().map(row).collect();
    table
}

fn delays(all: &[SchedulerPair]) -> FigureTable {
    let head =
        ["machine", "load", "schedulers", "event", "WSS", "write", "samples", "median delay µs"];
    let mut table = FigureTable::new("delays of two schedulers, the second minus the first", &head);
    for pair in all {
        let [first, second] = pair.schedulers;
        table.rows.extend(pair.delays.iter().map(|comparison| {
            let interval = match (comparison.difference.interval, comparison.difference.why_none) {
                (Some(at), _) => {
                    format!(" ({} to {})", three_digits(at.low), three_digits(at.high))
                }
                (None, Some(why)) => format!(" ({why})"),
                (None, None) => String::new(),
            };
            vec![
                pair.machine.clone(),
                pair.load.clone(),
                format!("{second} against {first}"),
                comparison.event.to_string(),
                Bytes::new(comparison.wss_bytes).to_string(),
                comparison.write_ratio.to_string(),
                format!("{} and {}", comparison.n[1], comparison.n[0]),
                three_digits(comparison.difference.estimate) + &interval,
            ]
        }));
    }
    table
}

fn lengths(all: &[LengthQuantiles]) -> FigureTable {
    let head = ["event", "absences", "p10 µs", "median µs", "p90 µs", "p99 µs", "max µs"];
    table("observed preemption lengths", &head, all, |delays| {
        let quantiles = delays.quantiles_us.iter().map(|&value| three_digits(value));
        let mut row = vec![delays.event.to_string(), delays.n.to_string()];
        row.extend(quantiles);
        row.push(three_digits(delays.max_us));
        (&delays.under, row)
    })
}

fn sizes(all: &[SizePoint]) -> FigureTable {
    let head = [
        "event",
        "WSS",
        "write",
        "tasks",
        "runs",
        "samples",
        "k_min",
        "max µs",
        "max of all",
        "mean µs",
        "median µs",
    ];
    table("delays by the number of tasks", &head, all, |group| {
        let row = vec![
            group.event.to_string(),
            Bytes::new(group.wss_bytes).to_string(),
            group.write_ratio.to_string(),
            group.task_count.to_string(),
            group.runs.to_string(),
            group.n.to_string(),
            group.k_min.map_or_else(|| "too few".to_owned(), |k_min| k_min.to_string()),
            group.max_us.map_or_else(|| "-".to_owned(), three_digits),
            three_digits(group.max_of_all_us),
            three_digits(group.mean_us),
            three_digits(group.median_us),
        ];
        (&group.under, row)
    })
}

fn effects(all: &[SizeEffect]) -> FigureTable {
    let head = ["event", "WSS", "delay", "tasks", "ratio", "interval", "detectable", "says"];
    table("most tasks against fewest tasks", &head, all, |pair| {
        let comparison = &pair.comparison;
        let interval = comparison.interval;
        let row = vec![
            pair.event.to_string(),
            Bytes::new(comparison.wss_bytes).to_string(),
            pair.statistic.to_string(),
            format!("{} against {}", pair.to_tasks, pair.from_tasks),
            format!("{:.3}", comparison.estimate),
            interval.map_or_else(
                || "-".to_owned(),
                |at| format!("{:.3} to {:.3} at {:.0}%", at.low, at.high, 100.0 * at.level),
            ),
            pair.detectable.map_or_else(|| "-".to_owned(), |ratio| format!("x {ratio:.2}")),
            format!("{:?}", comparison.says).to_lowercase(),
        ];
        (&pair.under, row)
    })
}

fn late(report: &TaskReport) -> FigureTable {
    let mut latest: Vec<TaskSummary> =
        report.tasks.iter().filter(|it| it.misses.missed > 0).cloned().collect();
    latest.sort_by(|a, b| b.misses.tardiness_us.total_cmp(&a.misses.tardiness_us));
    let caption =
        format!("tasks that missed deadlines: {} of {}", latest.len(), report.tasks.len());
    latest.truncate(LISTED);
    let head = ["tasks", "WSS", "set", "task", "jobs", "missed", "tardiness µs", "response p99 µs"];
    table(&caption, &head, &latest, |task| {
        let row = vec![
            task.task_count.to_string(),
            Bytes::new(task.wss_bytes).to_string(),
            task.set.to_string(),
            task.task.to_string(),
            task.misses.jobs.to_string(),
            task.misses.missed.to_string(),
            three_digits(task.misses.tardiness_us),
            three_digits(task.responses.p99_us),
        ];
        (&task.under, row)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example::sample;
    use corehop_plan::samples::{Provenance, Sample, TaskJob};
    use corehop_plan::workload::Event;
    use corehop_plan::workload::scheduler::Scheduler;
    use corehop_stats::estimator::Estimator;
    use corehop_stats::tasks::TaskRuns;

    /// Makes a report of two tasks of ten jobs each. Under G-EDF all jobs respond after 2 ms. Under P-EDF all jobs
    /// respond after 15 ms, and every second job is late: by 7 ms in task 1, by 5 ms in the other task.
    fn report() -> TaskReport {
        let mut runs = TaskRuns::default();
        for (scheduler, sampled) in [(Scheduler::GEdf, 20), (Scheduler::PEdf, 15)] {
            let part = scheduler == Scheduler::PEdf;
            let job = |at: u64| TaskJob {
                machine: "box".into(),
                scheduler,
                seed: 1,
                run: 0,
                set: 0,
                load: "constructed".into(),
                task: at % 2,
                task_count: 2,
                wss_bytes: 4_096,
                write_ratio: 0.5,
                job: at / 2,
                period_ns: 10_000_000,
                deadline_ns: 10_000_000,
                wcet_ns: 1_000_000,
                release_ns: 0,
                latency_ns: 0.0,
                response_ns: if part { 15e6 } else { 2e6 },
                lateness_ns: if part && at % 4 < 2 { 5e6 + 2e6 * (at % 2) as f64 } else { -1e6 },
                executed_ns: 1_000_000,
                course: JobOutcome::Sample,
                preemptions: 1,
                migrations: 0,
                event: Event::Preemption,
                length_ns: Some(1e6),
                by: None,
                scale: 1.0,
            };
            let from = Provenance { date: scheduler.to_string(), ..Provenance::default() };
            runs.jobs(&from, &(0..20).map(job).collect::<Vec<_>>());
            let moved = |job| Sample { job, task: Some(0), task_count: Some(2), ..sample() };
            let samples: Vec<Sample> = (0..sampled).map(moved).collect();
            runs.samples(&from, Estimator::Difference, &samples);
        }
        runs.finish().unwrap()
    }

    /// Returns the field of the last row in the column with the heading `head`.
    fn field(table: &FigureTable, head: &str) -> String {
        let place = table.head.iter().position(|it| it == head).unwrap();
        table.rows.last().unwrap()[place].clone()
    }

    #[test]
    fn every_field_stands_below_its_heading() {
        let report = report();
        let table = schedulers(&report.schedulers);
        assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
        for (head, value) in [
            ("scheduler", "p-edf"),
            ("missed", "50.0%"),
            ("interval", "1 replicates; an interval needs 6"),
            ("largest tardiness µs", "7000"),
            ("response median µs", "15000"),
            ("samples", "15"),
            ("preemptions", "20"),
            ("migrations", "0"),
        ] {
            assert_eq!(field(&table, head), value, "{head}");
        }
        let table = jobs(&report.courses);
        assert_eq!((field(&table, "jobs"), field(&table, "sample")), ("20".into(), "20".into()));
        let table = lengths(&report.lengths);
        assert_eq!(
            (field(&table, "absences"), field(&table, "median µs")),
            ("20".into(), "1000".into())
        );
    }

    #[test]
    fn of_two_schedulers_each_has_its_own_misses_and_samples() {
        let report = report();
        let table = pairs(&report.pairs);
        assert_eq!(field(&table, "schedulers"), "p-edf against g-edf");
        assert_eq!(field(&table, "fewer misses"), "0 with p-edf, 2 with g-edf");
        assert_eq!(field(&table, "execution"), "x 1.000");
        assert!(field(&table, "longest response").starts_with("x 7.500"));
        assert_eq!(field(&delays(&report.pairs), "samples"), "15 and 20");
    }

    #[test]
    fn the_latest_task_is_listed_first() {
        let table = late(&report());
        assert_eq!(table.caption, "tasks that missed deadlines: 2 of 4");
        let tasks: Vec<&str> = table.rows.iter().map(|row| row[6].as_str()).collect();
        assert_eq!((table.head[6].as_str(), tasks), ("task", vec!["1", "0"]));
        assert_eq!(
            (field(&table, "missed"), field(&table, "tardiness µs")),
            ("5".into(), "5000".into())
        );
    }
}
