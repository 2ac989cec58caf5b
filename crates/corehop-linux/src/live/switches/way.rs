// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paths to another core, and the work that is executed there.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use corehop_plan::experiment::SwitchCell;
use corehop_plan::stop::Stop;
use corehop_plan::units::Cpu;
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};
use corehop_switch::policy::CoreSet;
use corehop_switch::{KernelPoller, Mechanism, Options, Switch};

use super::workers::CallWorker;
use super::{CallError, KERNEL_IDLE_MS, PATIENCE_NS, look};
use corehop_system::clock::{Ticks, now};
use corehop_system::thread::current_tid;

/// A path by which calls are executed.
pub(super) enum CallPath {
    /// Calls run on the caller's core.
    Here,
    /// A core switch of the library executes the calls.
    Partner(Box<Switch>),
    /// A kernel thread executes the calls.
    Kernel(KernelPoller),
    /// A worker thread that is reached in another way executes the calls.
    Worker(CallWorker),
    /// Calls run on the caller's core while a second worker makes its own calls.
    Beside(Box<PeerWorker>),
}

impl CallPath {
    /// Opens the path to a CPU.
    pub(super) fn open(cell: &SwitchCell) -> Result<Self, CallError> {
        let (mechanism, to) = (cell.mechanism, cell.to);
        let mechanism = match mechanism {
            SwitchMechanism::None => return Ok(Self::Here),
            SwitchMechanism::Sqpoll => {
                let poller = KernelPoller::open(to.0 as usize, KERNEL_IDLE_MS);
                let why =
                    |error: io::Error| format!("io_uring has no polling thread here ({error})");
                return poller
                    .map(Self::Kernel)
                    .map_err(|error| CallError::Impossible { why: why(error) });
            }
            SwitchMechanism::SecondWorker => {
                let Self::Partner(switch) = Self::partner(Mechanism::Polling, to)? else {
                    return Err(CallError::Panicked);
                };
                return Ok(Self::Beside(Box::new(PeerWorker::new(*switch, cell)?)));
            }
            it if SwitchMechanism::PEERS.contains(&it) => {
                // SAFETY: only a work is passed, by `call`, which waits for the result.
                return Ok(Self::Worker(unsafe { CallWorker::start(it, to, carry_out) }?));
            }
            SwitchMechanism::V1 => Mechanism::Affinity,
            SwitchMechanism::V2 => Mechanism::HandOff,
            SwitchMechanism::V3 => Mechanism::Linked,
            SwitchMechanism::V4 => Mechanism::Polling,
            SwitchMechanism::V5 => Mechanism::Adaptive,
            _ => {
                let why = format!(
                    "{mechanism} is a mechanism of the kernel of 2009, which corehop only simulates"
                );
                return Err(CallError::Impossible { why });
            }
        };
        Self::partner(mechanism, to)
    }

    /// A switch with a mechanism of the library.
    fn partner(mechanism: Mechanism, to: Cpu) -> Result<Self, CallError> {
        let os_cores = CoreSet::of(&[to.0 as usize]);
        let options = Options { os_cores, mechanism: Some(mechanism), ..Options::default() };
        let switch = Switch::open(&options);
        if switch.mechanism() == mechanism {
            return Ok(Self::Partner(Box::new(switch)));
        }
        let reasons: Vec<String> = switch.fallbacks().iter().map(ToString::to_string).collect();
        Err(CallError::Impossible { why: reasons.join("; ") })
    }

    /// Executes the work, and returns its result.
    #[inline]
    pub(super) fn call(&mut self, work: &mut CallPayload) -> Result<u64, CallError> {
        let argument = (&raw mut *work).cast::<c_void>();
        match self {
            // SAFETY: the argument is the work.
            Self::Here | Self::Beside(_) => Ok(unsafe { carry_out(argument) }),
            Self::Worker(worker) => worker.call(argument).ok_or(CallError::Unanswered),
            // SAFETY: the work lives until the call has returned.
            Self::Partner(switch) => Ok(unsafe { switch.call(carry_out, argument) }),
            Self::Kernel(poller) => {
                poller.nop(PATIENCE_NS).then_some(work.expected).ok_or(CallError::Unanswered)
            }
        }
    }

    /// The number of calls so far that ran on the caller's core because the other core did not accept them.
    pub(super) fn stayed(&self) -> u64 {
        match self {
            Self::Here | Self::Kernel(_) | Self::Worker(_) => 0,
            Self::Partner(switch) => switch.counts().taken_back + switch.counts().local,
            Self::Beside(second) => {
                second.switch.counts().taken_back + second.switch.counts().local
            }
        }
    }

    /// The number of threads that make calls simultaneously.
    pub(super) fn workers(&self) -> f64 {
        if matches!(self, Self::Beside(_)) { 2.0 } else { 1.0 }
    }
}

/// A second worker, which makes as many calls on the other core as the caller makes on its own.
pub(super) struct PeerWorker {
    /// The switch that starts the worker. Rust drops the switch first, because the partner of the switch uses the other
    /// field.
    switch: Switch,
    half: WorkerCalls,
}

