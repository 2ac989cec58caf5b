// SPDX-License-Identifier: MIT OR Apache-2.0
//! One mutant: the tests that reach it, the cheapest first, until the first failure.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::compile::TestProgram;
use crate::process::{self, TestEnd};
use crate::suite::{self, TestReach};

/// Tests of a program that take at most this long alone run together, in seconds; others run one by one.
const QUICK: f64 = 1.0;

/// The verdict of the tests on a mutant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(crate) enum MutantFate {
    /// A test failed, and failed again alone.
    Caught { by: String },
    /// Tests took several times as long as without the mutant.
    TimedOut { by: String },
    /// All tests that reach the mutant passed.
    Survived { passed: usize },
    /// No test reaches the mutant.
    NotExecuted,
}

impl MutantFate {
    pub(crate) fn is_caught(&self) -> bool {
        matches!(self, Self::Caught { .. } | Self::TimedOut { .. })
    }
}

/// The tests of one program that run together.
#[derive(Debug, PartialEq)]
struct TestBatch<'a> {
    program: &'a TestProgram,
    tests: Vec<&'a str>,
    /// The time that the tests take one after the other without a mutant.
    seconds: f64,
    is_slow: bool,
}

/// The tests of the workspace with what they reach, and the time that they may take with a mutant.
#[derive(Debug)]
pub(crate) struct Court<'a> {
    pub programs: &'a [TestProgram],
    pub reaches: &'a [TestReach],
    /// The time that a test may take in any case; three times its usual time comes on top.
    pub patience: Duration,
}

impl Court<'_> {
    /// Runs the tests that reach a mutant.
    pub(crate) fn judge(&self, number: u32) -> Result<MutantFate> {
        let batches = self.batches(number);
        if batches.is_empty() {
            return Ok(MutantFate::NotExecuted);
        }
        let tests = batches.iter().map(|batch| batch.tests.len()).sum();
        for batch in batches {
            let fate = self.ask(number, batch)?;
            if let Some(fate) = fate {
                return Ok(fate);
            }
        }
        Ok(MutantFate::Survived { passed: tests })
    }

    /// Runs a batch until a test fails twice. A test that fails once and passes when asked again is left out: some tests
    /// depend on the machine.
    fn ask(&self, number: u32, mut batch: TestBatch<'_>) -> Result<Option<MutantFate>> {
        while !batch.tests.is_empty() {
            let by = |test: &str| format!("{} {test}", batch.program.name);
            match self.run(number, &batch)? {
                TestEnd::Passed => return Ok(None),
                TestEnd::TimedOut => {
                    return Ok(Some(MutantFate::TimedOut { by: by(batch.tests[0]) }));
                }
                TestEnd::Failed(Some(test)) => {
                    let alone = batch.alone(&test);
                    // Once may be chance; a race may need a second try.
                    for _ in 0..2 {
                        if self.run(number, &alone)? != TestEnd::Passed {
                            return Ok(Some(MutantFate::Caught { by: by(&test) }));
                        }
                    }
                    batch.tests.retain(|name| **name != test);
                    if batch.tests.len() == alone.tests.len() {
                        return Ok(None);
                    }
                }
                TestEnd::Failed(None) => {
                    let again = self.run(number, &batch)? != TestEnd::Passed;
                    return Ok(again.then(|| MutantFate::Caught { by: by(batch.tests[0]) }));
                }
            }
        }
        Ok(None)
    }

    fn run(&self, number: u32, batch: &TestBatch<'_>) -> Result<TestEnd> {
        let mut command = suite::command(batch.program, &batch.tests);
        command.env("COREHOP_MUTANT", number.to_string());
        let limit = self.patience + Duration::from_secs_f64(3.0 * batch.seconds);
        Ok(process::run(&mut command, limit)?.way)
    }

    /// The tests that reach a mutant, in the order in which they run.
    fn batches(&self, number: u32) -> Vec<TestBatch<'_>> {
        let mut found: BTreeMap<&str, Vec<&TestReach>> = BTreeMap::new();
        for reach in
            self.reaches.iter().filter(|reach| reach.passes && reach.numbers.contains(&number))
        {
            found.entry(&reach.program).or_default().push(reach);
        }
        let mut batches = Vec::new();
        for program in self.programs {
            let tests = found.remove(program.name.as_str()).unwrap_or_default();
            let (quick, slow): (Vec<_>, Vec<_>) =
                tests.into_iter().partition(|reach| reach.seconds <= QUICK);
            batches.push(TestBatch::of(program, &quick, false));
            batches.extend(slow.iter().map(|reach| TestBatch::of(program, &[*reach], true)));
        }
        batches.retain(|batch| !batch.tests.is_empty());
        batches.sort_by(|one, other| {
            let rank = |batch: &TestBatch<'_>| (batch.is_slow, !batch.program.is_unit);
            rank(one).cmp(&rank(other)).then(one.seconds.total_cmp(&other.seconds))
        });
        batches
    }
}

