// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads tables of costs, in corehop's and in SchedCAT's form.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Cost, EventCosts, NoCost};
use corehop_plan::bounds;
use corehop_plan::words::nearest_of;
use corehop_plan::workload::Event;

/// A table of costs by load, statistic, event and size.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostTable(BTreeMap<(String, String), CostCurves>);

/// The costs for one load and one statistic.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CostCurves(BTreeMap<Event, Vec<(f64, f64)>>);

/// The reason why a text is not a table of costs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CostError {
    /// The table of costs lacks a necessary column.
    #[error(
        "the table of costs has no column `{0}`: expected load, event, statistic, wss_kib and cost_us, as \
             `corehop report --table csv` writes them"
    )]
    Column(&'static str),
    /// The table has an unknown or a repeated column.
    #[error("the table of costs has a column `{column}`{what}: use one of {}", KNOWN.join(", "))]
    Unknown {
        /// The name of the column that corehop does not know.
        column: String,
        /// The problem, or the nearest known column, as a clause.
        what: String,
    },
    /// SchedCAT's table has an unknown or a repeated column.
    #[error(
        "SchedCAT's table of delays has a column `{column}`{what}: use one of WSS, L1, L2, L3, MEM"
    )]
    SchedCat {
        /// The name of the column with the problem.
        column: String,
        /// The problem, or the nearest known column, as a clause.
        what: String,
    },
    /// A field is not a number, or not a known word.
    #[error("the table of costs, line {line}: {what}")]
    Field {
        /// The number of the line that has the error, counted from 1.
        line: usize,
        /// The problem with the field of the table.
        what: String,
    },
    /// The table of costs has no rows.
    #[error("the table of costs has no rows with a cost")]
    Empty,
}

impl CostTable {
    /// Reads a CSV table without quoted commas. Rows without a cost are ignored, and so are standard
    /// deviations, which are not costs.
    ///
    /// # Errors
    /// Returns [`CostError`], which names the column or the line.
    pub fn parse(text: &str) -> Result<Self, CostError> {
        Self::parse_as(text, "unstated", "max")
    }

    /// Returns whether the first line shows that a text is SchedCAT's table of cache-related delays.
    pub fn is_schedcat(text: &str) -> bool {
        text.lines().next().is_some_and(|head| head.split(',').any(|it| it.trim() == "WSS"))
    }

    /// Reads a table as [`CostTable::parse`] does; SchedCAT's table of cache-related delays states no load and
    /// no statistic, so its costs get `load` and `statistic`.
    ///
    /// # Errors
    /// Returns [`CostError`], as [`CostTable::parse`] does.
    pub fn parse_as(text: &str, load: &str, statistic: &str) -> Result<Self, CostError> {
        if Self::is_schedcat(text) {
            let mut table = Self::default();
            let mut costs = schedcat(text)?;
            costs.settle();
            table.0.insert((load.to_owned(), statistic.to_owned()), costs);
            return Ok(table);
        }
        let mut lines = text.lines().enumerate();
        let head: Vec<&str> =
            lines.next().map(|(_, line)| line.split(',').collect()).unwrap_or_default();
        let place = |name: &'static str| {
            head.iter().position(|it| it.trim() == name).ok_or(CostError::Column(name))
        };
        let head: Vec<&str> = head.iter().map(|it| it.trim()).collect();
        let (load, event, statistic) = (place("load")?, place("event")?, place("statistic")?);
        let (wss, cost) = (place("wss_kib")?, place("cost_us")?);
        checked(&head, &KNOWN)?;
        let mut table = Self::default();
        for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let field = |place: usize| fields.get(place).copied().unwrap_or_default();
            let wrong = |what: String| CostError::Field { line: at + 1, what };
            if fields.len() != head.len() {
                let (has, columns) = (fields.len(), head.len());
                return Err(wrong(format!(
                    "this line has {has} fields, but the first line names {columns} columns"
                )));
            }
            if field(cost).is_empty() || field(statistic) == "std" {
                continue;
            }
            let number = |name: &str, place: usize| {
                let text = field(place);
                bounds::number(text).map_err(|why| wrong(format!("{name} is `{text}`: {why}")))
            };
            let (wss, cost) = (number("wss_kib", wss)?, number("cost_us", cost)?);
            let event: Event = field(event).parse().map_err(|error| wrong(format!("{error}")))?;
            let key = (field(load).to_owned(), field(statistic).to_owned());
            table.0.entry(key).or_default().0.entry(event).or_default().push((wss, cost));
        }
        if table.0.is_empty() {
            return Err(CostError::Empty);
        }
        for ((_, statistic), costs) in &mut table.0 {
            match statistic.as_str() {
                "n" | "n_all" => costs.settle_counts(),
                _ => costs.settle(),
            }
        }
        Ok(table)
    }

    /// Returns every load and statistic of the table, with the costs.
    pub fn selections(&self) -> impl Iterator<Item = (&str, &str, &CostCurves)> {
        self.0.iter().map(|((load, statistic), costs)| (load.as_str(), statistic.as_str(), costs))
    }

    /// Returns the costs for this load and statistic, or `None` if the table lacks them.
    pub fn select(&self, load: &str, statistic: &str) -> Option<&CostCurves> {
        self.0.get(&(load.to_owned(), statistic.to_owned()))
    }
}

