// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times at which each CPU passes the kernel's tracepoints of scheduling, as they happen.
//!
//! One program per tracepoint. It reads the clock first and last, so that what it takes itself can be
//! left out of a time between two events: that goes from the end of the first to the begin of the second.
//! What remains in it is getting to a program and away from it ([`Events::residual`]).
//!
//! Each CPU has a list of its own, which is filled once; what comes after that is counted as lost. A
//! place in it is taken by an atomic addition, as interrupts come between.

use std::sync::atomic::Ordering;
use std::time::Duration;

use corehop_core::units::{Cpu, CpuList};

use super::asm::Reg::{R0, R1, R2, R3, R6, R7, R8, R9};
use super::asm::Source::Imm;
use super::asm::{Alu, Compare, Helper, Insn, Source, Width, add, load, set, shift_left, store};
use super::btf::Btf;
use super::{Attached, BpfError, Map, Shown, kernel_types};

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The scheduler is entered; `argument` is the current thread.
    ScheduleBegin,
    /// It has decided for another thread, `argument`, and switches to it.
    Switch,
    /// It is left, by the thread `argument`; `detail` is 1 where it has switched.
    ScheduleEnd,
    /// The interrupt of the local timer.
    TimerBegin,
    /// Its end; softirqs that it raised come after it.
    TimerEnd,
    /// The handler of a timer: `detail` is the lower half of its address, `argument` when it was due.
    HandlerBegin,
    /// Its end.
    HandlerEnd,
    /// The thread `argument` is woken.
    Waking,
    /// An interrupt is sent to CPU `detail`; `argument` is 0 where it is to schedule, otherwise it is to
    /// run a function.
    Send,
    /// The interrupt by which another CPU has this one schedule.
    RescheduleBegin,
    /// Its end.
    RescheduleEnd,
    /// The interrupt by which another CPU has this one run a function.
    CallBegin,
    /// Its end.
    CallEnd,
    /// A device's interrupt.
    DeviceBegin,
    /// Its end.
    DeviceEnd,
    /// Softirq number `detail` is to run.
    SoftirqRaise,
    /// It runs.
    SoftirqBegin,
    /// Its end.
    SoftirqEnd,
}

/// What an event carries.
#[derive(Debug, Clone, Copy)]
enum Carries {
    Nothing,
    /// The first argument of the tracepoint as `detail`.
    First,
    /// The same, and the current thread as `argument`.
    FirstAndCurrent,
    /// The thread that is the argument with this number.
    Thread(i16),
    /// The timer that is the first argument.
    Timer,
    /// The first argument, and the third.
    FirstAndThird,
}

/// In the order of [`Kind`].
const PROBES: [(&str, Kind, Carries); 18] = [
    ("sched_entry_tp", Kind::ScheduleBegin, Carries::FirstAndCurrent),
    ("sched_switch", Kind::Switch, Carries::Thread(2)),
    ("sched_exit_tp", Kind::ScheduleEnd, Carries::FirstAndCurrent),
    ("local_timer_entry", Kind::TimerBegin, Carries::Nothing),
    ("local_timer_exit", Kind::TimerEnd, Carries::Nothing),
    ("hrtimer_expire_entry", Kind::HandlerBegin, Carries::Timer),
    ("hrtimer_expire_exit", Kind::HandlerEnd, Carries::Nothing),
    ("sched_waking", Kind::Waking, Carries::Thread(0)),
    ("ipi_send_cpu", Kind::Send, Carries::FirstAndThird),
    ("reschedule_entry", Kind::RescheduleBegin, Carries::Nothing),
    ("reschedule_exit", Kind::RescheduleEnd, Carries::Nothing),
    ("call_function_single_entry", Kind::CallBegin, Carries::Nothing),
    ("call_function_single_exit", Kind::CallEnd, Carries::Nothing),
    ("irq_handler_entry", Kind::DeviceBegin, Carries::Nothing),
    ("irq_handler_exit", Kind::DeviceEnd, Carries::Nothing),
    ("softirq_raise", Kind::SoftirqRaise, Carries::First),
    ("softirq_entry", Kind::SoftirqBegin, Carries::First),
    ("softirq_exit", Kind::SoftirqEnd, Carries::First),
];

/// Something that has happened on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// When, in ns of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// When it was noted down.
    pub end_ns: u64,
    /// See [`Kind`].
    pub detail: u32,
    /// See [`Kind`]. A thread has its process's number in the upper half, its own in the lower.
    pub argument: u64,
}

