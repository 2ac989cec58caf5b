// SPDX-License-Identifier: MIT OR Apache-2.0
//! Simulated accesses per second, beside pycachesim's C core and cachegrind on the same walk: a random cycle
//! over 8 KiB to 64 MiB in 32 KiB/8, 256 KiB/8, 12 MiB/16 (inclusive, LRU).
//!
//! `cargo bench -p corehop-benches --bench sim -- OUT.json` adds its figures to those in OUT.json. All
//! times are CPU time. A peer that cannot be had is left out, with the reason on stderr. A second
//! argument `run` leaves all but the figures of `run.rs` out.
#![expect(clippy::print_stderr, reason = "progress goes to stderr")]

#[path = "../list/mod.rs"]
mod list;
mod run;

use std::path::{Path, PathBuf};
use std::process::Command;

use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::{CacheKind, Inclusion, Lookup, Protocol};
use corehop_plan::units::Bytes;
use corehop_sim::{Access, CacheSpec, Hierarchy, LineNumber, Spec};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// The version of pycachesim that is compared with.
const PYCACHESIM: &str = "pycachesim==0.3.1";
const SIZES: [(&str, usize); 4] =
    [("8KiB", 8 << 10), ("128KiB", 128 << 10), ("8MiB", 8 << 20), ("64MiB", 64 << 20)];
const ROUNDS: usize = 5;
const VISITS: &str = "M visits/s";
const TLBS: &str = r#"
[[tlb]]
level = 1
kind = "data"
entries = { value = 64, source = "assumed" }
ways = { value = 4, source = "assumed" }
pages = { value = ["4 KiB"], source = "assumed" }
penalty = { value = "7 cycles", source = "assumed" }

[[tlb]]
level = 2
kind = "unified"
entries = { value = 512, source = "assumed" }
ways = { value = 4, source = "assumed" }
pages = { value = ["4 KiB"], source = "assumed" }
penalty = { value = "30 cycles", source = "assumed" }
"#;
const PREFETCHER: &str = r#"
[[prefetcher]]
kind = "stream"
level = 2
on = { value = true, source = "assumed" }
trackers = { value = 16, source = "assumed" }
"#;

fn main() -> Fallible<()> {
    let mut given = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let (out, only) = (given.next(), given.next());
    let out = out.map_or_else(|| PathBuf::from("out/bench.json"), PathBuf::from);
    let scratch = std::env::temp_dir().join(format!("corehop-sim-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let figures = measured(&scratch, only.is_some_and(|only| only == "run"));
    std::fs::remove_dir_all(&scratch)?;
    list::put(figures?, &out)
}

fn measured(scratch: &Path, only_run: bool) -> Fallible<Vec<Value>> {
    let pycachesim = given("pycachesim", Pycachesim::install(scratch));
    let mut figures = run::figures(|wss: Bytes| {
        let trace = scratch.join(wss.to_string());
        let lines = traced(wss.get() as usize, &trace)?;
        let of = |peer: &Pycachesim| peer.measure(&trace, (2_000_000 / lines.len()).max(1));
        pycachesim.as_ref().map(of).transpose()
    })?;
    if !only_run {
        figures.extend(all(scratch, pycachesim.as_ref())?);
    }
    Ok(figures)
}

/// A walk over so many bytes, also written to a file.
fn traced(bytes: usize, trace: &Path) -> Fallible<Vec<LineNumber>> {
    let lines = cycle(bytes / 64);
    let words: Vec<u8> = lines.iter().flat_map(|line| line.to_le_bytes()).collect();
    std::fs::write(trace, words)?;
    Ok(lines)
}

fn all(scratch: &Path, pycachesim: Option<&Pycachesim>) -> Fallible<Vec<Value>> {
    let mut figures = Vec::new();
    let cachegrind = given("cachegrind", Cachegrind::build(scratch));
    for (name, bytes) in SIZES {
        let trace = scratch.join(name);
        let lines = traced(bytes, &trace)?;
        let passes = (20_000_000 / lines.len()).max(2);
        // In turn, so that all of them meet the same neighbours.
        let (mut own, mut theirs, mut walks) = (Vec::new(), Vec::new(), Vec::new());
        let plain = run::machine("")?;
        for _ in 0..ROUNDS {
            own.push(run::chase(&plain, bytes, 0.0)?);
            if let Some(peer) = pycachesim {
                theirs.push(peer.measure(&trace, (passes / 10).max(1))?);
            }
        }
        if let Some(peer) = &cachegrind {
            for _ in 0..2 {
                walks.push(peer.measure(&trace, lines.len(), passes)?);
            }
        }
        let own = median(own);
        for (peer, speeds) in [("pycachesim", theirs), ("cachegrind", walks)] {
            if !speeds.is_empty() {
                let name = format!("sim/chase-{name}-vs-{peer}");
                figures.push(compared(&name, VISITS, own, median(speeds)));
            }
        }
        let mut beside = |what: &str, speed: f64| {
            figures.push(compared(&format!("sim/chase-{name}-{what}"), VISITS, speed, own));
        };
        beside("write", run::chase(&plain, bytes, 0.5)?);
        beside("with-tlb", run::chase(&run::machine(TLBS)?, bytes, 0.0)?);
        beside("with-prefetch", run::chase(&run::machine(PREFETCHER)?, bytes, 0.0)?);
        beside("single", single(&lines, passes)?);
    }
    Ok(figures)
}

/// A peer, or the reason why there is none.
fn given<T>(name: &str, peer: Fallible<T>) -> Option<T> {
    peer.map_err(|why| eprintln!("no comparison with {name}: {why}")).ok()
}

/// Millions per second, and how often they are another's.
fn compared(name: &str, unit: &str, own: f64, peer: f64) -> Value {
    let millions = |speed: f64| (speed / 1e4).round() / 1e2;
    json!({"name": name, "value": millions(own), "unit": unit, "peer": millions(peer),
           "ratio": (own / peer * 1e3).round() / 1e3})
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The lines in the order of a random cycle.
fn cycle(count: usize) -> Vec<LineNumber> {
    let next = DrawStream::new(1, 0).cycle(count);
    let follow = |at: &LineNumber| Some(next[*at as usize]);
    std::iter::successors(Some(0), follow).take(count).collect()
}

fn machine() -> Spec {
    let cache = |level, sets, ways, inclusion| CacheSpec {
        inclusion,
        instances: vec![vec![0]],
        ..CacheSpec::new(level, CacheKind::Unified, sets, ways)
    };
    Spec {
        caches: vec![
            cache(1, 64, 8, Inclusion::NonInclusive),
            cache(2, 512, 8, Inclusion::NonInclusive),
            cache(3, 12_288, 16, Inclusion::Inclusive),
        ],
        cores: vec![0],
        packages: vec![0],
        protocol: Protocol::Mesif,
        lookup: Lookup::Directory,
        line: 64,
    }
}

/// CPU seconds of this thread.
fn cpu_seconds() -> Fallible<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse::<f64>()? / 1e9)
}

/// Accesses per second of `walk`, called once to fill the caches and then `passes` times.
fn speed(count: usize, passes: usize, mut walk: impl FnMut() -> u64) -> Fallible<f64> {
    std::hint::black_box(walk());
    let begin = cpu_seconds()?;
    for _ in 0..passes {
        std::hint::black_box(walk());
    }
    Ok((count * passes) as f64 / (cpu_seconds()? - begin))
}

/// One call for each access.
fn single(lines: &[LineNumber], passes: usize) -> Fallible<f64> {
    let mut machine = Hierarchy::new(&machine(), 1)?;
    let mut one = |&line| u64::from(machine.access(0, line, Access::Read).level);
    speed(lines.len(), passes, || lines.iter().map(&mut one).sum())
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers")
}

fn output_of(command: &mut Command) -> Fallible<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    let told = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{}: {}: {told}", command.get_program().display(), output.status).into())
}

