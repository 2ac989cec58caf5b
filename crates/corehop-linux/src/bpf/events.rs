// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times at which each CPU passes the kernel's tracepoints of scheduling, as they happen.
//!
//! One program per tracepoint. It reads the clock first and last, so that what it takes itself can be
//! left out of a time between two events: that goes from the end of the first to the begin of the second.
//! The way to a program and away from it remains in it ([`Events::residual`]).
//!
//! Each CPU has a list of its own, which is filled once; what comes after that is counted as lost. A
//! place in it is taken by an atomic addition, as interrupts come between.

use std::sync::atomic::Ordering;
use std::time::Duration;

use corehop_plan::units::{Cpu, CpuList};

use super::object::Object;
use super::{ArrayMapping, BpfError, Btf, kernel_types};

/// The programs, `bpf/events.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/events.bpf.o");

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelEventKind {
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

/// In the order of [`KernelEventKind`].
const PROBES: [(&str, KernelEventKind); 18] = [
    ("sched_entry_tp", KernelEventKind::ScheduleBegin),
    ("sched_switch", KernelEventKind::Switch),
    ("sched_exit_tp", KernelEventKind::ScheduleEnd),
    ("local_timer_entry", KernelEventKind::TimerBegin),
    ("local_timer_exit", KernelEventKind::TimerEnd),
    ("hrtimer_expire_entry", KernelEventKind::HandlerBegin),
    ("hrtimer_expire_exit", KernelEventKind::HandlerEnd),
    ("sched_waking", KernelEventKind::Waking),
    ("ipi_send_cpu", KernelEventKind::Send),
    ("reschedule_entry", KernelEventKind::RescheduleBegin),
    ("reschedule_exit", KernelEventKind::RescheduleEnd),
    ("call_function_single_entry", KernelEventKind::CallBegin),
    ("call_function_single_exit", KernelEventKind::CallEnd),
    ("irq_handler_entry", KernelEventKind::DeviceBegin),
    ("irq_handler_exit", KernelEventKind::DeviceEnd),
    ("softirq_raise", KernelEventKind::SoftirqRaise),
    ("softirq_entry", KernelEventKind::SoftirqBegin),
    ("softirq_exit", KernelEventKind::SoftirqEnd),
];

/// Something that has happened on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfEvent {
    /// The kind.
    pub kind: KernelEventKind,
    /// When, in ns of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// When it was noted down.
    pub end_ns: u64,
    /// See [`KernelEventKind`].
    pub detail: u32,
    /// See [`KernelEventKind`]. A thread has its process's number in the upper half, its own in the lower.
    pub argument: u64,
}

