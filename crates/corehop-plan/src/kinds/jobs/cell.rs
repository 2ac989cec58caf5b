// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cell of a sample, the names of cells, and the time that a sample takes.

use serde::{Deserialize, Serialize};

use crate::kinds::Length;
use crate::units::{Bytes, Nanos};
use crate::workload::{Absence, Event, LineState, Load, Page, Polluter, WorkingSet};

/// The kind of a sample: its load, working set, event, absence and initial state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The load under which the sample is taken.
    pub load: Load,
    /// The index of the working set.
    pub set: usize,
    /// The event between the warm and the resumed touch.
    pub event: Event,
    /// The time for which the job is off the CPU, if it leaves the CPU.
    pub length: Length,
    /// The occupant of the CPU during the absence.
    pub absence: Absence,
    /// The walk of the cell's own preemptor, or `None` for the plan's preemptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptor: Option<Polluter>,
    /// The state of the lines before the first touch.
    pub state: LineState,
}

impl Cell {
    /// Returns a rough estimate of the time that a sample takes: the touches at a guess of 100 ns per
    /// line, the absence, and the waits of a duty budget of one half.
    pub fn projected(&self, set: &WorkingSet) -> Nanos {
        let touches = set.visits().saturating_mul(4 * 100);
        let away = self.length.mean().get();
        let preempted = if self.absence == Absence::Preemptor { away } else { 0 };
        let busy = touches.saturating_add(preempted).saturating_mul(2);
        Nanos::new(away.saturating_add(touches).max(busy))
    }
}

/// Returns a short name for each of the given cells: the event, the size, and the properties that
/// distinguish the cell from the others. A cell whose working set is missing from `sets` is named as if
/// the set were empty.
pub fn names(cells: &[Cell], sets: &[WorkingSet]) -> Vec<String> {
    let nothing = WorkingSet::list(Bytes::new(0), 0.0);
    let of = |cell: &Cell| traits(cell, sets.get(cell.set).unwrap_or(&nothing));
    let mut all: Vec<Vec<String>> = cells.iter().map(of).collect();
    for (own, cell) in all.iter_mut().zip(cells) {
        // What a load runs is told where two of one word run something else.
        let other = |it: &Cell| it.load.word() == cell.load.word() && it.load != cell.load;
        if cells.iter().any(other) {
            own.extend(cell.load.runs());
        }
    }
    let telling = |place: usize| all.iter().any(|other| other.get(place) != all[0].get(place));
    let name = |own: &Vec<String>| {
        let words = own.iter().enumerate().filter(|(_, word)| !word.is_empty());
        let words = words.filter(|&(place, _)| place < ALWAYS || telling(place));
        words.map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" ")
    };
    all.iter().map(name).collect()
}

/// The number of properties that are part of every name: event and size.
const ALWAYS: usize = 2;

/// Returns the properties of a cell in words, the most telling first; a property with its usual value
/// is an empty text.
fn traits(cell: &Cell, set: &WorkingSet) -> Vec<String> {
    let unless = |usual: bool, word: String| if usual { String::new() } else { word };
    vec![
        cell.event.to_string(),
        set.wss.to_string(),
        unless(cell.load == Load::Idle, cell.load.word().to_owned()),
        unless(set.page == Page::Base, set.page.to_string()),
        unless(cell.length == Length::ZERO, short(cell.length)),
        unless(cell.absence != Absence::Preemptor, "preemptor".to_owned()),
        cell.preemptor.as_ref().map_or_else(String::new, |it| format!("of {}", it.wss)),
        cell.state.to_string(),
        set.job().unwrap_or_default(),
        set.pattern.to_string(),
        format!("{} written", set.write_ratio),
        format!("{} chains", set.chains),
        set.node.map_or_else(String::new, |node| format!("node {node}")),
    ]
}

/// Returns the short text of a preemption length, such as `4ms` or `0..50ms`.
fn short(length: Length) -> String {
    let text = length.to_string();
    match (text.strip_prefix("fixed_"), text.strip_prefix("uniform_")) {
        (Some(time), _) => time.to_owned(),
        (_, Some(range)) => range.replacen('_', "..", 1),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(set: usize, event: Event, length: Length) -> Cell {
        let (load, absence) = (Load::Idle, Absence::Nothing);
        Cell { load, set, event, length, absence, preemptor: None, state: LineState::Invalid }
    }

    #[test]
    fn a_name_has_event_and_size_and_whatever_else_tells_it_from_the_others() {
        let base = WorkingSet::list(Bytes::from_kib(64), 0.5);
        let sets = [base.clone(), WorkingSet { page: Page::Transparent, ..base }];
        let four = Length::Fixed(Nanos::from_millis(4));
        let to_preemptor = Cell { absence: Absence::Preemptor, ..cell(0, Event::Preemption, four) };
        let cells = [
            cell(0, Event::None, Length::ZERO),
            cell(1, Event::None, Length::ZERO),
            cell(0, Event::Preemption, four),
            to_preemptor,
        ];
        assert_eq!(
            names(&cells, &sets),
            [
                "none 64 KiB",
                "none 64 KiB thp",
                "preemption 64 KiB 4ms",
                "preemption 64 KiB 4ms preemptor",
            ]
        );
        assert_eq!(names(&cells[1..2], &sets), ["none 64 KiB"]);
        // A plan written by hand may speak of a set that it does not describe.
        assert_eq!(names(&cells, &[]).len(), 4);
    }

    #[test]
    fn what_a_load_runs_is_part_of_the_name_where_its_word_is_not_enough() {
        let sets = [WorkingSet::list(Bytes::from_kib(64), 0.5)];
        let under = |load: &Load| Cell {
            load: load.clone(),
            ..cell(0, Event::None, Length::Uniform(Nanos::new(0), Nanos::from_millis(50)))
        };
        let on = |cpus: &str| Load::Realistic {
            command: "make".to_owned(),
            cpus: cpus.parse().unwrap(),
        };
        let cells = [under(&Load::Idle), under(&on("1")), under(&on(""))];
        let all = names(&cells, &sets);
        assert_eq!(all[0], "none 64 KiB");
        assert_eq!(all[1], "none 64 KiB realistic make on CPUs 1");
        assert_eq!(all[2], "none 64 KiB realistic make");
        assert_eq!(names(&cells[..2], &sets)[1], "none 64 KiB realistic");
        let sweep = [cells[0].clone(), Cell { length: Length::ZERO, ..cells[0].clone() }];
        assert_eq!(names(&sweep, &sets), ["none 64 KiB 0..50ms", "none 64 KiB"]);
    }

    #[test]
    fn a_sample_takes_its_touches_and_absence_and_twice_what_is_busy() {
        let set = WorkingSet::list(Bytes::from_kib(64), 0.5);
        let four = Length::Fixed(Nanos::from_millis(4));
        // Four touches of 1,024 lines: 409.6 µs.
        let quiet = cell(0, Event::Preemption, four);
        assert_eq!(quiet.projected(&set), Nanos::new(4_409_600));
        let preempted = Cell { absence: Absence::Preemptor, ..quiet };
        assert_eq!(preempted.projected(&set), Nanos::new(2 * 4_409_600));
        assert_eq!(cell(0, Event::None, Length::ZERO).projected(&set), Nanos::new(2 * 409_600));
    }
}
