// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check`

mod deploy;
mod margin;
pub(crate) mod study;

use std::path::{Path, PathBuf};

use corehop_plan::platform::Platform;
use corehop_plan::shown;
use corehop_plan::units::{Cpu, CpuList, Nanos};
use corehop_plan::workload::placement::{PlacedPiece, TaskPlacement};
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::set_file;
use corehop_sched::charge::{ChargedAnswer, ChargedSet, DelayCharge};
use corehop_sched::margin::{Margin, MarginRequest, TestSettings};
use corehop_sched::overhead::system::SystemOverheads;
use corehop_sched::overhead::table::OverheadTable;
use corehop_sched::question::Answered;
use corehop_sched::sentence::{called, with_bounds};
use corehop_sched::supply::InUnits;
use corehop_sched::{
    SchedulabilityQuestion, Suffers, TaskError, TaskSet, Test, TestAnswer, Tick, Verdict, all,
    answer_json, clusters, deployed, deployment, sentence, test,
};
use corehop_stats::costs::CostSource;
use serde_json::{Value, json};

use super::costs::CostArgs;
use crate::cmd::VerbOrMode;
use crate::output::{Force, OutputFile, Paint, TerminalLayout, either, note, stdout_layout};
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::input;

/// The verb and its modes.
pub(crate) type Args = VerbOrMode<Ask, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Go the whole way on this host: measure, ask, place the tasks, run them, and set the jobs beside their bounds.
    Deploy(deploy::Args),
    /// Draw random task sets, and count how many each scheduler can schedule as delays grow.
    Study(study::Args),
}

/// Test whether a task set meets its deadlines: under its own scheduler, or by one test, or by all.
///
/// Without --test the answer is that of the sharpest test for the scheduler of the set, with its priorities and on its
/// CPUs. A sufficient test that fails answers `unknown`. Only exact and necessary tests answer `false`.
/// Exit code 0: yes; 1: no or unknown. `--test all` is a survey: its exit code is 0, or answers for the scheduler
/// that is named.
#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    /// A task set: {"cpus": m, "tasks": [{"wcet_us", "period_us", "deadline_us"?, "priority"?,
    /// "wss_kib"?, "jitter_us"?, "blocking_us"?, "suspension_us"?, "locks"?, "bcet_us"?, "budget_us"?, "name"?, "cpus"?,
    /// "pieces"?, "shares"?}], "scheduler"?, "locking"?, "chains"?}, in microseconds with up to three decimals, or as text with a
    /// unit ("1.5 ms"). Tests that charge cache reloads also read "block_reload_ns" beside "cpus", and "ucb" and "ecb" of each
    /// task. - reads standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// One test instead of the tests for the scheduler, or all as a survey; `corehop help NAME` describes it
    #[arg(long, value_name = "NAME|all")]
    test: Option<String>,
    #[command(flatten)]
    charges: ChargeOptions,
    /// The machine: its caches define the clusters (`c-edf-l2`, `soft-c-edf-l3`, …) and the migrations within a
    /// cluster. A platform's name, or a file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    platform: Option<String>,
    /// Say how far the answer is from the other one. For a yes: what the response of the tightest task consists of, how much WCETs
    /// may grow, how large a delay may become, which task fits besides. For a no: which tasks are late, and which changes make
    /// it a yes. Without this option sets of up to 20 tasks are asked.
    #[arg(long)]
    slack: bool,
    /// Draw a schedule: the first miss that simulation finds for a no or unknown, or the busiest window of the tightest task for a
    /// yes, with releases, deadlines, the CPUs and what preemptions and migrations cost
    #[arg(long, value_name = "FILE.svg")]
    gantt: Option<PathBuf>,
    /// If the answer is yes, write the set with its scheduler, the verdict, and the assignment of each task: its CPUs, its
    /// pieces or its shares (none under a global scheduler); its priority, under fixed priorities; and `budget_us`, its
    /// WCET with all that was charged, under EDF. `corehop convert rt-app` converts the file.
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The scheduler, and what is charged.
#[derive(Debug, clap::Args)]
struct ChargeOptions {
    /// The scheduler: g-edf, c-edf, p-edf, g-fp or p-fp; eevdf and sched_ext have no analysis. Default: `scheduler` of the
    /// set, otherwise p-fp if tasks have priorities, and p-edf if not
    #[arg(long, value_name = "NAME")]
    scheduler: Option<Scheduler>,
    /// Charge each job the delay of one preemption or migration: e' = e + D_c. With costs, a job pays for the job
    /// that it preempts: the cost of the most expensive event under this scheduler, for the working set of the
    /// preempted job.
    #[arg(long, value_name = "D_c", conflicts_with = "costs")]
    delay: Option<Nanos>,
    #[command(flatten)]
    costs: CostArgs,
    /// Take the largest cost seen for a bound. Without this option a yes that rests on the largest of n samples is
    /// conditional, and the exit code is 1. (The default statistic is the highest quantile whose upper end the samples
    /// give for every task; without such a quantile, it is the largest cost.)
    #[arg(long, conflicts_with = "delay")]
    accept_largest: bool,
    /// Charge the overheads of the operating system by the number of tasks: a file of `measure overheads`, or
    /// SchedCAT's table (TASK-COUNT, SCHEDULE, CXS, TICK, RELEASE, RELEASE-LATENCY, IPI-LATENCY). Each job pays for the preemption that it causes,
    /// and for the interrupts of its own CPU or cluster. For fixed priorities (p-fp-rta, p-fp-ffd) interrupts
    /// become tasks. Preemption delays are charged as well.
    #[arg(long, value_name = "FILE")]
    overheads: Option<PathBuf>,
    /// The time between two ticks, for --overheads.
    #[arg(long, value_name = "TIME", requires = "overheads", default_value = "1ms")]
    quantum: Nanos,
    /// A dedicated CPU beyond those of the set handles all releases, for --overheads.
    #[arg(long, requires = "overheads")]
    dedicated: bool,
    /// The CPUs supply less than all of the time: a file of `measure supply`, or a budget in each period as JSON, such as
    /// {"cpus": "0-1", "period_us": 10000, "budget_us": 8000}, or a list of such. A test of one CPU, and one that chooses CPUs, is
    /// asked with the least supply of all CPUs; where the set gives each task a CPU, with that of the CPU. A yes names the share of
    /// windows that may lose more than was seen; if up to a tenth of them may, the answer is conditional, and the exit code 1.
    #[arg(long, value_name = "FILE")]
    supply: Option<PathBuf>,
    /// Leave aside on which CPUs the set puts its tasks (`cpus`, `pieces`, `shares`)
    #[arg(long)]
    ignore_cpus: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => ask(args),
        VerbOrMode::Mode(Mode::Deploy(args)) => deploy::run(args),
        VerbOrMode::Mode(Mode::Study(args)) => study::run(args),
    }
}

