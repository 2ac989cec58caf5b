// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's scheduling policies for the threads of a task set, and its refusals as sentences.

use std::io;
use std::path::Path;

use corehop_plan::experiment::{PlannedTask, TaskRun};
use corehop_plan::machine::MachineError;
use corehop_plan::units::CpuList;
use corehop_plan::workload::scheduler::Scheduler;

use corehop_system::proc;
use corehop_system::thread::{affinity_of, apart};

/// The numbers of `SCHED_DEADLINE` and `SCHED_EXT` (include/uapi/linux/sched.h).
const DEADLINE: u32 = 6;
const EXT: u32 = 7;
const RESET_ON_FORK: u64 = 1;
/// The flag that lets a thread use time that other threads have reserved and do not use (GRUB). Without the flag, a
/// job that loses a few microseconds waits for its next period, and all later jobs are a period late.
///
/// The flag is only for threads whose utilisation is within the CPU share that all such threads may use. The kernel
/// (`grub_reclaim`, up to at least 7.3) subtracts the utilisation from the share as unsigned numbers. A thread above
/// the share is charged with hours, so it never runs again.
const RECLAIM: u64 = 2;

/// The highest priority of tasks, below that of interrupt threads.
const HIGHEST: u32 = 49;

/// The shortest execution time that the kernel reserves, in nanoseconds.
const SHORTEST_NS: u64 = 1 << 10;

/// The kernel's `struct sched_attr`, first version (include/uapi/linux/sched/types.h).
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct SchedAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// The scheduling policy of a thread with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KernelPolicy {
    /// `SCHED_DEADLINE`: runtime, deadline and period in nanoseconds.
    Deadline(u64, u64, u64),
    /// `SCHED_FIFO` at this priority.
    Fifo(u32),
    /// The ordinary policy `SCHED_OTHER`.
    Other,
    /// The policy `SCHED_EXT` of a loaded scheduler.
    Ext,
}

impl std::fmt::Display for KernelPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Deadline(..) => f.write_str("deadline"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::Other => f.write_str("other:0"),
            Self::Ext => f.write_str("ext"),
        }
    }
}

impl KernelPolicy {
    /// The policy of a task of `run` under `scheduler`.
    pub(super) fn of(scheduler: Scheduler, run: &TaskRun, task: &PlannedTask) -> Self {
        match scheduler {
            Scheduler::GEdf | Scheduler::CEdf | Scheduler::PEdf => Self::Deadline(
                task.runtime().get().max(SHORTEST_NS),
                task.deadline.get(),
                task.period.get(),
            ),
            Scheduler::GFp | Scheduler::PFp => Self::Fifo(priority(task.rank, run)),
            Scheduler::Eevdf => Self::Other,
            Scheduler::SchedExt => Self::Ext,
        }
    }

    /// Whether the kernel can account for the time that the thread reclaims, if such threads may use `share` of a
    /// CPU.
    fn may_reclaim(self, share: f64) -> bool {
        matches!(self, Self::Deadline(runtime, _, period) if runtime as f64 <= share * period as f64)
    }

