// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-load on a simulated machine: compares the policies.

use std::path::PathBuf;

use corehop_app::offload;
use corehop_plan::units::{CpuList, Nanos};
use corehop_plan::workload::switching::SwitchMechanism;
use corehop_sim::switch::off_load::{CallAftermath, OffLoadWorkload};

use super::{CorePolicy, flags, mechanism, os_cores};
use crate::output::{Force, OutputFile, told};
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// Simulate threads that compute and make system calls, and compare the policies with each other and with no
/// off-loading on the same cores. corehop prints the calls per second, the time of a call, the share of time in which
/// an application core was powered down, and the energy.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Simulate this machine: the id of a platform, or a platform file
    #[arg(long, value_name = "PLATFORM")]
    on: String,
    /// Use these CPUs as OS cores, which only execute calls
    #[arg(long, value_name = "LIST", value_parser = os_cores)]
    os_cores: CpuList,
    /// Choose an OS core by these policies, as in `corehop offload` [default: compare all policies]
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    policy: Vec<CorePolicy>,
    /// Switch cores by this mechanism: v1 to v5, or strong-v1 to strong-v5 (kernel of 2009)
    #[arg(long, value_name = "MECHANISM", default_value = "v5", value_parser = mechanism)]
    mechanism: SwitchMechanism,
    /// Simulate this many threads
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Let a thread compute for this mean time between two calls, on the fastest core
    #[arg(long, value_name = "TIME", default_value = "10us")]
    compute: Nanos,
    /// Let a call take this mean time, on the fastest core
    #[arg(long, value_name = "TIME", default_value = "5us")]
    call_time: Nanos,
    /// Draw all random numbers from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the answer to this file, as JSON
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let output = OutputFile::if_asked(args.output.as_ref(), &[], args.force)?;
    let platform = input::platform(&args.on)?;
    let load = OffLoadWorkload {
        os_cores: args.os_cores.clone(),
        mechanism: args.mechanism,
        threads: args.threads,
        compute: args.compute,
        call: args.call_time,
        misses: false,
        steady: false,
        after: CallAftermath::default(),
        time: offload::simulated_time(args.compute, args.call_time),
        seed: args.seed,
    };
    let words: Vec<String> =
        args.policy.iter().map(|it| format!("{it:?}").to_lowercase()).collect();
    let policy = (!words.is_empty()).then(|| (words.join(","), flags(&args.policy)));
    let answer = offload::simulate(&platform, &load, policy)?;
    if let Some(output) = output {
        output.write(format!("{:#}\n", answer.json))?;
    }
    told(&answer, args.json)
}
