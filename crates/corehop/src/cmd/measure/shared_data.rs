// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure shared-data`: runs gangs on this host or on a simulated machine, and writes their run times to
//! a file.

use corehop_linux::live::LiveMachineOptions;
use corehop_plan::experiment::{MOST_THREADS, SharedData};
use corehop_plan::units::CpuList;
use corehop_plan::workload::gang::{Channel, GangProgram, Placing, Sharing};
use corehop_stats::campaign::sampling::Goal;

use super::jobs::some_cpus;
use super::to::{Extent, Precise, SeedOptions, To};
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::quantities::{count, items};

/// The heading of these options in the help.
const HEADING: &str = "Threads with common data";

/// The options of `corehop measure shared-data`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    draws: SeedOptions,
    /// Use only these CPUs
    #[arg(long, value_name = "LIST", value_parser = some_cpus)]
    cpus: Option<CpuList>,
    /// Run each configuration this many times [default: 240 live, 4 simulated]
    #[arg(long, value_name = "N", value_parser = count("--samples 0 runs nothing: omit --samples for 240 runs of each configuration (simulated: 4)"))]
    samples: Option<u32>,
    #[command(flatten)]
    precise: Precise,
    /// Run these programs; default: all
    #[arg(long = "program", value_name = "PROGRAMS", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(GangProgram::WORDS), help_heading = HEADING)]
    programs: Vec<String>,
    /// Run the programs with these sizes of data: items, points, or handed-over lines, for example `100,4k,1M`
    /// (thousands, millions)
    #[arg(long, value_delimiter = ',', value_parser = items, help_heading = HEADING)]
    items: Vec<u64>,
    /// Sort into this many buckets in bucket-sort [default: 8]
    #[arg(long, value_delimiter = ',', help_heading = HEADING)]
    buckets: Vec<u32>,
    /// Compute these Fibonacci numbers in fork-join, 2 to 20 [default: 8,12,16]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = HEADING)]
    fibonacci: Vec<u32>,
    /// Use a random generator in swap whose low bits never change in the first thread
    #[arg(long, help_heading = HEADING)]
    fixed_low_bits: bool,
    /// Let threads share the data in these ways: write, read, none
    #[arg(long = "sharing", value_delimiter = ',', help_heading = HEADING)]
    sharings: Vec<Sharing>,
    /// Place the threads in these ways: shared (with a common cache), separate (without a common cache), or same (all
    /// on one CPU); default: each of these that the machine allows. The word `moved` moves threads from the farther
    /// to the nearer CPUs after half of the iterations
    #[arg(long = "placing", value_delimiter = ',', help_heading = HEADING)]
    placings: Vec<Placing>,
    /// Send the messages of the program exchange through these channels: memory, socket, pipe [default: all live,
    /// memory simulated]
    #[arg(long, value_delimiter = ',', help_heading = HEADING)]
    through: Vec<Channel>,
    /// Run this many threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=MOST_THREADS as i64), help_heading = HEADING)]
    threads: u32,
    /// Run this many iterations in each thread [default: about 200 us live; 100,000 simulated, or as many tasks of
    /// fork-join]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), help_heading = HEADING)]
    rounds: Option<u64>,
}

/// The default numbers of items of each program.
const ITEMS: [u64; 3] = [100, 10_000, 1_000_000];
/// The default amount of work: rounds and runs on a simulated machine, runs and replicates on a live machine.
const SIMULATED_STEPS: u64 = 100_000;
const SIMULATED_SAMPLES: u32 = 4;
const LIVE_SAMPLES: u32 = 240;
const LIVE_REPLICATES: u32 = 24;
/// The default numbers of lines and of instructions of a hand-over through a local socket: see the study
/// `kamali-4-6`.
const HANDED_OVER: u64 = 66;
const HAND_OVER_INSTRUCTIONS: u32 = 10_000;

/// The default numbers of buckets, and the default Fibonacci numbers.
const BUCKETS: [u32; 1] = [8];
const FIBONACCI: [u32; 3] = [8, 12, 16];

/// Returns `given`, or `usual` if nothing is given.
fn or<'a, T>(given: &'a [T], usual: &'a [T]) -> &'a [T] {
    if given.is_empty() { usual } else { given }
}

