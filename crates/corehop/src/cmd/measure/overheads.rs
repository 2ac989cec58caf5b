// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure overheads`: the kernel's scheduling overheads, and the overhead of observing them.

use std::path::{Path, PathBuf};

use corehop_core::experiment::Tasks;
use corehop_core::platform::Platform;
use corehop_core::report::overheads::{Overhead, csv, text};
use corehop_core::units::CpuList;
use corehop_linux::bpf::control::{ControlPages, Mode};
use corehop_linux::control_page::overhead;
use corehop_linux::live::{LiveMachine, Options};
use corehop_linux::overheads::{
    Overheads, OverheadsError, Recording, Series, Sets, What, overheads,
};
use corehop_linux::supervisor::interrupt;
use serde_json::json;

use super::jobs::some_cpus;
use super::on;
use super::schedule_sensitive::TaskArgs;
use crate::exit::{Exit, Failure};
use crate::output::{self, print};

/// The largest number of tasks for the table: as many as 001 runs.
const TASKS: u32 = 250;
/// Rounds of handing over a byte: one second in total.
const GOES: u32 = 20;

/// Measure the kernel's scheduling overheads.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The table to write, for `check --overheads`
    #[arg(short, long, value_name = "FILE.csv")]
    output: Option<PathBuf>,
    /// Print one machine-readable answer on stdout
    #[arg(long)]
    json: bool,
    /// The seed of all random draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use only these CPUs
    #[arg(long, value_name = "LIST", value_parser = some_cpus)]
    cpus: Option<CpuList>,
    /// Measure from threads alone, without BPF programs in the kernel
    #[arg(long, conflicts_with = "TaskArgs")]
    no_bpf: bool,
    #[command(flatten)]
    tasks: TaskArgs,
}

impl Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = &on::platform(on::LIVE)?;
        carry_out(&OverheadsRequest {
            platform,
            cpus: self.cpus.clone().unwrap_or_else(|| platform.usable()),
            no_bpf: self.no_bpf,
            tasks: &self.tasks,
            seed: self.seed,
            output: self.output.as_deref(),
            as_json: self.json,
        })
    }
}

/// The request.
struct OverheadsRequest<'a> {
    platform: &'a Platform,
    cpus: CpuList,
    no_bpf: bool,
    tasks: &'a TaskArgs,
    seed: u64,
    output: Option<&'a Path>,
    as_json: bool,
}

/// Measures, and writes the table if requested.
fn carry_out(asked: &OverheadsRequest<'_>) -> Result<Exit, Failure> {
    let (cpus, usable) = (&asked.cpus, asked.platform.usable());
    if let Some(cpu) = cpus.iter().find(|&cpu| !usable.contains(cpu)) {
        return Err(Failure::says(
            Exit::Usage,
            format!("--cpus: this process may not use CPU {cpu}"),
        ));
    }
    let plan = asked.plan()?;
    let measured = measure(asked, plan.as_ref())?;
    if interrupt::requested() {
        return Err(Failure::says(Exit::Interrupted, "interrupted: nothing was written"));
    }
    let rows: Vec<Overhead> = measured.series.iter().filter_map(row).collect();
    let watching = match cpus.first() {
        Some(cpu) => {
            overhead(cpu, GOES, || ControlPages::open(Mode::Own)).map_err(|it| it.to_string())
        }
        None => Err("no CPU".to_owned()),
    };
    let plan = plan.filter(|_| measured.recording.is_some());
    if let Some(path) = asked.output {
        output::write(path, csv(&rows, if plan.is_some() { None } else { Some(TASKS) }))?;
    }
    if asked.as_json {
        let watching = watching.as_ref().ok();
        let answer = json!({
            "overheads": rows,
            "scheduler": plan.as_ref().map(|plan| plan.scheduler),
            "seed": plan.as_ref().map(|_| asked.seed),
            "missing": measured.missing,
            "recording": measured.recording,
            "control_page": watching,
            "control_page_ratios": watching.map(corehop_linux::control_page::Overhead::ratios),
        });
        print(&format!("{answer}\n"))?;
        return Ok(Exit::Done);
    }
    let mut notes = notes(&measured);
    notes.extend(plan.as_ref().map(|tasks| under(tasks, asked.seed)));
    notes.push(match &watching {
        Ok(it) => {
            let (unregistered, registered) = it.ratios();
            format!(
                "the control page, handing a byte over on one CPU: {:.0} ns a switch without it; {unregistered:.3} \
                 times that for threads that are not registered, {registered:.3} times for registered ones",
                it.none_ns
            )
        }
        Err(why) => format!("the control page is not available: {why}"),
    });
    print(&text(&rows, &notes))?;
    Ok(Exit::Done)
}

