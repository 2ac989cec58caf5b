// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hostile files and command lines: the program answers each with a documented exit code, within 3 GiB and 20 s of
//! processor time; it never panics, and never dies of a signal that was not sent.
//!
//! `make fuzz` runs 100,000. `COREHOP_FUZZ` is the number of inputs, `COREHOP_SEED` the first seed (otherwise half of
//! the seeds are fixed and half are fresh), and `COREHOP_BINARY` the program (otherwise the one that Cargo built). A
//! seed gives the same files and words again: `COREHOP_FUZZ=1 COREHOP_SEED=N` repeats a finding.

mod lines;
mod regressions;
mod rows;
mod seeds;
mod threads;
#[path = "../../../corehop-linux/tests/trees/mod.rs"]
#[allow(dead_code)]
mod trees;
mod verdict;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Instant, SystemTime};

use corehop_fixtures::changed::{SplitMix, changed};
use lines::{Grammar, PLAIN, RECIPES};
use seeds::{Seeds, TREES};
use verdict::{Limits, finding, run};

/// Inputs of `make test`.
const INPUTS: u64 = 1_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The program, where a user without rights can run it, and the seeds that all runs share.
pub(crate) struct Bench {
    folder: tempfile::TempDir,
    program: PathBuf,
    grammar: Grammar,
    seeds: Seeds,
}

impl Bench {
    /// The bench of all tests that run now. The last test removes the folder.
    pub(crate) fn shared() -> Arc<Self> {
        static NOW: Mutex<Weak<Bench>> = Mutex::new(Weak::new());
        let mut now = NOW.lock().unwrap();
        now.upgrade().unwrap_or_else(|| {
            let bench = Arc::new(Self::new());
            *now = Arc::downgrade(&bench);
            bench
        })
    }

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path());
        let built = std::env::var_os("COREHOP_BINARY")
            .map_or_else(|| env!("CARGO_BIN_EXE_corehop").into(), PathBuf::from);
        let program = folder.path().join("corehop");
        fs::copy(built, &program).unwrap();
        let made = folder.path().join("seeds");
        fs::create_dir(&made).unwrap();
        open_to_all(&made);
        let seeds = seeds::make(&program, &made);
        let grammar = Grammar::of(&program);
        Self { folder, program, grammar, seeds }
    }

    /// A folder that every user can write.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        drop(fs::remove_dir_all(&folder));
        fs::create_dir(&folder).unwrap();
        open_to_all(&folder);
        folder
    }

    /// The words of a seed, and the files that they name in `folder`.
    fn input(&self, seed: u64, folder: &Path) -> Vec<OsString> {
        let mut draw = SplitMix(seed);
        let at = draw.below(RECIPES.len() + PLAIN.len());
        let recipe = RECIPES.get(at).unwrap_or_else(|| &PLAIN[at - RECIPES.len()]);
        let words = lines::words(*recipe, &self.grammar, &self.seeds.names, &mut draw);
        let named =
            self.seeds.names.iter().filter(|name| words.iter().any(|it| it == name.as_str()));
        for name in named {
            let (from, to) = (self.seeds.folder.join(name), folder.join(name));
            Self::file(name, &from, &to, &mut draw);
        }
        words
    }

    /// A seed file, or the tree that one describes.
    pub(crate) fn file_as_it_is(&self, name: &str, folder: &Path) {
        let (from, to) = (self.seeds.folder.join(name), folder.join(name));
        if TREES.contains(&name) {
            fs::create_dir(&to).unwrap();
            trees::write(&to, &fs::read_to_string(from).unwrap());
        } else {
            fs::copy(from, to).unwrap();
        }
    }

    /// A seed file as it is, or changed.
    fn file(name: &str, from: &Path, to: &Path, draw: &mut SplitMix) {
        let is_rows =
            ["parquet", "part"].iter().any(|it| to.extension().is_some_and(|own| own == *it));
        let way = draw.below(8);
        if TREES.contains(&name) {
            let text = fs::read(from).unwrap();
            let text = if way < 3 { text } else { changed_lines(&text, draw) };
            fs::create_dir(to).unwrap();
            trees::write(to, &String::from_utf8_lossy(&text));
        } else if way < 3 {
            fs::copy(from, to).unwrap();
        } else if is_rows && way < 7 && name != "counts.parquet" {
            rows::write(from, to, draw);
        } else {
            fs::write(to, changed(&fs::read(from).unwrap(), draw)).unwrap();
        }
    }

    /// Runs one seed. A finding names the seed, the command line, and the folder with its files.
    fn seed(&self, seed: u64, worker: usize) -> Option<String> {
        let folder = self.scratch(&format!("run-{worker}"));
        let words = self.input(seed, &folder);
        let ended = run(&self.program, &words, &folder, Limits::USUAL);
        let why = finding(&ended)?;
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-{seed}"));
        drop(fs::remove_dir_all(&kept));
        let line: Vec<_> = words.iter().map(|it| format!("'{}'", it.display())).collect();
        let panic = ended.said.lines().skip_while(|it| !it.contains("panicked at")).take(2);
        let panic: Vec<&str> = panic.collect();
        // Another file system, perhaps.
        let copied = std::process::Command::new("cp").arg("-r").args([&folder, &kept]).status();
        let copied = copied.is_ok_and(|it| it.success());
        let place = if copied { kept.display().to_string() } else { "not kept".to_owned() };
        Some(format!(
            "seed {seed}: {why}: corehop {} [{place}] {}",
            line.join(" "),
            panic.join(" ")
        ))
    }

    /// Runs these seeds on all CPUs; the findings.
    fn all(&self, seeds: &[u64]) -> Vec<String> {
        let (next, found, begun) = (AtomicU64::new(0), Mutex::new(Vec::new()), Instant::now());
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for worker in 0..workers {
                let (next, found) = (&next, &found);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                        let Some(&seed) = seeds.get(at) else { break };
                        if let Some(what) = self.seed(seed, worker) {
                            say(&what);
                            found.lock().unwrap().push(what);
                        }
                        if at % 1_000 == 999 {
                            say(&format!("{} inputs in {:.0?}", at + 1, begun.elapsed()));
                        }
                    }
                });
            }
        });
        found.into_inner().unwrap()
    }
}

