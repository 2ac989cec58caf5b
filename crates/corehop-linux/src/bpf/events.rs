// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records the times at which each CPU passes the kernel's scheduling tracepoints.
//!
//! One BPF program runs at each tracepoint. The program reads the clock at its start and end, so that a time between
//! two events can exclude the program itself: the time lasts from the end of the first event to the begin of the
//! second. Such a time still includes the entry into a program and the exit from it ([`Events::residual`]).
//!
//! Each CPU has its own list, which is filled once; further events are counted as lost. The program reserves a list
//! entry by an atomic addition, because interrupts can come in between.

use std::sync::atomic::Ordering;
use std::time::Duration;

use corehop_plan::units::{Cpu, CpuList};

use super::object::Object;
use super::{ArrayMapping, BpfError, Btf, kernel_types};

/// The compiled programs of `bpf/events.bpf.c`.
const OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/events.bpf.o");

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelEventKind {
    /// The scheduler starts; `argument` is the current thread.
    ScheduleBegin,
    /// The scheduler has chosen another thread, `argument`, and switches to it.
    Switch,
    /// The scheduler returns in the thread `argument`; `detail` is 1 if it switched threads.
    ScheduleEnd,
    /// The local timer interrupt starts.
    TimerBegin,
    /// The local timer interrupt ends; softirqs that it raised follow.
    TimerEnd,
    /// The handler of a timer starts: `detail` is the lower half of the handler's address, and `argument` the time at
    /// which the timer was due.
    HandlerBegin,
    /// The handler of a timer ends.
    HandlerEnd,
    /// The thread `argument` is woken.
    Waking,
    /// An interrupt is sent to CPU `detail`; `argument` is 0 if that CPU is to schedule, otherwise it is to run a
    /// function.
    Send,
    /// The interrupt starts by which another CPU makes this CPU schedule.
    RescheduleBegin,
    /// The reschedule interrupt ends.
    RescheduleEnd,
    /// The interrupt starts by which another CPU makes this CPU run a function.
    CallBegin,
    /// The function-call interrupt ends.
    CallEnd,
    /// A device interrupt starts.
    DeviceBegin,
    /// A device interrupt ends.
    DeviceEnd,
    /// The softirq number `detail` is raised.
    SoftirqRaise,
    /// The handler of a softirq starts.
    SoftirqBegin,
    /// The handler of a softirq ends.
    SoftirqEnd,
}

/// The tracepoints with their event kinds, in the order of [`KernelEventKind`].
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

/// A scheduling event on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BpfEvent {
    /// The kind of the event.
    pub kind: KernelEventKind,
    /// The time of the event, in ns of CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// The time at which the event was recorded.
    pub end_ns: u64,
    /// A value that depends on the kind; see [`KernelEventKind`].
    pub detail: u32,
    /// A value that depends on the kind; see [`KernelEventKind`]. A thread is given by its process ID in the upper
    /// half and its thread ID in the lower half.
    pub argument: u64,
}

impl BpfEvent {
    /// Decodes an event; `None` if the event was not recorded completely.
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

/// The words before the lists, so that each CPU's event count has its own cache lines.
const HEAD_WORDS: usize = 16;
/// The size of an event as a power of two, in bytes.
const EVENT_SHIFT: u32 = 5;
const EVENT_WORDS: usize = (1 << EVENT_SHIFT) / 8;
/// The number of list entries of a CPU, as a power of two: 4 MiB.
const PLACES_SHIFT: u32 = 17;
/// The largest size of the lists of all CPUs together, as a power of two.
const MOST_SHIFT: u32 = 27;
/// The event count that makes the BPF programs record nothing.
const STOPPED: u64 = 1 << 62;

/// The programs and their lists, which are removed on drop.
#[derive(Debug)]
pub struct Events {
    // Declared first, so that the programs run no more when their memory goes.
    object: Object,
    programs: Vec<String>,
    heads: ArrayMapping,
    lists: ArrayMapping,
    cpus: u32,
    /// The number of list entries of a CPU.
    places: u32,
    missing: Vec<(&'static str, String)>,
}

impl Events {
    /// Loads the programs for events on `cpus`. Tracepoints that this kernel lacks are skipped; [`Events::missing`]
    /// names them.
    ///
    /// # Errors
    /// Fails if the kernel has no BTF, the caller lacks a privilege, or none of the tracepoints exists.
    pub fn open(cpus: &CpuList) -> Result<Self, BpfError> {
        Self::open_with(kernel_types()?, cpus)
    }

    /// Loads the programs with type information that has already been read.
    ///
    /// # Errors
    /// Fails with the errors of [`open`](Self::open).
    pub fn open_with(types: &Btf, cpus: &CpuList) -> Result<Self, BpfError> {
        let probes = PROBES.map(|(tracepoint, _)| (format!("hop_{tracepoint}"), tracepoint));
        Self::with(types, cpus, PLACES_SHIFT, probes)
    }

    /// Loads only the program of [`KernelEventKind::Switch`], so that a CPU's list lasts many seconds.
    ///
    /// # Errors
    /// Fails with the errors of [`open`](Self::open).
    pub fn of_switches(cpus: &CpuList) -> Result<Self, BpfError> {
        let program = ("hop_sched_switch".to_owned(), "sched_switch");
        Self::with(kernel_types()?, cpus, PLACES_SHIFT, [program])
    }

    /// Loads the given BPF programs, each at its tracepoint.
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

    /// Returns the events that this kernel does not provide, with the reason.
    pub fn missing(&self) -> &[(&'static str, String)] {
        &self.missing
    }

    /// Starts recording events.
    pub fn begin(&self) {
        (0..self.cpus).for_each(|cpu| _ = self.set_count(cpu, 0));
    }

    /// Returns the number of events missed since the programs were loaded, because their program was already running.
    pub fn missed(&self) -> u64 {
        self.programs.iter().filter_map(|it| self.object.info(it).ok()).map(|it| it.missed).sum()
    }

    /// Stops recording. Returns the events by CPU, in order, and the number of events that were lost because a list
    /// was full.
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

    /// Takes the first `count` events of a CPU, in order, out of its list.
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

    /// Creates lists of these CPUs with `1 << places_shift` entries each, without programs, so that a test controls the
    /// counts.
    #[cfg(test)]
    pub(crate) fn by_hand(cpus: &CpuList, places_shift: u32) -> Result<Self, BpfError> {
        Self::without_programs(kernel_types()?, cpus, places_shift)
    }

    /// Sets the event count of a CPU; returns the earlier count.
    pub(crate) fn set_count(&self, cpu: u32, count: u64) -> u64 {
        self.heads.word(cpu as usize * HEAD_WORDS).swap(count, Ordering::AcqRel)
    }

    /// Returns the times that the kernel takes to leave one BPF program and enter the next, in nanoseconds, while `run`
    /// makes threads switch. The time lies between the end of the first and the begin of the second of two programs at
    /// one switch.
    ///
    /// # Errors
    /// Fails with the errors of [`open`](Self::open).
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

/// Splits a CPU's event count into the number of stored events, and the number of lost events.
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