    /// Puts thread `tid` under this policy.
    ///
    /// # Errors
    /// Fails with the error of sched_setattr(2).
    pub(super) fn apply(self, tid: u32) -> io::Result<()> {
        let (policy, priority) = match self {
            Self::Deadline(..) => (DEADLINE, 0),
            Self::Fifo(priority) => (libc::SCHED_FIFO.cast_unsigned(), priority),
            Self::Other => (libc::SCHED_OTHER.cast_unsigned(), 0),
            Self::Ext => (EXT, 0),
        };
        let (runtime, deadline, period) = match self {
            Self::Deadline(runtime, deadline, period) => (runtime, deadline, period),
            _ => (0, 0, 0),
        };
        let size = size_of::<SchedAttributes>() as u32;
        // What is put back under the ordinary policy has to wait for nothing, not even for a file.
        let may_reclaim = policy == DEADLINE && self.may_reclaim(real_time_share());
        let reclaim = if may_reclaim { RECLAIM } else { 0 };
        let (flags, nice) = (RESET_ON_FORK | reclaim, 0);
        let attributes =
            SchedAttributes { size, policy, flags, nice, priority, runtime, deadline, period };
        // SAFETY: the kernel reads as many bytes from `attributes` as its first field says.
        let answer =
            unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The kernel's real-time priority for a rank of tasks. Each rank has its own priority if there are enough priorities;
/// otherwise neighbouring ranks share a priority. Tasks of equal rank have equal priority.
fn priority(rank: u32, run: &TaskRun) -> u32 {
    let ranks = run.tasks.iter().map(|task| task.rank + 1).max().unwrap_or(1);
    let step = if ranks <= HIGHEST { rank } else { rank * HIGHEST / ranks };
    HIGHEST - step.min(HIGHEST - 1)
}

/// The number of ranks that share a priority with another rank, if there are more ranks than priorities.
pub(super) fn shared_priorities(run: &TaskRun) -> usize {
    let mut ranks: Vec<u32> = run.tasks.iter().map(|task| task.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut all: Vec<u32> = ranks.into_iter().map(|rank| priority(rank, run)).collect();
    all.sort_unstable();
    let alone = all.chunk_by(|a, b| a == b).filter(|group| group.len() == 1).count();
    all.len() - alone
}

/// The reason why the kernel did not put thread `tid`, task `task` of `run`, under its policy, and the remedy.
pub(super) fn refused(
    run: &TaskRun,
    task: usize,
    tid: u32,
    policy: KernelPolicy,
    error: &io::Error,
) -> MachineError {
    let it = &run.tasks[task];
    let cluster = &run.clusters[it.cluster];
    let (why, remedy) = match (policy, error.raw_os_error()) {
        (KernelPolicy::Deadline(..), Some(libc::EBUSY)) => not_admitted(run, task, cluster),
        (KernelPolicy::Deadline(..), Some(libc::EPERM)) if may_schedule() => bound(tid, cluster),
        (KernelPolicy::Deadline(runtime, deadline, period), Some(libc::EINVAL)) => (
            format!(
                "the kernel rejects a runtime of {runtime} ns, a deadline of {deadline} ns and a period of {period} ns"
            ),
            "keep periods between sched_deadline_period_min_us and …_max_us in /proc/sys/kernel, and \
             execution times below deadlines"
                .to_owned(),
        ),
        (_, Some(libc::EPERM)) => (
            "CAP_SYS_NICE is missing, or the cgroup has no real-time budget".to_owned(),
            "`sudo setcap cap_sys_nice+ep` on the binary, or run as root; or use --scheduler eevdf"
                .to_owned(),
        ),
        (KernelPolicy::Ext, Some(libc::EINVAL)) => (
            "this kernel has no SCHED_EXT".to_owned(),
            "boot a kernel with CONFIG_SCHED_CLASS_EXT, or use --scheduler eevdf".to_owned(),
        ),
        _ => (error.to_string(), "see `corehop doctor`".to_owned()),
    };
    MachineError::NotPossible {
        what: format!("task {task} of {} as {policy}", run.tasks.len()),
        why,
        remedy,
    }
}

/// Describes an admission failure: the reserved time, the task's addition, and the limit.
fn not_admitted(run: &TaskRun, task: usize, cluster: &CpuList) -> (String, String) {
    let own = run.tasks[task].cluster;
    let before = run.tasks[..task].iter().filter(|it| it.cluster == own);
    // The sum of no numbers is -0.0, which a person would read as a debt.
    let reserved = before.map(PlannedTask::reserved).fold(0.0, |sum, it| sum + it);
    let limit = real_time_share() * cluster.len() as f64;
    let adds = run.tasks[task].reserved();
    let why = format!(
        "the kernel does not admit the task: earlier tasks reserve {reserved:.3} of CPUs {cluster}, this task adds {adds:.3}, and all tasks may reserve {limit:.2} minus the share of other SCHED_DEADLINE threads"
    );
    (why, "run fewer tasks, lower --share, or name more CPUs (--cpus)".to_owned())
}

/// Describes a thread that may not run on all CPUs of its root domain.
fn bound(tid: u32, cluster: &CpuList) -> (String, String) {
    let may =
        affinity_of(tid.cast_signed()).map_or_else(|_| "?".to_owned(), |cpus| cpus.to_string());
    let why = format!(
        "SCHED_DEADLINE threads must be allowed on every CPU of their root domain, but this thread may run only on CPUs {may} of {cluster}"
    );
    (why, "run corehop without taskset, and outside of a cpuset that is not a partition".to_owned())
}

/// The share of a CPU that the kernel lets real-time threads reserve.
fn real_time_share() -> f64 {
    let read =
        |name: &str| -> Option<f64> { proc::value(Path::new("/proc/sys/kernel").join(name)) };
    match (read("sched_rt_runtime_us"), read("sched_rt_period_us")) {
        (Some(runtime), Some(period)) if runtime >= 0.0 && period > 0.0 => runtime / period,
        _ => 1.0,
    }
}

/// Whether the process may change policies, tested on the calling thread without a change.
fn may_schedule() -> bool {
    apart(|| KernelPolicy::Fifo(1).apply(0).is_ok()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::experiment::{RandomSets, TaskOrigin, TaskSets};
    use corehop_plan::platform::Platform;
    use corehop_plan::units::{Bytes, Nanos};
    use corehop_plan::workload::{Load, WorkingSet};

    fn run(count: u32) -> TaskRun {
        let sets = TaskSets {
            scheduler: Scheduler::GEdf,
            sched_ext: None,
            source: TaskOrigin::Drawn(RandomSets {
                task_counts: vec![count],
                sets: 1,
                working_sets: vec![WorkingSet::list(Bytes::from_kib(4), 0.5)],
                ..RandomSets::bastoni()
            }),
            duration: Nanos::from_secs(1),
            loads: vec![Load::Idle],
            share: 0.5,
            paired: false,
            cpus: CpuList::default(),
            cluster_level: None,
        };
        let platform = Platform::named("xeon_l7455").unwrap().unwrap();
        sets.tasks(&platform, 1).unwrap().runs.remove(0)
    }

    #[test]
    fn the_smallest_rank_has_the_highest_priority_and_no_order_is_turned_round() {
        for count in [1, 10, 49, 50, 250] {
            let run = run(count);
            let mut tasks: Vec<&PlannedTask> = run.tasks.iter().collect();
            tasks.sort_by_key(|task| task.rank);
            let all: Vec<u32> = tasks.iter().map(|task| priority(task.rank, &run)).collect();
            assert_eq!(all[0], HIGHEST);
            assert!(all.windows(2).all(|pair| pair[0] >= pair[1]) && *all.last().unwrap() >= 1);
            assert_eq!(shared_priorities(&run) == 0, count <= HIGHEST, "{count}");
        }
    }

    #[test]
    fn tasks_of_one_rank_run_at_one_priority() {
        let mut run = run(10);
        for task in &mut run.tasks {
            task.rank /= 4;
        }
        let of = |rank| priority(rank, &run);
        assert_eq!([of(0), of(1), of(2)], [HIGHEST, HIGHEST - 1, HIGHEST - 2]);
        assert_eq!(shared_priorities(&run), 0, "no two ranks share one");
    }

    #[test]
    fn a_thread_reclaims_only_within_the_share_that_such_threads_may_use() {
        let of = |runtime| KernelPolicy::Deadline(runtime, 100, 100);
        assert!(of(33).may_reclaim(1.0 / 3.0) && of(95).may_reclaim(0.95));
        assert!(!of(34).may_reclaim(1.0 / 3.0) && !of(1).may_reclaim(0.0));
        assert!(!KernelPolicy::Fifo(1).may_reclaim(1.0), "it reserves nothing");
    }

    #[test]
    fn a_refusal_says_what_is_reserved_and_what_would_help() {
        let (run, busy) = (run(25), io::Error::from_raw_os_error(libc::EBUSY));
        let policy = KernelPolicy::of(Scheduler::GEdf, &run, &run.tasks[24]);
        let error = refused(&run, 24, 1, policy, &busy).to_string();
        assert!(
            error.contains("task 24 of 25 as deadline") && error.contains("--share"),
            "{error}"
        );
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let error = refused(&run, 0, 1, KernelPolicy::Fifo(3), &denied).to_string();
        assert!(error.contains("cap_sys_nice") && error.contains("eevdf"), "{error}");
    }
}
