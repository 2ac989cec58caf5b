// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure shared-data`: gangs, on a simulated machine, into a file.

use corehop_core::experiment::{GangPlan, SharedData};
use corehop_core::machine::GangMachine;
use corehop_core::platform::Platform;
use corehop_core::sim::SimMachine;
use corehop_core::units::CpuList;
use corehop_core::workload::gang::{Placing, Program, Sharing};

use super::arrange::Arrange;
use super::on;
use crate::answer::print;
use crate::exit::{Exit, Failure};
use crate::run::Run;

/// Where these options are listed.
const HEADING: &str = "Threads with common data";

/// What `shared-data` runs.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Gangs {
    /// swap, bucket-sort, linear-regression, exchange; all of them if left out
    #[arg(long = "program", value_name = "PROGRAMS", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(Program::WORDS), help_heading = HEADING)]
    programs: Vec<String>,
    /// Items, points, or lines that are handed over, for instance `100,4k,1M` (thousands, millions)
    #[arg(long, value_delimiter = ',', value_parser = count, help_heading = HEADING)]
    items: Vec<u64>,
    /// Buckets of bucket-sort
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "8",
        help_heading = HEADING
    )]
    buckets: Vec<u32>,
    /// Swap with random numbers of which the first thread's low bits never change
    #[arg(long, help_heading = HEADING)]
    fixed_low_bits: bool,
    /// write, read, none: how threads share their data
    #[arg(long = "sharing", value_delimiter = ',', help_heading = HEADING)]
    sharings: Vec<Sharing>,
    /// shared, separate: below a common cache, or without one
    #[arg(long = "placing", value_delimiter = ',', help_heading = HEADING)]
    placings: Vec<Placing>,
    /// How often each thread does what it does
    #[arg(long, default_value_t = 100_000, help_heading = HEADING)]
    rounds: u64,
}

/// The sizes of each program that are run when none are asked for.
const ITEMS: [u64; 3] = [100, 10_000, 1_000_000];
/// The lines and instructions of a hand-over through a local socket, when nothing else is said: see
/// the study `kamali-4-6`.
const HANDED_OVER: u64 = 66;
const HAND_OVER_INSTRUCTIONS: u32 = 10_000;

impl Gangs {
    /// The options that are given, for an experiment that has no use for them.
    pub(super) fn given(&self) -> [(&'static str, bool); 5] {
        [
            ("--program", !self.programs.is_empty()),
            ("--items", !self.items.is_empty()),
            ("--sharing", !self.sharings.is_empty()),
            ("--placing", !self.placings.is_empty()),
            ("--fixed-low-bits", self.fixed_low_bits),
        ]
    }

    fn programs(&self) -> Vec<Program> {
        let words: Vec<&str> = if self.programs.is_empty() {
            Program::WORDS.to_vec()
        } else {
            self.programs.iter().map(String::as_str).collect()
        };
        words.into_iter().flat_map(|word| self.sizes(word)).collect()
    }

    /// One program in all its sizes.
    fn sizes(&self, word: &str) -> Vec<Program> {
        let usual: &[u64] = if word == "exchange" { &[HANDED_OVER] } else { &ITEMS };
        let sizes = if self.items.is_empty() { usual } else { &self.items };
        let of_size = |&items: &u64| match word {
            "swap" => vec![Program::Swap { items, fixed_low_bits: self.fixed_low_bits }],
            "bucket-sort" => {
                let buckets = self.buckets.iter();
                buckets.map(|&buckets| Program::BucketSort { items, buckets }).collect()
            }
            "linear-regression" => vec![Program::LinearRegression { items }],
            _ => vec![Program::Exchange { items, instructions: HAND_OVER_INSTRUCTIONS }],
        };
        sizes.iter().flat_map(of_size).collect()
    }

    /// The experiment that is asked for.
    pub(super) fn experiment(&self, samples: Option<u32>, cpus: Option<CpuList>) -> SharedData {
        let or_all = |given: &[Sharing]| {
            if given.is_empty() { Sharing::ALL.to_vec() } else { given.to_vec() }
        };
        let placings =
            if self.placings.is_empty() { Placing::ALL.to_vec() } else { self.placings.clone() };
        SharedData {
            programs: self.programs(),
            sharings: or_all(&self.sharings),
            placings,
            rounds: self.rounds,
            warm_up: self.rounds / 2,
            samples: samples.unwrap_or(4),
            cpus: cpus.unwrap_or_default(),
        }
    }
}

/// Where and how a plan of gangs runs.
pub(super) struct Where<'a> {
    pub(super) on: &'a str,
    pub(super) arrange: &'a Arrange,
    pub(super) dry_run: bool,
    pub(super) json: bool,
}

