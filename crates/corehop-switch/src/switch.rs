// SPDX-License-Identifier: MIT OR Apache-2.0
//! The switch: one interface to all mechanisms.

use std::ffi::c_void;
use std::sync::Arc;
use std::{io, ptr, thread};

use crate::budget::usual_limit;
use crate::choice;
use crate::frame::{self, ClosureFrame};
use crate::lane::PostedCall;
use crate::line::{CallResolution, PartnerLink, run_here};
use crate::mechanism::Mechanism;
use crate::options::{Fallback, Options};
use crate::partner::{Function, SLOTS};
use crate::policy::{CoreChoice, CoreHistory, CoreOccupancy, CoreSet, Flags, select_os_core};
use crate::sys::{self, ForkSentinel};

/// Runs functions on other cores, for one calling thread at a time.
///
/// A call runs on a partner thread on an OS core, or the calling thread migrates itself (V1). A function on a partner
/// does not run on the caller's thread: thread locals, `errno`, the thread ID, the signal mask and the credentials
/// are the partner's. Dropping the switch waits for outstanding calls and ends the partners.
#[derive(Debug)]
pub struct Switch {
    lines: Vec<PartnerLink>,
    mechanism: Mechanism,
    flags: Flags,
    os: CoreSet,
    memory: CoreHistory,
    witness: Option<Arc<ForkSentinel>>,
    /// Results of calls that ran on the caller's thread when they were submitted, by slot.
    kept: [Option<u64>; SLOTS],
    last_kept: u64,
    fallbacks: Vec<Fallback>,
    costs: Vec<(Mechanism, u64)>,
    counts: CallPlaceCounts,
}

/// The number of calls by the core that ran them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPlaceCounts {
    /// The number of calls that ran on another core.
    pub switched: u64,
    /// The number of calls that ran on the caller's core because of the policy, the mechanism or 64 outstanding
    /// calls.
    pub local: u64,
    /// The number of calls that ran on the caller's core because the other core did not take them in time.
    pub taken_back: u64,
}

/// A call whose result has not been taken.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the result waits for `Switch::wait`"]
pub struct Ticket {
    pub(crate) line: u8,
    pub(crate) number: u64,
}

/// The line number of calls that ran when they were submitted.
const KEPT: u8 = u8::MAX;

impl Ticket {
    /// The ticket of a call that has run, and whose result is not stored.
    pub(crate) fn ran() -> Self {
        Self { line: KEPT, number: 0 }
    }

    /// Waits until the call has run.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Switch::wait`].
    pub(crate) fn settled(self, switch: &mut Switch) -> Result<(), WaitError> {
        if self == Self::ran() { Ok(()) } else { switch.wait(self).map(drop) }
    }
}

/// The reason why a result will never come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The ticket belongs to another switch, or its result has been taken.
    UnknownTicket,
    /// The process was forked while the parent's partner ran the call, so only the parent gets the result.
    Forked,
}

impl std::fmt::Display for WaitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::UnknownTicket => "no call is outstanding under this ticket: wait once, on the switch that gave it",
            Self::Forked => "the process was forked while the call ran: the call's result goes to the parent process, so wait in the parent",
        })
    }
}

impl std::error::Error for WaitError {}

/// 64 calls are outstanding; wait for one of them first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SLOTS} calls are outstanding: wait for the oldest of them")
    }
}

impl std::error::Error for Full {}

impl Switch {
    /// Starts partners as requested, or as far as this host allows; [`Self::fallbacks`] lists what is missing.
    pub fn open(options: &Options) -> Self {
        sys::uncancelled(|| Self::begin(options))
    }