fn ask(args: &Ask) -> Result<Exit, Failure> {
    let charges = &args.charges;
    let [output, gantt] = output_files(args)?;
    let platform = args.platform.as_deref().map(input::platform).transpose()?;
    let set = input::task_set(&args.file)?;
    let set = if charges.ignore_cpus { set.unplaced() } else { set };
    let asked = SetQuestion::of(args, &set, platform.as_ref())?;
    let source = charges.source(&set)?;
    let delay = charges.delay(source.as_ref(), &set)?;
    let overheads = charges.overheads(&set)?;
    let supply = charges.supply(&set)?;
    let (platform, source) = (platform.as_ref(), source.as_ref());
    let of_a_set = |set: &TaskSet| charges.delay(source, set).ok();
    let (accept_largest, supply) = (charges.accept_largest, supply.as_ref());
    let asking = TestSettings { platform, delay: &of_a_set, overheads, supply, accept_largest };
    let mut charged = asking.charged(&set, delay);
    let (answered, question) = match asked {
        SetQuestion::Survey(tests, named) => {
            return surveyed(args, &set, &mut charged, &tests, named);
        }
        SetQuestion::Question(question, tests) => {
            (question.ask(&set, &tests, &mut charged).map_err(damaged)?, Some(question))
        }
        SetQuestion::One(test) => {
            refuse_undeployable(args, &set, test)?;
            let asked = with_bounds(&set, test, charged.ask(test).map_err(damaged)?);
            let sentence = sentence(&set, test.scheduler, test, &asked);
            (Answered { test, asked, sentence }, None)
        }
    };
    let scheduler = question.map(|question| question.scheduler);
    let limits = deployment::limits(&set, answered.test, scheduler, &answered.asked);
    if let Some(file) = &output {
        deploy(file, &set, &answered, scheduler)?;
    }
    let wishes = MarginRequest { slack: args.slack.then_some(true), schedule: gantt.is_some() };
    let margin = Margin::of(&set, &answered, question, &asking, wishes);
    if let Some(file) = &gantt {
        margin::draw(file, &set, &margin, &answered.sentence)?;
    }
    let json = args.json.then(|| whole(&set, (&answered, question), &limits, &margin));
    let text = || one(answered.test, &answered.asked, &set, (&limits, &margin));
    either(&answered.sentence, json.as_ref(), text)?;
    Ok(exit(answered.asked.answer.verdict))
}

