// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overheads of an operating system by the number of tasks, in SchedCAT's file format: a column `TASK-COUNT`, and a
//! column in microseconds for each overhead.

use std::fmt::Write as _;

use super::system::SystemOverheads;
use corehop_plan::units::Nanos;
use corehop_plan::workload::task::{LONGEST, Tick, Time};

/// Operating-system overheads, each by the number of tasks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OverheadTable {
    /// The name and the points (number of tasks, overhead) of each overhead. Task numbers ascend, and overheads never
    /// fall.
    columns: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// The reason why a text is not an overhead table, or why a table has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OverheadError {
    /// The column `TASK-COUNT` is missing, or there is no other column.
    #[error("the table of overheads has no column {0}")]
    Column(&'static str),
    /// A column has an unknown name.
    #[error("the table of overheads has an unknown column `{0}`: use one of TASK-COUNT, {known}", known = known())]
    Unknown(String),
    /// A column name occurs twice.
    #[error("the table of overheads has the column `{0}` twice: expected each column once")]
    Twice(String),
    /// A line has a different number of fields than the header.
    #[error("the table of overheads, line {line}: {fields} fields: expected {columns}")]
    Fields {
        /// The number of the line, counted from 1.
        line: usize,
        /// The number of fields in the line.
        fields: usize,
        /// The number of columns in the header.
        columns: usize,
    },
    /// A field is not a number.
    #[error(
        "the table of overheads, line {line}: {column} is `{text}`: expected a number of 0 or more"
    )]
    Field {
        /// The number of the line, counted from 1.
        line: usize,
        /// The name of the column.
        column: String,
        /// The text of the field.
        text: String,
    },
    /// The table has only columns for locks and system calls, but no column that a test charges.
    #[error(
        "this table has no scheduling overheads: expected some of the columns {charged}",
        charged = CHARGED.join(", ")
    )]
    NotScheduling,
    /// The set has more tasks than the table covers.
    #[error("the table has overheads for up to {most} tasks, but the set has {count} tasks")]
    Beyond {
        /// The largest number of tasks in the table.
        most: f64,
        /// The number of tasks in the set.
        count: usize,
    },
}

/// The columns that tests charge.
const CHARGED: [&str; 6] = ["IPI-LATENCY", "SCHEDULE", "RELEASE", "CXS", "TICK", "RELEASE-LATENCY"];
/// The columns that are stored but that no test charges: locks and system calls.
const KEPT: [&str; 6] = ["LOCK", "UNLOCK", "READ-LOCK", "READ-UNLOCK", "SYSCALL-IN", "SYSCALL-OUT"];

fn known() -> String {
    [CHARGED, KEPT].concat().join(", ")
}

const COUNT: &str = "TASK-COUNT";

impl OverheadTable {
    /// Whether the first line of a text is the header of an overhead table.
    pub fn is_one(text: &str) -> bool {
        text.lines().next().is_some_and(|head| head.split(',').any(|it| it.trim() == COUNT))
    }

