// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan of core switches: batches of calls from one CPU to another; each batch uses one
//! mechanism.

mod record;
mod rows;

pub use record::{CallTimes, SwitchRecord, SwitchTimes};
pub use rows::SwitchBatch;

use serde::{Deserialize, Serialize};

use crate::kinds::kind::samples;
use crate::kinds::{
    Kind, Projection, ProjectionContext, RowCounting, RowKind, RowTime, Rows, SamplingUnit,
};
use crate::platform::Platform;
use crate::units::{Cpu, Nanos};
use crate::workload::switching::{SwitchCall, SwitchMechanism};

/// A plan of core switches: batches of calls, in rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switches {
    /// The cells of the plan; each cell is a mechanism, a pair of CPUs and a call.
    pub cells: Vec<SwitchCell>,
    /// The rounds of the plan, in order.
    pub rounds: Vec<SwitchRound>,
}

/// A cell: a mechanism, a pair of CPUs and a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchCell {
    /// The mechanism by which the cell switches cores.
    pub mechanism: SwitchMechanism,
    /// The CPU of the caller: the application core.
    pub from: Cpu,
    /// The CPU to which calls are switched: the OS core.
    pub to: Cpu,
    /// The system call that the batch makes.
    pub call: SwitchCall,
    /// The number of bytes that the call reads or writes; 0 for a call without a size.
    pub bytes: u64,
    /// The number of calls outstanding at a time; with 1 the caller waits for each call before it
    /// makes the next call.
    pub outstanding: u32,
    /// The number of calls in a batch.
    pub calls: u32,
}

/// A round, in which some of the cells run one batch each, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRound {
    /// The replicate to which the round belongs; each replicate starts new partner threads.
    pub replicate: u32,
    /// The indices of the cells, in the order of their batches.
    pub order: Vec<usize>,
}

/// The reason why a plan of core switches cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwitchesError {
    /// A cell names a CPU that corehop may not use, or names one CPU twice.
    #[error(
        "cell {cell} switches from CPU {from} to CPU {to}: name two different CPUs of {usable}"
    )]
    Cpus {
        /// The number of the cell that has the error, counted from 0.
        cell: usize,
        /// The application core that the cell names.
        from: Cpu,
        /// The OS core that the cell names.
        to: Cpu,
        /// The CPUs that corehop may use on the platform.
        usable: String,
    },
    /// A batch has no calls, or too many calls.
    #[error("cell {cell} has {calls} calls in a batch: give it 1 to {}", SwitchCell::MOST_CALLS)]
    Calls {
        /// The number of the cell that has the error, counted from 0.
        cell: usize,
        /// The number of calls in the batch.
        calls: u32,
    },
    /// A call has a size that it cannot have.
    #[error(
        "cell {cell} is a {call} of {bytes} bytes: a gettid has 0 bytes, other calls have 1 to {}",
        SwitchCell::MOST_BYTES
    )]
    Bytes {
        /// The number of the cell that has the error, counted from 0.
        cell: usize,
        /// The system call of the cell.
        call: SwitchCall,
        /// The size that the cell states, in bytes.
        bytes: u64,
    },
    /// The mechanism cannot have this number of outstanding calls.
    #[error(
        "cell {cell} has {outstanding} calls outstanding by {mechanism}: v2 to v5 can have 1 to {}, other mechanisms only 1",
        SwitchCell::MOST_OUTSTANDING
    )]
    Outstanding {
        /// The number of the cell that has the error, counted from 0.
        cell: usize,
        /// The mechanism that the cell uses.
        mechanism: SwitchMechanism,
        /// The number of outstanding calls that the cell states.
        outstanding: u32,
    },
    /// The mechanism cannot make the call of the cell.
    #[error(
        "cell {cell} is a {call} by sqpoll, which is measured only with gettid: omit this cell"
    )]
    Sqpoll {
        /// The number of the cell that has the error, counted from 0.
        cell: usize,
        /// The system call of the cell.
        call: SwitchCall,
    },
    /// A round names a cell that the plan does not have.
    #[error("round {round} names cell {cell} of {cells}: cells are counted from 0")]
    Cell {
        /// The number of the round that has the error, counted from 0.
        round: usize,
        /// The cell that the round names.
        cell: usize,
        /// The number of cells in the plan.
        cells: usize,
    },
    /// The platform has only one usable CPU, so there is no second CPU to switch to.
    #[error(
        "{platform} has one usable CPU ({usable}), but core switches need two: allow a second CPU (taskset, cpuset)"
    )]
    OneCpu {
        /// The name of the platform that has only one usable CPU.
        platform: String,
        /// The usable CPUs of the platform.
        usable: String,
    },
}

