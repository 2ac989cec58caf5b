// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with hand-made event streams: process 7 is corehop's, the tick's handler is 99, and recording an event takes
//! 1 ns.

use super::*;

const KNOWN: KernelFacts = KernelFacts { process: 7, tick: Some(99) };
const OURS: u64 = thread(7, 70);
const OTHER_OF_OURS: u64 = thread(7, 71);
const A_STRANGER: u64 = thread(8, 70);
const IDLE: u64 = 0;

const fn thread(process: u64, own: u64) -> u64 {
    process << 32 | own
}

fn event(kind: KernelEventKind, at: u64, detail: u32, argument: u64) -> BpfEvent {
    BpfEvent { kind, begin_ns: at, end_ns: at + 1, detail, argument }
}

fn plain(kind: KernelEventKind, at: u64) -> BpfEvent {
    event(kind, at, 0, 0)
}

fn of(events: Vec<BpfEvent>) -> Durations {
    durations(&[(Cpu(0), events)], KNOWN, |_| 0.0)
}

/// A switch that is entered at 100, decided at 150, and left at 220.
fn a_switch(from: u64, to: u64) -> Vec<BpfEvent> {
    vec![
        event(KernelEventKind::ScheduleBegin, 100, 0, from),
        event(KernelEventKind::Switch, 150, 0, to),
        event(KernelEventKind::ScheduleEnd, 220, 1, to),
    ]
}

#[test]
fn a_switch_is_a_decision_and_what_follows_without_the_time_of_noting() {
    let found = of(a_switch(OURS, IDLE));
    assert_eq!((found.scheduling, found.switch), (vec![49.0], vec![69.0]));
    assert_eq!((found.noting, found.unmatched), (vec![1.0; 3], 0));
    assert_eq!(of(a_switch(IDLE, OURS)).switch, [69.0]);
    let others = of(a_switch(IDLE, A_STRANGER));
    assert!(others.scheduling.is_empty() && others.switch.is_empty(), "another process");
}

#[test]
fn a_decision_to_stay_is_one_too() {
    let found = of(vec![
        event(KernelEventKind::ScheduleBegin, 100, 1, OURS),
        event(KernelEventKind::ScheduleEnd, 130, 0, OURS),
    ]);
    assert_eq!((found.scheduling, found.switch), (vec![29.0], vec![]));
}

#[test]
fn an_interrupt_within_a_switch_is_taken_from_it_and_so_is_one_within_that() {
    let mut events = a_switch(OURS, OTHER_OF_OURS);
    events.splice(
        2..2,
        [
            plain(KernelEventKind::DeviceBegin, 160),
            event(KernelEventKind::SoftirqBegin, 165, 3, 0),
            event(KernelEventKind::SoftirqEnd, 175, 3, 0),
            plain(KernelEventKind::DeviceEnd, 190),
        ],
    );
    let found = of(events);
    // 151 to 220, without 160 to 191.
    assert_eq!((found.scheduling, found.switch), (vec![49.0], vec![38.0]));
    assert_eq!(found.unmatched, 0);
}

#[test]
fn a_switch_ends_in_the_thread_that_was_decided_for() {
    let mut events = a_switch(OURS, OTHER_OF_OURS);
    events[2].argument = OURS;
    let found = of(events);
    assert_eq!((found.scheduling, found.switch, found.unmatched), (vec![49.0], vec![], 1));
}

#[test]
fn ends_without_begins_and_begins_without_ends_say_nothing_and_are_counted() {
    let found = of(vec![
        event(KernelEventKind::ScheduleEnd, 50, 1, OURS),
        event(KernelEventKind::Switch, 60, 0, OURS),
        plain(KernelEventKind::TimerEnd, 70),
        plain(KernelEventKind::HandlerEnd, 80),
    ]);
    assert_eq!(found, Durations { noting: vec![1.0; 4], unmatched: 4, ..Durations::default() });
    // A new thread begins without leaving the scheduler; its next entry is seen.
    let mut events = a_switch(OURS, OTHER_OF_OURS);
    events.truncate(2);
    events.extend(a_switch(OTHER_OF_OURS, OURS).into_iter().map(|it| later(it, 200)));
    let found = of(events);
    assert_eq!((found.scheduling.len(), found.switch, found.unmatched), (2, vec![69.0], 1));
    // An interrupt whose end was lost does not swallow the next one.
    let lost =
        [plain(KernelEventKind::TimerBegin, 10), event(KernelEventKind::HandlerBegin, 20, 5, 0)];
    let found = of(lost.into_iter().chain(an_expiry(5, Some(OURS))).collect());
    assert_eq!((found.release, found.unmatched), (vec![96.0], 2));
}

fn later(event: BpfEvent, by: u64) -> BpfEvent {
    BpfEvent { begin_ns: event.begin_ns + by, end_ns: event.end_ns + by, ..event }
}

