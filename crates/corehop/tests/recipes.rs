// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recipes of the documents run as they are printed: every block of two commands or more, or whose file a later block
//! may read, from a folder that has nothing but `examples` and `studies`, and every command ends in an answer (exit code 0
//! or 1). `tests/questions.rs` does so for the recipes of the README.
//!
//! To keep this short, a live experiment is run on a simulated machine with few cells, and a study draws few sets. What the
//! reader brings along (a process, a program, a trace, a description of the host) is put there by [`bring`]. What cannot run
//! here at all is listed in [`NOT_RUN`] with the reason.

#![allow(clippy::print_stdout, reason = "a test program reports")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use corehop_fixtures::repository;
use tempfile::TempDir;

use recipe::{run, short};

mod recipe;

/// Blocks that do not run here: the document, the beginning of the first command, the reason.
const NOT_RUN: [(&str, &str, &str); 1] = [(
    "docs/guide/simulating.md",
    "corehop sim calibrate",
    "three live minutes, and as many to validate: tests/calibrated runs both on a described host",
)];

/// Every document with recipes, by its path.
fn documents() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    let folders =
        ["tutorials", "guide", "concepts", "questions", "reference"].map(|it| format!("docs/{it}"));
    for folder in folders.into_iter().chain(["docs".to_owned()]) {
        let files = fs::read_dir(repository(&folder)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let is_page = |name: &String| Path::new(name).extension().is_some_and(|it| it == "md");
        let pages = names.filter(is_page);
        paths.extend(pages.map(|name| format!("{folder}/{name}")));
    }
    let read = |path: String| {
        let text = fs::read_to_string(repository(&path)).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// The programs that recipes call.
const CALLED: [&str; 2] = ["corehop ", "mkdir "];

/// The commands of each block that is part of a chain: indented lines, or lines of a console, that are not parted by an empty line.
fn blocks(text: &str) -> Vec<Vec<String>> {
    let mut blocks = vec![Vec::new()];
    let mut goes_on = false;
    for line in text.lines() {
        let command = line.strip_prefix("    ").or_else(|| line.strip_prefix("$ "));
        let command = command.map(str::trim_end).filter(|_| !line.trim().is_empty());
        let Some(command) = command else {
            blocks.push(Vec::new());
            continue;
        };
        let (whole, more) = (command.trim_end_matches('\\'), command.ends_with('\\'));
        let last: &mut Vec<String> = blocks.last_mut().unwrap();
        match last.last_mut().filter(|_| goes_on) {
            Some(before) => *before = format!("{before} {}", whole.trim()),
            None => last.push(whole.trim_end().to_owned()),
        }
        goes_on = more;
    }
    let typed = |line: &String| {
        let line = line.trim_start_matches("sudo ").split("  #").next().unwrap_or_default();
        CALLED.iter().any(|it| line.starts_with(it)).then(|| line.trim().to_owned())
    };
    let of = |block: Vec<String>| block.iter().filter_map(typed).collect::<Vec<String>>();
    let chained =
        |block: &Vec<String>| block.len() > 1 || block.iter().any(|it| it.contains(" -o "));
    blocks.into_iter().map(of).filter(chained).collect()
}

/// Whether the answer needs rights or a kernel that this host may lack (exit code 3).
fn needs_a_host(command: &str) -> bool {
    ["corehop record", "corehop measure overheads", "corehop place"]
        .iter()
        .any(|it| command.starts_with(it))
}

/// A folder that has nothing but what the repository gives.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for name in ["examples", "studies"] {
        let given = repository(name).canonicalize().unwrap();
        std::os::unix::fs::symlink(given, folder.path().join(name)).unwrap();
    }
    folder
}

/// A program of the reader: two processes that hand lines to each other and count them in `count.txt`, for a second or two.
const PROGRAM: &str = "#!/bin/sh
exec 2>/dev/null
i=0
while [ $i -lt 200 ]; do i=$((i+1)); echo $i; sleep 0.01; done |
while read -r n; do echo \"$n\" > count.$$; mv count.$$ count.txt; done
";

