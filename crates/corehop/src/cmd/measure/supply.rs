// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure supply`: finds the intervals in which CPUs give no time to user threads.

use corehop_linux::live::LiveMachineOptions;
use corehop_plan::experiment::MeasuredSupply;
use corehop_plan::units::{CpuList, Nanos};

use super::jobs::some_cpus;
use super::on;
use super::plan::refused;
use super::to::{Extent, SeedOptions, To};
use corehop_app::failure::{Exit, Failure};
use corehop_app::quantities::count;

/// The heading of these options in the help.
const HEADING: &str = "Windows";

/// Record the gaps in which a CPU supplies no time to its thread.
///
/// A thread under SCHED_FIFO reads the clock in windows, on one CPU at a time, for at most half of any 100 ms. Two
/// readings that are far apart show a gap: the host ran another guest, or an interrupt or the firmware took the CPU.
/// `check --supply` reads the file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    draws: SeedOptions,
    /// Never use the real-time policy SCHED_FIFO; time in which other threads run then counts as gaps
    #[arg(long)]
    no_real_time: bool,
    /// Use only these CPUs
    #[arg(long, value_name = "LIST", value_parser = some_cpus)]
    cpus: Option<CpuList>,
    /// Watch each CPU for this long in total [default: 10s]
    #[arg(long, value_name = "TIME", conflicts_with = "samples", help_heading = HEADING)]
    watched: Option<Nanos>,
    /// Watch each CPU for this many windows
    #[arg(long, value_name = "N", value_parser = count("--samples 0 takes no window: omit --samples for 10 s on each CPU"), help_heading = HEADING)]
    samples: Option<u32>,
    /// Divide the run into this many replicates (default: 10 to 20, if there are enough windows)
    #[arg(long, value_name = "N", value_parser = count("--replicates 0 measures nothing: omit --replicates for the default"), help_heading = HEADING)]
    replicates: Option<u32>,
    /// Watch in windows of this length, 1ms to 40ms; `check --supply` composes longer times from windows [default:
    /// 40ms]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    window: Option<Nanos>,
    /// Record each gap from this length on, 200ns to 1ms; corehop records shorter gaps as a sum [default: 500ns]
    #[arg(long, value_name = "TIME", help_heading = HEADING)]
    threshold: Option<Nanos>,
}

/// The default time for which each CPU is observed.
const WATCHED: Nanos = Nanos::from_secs(10);

impl Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = on::platform(&self.to.on)?;
        let extent = Extent { replicates: self.replicates, ..Extent::WHOLE };
        let options = LiveMachineOptions {
            no_real_time: refused(self.no_real_time),
            ..LiveMachineOptions::default()
        };
        self.to.carry_out(platform, &self.experiment(), &self.draws, extent, options)
    }

    fn experiment(&self) -> MeasuredSupply {
        let (cpus, watched) =
            (self.cpus.clone().unwrap_or_default(), self.watched.unwrap_or(WATCHED));
        let usual = MeasuredSupply::of(cpus, watched, self.window);
        MeasuredSupply {
            threshold: self.threshold.unwrap_or(usual.threshold),
            samples: self.samples.unwrap_or(usual.samples),
            ..usual
        }
    }
}