impl Args {
    /// Rejects options of programs that are not requested.
    fn refuse_of_other_programs(&self) -> Result<(), Failure> {
        let runs = |word: &str| {
            self.programs.is_empty() || self.programs.iter().any(|program| program == word)
        };
        let others = self.programs.iter().any(|program| program != "fork-join");
        let sized = self.programs.is_empty() || others;
        refuse(
            "this option belongs to a program that does not run",
            &[
                ("--items", !self.items.is_empty() && !sized),
                ("--buckets", !self.buckets.is_empty() && !runs("bucket-sort")),
                ("--fibonacci", !self.fibonacci.is_empty() && !runs("fork-join")),
                ("--fixed-low-bits", self.fixed_low_bits && !runs("swap")),
                ("--through", !self.through.is_empty() && !runs("exchange")),
            ],
        )
    }

    pub(super) fn run(&self) -> Result<Exit, Failure> {
        self.refuse_of_other_programs()?;
        let platform = self.to.platform()?;
        let goal = self.precise.goal().unwrap_or(Goal::Count);
        let (extent, options) = (Extent { goal, ..Extent::WHOLE }, LiveMachineOptions::default());
        self.to.carry_out(platform, &self.experiment(), &self.draws, extent, options)
    }

    fn programs(&self) -> Vec<GangProgram> {
        let words: Vec<&str> = if self.programs.is_empty() {
            GangProgram::WORDS.to_vec()
        } else {
            self.programs.iter().map(String::as_str).collect()
        };
        words.into_iter().flat_map(|word| self.sizes(word)).collect()
    }

    /// The channels of exchange.
    fn channels(&self) -> &[Channel] {
        match (self.through.is_empty(), self.to.is_live()) {
            (false, _) => &self.through,
            (true, true) => Channel::ALL,
            (true, false) => &[Channel::Memory],
        }
    }

    /// The exchange programs, for all sizes and channels; exchanges through the system hand over one message at a
    /// time.
    fn exchanges(&self) -> Vec<GangProgram> {
        let of = |&through: &Channel| {
            let (usual, instructions) = match through {
                Channel::Memory => (HANDED_OVER, HAND_OVER_INSTRUCTIONS),
                Channel::Socket | Channel::Pipe => (1, 0),
            };
            let sizes = if self.items.is_empty() { vec![usual] } else { self.items.clone() };
            sizes.into_iter().map(move |items| GangProgram::Exchange {
                items,
                instructions,
                through,
            })
        };
        self.channels().iter().flat_map(of).collect()
    }

    /// The programs of the kind `word`, for all sizes.
    fn sizes(&self, word: &str) -> Vec<GangProgram> {
        match word {
            "exchange" => return self.exchanges(),
            "fork-join" => {
                let numbers = or(&self.fibonacci, &FIBONACCI).iter();
                return numbers.map(|&number| GangProgram::ForkJoin { number }).collect();
            }
            _ => {}
        }
        let sizes = or(&self.items, &ITEMS);
        let of_size = |&items: &u64| match word {
            "swap" => vec![GangProgram::Swap { items, fixed_low_bits: self.fixed_low_bits }],
            "bucket-sort" => {
                let buckets = or(&self.buckets, &BUCKETS).iter();
                buckets.map(|&buckets| GangProgram::BucketSort { items, buckets }).collect()
            }
            _ => vec![GangProgram::LinearRegression { items }],
        };
        sizes.iter().flat_map(of_size).collect()
    }

    /// The requested experiment.
    fn experiment(&self) -> SharedData {
        let or_all = |given: &[Sharing]| {
            if given.is_empty() { Sharing::ALL.to_vec() } else { given.to_vec() }
        };
        let (steps, samples, replicates) = if self.to.is_live() {
            (None, LIVE_SAMPLES, LIVE_REPLICATES)
        } else {
            (Some(SIMULATED_STEPS), SIMULATED_SAMPLES, 1)
        };
        let samples = self.samples.unwrap_or(samples);
        SharedData {
            programs: self.programs(),
            sharings: or_all(&self.sharings),
            placings: self.placings.clone(),
            threads: self.threads as usize,
            rounds: self.rounds,
            steps,
            samples,
            // A replicate without a run is none.
            replicates: replicates.min(samples),
            cpus: self.cpus.clone().unwrap_or_default(),
        }
    }
}
