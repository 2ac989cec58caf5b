// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure`: an experiment, on a machine, into a file.

mod loads;
mod refusals;
mod scheduled;

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use corehop_core::decision::sampling::Goal;
use corehop_core::experiment::{
    Conditions, Experiment, Length, Overrides, Plan, PlanError, Preset, Turn, names,
    usual_replicates,
};
use corehop_core::model::sequential::Precision;
use corehop_core::platform::Platform;
use corehop_core::samples::{AccessTime, PreemptionLength, Sample};
use corehop_core::units::{Bytes, CpuList, Nanos};
use corehop_core::workload::{Changing, Event, Load, Mover, Page, Pattern, Polluter, Transfer};
use corehop_linux::live::Options;

use super::arrange::Arrange;
use super::observe::Observe;
use super::on;
use super::overheads;
use super::quantities::{changing, length, percent, polluter, ratio};
use super::shared_data::{self, Gangs};
use super::task_sets::Tasks;
use crate::answer::print;
use crate::exit::{Exit, Failure, refuse};
use crate::run::{Destination, Run, Target};

/// The experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExperimentName {
    /// The synthetic method: cold, warm, an event, resumed
    Synthetic,
    /// Access times by working-set size
    AccessTime,
    /// Preemption lengths asked against got
    PreemptionLength,
    /// Delay against preemption length
    PolluterSweep,
    /// What makes the spread between replicates of one cell: page frames, order, threads, others, time
    Conditions,
    /// Threads with common data, below a common cache and without one (simulated)
    SharedData,
    /// Task sets under a scheduler, or, after `--`, a program as it runs: preemptions and migrations as they
    /// happen, and what they cost
    ScheduleSensitive,
    /// What the kernel takes for scheduling, as a table that `check --overheads` reads
    Overheads,
}

