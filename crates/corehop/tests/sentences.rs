// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every verb ends with a sentence: first on stdout in a pipe, last on a terminal, on stderr where stdout carries data.
#![expect(clippy::print_stdout, reason = "what is skipped says why")]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_corehop");

/// The stream of the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    /// Text for people on stdout, the sentence with it.
    Stdout,
    /// Data on stdout, the sentence on stderr.
    Stderr,
}

/// Lines of words for every verb; `Q` is a file of samples, `SET` a task set, `NEW` a name that is new each time.
const WALK: &[(&str, On)] = &[
    ("advise Q", On::Stdout),
    ("advise Q --json", On::Stderr),
    ("check SET", On::Stdout),
    ("check SET --json", On::Stderr),
    ("check SET --test all", On::Stdout),
    ("check SET --test all --json", On::Stderr),
    ("check SET --test all --scheduler p-edf", On::Stdout),
    ("compare Q Q", On::Stdout),
    ("compare Q Q --json", On::Stderr),
    ("help --completions bash", On::Stderr),
    ("convert rt-app SET", On::Stderr),
    ("convert rt-app SET -o NEW", On::Stdout),
    ("convert rows Q -o NEW.parquet", On::Stdout),
    ("doctor --sysfs-root HOST", On::Stdout),
    ("doctor --sysfs-root HOST --json", On::Stderr),
    ("help p99", On::Stdout),
    ("advise fit Q", On::Stdout),
    ("advise fit Q -o NEW.json --json", On::Stderr),
    ("help --man NEW", On::Stdout),
    ("measure synthetic --on xeon_l7455 --dry-run", On::Stdout),
    ("measure synthetic --on xeon_l7455 --dry-run --json", On::Stderr),
    (
        "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 4 -o NEW.parquet",
        On::Stdout,
    ),
    (
        "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 4 -o NEW.parquet --json",
        On::Stderr,
    ),
    ("measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 4 --stream", On::Stderr),
    (
        "offload simulate --on epyc_7313 --os-cores 1 --policy af --threads 2 --mechanism v4",
        On::Stdout,
    ),
    (
        "offload simulate --on epyc_7313 --os-cores 1 --policy af --threads 2 --mechanism v4 --json",
        On::Stderr,
    ),
    ("sim platform xeon_l7455", On::Stdout),
    ("sim platform xeon_l7455 --json", On::Stderr),
    ("place simulate --on xeon_e5520 --pairs 1", On::Stdout),
    ("place simulate --on xeon_e5520 --pairs 1 --json", On::Stderr),
    ("advise predict Q --wss 4KiB", On::Stdout),
    ("advise predict Q --wss 4KiB --json", On::Stderr),
    ("try --duration 2s -- sleep 0.6", On::Stdout),
    ("try --duration 2s --json -- sleep 0.6", On::Stderr),
    ("report Q", On::Stdout),
    ("report Q -o NEW.html", On::Stdout),
    ("report Q --table text", On::Stdout),
    ("report Q --table csv", On::Stderr),
    ("report Q --table json", On::Stderr),
    ("report SWITCH --table text", On::Stdout),
    ("report SWITCH --table json", On::Stderr),
    ("compare SWITCH SWITCH", On::Stdout),
    ("report contents SWITCH", On::Stdout),
    ("report contents Q", On::Stdout),
    ("report contents Q --json", On::Stderr),
    ("report contents Q --plan", On::Stderr),
    ("report contents Q --rows 2", On::Stderr),
    ("check study FIG5 --sets 2", On::Stdout),
    ("check study FIG5 --sets 2 --json", On::Stderr),
    ("sim validate waechtler-a4 --wss 4KiB --samples 2", On::Stdout),
    ("sim validate waechtler-a4 --wss 4KiB --samples 2 --json", On::Stderr),
];

/// A folder with the files of [`WALK`].
struct Scene(TempDir);

impl Scene {
    fn new() -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        let path = |name: &str| scene.0.path().join(name);
        fs::write(path("SET"), r#"{"cpus": 1, "tasks": [{"wcet_us": 1000, "period_us": 10000}]}"#)
            .unwrap();
        fs::create_dir_all(path("HOST/sys/devices/system/cpu")).unwrap();
        fs::write(path("HOST/sys/devices/system/cpu/present"), "0-1\n").unwrap();
        for run in [
            "measure synthetic --on xeon_l7455 --wss 4KiB --load idle --samples 4 -o Q",
            "measure core-switch --on xeon_l7455 --pair 0:1 --samples 4 -o SWITCH",
        ] {
            let made = scene.run(run);
            assert_eq!(made.status.code(), Some(0), "{made:?}");
        }
        scene
    }

