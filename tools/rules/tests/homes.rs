// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs that have one home: making a file, and text for a terminal. No other source of the programs does them.
//!
//! Tests, benchmarks and examples are exempt. A source that needs an exception is named here, with its words and the reason.

use std::collections::BTreeSet;

use corehop_fixtures::repository;
use corehop_rules::{code, rust, sources, test_modules};

/// A source with words that others may not use, and the reason.
struct Exception {
    source: &'static str,
    words: &'static [&'static str],
    reason: &'static str,
}

const fn except(
    source: &'static str,
    words: &'static [&'static str],
    reason: &'static str,
) -> Exception {
    Exception { source, words, reason }
}

/// Words that make, rename or resize a file, and types of other crates that do.
const FILES: &[&str] = &[
    "File::create",
    "File::options",
    "OpenOptions::",
    "DirBuilder::",
    "fs::write",
    "fs::copy",
    "fs::rename",
    "fs::hard_link",
    "fs::create_dir",
    "fs::symlink(",
    "set_permissions",
    "set_len(",
    "generate_to",
    ".persist",
    "tempfile::",
    "NamedTempFile::",
    "O_CREAT",
    "O_TMPFILE",
    "libc::open(",
    "libc::open64(",
    "libc::openat(",
    "libc::creat(",
    "SYS_open",
    "SYS_creat",
    "libc::rename",
    "libc::link",
    "libc::symlink",
    "libc::mkdir",
    "libc::mknod",
    "libc::mkfifo",
    "libc::mkstemp",
    "libc::truncate",
];

/// The functions of `std::fs` that no source may import, or they would be called without `fs::`.
const IMPORTS: &[&str] = &[
    "write",
    "copy",
    "rename",
    "hard_link",
    "create_dir",
    "create_dir_all",
    "set_permissions",
    "*",
];

const FILE_EXCEPTIONS: &[Exception] = &[
    except(
        "crates/corehop-app/src/file.rs",
        &["File::options", "fs::create_dir", ".persist", "tempfile::"],
        "the home",
    ),
    except("crates/corehop-app/src/run/outputs.rs", &["tempfile::"], "a file without a name"),
    except(
        "crates/corehop-system/src/supervisor/journal.rs",
        &["OpenOptions::", "DirBuilder::", "set_len("],
        "the journal, with rules of its own",
    ),
    except(
        "crates/corehop-system/src/supervisor/whole.rs",
        &["OpenOptions::", "set_len("],
        "the lock",
    ),
    except(
        "crates/corehop-system/src/supervisor/undo.rs",
        &["OpenOptions::"],
        "settings of the kernel: only files that exist",
    ),
    except(
        "crates/corehop-linux/src/live/tasks/cpusets.rs",
        &["fs::write", "fs::create_dir"],
        "cpusets, which are files of the kernel",
    ),
    except(
        "crates/corehop-linux/src/live/program_costs/freezer.rs",
        &["fs::write", "fs::create_dir"],
        "cgroups, which are files of the kernel",
    ),
    except("crates/corehop-system/src/proc/mod.rs", &["fs::write"], "files of the kernel"),
    except(
        "crates/corehop/src/output/mod.rs",
        &["File::options"],
        "a terminal that another program hands over",
    ),
    except(
        "crates/corehop-linux/src/placing/progress.rs",
        &["OpenOptions::"],
        "to read a file of the user's that may be no file",
    ),
    except(
        "crates/corehop-linux/src/offload/library.rs",
        &["File::options", "set_permissions", "fs::rename"],
        "the library, in folders that only its owner can change",
    ),
    except(
        "crates/corehop-linux/src/offload/trusted.rs",
        &["DirBuilder::", "set_permissions"],
        "the folders of library and boards",
    ),
    except(
        "crates/corehop-linux/src/offload/boards.rs",
        &["File::options", "DirBuilder::", "set_permissions"],
        "the folder of a board",
    ),
    except(
        "crates/corehop-linux/src/live/load/dma.rs",
        &["OpenOptions::", "O_TMPFILE", "O_CREAT"],
        "a file without a name, for direct transfers",
    ),
    except(
        "crates/corehop-shim/src/board.rs",
        &["File::options", "set_len(", "set_permissions", "libc::rename"],
        "the files of a board, new ones without links",
    ),
    except("crates/corehop-shim/src/tally.rs", &["File::options"], "files of a board, to read"),
    except("crates/corehop-shim/src/preload/files.rs", &["SYS_open"], "a path, to look at"),
    except(
        "crates/corehop-shim/src/preload/attempt.rs",
        &["SYS_open"],
        "the program's own system call",
    ),
    except(
        "crates/corehop-shim/src/preload/cpus.rs",
        &["SYS_open"],
        "a file of the kernel, to read",
    ),
    except(
        "crates/corehop-shim/src/preload/names.rs",
        &["O_CREAT", "O_TMPFILE"],
        "the program's own system call",
    ),
];

