// SPDX-License-Identifier: MIT OR Apache-2.0
//! Determines why a thread lost its CPU, from the best source that this host allows, and says why there is no better
//! one.
//!
//! The time stamps inside a walk reveal a gap, but only the kernel can say what caused the gap. The better source
//! uses the kernel's tracepoints, per CPU, at the cost of a few loads, and needs privileges. The other source uses
//! values that every thread may query about itself. The second source sees switches, faults and often stolen time,
//! but no interrupts. There is no intermediate source of perf records, because these cost some 470 ns per switch and
//! show no more about a gap than the second source.

use std::fmt::Write;

use corehop_plan::units::{Cpu, CpuList, Nanos};

use super::software::ThreadCounts;
use crate::bpf::facts::Facts;
use crate::bpf::interrupts::{COUNTERS, InterruptCounter, InterruptCounters, InterruptCounts};
use crate::bpf::{BpfError, Btf, kernel_types};

/// The source of the counts to which lost CPU time is attributed.
#[derive(Debug)]
pub enum CounterSource {
    /// Per-CPU counters of interrupts, switches and steal by BPF, together with the thread's own counts.
    Bpf(InterruptCounters),
    /// The thread's own counts: getrusage(2) and CPU time.
    Rusage {
        /// The reason why BPF is not available, with the remedy.
        because: String,
    },
}

/// The counts of a source, absolute or between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WitnessCounts {
    /// The counts of the calling thread.
    pub thread: ThreadCounts,
    /// The counts of the CPU, if the source provides them.
    pub cpu: Option<InterruptCounts>,
}

impl WitnessCounts {
    /// Returns the increase since `earlier`, which must be from this thread and CPU.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let cpu = self.cpu.zip(earlier.cpu).map(|(later, earlier)| later.minus(&earlier));
        Self { thread: self.thread.minus(&earlier.thread), cpu }
    }

    /// Returns the number of interrupts of all kinds, if the source counts them.
    pub fn interrupts(&self) -> Option<u64> {
        self.cpu.map(|cpu| cpu.interrupts())
    }
}

/// The attribution of lost CPU time to causes.
#[derive(Debug)]
pub struct Attribution {
    source: CounterSource,
    /// Whether the time for which an awake thread does not run is only stolen time, and never includes interrupts.
    not_run_is_stolen: bool,
}

impl Attribution {
    /// Opens the best source for measurements on `cpus`. The call never fails, because the thread's own counts are
    /// always available.
    pub fn open(cpus: &CpuList) -> Self {
        Self::on(kernel_types(), cpus)
    }

    fn on(types: Result<&Btf, BpfError>, cpus: &CpuList) -> Self {
        // Unknown counts as no: better no steal than interrupts under a wrong name.
        let not_run_is_stolen = types.as_ref().is_ok_and(|types| !subtracts_interrupts(types));
        let source = types.and_then(|types| InterruptCounters::open_with(types, cpus)).map_or_else(
            |error| CounterSource::Rusage { because: error.to_string() },
            CounterSource::Bpf,
        );
        Self { source, not_run_is_stolen }
    }

    /// Returns the source in use.
    pub const fn source(&self) -> &CounterSource {
        &self.source
    }

    /// Returns the per-CPU counters, if the source has them.
    pub const fn counters(&self) -> Option<&InterruptCounters> {
        match &self.source {
            CounterSource::Bpf(counters) => Some(counters),
            CounterSource::Rusage { .. } => None,
        }
    }

    /// Returns the current counts for the calling thread and its CPU. The call takes about 350 ns for two system
    /// calls, and allocates nothing. The per-CPU counts alone cost a few ns: see [`counters`](Self::counters).
    ///
    /// # Panics
    /// Panics for a CPU above those for which the source was opened.
    pub fn read(&self, cpu: Cpu) -> WitnessCounts {
        let cpu = self.counters().map(|counters| counters.read(cpu));
        WitnessCounts { thread: ThreadCounts::read(), cpu }
    }

    /// For a difference over `wall` time, returns the time that a hypervisor has stolen, if this can be determined.
    ///
    /// The thread's own accounting is up to date, but shows nothing if the thread left its CPU or the kernel also
    /// counts interrupts as time not run. The accounting of the run queue lags by up to a tick.
    pub fn stolen(&self, difference: &WitnessCounts, wall: Nanos) -> Option<Nanos> {
        let by_thread = difference.thread.not_run(wall).filter(|_| self.not_run_is_stolen);
        by_thread.or_else(|| {
            let cpu = difference.cpu.filter(|_| self.sees(InterruptCounter::Steal));
            cpu.map(|cpu| Nanos::new(cpu.steal_ns))
        })
    }

    /// Returns whether the time for which an awake thread does not run is only stolen time, and never includes
    /// interrupts.
    pub const fn not_run_is_stolen(&self) -> bool {
        self.not_run_is_stolen
    }

    /// Returns whether the events of this counter would be seen. If the source does not see these events, zeros of the
    /// counter mean nothing.
    pub fn sees(&self, counter: InterruptCounter) -> bool {
        self.counters()
            .map_or(counter == InterruptCounter::Switches, |counters| counters.has(counter))
    }

    /// Returns the name of the source for a column.
    pub const fn name(&self) -> &'static str {
        match self.source {
            CounterSource::Bpf(_) => "bpf",
            CounterSource::Rusage { .. } => "rusage",
        }
    }

    /// Returns a sentence for a result's provenance: the source, what it sees, what it lacks and why.
    pub fn provenance(&self) -> String {
        match &self.source {
            CounterSource::Bpf(counters) => {
                let missing = counters.skipped().iter();
                let missing = missing.map(|skipped| (skipped.counter, skipped.reason.as_str()));
                seen_and_missing(|counter| counters.has(counter), missing)
            }
            CounterSource::Rusage { because } => format!(
                "Disturbances are attributed by getrusage and thread CPU time: switches and page \
                 faults are seen, interrupts are not, stolen time {}. No BPF counters: {because}",
                if self.not_run_is_stolen { "is" } else { "is not distinguished from interrupts" }
            ),
        }
    }
}

