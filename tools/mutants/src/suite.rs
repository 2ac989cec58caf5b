// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests, and which mutants each of them reaches.
//!
//! Every test runs once alone, in a process that notes the places it evaluates. Threads and processes that the test
//! starts note theirs in the same file, so that nothing has to be guessed from names of threads. Tests run one after the
//! other unless the user allows more: some spin, and exclude each other by a lock in their process.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{panic, thread};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use crate::compile::TestProgram;
use crate::process::{self, TestEnd};
use crate::say;

/// The longest time of a test without a mutant.
const LONGEST: Duration = Duration::from_mins(30);

/// The result of one test without a mutant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestReach {
    /// The name of the test program.
    pub program: String,
    pub test: String,
    pub seconds: f64,
    /// Whether the test passes in the copy of the tree. A test that does not says nothing about mutants.
    pub passes: bool,
    /// The mutants whose places the test evaluates.
    pub numbers: BTreeSet<u32>,
}

/// A command that runs these tests of a program, as `cargo test` would.
pub(crate) fn command(program: &TestProgram, tests: &[&str]) -> Command {
    let mut command = Command::new(&program.path);
    let libraries = program.path.parent().unwrap_or(Path::new("/"));
    let folders = [Some(libraries), libraries.parent()].into_iter().flatten().map(Path::to_owned);
    let known = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let all = folders.chain(std::env::split_paths(&known));
    if let Ok(path) = std::env::join_paths(all) {
        command.env("LD_LIBRARY_PATH", path);
    }
    command
        .arg("--exact")
        .args(tests)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env_remove("COREHOP_MUTANT")
        .env_remove("COREHOP_MUTANT_NOTES");
    command
}

/// The tests of a program.
fn list(program: &TestProgram) -> Result<Vec<String>> {
    let mut command = command(program, &[]);
    let output = command.args(["--list", "--format", "terse"]).output()?;
    let name = &program.name;
    ensure!(output.status.success(), "{name}: `--list` failed: the program has its own harness");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(tests.map(str::to_owned).collect())
}

/// Runs every test once and returns what each reaches. Results are kept in `file`: a run that was interrupted goes on.
pub(crate) fn reach(
    programs: &[TestProgram],
    file: &Path,
    notes: &Path,
    at_once: usize,
) -> Result<Vec<TestReach>> {
    let mut known = read(file);
    let mut open = Vec::new();
    for program in programs {
        let is_known = |test: &String| {
            known.iter().any(|reach| reach.program == program.name && reach.test == *test)
        };
        open.extend(
            list(program)?.into_iter().filter(|test| !is_known(test)).map(|test| (program, test)),
        );
    }
    if open.is_empty() {
        return Ok(known);
    }
    say(&format!("{} tests run once without a mutant to see what they reach", open.len()));
    fs::create_dir_all(notes)?;
    let kept = File::options().append(true).create(true).open(file)?;
    let (kept, next) = (Mutex::new(kept), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        while let Some((program, test)) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
            let reach = reach_of(program, test, notes)?;
            let line = serde_json::to_string(&reach)?;
            writeln!(kept.lock().map_err(poisoned)?, "{line}")?;
            let mut results = results.lock().map_err(poisoned)?;
            results.push(reach);
            if results.len() % 200 == 0 {
                say(&format!("{} of {} tests", results.len(), open.len()));
            }
        }
        Ok(())
    };
    thread::scope(|scope| -> Result<()> {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work);
        let threads: Vec<_> = (0..at_once).map(start).collect::<Result<_, _>>()?;
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
        })
    })?;
    known.append(&mut results.into_inner().map_err(poisoned)?);
    Ok(known)
}

fn poisoned<T>(_: T) -> anyhow::Error {
    anyhow!("another thread of this program failed")
}

fn reach_of(program: &TestProgram, test: &str, notes: &Path) -> Result<TestReach> {
    let file =
        notes.join(format!("{:016x}", crate::draw::hash(0, &format!("{} {test}", program.name))));
    // Anyone may write, because some tests run programs as another user.
    File::create(&file).and_then(|file| {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
    })?;
    let noting =
        process::run(command(program, &[test]).env("COREHOP_MUTANT_NOTES", &file), LONGEST)?;
    let numbers = numbers(&file)?;
    // Notes take time and open files, which a test may see.
    let passes = noting.way == TestEnd::Passed || {
        process::run(&mut command(program, &[test]), LONGEST)?.way == TestEnd::Passed
    };
    let test = test.to_owned();
    Ok(TestReach { program: program.name.clone(), test, seconds: noting.seconds, passes, numbers })
}

fn numbers(file: &PathBuf) -> Result<BTreeSet<u32>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    fs::remove_file(file)?;
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn read(file: &Path) -> Vec<TestReach> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // A last line that was cut off is made again.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
