// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check`

use std::io::Read as _;
use std::path::{Path, PathBuf};

use corehop_core::decision::sched::charge::{Asked, Charged, Delay};
use corehop_core::decision::sched::overhead::system::Overheads;
use corehop_core::decision::sched::overhead::table::OverheadTable;
use corehop_core::decision::sched::set_file::{self, SetFileError};
use corehop_core::decision::sched::{
    Answer, Suffers, TaskSet, Test, Verdict, all, answer_json, clusters, test,
};
use corehop_core::platform::Platform;
use corehop_core::units::Nanos;
use serde_json::Value;

use super::costs::CostArgs;
use crate::answer::{Page, Paint, print};
use crate::exit::{Exit, Failure};

/// Whether a set of tasks meets its deadlines: by one test, or by all.
///
/// A test that is only sufficient and fails answers `unknown`; `false` is for exact and necessary
/// ones. Exit code 0: some test that was run says yes; 1: none does.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task set: {"cpus": m, "tasks": [{"wcet_us", "period_us", "deadline_us"?, "priority"?,
    /// "wss_kib"?, "jitter_us"?, "blocking_us"?, "name"?}]}, whole microseconds; for the tests that charge cache
    /// reloads "block_reload_ns" beside "cpus", and "ucb" and "ecb" of each task; - reads standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The test, or all; `corehop explain NAME` says what it asks.
    #[arg(long, value_name = "NAME|all", default_value = "all")]
    test: String,
    /// Charge each job the delay of one preemption or migration: e' = e + D_c. With --costs, each is charged what the
    /// dearest event that it may suffer costs a working set of its size.
    #[arg(long, value_name = "D_c", conflicts_with = "costs")]
    delay: Option<Nanos>,
    #[command(flatten)]
    costs: CostArgs,
    /// Charge what the operating system takes, by the number of tasks: SchedCAT's table of overheads (TASK-COUNT,
    /// SCHEDULE, CXS, TICK, RELEASE, RELEASE-LATENCY, IPI-LATENCY). Each job pays for the preemption that it causes;
    /// for fixed priorities (p-fp-rta) interrupts become tasks. The delays of preemptions are charged with them.
    #[arg(long, value_name = "FILE.csv")]
    overheads: Option<PathBuf>,
    /// The time between two ticks, for --overheads.
    #[arg(long, value_name = "TIME", requires = "overheads", default_value = "1ms")]
    quantum: Nanos,
    /// One CPU beyond those of the set handles all releases, for --overheads.
    #[arg(long, requires = "overheads")]
    dedicated: bool,
    /// The machine: its caches make the clusters (`c-edf-l2`, `soft-c-edf-l3`, …), and say which migrations stay
    /// within one. A platform's name, or a file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    platform: Option<String>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let platform = args.platform.as_deref().map(super::platform::described).transpose()?;
    let tests = asked(&args.test, platform.as_ref())?;
    let set = read(&args.file)?;
    let source = args.costs.source()?;
    let costs =
        source.as_ref().map(|source| source.selected(&args.costs.selection())).transpose()?;
    let delay = match (args.delay, costs) {
        // Rounded up: a delay is never understated.
        (Some(delay), _) => Delay::Each(delay.get().div_ceil(1_000)),
        (None, Some(costs)) => Delay::Costs(costs.costs),
        (None, None) => uncharged(&set)?,
    };
    let overheads = overheads(args, &set)?;
    let mut charged = Charged::new(&set, platform.as_ref(), delay, overheads);
    let mut answers = Vec::new();
    for test in tests {
        let asked = charged.ask(test).map_err(|error| Failure::new(Exit::Damaged, error))?;
        let written = if args.json {
            Written::Json(answer_json(test, &asked.answer, asked.system, asked.delays))
        } else {
            Written::Text(one(test, &asked, &set))
        };
        answers.push((test, asked.answer, written));
    }
    print(&whole(args, &answers))?;
    let yes = answers.iter().any(|(_, answer, _)| answer.verdict == Verdict::Schedulable);
    Ok(if yes { Exit::Done } else { Exit::No })
}

/// An answer as it is printed alone.
enum Written {
    Json(Value),
    Text(String),
}

/// What is printed of all answers.
fn whole(args: &Args, answers: &[(&Test, Answer, Written)]) -> String {
    if let ([(_, _, written)], false) = (answers, args.test == "all") {
        return match written {
            Written::Json(value) => pretty(value),
            Written::Text(text) => text.clone(),
        };
    }
    if args.json {
        let json = |(_, _, written): &(&Test, Answer, Written)| match written {
            Written::Json(value) => value.clone(),
            Written::Text(_) => Value::Null,
        };
        return pretty(&answers.iter().map(json).collect::<Value>());
    }
    every(answers)
}