/// The calls of a second worker.
struct WorkerCalls {
    work: CallPayload,
    calls: u32,
    /// The total number of calls made.
    made: AtomicU32,
    /// Whether the caller has given up.
    over: AtomicBool,
}

impl PeerWorker {
    pub(super) fn new(switch: Switch, cell: &SwitchCell) -> Result<Self, CallError> {
        let (work, made, over) =
            (CallPayload::new(cell)?, AtomicU32::new(0), AtomicBool::new(false));
        Ok(Self { switch, half: WorkerCalls { work, calls: 0, made, over } })
    }

    /// The number of calls that the worker has made.
    #[cfg(test)]
    pub(super) fn made(&self) -> u32 {
        self.half.made.load(Ordering::Relaxed)
    }

    /// Removes the worker's file, so that its calls fail.
    #[cfg(test)]
    pub(super) fn spoil(&mut self) {
        self.half.work.file = None;
    }

    /// Makes `calls` calls on each of the two cores, and waits for both.
    pub(super) fn calls(
        &mut self,
        calls: u32,
        work: &mut CallPayload,
        stop: &Stop,
        mut done: impl FnMut(Ticks),
    ) -> Result<(), CallError> {
        self.half.calls = calls;
        let half = (&raw const self.half).cast_mut().cast::<c_void>();
        // SAFETY: the half lives until the switch is dropped, and is not written while the worker has it.
        let ticket = unsafe { self.switch.submit(carry_out_half, half) };
        let ticket = ticket.map_err(io::Error::other)?;
        let mut here = || {
            for call in 0..calls {
                look(stop, call)?;
                let begun = now();
                let result = CallPath::Here.call(work)?;
                work.check(result)?;
                done(begun);
            }
            Ok(())
        };
        let outcome = here();
        self.half.over.store(outcome.is_err(), Ordering::Relaxed);
        let there = self.switch.wait(ticket).map_err(io::Error::other)?;
        outcome.and_then(|()| self.half.work.check(there))
    }
}

/// Executes the calls of a [`WorkerCalls`], and returns the result of the last one.
///
/// # Safety
///
/// The argument must point to a [`WorkerCalls`] that nothing else writes to meanwhile, except for its flag.
unsafe extern "C" fn carry_out_half(half: *mut c_void) -> u64 {
    // SAFETY: by the caller.
    let half = unsafe { &*half.cast::<WorkerCalls>() };
    let (mut result, mut made) = (half.work.expected, 0);
    while made < half.calls {
        if half.over.load(Ordering::Relaxed) {
            break;
        }
        // SAFETY: the work is this thread's.
        result = unsafe { carry_out((&raw const half.work).cast_mut().cast()) };
        made += 1;
    }
    half.made.fetch_add(made, Ordering::Relaxed);
    result
}

/// A call with all its data.
pub(super) struct CallPayload {
    call: SwitchCall,
    pub(super) file: Option<File>,
    /// The buffer, which the kernel writes if the call reads.
    buffer: Vec<UnsafeCell<u8>>,
    /// The result that each call must have; 0 for `gettid`, because the partner has its own thread ID.
    pub(super) expected: u64,
}

impl CallPayload {
    pub(super) fn new(cell: &SwitchCell) -> Result<Self, CallError> {
        let content = vec![1; cell.bytes as usize];
        let file = cell.call.is_sized().then(memory_file).transpose()?;
        if let Some(file) = &file {
            file.write_all_at(&content, 0)?;
        }
        let buffer = content.into_iter().map(UnsafeCell::new).collect();
        Ok(Self { call: cell.call, file, buffer, expected: cell.bytes })
    }

    /// Rejects a result that differs from a call without a switch.
    pub(super) fn check(&self, got: u64) -> Result<(), CallError> {
        let expected = self.expected;
        let is_right = if self.call.is_sized() { got == expected } else { got != u64::MAX };
        if is_right { Ok(()) } else { Err(CallError::Result { got, expected }) }
    }
}

/// Executes the call of a [`CallPayload`], and returns its result.
///
/// # Safety
///
/// The argument must point to a [`CallPayload`] that nothing else writes to meanwhile.
pub(super) unsafe extern "C" fn carry_out(work: *mut c_void) -> u64 {
    // SAFETY: by the caller. Of several calls outstanding, the partner carries out one after the other.
    let work = unsafe { &*work.cast::<CallPayload>() };
    let file = work.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let (bytes, size) = (work.buffer.as_ptr().cast_mut().cast::<c_void>(), work.buffer.len());
    match work.call {
        SwitchCall::Gettid => u64::from(current_tid()),
        // SAFETY: the buffer has `size` bytes, which only this call writes.
        SwitchCall::Pread => unsafe { libc::pread(file, bytes, size, 0) }.cast_unsigned() as u64,
        // SAFETY: the buffer has `size` bytes.
        SwitchCall::Pwrite => unsafe { libc::pwrite(file, bytes, size, 0) }.cast_unsigned() as u64,
    }
}

/// Creates an unnamed file in memory.
fn memory_file() -> io::Result<File> {
    // SAFETY: memfd_create reads a C string.
    let fd = unsafe { libc::memfd_create(c"corehop-switch".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}
