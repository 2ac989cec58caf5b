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
//! What is not seen: SMIs and exits of a virtual machine (no tracepoint passes); interrupts of
//! vectors that have no tracepoint of their own; and, on some kernels, what comes while process 1
//! has the CPU, since they run no programs then (a measured thread is another process). On
//! processors other than x86 the tick and the interrupts between processors are ordinary
//! interrupts: they all count as `device_irqs`.
//!
//! Steal is what the scheduler has subtracted from its clock so far. It looks at the hypervisor's
//! account when it updates that clock, and the word is written at the end of the tick: steal
//! within a walk may appear up to a tick later. What is stolen *now* shows in wall time minus
//! [`thread_cpu_time`](crate::counters::software::thread_cpu_time), which updates the clock first:
//! [`Attribution::stolen`](crate::counters::attribution::Attribution::stolen) knows which to use.

use corehop_core::units::{Cpu, CpuList};

use super::asm::Reg::{R0, R1, R2, R6};
use super::asm::Source::Imm;
use super::asm::{self, Compare, Helper, Insn, Reg, Source, Width};
use super::btf::Btf;
use super::{Attached, BpfError, Map, ProgramInfo, Shown, kernel_types};

/// What is counted per CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
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
pub const COUNTERS: [Counter; 9] = [
    Counter::LocalTimer,
    Counter::Reschedule,
    Counter::CallFunction,
    Counter::DeviceIrqs,
    Counter::Softirqs,
    Counter::Nmis,
    Counter::OtherIrqs,
    Counter::Switches,
    Counter::Steal,
];

impl Counter {
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
const STRIDE_SHIFT: u8 = 7;
/// The way from a thread to the steal time of the run queue it is on.
const STEAL_PATH: &str = "se.cfs_rq->rq->prev_steal_time_rq";

/// What a program does when its tracepoint is passed.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// Add one.
    Count,
    /// Add one if the argument with this number is not zero.
    CountIf(i16),
    /// Copy the run queue's steal time.
    CopySteal,
    /// Add one, and note the thread whose turn it is: its number plus one, 1 for the idle thread.
    CountAndNote,
}

/// A tracepoint, and what it counts.
struct Probe {
    tracepoint: &'static str,
    counter: Counter,
    action: Action,
}

const fn probe(tracepoint: &'static str, counter: Counter, action: Action) -> Probe {
    Probe { tracepoint, counter, action }
}

const PROBES: [Probe; 11] = [
    probe("local_timer_entry", Counter::LocalTimer, Action::Count),
    probe("reschedule_entry", Counter::Reschedule, Action::Count),
    probe("call_function_entry", Counter::CallFunction, Action::Count),
    probe("call_function_single_entry", Counter::CallFunction, Action::Count),
    probe("irq_handler_entry", Counter::DeviceIrqs, Action::Count),
    probe("softirq_entry", Counter::Softirqs, Action::Count),
    // Passed once per handler asked; its third argument is how many events that one has handled.
    probe("nmi_handler", Counter::Nmis, Action::CountIf(2)),
    probe("irq_work_entry", Counter::OtherIrqs, Action::Count),
    probe("thermal_apic_entry", Counter::OtherIrqs, Action::Count),
    probe("sched_switch", Counter::Switches, Action::CountAndNote),
    probe("local_timer_exit", Counter::Steal, Action::CopySteal),
];

impl Probe {
    /// The instructions, for counters of `cpus` CPUs in the map `fd`.
    fn program(&self, types: &Btf, fd: i32, cpus: u32) -> Result<Vec<Insn>, BpfError> {
        let mut program = match self.action {
            Action::Count => vec![],
            Action::CountIf(argument) => vec![
                asm::load(R1, R1, argument * 8),
                Insn::JumpIf(Compare::Equal, R1, Imm(0), "out"),
            ],
            Action::CopySteal => load_steal(types)?,
            Action::CountAndNote => load_next(types)?,
        };
        program.extend(counter_address(fd, cpus, self.counter));
        let count = [asm::set(R2, Imm(1)), Insn::AtomicAdd(Width::U64, R1, 0, R2)];
        match self.action {
            Action::CopySteal => program.push(Insn::Store(Width::U64, R1, 0, Source::Reg(R6))),
            Action::CountAndNote => {
                let note = (OCCUPANT - self.counter as usize) as i16 * 8;
                program.extend(count);
                program.push(Insn::Store(Width::U64, R1, note, Source::Reg(R6)));
            }
            Action::Count | Action::CountIf(_) => program.extend(count),
        }
        program.extend([Insn::Label("out"), asm::set(R0, Imm(0)), Insn::Exit]);
        Ok(program)
    }
}

