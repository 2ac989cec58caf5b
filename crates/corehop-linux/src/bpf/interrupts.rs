// SPDX-License-Identifier: MIT OR Apache-2.0
//! Per-CPU counts of events that take a CPU away from a thread: interrupts, switches, steal.
//!
//! One BPF program per tracepoint adds to a word of the CPU on which it runs. The words of a CPU are adjacent in
//! memory that this process maps, so a measured thread reads them before and after a walk with a few loads.
//!
//! The additions are atomic. A plain addition would lose counts if another program interrupts it and counts in the
//! same word. Softirqs run with interrupts on, NMIs come at any time, two vectors share the word of function calls,
//! and recent kernels run tracing programs preemptibly. Each CPU has its own cache lines, so an atomic addition costs
//! a few nanoseconds.
//!
//! The programs do not see SMIs and exits of a virtual machine (no tracepoint passes), interrupts of vectors without
//! their own tracepoint, and, on some kernels, interrupts that come while process 1 has the CPU. The last case does
//! not affect a measured thread, which belongs to another process. On processors other than x86, the tick and the
//! interrupts between processors are ordinary interrupts, so all of them count as `device_irqs`.
//!
//! Steal is the time that the scheduler has subtracted from its clock so far. The scheduler reads the hypervisor's
//! accounting when it updates that clock, and the word is written at the end of the tick. So steal within a walk may
//! appear up to a tick later. Time that is stolen *now* appears in wall time minus
//! [`thread_cpu_time`](crate::counters::software::thread_cpu_time), which updates the clock first.
//! [`Attribution::stolen`](crate::counters::attribution::Attribution::stolen) chooses between both values.

use corehop_plan::units::{Cpu, CpuList};

use super::facts::Facts;
use super::object::Object;
use super::{ArrayMapping, BpfError, Btf, ProgramInfo, kernel_types};

/// The compiled programs of `bpf/interrupts.bpf.c`.
pub const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/interrupts.bpf.o");

/// The counters of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptCounter {
    /// Interrupts of the local timer: ticks and all other uses of the timer.
    LocalTimer,
    /// Interrupts by which another CPU makes this CPU schedule.
    Reschedule,
    /// Interrupts by which another CPU makes this CPU run a function, including TLB shootdowns.
    CallFunction,
    /// Interrupts with a handler in a driver; on processors other than x86, all interrupts.
    DeviceIrqs,
    /// Runs of softirq handlers (timers, network, RCU, …), counted once for each kind.
    Softirqs,
    /// NMIs that a handler claimed.
    Nmis,
    /// Deferred work in interrupt context (printk, nohz_full, …) and thermal events.
    OtherIrqs,
    /// The number of times the CPU switched from one thread to another.
    Switches,
    /// Nanoseconds since boot during which the hypervisor did not run this CPU.
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
    /// Returns the name of the counter's column.
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

/// The word after the counters, which names the thread that has the CPU.
const OCCUPANT: usize = COUNTERS.len();

/// The number of words from one CPU's counters to the next: two cache lines, because some processors fetch lines in
/// pairs, and some have lines of 128 bytes.
const STRIDE: usize = 16;

/// The tracepoints, and the counter that each one feeds.
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

/// A counter, or a part of one, that this kernel does not provide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The tracepoint that the kernel lacks.
    pub tracepoint: &'static str,
    /// The counter that the tracepoint would feed.
    pub counter: InterruptCounter,
    /// The reason why the tracepoint is not available.
    pub reason: String,
}

/// The counts of one CPU at one moment, or the increase between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterruptCounts {
    /// The value of [`InterruptCounter::LocalTimer`].
    pub local_timer: u64,
    /// The value of [`InterruptCounter::Reschedule`].
    pub reschedule: u64,
    /// The value of [`InterruptCounter::CallFunction`].
    pub call_function: u64,
    /// The value of [`InterruptCounter::DeviceIrqs`].
    pub device_irqs: u64,
    /// The value of [`InterruptCounter::Softirqs`].
    pub softirqs: u64,
    /// The value of [`InterruptCounter::Nmis`].
    pub nmis: u64,
    /// The value of [`InterruptCounter::OtherIrqs`].
    pub other_irqs: u64,
    /// The value of [`InterruptCounter::Switches`].
    pub switches: u64,
    /// The value of [`InterruptCounter::Steal`].
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

    /// Returns the value of one counter.
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

    /// Returns the increase since `earlier`, which must be from this CPU.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        Self::from_each(|counter| self.get(counter).saturating_sub(earlier.get(counter)))
    }

    /// Returns the number of interrupts of all kinds. Softirqs do not count, because they run at the end of an
    /// interrupt.
    pub const fn interrupts(&self) -> u64 {
        self.local_timer
            + self.reschedule
            + self.call_function
            + self.device_irqs
            + self.nmis
            + self.other_irqs
    }

    /// Returns the counters that are not zero, with their values.
    pub fn causes(&self) -> impl Iterator<Item = (InterruptCounter, u64)> + '_ {
        COUNTERS.into_iter().map(|counter| (counter, self.get(counter))).filter(|&(_, n)| n > 0)
    }
}

/// The running interrupt counters. Dropping the value stops the counters and removes them; several instances may run
/// simultaneously.
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
    /// Starts counting on `cpus`. Tracepoints that this kernel lacks are skipped; [`InterruptCounters::skipped`]
    /// names them.
    ///
    /// # Errors
    /// Fails if the kernel has no BTF, the caller lacks a privilege, or none of the tracepoints exists.
    pub fn open(cpus: &CpuList) -> Result<Self, BpfError> {
        Self::open_with(kernel_types()?, cpus)
    }

    /// Starts counting with type information that has already been read.
    ///
    /// # Errors
    /// Fails with the errors of [`open`](Self::open).
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

    /// Returns whether [`read`](Self::read) works for `cpu`.
    pub fn covers(&self, cpu: Cpu) -> bool {
        (cpu.0 as usize) < self.cpus
    }

    /// Returns the current counts of `cpu`, by nine loads from one or two cache lines, without a system call or an
    /// allocation.
    ///
    /// # Panics
    /// Panics for a CPU above those for which the counters were opened.
    #[inline]
    pub fn read(&self, Cpu(cpu): Cpu) -> InterruptCounts {
        assert!((cpu as usize) < self.cpus, "no counters were opened for CPU {cpu}");
        let words: [u64; COUNTERS.len()] = self.words.words(cpu as usize * STRIDE);
        InterruptCounts::from_each(|counter| words[counter as usize])
    }

    /// Returns whether `cpu` runs a thread other than the idle thread; `None` before its first switch, or if switches
    /// are not counted.
    ///
    /// # Panics
    /// Panics for a CPU above those for which the counters were opened.
    #[inline]
    pub fn is_busy(&self, Cpu(cpu): Cpu) -> Option<bool> {
        assert!((cpu as usize) < self.cpus, "no counters were opened for CPU {cpu}");
        let [occupant] = self.words.words(cpu as usize * STRIDE + OCCUPANT);
        (occupant > 0).then_some(occupant > 1)
    }

    /// Returns whether `counter` is counted at all; otherwise its zeros mean nothing.
    pub fn has(&self, counter: InterruptCounter) -> bool {
        self.probes.iter().any(|&(_, fed)| fed == counter)
    }

    /// Returns the counts that this kernel does not provide, with the reason.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Returns the kernel's information about each program, by tracepoint.
    ///
    /// # Errors
    /// Fails with the kernel's error.
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