/// The tests that are asked for. Where a machine is named, its caches make the clusters.
fn asked(name: &str, platform: Option<&Platform>) -> Result<Vec<&'static Test>, Failure> {
    let usage = |what: String| Failure::says(Exit::Usage, what);
    if name == "all" {
        let sizes = platform.map(clusters::sizes);
        let there = |test: &&Test| match (test.suffers(), &sizes) {
            (Suffers::Within(size), Some(sizes)) => sizes.iter().any(|&(it, _)| it == size),
            _ => true,
        };
        return Ok(all().filter(there).collect());
    }
    let by_cache = name.rsplit_once("c-edf-").filter(|(_, cache)| cache.starts_with(['l', 'L']));
    let Some((soft, cache)) = by_cache else {
        return Ok(vec![test(name).map_err(|error| Failure::new(Exit::Usage, error))?]);
    };
    let platform = platform.ok_or_else(|| {
        usage(format!("{name}: clusters by cache are those of a machine: name it with --platform"))
    })?;
    let (size, _) = clusters::by_cache(platform, cache).map_err(usage)?;
    let name = format!("{soft}c-edf-{size}");
    Ok(vec![test(&name).map_err(|error| Failure::new(Exit::Usage, error))?])
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// The task set in a file; errors name it.
pub(super) fn read(path: &Path) -> Result<TaskSet, Failure> {
    let named = || path.display().to_string();
    let mut text = String::new();
    let from_stdin = path == Path::new("-");
    let outcome = if from_stdin {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    outcome.map_err(|error| {
        let binary = error.kind() == std::io::ErrorKind::InvalidData;
        Failure::new(if binary { Exit::Damaged } else { Exit::Usage }, error).context(named())
    })?;
    set_file::parse(&text)
        .map_err(|error: SetFileError| Failure::new(Exit::Damaged, error).context(named()))
}

/// What the operating system takes, if that is to be charged.
fn overheads(args: &Args, set: &TaskSet) -> Result<Option<Overheads>, Failure> {
    let Some(path) = &args.overheads else { return Ok(None) };
    let named = || path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Usage, error).context(named()))?;
    let quantum = args.quantum.get() / 1_000;
    if quantum == 0 {
        return Err(Failure::says(Exit::Usage, "--quantum: expected at least 1us"));
    }
    let table = OverheadTable::parse(&text);
    let known = table.and_then(|table| table.of(set.tasks().len(), quantum, args.dedicated));
    known.map(Some).map_err(|error| Failure::new(Exit::Damaged, error).context(named()))
}

/// Nothing is charged; but a set that states working sets needs to be told what they cost.
fn uncharged(set: &TaskSet) -> Result<Delay<'static>, Failure> {
    let Some(at) = set.wss_kib().iter().position(Option::is_some) else {
        return Ok(Delay::Nothing);
    };
    let sentence = format!(
        "{}: wss_kib is given, and nothing says what a working set costs: give its delay with \
         --delay, a table of costs, a model or samples with --costs, or --delay 0us to charge none",
        called(set, at)
    );
    Err(Failure::says(Exit::Usage, sentence))
}

/// `task 3 (`video`)`.
fn called(set: &TaskSet, at: usize) -> String {
    let name = set.names()[at].as_ref().map(|name| format!(" (`{name}`)")).unwrap_or_default();
    format!("task {at}{name}")
}

fn word(verdict: Verdict) -> (&'static str, Paint) {
    match verdict {
        Verdict::Schedulable => ("yes", Paint::Green),
        Verdict::Unschedulable => ("no", Paint::Red),
        Verdict::Unknown => ("unknown", Paint::Yellow),
    }
}

/// A line for each test.
fn every(answers: &[(&Test, Answer, Written)]) -> String {
    let page = Page::of_stdout();
    let names = answers.iter().map(|(test, ..)| test.name.len()).max().unwrap_or(0);
    let line = |(test, answer, _): &(&Test, Answer, Written)| {
        let (verdict, paint) = word(answer.verdict);
        let verdict = page.paint(&format!("{verdict:<7}"), paint);
        let indent = names + 11;
        let more = answer.accepted_by.map(|by| format!(" (by {by})")).unwrap_or_default();
        let why = answer.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        let text = page.wrap(&format!("{}{more}{why}", test.scheduler), indent);
        format!("{:<names$}  {verdict}  {text}\n", test.name)
    };
    answers.iter().map(line).collect()
}

/// One test at length.
fn one(test: &Test, asked: &Asked<'_>, set: &TaskSet) -> String {
    let Asked { answer, system, delays } = asked;
    let page = Page::of_stdout();
    let (verdict, paint) = word(answer.verdict);
    let mut text = format!("{}: {}\n", test.name, page.paint(verdict, paint));
    let mut say = |head: &str, what: &str| {
        text.extend(["  ", &format!("{head:<12}"), &page.wrap(what, 14), "\n"]);
    };
    say("for", test.scheduler);
    say("asks", test.title);
    say("is", test.kind.meaning());
    say("from", test.citation);
    if let Some(by) = answer.accepted_by {
        say("accepted by", by);
    }
    if let Some(why) = &answer.why {
        say("because", why);
    }
    let name = |at: usize| set.names()[at].clone().unwrap_or_else(|| format!("task {at}"));
    if let Some(order) = &answer.priorities {
        let order: Vec<_> = order.iter().map(|&at| name(at)).collect();
        say("priorities", &order.join(", "));
    }
    for (cpu, tasks) in answer.partition.iter().flatten().enumerate() {
        let tasks: Vec<_> = tasks.iter().map(|&at| name(at)).collect();
        say(&format!("CPUs {cpu}"), &tasks.join(", "));
    }
    for (at, delay) in delays.iter().copied().flatten().enumerate().filter(|(_, delay)| **delay > 0)
    {
        say("charged", &format!("{}: {delay} us", name(at)));
    }
    for (at, bound) in answer.bounds.iter().flatten().enumerate() {
        let deadline = system.tasks()[at].deadline();
        say("responds", &format!("{}: within {bound} us, deadline {deadline} us", name(at)));
    }
    for (at, assumption) in test.assumptions().iter().enumerate() {
        say(if at == 0 { "assuming" } else { "" }, &format!("{}. {assumption}", at + 1));
    }
    text
}