/// `R1` = address of this CPU's word of `counter`. Leaves `R6` alone.
fn counter_address(fd: i32, cpus: u32, counter: Counter) -> [Insn; 5] {
    [
        Insn::Call(Helper::Cpu),
        // The verifier wants to see that the address stays inside of the map.
        Insn::JumpIf(Compare::AtLeast, R0, Imm(cpus as i32), "out"),
        asm::shift_left(R0, STRIDE_SHIFT),
        Insn::MapValue(R1, fd, counter as u32 * 8),
        asm::add(R1, Source::Reg(R0)),
    ]
}

/// `R6` = steal time of the run queue of this CPU, or out. The kernel catches loads that fault.
fn load_steal(types: &Btf) -> Result<Vec<Insn>, BpfError> {
    let mut program = vec![Insn::Call(Helper::CurrentTask)];
    let mut base: Reg = R0;
    for member in types.loads("task_struct", STEAL_PATH)? {
        program.push(asm::load(R6, base, member.offset as i16));
        base = R6;
    }
    program.push(Insn::JumpIf(Compare::Equal, R6, Imm(0), "out"));
    Ok(program)
}

/// `R6` = number of the thread whose turn it is, the third argument of `sched_switch`, plus one.
fn load_next(types: &Btf) -> Result<Vec<Insn>, BpfError> {
    let number = types.member("task_struct", "pid")?;
    Ok(vec![
        asm::load(R6, R1, 2 * 8),
        Insn::Load(Width::U32, R6, R6, number.offset as i16),
        asm::add(R6, Imm(1)),
    ])
}

/// A counter, or part of it, that this kernel does not give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The tracepoint that would have fed it.
    pub tracepoint: &'static str,
    /// The counter.
    pub counter: Counter,
    /// Why not.
    pub reason: String,
}

/// Counts of one CPU at one moment, or what was added between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InterruptCounts {
    /// [`Counter::LocalTimer`]
    pub local_timer: u64,
    /// [`Counter::Reschedule`]
    pub reschedule: u64,
    /// [`Counter::CallFunction`]
    pub call_function: u64,
    /// [`Counter::DeviceIrqs`]
    pub device_irqs: u64,
    /// [`Counter::Softirqs`]
    pub softirqs: u64,
    /// [`Counter::Nmis`]
    pub nmis: u64,
    /// [`Counter::OtherIrqs`]
    pub other_irqs: u64,
    /// [`Counter::Switches`]
    pub switches: u64,
    /// [`Counter::Steal`]
    pub steal_ns: u64,
}

impl InterruptCounts {
    #[inline]
    fn from_each(word: impl Fn(Counter) -> u64) -> Self {
        Self {
            local_timer: word(Counter::LocalTimer),
            reschedule: word(Counter::Reschedule),
            call_function: word(Counter::CallFunction),
            device_irqs: word(Counter::DeviceIrqs),
            softirqs: word(Counter::Softirqs),
            nmis: word(Counter::Nmis),
            other_irqs: word(Counter::OtherIrqs),
            switches: word(Counter::Switches),
            steal_ns: word(Counter::Steal),
        }
    }

    /// The value of one counter.
    pub const fn get(&self, counter: Counter) -> u64 {
        match counter {
            Counter::LocalTimer => self.local_timer,
            Counter::Reschedule => self.reschedule,
            Counter::CallFunction => self.call_function,
            Counter::DeviceIrqs => self.device_irqs,
            Counter::Softirqs => self.softirqs,
            Counter::Nmis => self.nmis,
            Counter::OtherIrqs => self.other_irqs,
            Counter::Switches => self.switches,
            Counter::Steal => self.steal_ns,
        }
    }

    /// What was added since `earlier`, of the same CPU.
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
    pub fn causes(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        COUNTERS.into_iter().map(|counter| (counter, self.get(counter))).filter(|&(_, n)| n > 0)
    }
}

/// The counters, running. They stop, and leave nothing behind, when dropped; several may run side
/// by side.
#[derive(Debug)]
pub struct InterruptCounters {
    // Declared before the memory that they write, though they would keep it alive.
    probes: Vec<(&'static str, Counter, Attached)>,
    words: Shown,
    cpus: usize,
    skipped: Vec<Skipped>,
}

impl InterruptCounters {
    /// Count on `cpus`. Tracepoints that this kernel lacks are skipped and named.
    ///
    /// # Errors
    /// Where the kernel has no BTF, the caller may not, or none of the tracepoints is there.
    pub fn open(cpus: &CpuList) -> Result<Self, BpfError> {
        Self::open_with(&kernel_types()?, cpus)
    }

