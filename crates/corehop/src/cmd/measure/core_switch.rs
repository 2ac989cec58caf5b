// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure core-switch`: compares switch mechanisms, and finds the call length from which a core switch
//! pays off.

use corehop_linux::live::{LiveMachineOptions, impossible_mechanisms};
use corehop_plan::experiment::{CoreSwitch, ExperimentError};
use corehop_plan::units::{Bytes, Cpu, CpuList};
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};
use corehop_stats::campaign::sampling::Goal;

use super::jobs::some_cpus;
use super::on::LIVE;
use super::plan::refused;
use super::to::{Extent, Precise, SeedOptions, To};
use crate::output::say;
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::quantities::count;

/// The heading of these options in the help.
const HEADING: &str = "Core switches";

/// The number of calls in a batch and the number of batches on a simulated machine.
const SIMULATED: u32 = 10;

/// Measures the cost of a core switch.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    to: To,
    #[command(flatten)]
    draws: SeedOptions,
    /// Never use the real-time policy SCHED_FIFO
    #[arg(long)]
    no_real_time: bool,
    /// Take this many valid batches of each cell (default: 30; simulated 10)
    #[arg(long, value_name = "N", value_parser = count("--samples 0 takes no batch: omit --samples for 30 batches of each cell"), help_heading = "Enough samples")]
    samples: Option<u32>,
    /// Divide the run into this many replicates; each replicate starts new partner threads (default: 10 to 20, if
    /// each cell has enough samples)
    #[arg(long, value_name = "N", value_parser = count("--replicates 0 measures nothing: use 6 or more, or omit --replicates for the default"), help_heading = "Enough samples")]
    replicates: Option<u32>,
    #[command(flatten)]
    precise: Precise,
    /// Use only these CPUs
    #[arg(long, value_name = "LIST", value_parser = some_cpus)]
    cpus: Option<CpuList>,
    /// Measure these pairs of CPUs, application core to OS core, for example `0:1,1:0`; default: every ordered pair
    /// of up to four CPUs, or one pair of each class of more CPUs
    #[arg(long = "pair", value_name = "PAIRS", value_delimiter = ',', value_parser = pair, conflicts_with = "cpus", help_heading = HEADING)]
    pairs: Vec<(Cpu, Cpu)>,
    /// Measure these mechanisms: v1 to v5, sqpoll, futex, condvar, eventfd, pipe, mpsc, crossbeam (each with a worker
    /// thread of the program), second-worker. A simulated machine has v1 to v5, and strong-v1 to strong-v5 (kernel of
    /// 2009). By default, corehop measures all mechanisms but strong-v1 to strong-v5, and always `none`
    #[arg(long = "mechanism", value_name = "MECHANISMS", value_delimiter = ',', help_heading = HEADING)]
    mechanisms: Vec<SwitchMechanism>,
    /// Measure these calls: gettid, pread, pwrite (default: all; simulated: gettid)
    #[arg(long = "call", value_name = "CALLS", value_delimiter = ',', help_heading = HEADING)]
    calls: Vec<SwitchCall>,
    /// Measure pread and pwrite with these sizes [default: 64B,4KiB,64KiB]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', help_heading = HEADING)]
    bytes: Vec<Bytes>,
    /// Keep this many calls outstanding, for each number of the list; with 1 the caller waits for each call
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', help_heading = HEADING)]
    outstanding: Vec<u32>,
    /// Make this many calls per batch of mechanisms that poll, and of `none` (default: 1000; simulated 10)
    #[arg(long, value_name = "N", value_parser = count("--batch 0 makes no call: omit --batch for 1000"), help_heading = HEADING)]
    batch: Option<u32>,
    /// Make this many calls per batch of mechanisms that sleep or move (default: 30; simulated 10)
    #[arg(long, value_name = "N", value_parser = count("--sleeping-batch 0 makes no call: omit --sleeping-batch for 30"), help_heading = HEADING)]
    sleeping_batch: Option<u32>,
}

/// The default data sizes, in bytes, for calls with a size.
const BYTES: [u64; 3] = [64, 4 << 10, 64 << 10];

