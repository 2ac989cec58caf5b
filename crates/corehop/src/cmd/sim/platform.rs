// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim platform` and `corehop measure platform`

use std::path::{Path, PathBuf};
use std::time::Duration;

use corehop_app::here::found;
use corehop_linux::probe::{observe, watch};
use corehop_plan::platform::{Affinity, Check, Platform};
use corehop_report::{gem5, label, platform_svg, platform_text};
use corehop_stats::restless;
use corehop_system::discover::SysRoot;

use serde_json::json;

use crate::output::{Force, OutputFile, counted, either, note, spinner};
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// Describe a machine: its CPUs, its caches and their sharing, and the events that cannot be measured on the machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Describe this machine: a built-in platform, a platform file, a file of `lscpu -J` (.json) or `lstopo --of xml`
    /// (.xml), or a folder with copies of sys/ and proc/. By default, corehop describes this host, which `corehop
    /// measure platform` can measure.
    #[arg(value_name = "NAME|FILE|FOLDER")]
    platform: Option<String>,
    /// Add the transfer times of cache lines from a table of core-to-core-latency (`--csv`). The CPUs of the table
    /// are the online CPUs of the platform
    #[arg(long, value_name = "FILE.csv")]
    exchange: Option<PathBuf>,
    #[command(flatten)]
    described: DescriptionOptions,
}

/// Measure cache-line transfers between the CPUs of this host and the latency of each cache level, check the
/// machine's own description (half a minute), and then watch the distance between CPUs.
#[derive(Debug, clap::Args)]
pub(crate) struct PlatformMeasurementOptions {
    /// Watch the distance between CPUs for this many seconds, 0 to 3600. A hypervisor may move virtual CPUs every few
    /// seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=3600))]
    watch: u64,
    #[command(flatten)]
    described: DescriptionOptions,
}

/// The forms of a description.
#[derive(Debug, clap::Args)]
struct DescriptionOptions {
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// Write a platform file.
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Draw the machine as an SVG picture.
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
    /// Write a gem5 configuration with classic caches; the head of the file lists what gem5 cannot express.
    #[arg(long, value_name = "FILE.py")]
    gem5: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// The sampling interval for an observed pair of CPUs.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let files = args.described.files(args.platform.as_deref())?;
    let mut platform = match &args.platform {
        Some(copy) if Path::new(copy).is_dir() => found(&SysRoot::at(copy))?,
        Some(name) => input::platform(name)?,
        None => found(&SysRoot::live())?,
    };
    // Those that come with the program are as their studies need them.
    if args.platform.as_deref().is_some_and(|name| Platform::named(name).is_none()) {
        platform.gaps().iter().for_each(|gap| note(&gap.to_string()));
    }
    if let Some(path) = &args.exchange {
        input::exchanges(path, &mut platform)?;
    }
    args.described.answer(&platform, files)
}

impl PlatformMeasurementOptions {
    /// Measures this host, and creates its description.
    pub(crate) fn run(&self) -> Result<Exit, Failure> {
        let files = self.described.files(None)?;
        let mut platform = found(&SysRoot::live())?;
        measure(&mut platform, Duration::from_secs(self.watch))?;
        self.described.answer(&platform, files)
    }
}

impl DescriptionOptions {
    /// The files to write: the description, the drawing, and the configuration of gem5.
    fn files(&self, platform: Option<&str>) -> Result<[Option<OutputFile>; 3], Failure> {
        let paths = [self.output.as_ref(), self.svg.as_ref(), self.gem5.as_ref()];
        let inputs: Vec<&Path> = platform.iter().map(Path::new).collect();
        OutputFile::all_asked(paths, &inputs, self.force)
    }

    /// Writes the requested files, and prints the description.
    fn answer(
        &self,
        platform: &Platform,
        [output, svg, gem5]: [Option<OutputFile>; 3],
    ) -> Result<Exit, Failure> {
        if let Some(file) = output {
            file.write(platform.to_toml())?;
        }
        if let Some(file) = svg {
            file.write(platform_svg::draw(platform))?;
        }
        if let Some(file) = gem5 {
            let script = gem5::script(platform);
            file.write(script.map_err(|error| Failure::new(Exit::NotPossible, error))?)?;
        }
        let json = self.json.then(|| json(platform));
        either(&sentence(platform), json.as_ref(), || platform_text::text(platform))?;
        Ok(Exit::Done)
    }
}

/// The sentence that states the machine's size and whether its description is trustworthy.
fn sentence(platform: &Platform) -> String {
    let of = |count: usize, noun| counted(count as u64, noun);
    let doubted = label::checks(platform).iter().filter(|it| is_contradicted(it.1)).count();
    let doubts = match doubted {
        0 => String::new(),
        1 => "; 1 fact of its description is contradicted".to_owned(),
        several => format!("; {several} facts of its description are contradicted"),
    };
    // A description may end at a private cache, which is no last-level cache.
    let last =
        platform.cache_sizes().into_iter().max().map_or_else(String::new, |(level, size)| {
            format!(
                "; the last stated cache level is L{level}, with {} in each instance",
                label::size(size)
            )
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

/// Measures and observes this host, and adds the results to the platform; shows the progress on a terminal.
pub(super) fn measure(platform: &mut Platform, long: Duration) -> Result<(), Failure> {
    let bar = spinner();
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

/// The platform as JSON, with its classes of CPU pairs, an example of each, and the classes that the platform
/// lacks.
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