/// What to measure, on what, and where to write it.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// What to measure; not needed with --plan
    #[arg(required_unless_present = "plan")]
    experiment: Option<ExperimentName>,
    /// The machine: `live`, the id of a platform, or a platform file
    #[arg(long, default_value = "live")]
    on: String,
    /// quick (minutes), bastoni or waechtler (hours; --dry-run says how many)
    #[arg(long, default_value = "quick")]
    preset: Preset,
    /// The file to write; `FILE.part` while it is being written
    #[arg(short, long, value_name = "FILE.parquet")]
    output: Option<PathBuf>,
    /// Write an Arrow stream to stdout instead of a file
    #[arg(long, conflicts_with_all = ["output", "json"])]
    stream: bool,
    /// Go on with the FILE.part of an interrupted run
    #[arg(long, requires = "output")]
    resume: bool,
    /// The seed of every draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run a plan from a file (`-`: stdin)
    #[arg(long, value_name = "FILE", conflicts_with = "experiment")]
    plan: Option<PathBuf>,
    /// Print the plan's outline and the projected time; with --json the plan itself
    #[arg(long)]
    dry_run: bool,
    /// One machine-readable answer on stdout
    #[arg(long)]
    json: bool,
    /// No progress on stderr
    #[arg(short, long)]
    quiet: bool,
    /// Never SCHED_FIFO
    #[arg(long)]
    no_real_time: bool,

    /// Valid samples of each cell
    #[arg(long, value_name = "N", help_heading = "Enough samples")]
    samples: Option<u32>,
    /// Replicates: how often everything that a process draws when it starts is drawn anew (10 to 20,
    /// where each cell has enough samples)
    #[arg(long, value_name = "N", help_heading = "Enough samples")]
    replicates: Option<u32>,
    /// Until every cell's median is known to ±PERCENT of its warm touch, with 95 % confidence
    #[arg(long, value_name = "PERCENT%", value_parser = percent, conflicts_with = "samples", help_heading = "Enough samples")]
    precision: Option<f64>,
    /// Stop after this time; the worst cells get what is left of it
    #[arg(long, value_name = "TIME", help_heading = "Enough samples")]
    budget: Option<Nanos>,

    /// Working-set sizes, for instance `64KiB,1MiB`
    #[arg(long, value_delimiter = ',', help_heading = "In place of the preset's values")]
    wss: Vec<Bytes>,
    /// Shares of word accesses that write, for instance `0,1/4,0.5`
    #[arg(long, value_delimiter = ',', value_parser = ratio, help_heading = "In place of the preset's values")]
    write_ratio: Vec<f64>,
    /// shuffled, scan or code
    #[arg(long, help_heading = "In place of the preset's values")]
    pattern: Option<Pattern>,
    /// 4k, thp or hugetlb
    #[arg(long, help_heading = "In place of the preset's values")]
    page: Option<Page>,
    /// Independent chains of accesses: 1, 4 or 8
    #[arg(long, help_heading = "In place of the preset's values")]
    chains: Option<u8>,
    /// The NUMA node of the working sets
    #[arg(long, help_heading = "In place of the preset's values")]
    node: Option<u32>,
    /// Fresh page frames for every job
    #[arg(long, help_heading = "In place of the preset's values")]
    fresh_frames: bool,
    /// The user's own job: a function in a shared library
    #[arg(long, value_name = "LIB.so:FUNCTION", help_heading = "In place of the preset's values")]
    workload: Option<String>,
    /// Events, for instance `none,preemption,l3_migration`
    #[arg(long = "event", value_delimiter = ',', help_heading = "In place of the preset's values")]
    events: Vec<Event>,
    /// Preemption lengths: `4ms`, or `0..50ms` for uniformly drawn ones
    #[arg(long, value_parser = length, help_heading = "In place of the preset's values")]
    length: Option<Length>,
    /// What preemptors walk: SIZE, or SIZE,PATTERN, or SIZE,PATTERN,WRITE_RATIO
    #[arg(long, value_parser = polluter, help_heading = "In place of the preset's values")]
    preemptor: Option<Polluter>,
    /// Sizes of what preemptors walk, each of which is sampled, for instance `64KiB,1MiB`
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "LIST",
        help_heading = "In place of the preset's values"
    )]
    preemptor_wss: Vec<Bytes>,
    /// How a job gets to another CPU: affinity or handover
    #[arg(long, help_heading = "In place of the preset's values")]
    mover: Option<Mover>,
    /// The only CPUs to use
    #[arg(long, value_name = "LIST", help_heading = "In place of the preset's values")]
    cpus: Option<CpuList>,

    /// idle, constructed, changing, realistic, dma or buslock
    #[arg(long, help_heading = "Background load")]
    load: Option<String>,
    /// The command that the load `realistic` runs: of --load realistic, or, without --load, beside the
    /// preset's own loads
    #[arg(long, value_name = "COMMAND", help_heading = "Background load")]
    command: Option<String>,
    /// The CPUs that the load runs on
    #[arg(long, value_name = "LIST", help_heading = "Background load")]
    load_cpus: Option<CpuList>,
    /// What the polluters of --load constructed walk: SIZE, or SIZE,PATTERN, or SIZE,PATTERN,WRITE_RATIO
    #[arg(long, value_parser = polluter, help_heading = "Background load")]
    polluter: Option<Polluter>,
    /// What the programs of --load changing have in use at a time, the share of new lines in what they
    /// touch, and their time between two lines: WINDOW, or WINDOW,FRESH, or WINDOW,FRESH,PAUSE
    #[arg(long, value_parser = changing, value_name = "PROGRAM", help_heading = "Background load")]
    changing: Option<Changing>,
    /// What --load dma does: direct (the usual) or loopback
    #[arg(long, help_heading = "Background load")]
    transfer: Option<Transfer>,
    /// Let --load buslock use split locks, which stall every CPU
    #[arg(long, help_heading = "Background load")]
    split_locks: bool,

    #[command(flatten)]
    gangs: Gangs,
    #[command(flatten)]
    tasks: Tasks,
    #[command(flatten)]
    observe: Observe,
    #[command(flatten)]
    arrange: Arrange,
    #[command(flatten)]
    own_overheads: overheads::Own,
}

/// The samples of each step of `conditions`: two batches of a cell of some milliseconds, and as many one
/// way as the other in both halves.
const SAMPLES_OF_A_STEP: u32 = 8;

