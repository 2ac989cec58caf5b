// SPDX-License-Identifier: MIT OR Apache-2.0
//! The experiments with scripted jobs: a preset, and options that override the preset's values.

use corehop_linux::live::LiveMachineOptions;
use corehop_plan::experiment::{Experiment, Length, Overrides, Preset};
use corehop_plan::platform::Platform;
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::{Absence, Event, Load, Mover, Page, Pattern, Polluter};
use corehop_stats::campaign::sampling::Goal;

use super::loads::LoadArgs;
use super::partitioning::SetSamplingOptions;
use super::plan::refused;
use super::to::{Extent, Precise, SeedOptions, To};
use super::trace::TraceArgs;
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::quantities::{count, length, polluter, ratio};

/// The options of every experiment of jobs.
#[derive(Debug, clap::Args)]
struct JobOptions {
    /// Take the parameters of this preset: quick (minutes), bastoni or waechtler (hours; --dry-run projects the time)
    #[arg(long, default_value = "quick")]
    preset: Preset,
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    draws: SeedOptions,
    #[command(flatten)]
    sampled: SetSamplingOptions,
    /// Never use the real-time policy SCHED_FIFO
    #[arg(long)]
    no_real_time: bool,
    /// Take this many valid samples per cell
    #[arg(long, value_name = "N", value_parser = count("--samples 0 takes no sample: omit --samples for the preset's number"), help_heading = "Enough samples")]
    samples: Option<u32>,
    /// Divide the run into this many replicates; each replicate draws new page frames, a new access order and new
    /// threads (default: 10 to 20, if each cell has enough samples)
    #[arg(long, value_name = "N", value_parser = count("--replicates 0 measures nothing: use 6 or more, or omit --replicates for the default"), help_heading = "Enough samples")]
    replicates: Option<u32>,
    #[command(flatten)]
    precise: Precise,
    /// Use only these CPUs
    #[arg(long, value_name = "LIST", value_parser = some_cpus, help_heading = "Instead of the preset's values")]
    cpus: Option<CpuList>,
}

/// The options for the working set of jobs.
#[derive(Debug, clap::Args)]
pub(super) struct SetArgs {
    /// Measure these working-set sizes, for example `64KiB,1MiB`
    #[arg(long, value_delimiter = ',', help_heading = "Instead of the preset's values")]
    pub(super) wss: Vec<Bytes>,
    /// Measure these write ratios (shares of word accesses that write), for example `0,1/4,0.5`
    #[arg(long, value_delimiter = ',', value_parser = ratio, help_heading = "Instead of the preset's values")]
    pub(super) write_ratio: Vec<f64>,
    /// Access the working set in this pattern: shuffled, scan or code
    #[arg(long, help_heading = "Instead of the preset's values")]
    pub(super) pattern: Option<Pattern>,
    /// Put the working set on this kind of pages: 4k, thp or hugetlb
    #[arg(long, help_heading = "Instead of the preset's values")]
    pub(super) page: Option<Page>,
    /// Access the working set through this many independent chains: 1, 4 or 8
    #[arg(long, help_heading = "Instead of the preset's values")]
    pub(super) chains: Option<u8>,
    /// Put the working sets on this NUMA node
    #[arg(long, help_heading = "Instead of the preset's values")]
    pub(super) node: Option<u32>,
}

/// The options for the memory and the code of jobs.
#[derive(Debug, clap::Args)]
struct OwnArgs {
    /// Use fresh page frames for every job
    #[arg(long, help_heading = "Instead of the preset's values")]
    fresh_frames: bool,
    /// Run your own job, a function in a shared library, instead of the built-in job
    #[arg(long, value_name = "LIB.so:FUNCTION", help_heading = "Instead of the preset's values")]
    workload: Option<String>,
    #[command(flatten)]
    trace: TraceArgs,
}

/// The options for the absences of jobs.
#[derive(Debug, clap::Args)]
struct AwayArgs {
    /// Measure these events, for example `none,preemption,l3_migration`
    #[arg(long = "event", value_delimiter = ',', help_heading = "Instead of the preset's values")]
    events: Vec<Event>,
    /// Preempt the job for this long: `4ms`, or `0..50ms` for a uniform distribution of lengths
    #[arg(long, value_parser = length, help_heading = "Instead of the preset's values")]
    length: Option<Length>,
    /// Give preemptors this working set: SIZE, or SIZE,PATTERN, or SIZE,PATTERN,WRITE_RATIO. By default preemptors
    /// run only under the loads idle, dma and buslock; with this option, preemptors run under every load
    #[arg(long, value_parser = polluter, help_heading = "Instead of the preset's values")]
    preemptor: Option<Polluter>,
    /// Migrate the job by this method: affinity or handover
    #[arg(long, help_heading = "Instead of the preset's values")]
    mover: Option<Mover>,
}

