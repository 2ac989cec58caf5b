// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calling thread: its allowed CPUs, its policy, and the kernel's counts.

use std::ffi::c_ulong;
use std::fmt;
use std::io;

use corehop_plan::units::{Cpu, CpuList};

/// The real-time priority of a measured job, above all ordinary threads and below all other
/// real-time threads.
pub const FIFO_PRIORITY: i32 = 2;

/// Runs `work` in a new thread. The CPUs and the policy that `work` sets end with that thread.
///
/// # Errors
/// Returns the system's error if no thread can be started (`ulimit -u`, a denied clone3), and an error if `work`
/// panics.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().map_err(|_| io::Error::other("a thread of corehop panicked"))
    })
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// Returns the errors of [`set_affinity_of`].
pub fn set_affinity(cpus: impl IntoIterator<Item = Cpu>) -> io::Result<()> {
    set_affinity_of(0, cpus)
}

/// Returns the CPUs that the calling thread may use.
///
/// # Errors
/// Returns an error only if the kernel fails; no thread can cause an error.
pub fn affinity() -> io::Result<CpuList> {
    affinity_of(0)
}

const WORD: usize = c_ulong::BITS as usize;
/// The number of CPUs that [`CpuList`] can name.
const MOST_CPUS: usize = 65_536;