/// The events of a timer interrupt from 1000 to 1100. The interrupt's handler runs from 1020 to 1070 and was due at
/// 900; it may wake a thread at 1050.
fn an_expiry(handler: u32, wakes: Option<u64>) -> Vec<BpfEvent> {
    let mut events = vec![
        plain(KernelEventKind::TimerBegin, 1000),
        event(KernelEventKind::HandlerBegin, 1020, handler, 900),
    ];
    events.extend(wakes.map(|thread| event(KernelEventKind::Waking, 1050, 0, thread)));
    events
        .extend([plain(KernelEventKind::HandlerEnd, 1070), plain(KernelEventKind::TimerEnd, 1100)]);
    events
}

#[test]
fn a_release_is_a_timer_that_wakes_one_of_ours_with_its_interrupt() {
    let found = of(an_expiry(5, Some(OURS)));
    // 1001 to 1100 but for noting three events: of the handler's begin, the waking, and its end.
    assert_eq!((found.release, found.event_latency), (vec![96.0], vec![100.0]));
    for other in [None, Some(A_STRANGER)] {
        let found = of(an_expiry(5, other));
        assert_eq!((found.release, found.tick, found.event_latency), (vec![], vec![], vec![]));
    }
}

#[test]
fn one_that_is_due_within_the_interrupt_waits_from_then_on() {
    let mut events = an_expiry(5, Some(OURS));
    events[1].argument = 1_010;
    assert_eq!(of(events).event_latency, [10.0]);
}

#[test]
fn the_interrupt_is_paid_once_by_the_tick_or_by_the_first_handler() {
    let mut events = an_expiry(5, Some(OURS));
    let second = [
        event(KernelEventKind::HandlerBegin, 1080, 6, 950),
        event(KernelEventKind::Waking, 1082, 0, OTHER_OF_OURS),
        plain(KernelEventKind::HandlerEnd, 1090),
    ];
    events.splice(4..4, second);
    // Handlers: 1021 to 1070, 1081 to 1090, less noting a waking each. The interrupt's own: 1001 to 1100
    // less 51 and 11.
    let found = of(events.clone());
    assert_eq!((found.release, found.event_latency), (vec![48.0 + 37.0, 8.0], vec![100.0, 50.0]));
    events[4].detail = 99;
    let found = of(events);
    assert_eq!((found.release, found.tick), (vec![48.0], vec![8.0 + 37.0]));
}

#[test]
fn the_tick_pays_for_the_softirqs_that_it_raised_and_for_no_others() {
    let mut events = an_expiry(99, None);
    events.insert(2, event(KernelEventKind::SoftirqRaise, 1030, 7, 0));
    let softirq = |vector, at| {
        [
            event(KernelEventKind::SoftirqBegin, at, vector, 0),
            event(KernelEventKind::SoftirqEnd, at + 20, vector, 0),
        ]
    };
    events.extend([softirq(7, 1110), softirq(9, 1140), softirq(7, 1170)].concat());
    let found = of(events.clone());
    // 96 as for a release, of which softirq 7 was raised; it runs for 19, once.
    assert_eq!((found.tick, found.release), (vec![96.0 + 19.0], vec![]));
    // After the scheduler has been entered they belong to a thread of the kernel.
    events.insert(5 + 1, event(KernelEventKind::ScheduleBegin, 1105, 0, OURS));
    assert_eq!(of(events).tick, [96.0]);
}

#[test]
fn an_interrupt_between_cpus_takes_from_the_first_sending_to_its_begin() {
    let sends = vec![
        event(KernelEventKind::Send, 100, 1, 0),
        // Of another kind, to itself, and one more before the first has arrived.
        event(KernelEventKind::Send, 110, 1, 0xffff),
        event(KernelEventKind::Send, 115, 0, 0),
        event(KernelEventKind::Send, 120, 1, 0),
        event(KernelEventKind::Send, 900, 1, 0),
    ];
    let begins = vec![
        plain(KernelEventKind::RescheduleBegin, 90),
        plain(KernelEventKind::RescheduleBegin, 301),
        plain(KernelEventKind::RescheduleEnd, 310),
        plain(KernelEventKind::CallBegin, 411),
    ];
    let streams = [(Cpu(0), sends), (Cpu(1), begins)];
    let found = durations(&streams, KNOWN, |_| 0.0).interprocessor;
    assert_eq!(found, BTreeMap::from([((Cpu(0), Cpu(1)), vec![200.0, 300.0])]));
    // The other clock is 50 ns ahead.
    let found = durations(&streams, KNOWN, |cpu| f64::from(cpu.0) * 50.0).interprocessor;
    assert_eq!(found[&(Cpu(0), Cpu(1))], [150.0, 250.0]);
}

#[test]
fn what_was_found_at_two_times_is_found() {
    let mut all = of(a_switch(OURS, IDLE));
    all.append(of(an_expiry(5, Some(OURS))));
    all.append(of(vec![plain(KernelEventKind::TimerEnd, 70)]));
    assert_eq!((all.switch.len(), all.release.len(), all.unmatched), (1, 1, 1));
    assert_eq!(all.noting.len(), 3 + 5 + 1);
}