#[expect(clippy::print_stderr, reason = "a long test says how far it is")]
fn say(what: &str) {
    eprintln!("{what}");
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
}

/// The lines of a description of files, with other contents: the names stay.
fn changed_lines(text: &[u8], draw: &mut SplitMix) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=draw.below(3) {
        let at = draw.below(lines.len());
        if draw.below(4) == 0 {
            lines.remove(at);
        } else if let Some((path, content)) = lines[at].clone().split_once(": ") {
            let content = changed(content.as_bytes(), draw);
            lines[at] =
                format!("{path}: {}", String::from_utf8_lossy(&content).replace(['\n', '\0'], ""));
        }
    }
    lines.join("\n").into_bytes()
}

#[test]
fn no_hostile_input_makes_the_program_panic_or_run_without_end() {
    let count = number("COREHOP_FUZZ").unwrap_or(INPUTS);
    let seeds: Vec<u64> = match number("COREHOP_SEED") {
        Some(first) => (0..count).map(|it| first.wrapping_add(it)).collect(),
        // The same change is judged alike each time; a longer run begins elsewhere.
        None if count <= INPUTS => (0..count).collect(),
        None => {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let fresh = now.as_nanos() as u64;
            say(&format!("from COREHOP_SEED={fresh} on"));
            (0..count).map(|it| fresh.wrapping_add(it)).collect()
        }
    };
    let begun = Instant::now();
    let found = Bench::shared().all(&seeds);
    say(&format!("{count} hostile inputs, {} findings, {:.0?}", found.len(), begun.elapsed()));
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_verb_and_every_experiment_has_a_recipe() {
    let grammar = Grammar::of(Path::new(env!("CARGO_BIN_EXE_corehop")));
    let has =
        |verb: &str| RECIPES.iter().chain(&PLAIN).any(|(guarded, _)| guarded.starts_with(verb));
    let lacks: Vec<&str> =
        grammar.verbs().filter(|verb| !verb.contains("help") && !has(verb)).collect();
    assert!(lacks.is_empty(), "no recipe for {lacks:?}");
    assert!(grammar.verbs().count() > 20, "{:?}", grammar.verbs().collect::<Vec<_>>());
}
