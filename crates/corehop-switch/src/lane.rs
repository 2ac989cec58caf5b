// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mailbox between a caller and its partner: who writes which line, and when.
//!
//! One thread posts calls, the other carries them out, in the order of their numbers. A call that is alone travels by the
//! *express* slot: call, result and a small closure share one line, always the same, so that an empty call costs what it
//! costs to send a line there and back. Calls that are outstanding together have the slots of a ring, where each side
//! writes lines of its own and the other side can fetch the next ones meanwhile.
//!
//! Beside each slot there is a *claim*, which decides whether the partner runs a call or the caller takes it back, so that
//! a call runs exactly once. The caller touches claims only when it has lost patience, so that their lines stay with the
//! partner. By [`Claiming::Light`] the partner announces the call, looks whether the caller wants it back, and runs it: two
//! plain steps. The caller writes its wish, then lets the kernel order the partner's two steps ([`sync::heavy`]), then
//! looks for the announcement. So one of them sees the other, and where the partner sees a wish, or the caller sees no
//! announcement, a compare-and-swap decides. By [`Claiming::Strict`] it decides always: where the kernel has no such
//! barrier.
//!
//! There is no lock and no allocation here, and unsafe code only reaches the closure. `models` runs these functions in
//! every order of their steps.

use core::mem::MaybeUninit;

use crate::fault::{ProtocolFault, planted};
use crate::sync::{
    self, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell, fence,
};

/// Alone in its lines: prefetchers bring them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// A call. `seq` is written last.
#[derive(Debug)]
struct CallRequest {
    seq: AtomicU64,
    function: AtomicUsize,
    argument: AtomicPtr<()>,
}

impl CallRequest {
    fn new() -> Self {
        let argument = AtomicPtr::new(core::ptr::null_mut());
        Self { seq: AtomicU64::new(0), function: AtomicUsize::new(0), argument }
    }
}

/// Alone in half a line: no request of the ring lies in two lines.
#[derive(Debug)]
#[repr(align(32))]
struct RequestSlot(CallRequest);

/// A result, in a quarter of a line. `seq` is written last.
#[derive(Debug)]
#[repr(align(16))]
struct Reply {
    seq: AtomicU64,
    value: AtomicU64,
}

impl Reply {
    fn new() -> Self {
        Self { seq: AtomicU64::new(0), value: AtomicU64::new(0) }
    }
}

/// The words of a closure, or of its result, that travel in the line of the express slot.
pub(crate) const ROOM: usize = 3;

/// The content of a [`ClosureStorage`].
pub(crate) type RoomWords = MaybeUninit<[u64; ROOM]>;

/// The place for a small closure, and then for its small result. The caller has it, but from the post of a call until its
/// result; meanwhile it is of the thread that has claimed the call.
#[derive(Debug)]
pub(crate) struct ClosureStorage(UnsafeCell<RoomWords>);

impl ClosureStorage {
    fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Gives the content to the thread that has the room.
    #[inline]
    pub(crate) fn open<T>(&self, work: impl FnOnce(*mut RoomWords) -> T) -> T {
        self.0.with_mut(work)
    }
}

// SAFETY: one thread has the room at a time, and the numbers of request and reply hand it over.
unsafe impl Sync for ClosureStorage {}

/// The claim of a slot: who runs the call.
#[derive(Debug)]
struct SlotClaim {
    /// The last call that the partner is about to run. The partner alone writes it.
    announced: AtomicU64,
    /// The number of the last call about which there was a question, times four, and how it stands.
    decided: AtomicU64,
}

impl SlotClaim {
    fn new() -> Self {
        Self { announced: AtomicU64::new(0), decided: AtomicU64::new(0) }
    }
}

/// The state of the question about a call.
#[derive(Clone, Copy, Debug)]
enum RecallState {
    /// The caller wants the call back. This is not decided yet.
    Wanted = 1,
    /// The caller has it.
    TakenBack = 2,
    /// The partner has it.
    Runs = 3,
}

/// The way in which the partner claims calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claiming {
    /// By plain steps, which the kernel can order for the caller.
    Light,
    /// By a compare-and-swap for every call.
    Strict,
}

/// A call as it was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostedCall {
    /// The address of the function.
    pub(crate) function: usize,
    pub(crate) argument: *mut (),
}

/// A call that the partner may run, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneDecision {
    /// Nothing has been posted.
    Nothing,
    /// The caller has taken it back: go on with the next number.
    TakenBack,
    /// It is the partner's now.
    Run(PostedCall),
}

/// The place of a call. Numbers begin with 1 and are given without gaps, in the ring and for the express slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LanePosition {
    /// For a call that is alone.
    Express(u64),
    Ring(u64),
}

/// A slot, while it is that of call `seq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSlot<'a> {
    request: &'a CallRequest,
    reply: &'a Reply,
    claim: &'a SlotClaim,
    seq: u64,
}

