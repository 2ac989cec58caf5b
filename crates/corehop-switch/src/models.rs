// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the hand-off, which loom runs in every order of their steps. Run them by `make models`.

use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::process::Command;
use std::sync::Arc;

use crate::fault::{ProtocolFault, plant};
use crate::lane::{ASLEEP, Claiming, Lane, LaneConsumer, LanePosition, PostedCall, ROOM};
use crate::sync;

/// A lane with two slots, which suffices for a slot to be reused.
type TwoSlotLane = Lane<2>;

/// A model of the kernel's futex, which compares and sleeps in one step.
struct Futex {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    fn new() -> Self {
        Self { lock: Mutex::new(()), woken: Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32) {
        let mut held = self.lock.lock().unwrap();
        while word.load(Ordering::SeqCst) == ASLEEP {
            held = self.woken.wait(held).unwrap();
        }
    }

    fn wake(&self) {
        let _held = self.lock.lock().unwrap();
        self.woken.notify_one();
    }
}

struct World {
    lane: TwoSlotLane,
    /// The futexes of the partner and of the caller.
    partner: Futex,
    caller: Futex,
    /// The number of times that each call ran.
    runs: [AtomicUsize; 4],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lane: TwoSlotLane::new(),
            partner: Futex::new(),
            caller: Futex::new(),
            runs: core::array::from_fn(|_| AtomicUsize::new(0)),
        })
    }

    /// Posts call `number` and wakes the partner; for the caller.
    fn post(&self, number: usize, place: LanePosition) {
        self.post_function(10 * number, place);
    }

    /// Posts call `number` with a closure that fills the whole storage, and wakes the partner.
    fn post_packed(&self, number: usize, place: LanePosition) {
        self.lane
            .room()
            .open(|words| unsafe { words.cast::<ClosureWords>().write([number as u64; ROOM]) });
        self.post_function(10 * number + PACKED, place);
    }

    /// The result of a packed closure after its call.
    fn unpack(&self) -> u64 {
        let words = self.lane.room().open(|words| unsafe { words.cast::<ClosureWords>().read() });
        assert!(words.iter().all(|&word| word == words[0]), "torn words of a closure: {words:?}");
        words[0]
    }

    fn post_function(&self, function: usize, place: LanePosition) {
        let call = PostedCall { function, argument: core::ptr::null_mut() };
        self.lane.slot(place).post(call);
        if self.lane.partner.0.ring() {
            self.partner.wake();
        }
    }

    /// Runs the function of the models, which returns its number times ten plus one; a packed closure adds a hundred
    /// to each of its words.
    fn run(&self, call: PostedCall) -> u64 {
        let number = call.function / 10;
        self.runs[number].fetch_add(1, Ordering::Relaxed);
        if call.function % 10 == PACKED {
            let word = self.unpack();
            assert_eq!(word, number as u64, "the closure of another call");
            let room = self.lane.room();
            room.open(|words| unsafe { words.cast::<ClosureWords>().write([word + 100; ROOM]) });
        }
        10 * number as u64 + 1
    }

    /// Runs the partner of V2 without a spin, until the lane closes.
    fn partner(&self, claiming: Claiming) {
        let mut calls = LaneConsumer::new(&self.lane, claiming);
        loop {
            if let Some((slot, call)) = calls.take() {
                slot.reply(self.run(call));
                if self.lane.caller.0.ring() {
                    self.caller.wake();
                }
            } else if self.lane.closing() && !calls.posted() {
                return;
            } else if self.lane.partner.0.lie_down(|| calls.news()) {
                self.partner.wait(self.lane.partner.0.word());
                self.lane.partner.0.get_up();
            }
        }
    }

    /// The caller's wait without a spin.
    fn wait(&self, place: LanePosition) -> u64 {
        loop {
            if let Some(value) = self.lane.slot(place).result() {
                return value;
            }
            if self.lane.caller.0.lie_down(|| self.lane.slot(place).result().is_some()) {
                self.caller.wait(self.lane.caller.0.word());
                self.lane.caller.0.get_up();
            }
        }
    }

    fn close(&self) {
        if self.lane.close() {
            self.partner.wake();
        }
    }

    fn check(&self, calls: usize) {
        for number in 1..=calls {
            assert_eq!(self.runs[number].load(Ordering::Relaxed), 1, "runs of call {number}");
        }
    }
}

/// The words of a packed closure, and the marker of its function.
type ClosureWords = [u64; ROOM];
const PACKED: usize = 5;

/// Runs a caller beside a partner with this way of claiming, in every order with at most two interruptions, which
/// suffice for all faults below.
fn explore_by(claiming: Claiming, calls: usize, caller: fn(&World, usize)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let world = World::new();
        let partner = thread::spawn({
            let world = world.clone();
            move || world.partner(claiming)
        });
        caller(&world, calls);
        world.close();
        partner.join().unwrap();
        world.check(calls);
    });
}

/// Runs a caller with both ways of claiming.
fn explore(calls: usize, caller: fn(&World, usize)) {
    explore_by(Claiming::Light, calls, caller);
    explore_by(Claiming::Strict, calls, caller);
}

