// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure overheads`: what the kernel takes for scheduling, and what watching it takes.

use std::path::Path;

use corehop_core::platform::Platform;
use corehop_core::report::overheads::{Overhead, csv, text};
use corehop_core::units::CpuList;
use corehop_linux::bpf::control::{ControlPages, Mode};
use corehop_linux::overheads::{Overheads, overheads};
use corehop_linux::page::overhead;
use serde_json::json;

use crate::answer::{self, print};
use crate::exit::{Exit, Failure};

/// The number of tasks up to which the table is to be used: as many as 001 runs.
const TASKS: usize = 250;
/// Goes of the hand-over of a byte: a second, in all.
const GOES: u32 = 20;

/// Measures on `cpus`, or on all that may be used, and writes the table to `output`.
pub(super) fn carry_out(
    platform: &Platform,
    cpus: Option<&CpuList>,
    output: Option<&Path>,
    as_json: bool,
) -> Result<Exit, Failure> {
    let usable = platform.usable();
    let cpus = cpus.unwrap_or(&usable);
    if let Some(cpu) = cpus.iter().find(|&cpu| !usable.contains(cpu)) {
        return Err(Failure::says(Exit::Usage, format!("--cpus: CPU {cpu} may not be used here")));
    }
    let measured = overheads(cpus).map_err(|error| Failure::new(Exit::Failed, error))?;
    let rows = rows(&measured);
    let watching = match cpus.first() {
        Some(cpu) => {
            overhead(cpu, GOES, || ControlPages::open(Mode::Own)).map_err(|it| it.to_string())
        }
        None => Err("no CPU".to_owned()),
    };
    if let Some(path) = output {
        answer::write(path, csv(&rows, TASKS))?;
    }
    if as_json {
        let watching = watching.as_ref().ok();
        let answer = json!({
            "overheads": rows,
            "missing": measured.missing,
            "control_page": watching,
            "control_page_ratios": watching.map(corehop_linux::page::Overhead::ratios),
        });
        print(&format!("{answer}\n"))?;
        return Ok(Exit::Done);
    }
    let mut notes: Vec<String> =
        measured.missing.iter().map(|why| format!("not measured: {why}")).collect();
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

fn rows(measured: &Overheads) -> Vec<Overhead> {
    let single = [
        ("SCHEDULE", "scheduling decision", &measured.scheduling_ns),
        ("CXS", "context switch", &measured.switch_ns),
        ("TICK", "tick", &measured.tick_ns),
        ("RELEASE-LATENCY", "release, to running", &measured.release_ns),
    ];
    let single = single.into_iter().filter_map(|(column, what, ns)| Overhead::of(column, what, ns));
    let pairs = measured.ipi_ns.iter().filter_map(|((from, to), ns)| {
        Overhead::of("IPI-LATENCY", format!("interrupt {}→{}, there and back", from.0, to.0), ns)
    });
    single.chain(pairs).collect()
}