/// The known columns: the columns of `corehop report --table csv`, and further columns of the studies' tables.
const KNOWN: [&str; 13] = [
    "platform",
    "memory_architecture",
    "load",
    "event",
    "preemption_length",
    "write_ratio",
    "statistic",
    "wss_kib",
    "cost_us",
    "seed",
    "table",
    "figure",
    "printed",
];

/// Checks the first line of a table: every column must be known and unique.
fn checked(head: &[&str], known: &[&str]) -> Result<(), CostError> {
    for (at, column) in head.iter().enumerate() {
        let refused = |what| CostError::Unknown { column: (*column).to_owned(), what };
        if !known.contains(column) {
            return Err(refused(nearest_of(column, known.iter().copied())));
        }
        if head[..at].contains(column) {
            return Err(refused(" twice".to_owned()));
        }
    }
    Ok(())
}

/// SchedCAT's columns, named by the memory that a job shares with the CPU on which it was preempted. A job
/// shares its level-1 cache only with its own CPU.
const LEVELS: [(&str, Event); 4] = [
    ("L1", Event::Preemption),
    ("L2", Event::L2Migration),
    ("L3", Event::L3Migration),
    ("MEM", Event::MemoryMigration),
];

/// Reads SchedCAT's table, with WSS in KiB and costs in microseconds.
fn schedcat(text: &str) -> Result<CostCurves, CostError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let head: Vec<&str> =
        lines.next().map(|(_, line)| line.split(',').map(str::trim).collect()).unwrap_or_default();
    let columns: Vec<&str> = LEVELS.iter().map(|&(name, _)| name).chain(["WSS"]).collect();
    if let Err(CostError::Unknown { column, what }) = checked(&head, &columns) {
        return Err(CostError::SchedCat { column, what });
    }
    let mut costs = CostCurves::default();
    for (at, line) in lines {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |name: &'static str| {
            let place = head.iter().position(|it| *it == name);
            let Some(text) = place.and_then(|place| fields.get(place)) else { return Ok(None) };
            let wrong = |why| format!("{name} is `{text}`: {why}");
            let number = bounds::number(text).map_err(wrong);
            number.map(Some).map_err(|what| CostError::Field { line: at + 1, what })
        };
        let wss = number("WSS")?.ok_or(CostError::Column("WSS"))?;
        for (name, event) in LEVELS {
            if let Some(cost) = number(name)? {
                costs.0.entry(event).or_default().push((wss, cost));
            }
        }
    }
    if costs.0.is_empty() { Err(CostError::Empty) } else { Ok(costs) }
}

impl CostTable {
    /// Returns the table as CSV, with the columns that a decision needs.
    pub fn csv(&self) -> String {
        let mut text = "load,event,statistic,wss_kib,cost_us\n".to_owned();
        for (load, statistic, costs) in self.selections() {
            for (event, curve) in &costs.0 {
                for (wss, cost) in curve {
                    let _ = writeln!(text, "{load},{event},{statistic},{wss},{cost}");
                }
            }
        }
        text
    }
}

impl CostCurves {
    /// Returns the costs in SchedCAT's form for cache-related delays: a column for each shared level of
    /// memory, and a line for each size for which all costs are known.
    pub fn schedcat(&self) -> String {
        let known: Vec<(&str, Event)> =
            LEVELS.into_iter().filter(|(_, event)| self.0.contains_key(event)).collect();
        let events: Vec<Event> = known.iter().map(|&(_, event)| event).collect();
        let mut text = "WSS".to_owned();
        for (name, _) in &known {
            text.extend([",", name]);
        }
        text.push('\n');
        for wss in self.sizes(&events) {
            let _ = write!(text, "{wss}");
            for cost in events.iter().filter_map(|&event| self.cost(event, wss).ok()) {
                let _ = write!(text, ",{}", cost.us);
            }
            text.push('\n');
        }
        text
    }

    /// Sorts the sizes; if a size has several numbers of samples, the smallest counts.
    fn settle_counts(&mut self) {
        for curve in self.0.values_mut() {
            curve.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
            curve.dedup_by_key(|point| point.0.to_bits());
        }
    }