impl CallSlot<'_> {
    /// Caller: posts the call. The result of the call before it in this slot has been taken.
    #[inline]
    pub(crate) fn post(self, call: PostedCall) {
        self.request.function.store(call.function, Ordering::Relaxed);
        self.request.argument.store(call.argument, Ordering::Relaxed);
        let is_early = planted(ProtocolFault::PostsWithoutRelease);
        let order = if is_early { Ordering::Relaxed } else { Ordering::Release };
        self.request.seq.store(self.seq, order);
    }

    /// Partner: whether the call, or one after it in the same slot, has been posted.
    #[inline]
    pub(crate) fn posted(self) -> bool {
        self.request.seq.load(Ordering::Acquire) >= self.seq
    }

    /// Partner: takes the call, if it has been posted and not taken back.
    #[inline]
    pub(crate) fn take(self, claiming: Claiming) -> LaneDecision {
        if !self.posted() {
            return LaneDecision::Nothing;
        }
        if !self.claimed(claiming) && !planted(ProtocolFault::TakesWithoutClaim) {
            return LaneDecision::TakenBack;
        }
        LaneDecision::Run(self.call())
    }

    /// Partner: claims the call; false if the caller has taken it back.
    #[inline]
    fn claimed(self, claiming: Claiming) -> bool {
        claiming == Claiming::Light && self.announce() || self.decide(RecallState::Runs)
    }

    /// Partner: announces the call, then looks; true if the caller has no wish by then, or one that will see this.
    #[inline]
    fn announce(self) -> bool {
        let is_wanted = || self.claim.decided.load(Ordering::Relaxed) >> 2 >= self.seq;
        let before = planted(ProtocolFault::LooksBeforeItAnnounces) && is_wanted();
        self.claim.announced.store(self.seq, Ordering::Relaxed);
        if planted(ProtocolFault::LooksBeforeItAnnounces) {
            return !before;
        }
        if !planted(ProtocolFault::AnnouncesWithoutOrder) {
            sync::light();
        }
        !is_wanted()
    }

    /// The call: for the thread that has claimed it.
    #[inline]
    pub(crate) fn call(self) -> PostedCall {
        PostedCall {
            function: self.request.function.load(Ordering::Relaxed),
            argument: self.request.argument.load(Ordering::Relaxed),
        }
    }

    /// Caller: takes the call back. False if the partner has it, or will have it, and its result will come.
    ///
    /// `barrier` orders the steps of a partner that claims lightly, and is false if it could not.
    pub(crate) fn take_back(self, barrier: impl FnOnce() -> bool) -> bool {
        self.decide(RecallState::Wanted)
            && (planted(ProtocolFault::TakesBackWithoutOrder) || barrier())
            && self.claim.announced.load(Ordering::Relaxed) < self.seq
            && self.decide(RecallState::TakenBack)
    }

    /// Decides about the call, unless it has been decided.
    #[cold]
    fn decide(self, decision: RecallState) -> bool {
        let open = self.seq << 2 | RecallState::TakenBack as u64;
        let mine = self.seq << 2 | decision as u64;
        let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
        self.claim.decided.fetch_update(yes, no, |it| (it < open).then_some(mine)).is_ok()
    }

    /// Partner: hands the result back.
    #[inline]
    pub(crate) fn reply(self, value: u64) {
        if planted(ProtocolFault::AnnouncesBeforeResult) {
            self.reply.seq.store(self.seq, Ordering::Release);
        }
        self.reply.value.store(value, Ordering::Relaxed);
        self.reply.seq.store(self.seq, Ordering::Release);
    }

    /// Caller: the result, once it is there.
    #[inline]
    pub(crate) fn result(self) -> Option<u64> {
        let there = self.reply.seq.load(Ordering::Acquire) == self.seq;
        there.then(|| self.reply.value.load(Ordering::Relaxed))
    }
}

/// Both sides of one call, in one line.
#[derive(Debug)]
#[repr(C)]
struct Express {
    room: ClosureStorage,
    request: CallRequest,
    reply: Reply,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Express>() == 64, "an express call has one line");

/// An express slot, and a ring of `N` slots, between two threads.
#[derive(Debug)]
pub(crate) struct Lane<const N: usize> {
    express: Apart<Express>,
    express_claim: Apart<SlotClaim>,
    requests: Apart<[RequestSlot; N]>,
    replies: Apart<[Reply; N]>,
    claims: Apart<[SlotClaim; N]>,
    /// The partner sleeps here.
    pub(crate) partner: Apart<Doorbell>,
    /// The caller sleeps here.
    pub(crate) caller: Apart<Doorbell>,
    closing: Apart<AtomicU32>,
}

impl<const N: usize> Lane<N> {
    pub(crate) fn new() -> Self {
        let (room, request, reply) = (ClosureStorage::new(), CallRequest::new(), Reply::new());
        Self {
            express: Apart(Express { room, request, reply }),
            express_claim: Apart(SlotClaim::new()),
            requests: Apart(core::array::from_fn(|_| RequestSlot(CallRequest::new()))),
            replies: Apart(core::array::from_fn(|_| Reply::new())),
            claims: Apart(core::array::from_fn(|_| SlotClaim::new())),
            partner: Apart(Doorbell::new()),
            caller: Apart(Doorbell::new()),
            closing: Apart(AtomicU32::new(0)),
        }
    }

