// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check`

mod deploy;
mod study;

use std::path::PathBuf;

use corehop_plan::units::Nanos;
use corehop_plan::workload::scheduler::Scheduler;

use super::costs::CostArgs;
use crate::cmd::VerbOrMode;
use crate::output::{Force, stdout_layout, told};
use corehop_app::check::{ChargeRequest, CheckRequest, check};
use corehop_app::failure::{Exit, Failure};

/// The verb and its modes.
pub(crate) type Args = VerbOrMode<Ask, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Go the whole way on this host: measure, ask, place the tasks, run them, and set the jobs beside their bounds.
    Deploy(deploy::Args),
    /// Draw random task sets, and count how many each scheduler can schedule as delays grow.
    Study(study::Args),
}

/// Test whether a task set meets its deadlines: under its own scheduler, or by one test, or by all.
///
/// Without --test the answer is that of the sharpest test for the scheduler of the set, with its priorities and on its
/// CPUs. A sufficient test that fails answers `unknown`. Only exact and necessary tests answer `false`.
/// Exit code 0: yes; 1: no or unknown. `--test all` is a survey: its exit code is 0, or answers for the scheduler
/// that is named.
#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    /// A task set: {"cpus": m, "tasks": [{"wcet_us", "period_us", "deadline_us"?, "priority"?,
    /// "wss_kib"?, "jitter_us"?, "blocking_us"?, "suspension_us"?, "locks"?, "bcet_us"?, "budget_us"?, "name"?, "cpus"?,
    /// "pieces"?, "shares"?}], "scheduler"?, "locking"?, "chains"?}, in microseconds with up to three decimals, or as text with a
    /// unit ("1.5 ms"). Tests that charge cache reloads also read "block_reload_ns" beside "cpus", and "ucb" and "ecb" of each
    /// task. - reads standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// One test instead of the tests for the scheduler, or all as a survey; `corehop help NAME` describes it
    #[arg(long, value_name = "NAME|all")]
    test: Option<String>,
    #[command(flatten)]
    charges: ChargeOptions,
    /// The machine: its caches define the clusters (`c-edf-l2`, `soft-c-edf-l3`, …) and the migrations within a
    /// cluster. A platform's name, or a file.
    #[arg(long, value_name = "NAME|FILE.toml")]
    platform: Option<String>,
    /// Say how far the answer is from the other one. For a yes: what the response of the tightest task consists of, how much WCETs
    /// may grow, how large a delay may become, which task fits besides. For a no: which tasks are late, and which changes make
    /// it a yes. Without this option sets of up to 20 tasks are asked.
    #[arg(long)]
    slack: bool,
    /// Draw a schedule: the first miss that simulation finds for a no or unknown, or the busiest window of the tightest task for a
    /// yes, with releases, deadlines, the CPUs and what preemptions and migrations cost
    #[arg(long, value_name = "FILE.svg")]
    gantt: Option<PathBuf>,
    /// If the answer is yes, write the set with its scheduler, the verdict, and the assignment of each task: its CPUs, its
    /// pieces or its shares (none under a global scheduler); its priority, under fixed priorities; and `budget_us`, its
    /// WCET with all that was charged, under EDF. `corehop convert rt-app` converts the file.
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The scheduler, and what is charged.
#[derive(Debug, clap::Args)]
struct ChargeOptions {
    /// The scheduler: g-edf, c-edf, p-edf, g-fp or p-fp; eevdf and sched_ext have no analysis. Default: `scheduler` of the
    /// set, otherwise p-fp if tasks have priorities, and p-edf if not
    #[arg(long, value_name = "NAME")]
    scheduler: Option<Scheduler>,
    /// Charge each job the delay of one preemption or migration: e' = e + D_c. With costs, a job pays for the job
    /// that it preempts: the cost of the most expensive event under this scheduler, for the working set of the
    /// preempted job.
    #[arg(long, value_name = "D_c", conflicts_with = "costs")]
    delay: Option<Nanos>,
    #[command(flatten)]
    costs: CostArgs,
    /// Take the largest cost seen for a bound. Without this option a yes that rests on the largest of n samples is
    /// conditional, and the exit code is 1. (The default statistic is the highest quantile whose upper end the samples
    /// give for every task; without such a quantile, it is the largest cost.)
    #[arg(long, conflicts_with = "delay")]
    accept_largest: bool,
    /// Charge the overheads of the operating system by the number of tasks: a file of `measure overheads`, or
    /// SchedCAT's table (TASK-COUNT, SCHEDULE, CXS, TICK, RELEASE, RELEASE-LATENCY, IPI-LATENCY). Each job pays for the preemption that it causes,
    /// and for the interrupts of its own CPU or cluster. For fixed priorities (p-fp-rta, p-fp-ffd) interrupts
    /// become tasks. Preemption delays are charged as well.
    #[arg(long, value_name = "FILE")]
    overheads: Option<PathBuf>,
    /// The time between two ticks, for --overheads.
    #[arg(long, value_name = "TIME", requires = "overheads", default_value = "1ms")]
    quantum: Nanos,
    /// A dedicated CPU beyond those of the set handles all releases, for --overheads.
    #[arg(long, requires = "overheads")]
    dedicated: bool,
    /// The CPUs supply less than all of the time: a file of `measure supply`, or a budget in each period as JSON, such as
    /// {"cpus": "0-1", "period_us": 10000, "budget_us": 8000}, or a list of such. A test of one CPU, and one that chooses CPUs, is
    /// asked with the least supply of all CPUs; where the set gives each task a CPU, with that of the CPU. A yes names the share of
    /// windows that may lose more than was seen; if up to a tenth of them may, the answer is conditional, and the exit code 1.
    #[arg(long, value_name = "FILE")]
    supply: Option<PathBuf>,
    /// Leave aside on which CPUs the set puts its tasks (`cpus`, `pieces`, `shares`)
    #[arg(long)]
    ignore_cpus: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => ask(args),
        VerbOrMode::Mode(Mode::Deploy(args)) => deploy::run(args),
        VerbOrMode::Mode(Mode::Study(args)) => study::run(args),
    }
}

fn ask(args: &Ask) -> Result<Exit, Failure> {
    let request = CheckRequest {
        file: args.file.clone(),
        test: args.test.clone(),
        charges: args.charges.request(),
        platform: args.platform.clone(),
        slack: args.slack.then_some(true),
        gantt: args.gantt.clone(),
        output: args.output.clone(),
        force: args.force.force,
        layout: stdout_layout(),
    };
    told(&check(&request)?, args.json)
}

impl ChargeOptions {
    /// The charges that are asked for.
    fn request(&self) -> ChargeRequest {
        ChargeRequest {
            scheduler: self.scheduler,
            delay: self.delay,
            costs: self.costs.request(),
            accept_largest: self.accept_largest,
            overheads: self.overheads.clone(),
            quantum: self.quantum,
            dedicated: self.dedicated,
            supply: self.supply.clone(),
            ignore_cpus: self.ignore_cpus,
        }
    }
}