    fn begin(options: &Options) -> Self {
        let mut switch = Self::local(options);
        let (cores, usable) = switch.cores(options);
        let limit = options.spin_limit_ns.unwrap_or(usual_limit(usable.len()));
        switch.os = cores;
        match options.mechanism {
            _ if cores.is_empty() || usable.len() < 2 => {
                switch.os = CoreSet::EMPTY;
                if switch.fallbacks.is_empty() {
                    switch.fallbacks.push(Fallback::OneCore);
                }
            }
            Some(mechanism) => switch.start(mechanism, limit, options),
            None => choice::cheapest(&mut switch, limit, options),
        }
        switch
    }

    /// A switch without partners.
    fn local(options: &Options) -> Self {
        Self {
            lines: Vec::new(),
            mechanism: Mechanism::Local,
            flags: options.flags,
            os: CoreSet::EMPTY,
            memory: CoreHistory::default(),
            witness: None,
            kept: [None; SLOTS],
            last_kept: 0,
            fallbacks: Vec::new(),
            costs: Vec::new(),
            counts: CallPlaceCounts::default(),
        }
    }

    /// The cores to switch to, and all cores that the caller or a switch can use.
    fn cores(&mut self, options: &Options) -> (CoreSet, CoreSet) {
        let mine = match sys::affinity() {
            Ok(mine) => mine,
            Err(error) => {
                self.fallbacks.push(Fallback::Resources(error));
                return (CoreSet::EMPTY, CoreSet::EMPTY);
            }
        };
        if options.os_cores.is_empty() {
            let here = sys::current_core();
            let other = mine.iter().filter(|&core| Some(core) != here).last();
            return (other.map_or(CoreSet::EMPTY, |core| CoreSet::of(&[core])), mine);
        }
        let mut cores = CoreSet::EMPTY;
        for (at, core) in options.os_cores.iter().enumerate() {
            if at == SLOTS {
                self.fallbacks.push(Fallback::TooMany { core });
                break;
            }
            match allowed(core) {
                Ok(()) => {
                    cores.insert(core);
                }
                Err(error) => self.fallbacks.push(Fallback::Core { core, error }),
            }
        }
        let mut usable = mine;
        for core in cores.iter() {
            usable.insert(core);
        }
        (cores, usable)
    }

    /// Starts the partners of a mechanism, and ends the partners of the previous mechanism first.
    pub(crate) fn start(&mut self, mechanism: Mechanism, limit: u64, options: &Options) {
        self.stop();
        match self.try_start(mechanism, limit, options) {
            Ok(()) => self.mechanism = mechanism,
            Err(error) if mechanism == Mechanism::Linked => {
                self.fallbacks.push(Fallback::Ring(error));
                self.start(Mechanism::HandOff, limit, options);
            }
            Err(error) => {
                self.stop();
                self.fallbacks.push(Fallback::Resources(error));
            }
        }
    }

    /// # Errors
    ///
    /// Returns the errors of [`PartnerLink::open`].
    pub(crate) fn try_start(
        &mut self,
        mechanism: Mechanism,
        limit: u64,
        options: &Options,
    ) -> io::Result<()> {
        self.stop();
        if mechanism.has_partner() {
            let witness = self.witness.insert(Arc::new(ForkSentinel::new()?));
            for core in self.os.iter() {
                self.lines.push(PartnerLink::open(core, mechanism, limit, options, witness)?);
            }
        }
        self.mechanism = mechanism;
        Ok(())
    }

    /// Ends the partners after completing their outstanding calls.
    pub(crate) fn stop(&mut self) {
        for mut line in std::mem::take(&mut self.lines) {
            let Some(witness) = &self.witness else { continue };
            while let Some(seq) = line.oldest() {
                if let CallResolution::TakenBack(call) = line.wait(seq, witness) {
                    // SAFETY: it was submitted, and has not run.
                    unsafe { run_here(call) };
                }
            }
            line.close(witness);
        }
        self.mechanism = Mechanism::Local;
    }