/// The synthetic method.
#[derive(Debug, clap::Args)]
pub(super) struct SyntheticOptions {
    #[command(flatten)]
    shared: JobOptions,
    #[command(flatten)]
    sets: SetArgs,
    #[command(flatten)]
    own: OwnArgs,
    #[command(flatten)]
    away: AwayArgs,
    /// Sample preemptors with each of these working-set sizes, for example `64KiB,1MiB`
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        value_parser = whole_pages,
        help_heading = "Instead of the preset's values"
    )]
    preemptor_wss: Vec<Bytes>,
    /// Walk over the working set this many extra times before the warm touch, after touches have stopped becoming
    /// faster
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=64), help_heading = "Instead of the preset's values")]
    passes: Option<u32>,
    #[command(flatten)]
    load: LoadArgs,
}

/// Access times.
#[derive(Debug, clap::Args)]
pub(super) struct AccessTimeOptions {
    #[command(flatten)]
    shared: JobOptions,
    #[command(flatten)]
    sets: SetArgs,
    #[command(flatten)]
    own: OwnArgs,
}

/// Preemption lengths.
#[derive(Debug, clap::Args)]
pub(super) struct PreemptionLengthOptions {
    #[command(flatten)]
    shared: JobOptions,
    /// Request this preemption length, for example `4ms`
    #[arg(long, value_name = "TIME", help_heading = "Instead of the preset's values")]
    length: Option<Nanos>,
    #[command(flatten)]
    load: LoadArgs,
}

/// The options of `corehop measure polluter-sweep`.
#[derive(Debug, clap::Args)]
pub(super) struct PolluterSweepOptions {
    #[command(flatten)]
    shared: JobOptions,
    #[command(flatten)]
    sets: SetArgs,
    #[command(flatten)]
    own: OwnArgs,
    /// Measure this preemption length instead of the preset's list, for example `4ms`
    #[arg(long, value_name = "TIME", help_heading = "Instead of the preset's values")]
    length: Option<Nanos>,
    /// Give the preemptor this working set: SIZE, or SIZE,PATTERN, or SIZE,PATTERN,WRITE_RATIO
    #[arg(long, value_parser = polluter, help_heading = "Instead of the preset's values")]
    preemptor: Option<Polluter>,
    #[command(flatten)]
    load: LoadArgs,
}

/// The options of `corehop measure conditions`.
#[derive(Debug, clap::Args)]
pub(super) struct ConditionOptions {
    #[command(flatten)]
    shared: JobOptions,
    #[command(flatten)]
    sets: SetArgs,
    #[command(flatten)]
    own: OwnArgs,
    #[command(flatten)]
    away: AwayArgs,
    #[command(flatten)]
    load: LoadArgs,
}

impl JobOptions {
    fn carry_out(&self, platform: Platform, it: &dyn Experiment) -> Result<Exit, Failure> {
        let extent = Extent {
            goal: self.goal(),
            replicates: self.replicates,
            sampling: self.sampled.sampling(),
        };
        let options = LiveMachineOptions {
            no_real_time: refused(self.no_real_time),
            ..LiveMachineOptions::default()
        };
        self.to.carry_out(platform, it, &self.draws, extent, options)
    }

    fn goal(&self) -> Goal {
        let without = match (self.samples, self.to.out.budget) {
            (None, Some(_)) => Goal::Time,
            _ => Goal::Count,
        };
        self.precise.goal().unwrap_or(without)
    }

    /// Rejects several CPUs for an experiment that measures on a single CPU.
    fn one_cpu(&self, what: &str) -> Result<(), Failure> {
        let Some(cpus) = self.cpus.as_ref().filter(|cpus| cpus.len() > 1) else { return Ok(()) };
        let why = format!("--cpus is {cpus}, but {what} measures one CPU in a run: name one CPU");
        Err(Failure::says(Exit::Usage, format!("{why}, and repeat the command for each other CPU")))
    }

    fn overrides(&self) -> Overrides {
        let (cpus, samples) = (self.cpus.clone().unwrap_or_default(), self.samples);
        Overrides { cpus, samples, ..Overrides::default() }
    }
}

