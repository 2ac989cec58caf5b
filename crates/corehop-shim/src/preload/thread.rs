// SPDX-License-Identifier: MIT OR Apache-2.0
//! The belongings of a thread: its row on the board and, after some calls, its partner.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use corehop_switch::policy::{CoreHistory, CoreSet, Flags};
use corehop_switch::{Leash, Mechanism, Options, Switch};

use super::kernel::{self, Signals};
use super::private::PartnerScope;
use super::process::{self, ShimProcess};
use crate::board::{CallFate, ProcessEvent, ThreadRow};
use crate::call::Call;
use crate::predict::Predictor;

/// Calls that qualify before a thread gets a partner: short programs get none.
const FIRST: u32 = 32;
/// Calls until the next attempt, if one was not possible.
const AGAIN: u32 = 1024;
/// The most partners of a process. Further threads make their calls themselves.
const MOST_PARTNERS: u32 = 64;
/// The longest wait for partners that are to end, in nanoseconds: one may be writing to a disk.
const LONGEST_END: u64 = 10_000_000_000;

/// Everything that off-loading takes.
pub(super) struct OffloadContext {
    pub(super) switch: Switch,
    pub(super) predictor: Predictor,
    pub(super) memory: CoreHistory,
    /// The thread's number: a child that shares this memory has another one.
    pub(super) tid: u64,
    partners: u32,
}

struct Mine {
    row: Cell<Option<ThreadRow>>,
    rowless: Cell<bool>,
    state: Cell<*mut OffloadContext>,
    /// In the midst of a call there.
    under_way: Cell<bool>,
    /// Its credentials, namespaces or filters became its own.
    private: Cell<bool>,
    calls: Cell<u32>,
    /// The thread that has the row: the child of a vfork shares this memory.
    tid: Cell<u64>,
}

// No value here is dropped, so that a signal handler may be the first to use it.
thread_local! {
    static MINE: Mine = const {
        Mine {
            row: Cell::new(None),
            rowless: Cell::new(false),
            state: Cell::new(null_mut()),
            under_way: Cell::new(false),
            private: Cell::new(false),
            calls: Cell::new(FIRST),
            tid: Cell::new(0),
        }
    };
}

static PARTNERS: AtomicU32 = AtomicU32::new(0);
static LEASHES: [Leash; MOST_PARTNERS as usize] = [const { Leash::new() }; MOST_PARTNERS as usize];

/// The furthest reach of all changes of rights so far, as [`Reach`] counts them.
static REACH: AtomicU8 = AtomicU8::new(0);

fn reached(reach: PartnerScope) -> bool {
    REACH.load(Ordering::SeqCst) >= reach as u8
}

/// Counts something of a call.
#[inline]
pub(super) fn count(call: Call, count: CallFate, much: u64) {
    MINE.with(|mine| {
        if let Some(row) = mine.row.get() {
            row.add(call, count, much);
        } else if !mine.rowless.get() {
            claim(mine, call, count, much);
        }
    });
}

#[cold]
fn claim(mine: &Mine, call: Call, count: CallFate, much: u64) {
    let Some(process) = process::get() else { return };
    mine.tid.set(kernel::tid());
    let row = process.board.claim(mine.tid.get());
    mine.row.set(row);
    if let Some(row) = row {
        at_end_of_thread();
        row.add(call, count, much);
    } else {
        mine.rowless.set(true);
        process.board.count(ProcessEvent::WithoutRow);
    }
}

/// The child of a fork: what it has is the parent's.
pub(super) fn forget() {
    MINE.with(|mine| {
        mine.row.set(None);
        // The partner is in the parent, and its memory is not worth a free here.
        mine.state.set(null_mut());
        mine.under_way.set(false);
        mine.calls.set(FIRST);
        mine.tid.set(0);
    });
    PARTNERS.store(0, Ordering::Relaxed);
    Leash::forget(&LEASHES);
}

/// The rights of this thread, or of all, are about to change: ends the partners that would keep the old ones, and lets the
/// threads make their calls themselves from then on. False if a partner cannot be ended: the rights must stay.
///
/// This may run in a signal handler, within a call that is made there, too.
pub(super) fn change_rights(reach: PartnerScope) -> bool {
    let Some(process) = process::get() else { return true };
    MINE.with(|mine| {
        // The child of a vfork shares this memory, but the rights are its own.
        let own = mine.tid.get() == 0 || mine.tid.get() == kernel::tid();
        if own && !mine.private.replace(true) {
            process.board.count(ProcessEvent::Private);
        }
        if own {
            REACH.fetch_max(reach as u8, Ordering::SeqCst);
        }
    });
    Leash::end(&LEASHES, reach == PartnerScope::All, LONGEST_END)
}