    /// Runs a closure on another core and returns its result, as if it had been called locally. A panic of the
    /// closure continues in the caller.
    ///
    /// A closure of at most three words, with a result of at most three, is stored in the cache line of its call.
    ///
    /// # Panics
    ///
    /// Panics in the child of a fork that a signal handler made during this call.
    #[inline]
    pub fn run<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> R {
        let line = self.usual_line();
        if let Some(room) = line.and_then(|line| self.lines[line].room())
            && frame::fits(&work)
        {
            let (call, room) = (frame::pack(room, work), ptr::from_ref(room));
            // SAFETY: the call has its closure in the room of its line, and takes it once; it does not unwind.
            let how = unsafe { self.call_closure(line, call) };
            // SAFETY: the room lives as long as the line, and the call has left a result of this type there.
            return unsafe { frame::unpack(&*room, how) };
        }
        let mut frame = ClosureFrame::new(work);
        let call = frame.call();
        // SAFETY: the call takes this frame, which lives until it has returned; it does not unwind.
        unsafe { self.call_closure(line, call) };
        frame.result()
    }

    /// Runs a call whose closure can be consumed once.
    ///
    /// # Safety
    ///
    /// The conditions of [`Self::call`] apply.
    #[inline]
    unsafe fn call_closure(&mut self, line: Option<usize>, call: PostedCall) -> u64 {
        let settled = self.settled(line, call);
        assert!(
            settled != Some(CallResolution::Lost),
            "the parent of this process has the closure"
        );
        // SAFETY: by the caller.
        unsafe { self.finish(line, call, settled) }
    }

    /// Runs a function on another core and returns its result.
    ///
    /// # Safety
    ///
    /// `function(argument)` must be allowed to run on another thread, and must not unwind.
    #[inline]
    pub unsafe fn call(&mut self, function: Function, argument: *mut c_void) -> u64 {
        let call = PostedCall { function: function as usize, argument: argument.cast() };
        let line = self.usual_line();
        let settled = self.settled(line, call);
        // SAFETY: by the caller.
        unsafe { self.finish(line, call, settled) }
    }

    /// The partner for a call by the policy of this switch, or `None` to run the call without a partner.
    #[inline]
    fn usual_line(&mut self) -> Option<usize> {
        // One partner, and no question to the policy: nothing is done before the call is on its way.
        if self.lines.len() == 1 && !self.flags.has(Flags::WORK_CONSERVING) {
            return (!self.witness.as_ref()?.forked()).then_some(0);
        }
        let (os, flags) = (self.os, self.flags);
        self.line_for(&os, flags)
    }

    /// Runs a call on a partner.
    #[inline]
    fn settled(&mut self, line: Option<usize>, call: PostedCall) -> Option<CallResolution> {
        self.lines.get_mut(line?)?.call(call, self.witness.as_ref()?)
    }

    /// Runs a function on one of `cores`, chosen by the policy `flags`, and returns its result, as
    /// `coreswitch(destcoreset, flags)` of Strong et al., section 3.6, does. Only OS cores of the switch are
    /// considered.
    ///
    /// # Safety
    ///
    /// The conditions of [`Self::call`] apply.
    #[inline]
    pub unsafe fn call_on(
        &mut self,
        cores: &CoreSet,
        flags: Flags,
        function: Function,
        argument: *mut c_void,
    ) -> u64 {
        let call = PostedCall { function: function as usize, argument: argument.cast() };
        let Some(line) = self.line_for(cores, flags) else {
            // SAFETY: by the caller.
            return unsafe { self.without_partner(cores, flags, call) };
        };
        let settled = self.settled(Some(line), call);
        // SAFETY: by the caller.
        unsafe { self.finish(Some(line), call, settled) }
    }

    /// The result of a call; a call that the partner does not run is run on the caller's thread.
    ///
    /// # Safety
    ///
    /// The conditions of [`Self::call`] apply.
    #[inline]
    unsafe fn finish(
        &mut self,
        line: Option<usize>,
        call: PostedCall,
        settled: Option<CallResolution>,
    ) -> u64 {
        if let Some(CallResolution::There(value)) = settled {
            self.counts.switched += 1;
            return value;
        }
        // SAFETY: by the caller.
        unsafe { self.finish_here(line, call, settled) }
    }

