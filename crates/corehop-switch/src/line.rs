// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caller's side of one partner, which posts calls and waits for results.

use std::ffi::{CString, c_void};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::budget::SpinBudget;
use crate::lane::{
    ASLEEP, Claiming, ClosureStorage, Doorbell, Lane, LaneConsumer, LanePosition, PostedCall,
};
use crate::leash::Leash;
use crate::mechanism::Mechanism;
use crate::options::Options;
use crate::partner::{self, GLANCES, Partner, SLOTS};
use crate::policy::CoreSet;
use crate::sync;
use crate::sys::{self, ForkSentinel, PosixThread};
use crate::uring::Exchanger;

/// The time for which a caller yields before it sleeps, in nanoseconds, because waking the caller would cost as much.
const YIELDS_FOR: u64 = 100_000;
/// The shortest and longest nap of a polling caller whose function exceeds its patience, in nanoseconds. A nap is a
/// share of the time waited so far, so the caller is neither late nor uses a core while waiting.
const NAPS: [u64; 2] = [50_000, 2_000_000];
const NAP_SHARE: u64 = 32;
/// The longest sleep of a caller whose call has been taken, in nanoseconds.
const LONGEST_SLEEP: u64 = 1_000_000_000;

/// The result of a call, and which side ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallResolution {
    /// The partner ran the call.
    There(u64),
    /// The partner did not take the call in time, so the caller has taken it back and runs it.
    TakenBack(PostedCall),
    /// This process was forked after the parent's partner had taken the call.
    Lost,
}

/// The start of a partner; its caller waits until the partner is on its core.
#[derive(Debug)]
struct PartnerStart {
    /// The result of the start: -1 while unknown, 0 for success, otherwise an error number.
    outcome: AtomicI32,
    caller: Doorbell,
}

impl PartnerStart {
    fn new() -> Self {
        Self { outcome: AtomicI32::new(-1), caller: Doorbell::new() }
    }

    fn report<T>(&self, outcome: &io::Result<T>) {
        let number = |error: &io::Error| error.raw_os_error().unwrap_or(libc::EIO);
        self.outcome.store(outcome.as_ref().map_or_else(number, |_| 0), Ordering::Release);
        if self.caller.ring() {
            sys::futex_wake(self.caller.word());
        }
    }

    fn wait(&self) -> io::Result<()> {
        loop {
            match self.outcome.load(Ordering::Acquire) {
                0 => return Ok(()),
                number if number > 0 => return Err(io::Error::from_raw_os_error(number)),
                _ => {}
            }
            if self.caller.lie_down(|| self.outcome.load(Ordering::Acquire) >= 0) {
                sys::futex_wait(self.caller.word(), ASLEEP, LONGEST_SLEEP);
                self.caller.get_up();
            }
        }
    }
}

/// The setup data of a partner, which the partner's thread borrows until the thread ends.
#[derive(Debug)]
struct PartnerSetup {
    core: usize,
    name: CString,
    lane: Lane<SLOTS>,
    mechanism: Mechanism,
    claiming: Claiming,
    limit: u64,
    leash: Option<&'static Leash>,
    witness: Arc<ForkSentinel>,
    /// The ID of the partner's thread, once it runs.
    thread: AtomicI32,
    start: PartnerStart,
}

impl PartnerSetup {
    fn exchanger(&self) -> io::Result<Option<Exchanger>> {
        (self.mechanism == Mechanism::Linked).then(Exchanger::open).transpose()
    }

    /// Runs the partner's thread.
    fn run(&self) {
        self.thread.store(sys::thread(), Ordering::Relaxed);
        if let Some(leash) = self.leash {
            leash.begin();
            sys::let_filters_answer();
        }
        sys::name(&self.name);
        let moved = sys::set_affinity(&CoreSet::of(&[self.core]));
        let outcome = moved.and_then(|()| self.exchanger());
        self.start.report(&outcome);
        let Ok(exchanger) = outcome else { return };
        let Self { ref lane, ref witness, mechanism, limit, leash, .. } = *self;
        let (budget, calls) = (SpinBudget::new(limit), LaneConsumer::new(lane, self.claiming));
        Partner { lane, calls, mechanism, budget, limit, exchanger, leash, witness }.serve();
    }
}

