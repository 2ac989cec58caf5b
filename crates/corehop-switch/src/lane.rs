// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mailbox between a caller and its partner: which thread writes which cache line, and when.
//!
//! One thread posts calls, and the other executes them in the order of their numbers. A single call uses the
//! *express* slot: call, result and a small closure share one fixed cache line, so an empty call costs one transfer
//! of that line in each direction. Simultaneously outstanding calls use the slots of a ring, where each side writes
//! its own lines and the other side can prefetch the next ones.
//!
//! Each slot has a *claim*, which decides whether the partner runs a call or the caller takes it back, so that a call
//! runs exactly once. The caller touches claims only when its patience has run out, so the claims' cache lines stay
//! with the partner. With [`Claiming::Light`] the partner announces the call, checks whether the caller wants it
//! back, and runs it. The announcement and the check are two plain steps. The caller writes its request, makes the
//! kernel order the partner's two steps ([`sync::heavy`]), and then checks for the announcement. So at least one of
//! them sees the other. If the partner sees a request, or the caller sees no announcement, a compare-and-swap
//! decides. With [`Claiming::Strict`] the compare-and-swap always decides; this is used if the kernel has no such
//! barrier.
//!
//! The code uses no lock and no allocation, and unsafe code only accesses the closure. `models` checks these
//! functions in every order of their steps.

use core::mem::MaybeUninit;

use crate::fault::{ProtocolFault, planted};
use crate::sync::{
    self, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell, fence,
};

/// A value in its own pair of cache lines, because prefetchers fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// A posted call. The field `seq` is written last.
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

/// A request in its own half line, so that no request of the ring spans two lines.
#[derive(Debug)]
#[repr(align(32))]
struct RequestSlot(CallRequest);

/// A result, which takes a quarter of a line. The field `seq` is written last.
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

/// The number of words for a closure or its result in the line of the express slot.
pub(crate) const ROOM: usize = 3;

/// The content of a [`ClosureStorage`].
pub(crate) type RoomWords = MaybeUninit<[u64; ROOM]>;

/// Space for a small closure, and then for its small result. The space belongs to the caller, except from the post of
/// a call until its result, when it belongs to the thread that has claimed the call.
#[derive(Debug)]
pub(crate) struct ClosureStorage(UnsafeCell<RoomWords>);

impl ClosureStorage {
    fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Gives the content to the thread that owns the space.
    #[inline]
    pub(crate) fn open<T>(&self, work: impl FnOnce(*mut RoomWords) -> T) -> T {
        self.0.with_mut(work)
    }
}

// SAFETY: one thread has the room at a time, and the numbers of request and reply hand it over.
unsafe impl Sync for ClosureStorage {}

/// The claim of a slot, which decides who runs the call.
#[derive(Debug)]
struct SlotClaim {
    /// The last call that the partner has announced. Only the partner writes this field.
    announced: AtomicU64,
    /// The number of the last disputed call, times four, plus the state of the dispute.
    decided: AtomicU64,
}

impl SlotClaim {
    fn new() -> Self {
        Self { announced: AtomicU64::new(0), decided: AtomicU64::new(0) }
    }
}

/// The state of a disputed call.
#[derive(Clone, Copy, Debug)]
enum RecallState {
    /// The caller wants the call back. The dispute about the call is not decided yet.
    Wanted = 1,
    /// The caller has taken the call back.
    TakenBack = 2,
    /// The partner runs the call.
    Runs = 3,
}

/// The way in which the partner claims calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claiming {
    /// The partner claims calls by plain steps, which the kernel can order for the caller.
    Light,
    /// The partner claims every call by a compare-and-swap.
    Strict,
}

/// A call as it was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostedCall {
    /// The address of the function.
    pub(crate) function: usize,
    pub(crate) argument: *mut (),
}

/// A call that the partner may run, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneDecision {
    /// No call has been posted.
    Nothing,
    /// The caller has taken the call back; continue with the next number.
    TakenBack,
    /// The partner owns the call and must run it.
    Run(PostedCall),
}

/// The slot of a call. Numbers start at 1 and have no gaps, separately for the ring and the express slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LanePosition {
    /// The express slot, for a single call.
    Express(u64),
    Ring(u64),
}

/// A slot while it belongs to call `seq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallSlot<'a> {
    request: &'a CallRequest,
    reply: &'a Reply,
    claim: &'a SlotClaim,
    seq: u64,
}