impl SwitchCell {
    /// The largest number of calls in a batch.
    pub const MOST_CALLS: u32 = 1_000_000;
    /// The largest payload of a core switch, in bytes.
    pub const MOST_BYTES: u64 = 1 << 20;
    /// The largest number of outstanding calls.
    pub const MOST_OUTSTANDING: u32 = 64;

    /// Returns a short description of the cell.
    pub fn name(&self) -> String {
        let Self { mechanism, from, to, call, bytes, outstanding, .. } = self;
        let size = if call.is_sized() { format!(" {bytes} B") } else { String::new() };
        let depth =
            if *outstanding > 1 { format!(", {outstanding} outstanding") } else { String::new() };
        format!("{mechanism} {call}{size}{depth}, CPU {}→{}", from.0, to.0)
    }

    /// Returns a rough estimate of a batch's run time; only its order of magnitude matters.
    pub fn projected(&self) -> Nanos {
        let each = if self.mechanism.polls() || !self.mechanism.switches() {
            500 + self.bytes / 10
        } else {
            60_000
        };
        Nanos::new(u64::from(self.calls) * each)
    }

    fn check(&self, cell: usize, platform: &Platform) -> Result<(), SwitchesError> {
        let Self { mechanism, from, to, call, bytes, outstanding, calls } = *self;
        let usable = platform.usable();
        if from == to || !usable.contains(from) || !usable.contains(to) {
            return Err(SwitchesError::Cpus { cell, from, to, usable: usable.to_string() });
        }
        if !(1..=Self::MOST_CALLS).contains(&calls) {
            return Err(SwitchesError::Calls { cell, calls });
        }
        let sizes = if call.is_sized() { 1..=Self::MOST_BYTES } else { 0..=0 };
        if !sizes.contains(&bytes) {
            return Err(SwitchesError::Bytes { cell, call, bytes });
        }
        let most = if mechanism.has_partner() { Self::MOST_OUTSTANDING } else { 1 };
        if !(1..=most).contains(&outstanding) {
            return Err(SwitchesError::Outstanding { cell, mechanism, outstanding });
        }
        if mechanism == SwitchMechanism::Sqpoll && call.is_sized() {
            return Err(SwitchesError::Sqpoll { cell, call });
        }
        Ok(())
    }
}

impl Switches {
    /// Checks whether `platform` can run the plan.
    ///
    /// # Errors
    /// Returns [`SwitchesError`] for the first cell or round that cannot run.
    pub fn check(&self, platform: &Platform) -> Result<(), SwitchesError> {
        for (cell, it) in self.cells.iter().enumerate() {
            it.check(cell, platform)?;
        }
        let cells = self.cells.len();
        for (round, it) in self.rounds.iter().enumerate() {
            if let Some(&cell) = it.order.iter().find(|&&cell| cell >= cells) {
                return Err(SwitchesError::Cell { round, cell, cells });
            }
        }
        Ok(())
    }

    /// Returns the number of batches in all rounds.
    pub fn batches(&self) -> u64 {
        self.rounds.iter().map(|round| round.order.len() as u64).sum()
    }
}

impl Kind for Switches {
    type Record = SwitchRecord;
    type Error = SwitchesError;

    fn fits(&self, platform: &Platform) -> Result<(), Self::Error> {
        self.check(platform)
    }

    fn amount(&self) -> Option<(&'static str, u64)> {
        Some(("batches", self.batches()))
    }

