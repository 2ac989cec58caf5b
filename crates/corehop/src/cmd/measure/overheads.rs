// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure overheads`: the kernel's scheduling overheads, and the overhead of observing them.

use std::path::Path;

use corehop_linux::live::{LiveMachine, LiveMachineOptions};
use corehop_plan::experiment::KernelOverheads;
use corehop_plan::samples::OverheadFacts;
use corehop_plan::units::CpuList;
use corehop_stats::overheads::csv;

use super::jobs::some_cpus;
use super::schedule_sensitive::TaskArgs;
use super::to::Out;
use super::{on, outline};
use crate::output::OutputFile;
use corehop_app::failure::{Exit, Failure};
use corehop_app::run::RunOutcome;

/// Measure the kernel's scheduling overheads.
///
/// `check --overheads` reads the file. With `-o FILE.csv`, corehop writes only the table that `check --overheads`
/// charges.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    out: Out,
    /// Draw all random numbers from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use only these CPUs
    #[arg(long, value_name = "LIST", value_parser = some_cpus)]
    cpus: Option<CpuList>,
    /// Measure only from threads, without BPF programs in the kernel
    #[arg(long, conflicts_with = "TaskArgs")]
    no_bpf: bool,
    #[command(flatten)]
    tasks: TaskArgs,
}

impl Args {
    pub(super) fn run(&self) -> Result<Exit, Failure> {
        let platform = on::platform(on::LIVE)?;
        let usable = platform.usable();
        let cpus = self.cpus.clone().unwrap_or_else(|| usable.clone());
        if let Some(cpu) = cpus.iter().find(|&cpu| !usable.contains(cpu)) {
            let what = format!("--cpus: this process is not allowed to use CPU {cpu}");
            return Err(Failure::says(Exit::Usage, what));
        }
        let sets = (!self.no_bpf).then(|| self.tasks.of_overheads(&platform, cpus.clone()));
        let experiment = KernelOverheads { cpus, sets: sets.transpose()? };
        if self.out.dry_run {
            return outline::of_experiment(&experiment, &platform, self.seed, 1, self.out.json);
        }
        let table = self.out.output.as_deref().filter(|path| is_csv(path));
        let table = table.map(|path| OutputFile::new(path, &[], self.out.force)).transpose()?;
        let destination = self.out.destination(false).filter(|_| table.is_none());
        let run = self.out.to_run(destination);
        let options = LiveMachineOptions {
            allow_system: self.tasks.allow_system,
            ..LiveMachineOptions::default()
        };
        let mut machine = LiveMachine::new(platform, options);
        let ended = run.carry_out(&mut machine, &experiment, self.seed)?;
        if let Some(file) = table.filter(|_| ended.exit == Exit::Done) {
            file.write(as_table(&ended))?;
        }
        if self.out.stream.is_some() { Ok(ended.exit) } else { self.out.tell(&run.answer(&ended)?) }
    }
}

fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "csv")
}

/// Formats the overheads as a table by number of tasks.
fn as_table(ended: &RunOutcome) -> String {
    let facts = OverheadFacts::of(&ended.provenance.machine).unwrap_or_default();
    csv(&ended.tally.overheads(), facts.table_to())
}