impl BpfEvent {
    /// None where it was not noted down to the end.
    fn of([begin_ns, what, argument, end_ns]: [u64; 4]) -> Option<Self> {
        let number = (what as u32).checked_sub(1)? as usize;
        let (_, kind) = PROBES.get(number)?;
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

/// Each CPU's count of events lies in cache lines of its own.
const HEAD_WORDS: usize = 16;
/// An event is of 1 << 5 bytes.
const EVENT_SHIFT: u32 = 5;
const EVENT_WORDS: usize = (1 << EVENT_SHIFT) / 8;
/// The places of a CPU, as a power of two: 4 MiB.
const PLACES_SHIFT: u32 = 17;
/// The greatest size of the lists of all CPUs together, as a power of two.
const MOST_SHIFT: u32 = 27;
/// A count at which nothing is noted down.
const STOPPED: u64 = 1 << 62;

/// The programs and their lists, which go when it is dropped.
#[derive(Debug)]
pub struct Events {
    // Declared first, so that the programs run no more when their memory goes.
    object: Object,
    programs: Vec<String>,
    heads: ArrayMapping,
    lists: ArrayMapping,
    cpus: u32,
    /// The places of a CPU.
    places: u32,
    missing: Vec<(&'static str, String)>,
}

impl Events {
    /// Loads the programs, for events on `cpus`. Tracepoints that this kernel lacks are left out and named.
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
        let probes = PROBES.map(|(tracepoint, _)| (format!("hop_{tracepoint}"), tracepoint));
        Self::with(types, cpus, PLACES_SHIFT, probes)
    }

    /// Loads the program of [`KernelEventKind::Switch`] alone, so that the list of a CPU holds many seconds.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn of_switches(cpus: &CpuList) -> Result<Self, BpfError> {
        let program = ("hop_sched_switch".to_owned(), "sched_switch");
        Self::with(kernel_types()?, cpus, PLACES_SHIFT, [program])
    }

    /// With these programs at these tracepoints.
    fn with(
        types: &Btf,
        cpus: &CpuList,
        places_shift: u32,
        probes: impl IntoIterator<Item = (String, &'static str)>,
    ) -> Result<Self, BpfError> {
        let mut events = Self::without_programs(types, cpus, places_shift)?;
        (0..events.cpus).for_each(|cpu| _ = events.set_count(cpu, STOPPED));
        for (program, tracepoint) in probes {
            match events.object.attach(&program, tracepoint, types) {
                Ok(()) => events.programs.push(program),
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

    fn without_programs(types: &Btf, cpus: &CpuList, places_shift: u32) -> Result<Self, BpfError> {
        let cpus = cpus.iter().last().map_or(1, |Cpu(highest)| highest + 1);
        let room = MOST_SHIFT - EVENT_SHIFT - cpus.next_power_of_two().ilog2().min(16);
        let places = 1 << places_shift.min(room);
        let entries = [("heads", cpus), ("events", cpus * places)];
        let object = Object::load(OBJECT, types, &entries, &[("places", places)])?;
        let (heads, lists) = (object.show("heads")?, object.show("events")?);
        Ok(Self { object, programs: vec![], heads, lists, cpus, places, missing: vec![] })
    }

    /// The events that this kernel does not show, with the reason.
    pub fn missing(&self) -> &[(&'static str, String)] {
        &self.missing
    }

    /// Takes events down from now on.
    pub fn begin(&self) {
        (0..self.cpus).for_each(|cpu| _ = self.set_count(cpu, 0));
    }

    /// The number of events not seen since the programs were loaded, as their program was running already.
    pub fn missed(&self) -> u64 {
        self.programs.iter().filter_map(|it| self.object.info(it).ok()).map(|it| it.missed).sum()
    }

    /// Ends that: the events by CPU, in order, and how many found no room.
    pub fn end(&self) -> (Vec<(Cpu, Vec<BpfEvent>)>, u64) {
        let counts: Vec<u64> = (0..self.cpus).map(|cpu| self.set_count(cpu, STOPPED)).collect();
        // Those that have a place already are noted down soon.
        std::thread::sleep(Duration::from_millis(2));
        let mut lost = 0;
        let mut streams = Vec::new();
        for (cpu, count) in (0..self.cpus).zip(counts) {
            let (taken, without) = placed(count, self.places);
            lost += without;
            streams.push((Cpu(cpu), self.list(cpu, taken as usize)));
        }
        (streams, lost)
    }

    /// The first `count` events of a CPU, in order, which are forgotten.
    fn list(&self, cpu: u32, count: usize) -> Vec<BpfEvent> {
        let first = cpu as usize * self.places as usize * EVENT_WORDS;
        let take = |number: usize| {
            let at = first + number * EVENT_WORDS;
            let words = self.lists.words(at);
            (at..at + EVENT_WORDS).for_each(|at| self.lists.word(at).store(0, Ordering::Relaxed));
            BpfEvent::of(words)
        };
        let mut events: Vec<BpfEvent> = (0..count).filter_map(take).collect();
        // An interrupt may take the place before the program that it interrupts.
        events.sort_by_key(|event| event.begin_ns);
        events
    }

    /// Lists of these CPUs with `1 << places_shift` places each, and no program: what a test counts is all there is.
    #[cfg(test)]
    pub(crate) fn by_hand(cpus: &CpuList, places_shift: u32) -> Result<Self, BpfError> {
        Self::without_programs(kernel_types()?, cpus, places_shift)
    }

    /// Sets the count of a CPU; what it was.
    pub(crate) fn set_count(&self, cpu: u32, count: u64) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS).swap(count, Ordering::AcqRel)
    }

    /// The time of getting to a program and away from it: times from the end of one to the begin of the next
    /// where nothing lies between, in nanoseconds, while `run` makes threads switch.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn residual(cpus: &CpuList, run: impl FnOnce()) -> Result<Vec<f64>, BpfError> {
        let twice = ["hop_first", "hop_second"].map(|name| (name.to_owned(), "sched_switch"));
        let events = Self::with(kernel_types()?, cpus, 13, twice)?;
        events.begin();
        run();
        let (streams, _) = events.end();
        let gaps = streams.iter().flat_map(|(_, events)| {
            let pairs = events.windows(2).filter(|pair| pair[0].kind != pair[1].kind);
            // The same switch, not the one before: the programs run in the order of their making.
            let same = pairs.filter(|pair| pair[0].kind == KernelEventKind::Switch);
            same.map(|pair| pair[1].begin_ns.saturating_sub(pair[0].end_ns) as f64)
        });
        Ok(gaps.collect())
    }
}

/// Of the events that a CPU has counted, the number that found one of its places, and the number that found none.
fn placed(count: u64, places: u32) -> (u64, u64) {
    // At least STOPPED where nothing was begun.
    let count = if count >= STOPPED { 0 } else { count };
    let taken = count.min(u64::from(places));
    (taken, count - taken)
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a skip says why")]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_places_found_none_and_a_stopped_count_is_none() {
        assert_eq!(
            [0, 7, 8, 9, 20].map(|it| placed(it, 8)),
            [(0, 0), (7, 0), (8, 0), (8, 1), (8, 12)]
        );
        // A program that was running when the count was stopped has added to it.
        assert_eq!([STOPPED, STOPPED + 3].map(|it| placed(it, 8)), [(0, 0); 2]);
        assert_eq!(placed(STOPPED - 1, 8), (8, STOPPED - 9));
    }

    #[test]
    fn what_finds_no_place_is_told_as_lost_and_the_rest_is_listed_in_order_by_cpu_once() {
        let events = match Events::by_hand(&CpuList::new([Cpu(0), Cpu(1)]), 3) {
            Ok(events) => events,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let note = |cpu: u32, place: usize, begin_ns: u64| {
            let first = (cpu as usize * 8 + place) * EVENT_WORDS;
            let words = [begin_ns, KernelEventKind::Waking as u64 + 1, 40 + begin_ns, begin_ns + 1];
            for (at, word) in words.into_iter().enumerate() {
                events.lists.word(first + at).store(word, Ordering::Relaxed);
            }
        };
        events.begin();
        (0..8).for_each(|place| note(0, place, 100 - place as u64));
        note(1, 0, 30);
        note(1, 1, 31);
        events.set_count(0, 8 + 5);
        events.set_count(1, 2);
        let (streams, lost) = events.end();
        assert_eq!(lost, 5);
        let begins = |streams: &[(Cpu, Vec<BpfEvent>)]| -> Vec<(u32, Vec<u64>)> {
            let of = |(cpu, events): &(Cpu, Vec<BpfEvent>)| {
                (cpu.0, events.iter().map(|it| it.begin_ns).collect())
            };
            streams.iter().map(of).collect()
        };
        assert_eq!(begins(&streams), [(0, (93..=100).collect()), (1, vec![30, 31])]);
        assert_eq!(streams[1].1[0].argument, 70);
        // Nothing is counted or listed twice, and what both CPUs lack is added up.
        assert_eq!((events.end().1, begins(&events.end().0)), (0, vec![(0, vec![]), (1, vec![])]));
        events.begin();
        events.set_count(0, 9);
        events.set_count(1, 10);
        let (streams, lost) = events.end();
        assert_eq!((lost, begins(&streams)), (3, vec![(0, vec![]), (1, vec![])]));
    }

    #[test]
    fn kinds_are_numbered_as_their_probes_are() {
        for (number, (tracepoint, kind)) in PROBES.iter().enumerate() {
            assert_eq!(*kind as usize, number, "{tracepoint}");
            let words = [7, (number as u64 + 1) | (3 << 32), 9, 8];
            let event = BpfEvent { kind: *kind, begin_ns: 7, end_ns: 8, detail: 3, argument: 9 };
            assert_eq!(BpfEvent::of(words), Some(event));
        }
        assert_eq!(BpfEvent::of([7, 0, 0, 8]), None, "a place that was not used");
        assert_eq!(BpfEvent::of([7, 1, 0, 0]), None, "not to the end");
        assert_eq!(BpfEvent::of([7, 99, 0, 8]), None);
    }
}