/// Words that bring text to stdout or stderr, or a path into a text as it is.
const TEXT: &[&str] = &[
    "println!(",
    "print!(",
    concat!("dbg", "!("),
    "io::stdout()",
    "io::stderr()",
    "error.exit()",
    "error.print()",
    "clippy::print_std",
    ".display()",
];

const TEXT_EXCEPTIONS: &[Exception] = &[
    except("crates/corehop/src/output/mod.rs", &["io::stdout()", "io::stderr()"], "the home"),
    except(
        "crates/corehop-shim/src/tally.rs",
        &[".display()"],
        "a crate without the core: the answer shows its reason as text of others",
    ),
    except(
        "crates/corehop-app/src/run/outputs.rs",
        &["io::stdout()"],
        "rows of Arrow, which are no text",
    ),
    except("crates/corehop/src/progress.rs", &["io::stderr()"], "only asks about the terminal"),
    except(
        "crates/corehop-linux/src/observe/target.rs",
        &["io::stderr()"],
        "the stdout of a program that is started",
    ),
    except(
        "crates/corehop-linux/src/offload/started.rs",
        &["io::stderr()"],
        "the stdout of a program that is started",
    ),
    except(
        "crates/corehop-system/src/supervisor/load.rs",
        &["io::stdout()", "io::stderr()"],
        "descriptors that the helper was handed",
    ),
    except(
        "crates/corehop-system/src/supervisor/whole.rs",
        &["io::stdout()"],
        "a descriptor that the helper was handed",
    ),
    except(
        "python/src/errors.rs",
        &[".display()"],
        "the file of an exception, which Python shows by its own rules",
    ),
    except(
        "python/src/file.rs",
        &[".display()"],
        "the file of a `repr`, which Python shows by its own rules",
    ),
];

/// Words that write a file, or text to standard error, in Python.
const PYTHON: &[&str] = &[
    ".write_text(",
    ".write_bytes(",
    "os.open(",
    "open(",
    "shutil.copy",
    "os.rename(",
    "stderr.write(",
];

const PYTHON_EXCEPTIONS: &[Exception] = &[
    except(
        "python/corehop/_files.py",
        &["os.open(", "open(", "os.rename(", "stderr.write("],
        "the home",
    ),
    except("python/corehop/_binary.py", &["open("], "os.pidfd_open, which opens no file"),
];

/// The forbidden words of a source, each with its line.
fn uses<'a>(text: &'a str, words: &[&'static str]) -> Vec<(&'static str, &'a str)> {
    let of_line = |line: &'a str| {
        words.iter().filter(move |word| line.contains(**word)).map(move |&word| (word, line))
    };
    code(text).into_iter().flat_map(of_line).collect()
}

/// Forbidden names that a source imports from `std::fs`.
fn imports(text: &str) -> Vec<&str> {
    let lists = text.split("use std::fs::").skip(1).filter_map(|rest| rest.split_once(';'));
    let names = lists.flat_map(|(list, _)| list.split(['{', '}', ',']));
    names
        .map(|name| name.split(" as ").next().unwrap_or_default().trim())
        .filter(|name| IMPORTS.contains(name))
        .collect()
}

