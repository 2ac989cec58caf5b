// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine that replays a trace which another program recorded, in place of a run of the traced program.
//!
//! The trace is text whose lines have the formats of [`crate::kinds::program::trace_line`]. A fact that the trace does
//! not state stays unknown, and a sentence in the facts of the recording names it; another sentence counts the lines of
//! unknown form.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};

use serde_json::{Map, Value, json};

use crate::experiment::Plan;
use crate::kinds::program::trace_line::{self, TraceEvent};
use crate::kinds::{EndedRun, ProgramRecord, RecordingFacts};
use crate::machine::{Machine, MachineError, RunEnd, Sink};
use crate::platform::Platform;
use crate::samples::Batch;
use crate::units::{Cpu, CpuList};

mod follow;

use follow::FollowedThreads;

/// The number of records that the machine hands over at once.
const AT_ONCE: usize = 1_024;

/// A machine that replays a trace.
pub struct TraceMachine {
    platform: Platform,
    source: Option<Box<dyn BufRead>>,
    pid: Option<u32>,
    facts: RecordingFacts,
}

impl std::fmt::Debug for TraceMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceMachine").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl TraceMachine {
    /// Makes a machine for the trace in `source`, which errors call `what`, from the host that `platform` describes.
    /// The recording has the threads of the process `pid` and of all processes that `pid` starts; if `pid` is `None`,
    /// the recording has all threads of the trace.
    pub fn new(
        platform: Platform,
        source: Box<dyn BufRead>,
        what: String,
        pid: Option<u32>,
    ) -> Self {
        let facts = RecordingFacts {
            what,
            method: "another program, as a trace".to_owned(),
            trace: Some(Vec::new()),
            ..RecordingFacts::default()
        };
        Self { platform, source: Some(source), pid, facts }
    }

    /// Reads the trace and hands over the absences that it shows.
    fn replay(&mut self, sink: &mut dyn Sink) -> Result<RunEnd, MachineError> {
        let mut source = self.source.take().ok_or_else(|| {
            failed(&"the trace was read already: open the trace once for each recording")
        })?;
        let mut trace = TraceReading::new(self.pid);
        let mut line = Vec::new();
        let mut hand = |records: &[ProgramRecord]| {
            sink.take(Batch::Program(records)).map_err(MachineError::Sink)
        };
        hand(&[ProgramRecord::Begin(0)])?;
        let mut end = RunEnd::Complete;
        while read_line(&mut *source, &mut line).map_err(|error| failed(&error))? {
            trace.take(&String::from_utf8_lossy(&line));
            if trace.threads.records.len() >= AT_ONCE
                && !hand(&std::mem::take(&mut trace.threads.records))?
            {
                end = RunEnd::Stopped;
                break;
            }
        }
        trace.check(self.pid)?;
        hand(&std::mem::take(&mut trace.threads.records))?;
        let (began_ns, ended_ns) = trace.span.unwrap_or_default();
        let threads = trace.threads.end(ended_ns, trace.has_wakes, trace.has_migrations);
        self.facts.began_ns = began_ns;
        self.facts.span_ns = ended_ns - began_ns;
        self.facts.lost = trace.lost;
        self.facts.ran = trace.threads.ran.iter().map(|(&cpu, &ns)| (cpu, ns)).collect();
        self.facts.trace = Some(trace.sentences(&self.platform));
        let run = EndedRun::of(&self.facts, &threads);
        hand(&threads.into_iter().map(ProgramRecord::Thread).collect::<Vec<_>>())?;
        hand(&[ProgramRecord::End(run)])?;
        Ok(end)
    }
}

fn failed(why: &dyn std::fmt::Display) -> MachineError {
    MachineError::Failed { what: "reading the trace".to_owned(), why: why.to_string() }
}

/// Reads the next line without its line end; returns false at the end of the text.
fn read_line(source: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = source.read_until(b'\n', line)?;
    while line.last().is_some_and(|byte| *byte == b'\n' || *byte == b'\r') {
        line.pop();
    }
    Ok(read > 0)
}

impl Machine for TraceMachine {
    fn platform(&self) -> &Platform {
        &self.platform
    }

    fn run(&mut self, plan: &Plan, sink: &mut dyn Sink) -> Result<RunEnd, MachineError> {
        if plan.program().is_some() {
            return self.replay(sink);
        }
        let what = "a trace can only replay the recording of a program, so corehop cannot run this plan on a trace";
        Err(MachineError::Refused(what.to_owned()))
    }

    fn provenance(&self) -> Map<String, Value> {
        let mut facts = Map::new();
        facts.insert("kind".to_owned(), json!("trace"));
        facts.insert(RecordingFacts::KEY.to_owned(), json!(self.facts));
        facts
    }
}

