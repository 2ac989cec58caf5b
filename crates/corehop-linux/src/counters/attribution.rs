// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who took the CPU away: the best witness that this host allows, and why it is not a better one.
//!
//! A gap in a walk is seen by the time stamps inside of it; what caused it, the kernel has to say.
//! The upper rung has it from the kernel's tracepoints, per CPU, at the cost of a few loads, and
//! needs privileges. The lower one has it from what every thread may ask about itself: it sees
//! switches, faults and stolen time, and no interrupts. There is no rung of perf records between
//! the two: at some 470 ns per switch they tell no more about a gap than the lower one does.

use corehop_core::units::{Cpu, CpuList, Nanos};

use super::software::ThreadCounts;
use crate::bpf::interrupts::{COUNTERS, Counter, InterruptCounters, InterruptCounts};

/// The rung in use.
#[derive(Debug)]
pub enum Attribution {
    /// Per-CPU counters of interrupts, switches and steal, by BPF; and what a thread may ask.
    Bpf(InterruptCounters),
    /// What a thread may ask about itself: getrusage(2) and its CPU time.
    Rusage {
        /// Why there is no BPF, with the remedy.
        because: String,
    },
}

/// What the witness has seen so far, or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Witness {
    /// Of the calling thread.
    pub thread: ThreadCounts,
    /// Of the CPU, where the rung gives it.
    pub cpu: Option<InterruptCounts>,
}

impl Witness {
    /// What was added since `earlier`, of the same thread and CPU.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let cpu = self.cpu.zip(earlier.cpu).map(|(later, earlier)| later.minus(&earlier));
        Self { thread: self.thread.minus(&earlier.thread), cpu }
    }

    /// Of a difference over `wall` time: time stolen by a hypervisor, by the better of two
    /// accounts. The thread's own is up to date at once, and none where it left its CPU; the run
    /// queue's lags by up to a tick.
    pub fn stolen(&self, wall: Nanos) -> Option<Nanos> {
        self.thread.stolen(wall).or_else(|| self.cpu.map(|cpu| Nanos::new(cpu.steal_ns)))
    }
}

impl Attribution {
    /// The best rung for measuring on `cpus`. Never fails: the lower rung is always there.
    pub fn open(cpus: &CpuList) -> Self {
        match InterruptCounters::open(cpus) {
            Ok(counters) => Self::Bpf(counters),
            Err(error) => Self::Rusage { because: error.to_string() },
        }
    }

    /// What the witness has seen so far, on the CPU that the calling thread is on. About 350 ns,
    /// for two system calls; no allocation. The per-CPU counts alone cost a few ns: see
    /// [`counters`](Self::counters).
    ///
    /// # Panics
    /// For a CPU above those it was opened for.
    pub fn read(&self, cpu: Cpu) -> Witness {
        Witness {
            thread: ThreadCounts::read(),
            cpu: self.counters().map(|counters| counters.read(cpu)),
        }
    }

    /// The per-CPU counters, where this rung has them.
    pub fn counters(&self) -> Option<&InterruptCounters> {
        match self {
            Self::Bpf(counters) => Some(counters),
            Self::Rusage { .. } => None,
        }
    }

    /// Whether a disturbance of this kind would be seen. Where not, its absence means nothing.
    pub fn sees(&self, counter: Counter) -> bool {
        match self {
            Self::Bpf(counters) => counters.has(counter),
            Self::Rusage { .. } => matches!(counter, Counter::Switches),
        }
    }

    /// Name of the rung, for a column.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bpf(_) => "bpf",
            Self::Rusage { .. } => "rusage",
        }
    }

    /// A sentence for a result's provenance: which rung, what it sees, what it lacks and why.
    pub fn provenance(&self) -> String {
        match self {
            Self::Bpf(counters) => {
                let missing = counters.skipped().iter();
                let missing = missing.map(|skipped| (skipped.counter, skipped.reason.as_str()));
                sentence(|counter| counters.has(counter), missing)
            }
            Self::Rusage { because } => format!(
                "Disturbances are attributed by getrusage and thread CPU time: switches, page \
                 faults and stolen time are seen, interrupts are not. No BPF counters: {because}"
            ),
        }
    }
}

fn sentence<'a>(
    has: impl Fn(Counter) -> bool,
    missing: impl Iterator<Item = (Counter, &'a str)>,
) -> String {
    let seen: Vec<_> = COUNTERS.into_iter().filter(|&c| has(c)).map(Counter::name).collect();
    let mut text =
        format!("Disturbances are attributed by BPF counters of each CPU: {}", seen.join(", "));
    for (counter, reason) in missing {
        let extent = if has(counter) { "only in part" } else { "not" };
        text.push_str(&format!("; {} {extent}: {reason}", counter.name()));
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_what_is_seen_and_what_is_not_with_the_reason() {
        let has = |counter| matches!(counter, Counter::Switches | Counter::CallFunction);
        let missing = [(Counter::Steal, "no `rq`"), (Counter::CallFunction, "no `x_entry`")];
        assert_eq!(
            sentence(has, missing.into_iter()),
            "Disturbances are attributed by BPF counters of each CPU: call_function, switches; \
             steal_ns not: no `rq`; call_function only in part: no `x_entry`."
        );
    }

    #[test]
    fn the_lower_rung_says_why_it_is_in_use_and_what_it_does_not_see() {
        let rung = Attribution::Rusage { because: "no CAP_BPF: use setcap".to_owned() };
        let text = rung.provenance();
        assert!(text.contains("interrupts are not") && text.ends_with("no CAP_BPF: use setcap"));
        assert!(rung.sees(Counter::Switches) && !rung.sees(Counter::LocalTimer));
        assert_eq!(rung.read(Cpu(0)).cpu, None);
    }

    #[test]
    fn a_rung_is_always_found_and_sees_this_thread_sleep() {
        let rung = Attribution::open(&CpuList::new([Cpu(0)]));
        assert!(rung.provenance().starts_with("Disturbances are attributed by"));
        let before = rung.read(Cpu(0));
        std::thread::sleep(std::time::Duration::from_millis(1));
        let added = rung.read(Cpu(0)).minus(&before);
        assert!(added.thread.voluntary_switches > 0, "{added:?}");
        assert_eq!(added.cpu.is_some(), rung.name() == "bpf");
    }

    #[test]
    fn stolen_time_is_the_threads_own_account_while_it_stays_on_its_cpu() {
        let cpu = Some(InterruptCounts { steal_ns: 70, ..InterruptCounts::default() });
        let thread = ThreadCounts { cpu_time_ns: 940, ..ThreadCounts::default() };
        let wall = Nanos::new(1000);
        assert_eq!(Witness { thread, cpu }.stolen(wall), Some(Nanos::new(60)));
        let left = ThreadCounts { voluntary_switches: 1, ..thread };
        assert_eq!(Witness { thread: left, cpu }.stolen(wall), Some(Nanos::new(70)));
        assert_eq!(Witness { thread: left, cpu: None }.stolen(wall), None);
    }
}