    /// Parses an overhead table. If a number of tasks has several values, the largest counts. Overheads never fall
    /// with more tasks.
    ///
    /// # Errors
    /// Returns [`OverheadError`], which names the column or the line.
    pub fn parse(text: &str) -> Result<Self, OverheadError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let head: Vec<&str> = lines
            .next()
            .map(|(_, line)| line.split(',').map(str::trim).collect())
            .unwrap_or_default();
        let count = head.iter().position(|&it| it == COUNT).ok_or(OverheadError::Column(COUNT))?;
        let name = |(at, &column): (usize, &&str)| {
            let known = CHARGED.into_iter().chain(KEPT).find(|&name| name == column);
            known.map(|name| (at, name)).ok_or_else(|| OverheadError::Unknown(column.to_owned()))
        };
        let others = head.iter().enumerate().filter(|&(at, _)| at != count);
        let places: Vec<(usize, &'static str)> = others.map(name).collect::<Result<_, _>>()?;
        let twice = |(at, column): (usize, &&str)| head[..at].contains(column);
        if let Some((_, column)) = head.iter().enumerate().find(|&it| twice(it)) {
            return Err(OverheadError::Twice((*column).to_owned()));
        }
        let mut columns: Vec<(&'static str, Vec<(f64, f64)>)> =
            places.iter().map(|&(_, name)| (name, Vec::new())).collect();
        for (at, line) in lines {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            if fields.len() > head.len() {
                let (line, fields, columns) = (at + 1, fields.len(), head.len());
                return Err(OverheadError::Fields { line, fields, columns });
            }
            let number = |place: usize| {
                let text = fields.get(place).copied().unwrap_or_default();
                let number = text.parse().ok();
                let number = number.filter(|value: &f64| (0.0..LONGEST.as_f64()).contains(value));
                let (line, column) = (at + 1, head[place].to_owned());
                number.ok_or(OverheadError::Field { line, column, text: text.to_owned() })
            };
            for (&(place, _), (_, points)) in places.iter().zip(&mut columns) {
                points.push((number(count)?, number(place)?));
            }
        }
        if columns.iter().all(|(_, points)| points.is_empty()) {
            return Err(OverheadError::Column("with overheads"));
        }
        for (_, points) in &mut columns {
            settle(points);
        }
        Ok(Self { columns })
    }

    /// Writes the table in SchedCAT's format.
    pub fn schedcat(&self) -> String {
        let mut text = COUNT.to_owned();
        for (name, _) in &self.columns {
            text.extend([",", name]);
        }
        text.push('\n');
        let rows = self.columns.first().map_or(0, |(_, points)| points.len());
        for row in 0..rows {
            let _ = write!(text, "{}", self.columns[0].1[row].0);
            for (_, points) in &self.columns {
                let _ = write!(text, ",{}", points[row].1);
            }
            text.push('\n');
        }
        text
    }

    /// Returns the chargeable columns that the table lacks; nothing is charged for them.
    pub fn lacks(&self) -> Vec<&'static str> {
        let there = |name: &&str| self.columns.iter().any(|(known, _)| known == name);
        CHARGED.into_iter().filter(|name| !there(name)).collect()
    }

    /// Returns the overheads for `count` tasks in nanoseconds, rounded up; `quantum` is the time between two ticks.
    /// Each CPU handles its own releases.
    ///
    /// # Errors
    /// Returns [`OverheadError::Beyond`] for more tasks than the table covers, [`OverheadError::NotScheduling`] for a
    /// table with no column that a test charges.
    pub fn of(&self, count: usize, quantum: Nanos) -> Result<SystemOverheads, OverheadError> {
        if self.lacks().len() == CHARGED.len() {
            return Err(OverheadError::NotScheduling);
        }
        let value = |name: &str| {
            let column = self.columns.iter().find(|(known, _)| *known == name);
            column.map_or(Ok(Time::ZERO), |(_, points)| at(points, count))
        };
        Ok(SystemOverheads {
            tick: value("TICK")?,
            quantum: Some(Tick::Nano.up(quantum)),
            release: value("RELEASE")?,
            event_latency: value("RELEASE-LATENCY")?,
            scheduling: value("SCHEDULE")?,
            context_switch: value("CXS")?,
            interprocessor: value("IPI-LATENCY")?,
            dedicated: None,
        })
    }
}

/// Sorts points by the number of tasks. If a number has several values, the largest counts, and overheads never fall
/// with more tasks.
fn settle(points: &mut Vec<(f64, f64)>) {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    points.dedup_by_key(|point| point.0.to_bits());
    let mut most = 0.0;
    for (_, value) in points {
        most = f64::max(most, *value);
        *value = most;
    }
}

