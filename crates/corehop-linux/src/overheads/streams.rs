// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes durations from the recorded events of each CPU.
//!
//! Time within a nested activity, such as an interrupt during a switch, is subtracted, and so is the time of the BPF
//! programs that record events. An end without a recorded begin is ignored, and a begin without a recorded end is
//! discarded as soon as that is certain. The ignored ends and the discarded begins are counted.

use std::collections::BTreeMap;

use corehop_plan::units::Cpu;

use crate::bpf::events::{BpfEvent, KernelEventKind};

/// The observed process, and other facts about the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelFacts {
    /// The process whose threads the measurement observes.
    pub(super) process: u32,
    /// The lower half of the address of the tick's handler.
    pub(super) tick: Option<u32>,
}

/// The measured durations in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Durations {
    /// The times from entering the scheduler to its decision, for decisions that leave, choose or keep one of the
    /// process's threads.
    pub(super) scheduling: Vec<f64>,
    /// The times from the scheduler's decision until the chosen thread leaves the scheduler.
    pub(super) switch: Vec<f64>,
    /// The times of the tick's handler, its interrupt and the softirqs that it raised.
    pub(super) tick: Vec<f64>,
    /// The times of a timer handler that woke one of the process's threads, including its interrupt.
    pub(super) release: Vec<f64>,
    /// The times from the due time of a timer that woke one of the process's threads to the begin of the timer's
    /// interrupt.
    pub(super) event_latency: Vec<f64>,
    /// The times from sending an interrupt to its begin on the other CPU, by pair of CPUs.
    pub(super) interprocessor: BTreeMap<(Cpu, Cpu), Vec<f64>>,
    /// The times that recording one event takes.
    pub(super) noting: Vec<f64>,
    /// The number of events that end an activity without a begin, or begin an activity without an end.
    pub(super) unmatched: u64,
}

impl Durations {
    /// Adds the durations of another measurement.
    pub(super) fn append(&mut self, mut other: Self) {
        self.scheduling.append(&mut other.scheduling);
        self.switch.append(&mut other.switch);
        self.tick.append(&mut other.tick);
        self.release.append(&mut other.release);
        self.event_latency.append(&mut other.event_latency);
        self.noting.append(&mut other.noting);
        self.unmatched += other.unmatched;
        for (pair, mut ns) in other.interprocessor {
            self.interprocessor.entry(pair).or_default().append(&mut ns);
        }
    }
}

/// Computes the durations from the events of all CPUs; `offset` is how far the clock of a CPU is ahead, in
/// nanoseconds.
pub(super) fn durations(
    streams: &[(Cpu, Vec<BpfEvent>)],
    known: KernelFacts,
    offset: impl Fn(Cpu) -> f64,
) -> Durations {
    let mut found = Durations::default();
    let mut signals = Vec::new();
    for (cpu, events) in streams {
        let ahead = offset(*cpu);
        signals.extend(events.iter().filter_map(|event| Signal::of(*cpu, event, ahead)));
        let mut walk = EventReplay { known, stack: vec![], raised: None, found: &mut found };
        for event in events {
            walk.take(event);
        }
    }
    found.interprocessor = pairs(signals);
    found
}

/// An activity that has begun.
#[derive(Debug, Clone, PartialEq)]
struct ActivityFrame {
    what: FrameKind,
    /// The event that began the activity.
    begin: BpfEvent,
    /// The time of nested activities, in nanoseconds.
    within: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum FrameKind {
    /// The scheduler selects the next thread.
    Scheduling,
    /// The scheduler switches to another thread.
    Switching { ours: bool },
    /// The local timer's interrupt, with its finished handlers and the softirqs that it raised.
    Timer { handlers: Vec<HandlerSpan>, raised: u32 },
    /// A timer's handler, and whether it woke one of the process's threads.
    Handler { woke: bool },
    /// Any other activity.
    Other,
}

/// A timer's handler that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
struct HandlerSpan {
    begin: BpfEvent,
    ns: u64,
    woke: bool,
}

/// Replays one CPU's events in order.
struct EventReplay<'a> {
    known: KernelFacts,
    stack: Vec<ActivityFrame>,
    /// The index of the tick whose softirqs have not run yet, and these softirqs as bits.
    raised: Option<(usize, u32)>,
    found: &'a mut Durations,
}

