// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of the documentation site: docs/README.md lists each of them once. The glossary is what `corehop help WORD`
//! knows, and the gallery has the folders of `data/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use corehop_fixtures::repository;
use corehop_report::glossary::{GlossaryEntry, entries};

use super::gallery::{GalleryEntry, SHOWN, altered, entry};
use super::{cell, links, pages, verbs};

/// The heading of a word in the glossary: its first letter, or `0–9` for a word that begins with another sign.
fn heading(word: &str) -> String {
    let first = word.chars().next().filter(char::is_ascii_alphabetic);
    first.map_or_else(|| "0–9".to_owned(), |letter| letter.to_uppercase().to_string())
}

/// Whether the glossary has an entry. Columns have a page of their own, and some headings need no explanation.
fn is_listed(entry: &GlossaryEntry) -> bool {
    !entry.kind.starts_with("a column of") && entry.meaning != "The heading is literal."
}

/// The words with their kinds and meanings, by heading. A word of several kinds with one meaning stands once.
pub(crate) fn glossary() -> String {
    let mut kinds: BTreeMap<(String, String, String, String), Vec<String>> = BTreeMap::new();
    for GlossaryEntry { word, kind, meaning } in entries().into_iter().filter(is_listed) {
        let key = (heading(&word), word.to_lowercase(), word, meaning);
        let of_word = kinds.entry(key).or_default();
        if !of_word.contains(&kind) {
            of_word.push(kind);
        }
    }
    let (mut text, mut letter) = (String::new(), String::new());
    for ((of, _, word, meaning), kinds) in kinds {
        if of != letter {
            let gap = if letter.is_empty() { "" } else { "\n" };
            writeln!(text, "{gap}## {of}\n\n| word | kind | meaning |\n|---|---|---|").unwrap();
            letter = of;
        }
        let (word, kinds) = (cell(&word), cell(&kinds.join(", ")));
        writeln!(text, "| `{word}` | {kinds} | {} |", cell(&meaning)).unwrap();
    }
    text
}

/// The pages below docs/ that the list does not have exactly once, with the number of their entries.
fn unlisted(pages: &BTreeMap<String, String>) -> BTreeMap<&str, usize> {
    let list = links(&pages["docs/README.md"]);
    let inner = pages.keys().filter_map(|path| path.strip_prefix("docs/"));
    let count = |page: &str| list.iter().filter(|link| *link == page).count();
    let counted = inner.filter(|page| *page != "README.md").map(|page| (page, count(page)));
    counted.filter(|&(_, count)| count != 1).collect()
}

/// The folders of `data/`, in the order of their names.
fn folders() -> Vec<PathBuf> {
    let all = fs::read_dir(repository("data")).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The entries of the gallery, the newest first.
pub(crate) fn gallery() -> String {
    let mut table = String::from("| data | machine | Linux | measured |\n|---|---|---|---|\n");
    let mut text = String::new();
    for folder in folders().iter().rev() {
        let Some(entry) = entry(folder) else { continue };
        let name = folder.file_name().unwrap().to_str().unwrap();
        let GalleryEntry { machine, kernel, day, headline } = entry;
        writeln!(table, "| [{name}](../data/{name}/README.md) | {machine} | {kernel} | {day} |")
            .unwrap();
        writeln!(text, "\n## {name}\n\n{headline}\n\n    corehop report data/{name}/{SHOWN}")
            .unwrap();
    }
    table + &text
}

/// The bundles of `data/` with a part that was changed after it was measured.
fn altered_bundles() -> Vec<String> {
    folders().iter().flat_map(|folder| altered(folder)).collect()
}

#[test]
fn the_list_of_pages_has_every_page_once() {
    assert_eq!(unlisted(&pages()), BTreeMap::new(), "docs/README.md is the order of the site");
}

#[test]
fn a_page_that_is_missing_from_the_list_or_doubled_is_found() {
    let list = "- [A](a.md)\n- [B](b.md): and\n- [B again](b.md)\n".to_owned();
    let [a, b, c] =
        ["docs/a.md", "docs/b.md", "docs/c.md"].map(|it| (it.to_owned(), String::new()));
    let pages = BTreeMap::from([("docs/README.md".to_owned(), list), a, b, c]);
    assert_eq!(unlisted(&pages), BTreeMap::from([("b.md", 2), ("c.md", 0)]));
}

#[test]
fn the_glossary_has_words_once_and_by_letter() {
    let page = glossary();
    let lines: Vec<&str> = page.lines().collect();
    let at = |begin: &str| lines.iter().position(|line| line.starts_with(begin)).unwrap();
    assert!(at("## P") < at("| `preemption` | a word of the field, an event |"));
    assert!(at("| `preemption` |") < at("## Q") && at("## B") < at("## P"));
    assert_eq!(lines.iter().filter(|line| line.starts_with("| `preemption` |")).count(), 1);
}

#[test]
fn every_bundle_of_the_gallery_is_as_it_was_written() {
    assert_eq!(altered_bundles(), Vec::<String>::new(), "parts that differ from provenance.json");
}

/// The commands in code of a text, without the program's name and options.
fn commands_in(text: &str) -> Vec<String> {
    let code = text.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("corehop "));
    let verb = |code: &str| {
        let words =
            code.split(' ').take_while(|word| word.chars().all(|it| it.is_ascii_lowercase()));
        words.collect::<Vec<_>>().join(" ")
    };
    code.map(verb).filter(|verb| !verb.is_empty()).collect()
}

#[test]
fn every_command_of_a_form_for_issues_exists() {
    let folder = repository(".github/ISSUE_TEMPLATE");
    let forms =
        fs::read_dir(folder).unwrap().map(|it| fs::read_to_string(it.unwrap().path()).unwrap());
    let commands: Vec<String> = forms.flat_map(|form| commands_in(&form)).collect();
    let known = verbs();
    let unknown: Vec<_> = commands.iter().filter(|command| !known.contains(command)).collect();
    assert!(commands.len() >= 3 && unknown.is_empty(), "{unknown:?} of {commands:?}");
    assert_eq!(commands_in("a `corehop no such --x` b `corehop --version`"), ["no such"]);
}
