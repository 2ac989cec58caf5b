// SPDX-License-Identifier: MIT OR Apache-2.0
//! The resources of a thread: its row on the board and, after some calls, its partner.

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

/// The number of qualifying calls before a thread gets a partner, so that short programs get none.
const FIRST: u32 = 32;
/// The number of calls until the next attempt to start a partner, if one was not possible.
const AGAIN: u32 = 1024;
/// The largest number of partners in a process. Further threads execute their calls themselves.
const MOST_PARTNERS: u32 = 64;
/// The longest wait for partners to end, in nanoseconds, because a partner may be writing to a disk.
const LONGEST_END: u64 = 10_000_000_000;

/// Everything that a thread needs for off-loading.
pub(super) struct OffloadContext {
    pub(super) switch: Switch,
    pub(super) predictor: Predictor,
    pub(super) memory: CoreHistory,
    /// The ID of the thread; a child that shares this memory has another ID.
    pub(super) tid: u64,
    partners: u32,
}

struct Mine {
    row: Cell<Option<ThreadRow>>,
    rowless: Cell<bool>,
    state: Cell<*mut OffloadContext>,
    /// Whether a call of this thread is in progress on an OS core.
    under_way: Cell<bool>,
    /// Whether the thread's credentials, namespaces or filters became private.
    private: Cell<bool>,
    calls: Cell<u32>,
    /// The ID of the thread that owns the row, because the child of a vfork shares this memory.
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

/// The widest reach of all privilege changes so far, as [`Reach`] counts them.
static REACH: AtomicU8 = AtomicU8::new(0);

fn reached(reach: PartnerScope) -> bool {
    REACH.load(Ordering::SeqCst) >= reach as u8
}

/// Adds to a count of a call.
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

/// Runs in the child of a fork: forgets the resources, which belong to the parent.
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

/// Prepares for a change of this thread's privileges, or of all threads' privileges. Ends the partners that would
/// keep the old privileges, and lets these threads execute their calls themselves from then on. Returns false if a
/// partner cannot be ended; the privileges must then not change.
///
/// The function may also run in a signal handler, during a call on an OS core.
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

/// The state of the calling thread, or `None` if the thread cannot off-load now.
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

/// Marks the time in which a signal handler would find the state in use.
pub(super) fn set_under_way(is: bool) {
    MINE.with(|mine| mine.under_way.set(is));
}

/// Starts a partner for this thread; returns null if a partner cannot be started now.
///
/// Starting a thread allocates memory. A signal handler may have interrupted an allocation, so this function waits for
/// a moment at which the thread blocks no signal, because a handler blocks its own signal. `blocked` are the signals
/// that the thread blocked before. Meanwhile a handler that drops privileges must wait, because it could not end a
/// partner that is being created.
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

/// Registers `end` to run when this thread ends. Returns false if the process has no key left.
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

/// Releases the resources of a thread.
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
