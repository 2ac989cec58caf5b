// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recipes with their quoted outputs: read from a document, run in full, and written back.

use std::path::Path;
use std::time::Instant;

use corehop_fixtures::{repository, text};
use tempfile::TempDir;

use crate::recipe::run_by;

/// The lines of an output that a page quotes.
pub(crate) const PAGE_LINES: usize = 24;

const COMMANDS: &str = "```sh\n";
const OUTPUT: &str = "```text\n";
const END: &str = "```\n";
/// The line below an output that names the machine and the date.
const MACHINE: &str = "corehop printed this output on ";
/// The first words of a sentence that advises a system setting before the answer.
const SETTING: &str = "One setting first";

/// A recipe of a document.
pub(crate) struct Recipe {
    /// The heading above, without its marks.
    pub(crate) heading: String,
    /// The block of commands as written.
    pub(crate) block: String,
    /// The lines to type, without comments.
    pub(crate) commands: Vec<String>,
    /// The output that is quoted below.
    pub(crate) output: String,
}

/// The recipes of a document: fenced blocks of commands that have a fenced output directly below.
pub(crate) fn recipes(page: &str) -> Vec<Recipe> {
    let found = page.match_indices(COMMANDS).filter_map(|(at, _)| {
        let heading = page[..at].lines().rev().find(|line| line.starts_with('#'))?;
        let (block, below) = page[at + COMMANDS.len()..].split_once(END)?;
        let (output, _) = below.strip_prefix('\n')?.strip_prefix(OUTPUT)?.split_once(END)?;
        Some(Recipe {
            heading: heading.trim_start_matches('#').trim().to_owned(),
            block: block.to_owned(),
            commands: typed(block),
            output: output.to_owned(),
        })
    });
    found.collect()
}

/// The commands of a block: lines that end in a backslash go on, and comments are left out.
fn typed(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        let line = line.split("  # ").next().unwrap_or_default().trim_end();
        let whole = line.trim_end_matches('\\').trim();
        match commands.last_mut().filter(|_| goes_on) {
            Some(before) => *before = format!("{before} {whole}"),
            None => commands.push(whole.to_owned()),
        }
        goes_on = line.ends_with('\\');
    }
    commands.into_iter().filter(|it| !it.is_empty()).collect()
}

/// The first lines of an output; `…` stands for the rest.
pub(crate) fn cut(output: &str, lines: usize) -> String {
    let output = output.trim_end();
    let first: String =
        output.lines().take(lines).flat_map(|line| [line.trim_end(), "\n"]).collect();
    if output.lines().count() > lines { first + "…\n" } else { first }
}

/// The first sentence of an output that answers the question, on one line. A sentence that only names the file of the rows, or that
/// advises a system setting, is no answer. A line without indentation below an indented line begins another sentence.
pub(crate) fn answer(output: &str) -> String {
    let sentence = |paragraph: &str| {
        let (mut words, mut was_indented) = (Vec::new(), false);
        for line in paragraph.lines() {
            let is_indented = line.starts_with(' ');
            if was_indented && !is_indented {
                break;
            }
            was_indented = is_indented;
            words.extend(line.split_whitespace());
        }
        let all = words.join(" ");
        let advised = all.split_once(". ").filter(|(first, _)| first.starts_with(SETTING));
        let rest = advised.map_or(all.as_str(), |(_, rest)| rest);
        rest.split_once(". ").map_or(rest.to_owned(), |(first, _)| format!("{first}."))
    };
    let answers = |it: &String| !it.contains(".parquet has ");
    output.split("\n\n").map(sentence).find(answers).unwrap_or_default()
}

/// The page with its answer's sentence below the title, as a quotation.
pub(crate) fn opened(page: &str, answer: &str) -> String {
    let (title, rest) = page.split_once("\n\n").unwrap_or((page, ""));
    let rest = match rest.strip_prefix("> ") {
        Some(quoted) => quoted.split_once("\n\n").map_or("", |(_, rest)| rest),
        None => rest,
    };
    format!("{title}\n\n> {answer}\n\n{rest}")
}

/// The output of the last command of a recipe, run in full in an empty folder by this binary.
///
/// # Errors
/// If a command does not answer, or the recipe takes longer than its limit.
pub(crate) fn full(binary: &Path, recipe: &Recipe, limit_s: u64) -> Result<String, String> {
    let folder = TempDir::new().unwrap();
    let begun = Instant::now();
    let mut last = String::new();
    for command in &recipe.commands {
        let output = run_by(binary, folder.path(), command);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(format!("`{command}` ended with {:?}: {errors}", output.status.code()));
        }
        last = if text.trim().is_empty() { errors } else { text };
    }
    let took = begun.elapsed();
    println!("{}: {took:?}", recipe.heading);
    if took.as_secs() > limit_s {
        return Err(format!("took {took:?}, longer than {limit_s} s"));
    }
    let told = last.lines().filter(|line| !line.starts_with("note:"));
    Ok(told.flat_map(|line| [line, "\n"]).collect::<String>().trim_start().to_owned())
}

/// Writes an output below its recipe in a document, with the machine and the date.
pub(crate) fn write(document: &str, recipe: &Recipe, output: &str, lines: usize) {
    let page = text(document);
    let head = format!("{COMMANDS}{}{END}\n{OUTPUT}", recipe.block);
    let (before, rest) = page.split_once(&head).unwrap_or_else(|| panic!("{document}: {head}"));
    let (_, after) = rest.split_once(END).unwrap();
    let after = after.trim_start_matches('\n');
    let after = match after.strip_prefix(MACHINE) {
        Some(of_before) => of_before.split_once("\n\n").map_or("", |(_, after)| after),
        None => after,
    };
    let new = format!("{before}{head}{}{END}\n{}\n\n{after}", cut(output, lines), machine());
    std::fs::write(repository(document), new).unwrap();
}

/// ``corehop printed this output on 2026-11-28 on the machine `Intel Xeon, 2 CPUs, a guest under kvm`.``
fn machine() -> String {
    let folder = TempDir::new().unwrap();
    let binary = repository("target/release/corehop").canonicalize().unwrap();
    let told = run_by(&binary, folder.path(), "corehop doctor; date -u +%F");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let machine = told.lines().find(|line| line.contains(" CPU")).unwrap_or("an unknown machine");
    let date = told.lines().last().unwrap_or_default();
    format!("{MACHINE}{date} on the machine `{machine}`.")
}
