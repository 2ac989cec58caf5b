// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check`

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use corehop_core::decision::costs::{CostCurves, Costs};
use corehop_core::decision::sched::overhead::{self, Inflated};
use corehop_core::decision::sched::set_file::{self, SetFileError};
use corehop_core::decision::sched::{
    Answer, Suffers, System, TaskSet, Test, Verdict, all, answer_json, clusters, test,
};
use corehop_core::platform::Platform;
use corehop_core::units::Nanos;
use corehop_core::workload::Event;
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
    /// Charge each job what the dearest event that it may suffer costs a working set of its size, by a table of
    /// costs (`corehop report --table csv` writes such). Tests without migrations charge none.
    #[arg(long, value_name = "FILE.csv", conflicts_with = "delay")]
    costs: Option<PathBuf>,
    /// Which load of the table.
    #[arg(long, value_name = "LOAD", requires = "costs")]
    load: Option<String>,
    /// Which statistic of the table.
    #[arg(long, value_name = "NAME", requires = "costs", default_value = "max")]
    statistic: String,
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
    let charge = Charge::of(args, &set)?;
    let mut inflated: Vec<(Vec<Event>, Inflated)> = Vec::new();
    let mut answers = Vec::new();
    for test in tests {
        let events = events(test, platform.as_ref());
        let system = match &charge {
            Charge::Nothing => set.system(),
            charge => {
                let known = inflated.iter().position(|(other, _)| *other == events);
                let at = known.map_or_else(
                    || {
                        inflated.push((events.clone(), charge.inflate(&set, &events)?));
                        Ok::<_, Failure>(inflated.len() - 1)
                    },
                    Ok,
                )?;
                inflated[at].1.system()
            }
        };
        let answer = test.run(system);
        let written = if args.json {
            Written::Json(answer_json(test, &answer, system))
        } else {
            Written::Text(one(test, &answer, &set, system))
        };
        answers.push((test, answer, written));
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

/// What may cost a job its delay under the scheduler of a test.
fn events(test: &Test, platform: Option<&Platform>) -> Vec<Event> {
    let all = [Event::Preemption, Event::L2Migration, Event::L3Migration, Event::MemoryMigration];
    let reached = match test.suffers() {
        Suffers::Nothing => 0,
        Suffers::Preemptions => 1,
        Suffers::Everything => all.len(),
        Suffers::Within(size) => {
            let sizes = platform.map(clusters::sizes).unwrap_or_default();
            let cache = sizes.iter().find(|&&(it, _)| it == size);
            cache.map_or(all.len(), |&(_, level)| (level as usize).clamp(1, 3))
        }
    };
    all[..reached].to_vec()
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

/// What is charged to jobs.
enum Charge {
    Nothing,
    /// As many microseconds to each.
    Each(u64),
    /// What an event costs the task's working set.
    Costs(CostCurves),
}

impl Charge {
    /// A set that states working sets needs to be told what they cost.
    fn of(args: &Args, set: &TaskSet) -> Result<Self, Failure> {
        if let Some(delay) = args.delay {
            // Rounded up: a delay is never understated.
            return Ok(Self::Each(delay.get().div_ceil(1_000)));
        }
        if let Some(path) = &args.costs {
            return selected(args, path).map(Self::Costs);
        }
        let Some(at) = set.wss_kib().iter().position(Option::is_some) else {
            return Ok(Self::Nothing);
        };
        let sentence = format!(
            "{}: wss_kib is given, and nothing says what a working set costs: give its delay with \
             --delay, a table of costs with --costs, or --delay 0us to charge none",
            called(set, at)
        );
        Err(Failure::says(Exit::Usage, sentence))
    }

    fn inflate(&self, set: &TaskSet, events: &[Event]) -> Result<Inflated, Failure> {
        let delay = |at: usize| match self {
            Self::Nothing => Ok(0),
            Self::Each(micros) => Ok(*micros),
            Self::Costs(_) if events.is_empty() => Ok(0),
            Self::Costs(costs) => {
                let wrong = |what: &str| {
                    Failure::says(Exit::Damaged, format!("{}: {what}", called(set, at)))
                };
                let wss = set.wss_kib()[at].ok_or_else(|| {
                    wrong("wss_kib is missing: the delay of a task follows from its working set")
                })?;
                let cost = costs.largest(events, wss as f64).ok_or_else(|| {
                    wrong(&format!(
                        "wss_kib is {wss}: the table has no costs for such a working set"
                    ))
                })?;
                Ok(cost.us.max(0.0).ceil() as u64)
            }
        };
        let delays = (0..set.tasks().len()).map(delay).collect::<Result<Vec<u64>, Failure>>()?;
        Ok(overhead::plain(set, |at| delays[at]))
    }
}

/// The costs of the load and the statistic that are asked for.
fn selected(args: &Args, path: &Path) -> Result<CostCurves, Failure> {
    let table = super::study::cost_table(path)?;
    let loads: BTreeSet<&str> = table.selections().map(|(load, ..)| load).collect();
    let load = match (&args.load, loads.len()) {
        (Some(load), _) => load.as_str(),
        (None, 1) => loads.first().copied().unwrap_or_default(),
        (None, _) => {
            let loads: Vec<&str> = loads.into_iter().collect();
            let what = format!("--load: the table has several: {}", loads.join(", "));
            return Err(Failure::says(Exit::Usage, what));
        }
    };
    table.select(load, &args.statistic).cloned().ok_or_else(|| {
        let known: Vec<String> =
            table.selections().map(|(load, what, _)| format!("{load} {what}")).collect();
        let sought = format!("{load} {}", args.statistic);
        let what = format!("the table has no costs of {sought}: it has {}", known.join(", "));
        Failure::says(Exit::Usage, what)
    })
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