/// The state of a thread that can off-load now.
pub(super) fn state(process: &ShimProcess) -> Option<&'static mut OffloadContext> {
    MINE.with(|mine| {
        if mine.under_way.get() || mine.private.get() || reached(PartnerScope::All) {
            return None;
        }
        if mine.state.get().is_null() {
            let left = mine.calls.get().saturating_sub(1);
            mine.calls.set(left);
            if left > 0 {
                return None;
            }
            mine.calls.set(AGAIN);
            if mine.tid.get() != kernel::tid() {
                return None;
            }
            mine.under_way.set(true);
            let before = Signals::hold_filters();
            mine.state.set(open(process, mine.tid.get(), before));
            before.restore();
            mine.under_way.set(false);
        }
        // SAFETY: a state is this thread's alone, and it is not in use: `under_way` is not set.
        unsafe { mine.state.get().as_mut() }
    })
}

/// Whether this thread has a partner.
pub(super) fn has_partner() -> bool {
    MINE.with(|mine| !mine.state.get().is_null() && !mine.private.get())
}

/// Marks the time in which a signal handler finds the state in use.
pub(super) fn set_under_way(is: bool) {
    MINE.with(|mine| mine.under_way.set(is));
}

/// A partner for this thread; null if there can be none now.
///
/// Starting a thread allocates memory. A signal handler may have interrupted just that, so this waits for a moment at
/// which the thread blocks no signal: a handler blocks its own. `blocked` are those it did before this. Meanwhile a handler
/// that gives up rights has to wait: it could not end a partner that is being made.
fn open(process: &ShimProcess, tid: u64, blocked: Signals) -> *mut OffloadContext {
    let blocks = blocked != Signals::NONE || reached(PartnerScope::Filter);
    if blocks || kernel::on_signal_stack() || !kernel::is_ordinary() || !at_end_of_thread() {
        return null_mut();
    }
    let wishes = &process.wishes;
    let partners = process.cores.len() as u32;
    if PARTNERS.fetch_add(partners, Ordering::Relaxed) + partners > MOST_PARTNERS {
        PARTNERS.fetch_sub(partners, Ordering::Relaxed);
        return null_mut();
    }
    let options = Options {
        os_cores: CoreSet::of(&process.cores),
        mechanism: Mechanism::from_number(wishes.mechanism),
        // The policy is asked in `course`, which knows of all threads.
        flags: Flags::NONE,
        leashes: &LEASHES,
        spin_limit_ns: (wishes.spin_limit_ns != u64::MAX).then_some(wishes.spin_limit_ns),
        ..Options::default()
    };
    // SAFETY: this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let switch = Switch::open(&options);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    // All threads' rights may have changed meanwhile, by another one that did not see this partner.
    if switch.mechanism() == Mechanism::Local || reached(PartnerScope::All) {
        drop(switch);
        PARTNERS.fetch_sub(partners, Ordering::Relaxed);
        process.board.count(ProcessEvent::WithoutPartner);
        return null_mut();
    }
    process.board.count(ProcessEvent::Partners);
    Box::into_raw(Box::new(OffloadContext {
        switch,
        predictor: Predictor::default(),
        memory: CoreHistory::dealt(tid as usize, &options.os_cores, &CoreSet::EMPTY),
        tid,
        partners,
    }))
}

/// Lets `end` run when this thread ends. False if the process has no key left.
fn at_end_of_thread() -> bool {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: writes the key; the destructor lives as long as the process.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) };
        (made == 0).then_some(key)
    });
    // SAFETY: the key was made above. Any value but null makes the destructor run.
    key.is_some_and(|key| unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) == 0 })
}

/// Gives back what a thread has.
unsafe extern "C" fn end(_: *mut c_void) {
    MINE.with(|mine| {
        let state = mine.state.replace(null_mut());
        // Other destructors may still make calls.
        mine.private.set(true);
        // SAFETY: made by `open`; only this thread has it.
        if let Some(state) = (!state.is_null()).then(|| unsafe { Box::from_raw(state) }) {
            let partners = if state.tid == kernel::tid() { state.partners } else { 0 };
            drop(state);
            PARTNERS.fetch_sub(partners, Ordering::Relaxed);
        }
        if let Some(row) = mine.row.take() {
            row.release();
        }
        mine.rowless.set(true);
    });
}
