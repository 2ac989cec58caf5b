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

/// The arguments of `corehop check` and of its modes.
pub(crate) type Args = VerbOrMode<Ask, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Measure this host, check a task set, assign CPUs to its tasks, run the tasks, and compare the jobs with their
    /// bounds.
    Deploy(deploy::Args),
    /// Draw random task sets, and count the sets that each scheduler can schedule as delays grow.
    Study(study::Args),
}

/// Test whether a task set meets its deadlines under its own scheduler, by one test, or by all tests.
///
/// Without --test, corehop uses the sharpest test for the set's scheduler, with the set's priorities and CPUs. If a
/// sufficient test fails, the answer is `unknown`. Only exact and necessary tests answer `false`. Exit code 0 means
/// yes, and exit code 1 means no or unknown. `--test all` is a survey with exit code 0, unless --scheduler names a
/// scheduler: then the exit code answers for this scheduler.
#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    /// The task set to test: {"cpus": m, "tasks": [{"wcet_us", "period_us", "deadline_us"?, "priority"?, "wss_kib"?,
    /// "jitter_us"?, "blocking_us"?, "suspension_us"?, "locks"?, "bcet_us"?, "budget_us"?, "name"?, "cpus"?,
    /// "pieces"?, "shares"?}], "scheduler"?, "locking"?, "chains"?}. Times are in microseconds with up to three
    /// decimals, or text with a unit ("1.5 ms"). Tests that charge cache reloads also read "block_reload_ns" beside
    /// "cpus", and "ucb" and "ecb" of each task. corehop also accepts a file of another program that
    /// `corehop convert tasks` reads, if the file states every unit. For `-`, corehop reads standard input.
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Run this test instead of the tests for the scheduler, or all tests as a survey; `corehop help NAME` describes
    /// a test
    #[arg(long, value_name = "NAME|all")]
    test: Option<String>,
    #[command(flatten)]
    charges: ChargeOptions,
    /// Take the caches of this machine (a platform's name or a file), which define the clusters (`c-edf-l2`,
    /// `soft-c-edf-l3`, …) and the migrations within a cluster.
    #[arg(long, value_name = "NAME|FILE.toml")]
    platform: Option<String>,
    /// Print how close the answer is to its opposite. For a yes, corehop prints the parts of the tightest task's
    /// response, how much WCETs and delays may grow, and one more task that fits. For a no, corehop prints the late
    /// tasks, and the changes that give a yes. The option --slack is on by default for sets of up to 20 tasks.
    #[arg(long)]
    slack: bool,
    /// Draw a schedule with releases, deadlines, CPUs and the cost of preemptions and migrations. For a no or unknown,
    /// the picture shows the first deadline miss that a simulation finds; for a yes, the picture shows the busiest
    /// window of the tightest task
    #[arg(long, value_name = "FILE.svg")]
    gantt: Option<PathBuf>,
    /// If the answer is yes, write the task set with its scheduler, the verdict, and the assignment of each task: its
    /// CPUs, its pieces or its shares (no assignment under a global scheduler). Under fixed priorities, the file also
    /// has the priority of each task; under EDF, the file has `budget_us`, the WCET with all charges. `corehop convert
    /// rt-app` converts the file.
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// The options for the scheduler and for the charged costs.
#[derive(Debug, clap::Args)]
struct ChargeOptions {
    /// Test the set under this scheduler: g-edf, c-edf, p-edf, g-fp or p-fp; the schedulers eevdf and sched_ext have
    /// no schedulability analysis. By default, corehop takes `scheduler` of the set, otherwise p-fp if tasks have
    /// priorities, and p-edf if not
    #[arg(long, value_name = "NAME")]
    scheduler: Option<Scheduler>,
    /// Charge each job the delay D_c of one preemption or migration: e' = e + D_c. With --costs instead of --delay, a
    /// job pays for the job that it preempts: the cost of the most expensive event under this scheduler, for the
    /// working set of the preempted job.
    #[arg(long, value_name = "D_c", conflicts_with = "costs")]
    delay: Option<Nanos>,
    #[command(flatten)]
    costs: CostArgs,
    /// Accept the largest measured cost as a bound. Without this option, a yes that relies on the largest of n
    /// samples is conditional (exit code 1). corehop uses the highest quantile that has an upper end for every task,
    /// and the largest cost if no quantile has such an end.
    #[arg(long, conflicts_with = "delay")]
    accept_largest: bool,
    /// Charge the overheads of the operating system from this file, by the number of tasks. The file comes from
    /// `measure overheads`, or is SchedCAT's table (TASK-COUNT, SCHEDULE, CXS, TICK, RELEASE, RELEASE-LATENCY,
    /// IPI-LATENCY). Each job pays for the preemption that it causes, and for the interrupts of its own CPU or
    /// cluster. For fixed priorities (p-fp-rta, p-fp-ffd), the test treats interrupts as tasks. The test also charges
    /// preemption delays.
    #[arg(long, value_name = "FILE")]
    overheads: Option<PathBuf>,
    /// Assume this time between two ticks, for --overheads.
    #[arg(long, value_name = "TIME", requires = "overheads", default_value = "1ms")]
    quantum: Nanos,
    /// Assume that a dedicated CPU beyond the set's CPUs handles all releases, for --overheads.
    #[arg(long, requires = "overheads")]
    dedicated: bool,
    /// Assume that CPUs supply less than 100 % of their time. The file comes from `measure supply`, or is a JSON
    /// budget per period such as {"cpus": "0-1", "period_us": 10000, "budget_us": 8000}, or a list of budgets. Tests
    /// of one CPU, and tests that choose CPUs, use the minimum supply of all CPUs. If the set gives each task a CPU,
    /// the test uses the supply of that CPU. A yes states the share of windows that may lose more time than observed.
    /// If this share may exceed a tenth, the answer is conditional, with exit code 1.
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
    /// The requested charges for preemptions and migrations.
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