impl CallSlot<'_> {
    /// Posts the call; for the caller. The result of the slot's previous call must have been taken.
    #[inline]
    pub(crate) fn post(self, call: PostedCall) {
        self.request.function.store(call.function, Ordering::Relaxed);
        self.request.argument.store(call.argument, Ordering::Relaxed);
        let is_early = planted(ProtocolFault::PostsWithoutRelease);
        let order = if is_early { Ordering::Relaxed } else { Ordering::Release };
        self.request.seq.store(self.seq, order);
    }

    /// Whether this call, or a later call in the slot, has been posted; for the partner.
    #[inline]
    pub(crate) fn posted(self) -> bool {
        self.request.seq.load(Ordering::Acquire) >= self.seq
    }

    /// Takes the call if it has been posted and not taken back; for the partner.
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

    /// Claims the call; for the partner. Returns false if the caller has taken the call back.
    #[inline]
    fn claimed(self, claiming: Claiming) -> bool {
        claiming == Claiming::Light && self.announce() || self.decide(RecallState::Runs)
    }

    /// Announces the call, then checks for a request; for the partner. Returns true if the caller has not requested
    /// the call back, or will see this announcement.
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

    /// The call, for the thread that has claimed it.
    #[inline]
    pub(crate) fn call(self) -> PostedCall {
        PostedCall {
            function: self.request.function.load(Ordering::Relaxed),
            argument: self.request.argument.load(Ordering::Relaxed),
        }
    }

    /// Takes the call back; for the caller. Returns false if the partner has the call or will have it, so that its
    /// result will come.
    ///
    /// `barrier` orders the steps of a partner that claims lightly, and returns false if the ordering failed.
    pub(crate) fn take_back(self, barrier: impl FnOnce() -> bool) -> bool {
        self.decide(RecallState::Wanted)
            && (planted(ProtocolFault::TakesBackWithoutOrder) || barrier())
            && self.claim.announced.load(Ordering::Relaxed) < self.seq
            && self.decide(RecallState::TakenBack)
    }

    /// Decides the dispute about the call, unless it is already decided.
    #[cold]
    fn decide(self, decision: RecallState) -> bool {
        let open = self.seq << 2 | RecallState::TakenBack as u64;
        let mine = self.seq << 2 | decision as u64;
        let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
        self.claim.decided.fetch_update(yes, no, |it| (it < open).then_some(mine)).is_ok()
    }

    /// Returns the result to the caller; for the partner.
    #[inline]
    pub(crate) fn reply(self, value: u64) {
        if planted(ProtocolFault::AnnouncesBeforeResult) {
            self.reply.seq.store(self.seq, Ordering::Release);
        }
        self.reply.value.store(value, Ordering::Relaxed);
        self.reply.seq.store(self.seq, Ordering::Release);
    }

    /// The result, once it is available; for the caller.
    #[inline]
    pub(crate) fn result(self) -> Option<u64> {
        let there = self.reply.seq.load(Ordering::Acquire) == self.seq;
        there.then(|| self.reply.value.load(Ordering::Relaxed))
    }
}

/// The closure storage, the request and the reply of one call, in one cache line.
#[derive(Debug)]
#[repr(C)]
struct Express {
    room: ClosureStorage,
    request: CallRequest,
    reply: Reply,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Express>() == 64, "an express call has one line");

/// An express slot and a ring of `N` slots between two threads.
#[derive(Debug)]
pub(crate) struct Lane<const N: usize> {
    express: Apart<Express>,
    express_claim: Apart<SlotClaim>,
    requests: Apart<[RequestSlot; N]>,
    replies: Apart<[Reply; N]>,
    claims: Apart<[SlotClaim; N]>,
    /// The doorbell on which the partner sleeps.
    pub(crate) partner: Apart<Doorbell>,
    /// The doorbell on which the caller sleeps.
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

    /// The closure storage in the line of the express slot.
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

    /// Pauses before the next check of a slot, and makes that check fetch the line for writing.
    ///
    /// Checks without a pause would take the line away between two stores of the other side. A line of the ring stays
    /// with its writer, because it contains the next slots too.
    #[inline]
    pub(crate) fn pace(&self, place: LanePosition) {
        core::hint::spin_loop();
        if matches!(place, LanePosition::Express(_)) {
            sync::own(&self.express.0.request);
        }
    }

    /// Announces that no further call will be posted; for the caller. The caller must wake the partner if the
    /// function returns true.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        self.closing.0.store(1, Ordering::Release);
        self.partner.0.ring()
    }

    /// Whether the partner must end once no call is posted.
    #[inline]
    pub(crate) fn closing(&self) -> bool {
        self.closing.0.load(Ordering::Acquire) == 1
    }
}

/// The partner's position in a lane: the numbers of the next calls in the express slot and in the ring.
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

    /// Checks up to `glances` times whether a call has been posted.
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

    /// Takes the next call, with the slot for its result; calls that were taken back are skipped.
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

/// The word on which one thread sleeps and which the other thread rings.
///
/// The sleeper announces its sleep, then checks for news once more. The other thread writes its news, then checks
/// whether the first thread sleeps. Each thread executes a full fence between its two steps, so at least one of the
/// threads sees the first step of the other thread.
#[derive(Debug)]
pub(crate) struct Doorbell {
    word: AtomicU32,
}

/// The value of a doorbell while its thread sleeps, or is about to sleep.
pub(crate) const ASLEEP: u32 = 1;
const AWAKE: u32 = 0;

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(AWAKE) }
    }

    /// The word to sleep on, as long as its value is [`ASLEEP`].
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Announces a sleep; for the sleeper. Returns true if the sleep may begin, because `news` returns false.
    pub(crate) fn lie_down(&self, news: impl FnOnce() -> bool) -> bool {
        self.word.store(ASLEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !planted(ProtocolFault::SleepsWithoutLooking) && news() {
            self.get_up();
            return false;
        }
        true
    }

    /// Marks the sleeper as awake.
    pub(crate) fn get_up(&self) {
        self.word.store(AWAKE, Ordering::Relaxed);
    }

    /// Rings after news; for the other thread. Returns true if the thread sleeps and must be woken on [`Self::word`].
    #[inline]
    #[must_use]
    pub(crate) fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        self.word.load(Ordering::Relaxed) == ASLEEP
            && self.word.swap(AWAKE, Ordering::AcqRel) == ASLEEP
    }

    /// Whether the thread sleeps, or is about to sleep. The result is only a hint.
    pub(crate) fn sleeps(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASLEEP
    }
}

#[cfg(all(test, not(loom)))]
#[path = "lane_tests.rs"]
mod tests;