/// A load that most machines can run, as it is typed.
const EXAMPLE_COMMAND: &str = "--command 'make -C /usr/src/linux -j1'";

/// Measures.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let platform = on::platform(&args.on)?;
    args.refuse_empty_goals()?;
    if args.experiment != Some(ExperimentName::Overheads) {
        refuse("that is an option of overheads", &args.own_overheads.given())?;
    }
    if args.experiment == Some(ExperimentName::ScheduleSensitive) {
        return args.schedule_sensitive(platform);
    }
    refuse("that is an option of schedule-sensitive", &args.observe.given())?;
    if args.experiment == Some(ExperimentName::Overheads) {
        return args.overheads(&platform);
    }
    refuse("that is an option of schedule-sensitive and overheads", &args.tasks.given())?;
    if let Some(path) = &args.plan {
        args.refuse_beside_a_plan()?;
        return run_plan(args, platform, path);
    }
    args.refuse_unused()?;
    let load = args.load(&platform)?;
    let overrides = args.overrides(load.clone());
    args.say_what_is_left_out();
    match args.experiment {
        Some(ExperimentName::SharedData) => args.shared_data(platform),
        Some(ExperimentName::AccessTime) => {
            args.refuse_loads()?;
            let mut experiment = args.preset.access_time(&platform);
            overrides.access_time(&mut experiment);
            carry_out::<AccessTime>(args, platform, &experiment)
        }
        Some(ExperimentName::PreemptionLength) => {
            let mut experiment = args.preset.preemption_length();
            overrides.preemption_length(&mut experiment);
            carry_out::<PreemptionLength>(args, platform, &experiment)
        }
        Some(ExperimentName::PolluterSweep) => {
            let mut experiment = args.preset.polluter_sweep(&platform);
            overrides.polluter_sweep(&mut experiment, &platform);
            carry_out::<Sample>(args, platform, &experiment)
        }
        Some(ExperimentName::Conditions) => {
            let mut experiment = args.preset.conditions(&platform);
            overrides.conditions(&mut experiment);
            args.steps(&mut experiment);
            carry_out::<Sample>(args, platform, &experiment)
        }
        // Those that run no plan were carried out above.
        Some(_) | None => {
            let realistic = overrides.realistic.as_ref();
            let mut experiment = args.preset.synthetic(&platform, load.as_ref(), realistic);
            overrides.synthetic(&mut experiment);
            carry_out::<Sample>(args, platform, &experiment)
        }
    }
}

fn carry_out<R: Target>(
    args: &Args,
    platform: Platform,
    experiment: &dyn Experiment,
) -> Result<Exit, Failure> {
    if args.dry_run {
        on::arrangement(&args.on, &platform, &args.arrange)?;
        return dry_run(args, &platform, experiment);
    }
    let replicates = args.replicates(experiment, &platform)?;
    let run = Run { replicates, ..args.to_run(args.goal())? };
    run.experiment::<R>(
        on::machine(&args.on, platform, args.options(), &args.arrange)?.as_mut(),
        experiment,
        args.seed,
    )
}

fn run_plan(args: &Args, platform: Platform, path: &PathBuf) -> Result<Exit, Failure> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)).map(|_| ())
    };
    read.map_err(|error| {
        Failure::new(Exit::Damaged, error).context(format!("reading the plan {}", path.display()))
    })?;
    let plan = Plan::from_json(&text)?;
    plan.check(&platform)?;
    if plan.jobs() == 0 {
        return Err(PlanError::Nothing("it has no jobs".to_owned()).into());
    }
    if args.dry_run {
        on::arrangement(&args.on, &platform, &args.arrange)?;
        return outline_of_plan(args, &platform, &plan);
    }
    let mut machine = on::machine(&args.on, platform, args.options(), &args.arrange)?;
    let (machine, run) = (machine.as_mut(), args.to_run(Goal::Count)?);
    match plan.experiment.as_str() {
        "access-time" => run.plan::<AccessTime>(machine, &plan),
        "preemption-length" => run.plan::<PreemptionLength>(machine, &plan),
        _ => run.plan::<Sample>(machine, &plan),
    }
}