    /// The words of a line, with the names of its files.
    fn words(line: &str, number: usize) -> Vec<String> {
        let fig5 = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/bastoni-fig5");
        let named = |word: &str| match word {
            "FIG5" => fig5.to_owned(),
            word => word.replace("NEW", &format!("new-{number}")),
        };
        line.split(' ').map(named).collect()
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("HOME", self.0.path());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(&Self::words(line, 0)).output().unwrap()
    }
}

/// The lines before the first empty one, as one text.
fn paragraph(text: &str) -> String {
    text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn is_sentence(text: &str) -> bool {
    // The answer to a question begins with the answer.
    let is_answer =
        ["yes: ", "no: ", "unknown: ", "survey: "].iter().any(|it| text.starts_with(it));
    (text.ends_with('.') || is_answer)
        && text.split_whitespace().count() >= 3
        && !text.contains("  ")
}

#[test]
fn in_a_pipe_the_sentence_stands_first_and_beside_data_it_is_on_stderr() {
    let scene = Scene::new();
    for (number, &(line, on)) in WALK.iter().enumerate() {
        let words = Scene::words(line, number);
        let output = scene.command(&words).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{line}: {output:?}");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        match on {
            On::Stdout => {
                let first = paragraph(&out);
                assert!(is_sentence(&first), "{line}: {out}\n{err}");
                let fits =
                    |it: &str| it.chars().count() <= 100 || it.trim_start().starts_with("corehop ");
                assert!(first.len() < 800 && out.lines().all(fits), "{line}: {out}");
            }
            On::Stderr => {
                assert!(!out.is_empty() && !is_sentence(&paragraph(&out)), "{line}: {out}");
                let said = err.lines().collect::<Vec<_>>().join(" ");
                assert!(is_sentence(&said), "{line}: {err}");
            }
        }
        if on == On::Stderr && (line.contains("json") || line.contains("--plan")) {
            let data = serde_json::from_slice::<serde_json::Value>(&output.stdout);
            assert!(data.is_ok(), "{line}: {out}");
        }
    }
}

#[test]
fn on_a_terminal_the_sentence_stands_last() {
    let scene = Scene::new();
    let on_stdout = WALK.iter().enumerate().filter(|(_, it)| it.1 == On::Stdout);
    for (number, &(line, _)) in on_stdout.filter(|(_, it)| !it.0.contains("NEW")) {
        let words = Scene::words(line, number);
        let piped = String::from_utf8(scene.command(&words).output().unwrap().stdout).unwrap();
        let sentence = paragraph(&piped);
        let sent = scene.0.path().join("sent");
        let typed = format!("stty cols 100 rows 40; '{PROGRAM}' {}", words.join(" "));
        let script = Command::new("script")
            .args(["-q", "-c", &typed])
            .arg(&sent)
            .current_dir(scene.0.path())
            .env("TERM", "dumb")
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .status();
        if let Err(error) = script {
            println!("skipped: the order on a terminal (script, of util-linux: {error})");
            return;
        }
        let sent = String::from_utf8_lossy(&fs::read(&sent).unwrap()).into_owned();
        let shown: Vec<&str> = sent.lines().filter(|it| !it.starts_with("Script ")).collect();
        let shown = shown.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.ends_with(&sentence), "{line}: {sent}");
    }
}

#[test]
fn no_verb_is_left_out_of_the_walk() {
    let help = Command::new(PROGRAM).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let verbs = lines.filter(|line| !line.starts_with("    "));
    let verbs: BTreeSet<&str> = verbs.filter_map(|line| line.split_whitespace().next()).collect();
    let walked = WALK.iter().filter_map(|(line, _)| line.split(' ').next());
    let walked: BTreeSet<&str> = walked.chain(["record"]).collect();
    assert_eq!(verbs, walked, "of a recording the program's tests look at the answer");
}

/// The one place of text on stdout is `output::answer`, which knows where the sentence stands.
#[test]
fn no_verb_prints_past_its_sentence() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut folders = vec![std::path::PathBuf::from(root)];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let prints = fs::read_to_string(&path).unwrap();
            let calls = |line: &str| {
                let code = line.split("//").next().unwrap_or_default();
                let call = code.find("print(");
                call.is_some_and(|at| {
                    !code[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_')
                })
            };
            if prints.lines().any(calls) && !name.starts_with("output/") {
                found.push(name);
            }
        }
    }
    // The answer about a program goes to stdout while the program's own output goes to stderr.
    found.retain(|name| name != "cmd/record/answer.rs");
    assert_eq!(found, Vec::<String>::new());
}
