// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the rows of `measure supply` to windows: the supply of each CPU, and its figures for readers.

use corehop_plan::workload::task::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

use parquet::file::reader::ChunkReader;
use serde::Serialize;

use super::{Gap, NoSupply, Supplies, Supply, SupplyWindow};
use corehop_plan::samples::{FileError, Reader, RowKind, Rows, SupplyGap};
use corehop_stats::estimator::Estimator;
use corehop_stats::summarise::{FromFile, Summarise};

/// The window lengths for which the largest loss is shown, in milliseconds.
const SHOWN_MS: [u64; 3] = [1, 10, 40];

/// The warning about a thread that had to share its CPU.
const WITHOUT_FIFO: &str =
    "The watching thread was not under SCHED_FIFO: time in which other threads ran counts as gaps.";

/// The reason why a file gives no supply.
#[derive(Debug, thiserror::Error)]
pub enum NoSupplyInFile {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The rows belong to another experiment.
    #[error(
        "contains {0}, not the gaps of CPUs: `corehop measure supply -o FILE.parquet` records gaps"
    )]
    Other(String),
    /// The rows contain no supply.
    #[error(transparent)]
    Rows(#[from] NoSupply),
}

/// Collects rows until the file ends.
#[derive(Debug, Clone, Default)]
pub struct ObservedSupply {
    windows: Vec<SupplyWindow>,
    /// The numbers that identify the last window.
    last: Option<(u64, u64)>,
    /// For each CPU, the number of gaps whose beginning was not observed.
    cut: BTreeMap<u32, u64>,
    /// The scheduling policies of the observing threads.
    policies: BTreeSet<String>,
    /// A row that does not belong to the window before it.
    astray: Option<u64>,
}

/// The figures of one CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SupplySummary {
    /// The number of the CPU.
    pub cpu: u32,
    /// The number of observed windows.
    pub windows: usize,
    /// The observed time, in seconds.
    pub watched_s: f64,
    /// The number of gaps.
    pub gaps: usize,
    /// The number of gaps whose beginning was not observed, so that their lengths are lower bounds.
    pub cut: u64,
    /// The number of gaps per second.
    pub gaps_per_s: f64,
    /// The largest gap in microseconds; `None` if there is no gap.
    pub largest_us: Option<f64>,
    /// The share of the time that was lost, in percent, including gaps too short for a row.
    pub lost_percent: f64,
    /// The largest time lost in any window of 1, 10 and 40 ms, in microseconds; `None` if no window is that long.
    pub most_lost_us: [Option<f64>; 3],
    /// The scheduling policies of the observing threads.
    pub policies: Vec<String>,
}

/// Reads the supply from a file of `measure supply`.
///
/// # Errors
/// Returns [`NoSupplyInFile`] if the file has other rows, is damaged, or contains no window.
pub fn read<S>(reader: &mut Reader<S>) -> Result<Supplies, NoSupplyInFile>
where
    S: ChunkReader + Read + Seek + 'static,
{
    if reader.rows_kind()? != RowKind::Supply {
        return Err(NoSupplyInFile::Other(reader.kind().rows.clone()));
    }
    let mut observed = ObservedSupply::default();
    while let Some(rows) = reader.next_rows::<SupplyGap>()? {
        observed.take(&rows);
    }
    Ok(observed.supplies()?)
}

impl Summarise for ObservedSupply {
    type Said = Vec<SupplySummary>;

    fn new(_: Estimator) -> Self {
        Self::default()
    }

    fn take(&mut self, rows: &Rows, _: &FromFile<'_>) {
        Self::take(self, &rows.supply);
    }

    fn finish(&mut self) -> Vec<SupplySummary> {
        self.summaries()
    }
}

impl ObservedSupply {
    /// Adds rows, in the order of the file.
    pub fn take(&mut self, rows: &[SupplyGap]) {
        for row in rows {
            let (cpu, of) = (row.cpu as u32, (row.window, row.cpu));
            if row.gap == 0 {
                self.last = Some(of);
                self.policies.insert(row.policy.to_string());
                let (asked, watched, short) = (row.asked_ns, row.watched_ns, row.short_ns);
                self.windows.push(SupplyWindow { cpu, asked, watched, short, gaps: Vec::new() });
            }
            let window = self.windows.last_mut().filter(|_| self.last == Some(of));
            match (window, row.gap_at_ns.zip(row.gap_ns)) {
                (None, _) => self.astray = self.astray.or(Some(row.window)),
                (Some(window), Some((at, length))) => window.gaps.push(Gap { at, length }),
                (Some(_), None) => {}
            }
            *self.cut.entry(cpu).or_default() += u64::from(row.cut);
        }
    }

    /// Returns the supply of each CPU.
    ///
    /// # Errors
    /// Returns [`NoSupply`] if there is no window, or a window lacks rows.
    pub fn supplies(&self) -> Result<Supplies, NoSupply> {
        match self.astray {
            None if self.without_fifo() => {
                Ok(Supplies::watched(&self.windows)?.noting(WITHOUT_FIFO))
            }
            None => Supplies::watched(&self.windows),
            Some(window) => Err(NoSupply(format!(
                "window {window} lacks its first row: pass the complete file of a run, with the rows in their original order"
            ))),
        }
    }

    /// Whether an observing thread had a policy other than `SCHED_FIFO`.
    pub fn without_fifo(&self) -> bool {
        self.policies.iter().any(|policy| !policy.starts_with("fifo"))
    }

    /// Returns the figures of each CPU.
    pub fn summaries(&self) -> Vec<SupplySummary> {
        let supplies = self.supplies().ok();
        let cpus: BTreeSet<u32> = self.windows.iter().map(|it| it.cpu).collect();
        let of = |cpu| self.summary(cpu, supplies.as_ref().and_then(|it| it.of_cpu(cpu)));
        cpus.into_iter().map(of).collect()
    }

    fn summary(&self, cpu: u32, supply: Option<&Supply>) -> SupplySummary {
        let windows: Vec<&SupplyWindow> = self.windows.iter().filter(|it| it.cpu == cpu).collect();
        let lengths = || windows.iter().flat_map(|it| &it.gaps).map(|gap| gap.length);
        let watched: f64 = windows.iter().map(|it| it.watched as f64).sum();
        let lost: f64 =
            lengths().chain(windows.iter().map(|it| it.short)).map(|ns| ns as f64).sum();
        let longest = windows.iter().map(|it| it.asked).max().unwrap_or(0);
        let most = |ms: u64| {
            let ns = ms * 1_000_000;
            supply.filter(|_| ns <= longest).map(|it| it.lost(Time::new(ns)).as_f64() / 1e3)
        };
        SupplySummary {
            cpu,
            windows: windows.len(),
            watched_s: watched / 1e9,
            gaps: lengths().count(),
            cut: self.cut.get(&cpu).copied().unwrap_or(0),
            gaps_per_s: lengths().count() as f64 / (watched / 1e9),
            largest_us: lengths().max().map(|ns| ns as f64 / 1e3),
            lost_percent: 100.0 * lost / watched,
            most_lost_us: SHOWN_MS.map(most),
            policies: self.policies.iter().cloned().collect(),
        }
    }
}
