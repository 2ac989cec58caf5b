// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files with made-up rows, for looking at reports where nothing can be measured.
//!
//! `cargo run -p corehop-report --example sample_files -- FOLDER` writes into FOLDER: `synthetic.parquet`,
//! `access-time.parquet`, `preemption-length.parquet`, `polluter-sweep.parquet`, `torn.part` (the
//! beginning of a run that was killed), `hostile.parquet`, whose names try to break a page, and
//! `measured.toml`, the same machine with what was measured of it.

use std::error::Error;
use std::fs::File;
use std::path::Path;

use corehop_plan::experiment::DrawStream;
use corehop_plan::finding::{Finding, Severity};
use corehop_plan::platform::observed::Exchange;
use corehop_plan::platform::{Affinity, Check, Fact, Latency, Platform};
use corehop_plan::samples::{
    AccessTime, BatchWriter, Cause, PreemptionLength, Provenance, Reader, Row, RowKind, Rows,
    Sample, example, write_parquet,
};
use corehop_plan::units::Cpu;
use corehop_plan::workload::{Absence, Event, LineState, Page};

/// Nanoseconds for a line that comes from a cache of this many KiB, or from an inner one.
const LEVELS: [(f64, f64); 3] = [(48.0, 1.6), (2_048.0, 5.5), (32_768.0, 28.0)];
const MEMORY_NS: f64 = 110.0;

const PLATFORM: &str = r#"
schema = 1
id = "made_up"
name = "A made-up machine"
cpus = { value = "0-3", source = "assumed" }
packages = { value = ["0-3"], source = "assumed" }
cores = { value = ["0-1", "2-3"], source = "assumed" }

[[cache]]
level = 1
kind = "data"
size = { value = "48 KiB", source = "assumed" }
line = { value = "64 B", source = "assumed" }
instances = { value = ["0-1", "2-3"], source = "assumed" }

[[cache]]
level = 2
kind = "unified"
size = { value = "2 MiB", source = "assumed" }
instances = { value = ["0-1", "2-3"], source = "assumed" }

[[cache]]
level = 3
kind = "unified"
size = { value = "32 MiB", source = "assumed" }
instances = { value = ["0-3"], source = "assumed" }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: sample_files FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let platform = Platform::from_toml(PLATFORM)?;
    let mut draw = DrawStream::new(7, 1);
    let synthetic = in_replicates(synthetic(&platform.id, &mut draw));
    let head = |experiment: &str| provenance(PLATFORM, experiment);
    finished(folder, "synthetic", &synthetic, &head("synthetic"))?;
    finished(folder, "access-time", &access_time(&platform.id, &mut draw), &head("access-time"))?;
    let lengths = preemption_length(&platform.id, &mut draw);
    finished(folder, "preemption-length", &lengths, &head("preemption-length"))?;
    let sweep = in_replicates(polluter_sweep(&platform.id, &mut draw));
    finished(folder, "polluter-sweep", &sweep, &head("polluter-sweep"))?;
    torn(folder, &synthetic[..600], &head("synthetic"))?;
    std::fs::write(folder.join("measured.toml"), measured(platform).to_toml())?;
    hostile(folder, &synthetic[..400])
}

/// The machine as `corehop measure platform` describes it.
fn measured(mut platform: Platform) -> Platform {
    let time = |from: Cpu, to: Cpu| match platform.affinity(from, to) {
        Affinity::SameCpu => 2_600,
        Affinity::Smt => 8_400,
        _ => 41_000 + 900 * u64::from(from.0) + 300 * u64::from(to.0),
    };
    let exchange = |(from, to)| Exchange {
        from,
        to,
        min: Latency::Picos(time(from, to)),
        median: Latency::Picos(time(from, to) * 9 / 8),
        batches: 1_000,
    };
    let exchanges = platform.exchange_pairs().into_iter().map(exchange).collect();
    platform.exchange = Some(Fact::measured(exchanges, "made up"));
    platform.memory.local = Some(Fact::measured(Latency::Picos(110_000), "made up"));
    let size = platform.caches[2].size.as_mut();
    size.expect("declared above").check = Check::Contradicted { why: "flat to 8 MiB".into() };
    platform
}

