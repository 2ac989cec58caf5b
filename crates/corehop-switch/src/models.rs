// SPDX-License-Identifier: MIT OR Apache-2.0
//! Models of the hand-off: loom runs them in every order of their steps. `make models`.

use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::process::Command;
use std::sync::Arc;

use crate::fault::{Fault, plant};
use crate::lane::{ASLEEP, Call, Lane, Next};

/// Two slots are enough for a slot to be used again.
type Small = Lane<2>;

/// The kernel's futex: compares and sleeps in one step.
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
    lane: Small,
    /// The partner's, the caller's.
    partner: Futex,
    caller: Futex,
    /// The number of times that each call ran.
    runs: [AtomicUsize; 4],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lane: Small::new(),
            partner: Futex::new(),
            caller: Futex::new(),
            runs: core::array::from_fn(|_| AtomicUsize::new(0)),
        })
    }

    fn post(&self, seq: u64) {
        let call = Call { function: 10 * seq as usize, argument: core::ptr::null_mut() };
        self.lane.post(seq, call);
    }

    /// The function of the models: its number times ten, plus one.
    fn run(&self, call: Call) -> u64 {
        self.runs[call.function / 10].fetch_add(1, Ordering::Relaxed);
        call.function as u64 + 1
    }

    /// The partner of V2 without a spin, until the lane closes.
    fn partner(&self) {
        let mut seq = 1;
        loop {
            match self.lane.take(seq) {
                Next::Run(call) => {
                    let value = self.run(call);
                    self.lane.reply(seq, value);
                    if self.lane.caller.0.ring() {
                        self.caller.wake();
                    }
                    seq += 1;
                }
                Next::TakenBack => seq += 1,
                Next::Nothing if self.lane.closing() && !self.lane.posted(seq) => return,
                Next::Nothing => {
                    let news = || self.lane.posted(seq) || self.lane.closing();
                    if self.lane.partner.0.lie_down(news) {
                        self.partner.wait(self.lane.partner.0.word());
                        self.lane.partner.0.get_up();
                    }
                }
            }
        }
    }

    fn ring_partner(&self) {
        if self.lane.partner.0.ring() {
            self.partner.wake();
        }
    }

    /// The caller's wait without a spin.
    fn wait(&self, seq: u64) -> u64 {
        loop {
            if let Some(value) = self.lane.result(seq) {
                return value;
            }
            if self.lane.caller.0.lie_down(|| self.lane.result(seq).is_some()) {
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

    fn check(&self, calls: u64) {
        for seq in 1..=calls {
            assert_eq!(self.runs[seq as usize].load(Ordering::Relaxed), 1, "runs of call {seq}");
        }
    }
}

/// Bounds the number of times that a thread is interrupted: two find all faults below.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Calls one after the other; both threads sleep whenever they have nothing to do.
fn synchronous(calls: u64) {
    explore(move || {
        let world = World::new();
        let partner = thread::spawn({
            let world = world.clone();
            move || world.partner()
        });
        for seq in 1..=calls {
            world.post(seq);
            world.ring_partner();
            assert_eq!(world.wait(seq), 10 * seq + 1);
        }
        world.close();
        partner.join().unwrap();
        world.check(calls);
    });
}

/// Two calls outstanding, results taken in the other order.
fn outstanding() {
    explore(|| {
        let world = World::new();
        let partner = thread::spawn({
            let world = world.clone();
            move || world.partner()
        });
        world.post(1);
        world.post(2);
        world.ring_partner();
        assert_eq!(world.wait(2), 21);
        assert_eq!(world.wait(1), 11);
        world.close();
        partner.join().unwrap();
        world.check(2);
    });
}

/// The caller loses patience at once, with every call: it takes it back and runs it, or waits.
fn impatient(calls: u64) {
    explore(move || {
        let world = World::new();
        let partner = thread::spawn({
            let world = world.clone();
            move || world.partner()
        });
        for seq in 1..=calls {
            world.post(seq);
            world.ring_partner();
            let value = if world.lane.take_back(seq) {
                world.run(world.lane.call(seq))
            } else {
                world.wait(seq)
            };
            assert_eq!(value, 10 * seq + 1);
        }
        world.close();
        partner.join().unwrap();
        world.check(calls);
    });
}

#[test]
fn no_order_of_steps_loses_or_doubles_a_call() {
    synchronous(2);
    outstanding();
    impatient(3);
}

/// The faults that a process of its own plants, with a model that finds each.
const PLANTS: [(&str, Fault, fn()); 3] = [
    ("a lost wake-up", Fault::SleepsWithoutLooking, || synchronous(1)),
    ("a call that runs twice", Fault::TakesWithoutClaim, || impatient(1)),
    ("an old result", Fault::AnnouncesBeforeResult, || synchronous(1)),
];

/// Names the fault for the process that plants it.
const PLANT: &str = "COREHOP_PLANTED_FAULT";

/// A model that fails may end its process, as its threads cannot be unwound: each has its own.
#[test]
fn planted_faults_are_found() {
    if let Ok(name) = std::env::var(PLANT) {
        let (_, fault, model) = PLANTS.iter().find(|(plant, ..)| *plant == name).unwrap();
        plant(Some(*fault));
        return model();
    }
    for (name, ..) in PLANTS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "models::planted_faults_are_found"])
            .env(PLANT, name)
            .output()
            .unwrap();
        assert!(!output.status.success(), "{name} was not found");
    }
}
