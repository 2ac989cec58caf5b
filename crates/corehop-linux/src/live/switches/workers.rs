// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker thread on the other core, reached by the means that programs use without the library: channels, a
//! condition variable, an eventfd, a pipe, a futex. A second worker can make its own calls.
//!
//! Each direction carries one word at a time: the address of the work to the worker, and its result back.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use corehop_plan::units::Cpu;
use corehop_plan::workload::switching::SwitchMechanism;

use crate::probe::pin;
use corehop_system::supervisor::interrupt;

/// The sending end of one direction of messages.
trait Sends: Send {
    fn send(&mut self, word: u64) -> bool;
}

/// The receiving end of one direction of messages; it returns `None` once the other side is gone.
trait Receives: Send {
    fn receive(&mut self) -> Option<u64>;
}

/// The sending and the receiving end of one direction of messages.
type Ends = (Box<dyn Sends>, Box<dyn Receives>);

/// Opens a channel for one direction of messages, by the given mechanism.
fn direction(mechanism: SwitchMechanism) -> io::Result<Ends> {
    Ok(match mechanism {
        SwitchMechanism::Futex => both(Arc::new(WordMailbox::default())),
        SwitchMechanism::Condvar => both(Arc::new(Guarded::default())),
        SwitchMechanism::Eventfd => both(Arc::new(EventfdChannel::new()?)),
        SwitchMechanism::Pipe => {
            let (reader, writer) = io::pipe()?;
            (Box::new(writer), Box::new(reader))
        }
        SwitchMechanism::Mpsc => {
            let (sender, receiver) = mpsc::channel();
            (Box::new(sender), Box::new(receiver))
        }
        SwitchMechanism::Crossbeam => {
            let (sender, receiver) = crossbeam_channel::bounded(1);
            (Box::new(sender), Box::new(receiver))
        }
        _ => return Err(io::Error::from(io::ErrorKind::Unsupported)),
    })
}

fn both<T>(shared: Arc<T>) -> Ends
where
    T: Send + Sync + 'static,
    Arc<T>: Sends + Receives,
{
    (Box::new(Arc::clone(&shared)), Box::new(shared))
}

/// A word that is present or absent; the receiver sleeps until it is present.
#[derive(Default)]
struct WordMailbox {
    is_there: AtomicU32,
    word: AtomicU64,
}

impl Sends for Arc<WordMailbox> {
    fn send(&mut self, word: u64) -> bool {
        self.word.store(word, Ordering::Relaxed);
        self.is_there.store(1, Ordering::Release);
        futex(&self.is_there, libc::FUTEX_WAKE, 1);
        true
    }
}

impl Receives for Arc<WordMailbox> {
    fn receive(&mut self) -> Option<u64> {
        while self.is_there.load(Ordering::Acquire) == 0 {
            futex(&self.is_there, libc::FUTEX_WAIT, 0);
        }
        self.is_there.store(0, Ordering::Relaxed);
        Some(self.word.load(Ordering::Relaxed))
    }
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the word lives as long as the call; there is no time to read.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, forever) };
}

/// A word behind a mutex, with a condition variable.
#[derive(Default)]
struct Guarded {
    word: Mutex<Option<u64>>,
    changed: Condvar,
}

impl Sends for Arc<Guarded> {
    fn send(&mut self, word: u64) -> bool {
        *self.word.lock().unwrap_or_else(PoisonError::into_inner) = Some(word);
        self.changed.notify_one();
        true
    }
}

