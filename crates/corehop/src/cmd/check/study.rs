// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check study`

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use corehop_plan::shown;
use corehop_report::study::{page, picture};
use corehop_sched::study::cost::CostStudy;
use corehop_sched::study::{
    DelayCrossing, Preferable, PreferenceRange, Progress, SchedulabilityStudy, Shard, Sizes,
    StudyCounts, StudyCountsError, StudyReading, StudyRunError, run as carry_out,
};
use corehop_stats::costs::Selected;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cmd::VerbOrMode;
use crate::cmd::costs::CostArgs;
use crate::output::{Force, OutputFile, Paint, either, is_quiet, say, stdout_layout};
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

mod preemption;

/// The verb and its modes.
pub(crate) type Args = VerbOrMode<CountOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Add up shards written with -o.
    Merge(Merge),
}

/// The shards of a study.
#[derive(Debug, clap::Args)]
pub(crate) struct Merge {
    /// The counts of shards, or of one run.
    #[arg(required = true, value_name = "FILE.parquet")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    shown: StudyOutputOptions,
}

/// Draw random task sets, and count how many each scheduler can schedule as delays grow.
///
/// Prints weighted schedulability W(D_c) with 95 % intervals, and the delay up to which one scheduler is
/// preferable to another; with --costs also the working-set size. The seed and its index alone determine each
/// set, so shards run anywhere add up to the same bytes. A study with working sets compares finer charges for
/// preemptions, and shows what limited preemption saves.
#[derive(Debug, clap::Args)]
pub(crate) struct CountOptions {
    /// A study (*.toml, or its folder), or counts of an earlier run (*.parquet).
    #[arg(value_name = "FILE|FOLDER")]
    what: PathBuf,
    /// Run one shard: the sets whose index leaves the remainder K when divided by N.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// Sets per cap; default: the study's number.
    #[arg(long, value_name = "N")]
    sets: Option<u64>,
    /// The seed of all random draws; default: the study's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The number of threads; default: one per CPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    #[command(flatten)]
    shown: StudyOutputOptions,
}

/// The forms of the counts.
#[derive(Debug, clap::Args)]
struct StudyOutputOptions {
    /// Write the counts to this file.
    #[arg(short, long, value_name = "FILE.parquet")]
    output: Option<PathBuf>,
    #[command(flatten)]
    costs: CostArgs,
    /// Write a page: one self-contained HTML file.
    #[arg(long, value_name = "FILE.html")]
    page: Option<PathBuf>,
    /// Draw the curves of the reading closest to the paper, or of the first one.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => args.run(),
        VerbOrMode::Mode(Mode::Merge(args)) => args.run(),
    }
}

impl Merge {
    fn run(&self) -> Result<Exit, Failure> {
        let inputs: Vec<&Path> = self.files.iter().map(PathBuf::as_path).collect();
        let files = self.shown.files(&inputs)?;
        let parts = self.files.iter().map(|path| input::study_counts(path));
        let merged = StudyCounts::merged(parts.collect::<Result<Vec<_>, _>>()?);
        let merged = merged.map_err(|error: StudyCountsError| Failure::new(Exit::Usage, error))?;
        self.shown.answer(&merged, files)
    }
}

impl CountOptions {
    fn run(&self) -> Result<Exit, Failure> {
        if let Some(study) = of_costs(&self.what)? {
            return preemption::run(self, study);
        }
        let files = self.shown.files(&[&self.what])?;
        self.shown.answer(&self.outcome()?, files)
    }

    /// The counts: read, or computed now.
    fn outcome(&self) -> Result<StudyCounts, Failure> {
        let what = &self.what;
        if what.extension().is_some_and(|extension| extension == "parquet") {
            if self.sets.is_some()
                || self.seed.is_some()
                || self.shard.is_some()
                || self.threads.is_some()
            {
                let why = format!(
                    "{}: this file has the counts already; --sets, --seed, --shard and --threads apply to a study",
                    shown::path(what)
                );
                return Err(Failure::says(Exit::Usage, why));
            }
            return input::study_counts(what);
        }
        let study = described(what)?
            .with(self.seed, self.sets)
            .map_err(|error| Failure::new(Exit::Usage, error))?;
        let shard = self.shard.unwrap_or(Shard::WHOLE);
        let bar = Bar::new(shard.sets(study.sets));
        let outcome = carry_out(&study, shard, self.threads.map(|threads| threads as usize), &bar);
        bar.0.finish_and_clear();
        outcome.map_err(|error| {
            let exit = match error {
                StudyRunError::Interrupted => Exit::Interrupted,
                StudyRunError::NoSet(_) => Exit::Damaged,
                StudyRunError::Threads(_) => Exit::Failed,
            };
            Failure::new(exit, error)
        })
    }
}

