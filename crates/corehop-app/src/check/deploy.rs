// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deploys a task set on this host: from the set to running threads, whose responses are compared with their bounds.
//!
//! Each step is a separate command, which is printed and can be repeated by hand. If the file of a step already
//! exists, the step is skipped, so an interrupted deployment continues where it ended.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corehop_decide::kept::{Bound, BoundCheck, Exceeding, KeptTask};
use corehop_plan::samples::TaskJob;
use corehop_plan::shown;
use corehop_plan::units::Nanos;
use corehop_report::figure::FigureTable;
use corehop_report::table::{micros, plain};
use corehop_sched::sentence::called;
use corehop_sched::{SchedulabilityQuestion, TaskSet, Tick};
use corehop_system::supervisor::interrupt::pass_on_the_end;
use serde_json::{Value, json};

use super::ChargeRequest;
use crate::answer::Answer;
use crate::failure::{Exit, Failure};
use crate::file::folder as make_folder;
use crate::input;
use crate::layout::{Paint, TerminalLayout};
use crate::run::LIVE_SHARE;
use crate::task_files;
use crate::voice::note;
use crate::words::counted;

/// The background load under which costs are measured, unless the request names one: the set also runs beside
/// programs that pollute the caches.
const LOAD_OF_COSTS: &str = "constructed";

/// The number of jobs above their bounds that are listed.
const LISTED: usize = 20;

/// A request to deploy the set in a file.
#[derive(Debug, Clone)]
pub struct DeploymentRequest {
    /// The file of the set.
    pub file: PathBuf,
    /// The folder for the files of all steps.
    pub folder: PathBuf,
    /// The charges; charges without a named file are measured.
    pub charges: ChargeRequest,
    /// For how long the tasks run under each load.
    pub duration: Nanos,
    /// Whether the run may switch off the machine's load balancing.
    pub allow_system: bool,
    /// Whether to repeat measurements whose files exist.
    pub force: bool,
    /// The program that executes the steps.
    pub program: PathBuf,
    /// Whether the steps print no progress.
    pub quiet: bool,
    /// The layout of the text.
    pub layout: TerminalLayout,
}

/// The words of a command.
type ArgumentVector = Vec<OsString>;

/// The steps that fill the folder of a deployment.
struct DeploymentSteps<'a>(&'a DeploymentRequest);

/// Measures the overheads and costs that are missing, analyses the set, places its tasks, runs the tasks, and compares
/// their responses with the bounds.
///
/// # Errors
/// Fails with exit code 2 for an invalid request, with exit code 3 for a set that this host cannot run, and with the
/// errors of the steps.
pub fn deploy(request: &DeploymentRequest) -> Result<Answer, Failure> {
    let folder = request.folder.as_path();
    if request.file == Path::new("-") {
        let what = "several steps read the task set, but standard input can be read only once: name a file instead of -";
        return Err(Failure::says(Exit::Usage, what));
    }
    let set = task_files::task_set(&request.file)?;
    let steps = DeploymentSteps(request);
    make_folder(folder)
        .map_err(|error| Failure::says(Exit::Usage, format!("--folder: {}", error.sentence())))?;
    let verdict = steps.verdict(&set)?;
    let sentence = verdict["sentence"].as_str().unwrap_or_default().to_owned();
    if verdict["schedulable"] != json!(true) {
        let text = "nothing ran, because the answer is not yes\n".to_owned();
        return Ok(Answer { sentence, json: verdict, text, exit: Exit::No });
    }
    let placed = task_files::task_set(&folder.join("placed.json"))?;
    fits(&placed, folder)?;
    let jobs = steps.jobs()?;
    let kept = BoundCheck::of(&bounds(&placed, &verdict)?, &jobs);
    let text = format!("{sentence}\n\n{}", table(&placed, &kept, request.layout));
    let exit = if kept.jobs() > 0 && kept.exceeding.is_empty() { Exit::Done } else { Exit::No };
    let sentence = ran(&kept);
    let json = json!({ "sentence": sentence, "verdict": verdict, "run": kept });
    Ok(Answer { sentence, json, text, exit })
}

