// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs that are known: do the ties lie on them, and is a program without any left alone?

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::programs::{Pair, Program};
use crate::Fallible;
use crate::packages::Packages;

const RUNS: usize = 10;
const CLIENTS: usize = 8;
/// The least share of the weight on true pairs.
const LEAST: f64 = 0.95;

/// memcached with eight clients, and redis with two of its own beside it: runs that find all pairs.
pub(crate) fn found(packages: &Packages) -> Fallible<Value> {
    let (mut runs, mut least) = (0, f64::INFINITY);
    for _ in 0..RUNS {
        let groups =
            [Program::Memcached.begin(packages, CLIENTS)?, Program::Redis.begin(packages, 2)?];
        let pids: Vec<String> =
            groups.iter().flat_map(Pair::pids).map(|it| it.to_string()).collect();
        let more = ["--dry-run", "--for", "2s"].map(str::to_owned);
        let answer = answer(&[&more[..], &pids].concat())?;
        let (share, all) = share(&groups, &answer)?;
        runs += usize::from(all && share >= LEAST);
        least = least.min(share);
    }
    Ok(json!({
        "name": "place/pairs-found", "value": runs, "unit": format!("of {RUNS} runs"), "least_share": least,
    }))
}

/// The share of the weight between a server and its clients, and whether every client has a tie to its server.
fn share(groups: &[Pair], answer: &Value) -> Fallible<(f64, bool)> {
    let count = groups.iter().flat_map(Pair::pids).count() - groups.len();
    let ties = answer["ties"].as_array().ok_or("no ties in the answer")?;
    let groups: Vec<_> =
        groups.iter().map(|it| (it.server_threads(), it.client_threads())).collect();
    let (mut on_pairs, mut all) = (0.0, 0.0);
    let mut met = BTreeSet::new();
    for it in ties {
        let end =
            |name: &str| it[name].as_u64().map(|tid| tid as u32).ok_or("a tie without threads");
        let (a, b) = (end("a")?, end("b")?);
        let rate = it["per_second"].as_f64().unwrap_or_default();
        all += rate;
        for (server, clients) in &groups {
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

/// Proposals for programs whose threads have nothing in common.
pub(crate) fn false_ones() -> Fallible<Value> {
    let words = "--progress syscalls:write --for 12s -- openssl speed -multi 2 -seconds 9 sha256";
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let count = answer(&words)?["proposals"].as_array().map(Vec::len);
    Ok(
        json!({ "name": "place/false-pairs", "value": count, "unit": "placements tried", "of": "openssl speed -multi 2" }),
    )
}

fn answer(words: &[String]) -> Fallible<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corehop"));
    let output = command.args(["place", "--json"]).args(words).output()?;
    if output.stdout.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
