// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the control page to a switch between threads on this machine.
//!
//! `cargo run --release -p corehop-linux --example switch_cost [GOES]`, as root. Threads hand a byte to
//! each other through pipes on one CPU; the fastest of the goes counts.
#![expect(clippy::print_stdout, reason = "this is a program, and its output is the point")]

use std::time::Instant;

use corehop_linux::bpf::control::{ControlPages, PagePurpose};
use corehop_linux::control_page::overhead;
use corehop_plan::units::Cpu;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let goes = std::env::args().nth(1).map_or(Ok(20), |text| text.parse())?;
    for mode in [PagePurpose::Own, PagePurpose::Follow] {
        let begin = Instant::now();
        drop(ControlPages::open(mode)?);
        let open = begin.elapsed();
        let it = overhead(Cpu(0), goes, || ControlPages::open(mode))?;
        println!(
            "{mode:?}: opened and closed in {open:.1?}; a switch {:.0} ns, {:+.0} ns unregistered, {:+.0} ns \
             registered; the program by itself {:.0} ns",
            it.none_ns,
            it.unregistered_ns - it.none_ns,
            it.registered_ns - it.none_ns,
            it.program_ns.unwrap_or(f64::NAN)
        );
    }
    Ok(())
}