/// Prints what would be done.
fn dry_run(args: &Args, platform: &Platform, experiment: &dyn Experiment) -> Result<Exit, Failure> {
    let projected = experiment.projected(platform)?;
    if args.json {
        let replicates = args.replicates(experiment, platform)?;
        let plan = experiment.replicated(platform, args.seed, replicates)?;
        print(&format!("{}\n", plan.to_json()))?;
        return Ok(Exit::Done);
    }
    let cells = experiment.cells(platform)?;
    let counts: Vec<u32> = cells.iter().map(|&(_, samples)| samples).collect();
    let empty = experiment.block(platform, args.seed, Turn::default(), &vec![0; cells.len()])?;
    let replicates = args.replicates(experiment, platform)?;
    print(&outline(&empty, &counts, Some(replicates as usize), platform, projected))?;
    Ok(Exit::Done)
}

/// Prints what a plan from a file would do.
fn outline_of_plan(args: &Args, platform: &Platform, plan: &Plan) -> Result<Exit, Failure> {
    if args.json {
        print(&format!("{}\n", plan.to_json()))?;
        return Ok(Exit::Done);
    }
    let mut counts = vec![0; plan.cells.len()];
    plan.phases.iter().flat_map(|phase| &phase.jobs).for_each(|job| counts[job.cell] += 1);
    print(&outline(plan, &counts, plan.replicates(), platform, plan.projected()))?;
    Ok(Exit::Done)
}

/// The cells of a plan with the number of their samples, how long it takes, what cannot be measured.
fn outline(
    plan: &Plan,
    counts: &[u32],
    replicates: Option<usize>,
    platform: &Platform,
    projected: Nanos,
) -> String {
    let samples: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let (what, machine, cells) = (&plan.experiment, &platform.name, counts.len());
    let replicates = match replicates {
        None | Some(0) => "no replicates of its own".to_owned(),
        Some(1) => "1 replicate, so no intervals".to_owned(),
        Some(several) => format!("{several} replicates"),
    };
    let head = format!("{what} on {machine}: {cells} cells, {samples} samples, {replicates}");
    let names = names(&plan.cells, &plan.sets);
    let cells = names.iter().zip(counts).map(|(name, samples)| format!("{samples:>8}  {name}"));
    let time = format!("projected: {}", crate::run::rough(duration(projected)));
    let missing = platform.missing_classes();
    let missing = missing
        .iter()
        .map(|it| format!("not measurable here: {} ({})", it.affinity.event(), it.why));
    let lines = std::iter::once(head).chain(cells).chain([time]).chain(missing);
    lines.map(|line| line + "\n").collect()
}

impl Args {
    fn shared_data(&self, platform: Platform) -> Result<Exit, Failure> {
        let experiment = self.gangs.experiment(self.samples, self.cpus.clone());
        let (on, arrange) = (self.on.as_str(), &self.arrange);
        let to = shared_data::Where { on, arrange, dry_run: self.dry_run, json: self.json };
        let run = || self.to_run(Goal::Count);
        shared_data::carry_out(&to, platform, &experiment, self.seed, run)
    }

    /// Measures what the kernel takes.
    fn overheads(&self, platform: &Platform) -> Result<Exit, Failure> {
        let why = "overheads runs threads of its own";
        refuse(why, &self.of_working_sets())?;
        refuse(
            why,
            &[
                ("--samples", self.samples.is_some()),
                ("--precision", self.precision.is_some()),
                ("--replicates", self.replicates.is_some()),
                ("--budget", self.budget.is_some()),
                ("--load", self.load.is_some()),
                ("--command", self.command.is_some()),
                ("--event", !self.events.is_empty()),
                ("--length", self.length.is_some()),
                ("--stream", self.stream),
                ("--dry-run", self.dry_run),
                ("--no-real-time (use --scheduler eevdf)", self.no_real_time),
                ("--on (it measures this host)", self.on != on::LIVE),
            ],
        )?;
        overheads::carry_out(&overheads::Asked {
            platform,
            cpus: self.cpus.clone().unwrap_or_else(|| platform.usable()),
            own: self.own_overheads,
            tasks: &self.tasks,
            options: self.options(),
            seed: self.seed,
            output: self.output.as_deref(),
            as_json: self.json,
        })
    }

