// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mailbox between a caller and its partner: who writes which line, and when.
//!
//! One thread posts calls, the other carries them out, in the order of their numbers. A call that is alone travels by the
//! *express* slot: call and result share one line, always the same, so that an empty call costs what it costs to send a
//! line there and back. Calls that are outstanding together have the slots of a ring, where each side writes lines of its
//! own and the other side can fetch the next ones meanwhile.
//!
//! Beside each slot there is a *claim*. The partner claims a call before it runs it, the caller claims it to take it back;
//! a compare-and-swap lets one of them win, so that a call runs exactly once. The caller touches claims only when it has
//! lost patience, so that their lines stay with the partner.
//!
//! There is no lock, no allocation and no unsafe code here. `models` runs these functions in every order of their steps.

use crate::fault::{Fault, planted};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// Alone in its lines: prefetchers bring them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

/// A call, in half a line. `seq` is written last.
#[derive(Debug)]
#[repr(align(32))]
struct Request {
    seq: AtomicU64,
    function: AtomicUsize,
    argument: AtomicPtr<()>,
}

impl Request {
    fn new() -> Self {
        let argument = AtomicPtr::new(core::ptr::null_mut());
        Self { seq: AtomicU64::new(0), function: AtomicUsize::new(0), argument }
    }
}

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

/// A call as it was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The address of the function.
    pub(crate) function: usize,
    pub(crate) argument: *mut (),
}

/// A call that the partner may run, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing has been posted.
    Nothing,
    /// The caller has taken it back: go on with the next number.
    TakenBack,
    /// It is the partner's now.
    Run(Call),
}

/// The place of a call. Numbers begin with 1 and are given without gaps, in the ring and for the express slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// For a call that is alone.
    Express(u64),
    Ring(u64),
}

/// A slot, while it is that of call `seq`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    request: &'a Request,
    reply: &'a Reply,
    /// The last number that was decided for the slot, doubled; odd if the caller took it back.
    claim: &'a AtomicU64,
    seq: u64,
}

impl Slot<'_> {
    /// Caller: posts the call. The result of the call before it in this slot has been taken.
    #[inline]
    pub(crate) fn post(self, call: Call) {
        self.request.function.store(call.function, Ordering::Relaxed);
        self.request.argument.store(call.argument, Ordering::Relaxed);
        self.request.seq.store(self.seq, Ordering::Release);
    }

    /// Partner: whether the call, or one after it in the same slot, has been posted.
    #[inline]
    pub(crate) fn posted(self) -> bool {
        self.request.seq.load(Ordering::Acquire) >= self.seq
    }

    /// Partner: takes the call, if it has been posted and not taken back.
    #[inline]
    pub(crate) fn take(self) -> Next {
        if !self.posted() {
            return Next::Nothing;
        }
        if !self.claim(false) && !planted(Fault::TakesWithoutClaim) {
            return Next::TakenBack;
        }
        Next::Run(self.call())
    }

    /// The call: for the thread that has claimed it.
    #[inline]
    pub(crate) fn call(self) -> Call {
        Call {
            function: self.request.function.load(Ordering::Relaxed),
            argument: self.request.argument.load(Ordering::Relaxed),
        }
    }

    /// Caller: takes the call back. False if the partner has it, and its result will come.
    pub(crate) fn take_back(self) -> bool {
        self.claim(true)
    }

    /// Decides who runs the call; true for the one who does.
    #[inline]
    fn claim(self, back: bool) -> bool {
        let before = self.claim.load(Ordering::Relaxed);
        let mine = self.seq << 1 | u64::from(back);
        let (yes, no) = (Ordering::AcqRel, Ordering::Relaxed);
        before >> 1 < self.seq && self.claim.compare_exchange(before, mine, yes, no).is_ok()
    }

    /// Partner: hands the result back.
    #[inline]
    pub(crate) fn reply(self, value: u64) {
        if planted(Fault::AnnouncesBeforeResult) {
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
struct Express {
    request: Request,
    reply: Reply,
}

/// An express slot, and a ring of `N` slots, between two threads.
#[derive(Debug)]
pub(crate) struct Lane<const N: usize> {
    express: Apart<Express>,
    express_claim: Apart<AtomicU64>,
    requests: Apart<[Request; N]>,
    replies: Apart<[Reply; N]>,
    claims: Apart<[AtomicU64; N]>,
    /// The partner sleeps here.
    pub(crate) partner: Apart<Doorbell>,
    /// The caller sleeps here.
    pub(crate) caller: Apart<Doorbell>,
    closing: Apart<AtomicU32>,
}

impl<const N: usize> Lane<N> {
    pub(crate) fn new() -> Self {
        Self {
            express: Apart(Express { request: Request::new(), reply: Reply::new() }),
            express_claim: Apart(AtomicU64::new(0)),
            requests: Apart(core::array::from_fn(|_| Request::new())),
            replies: Apart(core::array::from_fn(|_| Reply::new())),
            claims: Apart(core::array::from_fn(|_| AtomicU64::new(0))),
            partner: Apart(Doorbell::new()),
            caller: Apart(Doorbell::new()),
            closing: Apart(AtomicU32::new(0)),
        }
    }

    #[inline]
    pub(crate) fn express(&self, seq: u64) -> Slot<'_> {
        let Express { request, reply } = &self.express.0;
        Slot { request, reply, claim: &self.express_claim.0, seq }
    }

    #[inline]
    pub(crate) fn ring(&self, seq: u64) -> Slot<'_> {
        let at = (seq % N as u64) as usize;
        let (request, reply) = (&self.requests.0[at], &self.replies.0[at]);
        Slot { request, reply, claim: &self.claims.0[at], seq }
    }

    #[inline]
    pub(crate) fn slot(&self, place: Place) -> Slot<'_> {
        match place {
            Place::Express(seq) => self.express(seq),
            Place::Ring(seq) => self.ring(seq),
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
pub(crate) struct Follower<'a, const N: usize> {
    lane: &'a Lane<N>,
    express: u64,
    ring: u64,
}

impl<'a, const N: usize> Follower<'a, N> {
    pub(crate) fn new(lane: &'a Lane<N>) -> Self {
        Self { lane, express: 1, ring: 1 }
    }

    /// Whether a call has been posted.
    #[inline]
    pub(crate) fn posted(&self) -> bool {
        self.lane.express(self.express).posted() || self.lane.ring(self.ring).posted()
    }

    /// Whether a call has been posted, or the lane is closing.
    #[inline]
    pub(crate) fn news(&self) -> bool {
        self.posted() || self.lane.closing()
    }

    /// Takes the next call, with the slot for its result; calls that were taken back are passed over.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Slot<'a>, Call)> {
        loop {
            let (slot, number) = if self.lane.express(self.express).posted() {
                (self.lane.express(self.express), &mut self.express)
            } else {
                (self.lane.ring(self.ring), &mut self.ring)
            };
            let next = slot.take();
            if next == Next::Nothing {
                return None;
            }
            *number += 1;
            if let Next::Run(call) = next {
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
        if !planted(Fault::SleepsWithoutLooking) && news() {
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