    #[inline]
    pub(crate) fn express(&self, seq: u64) -> CallSlot<'_> {
        let Express { request, reply, .. } = &self.express.0;
        CallSlot { request, reply, claim: &self.express_claim.0, seq }
    }

    /// The room in the line of the express slot.
    #[inline]
    pub(crate) fn room(&self) -> &ClosureStorage {
        &self.express.0.room
    }

    #[inline]
    pub(crate) fn ring(&self, seq: u64) -> CallSlot<'_> {
        let at = (seq % N as u64) as usize;
        let (request, reply) = (&self.requests.0[at].0, &self.replies.0[at]);
        CallSlot { request, reply, claim: &self.claims.0[at], seq }
    }

    #[inline]
    pub(crate) fn slot(&self, place: LanePosition) -> CallSlot<'_> {
        match place {
            LanePosition::Express(seq) => self.express(seq),
            LanePosition::Ring(seq) => self.ring(seq),
        }
    }

    /// Passes the time until the next look at a place, and has that look bring the line for writing.
    ///
    /// Looks without a pause take the line away between two stores of the other side. The line of the ring stays with its
    /// writer, as the next ones are in it.
    #[inline]
    pub(crate) fn pace(&self, place: LanePosition) {
        core::hint::spin_loop();
        if matches!(place, LanePosition::Express(_)) {
            sync::own(&self.express.0.request);
        }
    }

    /// Caller: nothing more will be posted. Wake the partner if this says so.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        self.closing.0.store(1, Ordering::Release);
        self.partner.0.ring()
    }

    /// Partner: whether to end once nothing is posted.
    #[inline]
    pub(crate) fn closing(&self) -> bool {
        self.closing.0.load(Ordering::Acquire) == 1
    }
}

/// The partner's place in a lane: the next numbers.
#[derive(Debug)]
pub(crate) struct LaneConsumer<'a, const N: usize> {
    lane: &'a Lane<N>,
    claiming: Claiming,
    express: u64,
    ring: u64,
}

impl<'a, const N: usize> LaneConsumer<'a, N> {
    pub(crate) fn new(lane: &'a Lane<N>, claiming: Claiming) -> Self {
        Self { lane, claiming, express: 1, ring: 1 }
    }

    /// Whether a call has been posted.
    #[inline]
    pub(crate) fn posted(&self) -> bool {
        self.lane.express(self.express).posted() || self.lane.ring(self.ring).posted()
    }

    /// Looks so often whether a call has been posted.
    #[inline]
    pub(crate) fn glance(&self, glances: u32) -> bool {
        let again = |_| {
            self.lane.pace(LanePosition::Express(self.express));
            self.posted()
        };
        self.posted() || (1..glances).any(again)
    }

    /// Whether a call has been posted, or the lane is closing.
    #[inline]
    pub(crate) fn news(&self) -> bool {
        self.posted() || self.lane.closing()
    }

    /// Takes the next call, with the slot for its result; calls that were taken back are passed over.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(CallSlot<'a>, PostedCall)> {
        loop {
            let (slot, number) = if self.lane.express(self.express).posted() {
                (self.lane.express(self.express), &mut self.express)
            } else {
                (self.lane.ring(self.ring), &mut self.ring)
            };
            let next = slot.take(self.claiming);
            if next == LaneDecision::Nothing {
                return None;
            }
            *number += 1;
            if let LaneDecision::Run(call) = next {
                return Some((slot, call));
            }
        }
    }
}

/// The word on which one thread sleeps and which the other rings.
///
/// The sleeper announces itself, then looks once more; the other writes its news, then looks whether someone sleeps.
/// Between the two steps of each there is a full fence, so that one of them sees the other.
#[derive(Debug)]
pub(crate) struct Doorbell {
    word: AtomicU32,
}

/// The value of a doorbell while its thread sleeps, or is about to.
pub(crate) const ASLEEP: u32 = 1;
const AWAKE: u32 = 0;

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(AWAKE) }
    }

    /// The word to sleep on, as long as it is [`ASLEEP`].
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Sleeper: announces a sleep. True if it may begin: `news` has nothing yet.
    pub(crate) fn lie_down(&self, news: impl FnOnce() -> bool) -> bool {
        self.word.store(ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !planted(ProtocolFault::SleepsWithoutLooking) && news() {
            self.get_up();
            return false;
        }
        true
    }

    /// Sleeper: is awake.
    pub(crate) fn get_up(&self) {
        self.word.store(AWAKE, Ordering::Relaxed);
    }

    /// Other: after news. True if the thread sleeps and has to be woken on [`Self::word`].
    #[inline]
    #[must_use]
    pub(crate) fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.word.load(Ordering::Relaxed) == ASLEEP
            && self.word.swap(AWAKE, Ordering::AcqRel) == ASLEEP
    }

    /// Whether the thread sleeps, or is about to. A hint.
    pub(crate) fn sleeps(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASLEEP
    }
}

#[cfg(all(test, not(loom)))]
#[path = "lane_tests.rs"]
mod tests;