    fn options(&self) -> Options {
        Options {
            no_real_time: self.no_real_time.then(|| "--no-real-time was given".to_owned()),
            allow_system: self.tasks.allow_system,
        }
    }

    /// Gives `conditions` as many replicates as asked for, in whole rounds, and its usual samples in
    /// each where their number is not asked for.
    fn steps(&self, experiment: &mut Conditions) {
        let arms = experiment.arms().len() as u32;
        if let Some(replicates) = self.replicates {
            experiment.rounds = replicates.div_ceil(arms);
        }
        let samples = self.samples.unwrap_or(experiment.steps() * SAMPLES_OF_A_STEP);
        experiment.cell.groups.iter_mut().for_each(|group| group.samples = samples);
    }

    /// How many replicates a run of `experiment` consists of.
    fn replicates(&self, experiment: &dyn Experiment, platform: &Platform) -> Result<u32, Failure> {
        let cells = experiment.cells(platform)?;
        let counts = || cells.iter().map(|&(_, samples)| samples);
        let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
        match experiment.replicates().or(self.replicates) {
            None => Ok(usual_replicates(fewest)),
            Some(asked) if self.goal() == Goal::Count && asked > most => {
                let why = format!(
                    "--replicates {asked}: the cells have {most} samples at most, and a replicate \
                     without a sample is none; ask for --samples {asked} or more"
                );
                Err(Failure::says(Exit::Usage, why))
            }
            Some(asked) => Ok(asked),
        }
    }

    fn to_run(&self, goal: Goal) -> Result<Run, Failure> {
        Ok(Run {
            destination: self.destination()?,
            goal,
            replicates: 1,
            budget: self.budget.map(duration),
            quiet: self.quiet,
            json: self.json,
        })
    }

    fn destination(&self) -> Result<Destination, Failure> {
        match (&self.output, self.stream) {
            (Some(path), _) => Ok(Destination::File { path: path.clone(), resume: self.resume }),
            (None, true) => Ok(Destination::Stdout),
            (None, false) => Err(Failure::says(
                Exit::Usage,
                "where to? give `-o FILE.parquet`, --stream or --dry-run",
            )),
        }
    }

    fn goal(&self) -> Goal {
        match (self.precision, self.samples, self.budget) {
            (Some(relative), ..) => Goal::Precision(Precision { relative, alpha: 0.05 }),
            (None, None, Some(_)) => Goal::Time,
            _ => Goal::Count,
        }
    }

    fn overrides(&self, load: Option<Load>) -> Overrides {
        Overrides {
            wss: self.wss.clone(),
            write_ratios: self.write_ratio.clone(),
            pattern: self.pattern,
            page: self.page,
            chains: self.chains,
            node: self.node,
            fresh_frames: self.fresh_frames,
            workload: self.workload.clone(),
            events: self.events.clone(),
            length: self.length,
            preemptor: self.preemptor.clone(),
            preemptor_sizes: self.preemptor_wss.clone(),
            mover: self.mover,
            realistic: if load.is_none() { self.realistic() } else { None },
            load,
            cpus: self.cpus.clone().unwrap_or_default(),
            samples: self.samples,
        }
    }

    /// Says so where a load of the preset's is not measured.
    #[expect(clippy::print_stderr, reason = "what is not done is said before anything is done")]
    fn say_what_is_left_out(&self) {
        let loaded = matches!(
            self.experiment,
            Some(ExperimentName::Synthetic | ExperimentName::PolluterSweep)
        );
        let given = self.load.is_some() || self.command.is_some();
        if loaded && self.preset.has_realistic() && !given {
            eprintln!(
                "corehop: the load `realistic` of the preset {} is left out: it needs a command, for \
                 instance {EXAMPLE_COMMAND}",
                self.preset
            );
        }
    }
}

fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.get())
}