/// A file as a run leaves it.
fn finished<R: Row + Clone>(
    folder: &Path,
    name: &str,
    rows: &[R],
    provenance: &Provenance,
) -> Result<(), Box<dyn Error>>
where
    Rows: From<Vec<R>>,
{
    let part = folder.join(format!("{name}.parquet.part"));
    begun(&part, rows, provenance)?.end()?;
    let mut reader = Reader::open(File::open(&part)?)?;
    let out = File::create(folder.join(format!("{name}.parquet")))?;
    write_parquet(&mut reader, provenance, out, |_| {})?;
    Ok(std::fs::remove_file(part)?)
}

fn begun<R: Row + Clone>(
    path: &Path,
    rows: &[R],
    provenance: &Provenance,
) -> Result<BatchWriter<File>, Box<dyn Error>>
where
    Rows: From<Vec<R>>,
{
    let kind = RowKind::named(R::KIND).ok_or("an unknown kind of rows")?;
    let mut part = BatchWriter::begin(File::create(path)?, kind, provenance)?;
    for batch in rows.chunks(250) {
        part.append(&batch.to_vec().into())?;
    }
    Ok(part)
}

/// A run that was killed while it wrote its last batch.
fn torn(folder: &Path, rows: &[Sample], provenance: &Provenance) -> Result<(), Box<dyn Error>> {
    let path = folder.join("torn.part");
    begun(&path, rows, provenance)?.end()?;
    let file = File::options().write(true).open(&path)?;
    Ok(file.set_len(file.metadata()?.len() - 5_000)?)
}

/// Names that would end a script, open a tag, or leave an attribute.
fn hostile(folder: &Path, rows: &[Sample]) -> Result<(), Box<dyn Error>> {
    let evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;";
    let rows: Vec<Sample> = rows
        .iter()
        .map(|row| Sample { machine: evil.into(), load: evil.into(), ..row.clone() })
        .collect();
    let platform = PLATFORM.replace("A made-up machine", "</script><b onclick='x'>&");
    let mut provenance = provenance(&platform, evil);
    provenance.command.push(evil.to_owned());
    provenance.machine.insert(evil.to_owned(), evil.into());
    finished(folder, "hostile", &rows, &provenance)
}

fn provenance(platform: &str, experiment: &str) -> Provenance {
    let findings = [
        Finding {
            id: "hypervisor".into(),
            severity: Severity::Warning,
            found: "this machine is a guest of KVM".into(),
            why: "Its exits show in no counter, and its neighbours use the same caches.".into(),
            remedy: None,
            remark: Some("Measure on the host, or state the result as that of a guest.".into()),
        },
        Finding {
            id: "governor".into(),
            severity: Severity::Note,
            found: "the governor is powersave on CPUs 0-3".into(),
            why: "A clock rate that follows the load changes what a nanosecond is worth.".into(),
            remedy: Some("cpupower frequency-set -g performance".into()),
            remark: None,
        },
        Finding {
            id: "clock_source".into(),
            severity: Severity::Ok,
            found: "the kernel keeps time by tsc".into(),
            why: "Time stamps are read from it.".into(),
            remedy: None,
            remark: None,
        },
    ];
    let machine = serde_json::json!({
        "kind": "live", "kernel": "6.1.0", "governor": "powersave", "findings": findings,
        "stamp_ns": 12.5, "missing_classes": [],
    });
    Provenance {
        corehop: env!("CARGO_PKG_VERSION").to_owned(),
        command: ["corehop", "measure", experiment, "--preset", "quick"].map(str::to_owned).into(),
        date: "2026-01-02T03:04:05Z".to_owned(),
        seed: 7,
        experiment: experiment.to_owned(),
        parameters: serde_json::json!({ "preset": "quick" }),
        plan_digest: "0123456789abcdef".to_owned(),
        plan: None,
        platform: platform.to_owned(),
        machine: machine.as_object().cloned().unwrap_or_default(),
        stopped_by: None,
        cells_lacking_samples: 0,
    }
}

