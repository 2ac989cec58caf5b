// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs that are known: do the ties lie on them, and is a program without any left alone?

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::placer::answer;
use super::programs::Program;
use super::running::Running;
use super::servers::Server;
use super::swap;
use crate::Fallible;
use crate::packages::Packages;

const RUNS: usize = 10;
const CLIENTS: usize = 8;
/// The time of a placer beside a program that is to be left alone.
const FOR: &str = "8s";
/// The least share of the weight on true pairs.
const LEAST: f64 = 0.95;

/// memcached with eight clients, and redis with two of its own beside it: runs that find all pairs.
pub(crate) fn found(packages: &Packages) -> Fallible<Value> {
    let (mut runs, mut least) = (0, f64::INFINITY);
    for _ in 0..RUNS {
        let [memcached, redis] =
            [Server::Memcached, Server::Redis].map(|it| Program::Server(it, 1));
        let groups = [memcached.begin(packages, CLIENTS)?, redis.begin(packages, 2)?];
        let pids = groups.iter().flat_map(Running::pids).map(|it| it.to_string());
        let answer = answer(place().args(["--dry-run", "--for", "2s"]).args(pids))?;
        let (share, all) = share(&groups, &answer)?;
        runs += usize::from(all && share >= LEAST);
        least = least.min(share);
    }
    Ok(json!({
        "name": "place/pairs-found", "value": runs, "unit": format!("of {RUNS} runs"), "least_share": least,
    }))
}

/// The share of the weight between a server and its clients, and whether every client has a tie to its server.
fn share(groups: &[Running], answer: &Value) -> Fallible<(f64, bool)> {
    let count = groups.iter().flat_map(Running::pids).count() - groups.len();
    let ties = answer["ties"].as_array().ok_or("no ties in the answer")?;
    let groups: Vec<[Vec<u32>; 2]> = groups.iter().map(Running::sides).collect();
    let (mut on_pairs, mut all) = (0.0, 0.0);
    let mut met = BTreeSet::new();
    for it in ties {
        let end =
            |name: &str| it[name].as_u64().map(|tid| tid as u32).ok_or("a tie without threads");
        let (a, b) = (end("a")?, end("b")?);
        let rate = it["per_second"].as_f64().unwrap_or_default();
        all += rate;
        for [server, clients] in &groups {
            let client = [(a, b), (b, a)]
                .into_iter()
                .find(|(x, y)| server.contains(x) && clients.contains(y));
            if let Some((_, client)) = client {
                on_pairs += rate;
                met.insert(client);
            }
        }
    }
    Ok((on_pairs / all, met.len() >= count))
}

/// Placements tried for programs whose threads have nothing in common.
pub(crate) fn false_ones(packages: &Packages) -> Fallible<Value> {
    let mut openssl = place();
    openssl.args(["--progress", "syscalls:write", "--for", FOR, "--"]);
    openssl.args(["openssl", "speed", "-multi", "2", "-seconds", "9", "sha256"]);
    let mut sysbench = packages.ready(place(), &std::env::temp_dir());
    sysbench.args(["--progress", "syscalls:write", "--for", FOR, "--"]);
    sysbench.arg(packages.path("usr/bin/sysbench"));
    sysbench.args(["cpu", "--threads=2", "--time=9", "--report-interval=1", "run"]);
    let of = ["openssl speed -multi 2", "sysbench cpu", "swap without sharing"];
    let answers = [answer(&mut openssl)?, answer(&mut sysbench)?, twin()?];
    let tried = answers.map(|it| it["proposals"].as_array().map_or(0, Vec::len));
    Ok(json!({
        "name": "place/false-pairs", "value": tried.iter().sum::<usize>(), "unit": "placements tried", "of": of,
        "each": tried,
    }))
}

/// Two threads that swap items of their own.
fn twin() -> Fallible<Value> {
    let swap = swap::begin(swap::OWN, 100)?;
    let mut command = place();
    command.args(["--for", FOR, "--progress"]).arg(swap.progress());
    answer(command.args(swap.pids().iter().map(ToString::to_string)))
}

fn place() -> Command {
    let mut command = Command::new(corehop_benches::PROGRAM);
    command.args(["place", "--json"]);
    command
}
