// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop place`

mod emit;
mod gain;
mod replay;
mod simulate;
mod status;
mod wakes;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use corehop_app::place::{PlacementFile, Placing, PlacingView, check_start};
use corehop_decide::placer::log::{PlacementFindings, PlacementLogHeader};
use corehop_decide::placer::terrain::Terrain;
use corehop_decide::placer::{InitialPlacement, Placer};
use corehop_linux::placing::{
    PAGE_FAULTS, PlacerSettings, PlacingError, PlacingHost, ProgressSource,
};
use corehop_linux::preflight;
use corehop_plan::experiment::{Argument, Target};
use corehop_plan::host::Evidence;
use corehop_plan::stop::Stop;
use corehop_plan::units::Nanos;
use corehop_report::{metrics, placement};
use corehop_system::discover::SysRoot;
use corehop_system::supervisor::interrupt;

use self::emit::{Emission, PlacementFormat};
use self::status::PlacerProgress;
use crate::cmd::VerbOrMode;
use crate::cmd::costs::CostArgs;
use crate::cmd::measure::on;
use crate::output::{AnswerBody, Force, OutputFile, answer, note, stdout_layout};
use corehop_app::failure::{Exit, Failure};

/// The arguments of `corehop place` and of its modes.
pub(crate) type Args = VerbOrMode<LivePlacementOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Place pairs of threads on a simulated machine, and compare their progress with the progress without a
    /// placement.
    Simulate(simulate::Args),
    /// Replay a log of the placer, and check that the placer makes the same decisions. Replaying moves no thread.
    Replay(replay::Args),
}

/// Find threads that wake each other, move them together, and keep the move if the program runs faster.
///
/// corehop counts wake-ups by pair of threads in the kernel. From these counts, the threads' loads and the measured
/// cost of a wake-up, corehop computes a placement. corehop alternates stretches with and without the placement, and
/// keeps the placement if the program makes faster progress with 95 % confidence. Without `--progress`, corehop moves
/// nothing and prints the placement as advice, after two seconds (5 to 20 windows) or when the started program exits.
/// All affinity masks are restored at the end, even after SIGKILL. Threads only move to CPUs that their affinity mask
/// already allows.
///
/// `corehop place` needs root, or CAP_BPF and CAP_PERFMON. Placing processes of other users also needs CAP_SYS_NICE.
/// If a source of evidence is unavailable on this host, corehop says why and continues with the other sources.
#[derive(Debug, clap::Args)]
pub(crate) struct LivePlacementOptions {
    /// The processes to place, by number; their children are included
    #[arg(value_name = "PID", value_parser = process, conflicts_with_all = ["cgroup", "program"])]
    pids: Vec<u32>,
    /// Place the processes of this cgroup and of the cgroups below it, while the processes stay there
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "program")]
    cgroup: Option<PathBuf>,
    /// Read the program's progress from this source: a file with a growing number, `unix:SOCKET` with one number per
    /// line, or `syscalls:write,sendmsg` for completed system calls (a proxy for progress)
    #[arg(long, value_name = "SOURCE")]
    progress: Option<ProgressSource>,
    /// Use these sources of evidence that threads share data: wakes, locks, pages (only for a program after `--`),
    /// counters. corehop always counts wake-ups if the kernel permits
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "wakes")]
    evidence: Vec<Evidence>,
    /// Cause at most this many page faults per second and thread with `--evidence pages`; each page fault costs 10 to
    /// 50 us
    #[arg(long, value_name = "N", default_value_t = PAGE_FAULTS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    page_faults: u32,
    /// Move no thread, and print the placements that corehop would try
    #[arg(long)]
    dry_run: bool,
    /// Exit after the first verdict, or after a minute, restore all affinity masks, and print the kept placement in
    /// this form. With this option, `-o` names the file for the printed placement instead of a log. Exit code 1 means
    /// that corehop kept no placement, or that the form cannot express the placement
    #[arg(long, value_enum, value_name = "FORM", requires = "progress", conflicts_with_all = ["dry_run", "json"])]
    emit: Option<PlacementFormat>,
    /// Also try placements that no evidence supports. Each trial takes some seconds, and half of this time the
    /// program may run in a bad placement
    #[arg(long)]
    search: bool,
    /// Set an initial placement: `spread`, `packed`, or CPUs such as `0,2-3`, to which threads are assigned in turn.
    /// The threads stay in the initial placement until corehop tries a placement; if corehop finds no other
    /// placement, corehop tries the initial placement. corehop undoes the initial placement at the end
    #[arg(long, value_name = "spread|packed|CPUS", conflicts_with = "dry_run")]
    start: Option<InitialPlacement>,
    /// Predict the gain of threads that run together by this model, the output of `corehop advise fit` for files of
    /// `measure shared-data`
    #[arg(long, value_name = "MODEL.json")]
    model: Option<PathBuf>,
    #[command(flatten)]
    costs: CostArgs,
    /// Stop after this long [default: when the program exits, on Ctrl-C, or without --progress after the advice]
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Nanos>,
    /// Observe the program in windows of this length
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    window: Nanos,
    /// Write a JSON Lines log of windows, predictions, moves and their measured effect; with --emit, write the kept
    /// placement
    #[arg(short, long, value_name = "LOG.jsonl")]
    output: Option<PathBuf>,
    /// Write windows, trials and the measured effect in OpenMetrics format, for a node exporter's textfile collector
    #[arg(long, value_name = "FILE.prom")]
    metrics: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON to stdout; the program's output goes to stderr
    #[arg(long)]
    json: bool,
    /// The program to start, with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => on_this_host(args),
        VerbOrMode::Mode(Mode::Simulate(args)) => simulate::run(args),
        VerbOrMode::Mode(Mode::Replay(args)) => replay::run(args),
    }
}