/// Nanoseconds for a line of a working set of `kib` KiB that the caches are full of.
fn warm_line(kib: f64) -> f64 {
    let (_, last) = LEVELS[2];
    let mut time = LEVELS[0].1;
    for (index, (size, ns)) in LEVELS.into_iter().enumerate() {
        let outer = LEVELS.get(index + 1).map_or(MEMORY_NS, |&(_, ns)| ns);
        let beyond = ((kib - 0.8 * size) / (0.8 * size)).clamp(0.0, 1.0);
        time += beyond * (outer - ns);
    }
    time.min(MEMORY_NS + last)
}

/// Uniform on 0 to 1.
fn unit(draw: &mut DrawStream) -> f64 {
    let span = 1_000_000;
    draw.time(corehop_plan::units::Nanos::new(0), corehop_plan::units::Nanos::new(span)).get()
        as f64
        / span as f64
}

/// About 1, now and then well above: skewed as delays are.
fn skewed(draw: &mut DrawStream) -> f64 {
    0.97 + 0.06 * unit(draw) + 0.05 * -(1.0 - 0.999 * unit(draw)).ln()
}

/// The cost of each event per line, in nanoseconds.
fn loss(event: Event, length_ms: f64) -> f64 {
    match event {
        Event::None => 0.0,
        Event::IdleLeave => 0.3,
        Event::Flush => MEMORY_NS - 5.0,
        Event::Preemption => 24.0 * (1.0 - (-length_ms / 2.0).exp()),
        Event::SmtMigration => 0.8,
        Event::L2Migration => 9.0,
        Event::L3Migration => 38.0,
        Event::MemoryMigration => 130.0,
    }
}

/// The same samples dealt out to twenty replicates.
fn in_replicates(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.iter_mut().zip(0..).for_each(|(it, number)| it.replicate = Some(number % 20));
    samples
}

fn synthetic(machine: &str, draw: &mut DrawStream) -> Vec<Sample> {
    let events = [
        Event::None,
        Event::IdleLeave,
        Event::Flush,
        Event::Preemption,
        Event::SmtMigration,
        Event::L3Migration,
    ];
    let mut rows = Vec::new();
    for (load, factor) in [("idle", 1.0), ("constructed", 1.6)] {
        for kib in [4, 16, 64, 256, 1024, 4096] {
            for event in events {
                let row = Sample { load: load.into(), ..sample(machine, kib, event) };
                rows.extend((0..40).map(|_| taken(&row, 4.0, factor, draw)));
            }
        }
    }
    for event in events {
        for kib in [256, 1024] {
            let row =
                Sample { page: Page::Transparent, huge_share: 1.0, ..sample(machine, kib, event) };
            rows.extend((0..30).map(|_| taken(&row, 4.0, 0.85, draw)));
        }
    }
    let range = Sample {
        preemption_length: "uniform_0_20ms".into(),
        ..sample(machine, 256, Event::Preemption)
    };
    for _ in 0..200 {
        let length = 20.0 * unit(draw);
        rows.push(taken(&range, length, 1.0, draw));
    }
    rows
}

fn polluter_sweep(machine: &str, draw: &mut DrawStream) -> Vec<Sample> {
    let mut rows = Vec::new();
    for kib in [256, 1024] {
        for ms in [1, 2, 4, 8, 12, 16] {
            let row = Sample {
                experiment: "polluter-sweep".into(),
                preemption_length: format!("fixed_{ms}ms").as_str().into(),
                ..sample(machine, kib, Event::Preemption)
            };
            rows.extend((0..20).map(|_| taken(&row, f64::from(ms), 1.0, draw)));
        }
    }
    for row in &mut rows {
        row.polluter = Some("shuffled 64 MiB write 0.5".into());
        row.preemptor_lines = Some((row.length_ns / MEMORY_NS) as u64);
    }
    rows
}