    /// The same with type information that has been read already.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(types: &Btf, cpus: &CpuList) -> Result<Self, BpfError> {
        let cpus = cpus.iter().last().map_or(1, |Cpu(highest)| highest + 1);
        let map = Map::array("corehop_irqs", cpus << STRIDE_SHIFT, 1)?;
        let (mut probes, mut skipped) = (vec![], vec![]);
        for probe in &PROBES {
            match attach(probe, types, &map, cpus) {
                Ok(attached) => probes.push((probe.tracepoint, probe.counter, attached)),
                Err(error) if error.is_general() => return Err(error),
                Err(error) => skipped.push(Skipped {
                    tracepoint: probe.tracepoint,
                    counter: probe.counter,
                    reason: error.to_string(),
                }),
            }
        }
        if probes.is_empty() {
            let reasons = skipped.into_iter().map(|skipped| skipped.reason).collect();
            return Err(BpfError::NothingToCount { reasons });
        }
        Ok(Self { probes, words: map.show(0, map.size())?, cpus: cpus as usize, skipped })
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
    pub fn has(&self, counter: Counter) -> bool {
        self.probes.iter().any(|&(_, fed, _)| fed == counter)
    }

    /// What this kernel does not give, and why.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// What the kernel knows of each program, by tracepoint.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn programs(&self) -> std::io::Result<Vec<(&'static str, ProgramInfo)>> {
        self.probes.iter().map(|(name, _, program)| Ok((*name, program.info()?))).collect()
    }
}

fn attach(probe: &Probe, types: &Btf, map: &Map, cpus: u32) -> Result<Attached, BpfError> {
    // The tracepoint first: where it is missing, that is the reason, whatever else is.
    types.tracepoint(probe.tracepoint)?;
    let program = probe.program(types, map.fd(), cpus)?;
    let name = format!("hop_{}", probe.tracepoint);
    Attached::new(types, probe.tracepoint, &name, &program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::btf::tests::tiny;

    fn listing(tracepoint: &str) -> Vec<String> {
        let probe = PROBES.iter().find(|probe| probe.tracepoint == tracepoint).unwrap();
        let program = probe.program(&tiny(), 3, 2).unwrap();
        program.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_program_adds_one_to_the_word_of_its_cpu() {
        let expected = [
            "call get_smp_processor_id",
            "if r0 >= 2 goto out",
            "r0 <<= 7",
            "r1 = map[fd 3][0] +16",
            "r1 += r0",
            "r2 = 1",
            "lock *(u64 *)(r1 +0) += r2",
            "out:",
            "r0 = 0",
            "exit",
        ];
        assert_eq!(listing("call_function_entry"), expected);
    }

    #[test]
    fn an_nmi_counts_where_its_third_argument_says_that_it_was_handled() {
        let listing = listing("nmi_handler");
        assert_eq!(listing[..2], ["r1 = *(u64 *)(r1 +16)", "if r1 == 0 goto out"]);
        assert_eq!(listing[5], "r1 = map[fd 3][0] +40");
    }

    #[test]
    fn steal_is_loaded_from_the_run_queue_and_copied() {
        let listing = listing("local_timer_exit");
        let loads = [
            "call get_current_task_btf",
            "r6 = *(u64 *)(r0 +72)",
            "r6 = *(u64 *)(r6 +24)",
            "r6 = *(u64 *)(r6 +24)",
            "if r6 == 0 goto out",
        ];
        assert_eq!(listing[..5], loads);
        assert_eq!(listing[10], "*(u64 *)(r1 +0) = r6");
    }

    #[test]
    fn a_switch_is_counted_and_the_thread_whose_turn_it_is_is_noted() {
        let listing = listing("sched_switch");
        let next = ["r6 = *(u64 *)(r1 +16)", "r6 = *(u32 *)(r6 +128)", "r6 += 1"];
        assert_eq!(listing[..3], next);
        assert_eq!(listing[6], "r1 = map[fd 3][0] +56");
        assert_eq!(listing[9..11], ["lock *(u64 *)(r1 +0) += r2", "*(u64 *)(r1 +16) = r6"]);
    }

    #[test]
    fn the_words_of_a_cpu_fit_between_it_and_the_next() {
        assert_eq!(STRIDE * 8, 1 << STRIDE_SHIFT);
        const { assert!(OCCUPANT < STRIDE) };
        for (index, counter) in COUNTERS.into_iter().enumerate() {
            assert_eq!(counter as usize, index);
            assert!(PROBES.iter().any(|probe| probe.counter == counter), "{counter:?} is not fed");
            let counts = InterruptCounts::from_each(|c| u64::from(c == counter));
            assert_eq!(counts.causes().collect::<Vec<_>>(), [(counter, 1)]);
        }
    }
}