extern "C" fn serve(origin: *mut c_void) -> *mut c_void {
    // SAFETY: a line has joined this thread before it frees the origin.
    unsafe { &*origin.cast::<PartnerSetup>() }.run();
    std::ptr::null_mut()
}

/// One partner, seen from its caller.
#[derive(Debug)]
pub(crate) struct PartnerLink {
    pub(crate) core: usize,
    /// The setup data, shared with the partner until it has been joined.
    origin: Arc<PartnerSetup>,
    mechanism: Mechanism,
    /// The number of the last call in the express slot.
    express: u64,
    /// The number of the last call in the ring.
    last: u64,
    /// A bit for each slot whose result has not been taken.
    outstanding: u64,
    budget: SpinBudget,
    limit: u64,
    patience: u64,
    exchanger: Option<Exchanger>,
    thread: Option<PosixThread>,
}

impl PartnerLink {
    /// Starts a partner on a core.
    ///
    /// # Errors
    ///
    /// Returns an error if the core is offline or not allowed, or if there is no thread, ring or leash left.
    pub(crate) fn open(
        core: usize,
        mechanism: Mechanism,
        limit: u64,
        options: &Options,
        witness: &Arc<ForkSentinel>,
    ) -> io::Result<Self> {
        // The kernel's steps take the place of a spin in V2 and V3.
        let spins = matches!(mechanism, Mechanism::Polling | Mechanism::Adaptive);
        let limit = if spins { limit } else { 0 };
        let (start, thread, lane) = (PartnerStart::new(), AtomicI32::new(0), Lane::new());
        let name = CString::new(format!("corehop-{core}"))?;
        let (witness, leash) = (Arc::clone(witness), None);
        let claiming = claiming(mechanism, options);
        let mut origin = Arc::new(PartnerSetup {
            core,
            name,
            lane,
            mechanism,
            claiming,
            limit,
            leash,
            witness,
            thread,
            start,
        });
        let exchanger = origin.exchanger()?;
        let bell = origin.lane.partner.0.word().as_ptr() as usize;
        if let (false, Some(origin)) = (options.leashes.is_empty(), Arc::get_mut(&mut origin)) {
            let leash = Leash::take(options.leashes, bell);
            origin.leash = Some(leash.ok_or(io::Error::from_raw_os_error(libc::EAGAIN))?);
        }
        let mut line = Self {
            core,
            origin,
            mechanism,
            express: 0,
            last: 0,
            outstanding: 0,
            budget: SpinBudget::new(limit),
            limit,
            patience: options.patience_ns,
            exchanger,
            thread: None,
        };
        line.start().inspect_err(|_| line.end())?;
        Ok(line)
    }

    fn start(&mut self) -> io::Result<()> {
        let origin = Arc::as_ptr(&self.origin).cast_mut().cast();
        // SAFETY: the partner only reads the origin, which `end` keeps until the thread has been joined.
        self.thread = Some(unsafe { PosixThread::start(serve, origin) }?);
        self.origin.start.wait()
    }