/// Whether this kernel excludes the time of interrupts from a thread's CPU time (CONFIG_IRQ_TIME_ACCOUNTING); only
/// then does a run queue have a field for that time.
fn subtracts_interrupts(types: &Btf) -> bool {
    Facts::of(types).is_ok_and(|facts| facts.says("subtracts_interrupts"))
}

fn seen_and_missing<'a>(
    has: impl Fn(InterruptCounter) -> bool,
    missing: impl Iterator<Item = (InterruptCounter, &'a str)>,
) -> String {
    let seen: Vec<_> =
        COUNTERS.into_iter().filter(|&c| has(c)).map(InterruptCounter::name).collect();
    let mut text =
        format!("Disturbances are attributed by BPF counters of each CPU: {}", seen.join(", "));
    for (counter, reason) in missing {
        let extent = if has(counter) { "only in part" } else { "not" };
        // Writing to a string cannot fail.
        let _ = write!(text, "; {} {extent}: {reason}", counter.name());
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lower(not_run_is_stolen: bool) -> Attribution {
        let source = CounterSource::Rusage { because: "no CAP_BPF: use setcap".to_owned() };
        Attribution { source, not_run_is_stolen }
    }

    #[test]
    fn one_witness_serves_all_threads() {
        const fn shared<T: Send + Sync>() {}
        shared::<Attribution>();
    }

    #[test]
    fn the_sentence_names_what_is_seen_and_what_is_not_with_the_reason() {
        let has = |counter| {
            matches!(counter, InterruptCounter::Switches | InterruptCounter::CallFunction)
        };
        let missing = [
            (InterruptCounter::Steal, "no `rq`"),
            (InterruptCounter::CallFunction, "no `x_entry`"),
        ];
        assert_eq!(
            seen_and_missing(has, missing.into_iter()),
            "Disturbances are attributed by BPF counters of each CPU: call_function, switches; \
             steal_ns not: no `rq`; call_function only in part: no `x_entry`."
        );
    }

    #[test]
    fn the_lower_rung_says_why_it_is_in_use_and_what_it_does_not_see() {
        let text = lower(true).provenance();
        assert!(text.contains("interrupts are not, stolen time is. No BPF"), "{text}");
        assert!(text.ends_with("no CAP_BPF: use setcap"), "{text}");
        assert!(lower(false).provenance().contains("stolen time is not distinguished"));
        assert!(
            lower(true).sees(InterruptCounter::Switches)
                && !lower(true).sees(InterruptCounter::LocalTimer)
        );
        assert_eq!(lower(true).read(Cpu(0)).interrupts(), None);
    }

    #[test]
    fn without_type_information_the_lower_rung_serves_and_names_the_reason() {
        let gone = BpfError::NoBtf { source: std::io::ErrorKind::NotFound.into() };
        let attribution = Attribution::on(Err(gone), &CpuList::new([Cpu(0)]));
        assert!(attribution.name() == "rusage" && !attribution.not_run_is_stolen);
        assert!(attribution.provenance().contains("CONFIG_DEBUG_INFO_BTF"));
        let damaged = crate::bpf::parse_types(b"\x7fELF\0\0\0\0").unwrap_err();
        let attribution = Attribution::on(Err(damaged), &CpuList::new([Cpu(0)]));
        assert!(attribution.provenance().contains("/sys/kernel/btf/vmlinux cannot be parsed"));
    }

    #[test]
    fn a_rung_is_always_found_and_sees_this_thread_sleep() {
        let attribution = Attribution::open(&CpuList::new([Cpu(0)]));
        assert!(attribution.provenance().starts_with("Disturbances are attributed by"));
        let before = attribution.read(Cpu(0));
        std::thread::sleep(std::time::Duration::from_millis(1));
        let added = attribution.read(Cpu(0)).minus(&before);
        assert!(added.thread.voluntary_switches > 0, "{added:?}");
        assert_eq!(added.cpu.is_some(), attribution.name() == "bpf");
    }

    #[test]
    fn stolen_time_is_what_was_not_run_unless_interrupts_or_absence_are_in_that() {
        let thread = ThreadCounts { cpu_time_ns: 94_000, ..ThreadCounts::default() };
        let stayed = WitnessCounts { thread, cpu: None };
        let left =
            WitnessCounts { thread: ThreadCounts { voluntary_switches: 1, ..thread }, cpu: None };
        let wall = Nanos::from_micros(100);
        assert_eq!(lower(true).stolen(&stayed, wall), Some(Nanos::from_micros(6)));
        assert_eq!(lower(true).stolen(&left, wall), None);
        assert_eq!(lower(false).stolen(&stayed, wall), None);
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a skip says why")]
    fn where_the_thread_cannot_say_the_run_queue_does() {
        let upper = Attribution::open(&CpuList::new([Cpu(0)]));
        if !upper.sees(InterruptCounter::Steal) {
            return eprintln!("skipped: {}", upper.provenance());
        }
        let cpu = Some(InterruptCounts { steal_ns: 7_000, ..InterruptCounts::default() });
        let left = ThreadCounts { voluntary_switches: 1, ..ThreadCounts::default() };
        let difference = WitnessCounts { thread: left, cpu };
        let stolen = upper.stolen(&difference, Nanos::from_micros(100));
        assert_eq!(stolen, Some(Nanos::from_micros(7)));
    }
}