impl ChargeOptions {
    /// The costs, if some are charged: those that are named; for a set with working sets those that this host kept.
    fn source(&self, set: &TaskSet) -> Result<Option<CostSource>, Failure> {
        if self.delay.is_some() {
            self.costs.choice.refuse_without_costs()?;
            return Ok(None);
        }
        let states = set.wss_kib().iter().any(Option::is_some);
        if !states && !self.costs.is_given() {
            self.costs.choice.refuse_without_costs()?;
            return self.refuse_largest(None);
        }
        let chosen = self.costs.chosen()?;
        if !self.costs.is_given() && chosen.source.is_some() {
            note(&chosen.origin);
        }
        self.refuse_largest(chosen.source)
    }

    /// Refuses to take the largest cost where there are no costs.
    fn refuse_largest(&self, source: Option<CostSource>) -> Result<Option<CostSource>, Failure> {
        let given = self.accept_largest && source.is_none();
        refuse("there are no costs to take the largest of", &[("--accept-largest", given)])?;
        Ok(source)
    }

    /// The charge to each job for delays.
    fn delay<'a>(
        &self,
        source: Option<&'a CostSource>,
        set: &TaskSet,
    ) -> Result<DelayCharge<'a>, Failure> {
        // Rounded up: a delay is never understated.
        if let Some(delay) = self.delay {
            return Ok(DelayCharge::Each(set.tick().up(delay)));
        }
        match source {
            Some(source) => {
                Ok(DelayCharge::Costs(source.for_a_verdict(&self.costs.selection())?.costs))
            }
            None if self.costs.is_given() => Ok(DelayCharge::Nothing),
            None => uncharged(set),
        }
    }

    /// The overheads of the operating system, if charged.
    fn overheads(&self, set: &TaskSet) -> Result<Option<SystemOverheads>, Failure> {
        let Some(path) = &self.overheads else { return Ok(None) };
        if self.quantum.get() < 1_000 {
            return Err(Failure::says(Exit::Usage, "--quantum: expected at least 1us"));
        }
        let named = |error| Failure::new(Exit::Damaged, error).context(shown::path(path));
        let table = OverheadTable::parse(&input::table(path)?).map_err(named)?;
        let known = table.of(set.tasks().len(), self.quantum).map_err(named)?;
        let known = if self.dedicated { known.dedicated_to(set) } else { known };
        let lacks = table.lacks();
        if !lacks.is_empty() {
            let lacks = lacks.join(", ");
            note(&format!("{}: nothing is charged for {lacks}: no such column", shown::path(path)));
        }
        Ok(Some(known))
    }

    /// The supply of the CPUs, if they do not supply all of the time.
    fn supply(&self, set: &TaskSet) -> Result<Option<InUnits>, Failure> {
        let Some(path) = &self.supply else { return Ok(None) };
        let supplies = input::supplies(path)?;
        let unknown = |error| Failure::new(Exit::Usage, error).context(shown::path(path));
        supplies.check(set).map_err(unknown)?;
        Ok(Some(InUnits::of(&supplies)))
    }
}

/// Refuses -o for a test that says nothing about where and how tasks run.
fn refuse_undeployable(args: &Ask, set: &TaskSet, test: &Test) -> Result<(), Failure> {
    if args.output.is_none() || test.deploys() || set.cpus() == 1 {
        return Ok(());
    }
    let what = format!(
        "-o: {} assigns no CPUs to tasks: use one that does, for example p-edf-ffd or sp-edf-c=d",
        test.name
    );
    Err(Failure::says(Exit::Usage, what))
}

fn damaged(error: TaskError) -> Failure {
    Failure::new(Exit::Damaged, error)
}

type Tests = Vec<&'static Test>;

