// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop place` beside a program, or with a command of its own, and its answer.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::running::{Running, silent, threads};
use crate::Fallible;
use crate::packages::Started;

/// A placer beside a program.
pub(crate) struct Placer {
    process: Started,
    /// Its output: its answer, and what it says.
    folder: TempDir,
}

impl Placer {
    /// Starts one that only watches.
    pub(crate) fn watching(program: &Running) -> Fallible<Self> {
        // Without a time it would end with its advice.
        Self::begin(program, &["--dry-run", "--for", "3600s"].map(OsStr::new))
    }

    /// Starts one that places, with more options.
    pub(crate) fn placing(program: &Running, more: &[&str]) -> Fallible<Self> {
        let mut options: Vec<&OsStr> = more.iter().map(OsStr::new).collect();
        options.extend([OsStr::new("--progress"), program.progress()]);
        Self::begin(program, &options)
    }

    fn begin(program: &Running, options: &[&OsStr]) -> Fallible<Self> {
        let folder = tempfile::Builder::new().prefix("corehop-place-").tempdir()?;
        let file = |name| File::create(folder.path().join(name));
        let mut command = Command::new(corehop_benches::PROGRAM);
        command.args(["place", "--json"]).args(options);
        command.args(program.pids().iter().map(ToString::to_string));
        silent(&mut command).stdout(file("answer")?).stderr(file("said")?);
        Ok(Self { process: Started::of(&mut command)?, folder })
    }

    /// The CPU time that it has used, in seconds.
    pub(crate) fn cpu_s(&self) -> Fallible<f64> {
        let mut ns = 0.0;
        for tid in threads(self.process.pid()) {
            let path = format!("/proc/{}/task/{tid}/schedstat", self.process.pid());
            let text = fs::read_to_string(path)?;
            ns += text.split_whitespace().next().unwrap_or("0").parse::<f64>()?;
        }
        Ok(ns * 1e-9)
    }

    /// Ends it as Ctrl-C does, so that it puts everything back; its answer.
    pub(crate) fn end(mut self) -> Fallible<Value> {
        let early = self.process.ended()?.is_some();
        if !self.process.end(libc::SIGINT) {
            return Err("the placer does not end".into());
        }
        let read = |name| fs::read_to_string(self.folder.path().join(name));
        match serde_json::from_str(&read("answer")?) {
            Ok(answer) if !early => Ok(answer),
            _ => Err(format!("the placer has ended: {}", read("said")?).into()),
        }
    }
}

/// The answer of a placer with these words, which ends by itself.
pub(crate) fn answer(command: &mut Command) -> Fallible<Value> {
    let output = command.output()?;
    if output.stdout.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
