// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recorded run as a trace with tracks of threads and of CPUs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::title;
use corehop_decide::run_cost::{ClassCost, RunCost, event};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{Absence, RecordedAbsence, Recording};
use corehop_plan::workload::Event;

/// Writes a run in the trace-event format, which Perfetto and Chrome show: a bar on a thread's row for each absence,
/// and CPU tracks with the stretches before absences and the time lost after them. The writer streams the absences, so
/// that it holds at most one batch of them in memory.
#[derive(Debug)]
pub struct TraceWriter<'a, W: Write> {
    out: W,
    recording: &'a Recording,
    platform: &'a Platform,
    processes: HashMap<u32, u32>,
    names: HashMap<u32, String>,
    /// The expected cost of an event of each class, in microseconds.
    each_us: BTreeMap<Event, f64>,
    /// The tracks of CPUs to which the writer has given a name.
    tracks: BTreeSet<u64>,
    is_first: bool,
}

/// The process number under which the trace has the tracks of CPUs, because no real process has this number.
const CPUS: u32 = 0;
/// The number of a track of lost time is the CPU's number plus this constant, which is larger than the number of any
/// CPU.
const LOST: u64 = 1_000_000;

impl<'a, W: Write> TraceWriter<'a, W> {
    /// Begins a trace with the names of the threads. The trace shows for each event the cost that `cost` expects on
    /// average for the event's class.
    ///
    /// # Errors
    /// Returns an error if writing to `out` fails.
    pub fn begin(
        mut out: W,
        recording: &'a Recording,
        platform: &'a Platform,
        cost: &RunCost,
    ) -> io::Result<Self> {
        out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let each = |it: &ClassCost| {
            let us = it.cost?.us? / it.count.max(1) as f64;
            (us > 0.0).then_some((it.event, us))
        };
        let mut trace = Self {
            out,
            recording,
            platform,
            processes: HashMap::new(),
            names: recording.threads.iter().map(|it| (it.tid, it.name.clone())).collect(),
            each_us: cost.classes.iter().filter_map(each).collect(),
            tracks: BTreeSet::new(),
            is_first: true,
        };
        for thread in &recording.threads {
            trace.processes.entry(thread.tid).or_insert(thread.pid);
            trace.event(&json!({
                "ph": "M", "name": "thread_name", "pid": thread.pid, "tid": thread.tid,
                "args": { "name": thread.name },
            }))?;
        }
        Ok(trace)
    }

    /// Writes the bars of some absences.
    ///
    /// # Errors
    /// Returns an error if writing to the output fails.
    pub fn take(&mut self, rows: &[RecordedAbsence]) -> io::Result<()> {
        rows.iter().try_for_each(|row| {
            let absence = row.into();
            self.bar(&absence)?;
            self.on_cpus(&absence)
        })
    }

    /// Writes to the CPU tracks the stretch for which the thread ran before the absence, and the time that its return
    /// is expected to cost.
    fn on_cpus(&mut self, absence: &Absence) -> io::Result<()> {
        let name = self.names.get(&absence.tid).cloned().unwrap_or_default();
        let name = format!("{name} {}", absence.tid);
        let from = u64::from(absence.from.0);
        if absence.ran_ns > 0 {
            let began_ns = absence.out_ns.saturating_sub(absence.ran_ns);
            self.on_cpu(
                from,
                &format!("CPU {from}"),
                &name,
                began_ns,
                absence.ran_ns as f64 / 1e3,
            )?;
        }
        let event = event(self.platform, absence);
        let (to, each) = (u64::from(absence.to.0), self.each_us.get(&event).copied());
        match each.filter(|_| absence.seen) {
            Some(us) => {
                let what = format!("{event} of {name}");
                let track = format!("CPU {to}: lost time, as expected");
                self.on_cpu(LOST + to, &track, &what, absence.in_ns, us)
            }
            None => Ok(()),
        }
    }

    /// Writes one bar to a CPU track.
    fn on_cpu(
        &mut self,
        track: u64,
        title: &str,
        name: &str,
        begin_ns: u64,
        us: f64,
    ) -> io::Result<()> {
        if self.tracks.is_empty() {
            self.event(&json!({
                "ph": "M", "name": "process_name", "pid": CPUS, "args": { "name": "CPUs" },
            }))?;
        }
        if self.tracks.insert(track) {
            self.event(&json!({
                "ph": "M", "name": "thread_name", "pid": CPUS, "tid": track, "args": { "name": title },
            }))?;
        }
        let ts = begin_ns.saturating_sub(self.recording.facts.began_ns) as f64 / 1e3;
        self.event(&json!({
            "ph": "X", "name": name, "cat": "cpu", "pid": CPUS, "tid": track, "ts": ts, "dur": us,
        }))
    }

    fn bar(&mut self, absence: &Absence) -> io::Result<()> {
        let us = |ns: u64| ns as f64 / 1e3;
        let began_ns = self.recording.facts.began_ns;
        self.event(&json!({
            "ph": "X",
            "name": title(absence),
            "cat": event(self.platform, absence).word(),
            "pid": self.processes.get(&absence.tid).unwrap_or(&absence.tid),
            "tid": absence.tid,
            "ts": us(absence.out_ns.saturating_sub(began_ns)),
            "dur": us(absence.length_ns()),
            "args": {
                "from_cpu": absence.from, "to_cpu": absence.to, "by": absence.by,
                "ran_us": us(absence.ran_ns), "by_affinity": absence.pinned, "seen": absence.seen,
            },
        }))
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let between = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        write!(self.out, "{between}{event}")
    }

    /// Writes the end of the trace.
    ///
    /// # Errors
    /// Returns an error if writing to the output fails.
    pub fn end(mut self) -> io::Result<()> {
        let others = json!({ "what": self.recording.facts.what });
        writeln!(self.out, "],\"otherData\":{others}}}")?;
        self.out.flush()
    }
}