/// pycachesim in a virtual environment of its own, driven from C.
struct Pycachesim {
    python: PathBuf,
    driver: PathBuf,
}

impl Pycachesim {
    fn install(scratch: &Path) -> Fallible<Self> {
        let place = scratch.join("venv");
        let python = place.join("bin/python");
        output_of(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        output_of(Command::new(&python).args(["-m", "pip", "install", "-q", PYCACHESIM]))?;
        let driver = scratch.join("pycachesim.so");
        let source = peers().join("pycachesim.c");
        output_of(
            Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).args([&driver, &source]),
        )?;
        Ok(Self { python, driver })
    }

    /// Accesses per second.
    fn measure(&self, trace: &Path, passes: usize) -> Fallible<f64> {
        let script = peers().join("pycachesim.py");
        let mut command = Command::new(&self.python);
        command.arg(script).args([self.driver.as_path(), trace]).arg(passes.to_string());
        Ok(output_of(&mut command)?.trim().parse()?)
    }
}

/// cachegrind over the same walk, which it executes, too. It has two levels, and sizes that are
/// powers of two: the outermost cache is 16 MiB here.
struct Cachegrind {
    walk: PathBuf,
}

impl Cachegrind {
    fn build(scratch: &Path) -> Fallible<Self> {
        output_of(Command::new("valgrind").arg("--version"))?;
        let walk = scratch.join("chase");
        output_of(Command::new("cc").args(["-O2", "-o"]).args([&walk, &peers().join("chase.c")]))?;
        Ok(Self { walk })
    }

    fn seconds(&self, trace: &Path, passes: usize) -> Fallible<f64> {
        let before = children_seconds()?;
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
            .args(["--I1=32768,8,64", "--D1=32768,8,64", "--LL=16777216,16,64"])
            .arg(&self.walk)
            .arg(trace)
            .arg(passes.to_string());
        output_of(&mut command)?;
        Ok(children_seconds()? - before)
    }

    /// Accesses per second, without what comes before the walk.
    fn measure(&self, trace: &Path, count: usize, passes: usize) -> Fallible<f64> {
        let walked = self.seconds(trace, passes)? - self.seconds(trace, 0)?;
        Ok((count * passes) as f64 / walked)
    }
}

/// CPU seconds of all ended children.
fn children_seconds() -> Fallible<f64> {
    seconds_of_fields([13, 14])
}

/// The sum of two times in `/proc/self/stat`, by their places from the third field on.
fn seconds_of_fields([first, second]: [usize; 2]) -> Fallible<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).unwrap_or(&"").parse::<f64>();
    // A tick is 10 ms on x86.
    Ok((ticks(first)? + ticks(second)?) / 100.0)
}