impl OverheadsRequest<'_> {
    fn options(&self) -> Options {
        Options { allow_system: self.tasks.allow_system, ..Options::default() }
    }

    /// The task sets to measure under; none if only threads measure.
    fn plan(&self) -> Result<Option<Tasks>, Failure> {
        if self.no_bpf {
            return Ok(None);
        }
        self.tasks.of_overheads(self.platform, self.cpus.clone(), self.seed).map(Some)
    }
}

fn measure(asked: &OverheadsRequest<'_>, plan: Option<&Tasks>) -> Result<Overheads, Failure> {
    interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
    let mut machine = plan.map(|_| LiveMachine::new(asked.platform.clone(), asked.options()));
    let sets = machine.as_mut().zip(plan);
    let sets = sets.map(|(machine, tasks)| Sets { machine, tasks, seed: asked.seed, go_on });
    overheads(&asked.cpus, !asked.no_bpf, sets).map_err(|error| match error {
        OverheadsError::Sets(error) => error.into(),
        error => Failure::new(Exit::Failed, error),
    })
}

fn go_on() -> bool {
    !interrupt::requested()
}

/// The workload during the measurement.
fn under(plan: &Tasks, seed: u64) -> String {
    let seconds = plan.runs.iter().map(|run| run.duration.get()).max().unwrap_or(0) as f64 / 1e9;
    format!(
        "in the kernel: {} task sets under {}, {seconds} s each, seed {}; interrupts between CPUs also with two threads",
        plan.runs.len(),
        plan.scheduler,
        seed
    )
}

/// What was not measured, and the overhead of measuring.
fn notes(measured: &Overheads) -> Vec<String> {
    let mut notes: Vec<String> =
        measured.missing.iter().map(|why| format!("not measured: {why}")).collect();
    if let Some(it) = &measured.recording {
        notes.push(said_of(it));
    }
    notes
}

fn said_of(it: &Recording) -> String {
    let residual = it.residual_ns.map_or_else(
        || {
            "each kernel time includes entry and exit of the program; they were not measured"
                .to_owned()
        },
        |ns| format!("each kernel time includes entry and exit of the program, {ns:.0} ns"),
    );
    format!(
        "in the kernel: {} events, {} lost, {} without their other end; noting one down takes {:.0} ns, which is \
         left out; {residual}; the clocks of two CPUs are at most {:.0} ns apart",
        it.events, it.lost, it.unmatched, it.noting_ns, it.clock_bound_ns
    )
}

fn row(series: &Series) -> Option<Overhead> {
    let (column, what) = match series.what {
        What::Scheduling => ("SCHEDULE", "scheduling decision".to_owned()),
        What::Switch => ("CXS", "context switch".to_owned()),
        What::Tick => ("TICK", "tick".to_owned()),
        What::Release => ("RELEASE", "release".to_owned()),
        What::EventLatency => ("RELEASE-LATENCY", "release, until handled".to_owned()),
        What::WakeUp => ("RELEASE-LATENCY", "release, to running".to_owned()),
        What::OneWay(from, to) => ("IPI-LATENCY", format!("interrupt {}→{}", from.0, to.0)),
        What::RoundTrip(from, to) => {
            ("IPI-LATENCY", format!("interrupt {}→{}, there and back", from.0, to.0))
        }
    };
    Overhead::of(column, what, (series.way.name(), series.tasks), &series.ns)
}
