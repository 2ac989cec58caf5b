// SPDX-License-Identifier: MIT OR Apache-2.0
//! The mailbox between a caller and its partner: who writes which line, and when.
//!
//! One thread posts calls, one carries them out, in the order of their numbers. A call travels in one line, written by
//! the caller alone, and its result in another, written by the partner alone: an empty call costs what two exchanges of
//! lines cost. A third line holds the *claims*, one word for each slot. The partner claims a call before it runs it, the
//! caller claims it to take it back; a compare-and-swap lets one of them win, so that a call runs exactly once. The
//! caller touches claims only when it has lost patience, so that the line stays with the partner.
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

/// A result, in a quarter of a line. `seq` is written last.
#[derive(Debug)]
#[repr(align(16))]
struct Reply {
    seq: AtomicU64,
    value: AtomicU64,
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

/// Slots for `N` calls between two threads. Numbers of calls begin with 1 and are given without gaps.
#[derive(Debug)]
pub(crate) struct Lane<const N: usize> {
    requests: Apart<[Request; N]>,
    replies: Apart<[Reply; N]>,
    /// The last number that was decided for the slot, doubled; odd if the caller took it back.
    claims: Apart<[AtomicU64; N]>,
    /// The partner sleeps here.
    pub(crate) partner: Apart<Doorbell>,
    /// The caller sleeps here.
    pub(crate) caller: Apart<Doorbell>,
    closing: Apart<AtomicU32>,
}

impl<const N: usize> Lane<N> {
    pub(crate) fn new() -> Self {
        let null = core::ptr::null_mut;
        Self {
            requests: Apart(core::array::from_fn(|_| Request {
                seq: AtomicU64::new(0),
                function: AtomicUsize::new(0),
                argument: AtomicPtr::new(null()),
            })),
            replies: Apart(core::array::from_fn(|_| Reply {
                seq: AtomicU64::new(0),
                value: AtomicU64::new(0),
            })),
            claims: Apart(core::array::from_fn(|_| AtomicU64::new(0))),
            partner: Apart(Doorbell::new()),
            caller: Apart(Doorbell::new()),
            closing: Apart(AtomicU32::new(0)),
        }
    }

    fn slot(seq: u64) -> usize {
        (seq % N as u64) as usize
    }

    /// Caller: posts a call. The result of number `seq - N` has been taken.
    #[inline]
    pub(crate) fn post(&self, seq: u64, call: Call) {
        let request = &self.requests.0[Self::slot(seq)];
        request.function.store(call.function, Ordering::Relaxed);
        request.argument.store(call.argument, Ordering::Relaxed);
        request.seq.store(seq, Ordering::Release);
    }

    /// Partner: whether call `seq`, or one after it in the same slot, has been posted.
    #[inline]
    pub(crate) fn posted(&self, seq: u64) -> bool {
        self.requests.0[Self::slot(seq)].seq.load(Ordering::Acquire) >= seq
    }

    /// Partner: takes call `seq`, if it has been posted and not taken back.
    #[inline]
    pub(crate) fn take(&self, seq: u64) -> Next {
        if !self.posted(seq) {
            return Next::Nothing;
        }
        if !self.claim(seq, false) && !planted(Fault::TakesWithoutClaim) {
            return Next::TakenBack;
        }
        Next::Run(self.call(seq))
    }

    /// The call in the slot of `seq`: for the thread that has claimed it.
    pub(crate) fn call(&self, seq: u64) -> Call {
        let request = &self.requests.0[Self::slot(seq)];
        Call {
            function: request.function.load(Ordering::Relaxed),
            argument: request.argument.load(Ordering::Relaxed),
        }
    }

    /// Caller: takes call `seq` back. False if the partner has it, and its result will come.
    pub(crate) fn take_back(&self, seq: u64) -> bool {
        self.claim(seq, true)
    }

    /// Decides who runs call `seq`; true for the one who does.
    #[inline]
    fn claim(&self, seq: u64, back: bool) -> bool {
        let claim = &self.claims.0[Self::slot(seq)];
        let before = claim.load(Ordering::Relaxed);
        let mine = seq << 1 | u64::from(back);
        before >> 1 < seq
            && claim.compare_exchange(before, mine, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Partner: hands the result of call `seq` back.
    #[inline]
    pub(crate) fn reply(&self, seq: u64, value: u64) {
        let reply = &self.replies.0[Self::slot(seq)];
        if planted(Fault::AnnouncesBeforeResult) {
            reply.seq.store(seq, Ordering::Release);
        }
        reply.value.store(value, Ordering::Relaxed);
        reply.seq.store(seq, Ordering::Release);
    }

    /// Caller: the result of call `seq`, once it is there.
    #[inline]
    pub(crate) fn result(&self, seq: u64) -> Option<u64> {
        let reply = &self.replies.0[Self::slot(seq)];
        (reply.seq.load(Ordering::Acquire) == seq).then(|| reply.value.load(Ordering::Relaxed))
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
    fn new() -> Self {
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