    /// Waits until the ending partner is also gone from the kernel's list of threads.
    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join();
            sys::await_end(self.origin.thread.load(Ordering::Relaxed));
        }
        if let Some(leash) = self.origin.leash {
            leash.release();
        }
    }

    /// Whether the partner has calls whose results have not been taken.
    pub(crate) fn busy(&self) -> bool {
        self.outstanding != 0
    }

    /// The space for a closure in the line of the next call; `None` while other calls are outstanding.
    #[inline]
    pub(crate) fn room(&self) -> Option<&ClosureStorage> {
        (!self.busy()).then(|| self.origin.lane.room())
    }

    /// A free slot of the ring, or `None` if the result in the next slot has not been taken.
    #[inline]
    fn place(&mut self) -> Option<u64> {
        let seq = self.last + 1;
        if self.outstanding & bit(seq) != 0 {
            return None;
        }
        self.last = seq;
        self.outstanding |= bit(seq);
        Some(seq)
    }

    /// Posts a call and wakes the partner. Returns `None` if 64 calls are outstanding.
    #[inline]
    pub(crate) fn submit(&mut self, call: PostedCall) -> Option<u64> {
        let seq = self.place()?;
        self.origin.lane.ring(seq).post(call);
        self.wake();
        Some(seq)
    }

    /// Wakes the partner if it sleeps, possibly in advance of a call.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.mechanism != Mechanism::Polling && self.origin.lane.partner.0.ring() {
            sys::futex_wake(self.origin.lane.partner.0.word());
        }
    }

    /// Posts a call and waits for its result. Returns `None` if 64 calls are outstanding.
    #[inline]
    pub(crate) fn call(
        &mut self,
        call: PostedCall,
        witness: &ForkSentinel,
    ) -> Option<CallResolution> {
        let place = if self.outstanding == 0 {
            self.express += 1;
            LanePosition::Express(self.express)
        } else {
            LanePosition::Ring(self.place()?)
        };
        self.origin.lane.slot(place).post(call);
        let asleep = self.mechanism != Mechanism::Polling && self.origin.lane.partner.0.ring();
        if asleep && self.exchanger.is_none() {
            sys::futex_wake(self.origin.lane.partner.0.word());
        }
        Some(self.settle(place, asleep, witness))
    }

    /// Waits for the result of a submitted call.
    #[inline]
    pub(crate) fn wait(&mut self, seq: u64, witness: &ForkSentinel) -> CallResolution {
        self.settle(LanePosition::Ring(seq), false, witness)
    }

    /// Waits for a result. `asleep` says that the partner was found asleep; with an exchanger, the partner must still
    /// be woken.
    #[inline]
    fn settle(
        &mut self,
        place: LanePosition,
        asleep: bool,
        witness: &ForkSentinel,
    ) -> CallResolution {
        let glances = if self.limit > 0 && !asleep { GLANCES } else { 1 };
        let settled = match self.glance(place, glances) {
            Some(value) => CallResolution::There(value),
            None => self.settle_slowly(place, asleep, witness),
        };
        if let LanePosition::Ring(seq) = place {
            self.outstanding &= !bit(seq);
        }
        settled
    }

    /// Checks up to `glances` times for a result.
    #[inline]
    fn glance(&self, place: LanePosition, glances: u32) -> Option<u64> {
        let slot = self.origin.lane.slot(place);
        let again = |_| {
            self.origin.lane.pace(place);
            slot.result()
        };
        slot.result().or_else(|| (1..glances).find_map(again))
    }

    /// Spins within the budget, yields, sleeps, and takes the call back when its patience runs out.
    #[cold]
    fn settle_slowly(
        &mut self,
        place: LanePosition,
        asleep: bool,
        witness: &ForkSentinel,
    ) -> CallResolution {
        if witness.forked() {
            return self.left_behind(place);
        }
        let begun = sys::now();
        let deadline = begun.saturating_add(self.patience);
        // A partner that sleeps, has other calls, or needs this core comes later than a spin lasts.
        let others = self.outstanding.count_ones() > 1;
        let late = asleep || others || sys::current_core() == Some(self.core);
        let settled = self
            .spin(place, begun, late)
            .or_else(|| self.wait_to(place, (begun, deadline), asleep))
            .unwrap_or_else(|| self.take_back(place, begun));
        if !late {
            self.budget.learn(sys::now() - begun);
        }
        settled
    }

    /// Polls without a pause within the budget, then between yields.
    fn spin(&self, place: LanePosition, begun: u64, late: bool) -> Option<CallResolution> {
        let budget = if late { 0 } else { self.budget.now() };
        let most = match self.mechanism {
            Mechanism::Polling => self.patience,
            Mechanism::Adaptive if self.limit > 0 => self.patience.min(YIELDS_FOR),
            _ => 0,
        };
        let mut waited = sys::now() - begun;
        while waited < most {
            let spins = waited < budget;
            let glances = if spins { GLANCES } else { 1 };
            if let Some(value) = self.glance(place, glances) {
                return Some(CallResolution::There(value));
            }
            if !spins {
                sys::yield_now();
            }
            waited = sys::now() - begun;
        }
        None
    }

    /// Sleeps until the result is there or the time has come.
    fn wait_to(
        &mut self,
        place: LanePosition,
        (begun, deadline): (u64, u64),
        asleep: bool,
    ) -> Option<CallResolution> {
        // Without an exchanger the partner has been woken already.
        let mut wake = asleep && self.exchanger.is_some();
        loop {
            let now = sys::now();
            let left = deadline.saturating_sub(now);
            if left > 0 {
                self.sleep(place, left, now.saturating_sub(begun), &mut wake);
            }
            if wake {
                sys::futex_wake(self.origin.lane.partner.0.word());
                wake = false;
            }
            if let Some(value) = self.origin.lane.slot(place).result() {
                return Some(CallResolution::There(value));
            }
            if left == 0 {
                return None;
            }
        }
    }

    /// Sleeps for at most `nanoseconds` unless the result is there; `waited` is the time waited so far.
    fn sleep(&mut self, place: LanePosition, nanoseconds: u64, waited: u64, wake: &mut bool) {
        if self.mechanism == Mechanism::Polling {
            return sys::pause(nanoseconds.min(nap(waited)));
        }
        let bell = &self.origin.lane.caller.0;
        if !bell.lie_down(|| self.origin.lane.slot(place).result().is_some()) {
            return;
        }
        match &mut self.exchanger {
            Some(ring) => {
                let wake = std::mem::take(wake).then_some(self.origin.lane.partner.0.word());
                ring.exchange(wake, (bell.word(), ASLEEP), nanoseconds);
            }
            None => sys::futex_wait(bell.word(), ASLEEP, nanoseconds),
        }
        bell.get_up();
    }

    /// Takes back a call that the partner has not taken; otherwise its function is running, and its result will come.
    fn take_back(&mut self, place: LanePosition, begun: u64) -> CallResolution {
        let barrier = || self.origin.claiming == Claiming::Strict || sync::heavy();
        if self.origin.lane.slot(place).take_back(barrier) {
            return CallResolution::TakenBack(self.origin.lane.slot(place).call());
        }
        loop {
            let deadline = sys::now().saturating_add(LONGEST_SLEEP);
            if let Some(settled) = self.wait_to(place, (begun, deadline), false) {
                return settled;
            }
        }
    }

    /// In a forked child: takes back the calls that the parent's partner had not taken at the fork.
    fn left_behind(&mut self, place: LanePosition) -> CallResolution {
        // No partner is here to be ordered.
        if self.origin.lane.slot(place).take_back(|| true) {
            CallResolution::TakenBack(self.origin.lane.slot(place).call())
        } else {
            CallResolution::Lost
        }
    }

    /// The number of the oldest outstanding call.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let first = self.last.saturating_sub(SLOTS as u64 - 1).max(1);
        (first..=self.last).find(|&seq| self.outstanding & bit(seq) != 0)
    }

    /// Whether [`Self::submit`] returned this number and its result has not been taken.
    pub(crate) fn owes(&self, seq: u64) -> bool {
        seq > 0
            && seq <= self.last
            && self.last - seq < SLOTS as u64
            && self.outstanding & bit(seq) != 0
    }

    /// Ends the partner. No call may be outstanding when the partner ends.
    pub(crate) fn close(&mut self, witness: &ForkSentinel) {
        if witness.forked() {
            // The thread is the parent's: there is nothing to join, and its lane may look busy for ever.
            self.thread = None;
            return;
        }
        if self.origin.lane.close() {
            sys::futex_wake(self.origin.lane.partner.0.word());
        }
        self.end();
    }
}