    /// Sorts the sizes; if a size has several costs, the largest counts, and a larger size costs at least as
    /// much as a smaller size.
    fn settle(&mut self) {
        for curve in self.0.values_mut() {
            curve.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
            curve.dedup_by_key(|point| point.0.to_bits());
            let mut most = 0.0;
            for (_, cost) in curve {
                most = f64::max(most, *cost);
                *cost = most;
            }
        }
    }
}

impl EventCosts for CostCurves {
    /// The cost between two sizes is interpolated linearly; below the first size it is the first cost; beyond
    /// the last size it is unknown.
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        let curve = self.0.get(&event).map(Vec::as_slice).unwrap_or_default();
        let at = curve.partition_point(|&(wss, _)| wss < wss_kib);
        let Some(&(right, above)) = curve.get(at) else {
            let most = curve.last().map_or_else(
                || "the table has no costs of this event".to_owned(),
                |(most, _)| format!("the table ends at {most} KiB"),
            );
            return Err(NoCost(format!("{event}: {most}")));
        };
        let us = match at.checked_sub(1).map(|before| curve[before]) {
            None => above,
            Some((left, below)) => below + (above - below) * (wss_kib - left) / (right - left),
        };
        Ok(Cost { us, low_us: Some(us), high_us: Some(us) })
    }

    fn happens(&self, event: Event) -> bool {
        event != Event::SmtMigration || self.0.contains_key(&event)
    }

    fn measured(&self, event: Event) -> Vec<f64> {
        self.0.get(&event).into_iter().flatten().map(|&(wss, _)| wss).collect()
    }
}

impl EventCosts for &CostCurves {
    fn cost(&self, event: Event, wss_kib: f64) -> Result<Cost, NoCost> {
        (**self).cost(event, wss_kib)
    }
    fn happens(&self, event: Event) -> bool {
        (**self).happens(event)
    }
    fn measured(&self, event: Event) -> Vec<f64> {
        (**self).measured(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "platform,load,event,statistic,wss_kib,cost_us\n\
        x,idle,preemption,max,64,10\nx,idle,preemption,max,128,30\nx,idle,preemption,max,256,20\n\
        x,idle,l2_migration,max,64,15\nx,idle,l2_migration,max,64,12\nx,idle,preemption,std,64,3\n\
        x,idle,l2_migration,max,128,\n";

    #[test]
    fn costs_lie_on_straight_lines_and_never_fall() {
        let table = CostTable::parse(TABLE).unwrap();
        let costs = table.select("idle", "max").unwrap();
        let cost = |wss| costs.cost(Event::Preemption, wss).ok().map(|cost| cost.us);
        assert_eq!(
            [cost(4.0), cost(96.0), cost(128.0), cost(200.0)],
            [10.0, 20.0, 30.0, 30.0].map(Some)
        );
        assert_eq!(cost(257.0), None);
        let both = [Event::Preemption, Event::L2Migration];
        assert_eq!(costs.largest(&both, 64.0).map(|cost| cost.us), Ok(15.0));
        let why = costs.largest(&both, 100.0).unwrap_err().to_string();
        assert!(why.contains("l2_migration") && why.contains("64 KiB"), "{why}");
        // Siblings are known of where the table has them.
        let siblings = [Event::Preemption, Event::SmtMigration];
        assert_eq!(costs.largest(&siblings, 64.0).map(|cost| cost.us), Ok(10.0));
        assert_eq!(costs.sizes(&both), [64.0]);
        assert_eq!(table.selections().count(), 1);
    }

    #[test]
    fn a_table_for_schedcat_is_read_again() {
        let text = "WSS,L1,L2,L3,MEM\n4,5.24,5.37,5.66,5.77\n64,65.05,65.33,70.72,70.5\n";
        let table = CostTable::parse_as(text, "constructed", "avg").unwrap();
        let costs = table.select("constructed", "avg").unwrap();
        assert_eq!(costs.cost(Event::MemoryMigration, 4.0).map(|cost| cost.us), Ok(5.77));
        assert_eq!(costs.schedcat(), text);
        assert_eq!(CostTable::parse(&table.csv()).unwrap(), table);
        let error = CostTable::parse(&text.replace("65.33", "much")).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("L2 is `much`"), "{error}");
    }

    #[test]
    fn what_is_no_table_is_refused_with_the_line() {
        assert_eq!(CostTable::parse("a,b\n"), Err(CostError::Column("load")));
        let error = CostTable::parse(&TABLE.replace("max,64,10", "max,64,ten")).unwrap_err();
        assert!(error.to_string().contains("line 2") && error.to_string().contains("`ten`"));
        let error =
            CostTable::parse(&TABLE.replace("x,idle,preemption,max,128", "x,idle,hop,max,128"));
        assert!(error.unwrap_err().to_string().contains("hop"));
        assert_eq!(CostTable::parse(TABLE.lines().next().unwrap()), Err(CostError::Empty));
    }
}