impl EventReplay<'_> {
    fn take(&mut self, event: &BpfEvent) {
        self.found.noting.push((event.end_ns - event.begin_ns) as f64);
        match event.kind {
            KernelEventKind::ScheduleBegin => {
                // It is entered from threads only: whatever is open has lost its end.
                self.found.unmatched += self.stack.len() as u64;
                self.stack.clear();
                self.raised = None;
                self.push(FrameKind::Scheduling, event);
            }
            KernelEventKind::Switch => self.switch(event),
            KernelEventKind::ScheduleEnd => self.schedule_end(event),
            KernelEventKind::TimerBegin => {
                self.push(FrameKind::Timer { handlers: vec![], raised: 0 }, event);
            }
            KernelEventKind::HandlerBegin => self.push(FrameKind::Handler { woke: false }, event),
            KernelEventKind::RescheduleBegin
            | KernelEventKind::CallBegin
            | KernelEventKind::DeviceBegin
            | KernelEventKind::SoftirqBegin => {
                self.push(FrameKind::Other, event);
            }
            KernelEventKind::TimerEnd => self.timer_end(event),
            KernelEventKind::HandlerEnd => self.handler_end(event),
            KernelEventKind::RescheduleEnd => _ = self.pop(KernelEventKind::RescheduleBegin, event),
            KernelEventKind::CallEnd => _ = self.pop(KernelEventKind::CallBegin, event),
            KernelEventKind::DeviceEnd => _ = self.pop(KernelEventKind::DeviceBegin, event),
            KernelEventKind::SoftirqEnd => self.softirq_end(event),
            KernelEventKind::Waking | KernelEventKind::Send | KernelEventKind::SoftirqRaise => {
                self.note(event);
            }
        }
    }

    fn push(&mut self, what: FrameKind, event: &BpfEvent) {
        // None of these comes within itself: the one before has lost its end.
        if let Some(at) = self.stack.iter().position(|frame| frame.begin.kind == event.kind) {
            self.found.unmatched += (self.stack.len() - at) as u64;
            self.stack.truncate(at);
        }
        self.stack.push(ActivityFrame { what, begin: *event, within: 0 });
    }

    /// Ends the activity that began with `kind`; returns the activity and its own time. Nested activities without an
    /// end are discarded.
    fn pop(&mut self, kind: KernelEventKind, end: &BpfEvent) -> Option<(ActivityFrame, u64)> {
        let Some(at) = self.stack.iter().rposition(|frame| frame.begin.kind == kind) else {
            self.found.unmatched += 1;
            return None;
        };
        self.found.unmatched += (self.stack.len() - at - 1) as u64;
        self.stack.truncate(at + 1);
        let frame = self.stack.pop()?;
        let length = end.begin_ns.saturating_sub(frame.begin.end_ns);
        self.is_within(end.end_ns.saturating_sub(frame.begin.begin_ns));
        Some((frame.clone(), length.saturating_sub(frame.within)))
    }

    /// Excludes this time from the innermost open activity.
    fn is_within(&mut self, ns: u64) {
        if let Some(frame) = self.stack.last_mut() {
            frame.within += ns;
        }
    }

    /// Processes an event without duration.
    fn note(&mut self, event: &BpfEvent) {
        self.is_within(event.end_ns - event.begin_ns);
        for frame in self.stack.iter_mut().rev() {
            match (&mut frame.what, event.kind) {
                (FrameKind::Handler { woke }, KernelEventKind::Waking) => {
                    *woke |= of_process(event, self.known.process);
                    return;
                }
                (FrameKind::Timer { raised, .. }, KernelEventKind::SoftirqRaise) => {
                    *raised |= bit(event);
                    return;
                }
                _ => {}
            }
        }
    }

    /// Processes the scheduler's decision.
    fn switch(&mut self, event: &BpfEvent) {
        let Some((frame, ns)) = self.pop(KernelEventKind::ScheduleBegin, event) else { return };
        let process = self.known.process;
        let ours = of_process(&frame.begin, process) || of_process(event, process);
        if ours {
            self.found.scheduling.push(ns as f64);
        }
        self.push(FrameKind::Switching { ours }, event);
    }

    fn schedule_end(&mut self, event: &BpfEvent) {
        let switched = event.detail != 0;
        let begin = if switched { KernelEventKind::Switch } else { KernelEventKind::ScheduleBegin };
        let Some((frame, ns)) = self.pop(begin, event) else { return };
        match frame.what {
            // It ends in the thread that was decided for.
            FrameKind::Switching { ours } if frame.begin.argument == event.argument => {
                if ours {
                    self.found.switch.push(ns as f64);
                }
            }
            FrameKind::Scheduling if frame.begin.argument == event.argument => {
                if of_process(event, self.known.process) {
                    self.found.scheduling.push(ns as f64);
                }
            }
            _ => self.found.unmatched += 1,
        }
    }

    fn handler_end(&mut self, event: &BpfEvent) {
        let Some((frame, ns)) = self.pop(KernelEventKind::HandlerBegin, event) else { return };
        let FrameKind::Handler { woke } = frame.what else { return };
        let handler = HandlerSpan { begin: frame.begin, ns, woke };
        let open = self.stack.iter_mut().rev().find_map(|frame| match &mut frame.what {
            FrameKind::Timer { handlers, .. } => Some(handlers),
            _ => None,
        });
        match open {
            Some(handlers) => handlers.push(handler),
            // Where the timer's interrupt is one of a device, or a softirq runs the handlers.
            None => self.handled(&handler, 0, handler.begin.begin_ns),
        }
    }

    fn timer_end(&mut self, event: &BpfEvent) {
        let Some((frame, own)) = self.pop(KernelEventKind::TimerBegin, event) else { return };
        let FrameKind::Timer { handlers, raised } = frame.what else { return };
        // The interrupt's own time goes to the tick, or to the first that it was for.
        let tick = handlers.iter().position(|it| self.is_tick(it));
        let payer = tick.unwrap_or(0);
        for (number, handler) in handlers.iter().enumerate() {
            let interrupt = if number == payer { own } else { 0 };
            self.handled(handler, interrupt, frame.begin.begin_ns);
        }
        if tick.is_some() && raised != 0 {
            self.raised = self.found.tick.len().checked_sub(1).map(|last| (last, raised));
        }
    }

    fn is_tick(&self, handler: &HandlerSpan) -> bool {
        self.known.tick == Some(handler.begin.detail)
    }

    /// Records a handler, with its share of the interrupt that began at `began_ns`.
    fn handled(&mut self, handler: &HandlerSpan, interrupt: u64, began_ns: u64) {
        let ns = (handler.ns + interrupt) as f64;
        if self.is_tick(handler) {
            self.found.tick.push(ns);
        } else if handler.woke {
            self.found.release.push(ns);
            let due = handler.begin.argument;
            // One that became due within the interrupt of another was waiting for its own begin.
            let began = if began_ns < due { handler.begin.begin_ns } else { began_ns };
            self.found.event_latency.push(began.saturating_sub(due) as f64);
        }
    }

    fn softirq_end(&mut self, event: &BpfEvent) {
        let Some((frame, ns)) = self.pop(KernelEventKind::SoftirqBegin, event) else { return };
        let Some((tick, raised)) = &mut self.raised else { return };
        if *raised & bit(&frame.begin) != 0 {
            *raised &= !bit(&frame.begin);
            self.found.tick[*tick] += ns as f64;
        }
    }
}

