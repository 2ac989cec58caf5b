// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ten questions of the README: each recipe runs literally in an empty folder, in its short form, and the answer is held against
//! a truth that was planted or found another way.
//!
//! `COREHOP_UPDATE_QUESTIONS=1 cargo test -p corehop --test questions -- --nocapture` runs the recipes in full with
//! `target/release/corehop` (build it first) and writes what the last command of each recipe printed below the recipe, in the README
//! and in the page of the question, with the machine and the date. `COREHOP_UPDATE_QUESTIONS=5,7` does so for these questions. Each
//! page begins with the sentence of its output that answers the question.
//!
//! The rule for what is quoted: standard output, or standard error where standard output is empty, without lines that begin with
//! `note:`; the README has the first 9 lines (18 of question 2, whose margin is below the verdict) and the page the first 24, and `…`
//! stands for the rest.

#![allow(clippy::print_stdout, reason = "a test program reports what it could not look at")]

mod quoted;
mod recipe;
mod truths;

use std::path::Path;
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use corehop_fixtures::{repository, text};
use quoted::{Recipe, recipes};
use tempfile::TempDir;

/// The environment variable that asks for the outputs of full runs.
const UPDATE: &str = "COREHOP_UPDATE_QUESTIONS";
const README: &str = "README.md";

/// The page of each question.
const PAGES: [&str; 10] = [
    "01-costs.md",
    "02-deadlines.md",
    "03-scheduler.md",
    "04-slower.md",
    "05-my-program.md",
    "06-pinning.md",
    "07-placing.md",
    "08-polling.md",
    "09-another-machine.md",
    "10-constants.md",
];

/// The longest time of a recipe after installation, in seconds.
fn limit_s(question: usize) -> u64 {
    match question {
        1 => 120,
        9 => 240,
        _ => 60,
    }
}

/// The lines of an output that the README quotes.
fn readme_lines(question: usize) -> usize {
    if question == 2 { 18 } else { 9 }
}

fn page_of(question: usize) -> String {
    format!("docs/questions/{}", PAGES[question - 1])
}

/// The recipes of the README, in the order of the questions.
fn asked() -> Vec<Recipe> {
    recipes(&text(README))
}

/// The outcome of a recipe: its folder, and what each command answered.
struct Followed {
    folder: TempDir,
    outputs: Vec<Output>,
}

impl Followed {
    /// The words of the last answer, of both streams, with single spaces.
    fn said(&self) -> String {
        said(self.outputs.last().unwrap())
    }

    /// Runs one more command in the folder.
    fn then(&self, command: &str) -> Output {
        recipe::run(self.folder.path(), command)
    }
}