/// The state of reading a trace line by line.
struct TraceReading {
    threads: FollowedThreads,
    lines: u64,
    /// The number of lines that are not events, and the position of the first of these lines.
    not_understood: Option<(u64, u64)>,
    /// The number of events that say nothing about absences, by the event's name.
    others: BTreeMap<String, u64>,
    switches: u64,
    out_of_order: u64,
    lost: u64,
    has_wakes: bool,
    has_migrations: bool,
    has_processes: bool,
    cpus: BTreeSet<Cpu>,
    /// The times of the first and the last event.
    span: Option<(u64, u64)>,
}

impl TraceReading {
    fn new(pid: Option<u32>) -> Self {
        Self {
            threads: FollowedThreads::new(pid),
            lines: 0,
            not_understood: None,
            others: BTreeMap::new(),
            switches: 0,
            out_of_order: 0,
            lost: 0,
            has_wakes: false,
            has_migrations: false,
            has_processes: false,
            cpus: BTreeSet::new(),
            span: None,
        }
    }

    fn take(&mut self, line: &str) {
        self.lines += 1;
        if let Some(lost) = trace_line::lost(line) {
            self.lost += lost;
            return;
        }
        if line.trim().is_empty() || line.starts_with('#') {
            return;
        }
        let Some(event) = trace_line::event(line) else {
            self.not_understood.get_or_insert((0, self.lines)).0 += 1;
            return;
        };
        let (first, last) = self.span.unwrap_or((event.ns, event.ns));
        if event.ns < last {
            self.out_of_order += 1;
            return;
        }
        self.span = Some((first, event.ns));
        self.cpus.insert(event.cpu);
        self.has_processes |= event.pid.is_some();
        match &event.event {
            TraceEvent::Switch { .. } => self.switches += 1,
            TraceEvent::Wake(_) => self.has_wakes = true,
            TraceEvent::Migrate(_) => self.has_migrations = true,
            TraceEvent::Fork { .. } => {}
            TraceEvent::Other(name) => *self.others.entry(name.clone()).or_default() += 1,
        }
        self.threads.take(&event);
    }

    /// Checks whether the trace has the events that a recording needs.
    fn check(&self, pid: Option<u32>) -> Result<(), MachineError> {
        let refused = |what: String| Err(MachineError::Refused(what));
        if self.switches == 0 {
            let first = self.not_understood.map_or_else(String::new, |(lines, first)| {
                format!(" ({lines} lines are not events, the first is line {first})")
            });
            return refused(format!(
                "the trace has no event sched_switch{first}: print a trace of the scheduler as text by `perf sched script`, `perf script`, \
                 `trace-cmd report`, or from /sys/kernel/tracing/trace"
            ));
        }
        match pid {
            Some(pid) if self.threads.is_empty() => refused(format!(
                "the trace has no thread of the process {pid}: omit --pid to record all threads"
            )),
            _ => Ok(()),
        }
    }

    /// Returns sentences about facts that the trace does not state, and about events that the recording does not use.
    fn sentences(&self, platform: &Platform) -> Vec<String> {
        let missing = [
            (
                !self.has_wakes,
                "no event sched_waking or sched_wakeup: the time that threads waited for a CPU is unknown",
            ),
            (
                !self.has_migrations,
                "no event sched_migrate_task: migrations are the returns to another CPU",
            ),
            (!self.has_processes, "no line states a process: every thread counts as a process"),
        ];
        let mut all: Vec<String> =
            missing.into_iter().filter(|it| it.0).map(|it| it.1.to_owned()).collect();
        all.push("affinity, exit status, memory and the cost of recording are not part of a trace; times are on the clock of the trace".to_owned());
        if let Some((lines, first)) = self.not_understood {
            all.push(format!(
                "corehop ignores {lines} lines that are not events; the first is line {first}"
            ));
        }
        if self.out_of_order > 0 {
            all.push(format!("corehop ignores {} lines that are earlier than the line before: sort the trace by time", self.out_of_order));
        }
        if self.threads.unseen_leaves > 0 {
            all.push(format!(
                "{} times, the thread that left a CPU was not the last thread that had come to the CPU: events are missing, so the time of the last thread is not counted",
                self.threads.unseen_leaves
            ));
        }
        if !self.others.is_empty() {
            let named: Vec<String> =
                self.others.iter().map(|(name, count)| format!("{name} ({count})")).collect();
            all.push(format!(
                "corehop ignores events that say nothing about absences: {}",
                named.join(", ")
            ));
        }
        let foreign = self.cpus.iter().filter(|cpu| !platform.cpus.value.contains(**cpu));
        let foreign = CpuList::new(foreign.copied());
        if !foreign.is_empty() {
            all.push(format!(
                "CPUs {foreign} of the trace are unknown to {}, so that migrations to them count as memory_migration: name the machine of the \
                 trace (--platform)",
                platform.id
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests;