impl<'a> TestBatch<'a> {
    fn of(program: &'a TestProgram, reaches: &[&'a TestReach], is_slow: bool) -> Self {
        let tests = reaches.iter().map(|reach| reach.test.as_str()).collect();
        Self { program, tests, seconds: reaches.iter().map(|reach| reach.seconds).sum(), is_slow }
    }

    fn alone<'b>(&self, test: &'b str) -> TestBatch<'b>
    where
        'a: 'b,
    {
        TestBatch { tests: vec![test], ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, is_unit: bool) -> TestProgram {
        TestProgram { name: name.to_owned(), is_unit, path: "/p".into(), folder: "/".into() }
    }

    fn reach(program: &str, test: &str, seconds: f64, numbers: &[u32]) -> TestReach {
        TestReach {
            program: program.to_owned(),
            test: test.to_owned(),
            seconds,
            passes: test != "broken",
            numbers: numbers.iter().copied().collect(),
        }
    }

    #[test]
    fn quick_unit_tests_come_first_and_slow_tests_run_last_and_alone() {
        let programs = [program("whole", false), program("unit", true), program("small", false)];
        let reaches = [
            reach("whole", "a", 0.5, &[1, 2]),
            reach("whole", "b", 0.2, &[1]),
            reach("whole", "slow", 30.0, &[1]),
            reach("unit", "c", 0.9, &[1]),
            reach("unit", "heavy", 1.5, &[1]),
            reach("unit", "broken", 0.1, &[1, 3]),
            reach("small", "d", 0.1, &[1]),
            reach("small", "e", 0.1, &[2]),
        ];
        let patience = Duration::from_secs(1);
        let court = Court { programs: &programs, reaches: &reaches, patience };
        let batches = |number| {
            let tests = court.batches(number).into_iter().map(|batch| batch.tests);
            tests.collect::<Vec<_>>()
        };
        assert_eq!(batches(1), [vec!["c"], vec!["d"], vec!["a", "b"], vec!["heavy"], vec!["slow"]]);
        assert_eq!(batches(2), [["e"], ["a"]]);
        assert_eq!(court.judge(3).unwrap(), MutantFate::NotExecuted, "its test fails anyway");
    }

    /// A program that fails as the script says, whatever its arguments are.
    fn judged(script: &str) -> MutantFate {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tests");
        // A shell writes the script: a program that this process has open for writing cannot be started.
        let write = "printf '#!/bin/sh\\n%s\\n' \"$0\" > \"$1\" && chmod +x \"$1\"";
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", write, script]).arg(&path).status().unwrap().success());
        let programs = [TestProgram { path, folder: folder.path().into(), ..program("p", true) }];
        let reaches = [reach("p", "a", 0.01, &[1]), reach("p", "b", 0.01, &[1])];
        let patience = Duration::from_millis(1500);
        Court { programs: &programs, reaches: &reaches, patience }.judge(1).unwrap()
    }

    #[test]
    fn a_mutant_is_caught_only_by_a_test_that_fails_again() {
        let caught = MutantFate::Caught { by: "p b".to_owned() };
        assert_eq!(judged("echo 'test b ... FAILED'; exit 101"), caught);
        let once = "test -e mark || { echo x > mark; echo 'test b ... FAILED'; }";
        assert_eq!(judged(once), MutantFate::Survived { passed: 2 });
        assert_eq!(judged("exit 0"), MutantFate::Survived { passed: 2 });
        assert_eq!(judged("test $COREHOP_MUTANT = 1"), MutantFate::Survived { passed: 2 });
        assert_eq!(judged("kill -ABRT $$"), MutantFate::Caught { by: "p a".to_owned() });
        assert_eq!(judged("sleep 30"), MutantFate::TimedOut { by: "p a".to_owned() });
    }
}