impl Event {
    /// None where it was not noted down to the end.
    fn of([begin_ns, what, argument, end_ns]: [u64; 4]) -> Option<Self> {
        let number = (what as u32).checked_sub(1)? as usize;
        let (_, kind, _) = PROBES.get(number)?;
        let whole = end_ns >= begin_ns && begin_ns > 0;
        whole.then_some(Self {
            kind: *kind,
            begin_ns,
            end_ns,
            detail: (what >> 32) as u32,
            argument,
        })
    }
}

/// Each CPU's count of events lies in cache lines of its own: 1 << 7 bytes.
const HEAD_SHIFT: u8 = 7;
const HEAD_WORDS: usize = (1 << HEAD_SHIFT) / 8;
/// An event is of 1 << 5 bytes.
const EVENT_SHIFT: u8 = 5;
const EVENT_WORDS: usize = (1 << EVENT_SHIFT) / 8;
/// The places of a CPU, as a power of two: 4 MiB.
const PLACES_SHIFT: u8 = 17;
/// What the lists of all CPUs may take together, as a power of two.
const MOST_SHIFT: u8 = 27;
/// A count at which nothing is noted down.
const STOPPED: u64 = 1 << 62;

/// Where programs note events down.
#[derive(Debug, Clone, Copy)]
struct Lists {
    map: i32,
    cpus: u32,
    places_shift: u8,
}

impl Lists {
    const fn heads_bytes(self) -> u32 {
        self.cpus << HEAD_SHIFT
    }

    const fn places(self) -> u64 {
        1 << self.places_shift
    }

    /// The instructions that note an event of this kind down.
    fn program(self, types: &Btf, number: usize, carries: Carries) -> Result<Vec<Insn>, BpfError> {
        let list_shift = self.places_shift + EVENT_SHIFT;
        let mut program = vec![
            set(R6, Source::Reg(R1)),
            Insn::Call(Helper::MonotonicNanos),
            set(R7, Source::Reg(R0)),
            Insn::Call(Helper::Cpu),
            Insn::JumpIf(Compare::AtLeast, R0, Imm(self.cpus.cast_signed()), "out"),
            set(R9, Source::Reg(R0)),
            shift_left(R0, HEAD_SHIFT),
            Insn::MapValue(R1, self.map, 0),
            add(R1, Source::Reg(R0)),
            set(R8, Imm(1)),
            Insn::AtomicFetchAdd(Width::U64, R1, 0, R8),
            Insn::JumpIf(Compare::AtLeast, R8, Imm(self.places() as i32), "out"),
            shift_left(R8, EVENT_SHIFT),
            shift_left(R9, list_shift),
            add(R8, Source::Reg(R9)),
            Insn::MapValue(R9, self.map, self.heads_bytes()),
            add(R9, Source::Reg(R8)),
            store(R9, 0, Source::Reg(R7)),
        ];
        program.extend(what_it_carries(types, carries)?);
        program.extend([
            shift_left(R1, 32),
            Insn::Alu(Alu::Or, R1, Imm(number as i32 + 1)),
            store(R9, 8, Source::Reg(R1)),
            store(R9, 16, Source::Reg(R2)),
            Insn::Call(Helper::MonotonicNanos),
            store(R9, 24, Source::Reg(R0)),
            Insn::Label("out"),
            set(R0, Imm(0)),
            Insn::Exit,
        ]);
        Ok(program)
    }
}

/// `R1` = detail, `R2` = argument, from the tracepoint's arguments at `R6`.
fn what_it_carries(types: &Btf, carries: Carries) -> Result<Vec<Insn>, BpfError> {
    let member = |structure: &str, path: &str| {
        types.member(structure, path).map(|member| member.offset as i16)
    };
    Ok(match carries {
        Carries::Nothing => vec![set(R1, Imm(0)), set(R2, Imm(0))],
        Carries::First => vec![load(R1, R6, 0), set(R2, Imm(0))],
        Carries::FirstAndCurrent => {
            vec![Insn::Call(Helper::CurrentThread), set(R2, Source::Reg(R0)), load(R1, R6, 0)]
        }
        Carries::FirstAndThird => vec![load(R1, R6, 0), load(R2, R6, 16)],
        Carries::Thread(argument) => vec![
            load(R3, R6, argument * 8),
            Insn::Load(Width::U32, R2, R3, member("task_struct", "tgid")?),
            shift_left(R2, 32),
            Insn::Load(Width::U32, R1, R3, member("task_struct", "pid")?),
            Insn::Alu(Alu::Or, R2, Source::Reg(R1)),
            set(R1, Imm(0)),
        ],
        Carries::Timer => vec![
            load(R3, R6, 0),
            load(R2, R3, member("hrtimer", "_softexpires")?),
            load(R1, R3, member("hrtimer", "function")?),
        ],
    })
}

