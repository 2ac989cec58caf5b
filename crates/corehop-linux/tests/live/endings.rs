// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loads of a run end with it, for every cause of its end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use corehop_plan::experiment::{Plan, Step};
use corehop_plan::machine::{Machine, RunEnd, Sink, SinkError};
use corehop_plan::samples::Batch;
use corehop_plan::units::{CpuList, Nanos};
use corehop_plan::workload::Load;
use corehop_system::supervisor::{ProcessId, interrupt};

use crate::plans::{cpus, leave, list, machine, named, plan_of, platform};

/// The argument that makes this program a run of the plan in a file.
pub(crate) const ROLE: &str = "run-plan";

/// Tells of every batch, and of the end.
struct Told;

impl Sink for Told {
    fn take(&mut self, batch: Batch<'_>) -> Result<bool, SinkError> {
        if let Batch::Jobs(records) = batch {
            println!("{} records", records.len());
        }
        Ok(!interrupt::requested())
    }
}

pub(crate) fn run_plan(path: &str) -> ExitCode {
    interrupt::install().unwrap();
    let plan = Plan::from_json(&fs::read_to_string(path).unwrap()).unwrap();
    match machine().run(&plan, &mut Told) {
        Ok(RunEnd::Complete) => println!("complete"),
        Ok(RunEnd::Stopped) => println!("stopped"),
        Err(error) => println!("{error}"),
    }
    ExitCode::SUCCESS
}

/// A run in a process of its own.
pub(crate) struct Run {
    pub(crate) process: Child,
    answers: BufReader<ChildStdout>,
}

impl Run {
    pub(crate) fn begin(plan: &Plan, folder: &Path) -> Self {
        let path = folder.join("plan.json");
        fs::write(&path, plan.to_json()).unwrap();
        let mut command = Command::new("/proc/self/exe");
        command.arg(ROLE).arg(&path).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        Self { answers: BufReader::new(process.stdout.take().unwrap()), process }
    }

    /// The next line it tells; empty at its end.
    pub(crate) fn told(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: kill takes two integers; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.process.id() as i32, signal) }, 0);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Seconds of jobs that mostly sleep, under a command that writes down who it is.
fn long_plan(pids: &Path) -> Plan {
    let command = format!("echo $$ >> {}; exec sleep 1000", pids.display());
    let load = Load::Realistic { command, cpus: CpuList::new([cpus()[0]]) };
    let steps = [Step::Touch, leave(cpus()[0], Nanos::from_millis(20)), Step::Touch];
    named(&plan_of(list(4), load, 3_000, &steps), &platform())
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// A run that has recorded something, and the process of its load.
fn underway(folder: &Path) -> (Run, ProcessId) {
    let pids = folder.join("pids");
    let mut run = Run::begin(&long_plan(&pids), folder);
    let told = run.told();
    assert!(told.ends_with("records"), "{told}");
    let pid = fs::read_to_string(&pids).unwrap().lines().next().unwrap().parse().unwrap();
    (run, ProcessId::of(pid).unwrap())
}

pub(crate) fn an_interrupted_run_ends_its_load() {
    let folder = tempfile::tempdir().unwrap();
    let (mut run, load) = underway(folder.path());
    run.signal(libc::SIGINT);
    let mut told = run.told();
    while told.ends_with("records") {
        told = run.told();
    }
    assert_eq!(told, "stopped");
    assert!(run.process.wait().unwrap().success());
    assert!(!load.is_alive());
}

pub(crate) fn a_run_that_is_killed_leaves_no_load() {
    let folder = tempfile::tempdir().unwrap();
    let (mut run, load) = underway(folder.path());
    run.signal(libc::SIGKILL);
    run.process.wait().unwrap();
    eventually("the load is gone", || !load.is_alive());
}
