// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure overheads`: what the kernel takes for scheduling, and what watching it takes.

use std::path::Path;

use corehop_core::experiment::TaskPlan;
use corehop_core::platform::Platform;
use corehop_core::report::overheads::{Overhead, csv, text};
use corehop_core::units::CpuList;
use corehop_linux::bpf::control::{ControlPages, Mode};
use corehop_linux::live::{LiveMachine, Options};
use corehop_linux::overheads::{
    Overheads, OverheadsError, Recording, Series, Sets, What, overheads,
};
use corehop_linux::page::overhead;
use corehop_linux::supervisor::interrupt;
use serde_json::json;

use super::task_sets::Tasks;
use crate::answer::{self, print};
use crate::exit::{Exit, Failure, refuse};

/// The number of tasks up to which the table is to be used: as many as 001 runs.
const TASKS: u32 = 250;
/// Goes of the hand-over of a byte: a second, in all.
const GOES: u32 = 20;

/// Options of its own.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Own {
    /// From threads alone, as where the kernel runs no BPF programs
    #[arg(long, help_heading = "What the kernel takes (overheads)")]
    no_bpf: bool,
}

impl Own {
    /// The options that are given, for what has no use for them.
    pub(super) fn given(self) -> [(&'static str, bool); 1] {
        [("--no-bpf", self.no_bpf)]
    }
}

/// What was asked for.
pub(super) struct Asked<'a> {
    pub(super) platform: &'a Platform,
    pub(super) cpus: CpuList,
    pub(super) own: Own,
    pub(super) tasks: &'a Tasks,
    pub(super) options: Options,
    pub(super) seed: u64,
    pub(super) output: Option<&'a Path>,
    pub(super) as_json: bool,
}

/// Measures, and writes the table where it is asked for.
pub(super) fn carry_out(asked: &Asked<'_>) -> Result<Exit, Failure> {
    let (cpus, usable) = (&asked.cpus, asked.platform.usable());
    if let Some(cpu) = cpus.iter().find(|&cpu| !usable.contains(cpu)) {
        return Err(Failure::says(Exit::Usage, format!("--cpus: CPU {cpu} may not be used here")));
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
        answer::write(path, csv(&rows, if plan.is_some() { None } else { Some(TASKS) }))?;
    }
    if asked.as_json {
        let watching = watching.as_ref().ok();
        let answer = json!({
            "overheads": rows,
            "scheduler": plan.as_ref().map(|plan| plan.scheduler),
            "seed": plan.as_ref().map(|plan| plan.seed),
            "missing": measured.missing,
            "recording": measured.recording,
            "control_page": watching,
            "control_page_ratios": watching.map(corehop_linux::page::Overhead::ratios),
        });
        print(&format!("{answer}\n"))?;
        return Ok(Exit::Done);
    }
    let mut notes = notes(&measured);
    notes.extend(plan.as_ref().map(under));
    notes.push(match &watching {
        Ok(it) => {
            let (unregistered, registered) = it.ratios();
            format!(
                "the control page, handing a byte over on one CPU: {:.0} ns a switch without it; {unregistered:.3} \
                 times that for threads that are not registered, {registered:.3} times for registered ones",
                it.none_ns
            )
        }
        Err(why) => format!("the control page is not to be had: {why}"),
    });
    print(&text(&rows, &notes))?;
    Ok(Exit::Done)
}

impl Asked<'_> {
    /// The task sets to measure under; none where threads say it alone.
    fn plan(&self) -> Result<Option<TaskPlan>, Failure> {
        if self.own.no_bpf {
            refuse("--no-bpf measures two threads", &self.tasks.given())?;
            return Ok(None);
        }
        self.tasks.of_overheads(self.platform, self.cpus.clone(), self.seed).map(Some)
    }
}

fn measure(asked: &Asked<'_>, plan: Option<&TaskPlan>) -> Result<Overheads, Failure> {
    interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
    let mut machine = plan.map(|_| LiveMachine::new(asked.platform.clone(), asked.options.clone()));
    let sets = machine.as_mut().zip(plan);
    let sets = sets.map(|(machine, plan)| Sets { machine, plan, go_on });
    overheads(&asked.cpus, !asked.own.no_bpf, sets).map_err(|error| match error {
        OverheadsError::Sets(error) => error.into(),
        error => Failure::new(Exit::Failed, error),
    })
}

fn go_on() -> bool {
    !interrupt::requested()
}

/// What ran meanwhile.
fn under(plan: &TaskPlan) -> String {
    let seconds = plan.runs.iter().map(|run| run.duration.get()).max().unwrap_or(0) as f64 / 1e9;
    format!(
        "in the kernel: {} task sets under {}, {seconds} s each, seed {}; interrupts between CPUs also with two threads",
        plan.runs.len(),
        plan.scheduler,
        plan.seed
    )
}

/// What was not measured, and what measuring took.
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
            "getting to it and away from it is in each time of the kernel's, and was not measured"
                .to_owned()
        },
        |ns| format!("getting to it and away from it, {ns:.0} ns, is in each time of the kernel's"),
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
