// SPDX-License-Identifier: MIT OR Apache-2.0
//! The advice in one sentence: what is sure first, then what cannot be decided with these samples, and how many
//! replicates more would decide it.

use super::{Advice, AdviceChoice, MapCell, Preference};
use corehop_plan::units::Bytes;
use corehop_plan::workload::Event;
use corehop_stats::replicates::FEWEST_REPLICATES;

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
        let all = AdviceGrid::of(&cells);
        let (sure, open): (Vec<&MapCell>, Vec<&MapCell>) =
            cells.iter().partition(|it| it.verdict != Preference::NotEnoughEvidence);
        let mut clauses = clauses(&sure, &all);
        if clauses.is_empty() {
            clauses.push("nothing is sure yet".to_owned());
        }
        clauses.extend(undecided(&open, &all));
        let (load, company) = (&first.load, &first.company);
        format!("Load {load}, {company}: {}.", clauses.join("; "))
    }
}

/// `after 1 ms stay`, a clause for each thing to do with the same sizes at neighbouring lengths: a clause says nothing of a
/// length or a size that is not in its cells.
fn clauses(cells: &[&MapCell], all: &AdviceGrid) -> Vec<String> {
    let mut parts: Vec<(String, Vec<&MapCell>)> = Vec::new();
    for &length in &all.lengths {
        let here: Vec<&MapCell> =
            cells.iter().copied().filter(|it| length_of(it) == length).collect();
        let mut words: Vec<String> = here.iter().map(|it| word(it)).collect();
        words.sort_unstable();
        words.dedup();
        for what in words {
            let own: Vec<&MapCell> = here.iter().copied().filter(|it| word(it) == what).collect();
            let goes_on = |(known, before): &&mut (String, Vec<&MapCell>)| {
                *known == what && all.adjoins(before, length) && same_sizes(before, &own)
            };
            match parts.iter_mut().find(goes_on) {
                Some((_, before)) => before.extend(own),
                None => parts.push((what, own)),
            }
        }
    }
    let clause =
        |(what, of): (String, Vec<&MapCell>)| format!("{} {what}{}", lengths(&of), all.only(&of));
    parts.into_iter().map(clause).collect()
}

/// The lengths and the sizes that were asked for, in order.
struct AdviceGrid {
    /// Of [`length_of`].
    lengths: Vec<u64>,
    sizes: Vec<u64>,
}

impl AdviceGrid {
    fn of(cells: &[&MapCell]) -> Self {
        let mut lengths: Vec<u64> = cells.iter().map(|it| length_of(it)).collect();
        lengths.sort_unstable();
        lengths.dedup();
        Self { lengths, sizes: sizes_of(cells) }
    }

    /// Whether the last length of `cells` is the one before `length`.
    fn adjoins(&self, cells: &[&MapCell], length: u64) -> bool {
        let last = cells.last().map(|it| length_of(it));
        let place = self.lengths.iter().position(|it| *it == length);
        place.and_then(|it| it.checked_sub(1)).is_some_and(|it| Some(self.lengths[it]) == last)
    }

    /// ` with 64 KiB, 1 MiB`; nothing where all of several sizes are meant.
    fn only(&self, cells: &[&MapCell]) -> String {
        let of = sizes_of(cells);
        if of == self.sizes && of.len() > 1 {
            return String::new();
        }
        let names: Vec<String> = of.iter().map(|&it| Bytes::new(it).to_string()).collect();
        format!(" with {}", names.join(", "))
    }
}

/// The length of an absence in microseconds, in two digits: a measured one is 1.03 ms in one cell and 1.02 in the next, and
/// both were to be 1 ms. As bits: lengths are not negative, so that their bits have the order of the lengths.
fn length_of(cell: &MapCell) -> u64 {
    two_digits(cell.length_us).to_bits()
}

fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powi(value.max(f64::MIN_POSITIVE).log10().floor() as i32 - 1);
    (value / unit).round() * unit
}

