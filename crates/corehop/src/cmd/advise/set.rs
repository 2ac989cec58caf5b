// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise SET.json --costs …`: limited preemption for a set of tasks.

use std::path::Path;

use corehop_core::decision::costs::{Cost, Selected, Selection};
use corehop_core::decision::sched::TaskSet;
use corehop_core::decision::sched::limited::remedy::{Limit, remedy};
use corehop_core::report::limited::remedies;
use corehop_core::workload::Event;
use serde_json::{Value, json};

use super::Args;
use crate::answer::print;
use crate::cmd::check::read;
use crate::cmd::costs::source;
use crate::exit::{Exit, Failure};

/// What limiting preemptions does for the set in a file.
pub(super) fn run(args: &Args, file: &Path, costs: &Path) -> Result<Exit, Failure> {
    let set = read(file)?;
    if set.cpus() != 1 {
        let what = format!(
            "{}: cpus is {}: preemptions are limited on one CPU; give the tasks of one CPU, with cpus 1",
            file.display(),
            set.cpus()
        );
        return Err(Failure::says(Exit::Usage, what));
    }
    let source = source(costs)?;
    let wanted = Selection {
        load: args.load.clone(),
        statistic: args.statistic.clone(),
        length: args.length,
        only: args.only.clone(),
    };
    let delays = delays(&set, &source.selected(&wanted)?)?;
    let of = |&limit: &Limit| (limit, remedy(set.tasks(), limit, &delays));
    let all: Vec<_> = Limit::ALL.iter().map(of).collect();
    print(&if args.json {
        let one = |(limit, remedy): &(Limit, Result<_, _>)| match remedy {
            Ok(remedy) => json!(remedy),
            Err(why) => json!({ "limit": limit, "why_none": format!("{why}") }),
        };
        format!("{:#}\n", all.iter().map(one).collect::<Value>())
    } else {
        remedies(&set, &all)
    })?;
    let some = all.iter().any(|(_, remedy)| remedy.is_ok());
    Ok(if some { Exit::Done } else { Exit::No })
}

/// What a preemption costs each task, by its working set.
fn delays(set: &TaskSet, costs: &Selected<'_>) -> Result<Vec<Cost>, Failure> {
    let of = |(at, wss): (usize, &Option<u64>)| {
        let name = set.names()[at].as_ref().map(|name| format!(" (`{name}`)")).unwrap_or_default();
        let wrong = |what: String| Failure::says(Exit::Damaged, format!("task {at}{name}: {what}"));
        let wss = wss.ok_or_else(|| {
            wrong("wss_kib is absent: expected the size of its working set".to_owned())
        })?;
        let cost = costs.costs.cost(Event::Preemption, wss as f64);
        cost.map_err(|why| wrong(format!("wss_kib is {wss}: {why}")))
    };
    set.wss_kib().iter().enumerate().map(of).collect()
}
