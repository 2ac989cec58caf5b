// SPDX-License-Identifier: MIT OR Apache-2.0
//! The advice in one sentence: what is sure first, then what cannot be decided with these samples, and how many
//! replicates more would decide it.

use super::{Advice, Choice, MapCell, Preference};
use crate::model::replicates::FEWEST_REPLICATES;
use crate::units::{Bytes, three_digits};
use crate::workload::Event;

/// The replicates of a usual run: without an interval, nothing tells how many more are needed.
const USUAL: usize = 20;
/// More replicates than this are no run that anyone waits for.
const MOST: f64 = 2_000.0;

impl Advice {
    /// The advice in one sentence, for the load and company that stand first.
    pub fn sentence(&self) -> String {
        let Some(first) = self.map.first() else {
            let why = self.silent.first().map(String::as_str);
            return format!(
                "No advice: {}.",
                why.unwrap_or("no preemption and no migration was measured")
            );
        };
        let is_first = |it: &&MapCell| it.load == first.load && it.company == first.company;
        let cells: Vec<&MapCell> = self.map.iter().filter(is_first).collect();
        let mut sizes: Vec<u64> = cells.iter().map(|it| it.wss_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let (sure, open): (Vec<&MapCell>, Vec<&MapCell>) =
            cells.iter().partition(|it| it.verdict != Preference::NotEnoughEvidence);
        let mut clauses = clauses(&sure, &sizes);
        if clauses.is_empty() {
            clauses.push("nothing is sure yet".to_owned());
        }
        clauses.extend(undecided(&open, &sizes));
        let (load, company) = (&first.load, &first.company);
        format!("Load {load}, {company}: {}.", clauses.join("; "))
    }
}

/// `after 1 ms stay`, a clause for each thing to do at the same lengths and sizes.
fn clauses(cells: &[&MapCell], all: &[u64]) -> Vec<String> {
    let mut words: Vec<String> = cells.iter().map(|it| word(it)).collect();
    words.sort_unstable();
    words.dedup();
    let clause = |what: &String| {
        let of: Vec<&MapCell> = cells.iter().copied().filter(|it| word(it) == *what).collect();
        format!("{} {what}{}", lengths(&of), sizes(&of, all))
    };
    words.iter().map(clause).collect()
}

/// The advice, in words.
fn word(cell: &MapCell) -> String {
    match cell.verdict {
        Preference::Prefer(Event::Preemption | Event::IdleLeave) => "stay".to_owned(),
        Preference::Prefer(event) => format!("move ({event})"),
        Preference::NoDifference => "stay or move, which costs about the same".to_owned(),
        Preference::NotEnoughEvidence => "not decidable here".to_owned(),
    }
}

/// The undecidable part, and the replicates that would decide.
fn undecided(cells: &[&MapCell], all: &[u64]) -> Option<String> {
    (!cells.is_empty()).then(|| {
        let more: Vec<Option<usize>> = cells.iter().map(|it| more(it)).collect();
        let least = more.iter().flatten().max();
        let remedy = match least {
            Some(1) => "1 replicate more".to_owned(),
            Some(count) => format!("{count} replicates more"),
            None => "the costs differ by less than replicates can tell".to_owned(),
        };
        format!("{} not decidable here{}: {remedy}", lengths(cells), sizes(cells, all))
    })
}

/// `after 1 ms`, or `after 1 ms to 4 ms`.
fn lengths(cells: &[&MapCell]) -> String {
    let of = cells.iter().map(|it| it.length_us);
    let (low, high) = (of.clone().fold(f64::INFINITY, f64::min), of.fold(0.0, f64::max));
    let ms = |us: f64| format!("{} ms", three_digits(us / 1e3));
    if ms(low) == ms(high) {
        format!("after {}", ms(low))
    } else {
        format!("after {} to {}", ms(low), ms(high))
    }
}

/// ` with 64 KiB and 1 MiB`; nothing where all sizes are meant.
fn sizes(cells: &[&MapCell], all: &[u64]) -> String {
    let mut of: Vec<u64> = cells.iter().map(|it| it.wss_bytes).collect();
    of.sort_unstable();
    of.dedup();
    if of == all && all.len() > 1 {
        return String::new();
    }
    let names: Vec<String> = of.iter().map(|&it| Bytes::new(it).to_string()).collect();
    format!(" with {}", names.join(", "))
}

/// The replicates that are missing for the two intervals to come apart: their widths go with the root of the number.
/// None where so many would be needed that the costs are as good as equal.
fn more(cell: &MapCell) -> Option<usize> {
    let (stay, moved) = (&cell.stay, &cell.migration);
    let has = [stay, moved].iter().map(|it| it.replicates.unwrap_or(1)).min().unwrap_or(1);
    let (Some(a), Some(b)) = (half_width(stay), half_width(moved)) else {
        return Some(USUAL.max(FEWEST_REPLICATES).saturating_sub(has).max(1));
    };
    let apart = (stay.seen().estimate_us - moved.seen().estimate_us).abs();
    let needed = has as f64 * ((a + b) / apart).powi(2);
    let lacking = (needed - has as f64).max(1.0);
    // To the next ten: the widths are estimates themselves.
    (lacking <= MOST).then(|| (lacking / 10.0).ceil() as usize * 10)
}

fn half_width(choice: &Choice) -> Option<f64> {
    let cost = choice.seen();
    Some((cost.high_us? - cost.low_us?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::advice::Company;
    use crate::model::cpmd::Cost;
    use crate::workload::Absence;

    fn cell(
        wss_kib: u64,
        ms: f64,
        stay: (f64, f64),
        moved: (f64, f64),
        verdict: Preference,
    ) -> MapCell {
        let choice = |event, (estimate_us, half): (f64, f64)| Choice {
            event,
            cost: Cost {
                estimate_us,
                low_us: (half > 0.0).then_some(estimate_us - half),
                high_us: (half > 0.0).then_some(estimate_us + half),
            },
            measured: None,
            n: 80,
            replicates: Some(20),
            avoid: false,
        };
        MapCell {
            load: "idle".to_owned(),
            company: Company { preempted_by: Absence::Nothing, polluter: None, pair_class: None },
            wss_bytes: wss_kib << 10,
            length_us: 1e3 * ms,
            stay: choice(Event::IdleLeave, stay),
            migration: choice(Event::L3Migration, moved),
            verdict,
        }
    }

    const STAY: Preference = Preference::Prefer(Event::IdleLeave);
    const OPEN: Preference = Preference::NotEnoughEvidence;

    fn said(map: Vec<MapCell>) -> String {
        Advice { map, ..Advice::default() }.sentence()
    }

    #[test]
    fn what_is_sure_stands_first_and_the_replicates_that_are_missing_after_it() {
        let (a, b) = ((10.0, 2.0), (20.0, 2.0));
        // Half-widths of 10 and 10 for a difference of 10: four times the replicates.
        let map = [64, 256].into_iter().flat_map(|kib| {
            [cell(kib, 4.0, (10.0, 10.0), (20.0, 10.0), OPEN), cell(kib, 1.0, a, b, STAY)]
        });
        assert_eq!(
            said(map.collect()),
            "Load idle, nothing ran meanwhile: after 1.00 ms stay; after 4.00 ms not decidable here: 60 replicates more."
        );
        let one = said(vec![cell(64, 1.0, a, b, STAY), cell(256, 1.0, (10.0, 0.0), b, OPEN)]);
        assert!(
            one.contains(
                "after 1.00 ms stay with 64 KiB; after 1.00 ms not decidable here with 256 KiB"
            ),
            "{one}"
        );
    }

    #[test]
    fn equal_costs_are_not_promised_to_come_apart_and_silence_has_its_reason() {
        let equal = said(vec![cell(64, 1.0, (10.0, 5.0), (10.0, 5.0), OPEN)]);
        assert!(
            equal.contains("nothing is sure yet; ")
                && equal.contains("less than replicates can tell"),
            "{equal}"
        );
        let silent =
            Advice { silent: vec!["no preemption was measured".to_owned()], ..Advice::default() };
        assert_eq!(silent.sentence(), "No advice: no preemption was measured.");
    }
}