impl StudyOutputOptions {
    /// The files to write: the counts, the page and the picture.
    fn files(&self, inputs: &[&Path]) -> Result<[Option<OutputFile>; 3], Failure> {
        let paths = [self.output.as_ref(), self.page.as_ref(), self.picture.as_ref()];
        OutputFile::all_asked(paths, inputs, self.force)
    }

    /// Writes the files, and prints the counts.
    fn answer(
        &self,
        outcome: &StudyCounts,
        [output, page_file, picture_file]: [Option<OutputFile>; 3],
    ) -> Result<Exit, Failure> {
        for warning in outcome.study.warnings() {
            say(&format!("corehop: {warning}\n"));
        }
        if let Some(file) = output {
            file.fill(|out| outcome.write(out))?;
        }
        let page = page_file.map(|file| (file, page(outcome)));
        let drawn = picture_file.zip(picture(outcome));
        for (file, text) in page.into_iter().chain(drawn) {
            file.write(text)?;
        }
        let source = self.costs.chosen()?.source;
        let costs = source.as_ref().map(|source| source.selections(&self.costs.selection()));
        let costs = costs.transpose()?.unwrap_or_default();
        let all = || if source.is_some() { outcome.json_by_size(&costs) } else { outcome.json() };
        let json = self.json.then(|| doubts::with(all()));
        either(&sentence(outcome), json.as_ref(), || text(outcome, &costs))?;
        Ok(Exit::Done)
    }
}

/// The study in a file, or in the `study.toml` of a folder.
fn described(path: &Path) -> Result<SchedulabilityStudy, Failure> {
    let (named, text) = description(path)?;
    SchedulabilityStudy::parse(&text)
        .map_err(|error| Failure::new(Exit::Damaged, error).context(named))
}

/// The same for a study of costs.
fn of_costs(path: &Path) -> Result<Option<CostStudy>, Failure> {
    if path.extension().is_some_and(|extension| extension == "parquet") {
        return Ok(None);
    }
    let (named, text) = description(path)?;
    if !CostStudy::is_described(&text) {
        return Ok(None);
    }
    let study = CostStudy::parse(&text);
    study.map(Some).map_err(|error| Failure::new(Exit::Damaged, error).context(named))
}

/// The text of a file, or of the `study.toml` of a folder, and its name.
fn description(path: &Path) -> Result<(String, String), Failure> {
    let inside = path.join("study.toml");
    let file = if path.is_dir() { inside.as_path() } else { path };
    let named = shown::path(file);
    Ok((named, input::text(file)?))
}

/// The progress of a study, on stderr if that is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new(sets: u64) -> Self {
        if is_quiet() || !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(sets);
        // The template is a constant; where it could not be parsed the default would be shown.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} sets, {eta} left") {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Progress for Bar {
    fn advance(&self, sets: u64) -> bool {
        self.0.inc(sets);
        true
    }
}

/// Up to which delay one scheduler is preferable to another: the first such finding, or the number of sets.
pub(crate) fn sentence(outcome: &StudyCounts) -> String {
    let counted = format!("{} task sets a cap, seed {}", outcome.sets(), outcome.study.seed);
    let first = outcome.study.readings.iter().enumerate().find_map(|(at, reading)| {
        let line = crossings(outcome, at).lines().next()?.trim().to_owned();
        Some(format!("{line} ({}, {counted}).", reading.name))
    });
    let count = outcome.study.readings.len();
    let s = if count == 1 { "" } else { "s" };
    first.unwrap_or_else(|| format!("{counted}, were tested in {count} reading{s}."))
}

