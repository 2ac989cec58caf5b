// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-CPU counts of what takes a CPU away from a thread: interrupts, switches, steal.
//!
//! One program per tracepoint adds to a word of the CPU it runs on; the words of a CPU lie side by
//! side in memory that this process sees, so that a measured thread reads them before and after a
//! walk with a handful of loads.
//!
//! The additions are atomic. A plain one would lose counts where a program is interrupted between
//! its load and its store by another that counts in the same word: softirqs run with interrupts
//! on, NMIs come at any time, two vectors share the word of function calls, and recent kernels run
//! tracing programs preemptibly. The line belongs to its CPU, so it costs a few nanoseconds.
//!
//! Not seen are: SMIs and exits of a virtual machine (no tracepoint passes); interrupts of vectors that have
//! no tracepoint of their own; and, on some kernels, those that come while process 1 has the CPU, since they
//! run no programs then (a measured thread is another process). On processors other than x86 the tick and the
//! interrupts between processors are ordinary interrupts: they all count as `device_irqs`.
//!
//! Steal is what the scheduler has subtracted from its clock so far. It looks at the hypervisor's
//! account when it updates that clock, and the word is written at the end of the tick: steal
//! within a walk may appear up to a tick later. What is stolen *now* shows in wall time minus
//! [`thread_cpu_time`](crate::counters::software::thread_cpu_time), which updates the clock first:
//! [`Attribution::stolen`](crate::counters::attribution::Attribution::stolen) knows which to use.

use corehop_plan::units::{Cpu, CpuList};

use super::facts::Facts;
use super::object::Object;
use super::{ArrayMapping, BpfError, Btf, ProgramInfo, kernel_types};

/// The programs, `bpf/interrupts.bpf.c`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/interrupts.bpf.o");

/// The counters of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptCounter {
    /// Interrupts of the local timer: ticks, and whatever else the timer was set for.
    LocalTimer,
    /// Another CPU asked this one to schedule.
    Reschedule,
    /// Another CPU had this one run a function; TLB shootdowns are among them.
    CallFunction,
    /// Interrupts with a handler in a driver; off x86, all interrupts.
    DeviceIrqs,
    /// Softirq handlers run (timers, network, RCU, …), one for each kind.
    Softirqs,
    /// NMIs that somebody claimed.
    Nmis,
    /// Deferred work in interrupt context (printk, nohz_full, …) and thermal events.
    OtherIrqs,
    /// Times the CPU went from one thread to another.
    Switches,
    /// Nanoseconds during which the hypervisor ran something else, since boot.
    Steal,
}

/// All counters, in the order of their words.
pub const COUNTERS: [InterruptCounter; 9] = [
    InterruptCounter::LocalTimer,
    InterruptCounter::Reschedule,
    InterruptCounter::CallFunction,
    InterruptCounter::DeviceIrqs,
    InterruptCounter::Softirqs,
    InterruptCounter::Nmis,
    InterruptCounter::OtherIrqs,
    InterruptCounter::Switches,
    InterruptCounter::Steal,
];

impl InterruptCounter {
    /// Name of the counter's column.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalTimer => "local_timer",
            Self::Reschedule => "reschedule",
            Self::CallFunction => "call_function",
            Self::DeviceIrqs => "device_irqs",
            Self::Softirqs => "softirqs",
            Self::Nmis => "nmis",
            Self::OtherIrqs => "other_irqs",
            Self::Switches => "switches",
            Self::Steal => "steal_ns",
        }
    }
}

/// The word that says who has the CPU: after the counters.
const OCCUPANT: usize = COUNTERS.len();

/// Words from one CPU's counters to the next one's: two cache lines, because some processors
/// fetch lines in pairs, and on some a line has 128 bytes.
const STRIDE: usize = 16;

