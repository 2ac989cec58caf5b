// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop platform`

use std::path::{Path, PathBuf};
use std::time::Duration;

use corehop_core::model::restless;
use corehop_core::platform::{Affinity, Platform};
use corehop_core::report::{platform_svg, platform_text};
use corehop_linux::discover::{DiscoverError, SysRoot, discover};
use corehop_linux::probe::{observe, watch};
use indicatif::ProgressBar;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output::print;

/// Which machine to describe, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A platform that comes with the program, or a file; this host if left out.
    #[arg(value_name = "NAME|FILE.toml")]
    platform: Option<String>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
    /// Write it to a platform file.
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Draw it.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Describe the machine whose sys/ and proc/ were copied here.
    #[arg(long, value_name = "DIR", conflicts_with = "platform")]
    sysfs_root: Option<PathBuf>,
    /// Measure how long cache lines take between CPUs and accesses at each level, and check what
    /// the machine states of itself (half a minute); then watch how far apart CPUs are.
    #[arg(long, conflicts_with_all = ["platform", "sysfs_root"])]
    measure: bool,
    /// How many seconds to watch for, 0 to 3600; a host may move virtual CPUs every few seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, requires = "measure")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600))]
    watch: u64,
}

/// How often a pair is looked at while it is watched.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let mut platform = match (&args.platform, &args.sysfs_root) {
        (Some(name), _) => described(name)?,
        (None, Some(copy)) => found(&SysRoot::at(copy))?,
        (None, None) => found(&SysRoot::live())?,
    };
    if args.measure {
        measure(&mut platform, Duration::from_secs(args.watch))?;
    }
    if let Some(path) = &args.output {
        write(path, &platform.to_toml())?;
    }
    if let Some(path) = &args.svg {
        write(path, &platform_svg::draw(&platform))?;
    }
    if args.json {
        print(&format!("{:#}\n", json(&platform)))?;
    } else {
        print(&platform_text::text(&platform))?;
    }
    Ok(Exit::Done)
}

/// Measures this host, watches it for so long, and enters what was found; tells a terminal what it
/// is at.
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

/// The platform of this name, or in this file: what ends in `.toml`, or has a slash, is a file.
pub(crate) fn described(name: &str) -> Result<Platform, Failure> {
    let is_file = Path::new(name).extension().is_some_and(|kind| kind == "toml");
    if !is_file && !name.contains('/') {
        let Some(platform) = Platform::named(name) else {
            let known: Vec<_> = Platform::names().collect();
            let known = known.join(", ");
            let sentence = format!(
                "no platform is called `{name}`: known are {known}; a file's name ends in .toml"
            );
            return Err(Failure::says(Exit::Usage, sentence));
        };
        return Ok(platform?);
    }
    let text = std::fs::read_to_string(name).map_err(|error| {
        Failure::new(Exit::Usage, error).context(format!("reading the platform file {name}"))
    })?;
    Platform::from_toml(&text).map_err(|error| Failure::from(error).context(name.to_owned()))
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

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| {
        Failure::new(Exit::Failed, error).context(format!("writing {}", path.display()))
    })
}
