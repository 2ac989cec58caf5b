// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sample in the copy of the tree: written, and built until it compiles.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::compile::{self, BuildAttempt, Folders, PlantedPlace, TestProgram};
use crate::draw::{MutantCandidate, hash};
use crate::modules::SourceText;
use crate::results::MutantText;
use crate::rewrite::{self, Numbered};
use crate::suite::{self, TestReach};
use crate::{MutantRun, packages_of, process, say};

/// All candidates in the order of the draw: the number of a mutant is its place in the order, from 1.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'a> {
    pub sources: &'a [SourceText],
    pub candidates: &'a [MutantCandidate],
    pub order: &'a [usize],
}

/// The mutants that are in the test programs, in the order of the draw.
#[derive(Debug)]
pub(crate) struct Planted {
    pub numbers: Vec<u32>,
    pub programs: Vec<TestProgram>,
    /// The copy of the tree, and the files that are not as in the tree.
    copy: PathBuf,
    files: BTreeMap<PathBuf, String>,
}

impl Planted {
    /// Undoes changes of the copy.
    pub(crate) fn restore(&self, run: &MutantRun<'_>) -> Result<()> {
        run.tree.write(&self.copy, &self.files)
    }
}

impl Sample<'_> {
    pub(crate) fn candidate(&self, number: u32) -> &MutantCandidate {
        &self.candidates[self.order[number as usize - 1]]
    }

    pub(crate) fn source(&self, number: u32) -> &SourceText {
        &self.sources[self.candidate(number).source]
    }

    pub(crate) fn describe(&self, number: u32) -> MutantText {
        let (mutation, source) = (&self.candidate(number).mutation, self.source(number));
        let lines = mutation.lines(&source.text);
        MutantText {
            package: source.package.clone(),
            file: source.path.to_string_lossy().into_owned(),
            line: source.text[..lines.start].matches('\n').count() + 1,
            kind: mutation.kind,
            before: source.text[lines.clone()].to_owned(),
            after: mutation.mutated(&source.text, &lines),
            byte: mutation.range.start,
        }
    }

    /// The first `count` mutants without those that are known not to compile.
    fn chosen(&self, count: usize, refused: &BTreeSet<String>) -> Vec<u32> {
        let numbers = 1..=count.min(self.order.len()) as u32;
        numbers.filter(|&number| !refused.contains(&self.candidate(number).identity)).collect()
    }

    /// The files with these mutants, and where each mutant is in them. A file in which a crate begins has the switch too.
    fn rewritten(&self, numbers: &[u32]) -> (BTreeMap<PathBuf, String>, Vec<PlantedPlace>) {
        let (mut files, mut places) = (BTreeMap::new(), Vec::new());
        let packages = packages_of(self, numbers);
        let most = numbers.iter().copied().max().unwrap_or(0);
        for (at, source) in self.sources.iter().enumerate() {
            let of_file = |number: &&u32| self.candidate(**number).source == at;
            let mutations: Vec<Numbered<'_>> = numbers
                .iter()
                .filter(of_file)
                .map(|&number| (number, &self.candidate(number).mutation))
                .collect();
            let begins = source.is_root && packages.contains(&source.package);
            if mutations.is_empty() && !begins {
                continue;
            }
            let mut rewritten = rewrite::rewrite(&source.text, &mutations);
            if begins {
                rewritten.text.push_str(&rewrite::switch_module(most));
            }
            let of_source = |(number, bytes)| (number, source.path.clone(), bytes);
            places.extend(rewritten.places.into_iter().map(of_source));
            files.insert(source.path.clone(), rewritten.text);
        }
        (files, places)
    }
}

/// Writes the copy of the tree and builds it, without the mutants that do not compile.
pub(crate) fn plant(run: &MutantRun<'_>) -> Result<Planted> {
    let MutantRun { wanted, sample, folder, state, .. } = run;
    let folders = Folders { tree: folder.join("tree"), target: folder.join("build") };
    let memory = folder.join(format!("refused-{state}.json"));
    let known = fs::read_to_string(&memory).unwrap_or_default();
    let mut refused: BTreeSet<String> = serde_json::from_str(&known).unwrap_or_default();
    // Few do not compile: a sum of texts, for instance, has no difference. Spare ones save a further build.
    let mut count = wanted.number + wanted.number / 40 + 3;
    loop {
        let numbers = sample.chosen(count, &refused);
        if numbers.len() < wanted.number && count < sample.order.len() {
            count += wanted.number - numbers.len() + 3;
            continue;
        }
        let (files, places) = sample.rewritten(&numbers);
        run.tree.write(&folders.tree, &files)?;
        let left_out = count.min(sample.order.len()) - numbers.len();
        say(&format!("building {} mutants; {left_out} more do not compile", numbers.len()));
        let attempt = build(run, &numbers, &folders)?;
        if attempt.said.is_none() {
            return Ok(Planted { numbers, programs: attempt.programs, files, copy: folders.tree });
        }
        for number in compile::blamed(&attempt, &places)? {
            refused.insert(sample.candidate(number).identity.clone());
        }
        fs::write(&memory, serde_json::to_string(&refused)?)?;
    }
}

/// Builds the test programs. A package that has features which a usual build leaves out is checked with all of them first,
/// because the errors of a build inside of a build script have no places.
fn build(run: &MutantRun<'_>, numbers: &[u32], folders: &Folders) -> Result<BuildAttempt> {
    let mutated = packages_of(&run.sample, numbers);
    for member in &run.workspace.members {
        if member.has_more && mutated.contains(&member.name) {
            let attempt = folders.check_all(&member.name)?;
            if attempt.said.is_some() {
                return Ok(attempt);
            }
        }
    }
    let tested = if run.wanted.own_tests { mutated } else { run.workspace.dependents(&mutated) };
    folders.build(&tested)
}

/// The mutants that each test reaches, from a file of this sample or by running the tests.
pub(crate) fn reaches(run: &MutantRun<'_>, planted: &Planted) -> Result<Vec<TestReach>> {
    let MutantRun { sample, folder, state, .. } = run;
    let numbers = planted.numbers.iter();
    let sum = numbers.fold(0, |sum, &number| {
        hash(sum, &format!("{number} {}", sample.candidate(number).identity))
    });
    let file = folder.join(format!("reach-{state}-{sum:016x}.jsonl"));
    let at_once = run.wanted.at_once.max(1);
    let known = suite::reach(&planted.programs, &file, &folder.join("notes"), at_once);
    process::sweep();
    planted.restore(run)?;
    known
}

/// The tests that reach mutants and fail without one.
pub(crate) fn broken(reaches: &[TestReach]) -> Vec<String> {
    let fails = |reach: &&TestReach| !reach.passes && !reach.numbers.is_empty();
    reaches.iter().filter(fails).map(|reach| format!("{} {}", reach.program, reach.test)).collect()
}