impl Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = self.to.platform()?;
        let goal = self.precise.goal().unwrap_or(Goal::Count);
        let extent = Extent { goal, replicates: self.replicates, ..Extent::WHOLE };
        let options = LiveMachineOptions {
            no_real_time: refused(self.no_real_time),
            ..LiveMachineOptions::default()
        };
        let mut experiment = self.experiment();
        let sized = experiment.calls.iter().any(|call| call.is_sized());
        let what = "none of the calls has a size; pread and pwrite have one (--call pread,pwrite)";
        refuse(what, &[("--bytes", !self.bytes.is_empty() && !sized)])?;
        let (_, to) = experiment.pairs(&platform).map_err(ExperimentError::from)?[0];
        if self.to.on == LIVE {
            let impossible = impossible_mechanisms(to);
            refuse_if_all(&self.mechanisms, &impossible)?;
            if self.mechanisms.is_empty() {
                leave_out(&mut experiment.mechanisms, &impossible);
            }
        }
        self.to.carry_out(platform, &experiment, &self.draws, extent, options)
    }

    /// The requested experiment.
    fn experiment(&self) -> CoreSwitch {
        let is_live = self.to.on == LIVE;
        let calls = if is_live { SwitchCall::ALL } else { &[SwitchCall::Gettid] };
        let outstanding = if is_live { &[1, 16][..] } else { &[1] };
        // A simulated machine has no noise for more calls to average out.
        let usual = |live: u32| if is_live { live } else { SIMULATED };
        CoreSwitch {
            mechanisms: or(&self.mechanisms, &self.usual_mechanisms()),
            calls: or(&self.calls, calls),
            bytes: or(&self.bytes.iter().map(|size| size.get()).collect::<Vec<_>>(), &BYTES),
            outstanding: or(&self.outstanding, outstanding),
            pairs: self.pairs.clone(),
            cpus: self.cpus.clone().unwrap_or_default(),
            polling_batch: self.batch.unwrap_or(usual(1_000)),
            sleeping_batch: self.sleeping_batch.unwrap_or(usual(30)),
            samples: self.samples.unwrap_or(usual(30)),
        }
    }

    /// The default mechanisms. A simulated machine lacks polling kernel threads and the mechanisms of other
    /// programs; the mechanisms of the kernel of 2009 are measured only on request.
    fn usual_mechanisms(&self) -> Vec<SwitchMechanism> {
        let is_live = self.to.on == LIVE;
        let usual = |it: &&SwitchMechanism| !it.is_strong() && (is_live || !it.is_live_only());
        SwitchMechanism::ALL.iter().filter(usual).copied().collect()
    }
}

/// Rejects a run if this host supports none of the named mechanisms. If only some mechanisms are unsupported, their
/// rows state the reason.
fn refuse_if_all(
    named: &[SwitchMechanism],
    impossible: &[(SwitchMechanism, String)],
) -> Result<(), Failure> {
    let why = |named: &SwitchMechanism| impossible.iter().find(|(known, _)| known == named);
    let reasons: Vec<String> =
        named.iter().map_while(why).map(|(it, why)| format!("{it}: {why}")).collect();
    if named.is_empty() || reasons.len() < named.len() {
        return Ok(());
    }
    let sentence = format!(
        "this host supports none of the named mechanisms ({}): name others with --mechanism, or see `corehop doctor`",
        reasons.join("; ")
    );
    Err(Failure::says(Exit::NotPossible, sentence))
}

/// Removes the mechanisms that this host lacks, and prints the reasons.
fn leave_out(mechanisms: &mut Vec<SwitchMechanism>, impossible: &[(SwitchMechanism, String)]) {
    mechanisms.retain(|it| impossible.iter().all(|(known, _)| known != it));
    for (mechanism, why) in impossible {
        say(&format!("{mechanism} is not measured: {why}\n"));
    }
}

fn or<T: Copy>(given: &[T], usual: &[T]) -> Vec<T> {
    if given.is_empty() { usual.to_vec() } else { given.to_vec() }
}

/// `0:1`.
fn pair(text: &str) -> Result<(Cpu, Cpu), String> {
    let wrong = || format!("`{text}` is not a pair of CPUs: write for example `0:1`");
    let (from, to) = text.split_once(':').ok_or_else(wrong)?;
    let cpu = |text: &str| text.trim().parse().map(Cpu).map_err(|_| wrong());
    Ok((cpu(from)?, cpu(to)?))
}
