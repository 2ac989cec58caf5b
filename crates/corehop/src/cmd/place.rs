// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop place`

mod costs;
mod emit;
mod gain;
mod log;
mod replay;
mod simulate;
mod status;
mod wakes;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use corehop_decide::placer::log::Head;
use corehop_decide::placer::replay::actions_of;
use corehop_decide::placer::terrain::Terrain;
use corehop_decide::placer::{Placer, Session, Settings, Start};
use corehop_linux::placing::{PAGE_FAULTS, PlacingError, PlacingHost, ProgressSource, Wishes};
use corehop_linux::preflight;
use corehop_plan::experiment::{Argument, Target};
use corehop_plan::host::{Ended, Evidence, HostError};
use corehop_plan::units::Nanos;
use corehop_system::discover::SysRoot;
use corehop_system::supervisor::interrupt;

use self::emit::{Emission, Form};
use self::log::Log;
use self::status::Status;
use crate::cmd::VerbOrMode;
use crate::cmd::costs::CostArgs;
use crate::cmd::measure::on;
use crate::output::{Force, OutputFile, note};
use corehop_app::failure::{Exit, Failure};

/// The verb and its modes.
pub(crate) type Args = VerbOrMode<Here, Mode>;

/// Modes.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Place pairs of threads on a simulated machine, and compare with leaving them alone.
    Simulate(simulate::Args),
    /// Play a log back: does the placer decide again as it did? Nothing is moved.
    Replay(replay::Args),
}

/// Find threads that wake each other, move them together, check that it pays, and keep or undo it.
///
/// The kernel counts wake-ups by pair of threads. From the counts, the threads' loads and the measured costs of a wake-up follows a
/// placement. It is tried in stretches, with and without in turns, and kept if the program's own progress was better beyond
/// doubt (95 %). Without `--progress` nothing is moved: the placement is advice, which is printed after two seconds (5 to 20
/// windows), or when the started program ends. Everything is put back at the end, even
/// after SIGKILL. Threads are never moved to CPUs that they might not use before.
///
/// Needs root, or CAP_BPF and CAP_PERFMON. Processes of other users need CAP_SYS_NICE. What a source of evidence lacks on this
/// host is said, and placing goes on with the others.
#[derive(Debug, clap::Args)]
pub(crate) struct Here {
    /// Processes; those that they start belong to them
    #[arg(value_name = "PID", value_parser = process, conflicts_with_all = ["cgroup", "program"])]
    pids: Vec<u32>,
    /// The processes of this cgroup and of those below it, for as long as they are in it
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "program")]
    cgroup: Option<PathBuf>,
    /// The progress of the program: a file that holds a growing number, `unix:SOCKET` that sends numbers in lines, or
    /// `syscalls:write,sendmsg`, the calls that it finishes (a proxy)
    #[arg(long, value_name = "SOURCE")]
    progress: Option<ProgressSource>,
    /// The sources that tell which threads share data: wakes, locks, pages (of a program after `--`), counters. Wake-ups are counted in
    /// any case, where the kernel lets them be
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "wakes")]
    evidence: Vec<Evidence>,
    /// The faults a second that `--evidence pages` may cause to a thread; each takes it some 10 to 50 us
    #[arg(long, value_name = "N", default_value_t = PAGE_FAULTS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    page_faults: u32,
    /// Move nothing: say what would be tried
    #[arg(long)]
    dry_run: bool,
    /// End with the first verdict, or after a minute, restore all masks, and print the placement that was kept. `-o` names the
    /// file for the text, in place of a log. Exit code 1 if nothing was kept, or the form cannot express the placement
    #[arg(long, value_enum, value_name = "FORM", requires = "progress", conflicts_with_all = ["dry_run", "json"])]
    emit: Option<Form>,
    /// Try placements that no evidence speaks for, too. Each trial takes some seconds, half of them in a placement that may
    /// be bad
    #[arg(long)]
    search: bool,
    /// Put the threads somewhere first: `spread`, `packed`, or CPUs such as `0,2-3`, a thread on each in turns. It stays
    /// until a placement is tried; where no other is found it is tried itself. It is undone at the end
    #[arg(long, value_name = "spread|packed|CPUS", conflicts_with = "dry_run")]
    start: Option<Start>,
    /// The gain of threads that are together on this machine: a model of `corehop advise fit` of files of `measure shared-data`
    #[arg(long, value_name = "MODEL.json")]
    model: Option<PathBuf>,
    #[command(flatten)]
    costs: CostArgs,
    /// End after so long [default: with the program, at Ctrl-C, or for processes that may not be moved with the advice]
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Nanos>,
    /// The length of a window
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    window: Nanos,
    /// Write windows, predictions, moves and what they brought, as lines of JSON; with --emit, write the placement that was kept
    #[arg(short, long, value_name = "LOG.jsonl")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON to stdout; the program's output goes to stderr
    #[arg(long)]
    json: bool,
    /// A program to start, with its arguments, after `--`
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The time of evidence for advice.
const ADVICE: Nanos = Nanos::from_millis(2_000);
/// The time in which a placement to be emitted has its verdict, unless another one is given.
const VERDICT: Nanos = Nanos::from_millis(60_000);
/// The windows of evidence for advice at most.
const MOST_EVIDENCE: u32 = 20;

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => on_this_host(args),
        VerbOrMode::Mode(Mode::Simulate(args)) => simulate::run(args),
        VerbOrMode::Mode(Mode::Replay(args)) => replay::run(args),
    }
}