/// Runs `experiment`, or prints what would be run.
pub(super) fn carry_out(
    to: &Where<'_>,
    platform: Platform,
    experiment: &SharedData,
    seed: u64,
    run: impl FnOnce() -> Result<Run, Failure>,
) -> Result<Exit, Failure> {
    let plan = experiment.plan(&platform, seed).map_err(|it| Failure::new(Exit::Usage, it))?;
    plan.check(&platform).map_err(|error| Failure::new(Exit::Usage, error))?;
    let arrangement = on::arrangement(to.on, &platform, to.arrange)?;
    if to.arrange.sampled() {
        let what =
            "--sampled is for jobs with a working set: threads that share data are simulated whole";
        return Err(Failure::says(Exit::Usage, format!("{what}; leave it out")));
    }
    if to.dry_run {
        let text = if to.json { plan.to_json() + "\n" } else { outline(&plan, &platform) };
        print(&text)?;
        return Ok(Exit::Done);
    }
    if to.on == on::LIVE {
        return Err(Failure::says(
            Exit::NotPossible,
            "shared-data runs on simulated machines only so far: name one, for instance \
             `--on xeon_e5520`, or this host's own file (`corehop platform --measure -o host.toml`, \
             then `--on host.toml`)",
        ));
    }
    let mut machine = SimMachine::arranged(platform, arrangement)?;
    run()?.gangs(&mut machine as &mut dyn GangRunner, &plan, serde_json::json!(experiment))
}

/// A machine that runs plans of both kinds.
pub(crate) trait GangRunner: corehop_core::machine::Machine + GangMachine {}
impl<M: corehop_core::machine::Machine + GangMachine> GangRunner for M {}

fn outline(plan: &GangPlan, platform: &Platform) -> String {
    let head = format!(
        "shared-data on {}: {} gangs, {} runs\n",
        platform.name,
        plan.gangs.len(),
        plan.runs()
    );
    let line = |gang: &corehop_core::experiment::Gang| {
        let cpus: Vec<String> = gang.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        format!(
            "{:>8}  {} {} {}, sharing {}, {} on CPUs {}\n",
            gang.samples,
            gang.program.word(),
            gang.program.items(),
            gang.program.parameters(),
            gang.sharing,
            gang.placing,
            cpus.join(",")
        )
    };
    head + &plan.gangs.iter().map(line).collect::<String>()
}

/// `100`, `4k`, `1.5M`.
fn count(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is not a number of items: write for instance `100`, `4k` or `1M`");
    let (number, times) = match text.trim().strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => match text.trim().strip_suffix('M') {
            Some(number) => (number, 1e6),
            None => (text.trim(), 1.0),
        },
    };
    let value = number.parse::<f64>().map_err(|_| wrong())? * times;
    if value >= 1.0 && value.fract() == 0.0 && value < 1e12 {
        Ok(value as u64)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn numbers_of_items_are_thousands_and_millions_of_ten() {
        let counts = ["100", "4k", "1.5M", "400K"].map(|text| count(text).unwrap());
        assert_eq!(counts, [100, 4_000, 1_500_000, 400_000]);
        for wrong in ["", "x", "0", "-1", "1.5", "4Ki"] {
            assert!(count(wrong).unwrap_err().contains("4k"), "{wrong}");
        }
    }
}