/// `row` with times of its own; one in twelve is disturbed, more often the longer it is.
fn taken(row: &Sample, length_ms: f64, factor: f64, draw: &mut DrawStream) -> Sample {
    let kib = row.wss_bytes as f64 / 1024.0;
    let lines = row.lines as f64;
    let warm_ns = lines * warm_line(kib) * skewed(draw);
    let away =
        row.event == Event::IdleLeave || row.event == Event::Preemption || row.event.is_migration();
    let noise = 20.0 * (unit(draw) - 0.5);
    let per_line = (loss(row.event, length_ms) * factor * skewed(draw))
        .min((MEMORY_NS + 20.0 - warm_line(kib)).max(0.0));
    let resumed_ns = warm_ns + lines * per_line + noise;
    let fate = unit(draw);
    let cause = if unit(draw) < 0.3 { Cause::Preempted } else { Cause::Gap };
    let disturbed = fate < 0.02 + 0.05 * (kib / 1024.0).min(2.0);
    let mended = !disturbed && fate > 0.9;
    Sample {
        requested_length_ns: if away { (1e6 * length_ms) as u64 } else { 0 },
        length_ns: if away { 1e6 * length_ms + 60_000.0 * skewed(draw) } else { 0.0 },
        cold_ns: lines * MEMORY_NS * skewed(draw),
        warm_ns,
        resumed_ns,
        valid: !disturbed,
        disturbed_by: if disturbed { vec![cause] } else { Vec::new() },
        repaired: if mended { vec![Cause::Gap] } else { Vec::new() },
        repaired_ns: if mended { 12_000.0 } else { 0.0 },
        preemption_length: if away { row.preemption_length.clone() } else { "none".into() },
        switch_ns: row.event.is_migration().then(|| 4_000.0 * skewed(draw)),
        spin_warm_ns: 100.0,
        spin_resumed_ns: 100.0,
        ..row.clone()
    }
}

fn sample(machine: &str, kib: u64, event: Event) -> Sample {
    let preempted = event == Event::Preemption;
    Sample {
        machine: machine.into(),
        seed: 7,
        wss_bytes: kib << 10,
        event,
        to_cpu: u64::from(event.is_migration()),
        requested_length_ns: 0,
        length_ns: 0.0,
        lines: kib * 16,
        lines_certified: kib * 16,
        preempted_by: if preempted { Absence::Preemptor } else { Absence::Nothing },
        preemptor_lines: None,
        ..example::sample()
    }
}

fn access_time(machine: &str, draw: &mut DrawStream) -> Vec<AccessTime> {
    let mut rows = Vec::new();
    for kib in (2..=14).map(|power| 1_u64 << power) {
        for (state, walks) in
            [(LineState::Valid, 24), (LineState::Invalid, 8), (LineState::Modified, 4)]
        {
            for _ in 0..walks {
                let line_ns = match state {
                    LineState::Valid => warm_line(kib as f64),
                    LineState::Invalid => MEMORY_NS,
                    LineState::Modified => 1.3 * MEMORY_NS,
                };
                let access_ns = line_ns * skewed(draw);
                rows.push(walk(machine, kib, state, access_ns));
            }
        }
    }
    rows
}

fn walk(machine: &str, kib: u64, cache_state: LineState, access_ns: f64) -> AccessTime {
    AccessTime {
        machine: machine.into(),
        seed: 7,
        wss_bytes: kib << 10,
        cache_state,
        walk_ns: access_ns * (kib * 16) as f64,
        access_ns,
        lines: kib * 16,
        lines_certified: kib * 16,
        ..example::access_time()
    }
}

fn preemption_length(machine: &str, draw: &mut DrawStream) -> Vec<PreemptionLength> {
    let lengths = [10_u64, 22, 50, 100, 200, 500, 1_000, 2_000, 4_000, 10_000];
    let mut rows = Vec::new();
    for micros in lengths {
        for _ in 0..50 {
            rows.push(PreemptionLength {
                machine: machine.into(),
                seed: 7,
                requested_length_ns: micros * 1_000,
                length_ns: micros as f64 * 1e3 + 55_000.0 * skewed(draw),
                ..example::preemption_length()
            });
        }
    }
    rows
}