/// The claiming mode of a partner: light if the partner polls, has no leash, and the kernel supports the barrier. A
/// program whose partners have leashes may forbid itself system calls, including the barrier, while calls are in
/// progress.
fn claiming(mechanism: Mechanism, options: &Options) -> Claiming {
    let polls = matches!(mechanism, Mechanism::Polling | Mechanism::Adaptive);
    if polls && options.leashes.is_empty() && sys::has_membarrier() {
        Claiming::Light
    } else {
        Claiming::Strict
    }
}

/// The length of a nap after a wait of `waited`.
fn nap(waited: u64) -> u64 {
    (waited / NAP_SHARE).clamp(NAPS[0], NAPS[1])
}

fn bit(seq: u64) -> u64 {
    1 << (seq % SLOTS as u64)
}

/// Runs a call that was taken back.
///
/// # Safety
///
/// The call's function must be safe to run with its argument on the caller's thread.
pub(crate) unsafe fn run_here(call: PostedCall) -> u64 {
    // SAFETY: by the caller.
    unsafe { partner::run(call) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nap_is_a_share_of_the_wait_within_its_limits() {
        let waits = [0, 1_600_000, 3_200_000, 64_000_000, 65_000_000, u64::MAX];
        assert_eq!(waits.map(nap), [50_000, 50_000, 100_000, 2_000_000, 2_000_000, 2_000_000]);
    }

    #[test]
    fn calls_are_claimed_lightly_only_where_a_partner_polls_without_a_leash() {
        static LEASHES: [Leash; 1] = [const { Leash::new() }; 1];
        let (free, held) =
            (Options::default(), Options { leashes: &LEASHES, ..Options::default() });
        let barrier = sys::has_membarrier();
        for mechanism in Mechanism::ALL {
            let polls = matches!(mechanism, Mechanism::Polling | Mechanism::Adaptive);
            let expected = if polls && barrier { Claiming::Light } else { Claiming::Strict };
            assert_eq!(claiming(mechanism, &free), expected, "{mechanism}");
            assert_eq!(claiming(mechanism, &held), Claiming::Strict, "{mechanism}");
        }
    }

    unsafe extern "C" fn number(_: *mut c_void) -> u64 {
        sys::thread() as u64
    }

    fn call() -> PostedCall {
        PostedCall { function: number as *const () as usize, argument: std::ptr::null_mut() }
    }

    /// A link to a partner on the last usable core, with its fork sentinel.
    fn line() -> (PartnerLink, Arc<ForkSentinel>) {
        let witness = Arc::new(ForkSentinel::new().unwrap());
        let core = sys::affinity().unwrap().iter().last().unwrap();
        let patient = Options { patience_ns: 60_000_000_000, ..Options::default() };
        (PartnerLink::open(core, Mechanism::HandOff, 0, &patient, &witness).unwrap(), witness)
    }

    #[test]
    fn a_partner_has_the_name_of_its_core_and_is_gone_when_its_line_is_closed() {
        let (mut line, witness) = line();
        let Some(CallResolution::There(partner)) = line.call(call(), &witness) else {
            panic!("no answer")
        };
        let name = std::fs::read_to_string(format!("/proc/self/task/{partner}/comm")).unwrap();
        assert_eq!(name.trim(), format!("corehop-{}", line.core));
        line.close(&witness);
        assert!(sys::is_gone(partner as i32));
    }

    #[test]
    fn a_line_owes_what_was_submitted_and_not_taken_the_oldest_first() {
        let (mut line, witness) = line();
        assert_eq!(
            (line.owes(0), line.owes(1), line.oldest(), line.busy()),
            (false, false, None, false)
        );
        let all: Vec<u64> = (0..70).map_while(|_| line.submit(call())).collect();
        assert_eq!(all, (1..=64).collect::<Vec<_>>(), "64 calls are outstanding");
        assert!((1..=64).all(|seq| line.owes(seq)) && !line.owes(65) && !line.owes(0));
        assert_eq!((line.oldest(), line.busy(), line.room().is_some()), (Some(1), true, false));
        line.wait(1, &witness);
        assert_eq!((line.owes(1), line.oldest()), (false, Some(2)));
        // The number of a call whose slot has another call by now is owed no more.
        assert_eq!((line.submit(call()), line.owes(65), line.owes(1)), (Some(65), true, false));
        for seq in [3, 2] {
            line.wait(seq, &witness);
        }
        assert_eq!(line.oldest(), Some(4));
        while let Some(seq) = line.oldest() {
            line.wait(seq, &witness);
        }
        assert_eq!((line.busy(), line.room().is_some()), (false, true));
        line.close(&witness);
    }

    #[test]
    fn the_start_of_a_partner_tells_its_error_or_none() {
        let told = |outcome: io::Result<u8>| {
            let start = PartnerStart::new();
            start.report(&outcome);
            start.wait().map_err(|error| error.raw_os_error())
        };
        assert_eq!(told(Ok(1)), Ok(()));
        assert_eq!(told(Err(io::Error::from_raw_os_error(22))), Err(Some(22)));
        assert_eq!(told(Err(io::Error::from(io::ErrorKind::Other))), Err(Some(libc::EIO)));
    }
}
