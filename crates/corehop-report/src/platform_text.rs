// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine as text for a terminal: its facts, its tree of caches and CPUs, and the classes of its
//! CPU pairs.

use std::fmt::Write as _;

use super::{label, platform_measured};
use corehop_plan::platform::tree::SharingDomain;
use corehop_plan::platform::{Affinity, Clock, CpuGroups, PageSizes, Platform};
use corehop_plan::shown;

/// The tree writes this many or more alike siblings as one line.
const CROWD: usize = 5;

/// Writes a machine as text that ends in a line break.
pub fn text(platform: &Platform) -> String {
    let mut text = format!("{}\n", shown::line(&platform.name));
    for (name, value) in facts(platform) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "  {name:<14}{value}");
    }
    let mut rows = Vec::new();
    branches(&mut rows, &platform.tree().inside, None);
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    text.push('\n');
    for (left, cpus) in rows {
        let _ = writeln!(text, "{left:<width$}  {cpus}");
    }
    text.push_str("\nclasses of CPU pairs\n");
    for affinity in Affinity::ALL {
        if let Some((from, to)) = platform.pair(&platform.usable(), affinity) {
            let example = if from == to { from.to_string() } else { format!("{from} to {to}") };
            let _ = writeln!(text, "  {:<18}for instance {example}", affinity.event());
        }
    }
    for class in platform.missing_classes() {
        let _ = writeln!(text, "not measurable here: {} ({})", class.affinity.event(), class.why);
    }
    text.push_str(&platform_measured::sections(platform));
    text
}

/// Returns the facts that hold for the machine as a whole.
fn facts(platform: &Platform) -> Vec<(&'static str, String)> {
    let mut cpus = format!("{} usable", platform.usable());
    for (reason, such) in label::all_unusable(platform) {
        let _ = write!(cpus, ", {such} {reason}");
    }
    let mut facts = vec![
        ("id", platform.id.clone()),
        ("CPUs", cpus),
        ("memory", platform.memory_architecture().word().to_owned()),
        ("clock", clock(&platform.clock)),
        ("pages", pages(&platform.pages)),
    ];
    for kind in &platform.core_kinds {
        facts.push(("kind of core", format!("{}, {}", kind.name, label::cpus(&kind.cpus.value))));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

fn clock(clock: &Clock) -> String {
    let steady = |invariant: bool| if invariant { "invariant" } else { "not invariant" };
    let words = [
        clock.core.as_ref().map(|fact| fact.value.to_string()),
        clock.source.as_ref().map(|fact| format!("the kernel keeps time by {}", fact.value)),
        clock.invariant.as_ref().map(|fact| format!("counter {}", steady(fact.value))),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn pages(pages: &PageSizes) -> String {
    let mut words: Vec<_> = pages.base.iter().map(|fact| fact.value.to_string()).collect();
    let huge = pages.huge.iter().flat_map(|fact| &fact.value);
    words.extend(huge.map(|size| format!("huge {size}")));
    words.extend(pages.transparent.iter().map(|fact| format!("transparent {}", fact.value)));
    words.join(", ")
}

/// Adds the rows of a forest of blocks, each with the name of the block and its CPUs. Equal sibling
/// blocks share one row if there are many of them. The outermost blocks have no `stem` and stand at
/// the left margin.
fn branches(rows: &mut Vec<(String, String)>, blocks: &[SharingDomain<'_>], stem: Option<&str>) {
    let mut left = blocks;
    while let Some(first) = left.first() {
        let alike = left.iter().take_while(|block| block.resembles(first)).count();
        let (these, rest) = left.split_at(if alike >= CROWD { alike } else { 1 });
        let (tick, bar) = if rest.is_empty() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let grown = |end: &str| stem.map_or(String::new(), |stem| format!("{stem}{end}"));
        rows.push(row(these, &grown(tick)));
        if first.inside.iter().any(|inner| !inner.inside.is_empty()) {
            branches(rows, &first.inside, Some(&grown(bar)));
        }
        left = rest;
    }
}

/// Returns the row of one block, or of several equal sibling blocks.
fn row(blocks: &[SharingDomain<'_>], stem: &str) -> (String, String) {
    let one = |block: &SharingDomain<'_>| {
        let parts: Vec<_> = block.parts.iter().map(|&part| label::part(part)).collect();
        parts.join(" · ")
    };
    match blocks {
        [only] => (format!("{stem}{}", one(only)), label::cpus(&only.cpus)),
        crowd => {
            let parts: Vec<_> = crowd[0].parts.iter().map(|&part| label::kind(part)).collect();
            let groups = CpuGroups::new(crowd.iter().map(|block| block.cpus.clone()));
            (format!("{stem}{} × {}", crowd.len(), parts.join(" · ")), format!("CPUs {groups}"))
        }
    }
}