/// The words of an answer, of both streams, with single spaces.
fn said(output: &Output) -> String {
    let both = [&output.stdout[..], b"\n", &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Live commands move threads and use both CPUs, so they run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LIVE: Mutex<()> = Mutex::new(());
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the recipe of a question in an empty folder, each command shortened. `prepare` puts there what the truth needs.
fn follow(
    question: usize,
    prepare: impl Fn(&Path),
    shorten: impl Fn(usize, &str) -> String,
) -> Followed {
    let folder = TempDir::new().unwrap();
    prepare(folder.path());
    let recipe = &asked()[question - 1];
    let mut outputs = Vec::new();
    for (at, command) in recipe.commands.iter().enumerate() {
        let (typed, begun) = (shorten(at, command), Instant::now());
        let output = recipe::run(folder.path(), &typed);
        println!(
            "question {question}: {:?} after {:?}: {typed}",
            output.status.code(),
            begun.elapsed()
        );
        let ended = output.status.code();
        let answered = matches!(ended, Some(0 | 1)) || ended == Some(3);
        assert!(answered, "question {question}: `{typed}` ended with {ended:?}: {}", said(&output));
        outputs.push(output);
    }
    Followed { folder, outputs }
}

/// Whether the host cannot do what a command needs; prints the reason.
fn could_not_look(question: usize, output: &Output) -> bool {
    let lacks = output.status.code() == Some(3);
    if lacks {
        println!("question {question}: could not look: {}", said(output));
    }
    lacks
}

#[test]
fn the_readme_asks_ten_questions_each_with_a_short_recipe_and_the_first_lines_of_its_output() {
    let asked = asked();
    assert_eq!(asked.len(), 10);
    for (at, recipe) in asked.iter().enumerate() {
        let heading = format!("{}. ", at + 1);
        assert!(recipe.heading.starts_with(&heading), "{}", recipe.heading);
        assert!(recipe.heading.ends_with('?'), "{}", recipe.heading);
        assert!((1..=3).contains(&recipe.commands.len()), "{:?}", recipe.commands);
        let lines = recipe.output.lines().count();
        assert!((1..=readme_lines(at + 1) + 1).contains(&lines), "{}: {lines}", recipe.heading);
    }
}

#[test]
fn each_page_has_the_recipe_of_the_readme_and_begins_its_output_with_that_of_the_readme() {
    let readme = text(README);
    let list = text("docs/README.md");
    for (at, asked) in asked().iter().enumerate() {
        let path = page_of(at + 1);
        let page = recipes(&text(&path));
        assert!(readme.contains(&format!("]({path})")), "README.md does not link {path}");
        assert!(list.contains(&format!("](questions/{})", PAGES[at])), "docs/README.md: {path}");
        assert_eq!(page[0].commands, asked.commands, "{path}");
        let first = asked.output.trim_end_matches("…\n");
        assert!(page[0].output.starts_with(first), "{path} quotes another run than README.md");
    }
}

#[test]
fn each_page_begins_with_the_sentence_that_answers_its_question() {
    for page in (1..=10).map(page_of) {
        assert_eq!(
            text(&page),
            opening(&page),
            "{page}: COREHOP_UPDATE_QUESTIONS=openings writes it"
        );
    }
    let output = "a.parquet has 3 rows:\nsee.\n\nIt costs\n2.5 us. More.\n\nx\n";
    assert_eq!(quoted::answer(output), "It costs 2.5 us.");
    let advice =
        "One setting first, for all programs: a.b=1 helps\n(2.2 to 6.4 µs). None\nkept: c. More.\n";
    assert_eq!(quoted::answer(advice), "None kept: c.");
    assert_eq!(quoted::answer("gzip lost 1 %\n  of its time\nmore\n"), "gzip lost 1 % of its time");
    assert_eq!(quoted::opened("# T\n\n> old\n\ntext\n", "new"), "# T\n\n> new\n\ntext\n");
}

#[test]
fn a_recipe_is_a_fenced_block_of_commands_with_its_output_below() {
    let page = "### 1. Why?\n\ntext\n\n```sh\ncorehop a  # why\ncorehop b \\\n  -o c\n```\n\n```text\nyes\n```\n\n```sh\nalone\n```\n";
    let found = recipes(page);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].heading, "1. Why?");
    assert_eq!(found[0].commands, ["corehop a", "corehop b -o c"]);
    assert_eq!(found[0].output, "yes\n");
    let long = "a\n".repeat(30);
    assert_eq!(quoted::cut(&long, 2), "a\na\n…\n");
    assert_eq!(quoted::cut("a\n\n\n", 2), "a\n");
}

/// Runs the recipes in full, and writes what they print. Without the variable nothing happens.
#[test]
fn full_runs_write_their_outputs_into_readme_and_pages() {
    let Ok(which) = std::env::var(UPDATE) else { return };
    let _alone = alone();
    let binary = repository("target/release/corehop").canonicalize().unwrap();
    let wanted = |question: &usize| {
        which == "1" || which.split(',').any(|it| it == question.to_string() || it == "all")
    };
    let mut wrong = Vec::new();
    for question in (1..=10).filter(wanted) {
        let page = page_of(question);
        for (at, recipe) in recipes(&text(&page)).iter().enumerate() {
            match quoted::full(&binary, recipe, limit_s(question)) {
                Ok(output) => {
                    quoted::write(&page, recipe, &output, quoted::PAGE_LINES);
                    if at == 0 {
                        quoted::write(README, recipe, &output, readme_lines(question));
                    }
                }
                Err(why) => wrong.push(format!("question {question}: {why}")),
            }
        }
    }
    for page in (1..=10).map(page_of) {
        let opened = opening(&page);
        std::fs::write(repository(&page), opened).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A page as it begins with the sentence of its first output.
fn opening(page: &str) -> String {
    let text = text(page);
    let answer = quoted::answer(&recipes(&text)[0].output);
    quoted::opened(&text, &answer)
}
