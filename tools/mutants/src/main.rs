// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how well the tests of a workspace catch small faults.
//!
//! A *mutant* is the program with one small fault: another operator, condition or number, or a statement left out. This
//! tool draws a seeded sample of mutants, compiles all of them at once, runs the tests that reach each mutant, and prints
//! the mutants that no test caught. See the README of this folder.

mod compile;
mod copy;
mod draw;
mod modules;
mod plant;
mod process;
mod report;
mod results;
mod rewrite;
mod sites;
mod suite;
mod trial;
mod workspace;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Parser;

use copy::SourceTree;
use draw::MutantCandidate;
use modules::{Enabled, SourceText};
use plant::{Planted, Sample};
use report::ShownMutant;
use results::{MutantResults, MutantText};
use trial::{Court, MutantFate};
use workspace::Workspace;

/// Draw mutants of the workspace, run the tests that reach each, and print the survivors
#[derive(Debug, Parser)]
struct MutantOptions {
    /// Number of mutants
    #[arg(short = 'n', long, default_value_t = 200)]
    number: usize,
    /// Seed of the draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only mutants of files whose path in the workspace begins so
    #[arg(long, value_name = "PATH_PREFIX", default_value = "")]
    only: String,
    /// Ask only the tests of the packages that have mutants, and not those of packages that depend on them
    #[arg(long)]
    own_tests: bool,
    /// Judge only this mutant of the sample, also where its result is known
    #[arg(long, value_name = "NUMBER")]
    mutant: Option<u32>,
    /// Seconds that tests may take in any case (three times their usual time comes on top)
    #[arg(long, default_value_t = 10.0)]
    patience: f64,
    /// Tests that run at once to see what they reach: more than 1 only where no tests exclude each other by a lock in their
    /// process, or by their program
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    at_once: usize,
    /// A folder of the workspace
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    root: PathBuf,
    /// The results, lines of JSON to which new ones are appended [default: out/mutants.jsonl of the workspace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Mutants that change nothing [default: tools/mutants/equivalent.txt of the workspace]
    #[arg(long, value_name = "FILE")]
    equivalent: Option<PathBuf>,
}

/// All that is fixed before the first build.
struct MutantRun<'a> {
    wanted: &'a MutantOptions,
    workspace: &'a Workspace,
    tree: &'a SourceTree,
    sample: Sample<'a>,
    /// The folder for the copy of the tree, its build, and what is known about both.
    folder: PathBuf,
    /// The name of the state of the tree.
    state: String,
}

fn main() -> ExitCode {
    process::be_responsible();
    let result = measure(&MutantOptions::parse());
    process::sweep();
    match result {
        Ok(text) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(if process::is_interrupted() { 130 } else { 1 })
        }
    }
}

/// Prints a line.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn measure(wanted: &MutantOptions) -> Result<String> {
    let workspace = Workspace::load(&wanted.root)?;
    let tree = SourceTree::read(&workspace.root)?;
    let sources = sources(&workspace)?;
    let candidates = candidates(&workspace, &sources, &wanted.only);
    ensure!(!candidates.is_empty(), "no file of tested code begins with {:?}", wanted.only);
    let files: BTreeSet<usize> = candidates.iter().map(|candidate| candidate.source).collect();
    say(&format!("{} mutants can be drawn from {} files", candidates.len(), files.len()));
    let order = draw::order(&candidates, wanted.seed);
    let run = MutantRun {
        wanted,
        workspace: &workspace,
        tree: &tree,
        sample: Sample { sources: &sources, candidates: &candidates, order: &order },
        folder: workspace.root.join("target/mutants"),
        // A change of the list of equivalent mutants, or of this tool, leaves results as they are.
        state: format!("{:016x}", tree.identity(Path::new("tools/mutants"))),
    };
    let _lock = lock(&run.folder)?;
    let planted = plant::plant(&run)?;
    judge_all(&run, &planted)
}

/// Locks the copy of the tree until the end of the run.
fn lock(folder: &Path) -> Result<fs::File> {
    let path = folder.join("lock");
    let open = || {
        fs::create_dir_all(folder)?;
        fs::File::options().write(true).create(true).truncate(false).open(&path)
    };
    let file = open().with_context(|| format!("{} cannot be made", path.display()))?;
    file.try_lock().with_context(|| format!("{} is in use by another run", folder.display()))?;
    Ok(file)
}