/// Makes calls one after the other; both threads sleep whenever they have nothing to do.
fn synchronous(world: &World, calls: usize) {
    for number in 1..=calls {
        let place = LanePosition::Express(number as u64);
        world.post(number, place);
        assert_eq!(world.wait(place), 10 * number as u64 + 1);
    }
}

/// Makes two outstanding calls and takes their results in reverse order; then makes a single call, or one that reuses
/// a slot.
fn outstanding(world: &World, calls: usize) {
    world.post(1, LanePosition::Ring(1));
    world.post(2, LanePosition::Ring(2));
    assert_eq!(world.wait(LanePosition::Ring(2)), 21);
    assert_eq!(world.wait(LanePosition::Ring(1)), 11);
    if calls == 3 {
        world.post(3, LanePosition::Express(1));
        assert_eq!(world.wait(LanePosition::Express(1)), 31);
    }
}

/// Makes calls with closures in the call's line, one after the other.
fn packed(world: &World, calls: usize) {
    for number in 1..=calls {
        let place = LanePosition::Express(number as u64);
        world.post_packed(number, place);
        assert_eq!(world.wait(place), 10 * number as u64 + 1);
        assert_eq!(world.unpack(), 100 + number as u64);
    }
}

/// The caller immediately loses patience with every call: it takes the call back and runs it, or waits.
fn impatient(world: &World, calls: usize, place: fn(u64) -> LanePosition) {
    for number in 1..=calls {
        let place = place(number as u64);
        world.post(number, place);
        assert_eq!(settled(world, place), 10 * number as u64 + 1);
    }
}

/// The caller immediately loses patience with calls in the express slot.
fn impatient_express(world: &World, calls: usize) {
    impatient(world, calls, LanePosition::Express);
}

/// The caller immediately loses patience with calls whose closures are in the line.
fn impatient_packed(world: &World, calls: usize) {
    for number in 1..=calls {
        let place = LanePosition::Express(number as u64);
        world.post_packed(number, place);
        assert_eq!(settled(world, place), 10 * number as u64 + 1);
        assert_eq!(world.unpack(), 100 + number as u64);
    }
}

/// Takes a call back and runs it, or waits for its result.
fn settled(world: &World, place: LanePosition) -> u64 {
    let slot = world.lane.slot(place);
    if slot.take_back(sync::heavy) { world.run(slot.call()) } else { world.wait(place) }
}

/// Makes both calls of the ring outstanding, and requests both back, the later one first.
fn impatient_outstanding(world: &World, _: usize) {
    world.post(1, LanePosition::Ring(1));
    world.post(2, LanePosition::Ring(2));
    assert_eq!(settled(world, LanePosition::Ring(2)), 21);
    assert_eq!(settled(world, LanePosition::Ring(1)), 11);
}

#[test]
fn no_order_of_steps_loses_or_doubles_a_call() {
    explore_by(Claiming::Light, 2, synchronous);
    explore_by(Claiming::Light, 3, outstanding);
    explore(3, impatient_express);
    explore(3, |world, calls| impatient(world, calls, LanePosition::Ring));
    explore(2, impatient_outstanding);
}

#[test]
fn no_order_of_steps_tears_a_closure_in_the_line_of_its_call() {
    explore_by(Claiming::Light, 2, packed);
    explore(2, impatient_packed);
}

/// A fault by name, the model that finds it, and the message of that model.
type Plant = (&'static str, ProtocolFault, fn(&World, usize), &'static str);

const PLANTS: [Plant; 7] = [
    ("a lost wake-up", ProtocolFault::SleepsWithoutLooking, synchronous, "deadlock"),
    (
        "a call that runs twice",
        ProtocolFault::TakesWithoutClaim,
        impatient_express,
        "runs of call 1",
    ),
    (
        "a look too early",
        ProtocolFault::LooksBeforeItAnnounces,
        impatient_express,
        "runs of call 1",
    ),
    (
        "steps of the partner that nothing orders",
        ProtocolFault::AnnouncesWithoutOrder,
        impatient_express,
        "runs of call 1",
    ),
    (
        "steps of the caller that nothing orders",
        ProtocolFault::TakesBackWithoutOrder,
        impatient_express,
        "runs of call 1",
    ),
    ("an old result", ProtocolFault::AnnouncesBeforeResult, synchronous, "left == right"),
    ("a call before its words", ProtocolFault::PostsWithoutRelease, packed, "left == right"),
];

/// The environment variable that names the fault for the process that plants it.
const PLANT: &str = "COREHOP_PLANTED_FAULT";

/// The test uses a process for each model, because a failing model may end its process: its threads cannot be
/// unwound.
#[test]
fn planted_faults_are_found() {
    if let Ok(name) = std::env::var(PLANT) {
        let (_, fault, model, _) = PLANTS.iter().find(|(plant, ..)| *plant == name).unwrap();
        plant(Some(*fault));
        return explore(1, *model);
    }
    for (name, _, _, report) in PLANTS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "models::planted_faults_are_found"])
            .env(PLANT, name)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(!output.status.success() && said.contains(report), "{name}: {said}");
    }
}