/// Restricts thread `tid` (0 for the calling thread) to `cpus` (sched_setaffinity(2)). Migrations
/// use this call, so it allocates no memory for up to 1,024 CPUs.
///
/// # Errors
/// Returns `EINVAL` if none of the CPUs is online and in the thread's cpuset, `ESRCH` if the thread is gone. A partly
/// allowed list is no error; check the result by [`affinity_of`].
pub fn set_affinity_of(tid: i32, cpus: impl IntoIterator<Item = Cpu>) -> io::Result<()> {
    let mut first = [0 as c_ulong; 1024 / WORD];
    let mut all: Vec<c_ulong> = Vec::new();
    for cpu in cpus.into_iter().map(|Cpu(cpu)| cpu as usize) {
        let (word, bit) = (cpu / WORD, 1 << (cpu % WORD));
        if cpu >= MOST_CPUS {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if word < first.len() {
            first[word] |= bit;
        } else {
            all.resize(all.len().max(word + 1), 0);
            all[word] |= bit;
        }
    }
    if all.is_empty() {
        return set_mask(tid, &first);
    }
    all[..first.len()].copy_from_slice(&first);
    set_mask(tid, &all)
}

/// Allows thread `tid` (0 for the calling thread) all CPUs of its cpuset, now and later.
///
/// # Errors
/// Returns `ESRCH` if the thread is gone, `EPERM` if it belongs to another user.
pub fn set_affinity_everywhere(tid: i32) -> io::Result<()> {
    // The kernel takes of it what there is and the cpuset allows.
    set_mask(tid, &[c_ulong::MAX; 8_192 / WORD])
}

fn set_mask(tid: i32, mask: &[c_ulong]) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of_val(mask)` bytes from `mask`, which is as long.
    let answer = unsafe { libc::sched_setaffinity(tid, size_of_val(mask), mask.as_ptr().cast()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the CPUs that thread `tid` (0 for the calling thread) may use (sched_getaffinity(2)).
///
/// # Errors
/// Returns `ESRCH` if the thread is gone.
pub fn affinity_of(tid: i32) -> io::Result<CpuList> {
    let mut mask = vec![0 as c_ulong; MOST_CPUS / WORD];
    let size = size_of_val(mask.as_slice());
    // SAFETY: the kernel writes at most `size` bytes to `mask`, which is as long.
    let answer = unsafe { libc::sched_getaffinity(tid, size, mask.as_mut_ptr().cast()) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // Thousands of threads are asked, and few of their words have a CPU.
    let words = mask.iter().enumerate().filter(|(_, word)| **word != 0);
    let bits = words.flat_map(|(at, word)| {
        (0..WORD).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * WORD + bit)
    });
    Ok(CpuList::new(bits.map(|cpu| Cpu(cpu as u32))))
}

/// Returns the ID of the calling thread.
pub fn current_tid() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// Returns the CPU on which the calling thread runs.
pub fn current_cpu() -> Cpu {
    // SAFETY: asks a number of the kernel.
    Cpu(unsafe { libc::sched_getcpu() }.cast_unsigned())
}

/// The scheduling policies that corehop uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// The policy `SCHED_FIFO` at this priority.
    Fifo(i32),
    /// The policy `SCHED_OTHER` at this nice value.
    Other(i32),
    /// The policy `SCHED_IDLE`, which yields to every thread of another class.
    Idle,
}

impl fmt::Display for SchedulingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::Other(nice) => write!(f, "other:{nice}"),
            Self::Idle => f.write_str("idle"),
        }
    }
}

/// Puts the calling thread under `policy`.
///
/// # Errors
/// Returns `EPERM` without CAP_SYS_NICE, or in a cgroup without a real-time budget.
pub fn set_policy(policy: SchedulingPolicy) -> io::Result<()> {
    let (kind, priority) = match policy {
        SchedulingPolicy::Fifo(priority) => (libc::SCHED_FIFO, priority),
        SchedulingPolicy::Other(_) => (libc::SCHED_OTHER, 0),
        SchedulingPolicy::Idle => (libc::SCHED_IDLE, 0),
    };
    let parameter = libc::sched_param { sched_priority: priority };
    // A child of a real-time thread is not to inherit what only this thread bounds.
    // SAFETY: reads the parameter, for the calling thread (0).
    if unsafe {
        libc::sched_setscheduler(0, kind | libc::SCHED_RESET_ON_FORK, &raw const parameter)
    } != 0
    {
        return Err(io::Error::last_os_error());
    }
    if let SchedulingPolicy::Other(nice) = policy {
        // SAFETY: on Linux this sets the nice value of the calling thread only.
        let answer = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Sets and returns the best policy that the calling thread may have for measuring, and the reason why the thread has
/// no better policy.
///
/// `real_time` says whether FIFO may be tried.
pub fn best_policy(real_time: Result<(), String>) -> (SchedulingPolicy, Option<String>) {
    let why = match real_time {
        Ok(()) => match set_policy(SchedulingPolicy::Fifo(FIFO_PRIORITY)) {
            Ok(()) => {
                limit_real_time();
                return (SchedulingPolicy::Fifo(FIFO_PRIORITY), None);
            }
            Err(error) => format!(
                "the kernel denies SCHED_FIFO: {error} (use `sudo setcap cap_sys_nice+ep` on the binary, or run as root)"
            ),
        },
        Err(why) => why,
    };
    (best_ordinary_policy(), Some(why))
}

/// Sets and returns the best policy that is not real-time, for work without a time bound.
pub fn best_ordinary_policy() -> SchedulingPolicy {
    let other = [-20, 0]
        .map(SchedulingPolicy::Other)
        .into_iter()
        .find(|&policy| set_policy(policy).is_ok());
    other.unwrap_or(SchedulingPolicy::Other(0))
}

/// Sets a limit beside the walk's own deadline: the kernel ends a process whose real-time thread
/// computes for a second without sleeping.
fn limit_real_time() {
    let limit = libc::rlimit { rlim_cur: 1_000_000, rlim_max: 1_000_000 };
    // SAFETY: reads the limit. A refusal leaves the first line of defence.
    unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) };
}

/// The kernel's counts for the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// The number of page faults, with and without input or output.
    pub faults: u64,
    /// The number of involuntary context switches.
    pub switches: u64,
    /// The CPU time in nanoseconds, without time that the hypervisor stole.
    pub cpu_ns: u64,
}

impl Usage {
    /// Returns the sum of both counts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            faults: self.faults + other.faults,
            switches: self.switches + other.switches,
            cpu_ns: self.cpu_ns + other.cpu_ns,
        }
    }

    /// Returns the increase since `earlier`, which must come from this thread; never negative.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            faults: self.faults.saturating_sub(earlier.faults),
            switches: self.switches.saturating_sub(earlier.switches),
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
        }
    }
}

/// Reads the calling thread's counts, in a third of a microsecond.
pub fn usage() -> Usage {
    // SAFETY: an all-zero value of this plain struct is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes the struct.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    Usage {
        faults: (usage.ru_minflt + usage.ru_majflt).cast_unsigned(),
        switches: usage.ru_nivcsw.cast_unsigned(),
        cpu_ns: crate::clock::read(libc::CLOCK_THREAD_CPUTIME_ID).cast_unsigned(),
    }
}

/// Requests that the kernel wakes the calling thread as punctually as possible.
pub fn punctual() {
    // SAFETY: sets the thread's timer slack to a nanosecond.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_is_told_to() {
        std::thread::spawn(|| {
            for cpu in affinity().unwrap().iter() {
                set_affinity([cpu]).unwrap();
                assert_eq!((current_cpu(), affinity().unwrap()), (cpu, CpuList::new([cpu])));
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn one_cpu_that_exists_among_others_that_do_not_is_enough() {
        std::thread::spawn(|| {
            let first = affinity().unwrap().first().unwrap();
            set_affinity([first, Cpu(1_500), Cpu(65_535)]).unwrap();
            assert_eq!(affinity().unwrap(), CpuList::new([first]));
            set_affinity_everywhere(0).unwrap();
            assert!(affinity().unwrap().contains(first));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        for cpu in [1000, 65_535, 100_000] {
            let error = set_affinity([Cpu(cpu)]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        }
    }

    #[test]
    fn where_fifo_may_not_be_tried_the_reason_is_passed_on() {
        std::thread::spawn(|| {
            let (policy, why) = best_policy(Err("one CPU only".to_owned()));
            assert!(
                matches!(policy, SchedulingPolicy::Other(_))
                    && why.as_deref() == Some("one CPU only")
            );
        })
        .join()
        .unwrap();
    }
}
