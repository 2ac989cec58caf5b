// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of the usual harness, for test programs that need a `main` of their own because their processes
//! start themselves anew.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

/// A test that is missing in the list is dead code, of which the compiler warns.
macro_rules! tests {
    ($($test:path,)*) => { &[$((stringify!($test), $test)),*] };
}
pub(crate) use tests;

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// Runs the tests whose name contains one of `filters` (with `--exact`: is one of them), `at_once` at a time. With
/// `--list` it only prints the names, as the usual harness does.
pub(crate) fn report(all: &[Test], filters: &[String], at_once: usize) -> ExitCode {
    let (options, words): (Vec<&String>, Vec<_>) =
        filters.iter().partition(|word| word.starts_with('-'));
    let has = |option: &str| options.iter().any(|it| *it == option);
    if has("--list") {
        for (name, _) in all {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let fits =
        |name: &str, word: &str| if has("--exact") { name == word } else { name.contains(word) };
    let chosen = |name: &str| words.is_empty() || words.iter().any(|word| fits(name, word));
    let tests: Vec<_> = all.iter().filter(|(name, _)| chosen(name)).collect();
    let (queue, failed) = (Mutex::new(tests.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                let next = || queue.lock().unwrap().next();
                while let Some((name, test)) = next() {
                    let ran = thread::Builder::new().name((*name).into()).spawn(*test).unwrap();
                    let verdict = if ran.join().is_ok() { "ok" } else { "FAILED" };
                    println!("test {name} ... {verdict}");
                    if verdict != "ok" {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("test result: {} passed; {} failed", tests.len() - failed.len(), failed.len());
    for name in &failed {
        println!("    {name}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// No silent skip: a test that cannot run here says why.
pub(crate) fn skipped(reason: &str) {
    let test = thread::current();
    eprintln!("skipped: {}: {reason}", test.name().unwrap_or_default());
}