/// The question to a set.
enum SetQuestion {
    /// Its own question, and the tests that can answer it.
    Question(SchedulabilityQuestion, Tests),
    /// One test.
    One(&'static Test),
    /// All tests, and the question if a scheduler is named.
    Survey(Tests, Option<(SchedulabilityQuestion, Tests)>),
}

impl SetQuestion {
    fn of(args: &Ask, set: &TaskSet, platform: Option<&Platform>) -> Result<Self, Failure> {
        let usage = |what: String| Err(Failure::says(Exit::Usage, what));
        let question = SchedulabilityQuestion::of(set, args.charges.scheduler);
        let tests = || {
            let tests = question.tests(set, platform);
            tests.map_err(|error| Failure::new(Exit::Usage, error))
        };
        match (args.test.as_deref(), args.charges.scheduler) {
            (None, _) => Ok(Self::Question(question, tests()?)),
            (Some("all"), _) if args.gantt.is_some() => usage(
                "--gantt: a survey has no schedule to draw: leave out --test all, or name one test".to_owned(),
            ),
            (Some("all"), _) if args.output.is_some() => usage(
                "-o: a survey has no answer to deploy: leave out --test all, or name a test that assigns CPUs, for \
                 example --test p-edf-ffd"
                    .to_owned(),
            ),
            (Some("all"), _) => {
                let named = (!question.assumed).then(tests).transpose()?;
                Ok(Self::Survey(requested("all", platform)?, named.map(|it| (question, it))))
            }
            (Some(name), Some(scheduler)) => usage(format!(
                "--test {name} asks about its own scheduler: leave out --scheduler {scheduler}"
            )),
            (Some(name), None) => Ok(Self::One(requested(name, platform)?[0])),
        }
    }
}

/// Yes is 0; no and unknown are 1.
fn exit(verdict: Verdict) -> Exit {
    if verdict.is_schedulable() { Exit::Done } else { Exit::No }
}

/// One answer as JSON, to the set's question or by the test that was named.
fn whole(
    set: &TaskSet,
    (answered, question): (&Answered, Option<SchedulabilityQuestion>),
    limits: &[String],
    margin: &Margin,
) -> Value {
    let mut value = question.map_or_else(
        || answer_json(answered.test, &answered.asked),
        |question| answered.json(question),
    );
    value["sentence"] = json!(answered.sentence);
    if !limits.is_empty() {
        value["deployment"] = json!(limits);
    }
    margin.put(set, &mut value);
    doubts::with(value)
}

/// Every test; the exit code is that of the scheduler that was named, if one was.
fn surveyed(
    args: &Ask,
    set: &TaskSet,
    charged: &mut ChargedSet<'_>,
    tests: &[&'static Test],
    named: Option<(SchedulabilityQuestion, Tests)>,
) -> Result<Exit, Failure> {
    let answered = named.map(|(question, tests)| question.ask(set, &tests, charged)).transpose();
    let answered = answered.map_err(damaged)?;
    let mut answers = Vec::new();
    for &test in tests {
        answers.push((test, charged.ask(test).map_err(damaged)?));
    }
    let of = |(test, asked): &(&Test, ChargedAnswer)| doubts::with(answer_json(test, asked));
    let json = args.json.then(|| answers.iter().map(of).collect::<Value>());
    let answers: Vec<_> = answers.into_iter().map(|(test, asked)| (test, asked.answer)).collect();
    let survey = survey(&answers);
    match &answered {
        Some(answered) => either(&answered.sentence, json.as_ref(), || {
            format!("{}\n{}", stdout_layout().wrap(&survey, 0), every(&answers))
        })?,
        None => either(&survey, json.as_ref(), || every(&answers))?,
    }
    Ok(answered.map_or(Exit::Done, |answered| exit(answered.asked.answer.verdict)))
}

/// The files for the set with its assignment, and for the picture of a schedule.
fn output_files(args: &Ask) -> Result<[Option<OutputFile>; 2], Failure> {
    let read = [
        args.charges.overheads.as_deref(),
        args.charges.costs.file(),
        args.charges.supply.as_deref(),
    ];
    let others = [Some(args.file.as_path())].into_iter().chain(read);
    let inputs: Vec<&Path> = others.flatten().collect();
    OutputFile::all_asked([args.output.as_ref(), args.gantt.as_ref()], &inputs, args.force)
}

/// Writes the set with its scheduler, its assignment and the verdict, if the answer is yes.
fn deploy(
    file: &OutputFile,
    set: &TaskSet,
    answered: &Answered,
    scheduler: Option<Scheduler>,
) -> Result<(), Failure> {
    let accepts = answered.asked.answer.verdict.is_schedulable();
    let placed = deployed(set, answered.test, scheduler, &answered.asked).map_err(damaged)?;
    let Some(placed) = placed.filter(|_| accepts) else {
        note(&format!("{} is not written: the answer is not yes", shown::path(file.path())));
        return Ok(());
    };
    let placed = placed.judged(&answered.sentence);
    file.write(format!("{:#}\n", set_file::write(&placed)))
}

/// The requested tests. The caches of a named machine define the clusters.
fn requested(name: &str, platform: Option<&Platform>) -> Result<Tests, Failure> {
    let usage = |what: String| Failure::says(Exit::Usage, what);
    if name == "all" {
        let sizes = platform.map(clusters::sizes);
        let there = |test: &&Test| match (test.suffers, &sizes) {
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
        usage(format!("{name}: clusters by cache need a machine: name it with --platform"))
    })?;
    let (size, _) = clusters::by_cache(platform, cache).map_err(usage)?;
    let name = format!("{soft}c-edf-{size}");
    Ok(vec![test(&name).map_err(|error| Failure::new(Exit::Usage, error))?])
}

/// Nothing is charged; but a set with working sets needs their costs.
fn uncharged(set: &TaskSet) -> Result<DelayCharge<'static>, Failure> {
    let Some(at) = set.wss_kib().iter().position(Option::is_some) else {
        return Ok(DelayCharge::Nothing);
    };
    let sentence = format!(
        "{}: wss_kib is given, and nothing says what a working set costs: give its delay with \
         --delay, a table of costs, a model or samples with --costs, or --delay 0us to charge none",
        called(set, at)
    );
    Err(Failure::says(Exit::Usage, sentence))
}

/// The CPUs of the cluster of a task; none where it has one CPU.
fn cpus_of(answer: &TestAnswer, task: usize) -> Option<CpuList> {
    match &answer.placement.as_ref()?[task] {
        TaskPlacement::Cpus(cpus) if cpus.len() > 1 => {
            Some(CpuList::new(cpus.iter().map(|&cpu| Cpu(cpu as u32))))
        }
        _ => None,
    }
}

/// The pieces or shares of a split task.
fn in_parts(place: &TaskPlacement, tick: Tick) -> Option<String> {
    let all = |parts: Vec<String>| Some(parts.join(", then "));
    match place {
        TaskPlacement::Cpus(_) => None,
        TaskPlacement::Pieces(pieces) => all(pieces
            .iter()
            .map(|piece| {
                let PlacedPiece { cpu, .. } = piece;
                let (budget, deadline) = (tick.us(piece.budget), tick.us(piece.deadline));
                format!("{budget} us on CPU {cpu} within {deadline} us")
            })
            .collect()),
        TaskPlacement::Shares(shares) => {
            let parts: Vec<String> =
                shares.iter().map(|it| format!("{:.3} of CPU {}", it.share, it.cpu)).collect();
            Some(parts.join(", "))
        }
    }
}

fn word(verdict: Verdict) -> (&'static str, Paint) {
    match verdict {
        Verdict::Schedulable => ("yes", Paint::Green),
        Verdict::Unschedulable => ("no", Paint::Red),
        Verdict::Unknown => ("unknown", Paint::Yellow),
    }
}

/// The head of a survey.
fn survey(answers: &[(&Test, TestAnswer)]) -> String {
    let accepted_by = answers.iter().filter(|(_, answer)| answer.verdict.is_schedulable()).count();
    format!(
        "survey: {accepted_by} of {} tests accept; each is about its own scheduler, and some about bounded tardiness only",
        answers.len()
    )
}

/// A line for each test that accepts; then the others, a line for each reason.
fn every(answers: &[(&Test, TestAnswer)]) -> String {
    let page = stdout_layout();
    let accepts = |answer: &TestAnswer| answer.verdict == Verdict::Schedulable;
    let names = answers.iter().filter(|(_, answer)| accepts(answer));
    let names = names.map(|(test, _)| test.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut others: Vec<(Verdict, &str, Vec<&str>)> = Vec::new();
    for (test, answer) in answers {
        if accepts(answer) {
            text.push_str(&accepted(&page, test, answer, names));
            continue;
        }
        let why = answer.why.as_deref().unwrap_or(match answer.verdict {
            Verdict::Unschedulable => "a deadline is missed, or tardiness is not bounded",
            _ => "sufficient or necessary, and it does not tell",
        });
        let same = others.iter_mut().find(|it| (it.0, it.1) == (answer.verdict, why));
        match same {
            Some(group) => group.2.push(test.name),
            None => others.push((answer.verdict, why, vec![test.name])),
        }
    }
    if text.is_empty() {
        text.push_str("no test accepts\n");
    }
    others.sort_by_key(|it| it.0 == Verdict::Unknown);
    for (verdict, why, tests) in others {
        let (verdict, paint) = word(verdict);
        let rest = page.wrap(&format!("{why}: {}", tests.join(", ")), 9);
        let verdict = page.paint(&format!("{verdict:<7}"), paint);
        text.extend([verdict.as_str(), "  ", &rest, "\n"]);
    }
    text
}

/// The line of a test that accepts; names are that long.
fn accepted(page: &TerminalLayout, test: &Test, answer: &TestAnswer, names: usize) -> String {
    let (verdict, paint) = word(answer.verdict);
    let verdict = page.paint(&format!("{verdict:<7}"), paint);
    let more = answer.accepted_by.map(|by| format!(" (by {by})")).unwrap_or_default();
    let rest = page.wrap(&format!("{}{more}", test.scheduler), names + 11);
    format!("{:<names$}  {verdict}  {rest}\n", test.name)
}

/// One test at length.
fn one(
    test: &Test,
    asked: &ChargedAnswer,
    set: &TaskSet,
    (limits, margin): (&[String], &Margin),
) -> String {
    let ChargedAnswer { answer, delays, .. } = asked;
    let page = stdout_layout();
    let (verdict, paint) = word(answer.verdict);
    let accepted = answer.verdict == Verdict::Schedulable;
    let by = asked.conditions().filter(|_| accepted).unwrap_or_default();
    let mut text = format!("{}: {}{by}\n", test.name, page.paint(verdict, paint));
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
    let us = |time| set.tick().us(time);
    let name = |at: usize| set.names()[at].clone().unwrap_or_else(|| format!("task {at}"));
    if let Some(order) = &answer.priorities {
        let order: Vec<_> = order.iter().map(|&at| name(at)).collect();
        say("priorities", &order.join(", "));
    }
    for (at, place) in answer.placement.iter().flatten().enumerate() {
        if let Some(how) = in_parts(place, set.tick()) {
            say("runs", &format!("{}: {how}", name(at)));
        }
    }
    let bins = answer.partition.iter().flatten();
    for (cpu, tasks) in bins.enumerate().filter(|(_, tasks)| !tasks.is_empty()) {
        let names: Vec<_> = tasks.iter().map(|&at| name(at)).collect();
        match cpus_of(answer, tasks[0]) {
            Some(cpus) => say("cluster", &format!("CPUs {cpus}: {}", names.join(", "))),
            None => say(&format!("CPU {cpu}"), &names.join(", ")),
        }
    }
    for (at, delay) in delays.iter().flatten().enumerate().filter(|(_, delay)| **delay > 0) {
        say("charged", &format!("{}: {} us", name(at), us(*delay)));
    }
    for (at, bound) in answer.bounds.iter().flatten().enumerate() {
        let (bound, deadline) = (us(*bound), us(set.tasks()[at].deadline()));
        say("responds", &format!("{}: within {bound} us, deadline {deadline} us", name(at)));
    }
    if let Some(supply) = &asked.supply {
        say("supply", &supply.line());
    }
    let chains = set.chains().into_iter().flat_map(|chains| &chains.all);
    for (chain, latency) in chains.zip(answer.latencies.iter().flatten()) {
        let (latency, deadline) = (us(*latency), us(chain.deadline));
        say("chain", &format!("`{}`: within {latency} us, deadline {deadline} us", chain.name));
    }
    for limit in limits {
        say("on Linux", limit);
    }
    for (head, line) in margin::lines(set, margin) {
        say(head, &line);
    }
    text.extend(margin::bars(set, margin, page.width));
    let mut say = |head: &str, what: &str| {
        text.extend(["  ", &format!("{head:<12}"), &page.wrap(what, 14), "\n"]);
    };
    for (at, assumption) in test.assumptions().into_iter().chain(asked.note.as_deref()).enumerate()
    {
        say(if at == 0 { "assuming" } else { "" }, &format!("{}. {assumption}", at + 1));
    }
    text
}