/// The programs and their lists, which go when it is dropped.
#[derive(Debug)]
pub struct Events {
    // Declared first, so that the programs run no more when their memory goes.
    programs: Vec<Attached>,
    memory: Shown,
    lists: Lists,
    missing: Vec<(&'static str, String)>,
}

impl Events {
    /// Loads the programs, for events on `cpus`. Tracepoints that this kernel lacks are left out and named.
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
        let probes =
            PROBES.iter().enumerate().map(|(at, (name, _, carries))| (at, *name, *carries));
        Self::with(types, cpus, PLACES_SHIFT, probes)
    }

    fn with(
        types: &Btf,
        cpus: &CpuList,
        places_shift: u8,
        probes: impl Iterator<Item = (usize, &'static str, Carries)>,
    ) -> Result<Self, BpfError> {
        let cpus = cpus.iter().last().map_or(1, |Cpu(highest)| highest + 1);
        let room = MOST_SHIFT - EVENT_SHIFT - cpus.next_power_of_two().ilog2().min(16) as u8;
        let places_shift = places_shift.min(room);
        let list = 1_u32 << (places_shift + EVENT_SHIFT);
        let map = Map::array("corehop_events", cpus * (list + (1 << HEAD_SHIFT)), 1)?;
        let lists = Lists { map: map.fd(), cpus, places_shift };
        let memory = map.show_writable()?;
        let mut events = Self { programs: vec![], memory, lists, missing: vec![] };
        (0..cpus).for_each(|cpu| _ = events.set_count(cpu, STOPPED));
        for (number, tracepoint, carries) in probes {
            let attach = || {
                types.tracepoint(tracepoint)?;
                let program = lists.program(types, number, carries)?;
                Attached::new(types, tracepoint, &format!("hop_{tracepoint}"), &program)
            };
            match attach() {
                Ok(program) => events.programs.push(program),
                Err(error) if error.is_general() => return Err(error),
                Err(error) => events.missing.push((tracepoint, error.to_string())),
            }
        }
        if events.programs.is_empty() {
            let reasons = events.missing.into_iter().map(|(_, why)| why).collect();
            return Err(BpfError::NothingToCount { reasons });
        }
        Ok(events)
    }

    /// What this kernel does not show, and why.
    pub fn missing(&self) -> &[(&'static str, String)] {
        &self.missing
    }

    /// Takes events down from now on.
    pub fn begin(&self) {
        (0..self.lists.cpus).for_each(|cpu| _ = self.set_count(cpu, 0));
    }

    /// How many events were not seen since the programs were loaded, as their program was running already.
    pub fn missed(&self) -> u64 {
        self.programs.iter().filter_map(|it| it.info().ok()).map(|it| it.missed).sum()
    }

    /// Ends that: the events by CPU, in order, and how many found no room.
    pub fn end(&self) -> (Vec<(Cpu, Vec<Event>)>, u64) {
        let counts: Vec<u64> =
            (0..self.lists.cpus).map(|cpu| self.set_count(cpu, STOPPED)).collect();
        // Those that have a place already are noted down soon.
        std::thread::sleep(Duration::from_millis(2));
        let mut lost = 0;
        let mut streams = Vec::new();
        for (cpu, count) in (0..self.lists.cpus).zip(counts) {
            // At least STOPPED where nothing was begun.
            let count = if count >= STOPPED { 0 } else { count };
            let taken = count.min(self.lists.places());
            lost += count - taken;
            streams.push((Cpu(cpu), self.list(cpu, taken as usize)));
        }
        (streams, lost)
    }

    /// The first `count` events of a CPU, in order, which are forgotten.
    fn list(&self, cpu: u32, count: usize) -> Vec<Event> {
        let heads = self.lists.cpus as usize * HEAD_WORDS;
        let first = heads + ((cpu as usize) << self.lists.places_shift) * EVENT_WORDS;
        let take = |number: usize| {
            let words = self.memory.words(first + number * EVENT_WORDS);
            (0..EVENT_WORDS).for_each(|word| {
                self.memory.word(first + number * EVENT_WORDS + word).store(0, Ordering::Relaxed);
            });
            Event::of(words)
        };
        let mut events: Vec<Event> = (0..count).filter_map(take).collect();
        // An interrupt may take the place before the program that it interrupts.
        events.sort_by_key(|event| event.begin_ns);
        events
    }

    /// Sets the count of a CPU; what it was.
    fn set_count(&self, cpu: u32, count: u64) -> u64 {
        self.memory.word(cpu as usize * HEAD_WORDS).swap(count, Ordering::AcqRel)
    }

    /// What getting to a program and away from it takes: times from the end of one to the begin of the
    /// next where nothing lies between, in nanoseconds, while `run` makes threads switch.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn residual(cpus: &CpuList, run: impl FnOnce()) -> Result<Vec<f64>, BpfError> {
        let twice = [Kind::Switch as usize, Kind::ScheduleEnd as usize];
        let probes = twice.into_iter().map(|at| (at, "sched_switch", Carries::Nothing));
        let events = Self::with(&kernel_types()?, cpus, 13, probes)?;
        events.begin();
        run();
        let (streams, _) = events.end();
        let gaps = streams.iter().flat_map(|(_, events)| {
            let pairs = events.windows(2).filter(|pair| pair[0].kind != pair[1].kind);
            // The same switch, not the one before: the programs run in the order of their making.
            let same = pairs.filter(|pair| pair[0].kind == Kind::Switch);
            same.map(|pair| pair[1].begin_ns.saturating_sub(pair[0].end_ns) as f64)
        });
        Ok(gaps.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::btf::tests::tiny;

    #[test]
    fn kinds_are_numbered_as_their_probes_are() {
        for (number, (tracepoint, kind, _)) in PROBES.iter().enumerate() {
            assert_eq!(*kind as usize, number, "{tracepoint}");
            let words = [7, (number as u64 + 1) | (3 << 32), 9, 8];
            let event = Event { kind: *kind, begin_ns: 7, end_ns: 8, detail: 3, argument: 9 };
            assert_eq!(Event::of(words), Some(event));
        }
        assert_eq!(Event::of([7, 0, 0, 8]), None, "a place that was not used");
        assert_eq!(Event::of([7, 1, 0, 0]), None, "not to the end");
        assert_eq!(Event::of([7, 99, 0, 8]), None);
    }

    #[test]
    fn a_program_reads_the_clock_first_and_last_and_writes_into_its_cpus_list() {
        let lists = Lists { map: 3, cpus: 2, places_shift: 4 };
        let program = lists.program(&tiny(), 3, Carries::First).unwrap();
        let listing: Vec<String> = program.iter().map(ToString::to_string).collect();
        let expected = [
            "r6 = r1",
            "call ktime_get_ns",
            "r7 = r0",
            "call get_smp_processor_id",
            "if r0 >= 2 goto out",
            "r9 = r0",
            "r0 <<= 7",
            "r1 = map[fd 3][0] +0",
            "r1 += r0",
            "r8 = 1",
            "r8 = atomic_fetch_add((u64 *)(r1 +0), r8)",
            "if r8 >= 16 goto out",
            "r8 <<= 5",
            "r9 <<= 9",
            "r8 += r9",
            "r9 = map[fd 3][0] +256",
            "r9 += r8",
            "*(u64 *)(r9 +0) = r7",
            "r1 = *(u64 *)(r6 +0)",
            "r2 = 0",
            "r1 <<= 32",
            "r1 |= 4",
            "*(u64 *)(r9 +8) = r1",
            "*(u64 *)(r9 +16) = r2",
            "call ktime_get_ns",
            "*(u64 *)(r9 +24) = r0",
            "out:",
            "r0 = 0",
            "exit",
        ];
        assert_eq!(listing, expected);
    }

    #[test]
    fn a_field_that_the_kernel_lacks_is_named() {
        let lists = Lists { map: 3, cpus: 2, places_shift: 4 };
        let error = lists.program(&tiny(), 0, Carries::Timer).unwrap_err().to_string();
        assert!(error.contains("hrtimer"), "{error}");
    }
}
