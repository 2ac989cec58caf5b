// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure overheads`: what the kernel takes for scheduling, and what watching it takes.

use std::path::Path;

use corehop_core::platform::Platform;
use corehop_core::report::overheads::{Overhead, csv, text};
use corehop_core::units::CpuList;
use corehop_linux::bpf::control::{ControlPages, Mode};
use corehop_linux::overheads::{Overheads, Recording, Series, What, overheads};
use corehop_linux::page::overhead;
use serde_json::json;

use crate::answer::{self, print};
use crate::exit::{Exit, Failure};

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

/// Measures on `cpus`, or on all that may be used, and writes the table to `output`.
pub(super) fn carry_out(
    platform: &Platform,
    cpus: Option<&CpuList>,
    own: Own,
    output: Option<&Path>,
    as_json: bool,
) -> Result<Exit, Failure> {
    let usable = platform.usable();
    let cpus = cpus.unwrap_or(&usable);
    if let Some(cpu) = cpus.iter().find(|&cpu| !usable.contains(cpu)) {
        return Err(Failure::says(Exit::Usage, format!("--cpus: CPU {cpu} may not be used here")));
    }
    let measured =
        overheads(cpus, !own.no_bpf).map_err(|error| Failure::new(Exit::Failed, error))?;
    let rows: Vec<Overhead> = measured.series.iter().filter_map(row).collect();
    let watching = match cpus.first() {
        Some(cpu) => {
            overhead(cpu, GOES, || ControlPages::open(Mode::Own)).map_err(|it| it.to_string())
        }
        None => Err("no CPU".to_owned()),
    };
    if let Some(path) = output {
        answer::write(path, csv(&rows, Some(TASKS)))?;
    }
    if as_json {
        let watching = watching.as_ref().ok();
        let answer = json!({
            "overheads": rows,
            "missing": measured.missing,
            "recording": measured.recording,
            "control_page": watching,
            "control_page_ratios": watching.map(corehop_linux::page::Overhead::ratios),
        });
        print(&format!("{answer}\n"))?;
        return Ok(Exit::Done);
    }
    let mut notes = notes(&measured);
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