impl Receives for Arc<Guarded> {
    fn receive(&mut self) -> Option<u64> {
        let mut word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(word) = word.take() {
                return Some(word);
            }
            word = self.changed.wait(word).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// An eventfd, and a separate word, because the eventfd's counter cannot carry every word.
struct EventfdChannel {
    count: OwnedFd,
    word: AtomicU64,
}

impl EventfdChannel {
    fn new() -> io::Result<Self> {
        // SAFETY: no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(Self { count: unsafe { OwnedFd::from_raw_fd(fd) }, word: AtomicU64::new(0) })
    }
}

impl Sends for Arc<EventfdChannel> {
    fn send(&mut self, word: u64) -> bool {
        self.word.store(word, Ordering::Release);
        let one = 1_u64;
        // SAFETY: the kernel reads eight bytes.
        unsafe { libc::write(self.count.as_raw_fd(), (&raw const one).cast(), 8) == 8 }
    }
}

impl Receives for Arc<EventfdChannel> {
    fn receive(&mut self) -> Option<u64> {
        let mut count = 0_u64;
        // SAFETY: the kernel writes eight bytes.
        while unsafe { libc::read(self.count.as_raw_fd(), (&raw mut count).cast(), 8) } != 8 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
        Some(self.word.load(Ordering::Acquire))
    }
}

impl Sends for PipeWriter {
    fn send(&mut self, word: u64) -> bool {
        self.write_all(&word.to_ne_bytes()).is_ok()
    }
}

impl Receives for PipeReader {
    fn receive(&mut self) -> Option<u64> {
        let mut word = [0; 8];
        self.read_exact(&mut word).ok()?;
        Some(u64::from_ne_bytes(word))
    }
}

impl Sends for mpsc::Sender<u64> {
    fn send(&mut self, word: u64) -> bool {
        Self::send(self, word).is_ok()
    }
}

impl Receives for mpsc::Receiver<u64> {
    fn receive(&mut self) -> Option<u64> {
        self.recv().ok()
    }
}

impl Sends for crossbeam_channel::Sender<u64> {
    fn send(&mut self, word: u64) -> bool {
        Self::send(self, word).is_ok()
    }
}

impl Receives for crossbeam_channel::Receiver<u64> {
    fn receive(&mut self) -> Option<u64> {
        self.recv().ok()
    }
}

/// The address that ends a worker.
const END: u64 = 0;

/// The function that a worker calls with each address.
pub(super) type WorkerFunction = unsafe extern "C" fn(*mut libc::c_void) -> u64;

/// A worker thread on another CPU. Dropping the value ends the thread after its current call.
pub(super) struct CallWorker {
    there: Box<dyn Sends>,
    back: Box<dyn Receives>,
    thread: Option<JoinHandle<()>>,
}

impl CallWorker {
    /// Starts a worker that is reached with this mechanism and calls `job` with each address.
    ///
    /// # Errors
    ///
    /// Fails if the system has no thread or descriptor left, or this process may not use the CPU.
    ///
    /// # Safety
    ///
    /// `job` must be safe to call on another thread with every address that is passed to [`Self::call`].
    pub(super) unsafe fn start(
        mechanism: SwitchMechanism,
        to: Cpu,
        job: WorkerFunction,
    ) -> io::Result<Self> {
        let ((there, mut inbox), (mut outbox, mut back)) =
            (direction(mechanism)?, direction(mechanism)?);
        let work = move || {
            interrupt::keep_off_this_thread();
            let is_there = pin(to).is_ok();
            outbox.send(u64::from(is_there));
            while let Some(address) = inbox.receive().filter(|&it| is_there && it != END) {
                let address = ptr::with_exposed_provenance_mut(address as usize);
                // SAFETY: by the caller of `start`.
                outbox.send(unsafe { job(address) });
            }
        };
        let thread = std::thread::Builder::new().name(format!("worker-{}", to.0)).spawn(work)?;
        let is_there = back.receive() == Some(1);
        let worker = Self { there, back, thread: Some(thread) };
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        is_there.then_some(worker).ok_or_else(refused)
    }

    /// Lets the worker call its job with this address, and returns the result; `None` if the worker is gone.
    pub(super) fn call<T>(&mut self, address: *mut T) -> Option<u64> {
        self.there.send(address.expose_provenance() as u64).then(|| self.back.receive())?
    }
}

impl Drop for CallWorker {
    fn drop(&mut self) {
        self.there.send(END);
        if let Some(thread) = self.thread.take() {
            // A worker that panicked has said so.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn cpu_and_one(number: *mut libc::c_void) -> u64 {
        // SAFETY: the test passes a number that outlives the call.
        let number = unsafe { *number.cast::<u64>() };
        // SAFETY: no arguments.
        (unsafe { libc::sched_getcpu() } as u64) << 32 | (number + 1)
    }

    #[test]
    fn a_worker_runs_every_call_once_on_its_cpu_by_each_way() {
        let Some(cpu) = corehop_system::thread::affinity().unwrap().iter().last() else { return };
        for mechanism in SwitchMechanism::PEERS {
            // SAFETY: the function reads the number that is passed.
            let mut worker = unsafe { CallWorker::start(mechanism, cpu, cpu_and_one) }.unwrap();
            for mut number in 0..200_u64 {
                let expected = u64::from(cpu.0) << 32 | (number + 1);
                assert_eq!(worker.call(&raw mut number), Some(expected), "{mechanism}");
            }
        }
    }

    #[test]
    fn a_worker_of_a_cpu_that_is_not_there_is_an_error_and_ends() {
        for mechanism in SwitchMechanism::PEERS {
            // SAFETY: nothing is passed.
            let refused = unsafe { CallWorker::start(mechanism, Cpu(4000), cpu_and_one) };
            assert!(refused.is_err(), "{mechanism}");
        }
    }
}