impl DeploymentSteps<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.0.folder.join(name)
    }

    /// The verdict with the costs of this host; costs that are not given are measured.
    fn verdict(&self, set: &TaskSet) -> Result<Value, Failure> {
        let mut words: ArgumentVector = vec!["check".into(), self.0.file.clone().into()];
        let supply = match &self.0.charges.supply {
            Some(file) => file.clone(),
            None => self.measured("supply.parquet", &["measure", "supply"])?,
        };
        let overheads = match &self.0.charges.overheads {
            Some(file) => file.clone(),
            None => self.overheads(set)?,
        };
        words.extend(["--supply".into(), supply.into(), "--overheads".into(), overheads.into()]);
        if let Some(delay) = self.0.charges.delay {
            words.extend(["--delay".into(), delay.to_string().into()]);
        } else if let Some(costs) = self.costs(set)? {
            words.extend(["--costs".into(), costs.into()]);
            words.extend(self.0.charges.costs.words());
            if self.measures_costs() && self.0.charges.costs.load().is_none() {
                words.extend(["--load".into(), LOAD_OF_COSTS.into()]);
            }
        }
        if let Some(scheduler) = self.0.charges.scheduler {
            words.extend(["--scheduler".into(), scheduler.to_string().into()]);
        }
        for (given, option) in [
            (self.0.charges.accept_largest, "--accept-largest"),
            (self.0.charges.ignore_cpus, "--ignore-cpus"),
            (self.0.charges.dedicated, "--dedicated"),
        ] {
            words.extend(given.then(|| option.into()));
        }
        words.extend(["--quantum".into(), self.0.charges.quantum.to_string().into()]);
        words.extend(["-o".into(), self.file("placed.json").into(), "--force".into()]);
        words.push("--json".into());
        let output = self.step(&words, &[Exit::Done, Exit::No])?;
        serde_json::from_slice(&output)
            .map_err(|error| Failure::new(Exit::Failed, error).context(line_of(&words)))
    }

    /// The overheads for as many threads as the set has tasks, under its scheduler.
    fn overheads(&self, set: &TaskSet) -> Result<PathBuf, Failure> {
        let scheduler =
            SchedulabilityQuestion::of(set, self.0.charges.scheduler).scheduler.to_string();
        let count = set.tasks().len().to_string();
        let words = ["measure", "overheads", "--scheduler", &scheduler, "--tasks", &count];
        let system = self.0.allow_system.then_some("--allow-system");
        let words: Vec<&str> = words.into_iter().chain(system).collect();
        // Another scheduler, or another number of threads, has other overheads.
        self.measured(&format!("overheads-{scheduler}-{count}.csv"), &words)
    }

    /// The costs of preemptions for the set's working sets, if it states any.
    fn costs(&self, set: &TaskSet) -> Result<Option<PathBuf>, Failure> {
        if let Some(file) = self.0.charges.costs.file() {
            return Ok(Some(file.to_owned()));
        }
        if self.0.charges.costs.is_given() {
            return Ok(Some("none".into()));
        }
        let mut sizes: Vec<u64> = set.wss_kib().iter().flatten().copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        if sizes.is_empty() {
            return Ok(None);
        }
        let sizes: Vec<String> = sizes.iter().map(|kib| format!("{kib}KiB")).collect();
        let sizes = sizes.join(",");
        let load = self.0.charges.costs.load().unwrap_or(LOAD_OF_COSTS);
        let words =
            ["measure", "synthetic", "--wss", &sizes, "--event", "preemption", "--load", load];
        self.measured("costs.parquet", &words).map(Some)
    }

    /// Whether no option names costs, so that a step measures them.
    fn measures_costs(&self) -> bool {
        !self.0.charges.costs.is_given()
    }

    /// The file that a step writes.
    fn measured(&self, name: &str, words: &[&str]) -> Result<PathBuf, Failure> {
        let file = self.file(name);
        if file.exists() && !self.0.force {
            note(&format!("{} is reused; --force measures again", shown::path(&file)));
            return Ok(file);
        }
        let mut words: ArgumentVector = words.iter().map(OsString::from).collect();
        words.extend(["-o".into(), file.clone().into(), "--force".into()]);
        self.step(&words, &[Exit::Done])?;
        Ok(file)
    }

    /// Runs corehop again with these words, waits for its end, and returns its output.
    fn step(&self, words: &[OsString], expected: &[Exit]) -> Result<Vec<u8>, Failure> {
        let line = line_of(words);
        note(&line);
        let failed = |error| Failure::new(Exit::Failed, error).context(line.clone());
        let mut command = Command::new(&self.0.program);
        command
            .args(words)
            .args(self.0.quiet.then_some("--quiet"))
            .stdin(Stdio::null())
            .stderr(Stdio::inherit());
        let ran = pass_on_the_end(&mut command).output().map_err(failed)?;
        let code = ran.status.code();
        let is = |exit: &Exit| code == Some(i32::from(exit.code()));
        if expected.iter().any(is) {
            return Ok(ran.stdout);
        }
        let exits = [Exit::Usage, Exit::NotPossible, Exit::Damaged, Exit::Interrupted];
        let exit = exits.into_iter().find(is).unwrap_or(Exit::Failed);
        let ended =
            code.map_or_else(|| "by a signal".to_owned(), |it| format!("with exit code {it}"));
        Err(Failure::says(exit, format!("`{line}` ended {ended}; no later step ran")))
    }

    /// Runs the placed set, and returns its jobs.
    fn jobs(&self) -> Result<Vec<TaskJob>, Failure> {
        let words = ["measure", "schedule-sensitive", "--task-set"];
        let mut words: ArgumentVector = words.iter().map(OsString::from).collect();
        words.extend([self.file("placed.json").into(), "--duration".into()]);
        words.extend([self.0.duration.to_string().into(), "-o".into()]);
        words.extend([self.file("run.parquet").into(), "--force".into()]);
        words.extend(self.0.allow_system.then(|| "--allow-system".into()));
        self.step(&words, &[Exit::Done])?;
        let mut reader = input::open(&self.file("run.jobs.parquet"))?;
        let mut jobs = Vec::new();
        while let Some(rows) = reader.next_rows::<TaskJob>()? {
            jobs.extend(rows);
        }
        Ok(jobs)
    }
}