/// The softirq of an event as a bit.
const fn bit(event: &BpfEvent) -> u32 {
    1 << (event.detail & 31)
}

const fn of_process(event: &BpfEvent, process: u32) -> bool {
    (event.argument >> 32) as u32 == process
}

/// The sending or the begin of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Signal {
    /// The time in nanoseconds, on a clock common to all CPUs.
    at: f64,
    /// The CPU that sent the interrupt; `None` for the begin of an interrupt.
    from: Option<Cpu>,
    to: Cpu,
    /// Whether the interrupt requests scheduling; otherwise it requests a function call.
    reschedule: bool,
}

impl Signal {
    fn of(cpu: Cpu, event: &BpfEvent, ahead: f64) -> Option<Self> {
        let begins = |reschedule| Self {
            at: event.begin_ns as f64 - ahead,
            from: None,
            to: cpu,
            reschedule,
        };
        match event.kind {
            KernelEventKind::Send if event.detail != cpu.0 => Some(Self {
                at: event.end_ns as f64 - ahead,
                from: Some(cpu),
                to: Cpu(event.detail),
                reschedule: event.argument == 0,
            }),
            KernelEventKind::RescheduleBegin => Some(begins(true)),
            KernelEventKind::CallBegin => Some(begins(false)),
            _ => None,
        }
    }
}

/// The times from sending an interrupt to its begin, by pair of CPUs. Several sends before a begin are one interrupt;
/// the first counts.
fn pairs(mut signals: Vec<Signal>) -> BTreeMap<(Cpu, Cpu), Vec<f64>> {
    signals.sort_by(|a, b| a.at.total_cmp(&b.at));
    let mut waiting: BTreeMap<(Cpu, bool), Signal> = BTreeMap::new();
    let mut found: BTreeMap<(Cpu, Cpu), Vec<f64>> = BTreeMap::new();
    for signal in signals {
        let to = (signal.to, signal.reschedule);
        match signal.from {
            Some(_) => _ = waiting.entry(to).or_insert(signal),
            None => {
                if let Some(sent) = waiting.remove(&to)
                    && let Some(from) = sent.from
                {
                    found.entry((from, sent.to)).or_default().push(signal.at - sent.at);
                }
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