/// The tracepoints, and what they count.
const PROBES: [(&str, InterruptCounter); 11] = [
    ("local_timer_entry", InterruptCounter::LocalTimer),
    ("reschedule_entry", InterruptCounter::Reschedule),
    ("call_function_entry", InterruptCounter::CallFunction),
    ("call_function_single_entry", InterruptCounter::CallFunction),
    ("irq_handler_entry", InterruptCounter::DeviceIrqs),
    ("softirq_entry", InterruptCounter::Softirqs),
    ("nmi_handler", InterruptCounter::Nmis),
    ("irq_work_entry", InterruptCounter::OtherIrqs),
    ("thermal_apic_entry", InterruptCounter::OtherIrqs),
    ("sched_switch", InterruptCounter::Switches),
    ("local_timer_exit", InterruptCounter::Steal),
];

/// A counter, or part of it, that this kernel does not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The tracepoint that would have fed it.
    pub tracepoint: &'static str,
    /// The counter.
    pub counter: InterruptCounter,
    /// Why not.
    pub reason: String,
}

/// Counts of one CPU at one moment, or what was added between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterruptCounts {
    /// [`InterruptCounter::LocalTimer`]
    pub local_timer: u64,
    /// [`InterruptCounter::Reschedule`]
    pub reschedule: u64,
    /// [`InterruptCounter::CallFunction`]
    pub call_function: u64,
    /// [`InterruptCounter::DeviceIrqs`]
    pub device_irqs: u64,
    /// [`InterruptCounter::Softirqs`]
    pub softirqs: u64,
    /// [`InterruptCounter::Nmis`]
    pub nmis: u64,
    /// [`InterruptCounter::OtherIrqs`]
    pub other_irqs: u64,
    /// [`InterruptCounter::Switches`]
    pub switches: u64,
    /// [`InterruptCounter::Steal`]
    pub steal_ns: u64,
}

impl InterruptCounts {
    #[inline]
    fn from_each(word: impl Fn(InterruptCounter) -> u64) -> Self {
        Self {
            local_timer: word(InterruptCounter::LocalTimer),
            reschedule: word(InterruptCounter::Reschedule),
            call_function: word(InterruptCounter::CallFunction),
            device_irqs: word(InterruptCounter::DeviceIrqs),
            softirqs: word(InterruptCounter::Softirqs),
            nmis: word(InterruptCounter::Nmis),
            other_irqs: word(InterruptCounter::OtherIrqs),
            switches: word(InterruptCounter::Switches),
            steal_ns: word(InterruptCounter::Steal),
        }
    }

    /// The value of one counter.
    pub const fn get(&self, counter: InterruptCounter) -> u64 {
        match counter {
            InterruptCounter::LocalTimer => self.local_timer,
            InterruptCounter::Reschedule => self.reschedule,
            InterruptCounter::CallFunction => self.call_function,
            InterruptCounter::DeviceIrqs => self.device_irqs,
            InterruptCounter::Softirqs => self.softirqs,
            InterruptCounter::Nmis => self.nmis,
            InterruptCounter::OtherIrqs => self.other_irqs,
            InterruptCounter::Switches => self.switches,
            InterruptCounter::Steal => self.steal_ns,
        }
    }

    /// The increase since `earlier`, of the same CPU.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        Self::from_each(|counter| self.get(counter).saturating_sub(earlier.get(counter)))
    }

    /// Interrupts of all kinds; softirqs are not counted, since they run at the end of one.
    pub const fn interrupts(&self) -> u64 {
        self.local_timer
            + self.reschedule
            + self.call_function
            + self.device_irqs
            + self.nmis
            + self.other_irqs
    }

    /// The counters that are not zero, with their values: what has happened, by name.
    pub fn causes(&self) -> impl Iterator<Item = (InterruptCounter, u64)> + '_ {
        COUNTERS.into_iter().map(|counter| (counter, self.get(counter))).filter(|&(_, n)| n > 0)
    }
}

/// The counters, running. They stop, and leave nothing behind, when dropped; several may run side
/// by side.
#[derive(Debug)]
pub struct InterruptCounters {
    // Declared before the memory that its programs write, though they would keep it alive.
    object: Object,
    probes: Vec<(&'static str, InterruptCounter)>,
    words: ArrayMapping,
    cpus: usize,
    skipped: Vec<Skipped>,
}

impl InterruptCounters {
    /// Count on `cpus`. Tracepoints that this kernel lacks are skipped and named.
    ///
    /// # Errors
    /// If the kernel has no BTF, the caller may not, or none of the tracepoints is there.
    pub fn open(cpus: &CpuList) -> Result<Self, BpfError> {
        Self::open_with(kernel_types()?, cpus)
    }