/// The overhead in nanoseconds, interpolated linearly between two numbers of tasks. For fewer tasks than the smallest
/// number in the table, the overhead of the smallest number applies.
fn at(points: &[(f64, f64)], count: usize) -> Result<Time, OverheadError> {
    let n = count as f64;
    let place = points.partition_point(|&(known, _)| known < n);
    let Some(&(right, above)) = points.get(place) else {
        let most = points.last().map_or(0.0, |&(most, _)| most);
        return Err(OverheadError::Beyond { most, count });
    };
    let value = match place.checked_sub(1).map(|before| points[before]) {
        None => above,
        Some((left, below)) => below + (above - below) * (n - left) / (right - left),
    };
    // A third of a microsecond and the like come out a hair too large.
    Ok(Tick::Nano.up(Nanos::new((value * 1e3 - 1e-6).ceil().max(0.0) as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "TASK-COUNT,SCHEDULE,CXS,TICK\n10,2.5,1.25,1\n20,4.5,1,3\n";

    #[test]
    fn overheads_lie_on_straight_lines_in_nanoseconds_and_do_not_fall() {
        let table = OverheadTable::parse(TABLE).unwrap();
        let of = |count| table.of(count, Nanos::new(1_000_000)).unwrap();
        // At 15: 3.5, and 2 for a tick; context switches do not get cheaper.
        let overheads = of(15);
        assert_eq!(
            (overheads.scheduling, overheads.context_switch, overheads.tick),
            (Time::new(3_500), Time::new(1_250), Time::new(2_000))
        );
        assert_eq!(
            (of(3).scheduling, of(10).scheduling, of(20).scheduling),
            (Time::new(2_500), Time::new(2_500), Time::new(4_500))
        );
        assert_eq!(
            (overheads.release, overheads.quantum),
            (Time::ZERO, Some(Time::new(1_000_000)))
        );
        let error = table.of(21, Nanos::new(1_000_000)).unwrap_err().to_string();
        assert!(error.contains("up to 20 tasks") && error.contains("has 21"), "{error}");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let table = OverheadTable::parse(TABLE).unwrap();
        assert_eq!(table.schedcat(), TABLE.replace("20,4.5,1,3", "20,4.5,1.25,3"));
        assert_eq!(OverheadTable::parse(&table.schedcat()), Ok(table));
        assert!(OverheadTable::is_one(TABLE) && !OverheadTable::is_one("WSS,L1\n1,2\n"));
    }

    #[test]
    fn a_table_of_locks_is_no_table_of_zeros() {
        let locks = OverheadTable::parse("TASK-COUNT,LOCK,SYSCALL-IN\n2,0.1,3.7\n").unwrap();
        let error = locks.of(2, Nanos::new(1_000_000)).unwrap_err();
        assert_eq!(error, OverheadError::NotScheduling);
        assert!(error.to_string().starts_with("this table has no scheduling overheads"), "{error}");
        // Tables of locks are still converted.
        assert_eq!(locks.schedcat(), "TASK-COUNT,LOCK,SYSCALL-IN\n2,0.1,3.7\n");
        let some = OverheadTable::parse(TABLE).unwrap();
        assert_eq!(some.lacks(), ["IPI-LATENCY", "RELEASE", "RELEASE-LATENCY"]);
    }

    #[test]
    fn what_is_no_table_is_refused_with_column_and_line() {
        let refused = |text: &str, words: &[&str]| {
            let error = OverheadTable::parse(text).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        };
        refused("A,B\n", &["TASK-COUNT"]);
        refused("TASK-COUNT\n10\n", &["no column with overheads"]);
        refused(&TABLE.replace("CXS", "CXZ"), &["`CXZ`", "IPI-LATENCY"]);
        refused(&TABLE.replace("4.5", "-1"), &["line 3", "SCHEDULE", "`-1`"]);
        refused(&TABLE.replace("4.5", "inf"), &["line 3", "`inf`"]);
        refused("TASK-COUNT,CXS\n10\n", &["line 2", "CXS is ``"]);
        refused("TASK-COUNT,CXS\n10,1,2\n", &["line 2", "3 fields: expected 2"]);
        refused("TASK-COUNT,CXS,CXS\n10,1,2\n", &["`CXS` twice"]);
    }
}