/// Puts there the things that the reader has before the recipes of a document: a program, its trace, a study as printed, and a description of a host.
fn bring(folder: &Path, text: &str) {
    let program = folder.join("program");
    fs::write(&program, PROGRAM).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("count.txt"), "0\n").unwrap();
    let access = |n: u32| format!(" L {:x},8\n", 0x10_0000 + n % 4_096 * 64);
    let trace: String = (0..20_000).map(access).collect();
    fs::write(folder.join("gzip.lackey"), trace).unwrap();
    let overheads = "TASK-COUNT,CXS,SCHEDULE,TICK,RELEASE,RELEASE-LATENCY,IPI-LATENCY\n10,2,3,4,5,6,7\n50,3,4,5,6,7,8\n";
    fs::write(folder.join("overheads.csv"), overheads).unwrap();
    if let Some(study) = text.split("```toml\n").nth(1).and_then(|it| it.split("```").next()) {
        fs::write(folder.join("pairs.toml"), study).unwrap();
    }
    let host = repository("platforms/xeon_x5650.toml");
    fs::copy(host, folder.join("host.toml")).unwrap();
}

/// The reader's process, 4711 in the documents, and its socket of progress: they last as long as this.
struct Reader(Child);

impl Reader {
    fn start(folder: &Path) -> Self {
        let listener = UnixListener::bind(folder.join("app.progress")).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = stream;
                for n in 0..300 {
                    if writeln!(stream, "{n}").is_err() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        });
        let endless = "while :; do ./program; done";
        Self(Command::new("sh").args(["-c", endless]).current_dir(folder).spawn().unwrap())
    }

    /// The command about this process.
    fn named(&self, command: &str) -> String {
        command.replace("4711", &self.0.id().to_string()).replace("/run/app", "app")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn not_run(document: &str, block: &[String]) -> bool {
    NOT_RUN.iter().any(|(of, begins, _)| *of == document && block[0].starts_with(begins))
}

/// Whether a command would write a file that an earlier block has written.
fn repeats(folder: &Path, command: &str) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut written = words.windows(2).filter(|pair| ["-o", ">"].contains(&pair[0]));
    written.any(|pair| folder.join(pair[1]).exists())
}

/// Runs a command of a recipe; what is wrong with its end.
fn follow(document: &str, folder: &Path, command: &str) -> Option<String> {
    let begun = std::time::Instant::now();
    let reader = command.contains("4711").then(|| Reader::start(folder));
    let typed = reader.as_ref().map_or_else(|| command.to_owned(), |it| it.named(command));
    let output = run(folder, &typed);
    let said = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    let lacks = code == Some(3) && needs_a_host(command);
    let answered = matches!(code, Some(0 | 1)) || lacks;
    println!("{document}: {code:?} after {:?}: {typed}", begun.elapsed());
    let _gone = fs::remove_file(folder.join("app.progress"));
    (!answered).then(|| format!("{document}: `{typed}` ended with {code:?}: {said}"))
}

/// Runs the recipes of all documents. A block goes on in the folder of the block before, unless one of the two writes the same
/// files.
fn run_all() {
    let mut wrong = Vec::new();
    for (document, text) in &documents() {
        let fresh = || {
            let folder = folder();
            bring(folder.path(), text);
            folder
        };
        let mut here = fresh();
        for block in blocks(text).iter().filter(|block| !not_run(document, block)) {
            if block.iter().any(|command| repeats(here.path(), command)) {
                here = fresh();
            }
            let for_this_host = block.iter().any(|command| command.contains("--default"));
            for command in block {
                wrong.extend(follow(document, here.path(), &short(command, for_this_host)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_recipes_of_the_guide_run_to_their_last_line() {
    run_all();
}

#[test]
fn every_recipe_that_does_not_run_is_in_the_documents() {
    let all = documents();
    for (document, begins, why) in NOT_RUN {
        let text = &all.iter().find(|(path, _)| path == document).unwrap().1;
        let found = blocks(text).iter().any(|block| block[0].starts_with(begins));
        assert!(found, "{document} has no recipe `{begins}` ({why})");
    }
}

#[test]
fn a_block_is_what_is_typed_without_comments_prompts_and_line_ends() {
    let text = "text\n\n    corehop a b      # why\n    corehop c \\\n      -o d\n\n    corehop alone\n\n$ sudo corehop e\n$ corehop f\n";
    let expected = [["corehop a b", "corehop c -o d"], ["corehop e", "corehop f"]];
    assert_eq!(blocks(text), expected.map(|it| it.map(ToOwned::to_owned).to_vec()));
}