fn sizes_of(cells: &[&MapCell]) -> Vec<u64> {
    let mut sizes: Vec<u64> = cells.iter().map(|it| it.wss_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Whether `own` has the sizes of the last length of `before`.
fn same_sizes(before: &[&MapCell], own: &[&MapCell]) -> bool {
    let last = before.last().map(|it| length_of(it));
    let there: Vec<&MapCell> =
        before.iter().copied().filter(|it| Some(length_of(it)) == last).collect();
    sizes_of(&there) == sizes_of(own)
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
fn undecided(cells: &[&MapCell], all: &AdviceGrid) -> Option<String> {
    (!cells.is_empty()).then(|| {
        let more: Vec<Option<usize>> = cells.iter().map(|it| more(it)).collect();
        let hopeless = more.iter().filter(|it| it.is_none()).count();
        let least = more.iter().flatten().max();
        let alike = "the costs differ by less than replicates can tell";
        let remedy = match least {
            Some(_) if hopeless > 0 => {
                format!(
                    "{} more decide {} of {}, in the others {alike}",
                    replicates(least),
                    more.len() - hopeless,
                    more.len()
                )
            }
            Some(_) => format!("{} more", replicates(least)),
            None => alike.to_owned(),
        };
        format!("{}: {remedy}", clauses(cells, all).join("; "))
    })
}

/// `1 replicate`, `20 replicates`.
fn replicates(count: Option<&usize>) -> String {
    let count = count.copied().unwrap_or_default();
    format!("{count} {}", if count == 1 { "replicate" } else { "replicates" })
}

/// `after 1 ms`, or `after 1 ms to 4 ms`.
fn lengths(cells: &[&MapCell]) -> String {
    let of = cells.iter().map(|it| two_digits(it.length_us));
    let (low, high) = (of.clone().fold(f64::INFINITY, f64::min), of.fold(0.0, f64::max));
    // Not 1.00: two digits are all that is told.
    let ms = |us: f64| format!("{} ms", (us * 10.0).round() / 1e4);
    if ms(low) == ms(high) {
        format!("after {}", ms(low))
    } else {
        format!("after {} to {}", ms(low), ms(high))
    }
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

fn half_width(choice: &AdviceChoice) -> Option<f64> {
    let cost = choice.seen();
    Some((cost.high_us? - cost.low_us?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::Company;
    use corehop_plan::workload::Absence;
    use corehop_stats::cpmd::CostEstimate;

    fn cell(
        wss_kib: u64,
        ms: f64,
        stay: (f64, f64),
        moved: (f64, f64),
        verdict: Preference,
    ) -> MapCell {
        let choice = |event, (estimate_us, half): (f64, f64)| AdviceChoice {
            event,
            cost: CostEstimate {
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
    fn lengths_that_were_to_be_the_same_are_one() {
        let open = Preference::NotEnoughEvidence;
        let cells = [
            cell(16, 1.031, (20.0, 6.0), (24.0, 6.0), open),
            cell(64, 1.034, (20.0, 6.0), (24.0, 6.0), open),
            cell(16, 4.029, (20.0, 6.0), (24.0, 6.0), open),
            cell(64, 4.041, (20.0, 6.0), (24.0, 6.0), open),
        ];
        let cells: Vec<&MapCell> = cells.iter().collect();
        assert_eq!(
            clauses(&cells, &AdviceGrid::of(&cells)),
            ["after 1 ms to 4 ms not decidable here"]
        );
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
            "Load idle, nothing ran meanwhile: after 1 ms stay; after 4 ms not decidable here: 60 replicates more."
        );
        let one = said(vec![cell(64, 1.0, a, b, STAY), cell(256, 1.0, (10.0, 0.0), b, OPEN)]);
        assert!(
            one.contains("after 1 ms stay with 64 KiB; after 1 ms not decidable here with 256 KiB"),
            "{one}"
        );
    }

    #[test]
    fn a_clause_says_nothing_of_lengths_and_sizes_that_are_not_in_its_cells() {
        let (a, b) = ((10.0, 2.0), (20.0, 2.0));
        let stay = |kib, ms| cell(kib, ms, a, b, STAY);
        let moves = |kib, ms| cell(kib, ms, b, a, Preference::Prefer(Event::L3Migration));
        let between = said(vec![stay(64, 1.0), moves(64, 4.0), stay(64, 16.0)]);
        assert!(
            between.contains("after 1 ms stay with 64 KiB; after 4 ms move (l3_migration)")
                && between.contains("after 16 ms stay with 64 KiB"),
            "{between}"
        );
        let crossed = said(vec![stay(64, 1.0), moves(256, 1.0), moves(64, 4.0), stay(256, 4.0)]);
        assert!(
            crossed.contains("after 1 ms stay with 64 KiB")
                && crossed.contains("after 4 ms stay with 256 KiB"),
            "{crossed}"
        );
        let joined = said(vec![stay(64, 1.0), stay(64, 4.0)]);
        assert!(joined.contains("after 1 ms to 4 ms stay with 64 KiB"), "{joined}");
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