impl SetArgs {
    fn enter(&self, own: &OwnArgs, overrides: &mut Overrides) -> Result<(), Failure> {
        overrides.wss.clone_from(&self.wss);
        overrides.write_ratios.clone_from(&self.write_ratio);
        (overrides.pattern, overrides.page) = (self.pattern, self.page);
        (overrides.chains, overrides.node) = (self.chains, self.node);
        overrides.fresh_frames = own.fresh_frames;
        overrides.workload.clone_from(&own.workload);
        overrides.trace = own.trace.set()?;
        Ok(())
    }
}

impl AwayArgs {
    fn enter(&self, overrides: &mut Overrides) {
        overrides.events.clone_from(&self.events);
        overrides.preemptor.clone_from(&self.preemptor);
        (overrides.length, overrides.mover) = (self.length, self.mover);
    }
}

impl SyntheticOptions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = self.shared.to.platform()?;
        let mut overrides = self.shared.overrides();
        self.sets.enter(&self.own, &mut overrides)?;
        self.away.enter(&mut overrides);
        overrides.preemptor_sizes.clone_from(&self.preemptor_wss);
        overrides.passes = self.passes;
        self.load.enter(&platform, &mut overrides)?;
        self.load.say_what_is_left_out(self.shared.preset);
        let (load, realistic) = (overrides.load.as_ref(), overrides.realistic.as_ref());
        let mut experiment = self.shared.preset.synthetic(&platform, load, realistic);
        overrides.synthetic(&mut experiment);
        self.shared.carry_out(platform, &experiment)
    }
}

impl AccessTimeOptions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        self.shared.one_cpu("access-time")?;
        let platform = self.shared.to.platform()?;
        let mut overrides = self.shared.overrides();
        self.sets.enter(&self.own, &mut overrides)?;
        let mut experiment = self.shared.preset.access_time(&platform);
        overrides.access_time(&mut experiment);
        self.shared.carry_out(platform, &experiment)
    }
}

impl PreemptionLengthOptions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        self.shared.one_cpu("preemption-length")?;
        let platform = self.shared.to.platform()?;
        let mut overrides = self.shared.overrides();
        overrides.length = self.length.map(Length::Fixed);
        self.load.enter(&platform, &mut overrides)?;
        let mut experiment = self.shared.preset.preemption_length();
        overrides.preemption_length(&mut experiment);
        self.shared.carry_out(platform, &experiment)
    }
}

impl PolluterSweepOptions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = self.shared.to.platform()?;
        let mut overrides = self.shared.overrides();
        self.sets.enter(&self.own, &mut overrides)?;
        overrides.length = self.length.map(Length::Fixed);
        overrides.preemptor.clone_from(&self.preemptor);
        self.load.enter(&platform, &mut overrides)?;
        let walks = overrides.load.as_ref().is_some_and(|load| load.absence() == Absence::Load);
        refuse(
            "the threads of this load preempt the job themselves (set their memory with --polluter or --changing)",
            &[("--preemptor", walks && self.preemptor.is_some())],
        )?;
        self.load.say_what_is_left_out(self.shared.preset);
        let mut experiment = self.shared.preset.polluter_sweep(&platform);
        overrides.polluter_sweep(&mut experiment, &platform);
        self.shared.carry_out(platform, &experiment)
    }
}

impl ConditionOptions {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = self.shared.to.platform()?;
        let mut overrides = self.shared.overrides();
        self.sets.enter(&self.own, &mut overrides)?;
        self.away.enter(&mut overrides);
        self.load.enter(&platform, &mut overrides)?;
        let mut experiment = self.shared.preset.conditions(&platform);
        overrides.conditions(&mut experiment);
        experiment.set_steps(self.shared.replicates, self.shared.samples);
        self.shared.carry_out(platform, &experiment)
    }
}

impl LoadArgs {
    fn enter(&self, platform: &Platform, overrides: &mut Overrides) -> Result<(), Failure> {
        self.refuse_unused()?;
        let load: Option<Load> = self.load(platform)?;
        overrides.realistic = if load.is_none() { self.realistic() } else { None };
        overrides.load = load;
        Ok(())
    }
}

/// Parses a non-empty list of CPUs.
pub(super) fn some_cpus(text: &str) -> Result<CpuList, String> {
    match text.parse::<CpuList>() {
        Ok(cpus) if cpus.is_empty() => {
            Err("--cpus names no CPU: omit --cpus, or write for example --cpus 0,1".to_owned())
        }
        Ok(cpus) => Ok(cpus),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses the working-set size of a preemptor.
fn whole_pages(text: &str) -> Result<Bytes, String> {
    let size: Bytes =
        text.parse().map_err(|error: corehop_plan::units::UnitError| error.to_string())?;
    if size.get() < 4096 {
        return Err(format!("--preemptor-wss {size}: expected whole pages, at least 4 KiB"));
    }
    Ok(size)
}