fn on_this_host(args: &Here) -> Result<Exit, Failure> {
    let targets = args.targets()?;
    if args.search && args.progress.is_none() {
        let why =
            "--search tries placements, and only progress can say which is better: add --progress";
        return Err(Failure::says(Exit::Usage, why));
    }
    if args.evidence.contains(&Evidence::Pages) && args.program.is_empty() {
        let why = "--evidence pages watches pages from a program's start on: give the program after `--`, with its arguments";
        return Err(Failure::says(Exit::Usage, why));
    }
    if args.window < Nanos::from_millis(10) {
        return Err(Failure::says(
            Exit::Usage,
            "--window is shorter than 10 ms: write for example --window 100ms",
        ));
    }
    args.check_duration()?;
    let input = args.progress.as_ref().and_then(ProgressSource::path);
    let mut output = OutputFile::if_asked(args.output.as_ref(), input.as_slice(), args.force)?;
    let beside_program = !args.program.is_empty();
    let emission =
        args.emit.map(|form| Emission { form: form.into(), file: output.take(), beside_program });
    let platform = on::platform(on::LIVE)?;
    let move_costs = costs::of_moves(&args.costs)?;
    let gain = gain::of_machine(args.model.as_deref(), &platform)?;
    // A placement that another one changes is judged by what that one does.
    for it in preflight::movers(&preflight::doctor(&SysRoot::live(), &platform)) {
        note(&format!("{}: {}", it.id, it.found));
    }
    interrupt::install().map_err(|error| Failure::new(Exit::Failed, error))?;
    let (times, wake_up) = wakes::measured(&platform);
    let terrain = Terrain::of(&platform, times);
    check_start(args.start.as_ref(), &terrain)?;
    let settings = args.settings(move_costs.on(terrain.caches().len()).ns);
    let advises = args.advises(&settings);
    let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let wishes = Wishes {
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
    let mut head = Head::new(settings, &terrain, &names, host.sources(), args.start.clone());
    head.wake_up = Some(wake_up);
    let placer = Placer::new(settings, terrain).with_gain(gain);
    let ended = Log::begin(head, file)
        .and_then(|mut log| Ok((place(args, &mut host, placer, &mut log, advises)?, log)));
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
    let said = match &emission {
        Some(it) => it.say(log.answer(), &platform, args.progress.as_ref()),
        None => log.say(args.json, beside_program).map(|()| Exit::Done),
    };
    let status = status.unwrap_or_else(|| host.end());
    let done = said?;
    log.whole()?;
    Ok(match status {
        _ if interrupt::requested() => Exit::Interrupted,
        Some(code) if code != 0 => Exit::Of(u8::try_from(code).unwrap_or(255)),
        _ => done,
    })
}

fn process(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("a process is named by its number: `pgrep {text}` finds it"))
}

/// From window to window, until the program or the time ends.
fn place(
    args: &Here,
    host: &mut PlacingHost,
    mut placer: Placer,
    log: &mut Log,
    advises: Option<u32>,
) -> Result<Option<Ended>, Failure> {
    let mut session = Session::new(host);
    let ended = windows(args, &mut session, &mut placer, log, advises);
    session.restore().map_err(failed)?;
    ended
}