    /// Runs a call that no partner ran.
    ///
    /// # Safety
    ///
    /// The conditions of [`Self::call`] apply.
    #[cold]
    unsafe fn finish_here(
        &mut self,
        line: Option<usize>,
        call: PostedCall,
        settled: Option<CallResolution>,
    ) -> u64 {
        if line.is_none() {
            let (os, flags) = (self.os, self.flags);
            // SAFETY: by the caller.
            return unsafe { self.without_partner(&os, flags, call) };
        }
        match settled {
            Some(_) => self.counts.taken_back += 1,
            None => self.counts.local += 1,
        }
        // SAFETY: by the caller.
        unsafe { run_here(call) }
    }

    /// The partner for a call, or `None` to run the call without a partner.
    #[inline]
    fn line_for(&mut self, cores: &CoreSet, flags: Flags) -> Option<usize> {
        if self.witness.as_ref()?.forked() {
            return None;
        }
        if let [line] = self.lines.as_slice()
            && !flags.has(Flags::WORK_CONSERVING)
        {
            return cores.contains(line.core).then_some(0);
        }
        let CoreChoice::Switch(core) = self.choose(cores, flags) else { return None };
        self.lines.iter().position(|line| line.core == core)
    }

    /// Chooses a core by the policy. A partner counts as busy while it has calls of this switch.
    fn choose(&mut self, cores: &CoreSet, flags: Flags) -> CoreChoice {
        let mut busy = CoreSet::EMPTY;
        for line in self.lines.iter().filter(|line| line.busy()) {
            busy.insert(line.core);
        }
        let view = CoreOccupancy {
            os: self.os.and(cores),
            app: CoreSet::EMPTY,
            busy,
            source: sys::current_core().unwrap_or(usize::MAX),
            source_idles: true,
        };
        select_os_core(flags, &view, &mut self.memory)
    }

    /// Runs a call on the caller's thread, after migrating the thread (V1) or without moving.
    ///
    /// # Safety
    ///
    /// The conditions of [`Self::call`] apply.
    unsafe fn without_partner(&mut self, cores: &CoreSet, flags: Flags, call: PostedCall) -> u64 {
        if self.mechanism == Mechanism::Affinity
            && let CoreChoice::Switch(core) = self.choose(cores, flags)
            && let (Some(core_before), Ok(before)) = (sys::current_core(), sys::affinity())
            && sys::set_affinity(&CoreSet::of(&[core])).is_ok()
        {
            let _return = Return { core: core_before, cores: before };
            self.counts.switched += 1;
            // SAFETY: by the caller.
            return unsafe { run_here(call) };
        }
        self.counts.local += 1;
        // SAFETY: by the caller.
        unsafe { run_here(call) }
    }

    /// Starts a function on another core; [`Self::wait`] returns its result. Up to 64 calls may be outstanding.
    ///
    /// Without a partner the function runs immediately.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if 64 calls are outstanding.
    ///
    /// # Safety
    ///
    /// The conditions of [`Self::call`] must hold until the result has been taken or the switch is dropped.
    #[inline]
    pub unsafe fn submit(
        &mut self,
        function: Function,
        argument: *mut c_void,
    ) -> Result<Ticket, Full> {
        let call = PostedCall { function: function as usize, argument: argument.cast() };
        let (os, flags) = (self.os, self.flags);
        if let Some(line) = self.line_for(&os, flags) {
            let number = self.lines[line].submit(call).ok_or(Full)?;
            return Ok(Ticket { line: line as u8, number });
        }
        let number = self.last_kept + 1;
        if self.kept[slot(number)].is_some() {
            return Err(Full);
        }
        self.last_kept = number;
        // SAFETY: by the caller.
        self.kept[slot(number)] = Some(unsafe { self.without_partner(&os, flags, call) });
        Ok(Ticket { line: KEPT, number })
    }

