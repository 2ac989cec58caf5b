// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan to record an unmodified program: the absences of its threads.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plan::Plan;
use super::{Experiment, ExperimentError, Turn, Unit};
use crate::platform::Platform;
use crate::units::Nanos;

/// The recording of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The program.
    pub target: Target,
    /// Whether its working set is estimated from the pages that it touches.
    #[serde(default)]
    pub estimate_wss: bool,
}

/// The threads to follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A command with its arguments, from its start to its end.
    Command(Vec<Argument>),
    /// A process and its descendants, until it ends.
    Process(u32),
    /// The processes of a cgroup and their descendants, until it is removed.
    Cgroup(PathBuf),
}

/// One argument of a command: text, or its bytes if they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// UTF-8.
    Text(String),
    /// Other bytes.
    Bytes(Vec<u8>),
}

impl Argument {
    /// The argument with these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|not| Self::Bytes(not.into_bytes()), Self::Text)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes.as_slice(),
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.bytes()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => {
                let words: Vec<String> = words.iter().map(ToString::to_string).collect();
                f.write_str(&words.join(" "))
            }
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
        }
    }
}

impl Program {
    /// Its unit: one run of unknown length.
    pub(super) fn unit(&self) -> Unit {
        Unit { name: self.target.to_string(), asked: 1, each: Nanos::default() }
    }
}

impl Experiment for Program {
    fn name(&self) -> &'static str {
        "program"
    }

    fn parameters(&self) -> Value {
        serde_json::json!(self)
    }

    /// One replicate: a program runs once.
    fn replicates(&self) -> Option<u32> {
        Some(1)
    }

    fn units(&self, _: &Platform, _: u64) -> Result<Vec<Unit>, ExperimentError> {
        Ok(vec![self.unit()])
    }

    fn block(&self, _: &Platform, seed: u64, _: Turn, _: &[u32]) -> Result<Plan, ExperimentError> {
        Ok(Plan::new(self.name(), seed, self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_is_not_text_survives_the_plan() {
        let words = [b"xz".to_vec(), vec![0xff, b'a'], b"caf\xc3\xa9".to_vec()];
        let target = Target::Command(words.iter().cloned().map(Argument::new).collect());
        let plan = Plan::new("program", 1, Program { target, estimate_wss: true });
        let again = Plan::from_json(&plan.to_json()).unwrap();
        assert_eq!(again, plan);
        let program = again.program().unwrap();
        let Target::Command(again) = &program.target else { unreachable!("a command") };
        assert!(again.iter().map(Argument::bytes).eq(words.iter().map(Vec::as_slice)));
        assert_eq!(program.target.to_string(), "xz \u{fffd}a café");
    }
}