    /// Returns one unit for each cell, with its number of batches.
    fn units(&self) -> Vec<SamplingUnit> {
        let mut counts = vec![0; self.cells.len()];
        for &cell in self.rounds.iter().flat_map(|round| &round.order) {
            // A plan by hand may name a cell that is not there.
            counts.get_mut(cell).into_iter().for_each(|count| *count += 1);
        }
        let unit = |(cell, asked): (&SwitchCell, u32)| SamplingUnit {
            name: cell.name(),
            asked,
            each: cell.projected(),
        };
        self.cells.iter().zip(counts).map(unit).collect()
    }

    fn leave_out(&mut self, mut done: u64, _: u64) {
        for round in &mut self.rounds {
            let skipped = round.order.len().min(usize::try_from(done).unwrap_or(usize::MAX));
            round.order.drain(..skipped);
            done -= skipped as u64;
        }
        self.rounds.retain(|round| !round.order.is_empty());
    }

    fn go_on(&mut self, more: Self) {
        self.rounds.extend(more.rounds);
    }

    fn outline(&self, units: &[SamplingUnit], _: Option<usize>) -> String {
        format!(": {} cells, {} batches", units.len(), samples(units))
    }

    fn row_kinds(&self) -> &'static [RowKind] {
        &[RowKind::Switches]
    }

    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, SwitchRecord> {
        Box::new(move |records, rows| {
            let of = |record| SwitchBatch::of(&at.context, self, at.first, record);
            rows.switches.extend(records.iter().filter_map(of));
        })
    }

    fn counting(&self, _: u64) -> Box<dyn RowCounting> {
        Box::new(|rows: &Rows| rows.switches.iter().map(SwitchBatch::observation).collect())
    }

    fn times(rows: &Rows) -> Vec<RowTime> {
        rows.switches.iter().filter_map(SwitchBatch::time).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> SwitchCell {
        SwitchCell {
            mechanism: SwitchMechanism::V4,
            from: Cpu(0),
            to: Cpu(1),
            call: SwitchCall::Gettid,
            bytes: 0,
            outstanding: 1,
            calls: 10,
        }
    }

    fn error(cell: SwitchCell) -> String {
        let platform = Platform::named("xeon_e5520").unwrap().unwrap();
        let plan = Switches { cells: vec![cell], rounds: Vec::new() };
        plan.check(&platform).unwrap_err().to_string()
    }

    #[test]
    fn a_cell_that_cannot_be_is_refused_with_the_remedy() {
        assert!(error(SwitchCell { to: Cpu(0), ..cell() }).contains("two different CPUs of 0-7"));
        assert!(error(SwitchCell { to: Cpu(99), ..cell() }).contains("CPU 99"));
        assert!(error(SwitchCell { calls: 0, ..cell() }).contains("1 to 1000000"));
        assert!(error(SwitchCell { bytes: 8, ..cell() }).contains("gettid has 0 bytes"));
        let unsized_write = SwitchCell { call: SwitchCall::Pwrite, ..cell() };
        assert!(error(unsized_write.clone()).contains("0 bytes"));
        let many = SwitchCell { outstanding: 65, ..cell() };
        assert!(error(many).contains("65 calls outstanding"));
        let moved = SwitchCell { mechanism: SwitchMechanism::V1, outstanding: 2, ..cell() };
        assert!(error(moved).contains("v1"));
        let read = SwitchCell { mechanism: SwitchMechanism::Sqpoll, bytes: 8, ..unsized_write };
        assert!(error(read).contains("sqpoll"));
    }

    #[test]
    fn batches_that_have_run_are_left_out_and_the_rest_keeps_its_order() {
        let round = |replicate, order: &[usize]| SwitchRound { replicate, order: order.to_vec() };
        let mut plan = Switches {
            cells: vec![cell(); 3],
            rounds: vec![round(0, &[2, 0, 1]), round(1, &[1, 0])],
        };
        assert_eq!(plan.batches(), 5);
        plan.leave_out(2, 0);
        assert_eq!(plan.rounds, [round(0, &[1]), round(1, &[1, 0])]);
        plan.leave_out(1, 0);
        assert_eq!(plan.rounds, [round(1, &[1, 0])]);
        assert_eq!(plan.units()[1].asked, 1);
    }
}
