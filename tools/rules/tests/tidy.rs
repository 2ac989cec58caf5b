// SPDX-License-Identifier: MIT OR Apache-2.0
//! Habits of the house that a machine can check, in every source file of the repository.

use std::fs;
use std::path::Path;

use corehop_fixtures::repository;
use corehop_rules::code;

const LICENCE: &str = "SPDX-License-Identifier: MIT OR Apache-2.0";
/// A function that is longer has a second one inside of it.
const LONGEST_FUNCTION: usize = 100;
/// A file that is longer has a second subject.
const LONGEST_FILE: usize = 600;

/// Folders with files that others wrote or that programs made.
const NOT_OURS: [&str; 10] = [
    "target",
    ".git",
    "vendor",
    "out",
    "dist",
    ".venv",
    "node_modules",
    "__pycache__",
    "data",
    "build",
];

/// Every source file, with its path in the repository.
fn sources() -> Vec<(String, String)> {
    let kinds = ["rs", "s", "py", "pyi", "sh", "js", "css", "c", "h"];
    let root = repository("");
    let mut folders = vec![root.clone()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let extension = path.extension().map(|kind| kind.to_string_lossy().into_owned());
            if path.is_dir() {
                let generated = name.ends_with(".egg-info") || path.join("pyvenv.cfg").exists();
                if !NOT_OURS.contains(&name.as_str()) && !generated {
                    folders.push(path);
                }
            } else if extension.is_some_and(|kind| kinds.contains(&kind.as_str())) {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(&root).unwrap().display().to_string(), text));
            }
        }
    }
    assert!(found.len() > 50, "only {} files below {}", found.len(), root.display());
    found
}

/// The untidy things of one file.
fn untidy(path: &str, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if !names_its_licence(text) {
        wrong.push(format!("its first line does not say {LICENCE}"));
    }
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        wrong.push(format!("it has {lines} lines, more than {LONGEST_FILE}"));
    }
    if Path::new(path).extension().is_some_and(|kind| kind == "rs") {
        if !has_module_doc(text) {
            wrong.push("no `//!` says what it is about".to_owned());
        }
        wrong.extend(long_functions(text));
        // Put together, so that this file does not hold them.
        for word in [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("dbg", "!(")] {
            if text.contains(word) {
                wrong.push(format!("it holds `{word}…)`"));
            }
        }
    }
    wrong
}

/// In the first line, or after the one that names an interpreter.
fn names_its_licence(text: &str) -> bool {
    let mut lines = text.lines().skip_while(|line| line.starts_with("#!"));
    lines.next().is_some_and(|line| line.contains(LICENCE))
}

fn has_module_doc(text: &str) -> bool {
    text.lines().find(|line| !line.starts_with("// ")).is_some_and(|line| line.starts_with("//!"))
}

/// Functions that are too long. Formatted code closes a function at the column where it begins.
fn long_functions(text: &str) -> Vec<String> {
    let lines: Vec<_> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let Some(length) = lines[at..].iter().position(|line| **line == end) else { continue };
        if length + 1 > LONGEST_FUNCTION {
            found.push(format!("`{name}` has {} lines, more than {LONGEST_FUNCTION}", length + 1));
        }
    }
    found
}

/// The name of the function that begins in this line, and does not end in it.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.trim_start().split_once("fn ")?;
    let words = ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\"", "async"];
    let begins = before.split_whitespace().all(|word| words.contains(&word));
    let ends = line.ends_with('}') || line.ends_with(';');
    let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (begins && !ends && !name.is_empty()).then_some(name)
}

