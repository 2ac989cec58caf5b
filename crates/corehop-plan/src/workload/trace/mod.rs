// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorded accesses of a program; a simulated job repeats all of them in each touch.
//!
//! A plan contains its traces, so that a result states what was run and any machine can repeat the run. A trace keeps
//! visits to lines: consecutive accesses to one line are one visit, because all but the first hit the innermost cache.
//! Instructions count as time of the core, but a simulated job does not fetch them.
//!
//! ```text
//! formats ── a line of text to an access       read ── the accesses of a file to a trace
//! vlq ── numbers as text                       mod ── the trace
//! ```

use serde::{Deserialize, Serialize};

use super::LINE;
use crate::units::Bytes;
use crate::words::{digest, words};

mod formats;
mod read;
mod vlq;

pub use formats::{NoThread, TraceThread};
pub use read::{MOST_ACCESSES, ParsedTrace, ReadError, TraceWindow};

/// Serialises a plan's trace, which all its users share.
pub(super) mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Trace;

    #[expect(clippy::ref_option, reason = "serde passes the field")]
    pub(crate) fn serialize<S: Serializer>(
        trace: &Option<Arc<Trace>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        trace.as_deref().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Trace>>, D::Error> {
        Ok(Option::<Trace>::deserialize(deserializer)?.map(Arc::new))
    }
}

/// The number of cache lines in a base page.
pub const LINES_OF_PAGE: u32 = 64;

words! {
    /// The tool that recorded a trace.
    Source, "a source of traces" {
        /// Valgrind's lackey with `--trace-mem=yes` recorded every instruction and every memory access.
        Lackey = "lackey",
        /// DynamoRIO's drmemtrace recorded the trace, and its tool `view` printed the trace as text.
        Drmemtrace = "drmemtrace",
        /// DynamoRIO's sample client memtrace recorded the trace as text.
        Memtrace = "memtrace",
    }
}

/// A visit to a line: one or more consecutive accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceVisit {
    /// The line: its page's index among the trace's pages (in address order) times [`LINES_OF_PAGE`], plus the line's
    /// index in the page.
    pub line: u32,
    /// Whether the first access of the visit reads.
    pub reads: bool,
    /// Whether any access of the visit writes.
    pub writes: bool,
    /// The number of accesses in the visit, plus the instructions before them if the trace has instructions.
    pub words: u32,
}

/// The recorded accesses of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The name of the file from which the trace was read.
    pub name: String,
    /// The tool that recorded the trace.
    pub source: Source,
    /// The number of accesses in the trace.
    pub accesses: u64,
    /// The number of accesses that write.
    pub writes: u64,
    /// The number of instructions between the accesses; 0 if the tool recorded no instructions.
    pub instructions: u64,
    /// The number of visits that the accesses form.
    pub count: u64,
    /// The numbers of the trace's base pages, ascending, encoded as differences.
    pages: String,
    /// The visits of the trace: lines encoded as differences, each with its words and its kind of access.
    visits: String,
}

/// The reason why a trace in a plan cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the trace {name} is damaged: {what}")]
pub struct TraceError {
    /// The name of the trace with the damage.
    pub name: String,
    /// The part of the trace that is damaged.
    pub what: &'static str,
}

impl Trace {
    /// Makes a trace of the given visits; `pages` are the numbers of the trace's pages, ascending.
    pub(super) fn of(
        (name, source): (&str, Source),
        [accesses, writes, instructions]: [u64; 3],
        pages: &[u64],
        visits: &[TraceVisit],
    ) -> Self {
        let mut before = 0;
        let mut difference = |page: &u64| {
            vlq::VlqNumber::from(page.wrapping_sub(std::mem::replace(&mut before, *page)) as i64)
        };
        let pages = vlq::text(pages.iter().map(&mut difference));
        let mut before = 0;
        let numbers = visits.iter().flat_map(|visit| {
            let line = i64::from(visit.line);
            let way = line - std::mem::replace(&mut before, line);
            let does = u64::from(visit.reads) | u64::from(visit.writes) << 1;
            [way, (u64::from(visit.words) << 2 | does) as i64]
        });
        let count = visits.len();
        let visits = vlq::text(numbers);
        Self {
            name: name.to_owned(),
            source,
            accesses,
            writes,
            instructions,
            count: count as u64,
            pages,
            visits,
        }
    }

    /// Returns the numbers of the trace's base pages, ascending; a number is an address divided by 4 KiB.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the text of a plan was damaged.
    pub fn pages(&self) -> Result<Vec<u64>, TraceError> {
        let mut page = 0_u64;
        let next = |difference: i64| {
            page = page.wrapping_add(difference as u64);
            page
        };
        let pages: Vec<u64> = vlq::numbers(&self.pages)
            .ok_or_else(|| self.damaged("its pages"))?
            .into_iter()
            .map(next)
            .collect();
        let ascends = pages.is_sorted_by(|one, other| one < other);
        if ascends && !pages.is_empty() {
            Ok(pages)
        } else {
            Err(self.damaged("the order of its pages"))
        }
    }

    /// Returns the visits to lines that the trace has, in order.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the text of a plan was damaged.
    pub fn visits(&self) -> Result<Vec<TraceVisit>, TraceError> {
        let most = self.pages()?.len() as i64 * i64::from(LINES_OF_PAGE);
        let numbers = vlq::numbers(&self.visits).ok_or_else(|| self.damaged("its visits"))?;
        let mut line = 0_i64;
        let visit = |pair: &[i64; 2]| {
            line = line.checked_add(pair[0]).filter(|line| (0..most).contains(line))?;
            let (does, words) = (pair[1] & 3, u32::try_from(pair[1] >> 2).ok()?);
            let (reads, writes) = (does & 1 != 0, does & 2 != 0);
            (does != 0).then_some(TraceVisit { line: line as u32, reads, writes, words })
        };
        let (pairs, rest) = numbers.as_chunks::<2>();
        let visits: Option<Vec<TraceVisit>> = pairs.iter().map(visit).collect();
        let as_many = |visits: &Vec<TraceVisit>| visits.len() as u64 == self.count;
        let whole = visits.filter(|it| rest.is_empty() && !it.is_empty() && as_many(it));
        whole.ok_or_else(|| self.damaged("a visit"))
    }

    /// Returns the total size of the distinct lines in the trace.
    ///
    /// # Errors
    /// Returns [`TraceError`] if the text of a plan was damaged.
    pub fn wss(&self) -> Result<Bytes, TraceError> {
        let mut lines: Vec<u32> = self.visits()?.into_iter().map(|visit| visit.line).collect();
        lines.sort_unstable();
        lines.dedup();
        Ok(Bytes::new(lines.len() as u64 * LINE))
    }

    /// Returns the trace's text for the column `workload`: its name, and a number that distinguishes the trace from
    /// other windows of the file.
    pub fn label(&self) -> String {
        let digest = digest(&[self.pages.as_str(), &self.visits].concat());
        format!("trace:{}#{}", self.name, &digest[..8])
    }

    fn damaged(&self, what: &'static str) -> TraceError {
        TraceError { name: self.name.clone(), what }
    }
}
