// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sampled program, and what was seen of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use corehop_linux::placing::{PlacerSettings, PlacingHost};
use corehop_plan::experiment::{Argument, Target};
use corehop_plan::host::{Evidence, Host, ProgramExit};
use corehop_system::discover::{SysRoot, discover};

use crate::harness::skipped;
use crate::program;

/// The argument that makes this test program a placer.
pub(crate) const PLACER: &str = "__placer";
/// The name of the handler.
pub(crate) const HANDLER: &str = "corehop-pages";
const WINDOW: Duration = Duration::from_millis(50);

/// A host that samples this command.
pub(crate) fn host(words: &[String]) -> PlacingHost {
    let arguments = words.iter().map(|it| Argument::new(it.as_bytes().to_vec()));
    let platform = discover(&SysRoot::live()).unwrap();
    let wishes = PlacerSettings {
        platform: &platform,
        progress: None,
        evidence: &[Evidence::Pages],
        page_faults: 100,
        search: true,
        moves: false,
        to_stderr: false,
    };
    PlacingHost::begin(&[Target::Command(arguments.collect())], wishes).unwrap()
}

/// The command line of the sampled program.
pub(crate) fn words(pairs: usize, alone: usize, seed: u64, word: &str, file: &Path) -> Vec<String> {
    let this = std::env::current_exe().unwrap().display().to_string();
    let numbers = [pairs as u64, alone as u64, seed].map(|it| it.to_string());
    let mut words = vec![this, program::ROLE.to_owned()];
    words.extend(numbers);
    words.extend([word.to_owned(), file.display().to_string()]);
    words
}

/// A program under way that is sampled.
pub(crate) struct Scene {
    pub(crate) host: PlacingHost,
    /// The file that keeps the program going.
    file: PathBuf,
    /// Hand-overs by pair of threads.
    pub(crate) seen: BTreeMap<(u32, u32), u64>,
    pub(crate) notes: Vec<String>,
    pub(crate) ended: Option<ProgramExit>,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// None, with the reason printed, where pages are not sampled.
    pub(crate) fn begin(pairs: usize, alone: usize, seed: u64, word: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("threads");
        let mut host = host(&words(pairs, alone, seed, word, &file));
        if !host.sources().contains(&Evidence::Pages) {
            skipped(&host.notes().join("; "));
            std::fs::write(&file, "").unwrap();
            std::fs::remove_file(&file).unwrap();
            host.end();
            return None;
        }
        let mut scene = Self {
            host,
            file,
            seen: BTreeMap::new(),
            notes: Vec::new(),
            ended: None,
            _folder: folder,
        };
        scene.until("its threads run", |it| it.file.exists());
        Some(scene)
    }

    pub(crate) fn look(&mut self) {
        let window = self.host.observe(WINDOW).unwrap();
        self.ended = self.ended.or(window.ended);
        let activity = window.activity.unwrap_or_default();
        // The handler is none of the program's threads.
        assert!(activity.threads.iter().all(|it| it.name != HANDLER), "{:?}", activity.threads);
        for it in activity.shared {
            assert!(it.by == Evidence::Pages && it.a < it.b && it.per_second > 0.0, "{it:?}");
            *self.seen.entry((it.a, it.b)).or_default() += it.seen;
        }
        self.notes.extend(self.host.notes().into_iter().filter(|it| it.contains("pages")));
    }

    /// Looks until it is so.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what}: {:?} {:?}", self.seen, self.notes);
            self.look();
        }
    }

    /// The partner of each thread, by number; 0 for one that is alone.
    pub(crate) fn partners(&self) -> BTreeMap<u32, u32> {
        partners(&self.file)
    }

    /// The thread with which this one was seen most.
    pub(crate) fn heaviest(&self, tid: u32) -> Option<u32> {
        let with = self.seen.iter().filter(|((a, b), _)| *a == tid || *b == tid);
        with.max_by_key(|(_, seen)| **seen).map(|((a, b), _)| if *a == tid { *b } else { *a })
    }

    /// Ends the program; its exit code, which is 0 if no write was lost.
    pub(crate) fn end(mut self) -> i32 {
        std::fs::remove_file(&self.file).unwrap();
        self.until("it ends", |it| it.ended.is_some());
        self.ended.unwrap().status.unwrap()
    }
}

pub(crate) fn partners(file: &Path) -> BTreeMap<u32, u32> {
    let text = std::fs::read_to_string(file).unwrap();
    let numbers = text.lines().map(|it| it.split_once(' ').unwrap());
    numbers.map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap())).collect()
}

/// Samples a command until it ends.
pub(crate) fn placer(words: &[String]) -> ExitCode {
    let mut host = host(words);
    host.notes().iter().for_each(|it| eprintln!("{it}"));
    while host.observe(WINDOW).unwrap().ended.is_none() {}
    ExitCode::SUCCESS
}

/// Whether some of the program's memory can be write-protected.
pub(crate) fn is_registered(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut flags = maps.lines().filter_map(|it| it.strip_prefix("VmFlags:"));
    flags.any(|it| it.split_whitespace().any(|it| it == "uw"))
}

/// The processes with this name and parent.
pub(crate) fn children(parent: u32, name: &str) -> Vec<i32> {
    let path = format!("/proc/{parent}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    let text = texts.collect::<Vec<_>>().join(" ");
    let pids = text.split_whitespace().filter_map(|it| it.parse().ok());
    pids.filter(|pid| comm(*pid).is_some_and(|it| it == name)).collect()
}

fn comm(pid: i32) -> Option<String> {
    Some(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}