#[test]
fn every_source_file_is_tidy() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        wrong.extend(untidy(&path, &text).into_iter().map(|what| format!("{path}: {what}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_untidy_file_is_found_out() {
    let good = format!("// {LICENCE}\n//! Something.\n\nfn f() {{\n    g();\n}}\n");
    assert_eq!(untidy("good.rs", &good), Vec::<String>::new());
    assert_eq!(untidy("a.sh", &format!("#!/bin/sh\n# {LICENCE}\n")), Vec::<String>::new());
    let long = format!("{good}    pub(crate) fn h() {{\n{}    }}\n", "        g();\n".repeat(99));
    let enough = format!("{good}    pub(crate) fn h() {{\n{}    }}\n", "        g();\n".repeat(98));
    assert_eq!(untidy("enough.rs", &enough), Vec::<String>::new());
    let bad = [
        ("no licence", good.replacen("MIT", "GPL", 1)),
        ("no doc", format!("// {LICENCE}\nfn f() {{}}\n")),
        ("a long function", long),
        ("a long file", format!("{good}{}", "\n".repeat(LONGEST_FILE))),
        ("something to do", good.replace("g()", concat!("todo", "!()"))),
    ];
    for (name, text) in bad {
        assert_eq!(untidy("bad.rs", &text).len(), 1, "{name}: {:?}", untidy("bad.rs", &text));
    }
}

/// The sources in which files of rows are opened: each says so where a file has no checksums. The second reads the
/// stream that the same command wrote.
const OPENERS: [&str; 4] = [
    "crates/corehop-app/src/input.rs",
    "crates/corehop-app/src/run/outputs.rs",
    "python/src/file.rs",
    "python/src/sched.rs",
];

/// Whether a source opens a file of rows or of counts.
fn opens_rows(text: &str) -> bool {
    ["Reader::open(", "Reader::salvage(", "StudyCounts::read("].iter().any(|it| text.contains(it))
}

#[test]
fn files_of_rows_are_opened_where_doubts_about_them_are_said() {
    let is_program =
        |path: &str| path.starts_with("crates/corehop/src/") || path.starts_with("python/src/");
    let found: Vec<String> = sources()
        .into_iter()
        .filter(|(path, text)| is_program(path) && opens_rows(text))
        .map(|(path, _)| path)
        .filter(|path| !OPENERS.contains(&path.as_str()))
        .collect();
    assert!(found.is_empty(), "use input::open: {found:#?}");
    assert!(opens_rows("let reader = Reader::open(file)?;") && !opens_rows("input::open(path)?"));
}

/// The number of doc comment lines of a Rust source that open with a relative clause or a question word.
fn clauses(text: &str) -> usize {
    let words = [
        "What",
        "Who",
        "Whom",
        "Whose",
        "Whoever",
        "Whatever",
        "Which",
        "Whichever",
        "Where",
        "How",
    ];
    let opens = |line: &&str| {
        let line = line.trim_start();
        let comment = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
        comment.is_some_and(|comment| {
            let first = comment.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
            words.contains(&first) || comment.starts_with("That which")
        })
    };
    text.lines().filter(opens).count()
}

#[test]
fn doc_comments_do_not_open_with_relative_clauses() {
    let rust =
        |(path, _): &(String, String)| Path::new(path).extension().is_some_and(|it| it == "rs");
    let found: Vec<(String, usize)> = sources()
        .into_iter()
        .filter(rust)
        .map(|(path, text)| (path, clauses(&text)))
        .filter(|&(_, count)| count > 0)
        .collect();
    let count: usize = found.iter().map(|(_, count)| count).sum();
    assert_eq!(count, 0, "doc comments open with a relative clause: {found:#?}");
}

/// The lines in which a closure begins whose argument is only `it`, although the closure is longer than its line.
fn nameless(text: &str) -> Vec<&str> {
    let opens = concat!("|i", "t|");
    let begins = |line: &&str| line.split_once(opens).is_some_and(|(_, body)| goes_on(body));
    text.lines().filter(begins).collect()
}

/// Whether the body of a closure goes on in the next line.
fn goes_on(body: &str) -> bool {
    let mut depth = 0;
    for c in body.chars() {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        if depth < 0 {
            return false;
        }
    }
    depth > 0 || !body.ends_with([';', ','])
}

#[test]
fn a_closure_that_is_longer_than_a_line_names_its_argument() {
    let is_rust =
        |(path, _): &(String, String)| Path::new(path).extension().is_some_and(|kind| kind == "rs");
    let found: Vec<_> = sources()
        .into_iter()
        .filter(is_rust)
        .flat_map(|(path, text)| {
            nameless(&text).into_iter().map(|line| format!("{path}: {line}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    for (line, is_long) in [
        ("a.map(|i_t| {", true),
        ("a.map(|i_t| i_t.b(", true),
        ("a.map(|i_t|", true),
        ("a.map(|i_t| i_t.b()).sum()", false),
        ("if a.any(|i_t| i_t.b()) {", false),
        ("let b = |i_t| i_t.c();", false),
        ("a.map(|i_t| [i_t.b, { i_t.c }]);", false),
    ] {
        assert_eq!(!nameless(&line.replace("i_t", "it")).is_empty(), is_long, "{line}");
    }
}

#[test]
fn a_relative_clause_is_found_and_a_statement_is_not() {
    let bad =
        ["/// What it costs.", "    //! Where it is.", "/// How, and why.", "/// That which is."];
    assert_eq!(clauses(&bad.join("\n")), 4);
    let good = [
        "/// The cost.",
        "/// Whether it is valid.",
        "// What a plain comment may do.",
        "/// However.",
    ];
    assert_eq!(clauses(&good.join("\n")), 0);
}

/// The module that reads the text of `/proc` and `/sys`, as bytes.
const READER: &str = "crates/corehop-system/src/proc/";
/// Files that may do what the reader alone may, with the reason.
const NO_READERS: [(&str, &str); 1] =
    [("crates/corehop-linux/src/placing/progress.rs", "its file is the user's, with a number")];

/// The lines of a source, without its comments and its tests, that read text of the kernel's past the reader.
fn foreign_text(path: &str, text: &str) -> Vec<String> {
    let is_rust = Path::new(path).extension().is_some_and(|kind| kind == "rs");
    let is_code = is_rust && path.starts_with("crates/") && path.contains("/src/");
    let is_test = path.ends_with("tests.rs");
    if !is_code || is_test || path.starts_with(READER) {
        return Vec::new();
    }
    // Put together, so that this file does not hold them.
    let [to_string, number] = [concat!("read_to", "_string"), concat!("\"/proc", "/{")];
    let anywhere = ["read", "read_dir"].map(|call| format!("{call}(\"/proc"));
    let is_foreign = |line: &&str| {
        let line = line.split("//").next().unwrap_or_default();
        let live = path.starts_with("crates/corehop-linux/") && line.contains(to_string);
        live || line.contains(number) || anywhere.iter().any(|call| line.contains(call))
    };
    code(text).into_iter().filter(is_foreign).map(|line| line.trim().to_owned()).collect()
}

/// A name in `/proc` is any bytes: text that must be UTF-8 makes a thread invisible that a user has to find.
#[test]
fn the_text_of_proc_is_read_in_one_module() {
    let allowed = |path: &String| NO_READERS.iter().any(|(file, _)| file == path);
    let found: Vec<_> = sources()
        .into_iter()
        .filter(|(path, _)| !allowed(path))
        .map(|(path, text)| (foreign_text(&path, &text), path))
        .filter(|(lines, _)| !lines.is_empty())
        .collect();
    assert!(found.is_empty(), "read it by corehop_system::proc: {found:#?}");
}

#[test]
fn a_reader_of_proc_beside_the_module_is_found() {
    let bad = [
        concat!("let a = fs::read_to", "_string(path)?;"),
        concat!("let b = Path::new(&format!(\"/proc", "/{pid}\"));"),
        concat!("let c = fs::read(\"/pro", "c/mounts\")?;"),
        concat!("let d = fs::read_dir(\"/pro", "c\")?;"),
    ];
    let source =
        format!("{}\n// {}\n#[cfg(test)]\nmod tests {{\n{}\n}}", bad.join("\n"), bad[0], bad[0]);
    assert_eq!(foreign_text("crates/corehop-linux/src/x.rs", &source), bad);
    assert_eq!(foreign_text("crates/corehop/src/x.rs", &source), bad[1..]);
    for path in
        ["crates/corehop-system/src/proc/mod.rs", "crates/corehop/tests/x.rs", "a/x_tests.rs"]
    {
        assert!(foreign_text(path, &source).is_empty(), "{path}");
    }
}

/// The start of a thread that panics if the system starts none (`ulimit -u`), in the code of a Rust source before its
/// tests.
fn panicking_starts(path: &str, text: &str) -> Vec<String> {
    let of_tests = ["tests.rs", "_tests.rs"].iter().any(|end| path.ends_with(end));
    if of_tests || !path.contains("/src/") || path.contains("/tests/") {
        return Vec::new();
    }
    let starts = ["thread::spawn(", "scope.spawn(", "enable_steady_tick("];
    let outside = !path.ends_with("corehop-plan/src/parallel.rs");
    let is = |line: &&str| {
        let code = line.split("//").next().unwrap_or_default();
        starts.iter().any(|it| code.contains(it)) || outside && code.contains("rayon::")
    };
    let code = text.lines().take_while(|line| line.trim() != "mod tests {");
    code.filter(is).map(|line| format!("{path}: {}", line.trim())).collect()
}

#[test]
fn threads_are_started_by_a_builder_which_answers_with_an_error() {
    let rust = |path: &str| Path::new(path).extension().is_some_and(|it| it == "rs");
    let found: Vec<String> = sources()
        .iter()
        // The models of loom have threads of their own.
        .filter(|(path, _)| rust(path) && !path.ends_with("corehop-switch/src/models.rs"))
        .flat_map(|(path, text)| panicking_starts(path, text))
        .collect();
    assert!(found.is_empty(), "use std::thread::Builder or thread::apart: {found:#?}");
    let planted = "fn f() {\n    std::thread::spawn(g);\n    scope.spawn(g);\n    use rayon::prelude::*;\n}\n";
    assert_eq!(panicking_starts("crates/x/src/a.rs", planted).len(), 3);
    let in_tests = format!("mod tests {{\n{planted}}}\n");
    assert_eq!(panicking_starts("crates/x/src/a.rs", &in_tests), Vec::<String>::new());
}
