// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of files get changed bytes: they answer with a value or an error, never with a panic, and in bounded memory.
//!
//! The program's own test of this kind is `crates/corehop/tests/hostile`. `COREHOP_FUZZ` is the number of rounds (0: without end), `COREHOP_SEED`
//! the first seed. A seed gives the same input again.

mod memory;
mod unsealed;

use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};

use corehop_plan::experiment::{Experiment, Plan};
use corehop_plan::platform::Platform;
use corehop_plan::samples::{
    BatchWriter, Provenance, Reader, RowKind, Rows, Sample, example, write_parquet,
};
use corehop_plan::units::Nanos;
use corehop_plan::workload::{Event, set_file};
use corehop_sched::overhead::table::OverheadTable;
use corehop_sched::study::cost::CostStudy;
use corehop_sched::study::{SchedulabilityStudy, StudyCounts};
use corehop_sched::supply::resources;
use corehop_stats::costs::CostTable;
use corehop_stats::cpmd::{DelayFitter, DelayModel};
use corehop_stats::estimator::Estimator;

use corehop_fixtures::changed::{SplitMix, changed};
use memory::Memory;
use unsealed::without_checksums;

/// Rounds of `make test`; each gives every target one input.
const ROUNDS: u64 = 12_500;
/// More is not used by any input.
const MOST_KIB: u64 = 1 << 20;

/// A reader, what it reads, and how often in a round.
struct Target {
    name: &'static str,
    seed: Vec<u8>,
    read: fn(&[u8]),
    /// One of so many rounds: what takes long is read less often.
    every: u64,
}

fn in_text(bytes: &[u8], read: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        read(text);
    }
}

fn rows(bytes: &[u8]) {
    for salvage in [false, true] {
        let file = Memory::new(bytes);
        let reader = if salvage { Reader::salvage(file) } else { Reader::open(file) };
        let Ok(mut reader) = reader else { continue };
        while let Ok(Some(rows)) = reader.next_rows::<Sample>() {
            assert!(rows.len() <= 10_000);
        }
    }
}

fn platform(bytes: &[u8]) {
    in_text(bytes, |text| {
        if let Ok(platform) = Platform::from_toml(text) {
            let _ = Platform::from_toml(&platform.to_toml());
            let _ = platform.usable();
        }
    });
}

fn plan(bytes: &[u8]) {
    in_text(bytes, |text| {
        if let Ok(plan) = Plan::from_json(text) {
            let _ = plan.digest();
            let _ = plan.check(&corehop_fixtures::x5650());
        }
    });
}

fn stream() -> Vec<u8> {
    let rows: Rows =
        (0..3).map(|job| Sample { job, ..example::sample() }).collect::<Vec<_>>().into();
    let mut bytes = Vec::new();
    let mut part =
        BatchWriter::begin(&mut bytes, RowKind::Samples, &Provenance::default()).unwrap();
    part.append(&rows).unwrap();
    part.end().unwrap();
    bytes
}

fn parquet() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut reader = Reader::open(Memory::new(&stream())).unwrap();
    write_parquet(&mut reader, &Provenance::default(), &mut bytes, |_| {}).unwrap();
    bytes
}

fn model_text() -> Vec<u8> {
    let mut fit = DelayFitter::new(Estimator::Difference);
    let samples: Vec<Sample> = (0..30).map(|job| Sample { job, ..example::sample() }).collect();
    fit.take(&samples);
    fit.finish().to_json().into_bytes()
}

fn plan_text() -> Vec<u8> {
    let experiment =
        corehop_fixtures::idle(4, &[Event::Preemption], Nanos::from_millis(1), 1, "0-1");
    experiment.plan(&corehop_fixtures::x5650(), 1).unwrap().to_json().into_bytes()
}

fn folder(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

const SET: &[u8] = br#"{"cpus": 2, "tasks": [{"name": "a", "wcet_us": 2000, "period_us": 10000,
    "deadline_us": 8000, "priority": 1, "wss_kib": 64}, {"wcet_us": 3.5, "period_us": 12000}]}"#;
const SUPPLY: &[u8] = br#"[{"cpus": "0-3,7", "period_us": 10000, "budget_us": 8000.25}]"#;
const OVERHEADS: &[u8] = b"TASK-COUNT,CXS,SCHEDULE\n10,1.5,2\n20,2.5,3\n";

fn study_counts() -> Vec<u8> {
    let mut bytes = Vec::new();
    unsealed::study_counts().write(&mut bytes).unwrap();
    bytes
}

fn targets() -> Vec<Target> {
    let costs: Vec<u8> = folder("studies/bastoni-fig5/costs.csv").into_iter().take(900).collect();
    let target = |name, seed, read, every| Target { name, seed, read, every };
    vec![
        target("plan", plan_text(), plan as fn(&[u8]), 4),
        target("platform", folder("platforms/m5_c.toml"), platform, 4),
        target("task set", SET.to_vec(), |it| in_text(it, |it| drop(set_file::parse(it))), 1),
        target("study", folder("studies/bastoni-fig5/study.toml"), study, 4),
        target("cost study", folder("studies/limited-preemption/study.toml"), cost_study, 4),
        target("model", model_text(), |it| in_text(it, |it| drop(DelayModel::from_json(it))), 1),
        target("cost table", costs, |it| in_text(it, |it| drop(CostTable::parse(it))), 1),
        target("supply", SUPPLY.to_vec(), |it| in_text(it, |it| drop(resources(it))), 1),
        target("overheads", OVERHEADS.to_vec(), overheads, 1),
        target("stream", stream(), rows, 1),
        target("stream without checksums", without_checksums(&stream()), rows, 2),
        target("result", parquet(), rows, 1),
        target("result without checksums", without_checksums(&parquet()), rows, 4),
        target("study counts", study_counts(), |it| drop(StudyCounts::read(Memory::new(it))), 4),
    ]
}

fn study(bytes: &[u8]) {
    in_text(bytes, |text| drop(SchedulabilityStudy::parse(text)));
}

fn cost_study(bytes: &[u8]) {
    in_text(bytes, |text| drop(CostStudy::parse(text)));
}

fn overheads(bytes: &[u8]) {
    in_text(bytes, |text| drop(OverheadTable::parse(text)));
}

/// The most memory that this process had, in KiB.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_input_makes_a_reader_panic_or_fill_the_memory() {
    let rounds = number("COREHOP_FUZZ").unwrap_or(ROUNDS);
    let first = number("COREHOP_SEED").unwrap_or(0);
    let targets = targets();
    let mut count = 0_u64;
    for round in 0.. {
        if rounds != 0 && round >= rounds {
            break;
        }
        let seed = first + round;
        for target in targets.iter().filter(|it| seed.is_multiple_of(it.every)) {
            let input = changed(&target.seed, &mut SplitMix(seed));
            let read = panic::catch_unwind(AssertUnwindSafe(|| (target.read)(&input)));
            let text = String::from_utf8_lossy(&input[..input.len().min(4_000)]);
            assert!(read.is_ok(), "{}, COREHOP_SEED={seed}: panic on {text}", target.name);
            count += 1;
        }
        if round % 1_000 == 999 {
            let peak = peak_kib().unwrap_or(0);
            assert!(peak < MOST_KIB, "{peak} KiB at COREHOP_SEED={seed}");
            let _ = writeln!(std::io::stderr(), "{count} inputs, seeds {first} to {seed}");
        }
    }
    assert!(rounds != ROUNDS || count >= 100_000, "{count}");
}