/// The command line of a step as text.
fn line_of(words: &[OsString]) -> String {
    let shown = |word: &OsString| match shown::path(Path::new(word)).clone() {
        word if word.contains(' ') => format!("'{word}'"),
        word => word,
    };
    let words: Vec<String> = words.iter().map(shown).collect();
    format!("corehop {}", words.join(" "))
}

/// Rejects a set that uses more of a CPU than real-time threads may use on this host.
fn fits(placed: &TaskSet, folder: &Path) -> Result<(), Failure> {
    let uses = |cpu: usize| -> f64 {
        let own = (0..placed.tasks().len()).filter(|&at| placed.cpus_of(at).contains(&cpu));
        own.map(|at| {
            let task = &placed.tasks()[at];
            let count = placed.cpus_of(at).len() as f64;
            task.wcet().as_f64() / task.period().as_f64() / count
        })
        .sum()
    };
    let all = 0..placed.cpus() as usize;
    let Some((cpu, used)) = all.map(|cpu| (cpu, uses(cpu))).find(|it| it.1 > LIVE_SHARE + 1e-9)
    else {
        return Ok(());
    };
    let file = folder.join("placed.json");
    let what = format!(
        "corehop does not run the set: its threads would use {:.0} % of CPU {cpu}, but real-time threads may use at most half of a CPU; {} has the set with its assignment, and `corehop convert rt-app {}` converts the set to a workload of threads",
        100.0 * used,
        shown::path(&file),
        shown::path(&file)
    );
    Err(Failure::says(Exit::NotPossible, what))
}

/// The bound of each task, from the answer.
fn bounds(placed: &TaskSet, answer: &Value) -> Result<Vec<Bound>, Failure> {
    let all = answer["bounds_us"].as_array();
    let Some(all) = all.filter(|it| it.len() == placed.tasks().len()) else {
        let what = "the verdict has no bounds on response times to compare jobs with: use a test with bounds, for example --scheduler p-fp";
        return Err(Failure::says(Exit::Usage, what));
    };
    let of = |(at, bound): (usize, &Value)| Bound {
        response_ns: (bound.as_f64().unwrap_or_default() * 1e3).round() as u64,
        wcet_ns: placed.tick().nanos(placed.tasks()[at].wcet()).get(),
        cpu: placed.cpus_of(at).first().copied().unwrap_or_default(),
    };
    Ok(all.iter().enumerate().map(of).collect())
}

/// Returns a sentence that says whether any job took longer than its bound.
fn ran(kept: &BoundCheck) -> String {
    let (jobs, above) = (counted(kept.jobs(), "job"), kept.exceeding.len());
    let least = kept.tasks.iter().filter_map(|it| it.ratio).reduce(f64::min);
    let closest = least.map(|it| format!("; no job took more than 1/{it:.2} of its bound"));
    match above {
        0 if kept.jobs() == 0 => "no: no job finished, so no bound was tested".to_owned(),
        0 => format!(
            "yes: the set is schedulable, and none of {jobs} took longer than its bound{}",
            closest.unwrap_or_default()
        ),
        _ => format!("no: {above} of {jobs} took longer than their bounds"),
    }
}

/// The bounds beside the longest responses, and the jobs above their bounds.
fn table(placed: &TaskSet, kept: &BoundCheck, page: TerminalLayout) -> String {
    let tick: Tick = placed.tick();
    let mut table = FigureTable::new(
        "Bounds and the longest observed responses, in us".to_owned(),
        &["task", "CPU", "deadline", "bound", "longest", "bound/longest", "jobs", "above"],
    );
    let row = |(at, it): (usize, &KeptTask)| {
        let cpus: Vec<String> = placed.cpus_of(at).iter().map(ToString::to_string).collect();
        let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), micros);
        vec![
            called(placed, at).trim_matches('`').to_owned(),
            cpus.join(","),
            tick.us(placed.tasks()[at].deadline()),
            micros(it.bound_us),
            or_none(it.longest_us),
            or_none(it.ratio),
            it.jobs.to_string(),
            it.above.to_string(),
        ]
    };
    table.rows = kept.tasks.iter().enumerate().map(row).collect();
    let mut text = plain(&table);
    for job in kept.exceeding.iter().take(LISTED) {
        text.push_str(&page.paint(&page.wrap(&line(placed, job), 2), Paint::Red));
        text.push('\n');
    }
    if kept.exceeding.len() > LISTED {
        let more = kept.exceeding.len() - LISTED;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "and {more} more (--json has all)");
    }
    text
}

/// A line about a job above its bound, with the cause.
fn line(placed: &TaskSet, job: &Exceeding) -> String {
    let span = |us: f64| Tick::Nano.span(Tick::Nano.up(Nanos::new((us * 1e3).round() as u64)));
    format!(
        "job {} of {} ({}) took {}, {} beyond its bound; for {} {}",
        job.job,
        called(placed, job.task),
        job.load,
        span(job.response_us),
        span(job.beyond_us),
        span(job.cause_us),
        job.cause.clause()
    )
}