/// The production sources of all members, in an order that does not depend on the machine.
fn sources(workspace: &Workspace) -> Result<Vec<SourceText>> {
    let host = Enabled::of_host()?;
    let mut all = Vec::new();
    for member in &workspace.members {
        all.append(&mut modules::of_member(&workspace.root, member, &host)?);
    }
    Ok(all)
}

fn candidates(workspace: &Workspace, sources: &[SourceText], only: &str) -> Vec<MutantCandidate> {
    let mut found = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let path = source.path.to_string_lossy();
        if !path.starts_with(only) {
            continue;
        }
        let member = workspace.members.iter().find(|member| member.name == source.package);
        let folder = member.map_or(Path::new(""), |member| &member.folder);
        let area = draw::area(&source.package, folder, &source.path);
        for mutation in sites::find(source) {
            let range = &mutation.range;
            let after = mutation.mutated(&source.text, range);
            let identity = format!("{path} {} {} {after}", range.start, range.end);
            found.push(MutantCandidate { source: at, area: area.clone(), identity, mutation });
        }
    }
    found
}

/// Judges the mutants of the sample and returns the report.
fn judge_all(run: &MutantRun<'_>, planted: &Planted) -> Result<String> {
    let MutantRun { wanted, workspace, sample, .. } = run;
    let reaches = plant::reaches(run, planted)?;
    let patience = Duration::from_secs_f64(wanted.patience);
    let court = Court { programs: &planted.programs, reaches: &reaches, patience };
    let broken = plant::broken(&reaches);
    if !broken.is_empty() {
        say(&format!(
            "{} tests that reach mutants fail without one, and are not asked:",
            broken.len()
        ));
        say(&format!("    {}", broken.join("\n    ")));
    }
    let path = wanted.output.clone().unwrap_or_else(|| workspace.root.join("out/mutants.jsonl"));
    let tests = if wanted.own_tests { "own" } else { "all" };
    let mut results = MutantResults::open(&path, &run.state, tests)?;
    let equivalents = equivalents(wanted, workspace)?;
    let described: Vec<(u32, MutantText)> = planted
        .numbers
        .iter()
        .take(wanted.number)
        .map(|&number| (number, sample.describe(number)))
        .collect();
    let (left_out, asked): (Vec<_>, Vec<_>) = described
        .iter()
        .filter(|(number, _)| wanted.mutant.is_none_or(|only| only == *number))
        .partition(|(_, mutant)| equivalents.iter().any(|equivalent| equivalent.is(mutant)));
    ensure!(left_out.len() + asked.len() > 0, "the sample has no mutant {:?}", wanted.mutant);
    for (at, (number, mutant)) in asked.iter().enumerate() {
        if wanted.mutant.is_some() || results.of(mutant).is_none() {
            let start = Instant::now();
            let fate = court.judge(*number)?;
            process::sweep();
            // A test may leave files, for instance the inputs for which a mutant failed.
            planted.restore(run)?;
            let seconds = start.elapsed().as_secs_f64();
            say(&progress(at + 1, asked.len(), mutant, &fate, seconds));
            results.add(mutant, fate, seconds)?;
        }
    }
    let shown: Vec<_> = asked
        .iter()
        .filter_map(|(number, mutant)| {
            results.of(mutant).map(|fate| ShownMutant { number: *number, mutant, fate })
        })
        .collect();
    if wanted.mutant.is_some() && left_out.is_empty() {
        return Ok(report::survivor(&shown[0]));
    }
    Ok(format!("\n{}", report::text(&shown, left_out.len())))
}

fn progress(at: usize, of: usize, mutant: &MutantText, fate: &MutantFate, seconds: f64) -> String {
    let word = match fate {
        MutantFate::Caught { .. } => "caught",
        MutantFate::TimedOut { .. } => "caught by time-out",
        MutantFate::Survived { .. } => "SURVIVED",
        MutantFate::NotExecuted => "NOT EXECUTED",
    };
    format!("{at}/{of} {}:{} {word}, {seconds:.1} s", mutant.file, mutant.line)
}

fn equivalents(wanted: &MutantOptions, workspace: &Workspace) -> Result<Vec<results::Equivalent>> {
    let usual = || workspace.root.join("tools/mutants/equivalent.txt");
    let path = wanted.equivalent.clone().unwrap_or_else(usual);
    if wanted.equivalent.is_none() && !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    results::equivalents(&text).with_context(|| format!("{}", path.display()))
}

/// The packages that have mutants of these sources.
fn packages_of(sample: &Sample<'_>, numbers: &[u32]) -> BTreeSet<String> {
    let package = |&number: &u32| sample.source(number).package.clone();
    numbers.iter().map(package).collect()
}
