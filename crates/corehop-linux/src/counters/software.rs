// SPDX-License-Identifier: MIT OR Apache-2.0
//! Software counters of Linux: faults and switches of a thread, its CPU time, the CPUs' idle and stolen time,
//! interrupts by row, and SMIs if the processor counts them.
//!
//! Each reader needs a system call or a small file. The parsers take text, so that tests can use the files of other
//! machines.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use corehop_plan::units::{Cpu, Nanos};

use super::CounterError;
use corehop_system::clock;
use corehop_system::proc;

/// The kernel's counts for one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadCounts {
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Page faults that had to wait for I/O.
    pub major_faults: u64,
    /// The number of times the thread left its CPU because it blocked.
    pub voluntary_switches: u64,
    /// The number of times the thread was preempted.
    pub involuntary_switches: u64,
    /// The time for which the thread ran, in ns. The time includes interrupts, unless the kernel accounts for them
    /// (CONFIG_IRQ_TIME_ACCOUNTING). In a guest whose hypervisor reports stolen time, the CPU time excludes stolen
    /// time.
    pub cpu_time_ns: u64,
}

impl ThreadCounts {
    /// Returns the calling thread's counts, by two system calls without allocation.
    pub fn read() -> Self {
        // SAFETY: all-zero is a valid rusage; the kernel fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            // Cannot fail: the kind is valid and the address is ours.
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        Self {
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
            cpu_time_ns: thread_cpu_time().get(),
        }
    }

    /// Returns the increase since `earlier`.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let added = |later: u64, earlier: u64| later.saturating_sub(earlier);
        Self {
            minor_faults: added(self.minor_faults, earlier.minor_faults),
            major_faults: added(self.major_faults, earlier.major_faults),
            voluntary_switches: added(self.voluntary_switches, earlier.voluntary_switches),
            involuntary_switches: added(self.involuntary_switches, earlier.involuntary_switches),
            cpu_time_ns: added(self.cpu_time_ns, earlier.cpu_time_ns),
        }
    }

    /// Returns the number of times the thread left its CPU for any reason.
    pub const fn switches(&self) -> u64 {
        self.voluntary_switches + self.involuntary_switches
    }

    /// For a difference over `wall` time, returns how long the thread was on its CPU without running. During this time
    /// the hypervisor ran something else, or the kernel served interrupts for which it accounts separately. Returns
    /// `None` if the thread left its CPU, because the difference then includes waiting. Returns zero for less than a
    /// microsecond, because the two clocks are read one after the other.
    pub fn not_run(&self, wall: Nanos) -> Option<Nanos> {
        let missing = wall.get().saturating_sub(self.cpu_time_ns);
        let missing = if missing < 1_000 { 0 } else { missing };
        (self.switches() == 0).then_some(Nanos::new(missing))
    }
}

/// Returns the time for which the calling thread has run. Reading this time updates the scheduler's clock, including
/// stolen time.
pub fn thread_cpu_time() -> Nanos {
    Nanos::new(clock::read(libc::CLOCK_THREAD_CPUTIME_ID).cast_unsigned())
}

/// The times of one CPU since boot, in ticks of `1 / sysconf(_SC_CLK_TCK)`, usually 10 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    /// The time spent on threads or interrupts.
    pub busy: u64,
    /// The idle time, including waiting for I/O.
    pub idle: u64,
    /// The time taken by the hypervisor.
    pub steal: u64,
}

impl CpuTicks {
    /// Returns the increase since `earlier`. Idle ticks may run backwards by one or two on a tickless CPU.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// For a difference, returns the share of time that the CPU was busy, from 0 to 1. For an SMT sibling, the result
    /// is the share of time for which the sibling competed for the core. Returns `None` if not a single tick has
    /// passed.
    pub fn busy_share(&self) -> Option<f64> {
        let total = self.busy + self.idle + self.steal;
        (total > 0).then(|| self.busy as f64 / total as f64)
    }
}

/// The times of all CPUs, from `/proc/stat` (proc_stat(5)).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuTimes {
    by_cpu: Vec<(Cpu, CpuTicks)>,
}

impl CpuTimes {
    /// Reads the current times, in about 2 µs on a small machine; allocates.
    ///
    /// # Errors
    /// Fails if `/proc/stat` cannot be read or understood.
    pub fn read() -> Result<Self, CounterError> {
        Self::parse(&read_file("/proc/stat")?)
    }

    /// Parses the text of `/proc/stat`. Offline CPUs have no line in this file.
    ///
    /// # Errors
    /// Fails if a CPU's line does not contain numbers, or there is no such line.
    pub fn parse(text: &str) -> Result<Self, CounterError> {
        let malformed =
            |found: &str| CounterError::Malformed { what: "/proc/stat", found: found.to_owned() };
        let mut by_cpu = Vec::new();
        for line in text.lines() {
            let Some((name, times)) = line.split_once(' ') else { continue };
            let Some(number) = name.strip_prefix("cpu").filter(|rest| !rest.is_empty()) else {
                continue;
            };
            let number = number.parse().map_err(|_| malformed(line))?;
            let times: Result<Vec<u64>, _> = times.split_whitespace().map(str::parse).collect();
            by_cpu.push((Cpu(number), ticks(&times.map_err(|_| malformed(line))?)));
        }
        if by_cpu.is_empty() {
            Err(malformed(text.lines().next().unwrap_or("")))
        } else {
            Ok(Self { by_cpu })
        }
    }