/// A table of each reading, and up to which delay a scheduler is preferable.
pub(crate) fn text(outcome: &StudyCounts, costs: &[Selected<'_>]) -> String {
    let terminal = stdout_layout();
    let study = &outcome.study;
    let mut text = format!("{}\n", terminal.wrap(&study.title, 0));
    let part = if outcome.is_whole() {
        String::new()
    } else {
        format!(", a part of {} (shards {})", study.sets, outcome.shards)
    };
    let _ = writeln!(text, "{} sets per cap, seed {}{part}\n", outcome.sets(), study.seed);
    let held = study.held.as_ref();
    for (at, reading) in study.readings.iter().enumerate() {
        let mark =
            if held.is_some_and(|held| held.reading == reading.name) { " (held)" } else { "" };
        let _ =
            writeln!(text, "{}", terminal.paint(&format!("{}{mark}", reading.name), Paint::Bold));
        text.push_str(&weights(outcome, at, reading));
        text.push_str(&crossings(outcome, at));
        for Selected { load, statistic, costs } in costs {
            for sizes in outcome.sizes(at, costs.as_ref()) {
                text.push_str(&by_size(&sizes, load, statistic));
            }
        }
        text.push('\n');
    }
    if let Some(held) = held {
        let why = terminal
            .wrap(&format!("Reading closest to the paper: {}. {}", held.reading, held.why), 0);
        let _ = writeln!(text, "{why}");
    }
    text
}

/// W by delay, a column for each scheduler.
fn weights(outcome: &StudyCounts, at: usize, reading: &StudyReading) -> String {
    let width = reading.schedulers.iter().map(|it| it.name.len()).max().unwrap_or(0).max(14);
    let mut text = format!("  {:>8}", "D_c, us");
    for scheduler in &reading.schedulers {
        let _ = write!(text, "  {:>width$}", scheduler.name);
    }
    text.push('\n');
    for (d, delay) in reading.delays.iter().enumerate() {
        let _ = write!(text, "  {delay:>8}");
        for s in 0..reading.schedulers.len() {
            let Some(w) = outcome.weighted(at, s, d) else { continue };
            let reach = f64::midpoint(w.high - w.value, w.value - w.low);
            let _ = write!(text, "  {:>width$}", format!("{:.4} ±{reach:.4}", w.value));
        }
        text.push('\n');
    }
    text
}

fn crossings(outcome: &StudyCounts, at: usize) -> String {
    let line = |crossing: DelayCrossing| {
        let what = match crossing.preferable {
            Preferable::Below { crossover_us, interval_us: [low, high] } => {
                format!("below {crossover_us:.0} us ({low:.0} to {high:.0})")
            }
            Preferable::Throughout => "at every delay here".to_owned(),
            Preferable::Never => "at none".to_owned(),
        };
        let DelayCrossing { of, against, at_us, .. } = crossing;
        format!("  {of} is preferable to {against} with {at_us} us: {what}\n")
    };
    outcome.crossings(at).into_iter().map(line).collect()
}

fn by_size(sizes: &Sizes, load: &str, statistic: &str) -> String {
    let word = |reach: PreferenceRange| match reach {
        PreferenceRange::Below { wss_kib } => format!("below {wss_kib:.0} KiB"),
        PreferenceRange::Throughout { up_to_kib } => {
            format!("at all known sizes, to {up_to_kib:.0} KiB")
        }
        PreferenceRange::Never => "at none".to_owned(),
        PreferenceRange::Unknown => "unknown".to_owned(),
    };
    let within = |reach: PreferenceRange, ends: [PreferenceRange; 2]| {
        let ends = if ends == [reach; 2] {
            String::new()
        } else {
            format!(" (95 %: {} to {})", word(ends[0]), word(ends[1]))
        };
        format!("{}{ends}", word(reach))
    };
    let (of, against) = (&sizes.of, &sizes.against);
    let fixed = within(sizes.fixed, sizes.fixed_interval);
    let own = within(sizes.each_its_own, sizes.each_its_own_interval);
    format!(
        "    load {load}, {statistic}: {of} is preferable to {against} with that delay {fixed}; \
         with delays of its own {own}\n"
    )
}