    /// Waits for the result of a submitted call. Results may be taken in any order.
    ///
    /// # Errors
    ///
    /// Returns an error if the ticket belongs to another switch, or the process was forked while the call ran.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a result is taken once")]
    pub fn wait(&mut self, ticket: Ticket) -> Result<u64, WaitError> {
        self.wait_for(ticket.line, ticket.number)
    }

    pub(crate) fn wait_for(&mut self, line: u8, number: u64) -> Result<u64, WaitError> {
        if line == KEPT {
            let live = number <= self.last_kept && self.last_kept - number < SLOTS as u64;
            let value = self.kept[slot(number)].take_if(|_| live);
            return value.ok_or(WaitError::UnknownTicket);
        }
        let owed = self.lines.get_mut(usize::from(line)).filter(|line| line.owes(number));
        let (Some(line), Some(witness)) = (owed, &self.witness) else {
            return Err(WaitError::UnknownTicket);
        };
        match line.wait(number, witness) {
            CallResolution::There(value) => {
                self.counts.switched += 1;
                Ok(value)
            }
            CallResolution::TakenBack(call) => {
                self.counts.taken_back += 1;
                // SAFETY: it was submitted, and has not run.
                Ok(unsafe { run_here(call) })
            }
            CallResolution::Lost => Err(WaitError::Forked),
        }
    }

    /// Wakes the partners in advance, so that an early next call finds them polling (V5).
    pub fn prepare(&self) {
        let forked = self.witness.as_ref().is_none_or(|it| it.forked());
        self.lines.iter().filter(|_| !forked).for_each(PartnerLink::wake);
    }

    /// Returns the mechanism of this switch.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Returns the cores to which calls are switched.
    pub fn os_cores(&self) -> CoreSet {
        self.os
    }

    /// Returns the options that could not be met, and why.
    pub fn fallbacks(&self) -> &[Fallback] {
        &self.fallbacks
    }

    pub(crate) fn note(&mut self, fallback: Fallback) {
        self.fallbacks.push(fallback);
    }

    /// Returns the measured costs of an empty call, in nanoseconds, if the mechanism was chosen by cost.
    pub fn costs(&self) -> &[(Mechanism, u64)] {
        &self.costs
    }

    pub(crate) fn set_costs(&mut self, costs: Vec<(Mechanism, u64)>) {
        self.costs = costs;
        self.counts = CallPlaceCounts::default();
    }

    /// Returns the number of calls so far, by the core that ran them.
    pub fn counts(&self) -> CallPlaceCounts {
        self.counts
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        sys::uncancelled(|| self.stop());
    }
}

fn slot(number: u64) -> usize {
    (number % SLOTS as u64) as usize
}

/// Returns the thread to its core and restores its allowed cores, however the call ends. Restoring only the mask
/// would leave the thread on the other core, and later calls would find the thread already there.
struct Return {
    core: usize,
    cores: CoreSet,
}

impl Drop for Return {
    fn drop(&mut self) {
        // Where none of them is left, the kernel keeps the thread where it is.
        drop(sys::set_affinity(&CoreSet::of(&[self.core])));
        drop(sys::set_affinity(&self.cores));
    }
}

/// Tests with a short-lived thread whether threads of this process may run on the core.
fn allowed(core: usize) -> io::Result<()> {
    let attempt = move || (sys::thread(), sys::set_affinity(&CoreSet::of(&[core])));
    let thread = sys::without_signals(|| thread::Builder::new().spawn(attempt))?;
    let (thread, outcome) = thread.join().map_err(|_| io::Error::from(io::ErrorKind::Other))?;
    sys::await_end(thread);
    outcome
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
