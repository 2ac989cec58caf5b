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
    /// Measure this host, check the set, assign CPUs, run the tasks, and compare the jobs with their bounds.
    Deploy(deploy::Args),
    /// Draw random task sets, and count the sets that each scheduler can schedule as delays grow.
    Study(study::Args),
}

/// Test whether a task set meets its deadlines: under its own scheduler, or by one test, or by all.
///
/// Without --test the sharpest test for the set's scheduler answers, with the set's priorities and CPUs. A sufficient
/// test that fails answers `unknown`. Only exact and necessary tests answer `false`. Exit code 0: yes; 1: no or
/// unknown. `--test all` is a survey: its exit code is 0, or answers for the named scheduler.
#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    /// A task set: {"cpus": m, "tasks": [{"wcet_us", "period_us", "deadline_us"?, "priority"?, "wss_kib"?,
    /// "jitter_us"?, "blocking_us"?, "suspension_us"?, "locks"?, "bcet_us"?, "budget_us"?, "name"?, "cpus"?,
    /// "pieces"?, "shares"?}], "scheduler"?, "locking"?, "chains"?}. Times are in microseconds with up to three
    /// decimals, or text with a unit ("1.5 ms"). Tests that charge cache reloads also read "block_reload_ns" beside
    /// "cpus", and "ucb" and "ecb" of each task. Files of other programs that `corehop convert tasks` reads are accepted
    /// too, if they state every unit. - reads standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Run this test instead of the scheduler's tests, or all tests as a survey; `corehop help NAME` describes a test
    #[arg(long, value_name = "NAME|all")]
    test: Option<String>,
    #[command(flatten)]
    charges: ChargeOptions,
    /// The machine, as a platform's name or a file: its caches define the clusters (`c-edf-l2`, `soft-c-edf-l3`, …)
    /// and the migrations within a cluster.
    #[arg(long, value_name = "NAME|FILE.toml")]
    platform: Option<String>,
    /// Print how far the opposite answer is. For a yes: the parts of the tightest task's response, how much WCETs and
    /// delays may grow, and one more task that fits. For a no: the late tasks, and the changes that give a yes.
    /// Default: on for sets of up to 20 tasks.
    #[arg(long)]
    slack: bool,
    /// Draw a schedule: for a no or unknown the first miss that simulation finds, for a yes the busiest window of the
    /// tightest task, with releases, deadlines, CPUs and the cost of preemptions and migrations
    #[arg(long, value_name = "FILE.svg")]
    gantt: Option<PathBuf>,
    /// If the answer is yes, write the set with its scheduler, the verdict, and the assignment of each task: its
    /// CPUs, its pieces or its shares (none under a global scheduler). Fixed priorities add the priority of each
    /// task. EDF adds `budget_us`, the WCET with all charges. `corehop convert rt-app` converts the file.
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
    /// Accept the largest measured cost as a bound. Without this option a yes that rests on the largest of n samples
    /// is conditional (exit code 1). The default statistic is the highest quantile with an upper end for every task;
    /// without such a quantile, the largest cost.
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
    /// Handle all releases on a dedicated CPU beyond the set's CPUs, for --overheads.
    #[arg(long, requires = "overheads")]
    dedicated: bool,
    /// CPU supply below 100 %: a file of `measure supply`, or a JSON budget per period such as {"cpus": "0-1",
    /// "period_us": 10000, "budget_us": 8000}, or a list of budgets. Tests of one CPU, and tests that choose CPUs,
    /// use the minimum supply of all CPUs; if the set gives each task a CPU, the supply of that CPU applies. A yes
    /// names the share of windows that may lose more than observed; if this share may exceed a tenth, the answer is
    /// conditional, with exit code 1.
    #[arg(long, value_name = "FILE")]
    supply: Option<PathBuf>,
    /// Ignore the CPUs that the set assigns to its tasks (`cpus`, `pieces`, `shares`)
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
