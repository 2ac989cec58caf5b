// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check`

use std::io::Read as _;
use std::path::{Path, PathBuf};

use corehop_core::decision::sched::overhead::{self, Inflated};
use corehop_core::decision::sched::set_file::{self, SetFileError};
use corehop_core::decision::sched::{
    Answer, System, TaskSet, Test, Verdict, all, answer_json, test,
};
use corehop_core::units::Nanos;
use serde_json::Value;

use crate::answer::{Page, Paint, print};
use crate::exit::{Exit, Failure};

/// Whether a set of tasks meets its deadlines: by one test, or by all.
///
/// A test that is only sufficient and fails answers `unknown`; `false` is for exact and necessary
/// ones. Exit code 0: some test that was run says yes; 1: none does.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A task set: {"cpus": m, "tasks": [{"wcet_us", "period_us", "deadline_us"?, "priority"?,
    /// "wss_kib"?, "jitter_us"?, "blocking_us"?, "name"?}]}, whole microseconds; - reads standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The test, or all; `corehop explain NAME` says what it asks.
    #[arg(long, value_name = "NAME|all", default_value = "all")]
    test: String,
    /// Charge each job the delay of one preemption or migration: e' = e + D_c.
    #[arg(long, value_name = "D_c")]
    delay: Option<Nanos>,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let tests = match args.test.as_str() {
        "all" => all().collect(),
        name => vec![test(name).map_err(|error| Failure::new(Exit::Usage, error))?],
    };
    let set = read(&args.file)?;
    let charged = charge(&set, args.delay)?;
    let system = charged.as_ref().map_or(set.system(), Inflated::system);
    let answers: Vec<_> = tests.into_iter().map(|test| (test, test.run(system))).collect();
    let answer = match (answers.as_slice(), args.json) {
        ([(test, answer)], true) if args.test != "all" => {
            pretty(&answer_json(test, answer, system))
        }
        (all, true) => {
            let each = |(test, answer): &(&Test, Answer)| answer_json(test, answer, system);
            pretty(&all.iter().map(each).collect::<Value>())
        }
        ([(test, answer)], false) => one(test, answer, &set, system),
        (all, false) => every(all),
    };
    print(&answer)?;
    let yes = answers.iter().any(|(_, answer)| answer.verdict == Verdict::Schedulable);
    Ok(if yes { Exit::Done } else { Exit::No })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// The task set in a file; errors name it.
fn read(path: &Path) -> Result<TaskSet, Failure> {
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

/// The set with `D_c` charged; a set that states working sets needs to be told what they cost.
fn charge(set: &TaskSet, delay: Option<Nanos>) -> Result<Option<Inflated>, Failure> {
    if let Some(delay) = delay {
        // Rounded up: a delay is never understated.
        let micros = delay.get().div_ceil(1_000);
        return Ok(Some(overhead::plain(set, |_| micros)));
    }
    let Some(at) = set.wss_kib().iter().position(Option::is_some) else { return Ok(None) };
    let name = set.names()[at].as_ref().map(|name| format!(" (`{name}`)")).unwrap_or_default();
    let sentence = format!(
        "task {at}{name}: wss_kib is given, and nothing says what a working set costs: give its \
         delay with --delay, or --delay 0us to charge none"
    );
    Err(Failure::says(Exit::Usage, sentence))
}

fn word(verdict: Verdict) -> (&'static str, Paint) {
    match verdict {
        Verdict::Schedulable => ("yes", Paint::Green),
        Verdict::Unschedulable => ("no", Paint::Red),
        Verdict::Unknown => ("unknown", Paint::Yellow),
    }
}

/// A line for each test.
fn every(answers: &[(&Test, Answer)]) -> String {
    let page = Page::of_stdout();
    let names = answers.iter().map(|(test, _)| test.name.len()).max().unwrap_or(0);
    let line = |(test, answer): &(&Test, Answer)| {
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
fn one(test: &Test, answer: &Answer, set: &TaskSet, system: System<'_>) -> String {
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
    for (at, bound) in answer.bounds.iter().flatten().enumerate() {
        let deadline = system.tasks()[at].deadline();
        say("responds", &format!("{}: within {bound} us, deadline {deadline} us", name(at)));
    }
    for (at, assumption) in test.assumptions().iter().enumerate() {
        say(if at == 0 { "assuming" } else { "" }, &format!("{}. {assumption}", at + 1));
    }
    text
}