fn windows(
    args: &Here,
    session: &mut Session<'_>,
    placer: &mut Placer,
    log: &mut Log,
    advises: Option<u32>,
) -> Result<Option<Ended>, Failure> {
    let mut status = Status::new(advises);
    let (begin, window) = (Instant::now(), Duration::from_nanos(args.window.get()));
    let mut start = args.start.as_ref();
    let mut ended = None;
    let length = args.duration.or(args.emit.map(|_| VERDICT));
    let over =
        |begin: Instant| length.is_some_and(|it| begin.elapsed() >= Duration::from_nanos(it.get()));
    let advised = |log: &Log| {
        let settled = args.emit.is_some() && log.answer().is_settled(args.search);
        settled || advises.is_some_and(|it| log.windows() >= u64::from(it))
    };
    while !interrupt::requested() && ended.is_none() && !over(begin) && !advised(log) {
        session.host().look_closely(placer.looks_closely());
        let observation = session.host().observe(window).map_err(failed)?;
        status.beside(|| session.host().notes().iter().for_each(|it| note(it)));
        ended = observation.ended;
        let Some(activity) = observation.activity.filter(|_| ended.is_none()) else { continue };
        let actions = actions_of(placer, start.take(), &activity);
        status.window(&activity, &actions);
        status.beside(|| log.window(activity, &actions))?;
        status.advice(log.answer(), &actions);
        for action in actions {
            if let Some(refused) = session.act(&action, placer).map_err(failed)? {
                log.refused(&refused)?;
            }
        }
    }
    Ok(ended)
}

/// The CPUs of `--start` are there.
fn check_start(start: Option<&Start>, terrain: &Terrain) -> Result<(), Failure> {
    let Some(Start::List(cpus)) = start else { return Ok(()) };
    let there = terrain.cpus();
    if cpus.is_within(there) {
        return Ok(());
    }
    let why = format!("--start {cpus}: not all of these can be used; CPUs {there} can");
    Err(Failure::says(Exit::Usage, why))
}

fn failed(error: HostError) -> Failure {
    Failure::new(Exit::Failed, error)
}

impl Here {
    fn settings(&self, move_cost_ns: f64) -> Settings {
        Settings {
            may_move: self.may_move(),
            evidence: self.evidence_windows(),
            search: self.search,
            move_cost_ns,
            ends_after_s: self.duration.map(|it| it.get() as f64 * 1e-9),
            ..Settings::default()
        }
    }

    const fn may_move(&self) -> bool {
        self.progress.is_some() && !self.dry_run
    }

    /// Whether nothing but advice comes of it: no thread is moved, and no program was started that needs a placer to its end.
    const fn is_advice(&self) -> bool {
        !self.may_move() && self.start.is_none() && self.program.is_empty()
    }

    /// The windows before a proposal. Advice has no trial that could correct it: it takes the evidence of two seconds, or of
    /// a quarter of the time that there is: windows are longer than asked for where others have the CPUs.
    fn evidence_windows(&self) -> u32 {
        let least = Settings::default().evidence;
        if !self.is_advice() {
            return least;
        }
        let time = self.duration.map_or(ADVICE, |it| Nanos::new(it.get() / 4).min(ADVICE));
        let windows = time.get() / self.window.get();
        u32::try_from(windows).unwrap_or(u32::MAX).clamp(least, MOST_EVIDENCE)
    }

    /// The windows after which it ends with its advice, unless a time was given.
    fn advises(&self, settings: &Settings) -> Option<u32> {
        (self.is_advice() && self.duration.is_none()).then_some(settings.evidence)
    }

    /// Before the evidence is there, nothing can be said.
    fn check_duration(&self) -> Result<(), Failure> {
        let windows = u64::from(Settings::default().evidence) + 1;
        let least = Nanos::new(windows * self.window.get());
        let Some(length) = self.duration.filter(|&it| it < least) else { return Ok(()) };
        let window = self.window;
        let why =
            format!("--for {length} is too short: {windows} windows of {window} take {least}");
        Err(Failure::says(Exit::Usage, why))
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

/// Why nothing was placed.
fn not_placed(error: PlacingError) -> Failure {
    let exit = match error {
        PlacingError::Failed { .. } => Exit::Failed,
        _ => Exit::NotPossible,
    };
    Failure::new(exit, error)
}
