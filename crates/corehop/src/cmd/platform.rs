// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop platform`

mod calibrate;

pub(crate) use calibrate::apart_of;

use std::path::{Path, PathBuf};
use std::time::Duration;

use corehop_linux::discover::{DiscoverError, SysRoot, discover};
use corehop_linux::probe::{observe, watch};
use corehop_plan::platform::{Affinity, Check, Platform};
use corehop_report::{gem5, label, platform_svg, platform_text};
use corehop_stats::restless;
use indicatif::ProgressBar;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::{Force, OutputFile, counted, either, note};

/// Describe a machine: CPUs, caches, their sharing, and what cannot be measured on it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A built-in platform, or a platform file; default: this host.
    #[arg(value_name = "NAME|FILE.toml")]
    platform: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write a platform file.
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Draw the machine as SVG.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Write a configuration of gem5 (its classic caches; the head of the file says what it cannot express).
    #[arg(long, value_name = "FILE.py")]
    gem5: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Describe the machine whose sys/ and proc/ were copied to this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "platform")]
    sysfs_root: Option<PathBuf>,
    /// Measure cache-line transfers between CPUs and the latency of each level, and check the machine's
    /// own description (half a minute). Then watch the distance between CPUs.
    #[arg(long, conflicts_with_all = ["platform", "sysfs_root"])]
    measure: bool,
    /// Seconds to watch, 0 to 3600. A hypervisor may move virtual CPUs every few seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, requires = "measure", conflicts_with_all = ["platform", "sysfs_root", "calibrate"])]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600))]
    watch: u64,
    #[command(flatten)]
    calibration: CalibrationArgs,
}

/// A description to simulate on.
#[derive(Debug, Clone, Copy, clap::Args)]
struct CalibrationArgs {
    /// Measure, and find the numbers with which the simulated machine does what this host does (some three minutes). Writes
    /// FILE.toml and, beside it, the live samples (`FILE.parquet`). Prints live beside simulated, cell by cell.
    #[arg(long, requires = "output", conflicts_with_all = ["platform", "sysfs_root", "measure", "svg", "gem5"])]
    calibrate: bool,
    /// Go on with an interrupted calibration: what its FILE.parquet has is not measured again
    #[arg(long, requires = "calibrate", conflicts_with_all = ["platform", "sysfs_root", "measure", "svg", "gem5"])]
    resume: bool,
}

/// The interval at which a watched pair is sampled.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if let Some(file) = args.output.as_ref().filter(|_| args.calibration.calibrate) {
        return calibrate::run(args, file);
    }
    let (output, svg, gem5) = outputs(args)?;
    let mut platform = match (&args.platform, &args.sysfs_root) {
        (Some(name), _) => input::platform(name)?,
        (None, Some(copy)) => found(&SysRoot::at(copy))?,
        (None, None) => found(&SysRoot::live())?,
    };
    if args.measure {
        measure(&mut platform, Duration::from_secs(args.watch))?;
    }
    if args.platform.is_some() {
        platform.gaps().iter().for_each(|gap| note(&gap.to_string()));
    }
    if let Some(file) = output {
        file.write(platform.to_toml())?;
    }
    if let Some(file) = svg {
        file.write(platform_svg::draw(&platform))?;
    }
    if let Some(file) = gem5 {
        let script = gem5::script(&platform);
        file.write(script.map_err(|error| Failure::new(Exit::NotPossible, error))?)?;
    }
    let json = args.json.then(|| json(&platform));
    either(&sentence(&platform), json.as_ref(), || platform_text::text(&platform))?;
    Ok(Exit::Done)
}

/// The size of the machine, and whether its description can be trusted.
fn sentence(platform: &Platform) -> String {
    let of = |count: usize, noun| counted(count as u64, noun);
    let doubted = label::checks(platform).iter().filter(|it| is_contradicted(it.1)).count();
    let doubts = match doubted {
        0 => String::new(),
        1 => "; 1 fact of its description is contradicted".to_owned(),
        several => format!("; {several} facts of its description are contradicted"),
    };
    let last = platform.llc_size().map_or_else(String::new, |size| {
        format!(", with {} of last-level cache in one instance", label::size(size))
    });
    format!(
        "{} ({}) has {} in {} and {}{last}{doubts}.",
        platform.name,
        platform.id,
        of(platform.online().len(), "CPU"),
        of(platform.cores.value.len(), "core"),
        of(platform.packages.value.len(), "package"),
    )
}

fn is_contradicted(check: &Check) -> bool {
    matches!(check, Check::Contradicted { .. })
}

/// The files to write: the description, the drawing, and the configuration of gem5.
fn outputs(args: &Args) -> Result<(Wanted, Wanted, Wanted), Failure> {
    let mut others: Vec<&Path> = args.platform.iter().map(Path::new).collect();
    let output = OutputFile::if_asked(args.output.as_ref(), &others, args.force)?;
    others.extend(args.output.as_deref());
    let svg = OutputFile::if_asked(args.svg.as_ref(), &others, args.force)?;
    others.extend(args.svg.as_deref());
    Ok((output, svg, OutputFile::if_asked(args.gem5.as_ref(), &others, args.force)?))
}

/// A file that may have been asked for.
type Wanted = Option<OutputFile>;

/// Measures this host, watches it, and enters the results. Shows its progress on a terminal.
fn measure(platform: &mut Platform, long: Duration) -> Result<(), Failure> {
    let bar = ProgressBar::new_spinner();
    let mut progress = |doing: &str| {
        bar.set_message(doing.to_owned());
        bar.tick();
    };
    let observed = observe(platform, &mut progress);
    let watched = observed.and_then(|of| Ok((of, watch(platform, long, LOOK, &mut progress)?)));
    bar.finish_and_clear();
    let (observed, watched) = watched.map_err(|error| Failure::new(Exit::Failed, error))?;
    platform.check_against(&observed);
    if !long.is_zero() {
        platform.distance = Some(restless::fact(platform, &watched, long.as_secs_f64()));
    }
    Ok(())
}

/// The platform, its classes of CPU pairs with an instance of each, and the classes it lacks.
fn json(platform: &Platform) -> serde_json::Value {
    let usable = platform.usable();
    let class = |affinity: Affinity| {
        let (from, to) = platform.pair(&usable, affinity)?;
        Some(json!({"event": affinity.event(), "from_cpu": from, "to_cpu": to}))
    };
    let missing = platform.missing_classes();
    let missing =
        missing.iter().map(|class| json!({"event": class.affinity.event(), "why": class.why}));
    json!({
        "platform": platform,
        "memory_architecture": platform.memory_architecture(),
        "classes": Affinity::ALL.into_iter().filter_map(class).collect::<Vec<_>>(),
        "not_measurable": missing.collect::<Vec<_>>(),
    })
}

/// The machine whose files are below `root`.
pub(crate) fn found(root: &SysRoot) -> Result<Platform, Failure> {
    discover(root).map_err(|error| {
        let no_cpus = matches!(error, DiscoverError::NoCpus { .. });
        let exit = match (root.is_live(), no_cpus) {
            (true, _) => Exit::NotPossible,
            (false, true) => Exit::Usage,
            (false, false) => Exit::Damaged,
        };
        Failure::new(exit, error)
    })
}