fn on_this_host(args: &LivePlacementOptions) -> Result<Exit, Failure> {
    let targets = args.targets()?;
    if args.search && args.progress.is_none() {
        let why = "--search tries placements, and only progress shows which one is better: add --progress";
        return Err(Failure::says(Exit::Usage, why));
    }
    if args.evidence.contains(&Evidence::Pages) && args.program.is_empty() {
        let why = "--evidence pages has to start the program: name the program after `--`, with its arguments";
        return Err(Failure::says(Exit::Usage, why));
    }
    let placing = args.placing();
    placing.check()?;
    let input = args.progress.as_ref().and_then(ProgressSource::path);
    let [mut output, metrics] = OutputFile::all_asked(
        [args.output.as_ref(), args.metrics.as_ref()],
        input.as_slice(),
        args.force,
    )?;
    let beside_program = !args.program.is_empty();
    let emission =
        args.emit.map(|form| Emission { form: form.into(), file: output.take(), beside_program });
    let platform = on::platform(on::LIVE)?;
    let move_costs = args.costs.request().of_moves()?;
    let gain = gain::of_machine(args.model.as_deref(), &platform)?;
    // A placement that another one changes is judged by what that one does.
    for it in preflight::movers(&preflight::doctor(&SysRoot::live(), &platform)) {
        note(&format!("{}: {}", it.id, it.found));
    }
    interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
    let (times, wake_up) = wakes::measured(&platform);
    let terrain = Terrain::of(&platform, times);
    check_start(args.start.as_ref(), &terrain)?;
    let settings = placing.settings(move_costs.on(terrain.caches().len()).ns);
    let advises = placing.advises(&settings);
    let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let wishes = PlacerSettings {
        platform: &platform,
        progress: args.progress.as_ref(),
        evidence: &args.evidence,
        page_faults: args.page_faults,
        search: args.search,
        moves: settings.may_move || args.start.is_some(),
        to_stderr: args.json || emission.as_ref().is_some_and(|it| it.file.is_none()),
    };
    // A second placer with this log is refused before its program starts.
    let file = output.map(|output| output.grow()).transpose()?;
    let mut host = PlacingHost::begin(&targets, wishes).map_err(not_placed)?;
    // Not before: a command that is refused leaves the file as it is.
    let mut head =
        PlacementLogHeader::new(settings, &terrain, &names, host.sources(), args.start.clone());
    head.wake_up = Some(wake_up);
    let placer = Placer::new(settings, terrain).with_gain(gain);
    let (mut status, stop) = (PlacerProgress::new(advises), Stop::when(interrupt::requested));
    let ended = PlacementFile::begin(head, file).and_then(|mut log| {
        let shown = (&mut log, &mut status as &mut dyn PlacingView);
        Ok((placing.run(&mut host, placer, shown, (advises, &stop))?, log))
    });
    drop(status);
    // A command goes on without being placed until it ends by itself.
    let (ended, mut log) = ended.inspect_err(|_| {
        host.end();
    })?;
    let from_interrupts = host.from_interrupts();
    let mut status = ended.map(|it| it.status);
    if status.is_none() && interrupt::requested() {
        // Before the answer: an answer without a reader keeps no signal from the program.
        status = Some(host.end());
    }
    log.end(from_interrupts)?;
    let measured = metrics.map_or(Ok(()), |file| file.write(metrics::of_placement(log.answer())));
    let said = match &emission {
        Some(it) => it.say(log.answer(), &platform, args.progress.as_ref()),
        None => say(log.answer(), args.json, beside_program).map(|()| Exit::Done),
    };
    let status = status.unwrap_or_else(|| host.end());
    let done = said?;
    measured?;
    log.whole()?;
    Ok(match status {
        _ if interrupt::requested() => Exit::Interrupted,
        Some(code) if code != 0 => Exit::Of(u8::try_from(code).unwrap_or(255)),
        _ => done,
    })
}

