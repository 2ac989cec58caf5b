// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of the interrupt counters on this machine: opening them, reading them, and the time that each
//! program takes from the interrupt it counts.
//!
//! `cargo run --release -p corehop-linux --example interrupt_cost [SECONDS]`, as root. The run
//! times include two clock readings per run, which the kernel adds while it measures them; an empty
//! program shows how much that is.
#![expect(clippy::print_stdout, reason = "this is a program, and its output is the point")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use corehop_linux::bpf::interrupts::{InterruptCounters, OBJECT};
use corehop_linux::bpf::object::Object;
use corehop_linux::bpf::{Btf, RunTimeStatistics, kernel_types};
use corehop_plan::units::{Cpu, CpuList};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    let cpus: CpuList = std::fs::read_to_string("/sys/devices/system/cpu/online")?.parse()?;

    let begin = Instant::now();
    let types = kernel_types()?;
    println!("types read in {:.1?}", begin.elapsed());
    let begin = Instant::now();
    let counters = InterruptCounters::open_with(types, &cpus)?;
    println!("{} programs attached in {:.1?}", counters.programs()?.len(), begin.elapsed());
    for skipped in counters.skipped() {
        println!("not counted: {}: {}", skipped.counter.name(), skipped.reason);
    }

    print_cost_of_reading(&counters);
    print_cost_of_counting(types, &counters, &cpus, Duration::from_secs(seconds))?;

    let begin = Instant::now();
    drop(counters);
    println!("closed in {:.1?}", begin.elapsed());
    Ok(())
}

/// The fastest of many batches: what a read costs where nothing interferes.
fn print_cost_of_reading(counters: &InterruptCounters) {
    let batch = || {
        let begin = Instant::now();
        for _ in 0..1_000 {
            black_box(counters.read(black_box(Cpu(0))));
        }
        begin.elapsed()
    };
    let best = (0..1_000).map(|_| batch()).min().unwrap_or_default();
    println!("read: {:.1} ns", best.as_nanos() as f64 / 1_000.0);
}

fn print_cost_of_counting(
    types: &Btf,
    counters: &InterruptCounters,
    cpus: &CpuList,
    span: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    let before: Vec<_> = cpus.iter().map(|cpu| counters.read(cpu)).collect();
    let mut empty = Object::load(OBJECT, types, &[], &[])?;
    empty.attach("hop_empty", "sched_switch", types)?;
    let statistics = RunTimeStatistics::begin()?;
    let begin = Instant::now();
    while begin.elapsed() < span {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut programs = counters.programs()?;
    programs.push(("(an empty program)", empty.info("hop_empty")?));
    drop(statistics);
    for (cpu, before) in cpus.iter().zip(before) {
        let added = counters.read(cpu).minus(&before);
        let text: Vec<_> = added.causes().map(|(c, n)| format!("{} {n}", c.name())).collect();
        println!("{cpu} in {span:?}: {}", text.join(", "));
    }
    println!("{:<28}{:>8}{:>10}{:>8}{:>8}", "tracepoint", "runs", "ns a run", "missed", "bytes");
    for (tracepoint, info) in programs {
        let each = info.run_time_ns as f64 / info.runs.max(1) as f64;
        let (runs, missed, bytes) = (info.runs, info.missed, info.machine_code_bytes);
        println!("{tracepoint:<28}{runs:>8}{each:>10.1}{missed:>8}{bytes:>8}");
    }
    Ok(())
}
