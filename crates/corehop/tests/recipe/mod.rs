// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recipes of the documents: the short form of a command, and a shell that runs the command as a reader does.

use std::path::Path;
use std::process::{Command, Output};

/// A command with what makes it short: a simulated machine in place of this host, and few cells and samples.
/// `here` runs it on this host all the same.
pub(crate) fn short(command: &str, here: bool) -> String {
    let many = ["--samples 500", "--precision 5%", "--preset bastoni", "--preset quick"];
    let command = many.iter().fold(command.to_owned(), |it, many| it.replace(many, ""));
    let command =
        command.replace("-- make -j4", "-- true").replace("make -C ~/linux -j1", "sleep 1");
    let with = |more: &[&str]| {
        let given = |it: &&&str| command.contains(it.split(' ').next().unwrap_or_default());
        let missing: Vec<&str> = more.iter().filter(|it| !given(it)).copied().collect();
        format!("{command} {} -q", missing.join(" "))
    };
    let on = "--on xeon_x5650";
    let experiment = command.strip_prefix("corehop measure ").unwrap_or_default();
    match experiment.split(' ').next().unwrap_or_default() {
        // A program of the reader runs on this host alone.
        "synthetic" if command.contains("--load realistic") => {
            let cells = ["--event preemption", "--wss 16KiB", "--length 1ms", "--samples 2"];
            with(&[&cells[..], &["--replicates 2"]].concat())
        }
        // Costs are kept for this host alone.
        "synthetic" if here => {
            let cells = ["--event idle_leave", "--wss 16KiB", "--length 1ms", "--samples 20"];
            with(&[&cells[..], &["--load idle"]].concat())
        }
        "synthetic" if command.contains("--from-trace") => {
            with(&["--event idle_leave,preemption", "--length 4ms", "--samples 4"])
                .replace("--trace-skip 5000000", "--trace-skip 5000")
        }
        // Polluters take most of the time.
        "synthetic"
            if ["constructed", "changing", "dma", "buslock"]
                .iter()
                .any(|it| command.contains(it)) =>
        {
            with(&[on, "--wss 16KiB", "--event preemption", "--length 1ms", "--samples 4"])
        }
        "synthetic" => {
            let events = "--event idle_leave,preemption,l3_migration,memory_migration";
            let sizes = "--wss 16KiB,64KiB,256KiB";
            with(&[on, "--load idle", sizes, events, "--length 4ms", "--samples 12"])
        }
        "access-time" => with(&[on, "--wss 16KiB,256KiB", "--samples 4"]),
        "conditions" => with(&[on, "--wss 64KiB", "--load idle", "--samples 180"]),
        "overheads" if command.contains("--tasks") => with(&["--duration 200ms"]),
        "overheads" => with(&["--budget 5s", "--no-bpf"]),
        // A command is behind `--`.
        "program-costs" => {
            let block = if command.contains("--progress") { "--block 20ms" } else { "" };
            let few = format!(" --rounds 1 --event preemption {block} -q -- ");
            command.replacen(" -- ", &few, 1)
        }
        "supply" => with(&["--watched 400ms"]),
        "schedule-sensitive" => {
            with(&[on, "--sampled", "--wss 64KiB", "--load idle", "--sets 1", "--duration 200ms"])
                .replace("--tasks 20,50", "--tasks 6")
                .replace("--duration 10s", "--duration 200ms")
        }
        "shared-data" => {
            with(&["--on xeon_e5520", "--program swap", "--items 500,1k,2k", "--samples 2"])
                .replace("--items 100,10k,1M", "--items 100,1k")
        }
        "core-switch" => with(&[on, "--samples 4"]),
        _ if command.starts_with("corehop check study merge") => command,
        _ if command.starts_with("corehop check study") => format!("{command} --sets 20"),
        _ if command.starts_with("corehop advise simulate --on") => {
            format!("{command} --wss 64KiB --idle --samples 8")
        }
        _ if command.starts_with("corehop measure platform") => {
            command.replace("measure platform", "sim platform xeon_x5650")
        }
        _ if command.starts_with("corehop place simulate --on") && !command.contains("--pairs") => {
            format!("{command} --pairs 1")
        }
        _ if command.starts_with("corehop place") && command.ends_with("4711") => {
            format!("{command} --for 1s")
        }
        _ => command,
    }
}

/// Runs a command by a shell in a folder, as the reader does.
pub(crate) fn run(folder: &Path, command: &str) -> Output {
    run_by(Path::new(env!("CARGO_BIN_EXE_corehop")), folder, command)
}

/// Runs a command by a shell in a folder, where `corehop` is this binary.
pub(crate) fn run_by(corehop: &Path, folder: &Path, command: &str) -> Output {
    let binary = corehop.parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).env("PATH", path);
    shell.env("XDG_DATA_HOME", folder.join("home")).output().unwrap()
}