/// Uses that no exception names, and exceptions that nothing uses.
fn wrong(
    sources: &[(String, String)],
    words: &[&'static str],
    exceptions: &[Exception],
) -> Vec<String> {
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for (path, text) in sources {
        let exception = exceptions.iter().find(|it| it.source == path);
        for (word, line) in uses(text, words) {
            if exception.is_some_and(|it| it.words.contains(&word)) {
                used.insert((path.as_str(), word));
            } else {
                wrong.push(format!("{path}: `{word}` in `{}`", line.trim()));
            }
        }
    }
    for Exception { source, words, reason } in exceptions {
        for word in words.iter().filter(|word| !used.contains(&(*source, **word))) {
            wrong.push(format!("{source}: does not use `{word}` ({reason}): remove the exception"));
        }
    }
    wrong
}

#[test]
fn every_file_is_made_in_one_home() {
    let sources = rust();
    let wrong = wrong(&sources, FILES, FILE_EXCEPTIONS);
    assert!(wrong.is_empty(), "write files by crates/corehop-app/src/file.rs: {wrong:#?}");
    for (path, text) in &sources {
        assert_eq!(imports(text), Vec::<&str>::new(), "{path}: write `fs::…`");
    }
}

#[test]
fn all_text_goes_to_a_terminal_by_one_way() {
    let wrong = wrong(&rust(), TEXT, TEXT_EXCEPTIONS);
    let remedy = "say text by crates/corehop/src/output/mod.rs, and paths by corehop_plan::shown";
    assert!(wrong.is_empty(), "{remedy}: {wrong:#?}");
}

#[test]
fn the_python_package_writes_files_and_says_text_in_one_home() {
    let sources = sources(&repository("python/corehop"), "py");
    let code = |text: &str| {
        let is_comment = |line: &&str| line.trim_start().starts_with('#');
        text.lines().filter(|line| !is_comment(line)).collect::<Vec<_>>().join("\n")
    };
    let sources: Vec<_> = sources.into_iter().map(|(path, text)| (path, code(&text))).collect();
    let wrong = wrong(&sources, PYTHON, PYTHON_EXCEPTIONS);
    assert!(wrong.is_empty(), "write files by python/corehop/_files.py: {wrong:#?}");
}

#[test]
fn a_planted_use_is_found_wherever_it_is_and_tests_are_exempt() {
    let plant = |text: &str| vec![("crates/x/src/x.rs".to_owned(), text.to_owned())];
    for (text, words) in [
        ("fn f() {\n    let file = File::create(path)?;\n}\n", FILES),
        ("    let file = OpenOptions::new().create(true).open(path);\n", FILES),
        ("    clap_mangen::generate_to(command, folder)?;\n", FILES),
        ("    std::fs::write(path, text)?; // Only once.\n", FILES),
        ("#[cfg(test)]\nmod tests {\n    fn a() {}\n}\n\nfn f() { fs::rename(a, b); }\n", FILES),
        ("#[cfg(test)]\nmod tests;\nfn f() { fs::rename(a, b); }\n", FILES),
        ("    eprintln!(\"{name}\");\n", TEXT),
        ("    writeln!(io::stderr(), \"{name}\").unwrap();\n", TEXT),
        ("    format!(\"{}: lost\", path.display())\n", TEXT),
        ("#[expect(clippy::print_stderr, reason = \"just here\")]\n", TEXT),
    ] {
        let sources = plant(text);
        assert_eq!(
            wrong(&sources, words, &[]).len(),
            1,
            "{text}: {:?}",
            wrong(&sources, words, &[])
        );
    }
    for text in [
        "// File::create follows links.\nfn f() {}\n",
        "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        fs::write(a, b);\n    }\n}\n",
        "#[cfg(test)]\nuse std::fs::File;\n#[cfg(test)]\nfn g() {\n    File::create(x);\n}\n",
        "    fs::symlink_metadata(path)?;\n    fs::remove_file(path)?;\n",
    ] {
        assert_eq!(wrong(&plant(text), FILES, &[]), Vec::<String>::new(), "{text}");
    }
    assert_eq!(
        imports("use std::fs::{self, File, write as put};\nuse std::fs::copy;\n"),
        ["write", "copy"]
    );
    assert_eq!(
        imports("use std::fs::{self, File};\nuse std::fmt::{self, Write};\n"),
        Vec::<&str>::new()
    );
}

#[test]
fn an_exception_holds_for_its_words_alone_and_must_be_used() {
    let sources =
        [("crates/x/src/x.rs".to_owned(), "fn f() {\n    fs::write(a, b);\n}\n".to_owned())];
    let one = |words| [except("crates/x/src/x.rs", words, "a file of the kernel")];
    assert_eq!(wrong(&sources, FILES, &one(&["fs::write"])), Vec::<String>::new());
    assert_eq!(wrong(&sources, FILES, &one(&["File::create"])).len(), 2);
    let tests = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\n#[path = \"c_tests.rs\"]\nmod c;\n";
    assert_eq!(
        test_modules("crates/x/src/y.rs", tests),
        ["crates/x/src/y/b.rs", "crates/x/src/y/b/mod.rs", "crates/x/src/c_tests.rs"]
    );
}