    /// Returns the times of one CPU; `None` if it is offline.
    pub fn of(&self, cpu: Cpu) -> Option<CpuTicks> {
        self.by_cpu.iter().find(|(known, _)| *known == cpu).map(|&(_, ticks)| ticks)
    }
}

/// The fields are user nice system idle iowait irq softirq steal; the following fields (guest) are already included
/// in user.
fn ticks(times: &[u64]) -> CpuTicks {
    let time = |index: usize| times.get(index).copied().unwrap_or(0);
    CpuTicks {
        busy: [0, 1, 2, 5, 6].into_iter().map(time).sum(),
        idle: time(3) + time(4),
        steal: time(7),
    }
}

/// `/proc/interrupts`: the number of times that each interrupt has come to each CPU since boot. Reading takes tens of
/// microseconds, which is acceptable before and after a run but not for each sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterruptTable {
    cpus: Vec<Cpu>,
    rows: Vec<(String, Vec<u64>)>,
}

impl InterruptTable {
    /// Reads the current table of interrupts.
    ///
    /// # Errors
    /// Fails if `/proc/interrupts` cannot be read or understood.
    pub fn read() -> Result<Self, CounterError> {
        Self::parse(&read_file("/proc/interrupts")?)
    }

    /// Parses the text of `/proc/interrupts`.
    ///
    /// # Errors
    /// Fails if the first line does not name CPUs.
    pub fn parse(text: &str) -> Result<Self, CounterError> {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or("");
        let cpus: Option<Vec<Cpu>> = header
            .split_whitespace()
            .map(|name| name.strip_prefix("CPU")?.parse().ok().map(Cpu))
            .collect();
        let cpus = cpus.filter(|cpus| !cpus.is_empty()).ok_or(CounterError::Malformed {
            what: "/proc/interrupts",
            found: header.to_owned(),
        })?;
        let rows = lines.filter_map(|line| row(line, cpus.len())).collect();
        Ok(Self { cpus, rows })
    }

    /// Returns the number of interrupts with this label (`NMI`, `LOC`, `24`) on `cpu`; `None` if there is no such
    /// row, or no such online CPU.
    pub fn count(&self, label: &str, cpu: Cpu) -> Option<u64> {
        let column = self.cpus.iter().position(|known| *known == cpu)?;
        let (_, counts) = self.rows.iter().find(|(known, _)| known == label)?;
        counts.get(column).copied()
    }

    /// Returns the number of NMIs on `cpu`; `None` if this architecture does not list them.
    pub fn nmis(&self, cpu: Cpu) -> Option<u64> {
        self.count("NMI", cpu)
    }
}

/// The label and the counts of a row. Rows of sums over all CPUs (`ERR`, `MIS`) have a single count, which belongs to
/// no CPU.
fn row(line: &str, cpus: usize) -> Option<(String, Vec<u64>)> {
    let (label, rest) = line.split_once(':')?;
    let counts: Vec<u64> =
        rest.split_whitespace().take(cpus).map_while(|count| count.parse().ok()).collect();
    let counts = if counts.len() == cpus { counts } else { vec![] };
    Some((label.trim().to_owned(), counts))
}

/// `MSR_SMI_COUNT` of Intel processors since Nehalem: the number of SMIs since the last reset, in 32 bits.
const MSR_SMI_COUNT: u64 = 0x34;

/// Reads the number of system management interrupts (SMIs) of one CPU. SMIs stop all software, and no tracepoint and
/// no counter of the kernel sees SMIs.
#[derive(Debug)]
pub struct SmiCounter {
    msr: File,
}

impl SmiCounter {
    /// Opens the counter of `cpu`.
    ///
    /// # Errors
    /// Fails if the processor has no such counter, the kernel does not show it, or the caller lacks a privilege.
    pub fn open(cpu: Cpu) -> Result<Self, CounterError> {
        Self::open_file(Path::new(&format!("/dev/cpu/{}/msr", cpu.0)))
    }

    fn open_file(path: &Path) -> Result<Self, CounterError> {
        let counter = File::open(path).map(|msr| Self { msr }).map_err(|error| no_msr(&error))?;
        // Other processors answer only when asked: once now, so that a run does not fail midway.
        counter.read()?;
        Ok(counter)
    }

    /// Returns the number of SMIs since the processor was reset, modulo 2^32.
    ///
    /// # Errors
    /// Fails if the processor does not have the register.
    pub fn read(&self) -> Result<u32, CounterError> {
        let mut value = [0; 8];
        self.msr.read_exact_at(&mut value, MSR_SMI_COUNT).map_err(|error| no_msr(&error))?;
        // The count is the lower half of a 64-bit register; the upper one is reserved.
        Ok(u64::from_ne_bytes(value) as u32)
    }
}

fn no_msr(error: &io::Error) -> CounterError {
    let (reason, remedy) = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => (
            "the kernel shows no model-specific registers",
            "on an Intel processor, `modprobe msr` (CONFIG_X86_MSR)",
        ),
        Some(libc::EACCES | libc::EPERM) => {
            ("model-specific registers are for root", "run as root, with kernel lockdown off")
        }
        _ => (
            "this processor, or its hypervisor, has no register 0x34, which counts system-management interrupts",
            "look for gaps instead, as the measured loop does, or use rtla hwnoise",
        ),
    };
    CounterError::unavailable("SMI count", error, reason, remedy)
}

fn read_file(path: &'static str) -> Result<String, CounterError> {
    proc::text(path).map_err(|error| {
        CounterError::unavailable(path, &error, "the file cannot be read", "mount /proc")
    })
}

#[cfg(test)]
#[path = "software_tests.rs"]
mod tests;