    /// The same with type information that has been read already.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(types: &Btf, cpus: &CpuList) -> Result<Self, BpfError> {
        let cpus = cpus.iter().last().map_or(1, |Cpu(highest)| highest + 1);
        let mut object = Object::load(OBJECT, types, &[("corehop_irqs", cpus)], &[])?;
        let tells_steal = Facts::of(types)?.says("tells_steal");
        let (mut probes, mut skipped) = (vec![], vec![]);
        for (tracepoint, counter) in PROBES {
            match attach(&mut object, types, tracepoint, counter, tells_steal) {
                Ok(()) => probes.push((tracepoint, counter)),
                Err(error) if error.is_general() => return Err(error),
                Err(error) => {
                    skipped.push(Skipped { tracepoint, counter, reason: error.to_string() });
                }
            }
        }
        if probes.is_empty() {
            let reasons = skipped.into_iter().map(|skipped| skipped.reason).collect();
            return Err(BpfError::NothingToCount { reasons });
        }
        let words = object.show("corehop_irqs")?;
        Ok(Self { object, probes, words, cpus: cpus as usize, skipped })
    }

    /// Whether [`read`](Self::read) answers for `cpu`.
    pub fn covers(&self, cpu: Cpu) -> bool {
        (cpu.0 as usize) < self.cpus
    }

    /// The counts of `cpu` as they are now: nine loads from one or two cache lines, no system
    /// call, no allocation.
    ///
    /// # Panics
    /// For a CPU above those it was opened for.
    #[inline]
    pub fn read(&self, Cpu(cpu): Cpu) -> InterruptCounts {
        assert!((cpu as usize) < self.cpus, "no counters were opened for CPU {cpu}");
        let words: [u64; COUNTERS.len()] = self.words.words(cpu as usize * STRIDE);
        InterruptCounts::from_each(|counter| words[counter as usize])
    }

    /// Whether `cpu` has a thread to run, other than the idle one; none as long as it has not
    /// switched since the counters run, or where switches are not seen.
    ///
    /// # Panics
    /// For a CPU above those it was opened for.
    #[inline]
    pub fn is_busy(&self, Cpu(cpu): Cpu) -> Option<bool> {
        assert!((cpu as usize) < self.cpus, "no counters were opened for CPU {cpu}");
        let [occupant] = self.words.words(cpu as usize * STRIDE + OCCUPANT);
        (occupant > 0).then_some(occupant > 1)
    }

    /// Whether `counter` is fed at all; where not, its zeros mean nothing.
    pub fn has(&self, counter: InterruptCounter) -> bool {
        self.probes.iter().any(|&(_, fed)| fed == counter)
    }

    /// The counts that this kernel does not give, with the reason.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The kernel's facts about each program, by tracepoint.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn programs(&self) -> std::io::Result<Vec<(&'static str, ProgramInfo)>> {
        let info = |name: &str| self.object.info(&format!("hop_{name}"));
        self.probes.iter().map(|&(name, _)| Ok((name, info(name)?))).collect()
    }
}

fn attach(
    object: &mut Object,
    types: &Btf,
    tracepoint: &str,
    counter: InterruptCounter,
    tells_steal: bool,
) -> Result<(), BpfError> {
    let program = format!("hop_{tracepoint}");
    // Asked first, so that the reason names the field.
    if counter == InterruptCounter::Steal && !tells_steal {
        return Err(BpfError::NoField { program, what: "`rq.prev_steal_time_rq`".to_owned() });
    }
    object.attach(&program, tracepoint, types)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_words_of_a_cpu_fit_between_it_and_the_next() {
        const { assert!(OCCUPANT < STRIDE) };
        for (index, counter) in COUNTERS.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
            assert!(PROBES.iter().any(|&(_, fed)| fed == counter), "{counter:?} is not fed");
            let counts = InterruptCounts::from_each(|c| u64::from(c == counter));
            assert_eq!(counts.causes().collect::<Vec<_>>(), [(counter, 1)]);
        }
    }
}