/// Prints the answer; on stderr if a started program owns stdout.
fn say(of: &PlacementFindings, as_json: bool, beside_program: bool) -> Result<(), Failure> {
    let sentence = placement::sentence(of);
    if as_json {
        let text = serde_json::to_string_pretty(of);
        let text = text.map_err(|it| Failure::new(Exit::Failed, it))?;
        return answer(&sentence, AnswerBody::Data(&format!("{text}\n")));
    }
    let text = evidence(of);
    answer(
        &sentence,
        if beside_program { AnswerBody::Beside(&text) } else { AnswerBody::Text(&text) },
    )
}

/// The evidence behind the answer, wrapped to the terminal's width.
fn evidence(of: &PlacementFindings) -> String {
    let page = stdout_layout();
    placement::text(of).lines().flat_map(|line| [page.wrap(line, 0), "\n".to_owned()]).collect()
}

/// Parses a process ID.
pub(in crate::cmd) fn process(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("name a process by its number: `pgrep {text}` finds the number"))
}

impl LivePlacementOptions {
    /// The requested options, in the form that the placer needs.
    fn placing(&self) -> Placing {
        Placing {
            may_move: self.progress.is_some() && !self.dry_run,
            starts_program: !self.program.is_empty(),
            ends_with_verdict: self.emit.is_some(),
            search: self.search,
            start: self.start.clone(),
            duration: self.duration,
            window: self.window,
        }
    }

    fn targets(&self) -> Result<Vec<Target>, Failure> {
        if !self.program.is_empty() {
            let bytes = self.program.iter().map(|word| word.as_bytes().to_vec());
            return Ok(vec![Target::Command(bytes.map(Argument::new).collect())]);
        }
        if let Some(path) = &self.cgroup {
            return Ok(vec![Target::Cgroup(path.clone())]);
        }
        if self.pids.is_empty() {
            return Err(Failure::says(
                Exit::Usage,
                "missing program: name processes by number, --cgroup DIRECTORY, or `-- PROGRAM ARGUMENTS`",
            ));
        }
        Ok(self.pids.iter().map(|&pid| Target::Process(pid)).collect())
    }
}

/// Converts a placing error to a failure that states why nothing was placed.
pub(in crate::cmd) fn not_placed(error: PlacingError) -> Failure {
    let exit = match error {
        PlacingError::Failed { .. } => Exit::Failed,
        _ => Exit::NotPossible,
    };
    Failure::new(exit, error)
}
