// SPDX-License-Identifier: MIT OR Apache-2.0
//! The load `buslock`: locked instructions, which Bastoni et al. (section 6) leave as future work.
//!
//! A locked addition within one line locks only that line; threads that add to common lines move
//! these lines from core to core. A *split* addition straddles two lines and stalls the memory
//! accesses of every CPU. So split additions run only if requested, for at most one millisecond in
//! ten with all threads together, and not if the kernel or a hypervisor would penalise them.

use std::arch::global_asm;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corehop_plan::units::Cpu;
use corehop_plan::workload::LINE;

use super::workers::LoadWork;
use corehop_system::clock::{TickClock, now};

/// The number of lines to which all threads add.
const LINES: usize = 64;
/// The number of additions between two checks for orders.
const STRIDE: u64 = 64;
/// The time for which all threads together split locks in each [`PERIOD_NS`].
const BURST_NS: f64 = 1e6;
/// The period of the bursts; see [`BURST_NS`].
const PERIOD_NS: u64 = 10_000_000;
/// The largest number of split additions in a burst; each takes about a microsecond.
const MOST_PER_BURST: u64 = 1_000;

// Adds one to the word at rdi, which may straddle two lines. Where the kernel answers the addition
// with a signal, its handler goes on at `refused`.
global_asm!(
    ".text",
    ".globl corehop_split_add",
    ".type corehop_split_add, @function",
    "corehop_split_add:",
    ".globl corehop_split_lock",
    "corehop_split_lock:",
    "lock add qword ptr [rdi], 1",
    ".globl corehop_split_done",
    "corehop_split_done:",
    "xor eax, eax",
    "ret",
    ".globl corehop_split_refused",
    "corehop_split_refused:",
    "mov eax, 1",
    "ret",
    ".size corehop_split_add, . - corehop_split_add",
);

unsafe extern "C" {
    fn corehop_split_add(word: *mut u8) -> u32;
    fn corehop_split_lock();
    fn corehop_split_done();
    fn corehop_split_refused();
}

/// Lines shared by the threads of one load.
#[derive(Debug)]
#[repr(align(4096))]
struct ContendedLines([AtomicU64; LINES * 8]);

impl ContendedLines {
    fn new() -> Arc<Self> {
        Arc::new(Self(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

/// A worker that makes locked additions within whole cache lines.
#[derive(Debug)]
pub(crate) struct BusLocker {
    lines: Arc<ContendedLines>,
    next: usize,
}

impl BusLocker {
    /// Creates one worker for each of `cpus`, on common lines.
    pub(crate) fn on(cpus: &[Cpu]) -> Vec<(Cpu, Self)> {
        let lines = ContendedLines::new();
        cpus.iter().map(|&cpu| (cpu, Self { lines: lines.clone(), next: 0 })).collect()
    }
}

impl LoadWork for BusLocker {
    fn step(&mut self) -> Result<u64, String> {
        for _ in 0..STRIDE {
            self.lines.0[self.next * 8].fetch_add(1, Ordering::Relaxed);
            self.next = (self.next + 1) % LINES;
        }
        Ok(STRIDE * LINE)
    }
}

/// A worker that makes bursts of locked additions that straddle two cache lines.
#[derive(Debug)]
pub(crate) struct SplitLockLoad {
    lines: Arc<ContendedLines>,
    clock: TickClock,
    burst_ns: f64,
    /// The signal handler, which is removed when the last worker ends.
    _handler: Arc<SigbusHandler>,
}

impl SplitLockLoad {
    /// Creates one worker for each of `cpus`, on common pairs of lines.
    ///
    /// # Errors
    /// Fails if corehop cannot handle the signal that a split lock may cause.
    pub(crate) fn on(cpus: &[Cpu], clock: TickClock) -> std::io::Result<Vec<(Cpu, Self)>> {
        let (lines, handler) = (ContendedLines::new(), Arc::new(SigbusHandler::install()?));
        let burst_ns = BURST_NS / cpus.len().max(1) as f64;
        let one = || Self { lines: lines.clone(), clock, burst_ns, _handler: handler.clone() };
        Ok(cpus.iter().map(|&cpu| (cpu, one())).collect())
    }
}

impl LoadWork for SplitLockLoad {
    fn step(&mut self) -> Result<u64, String> {
        let (begun, mut added) = (now(), 0);
        while added < MOST_PER_BURST && self.clock.between(begun, now()) < self.burst_ns {
            // Four bytes before the end of every second line: the word ends in the next one.
            let pair = added as usize % (LINES / 2);
            let word = self.lines.0.as_ptr().cast::<u8>().wrapping_add(pair * 128 + 60).cast_mut();
            // SAFETY: the eight bytes lie within the lines, which only such additions touch.
            if unsafe { corehop_split_add(word) } != 0 {
                return Err("the kernel has answered a split lock with SIGBUS".to_owned());
            }
            added += 1;
        }
        std::thread::sleep(Duration::from_nanos(PERIOD_NS));
        Ok(added * 2 * LINE)
    }
}

/// The reason why split locks must not be used on this host, and how to change that; `None` if they
/// may be used.
///
/// `mitigate` is the setting kernel.split_lock_mitigate, if it exists.
pub(crate) fn refusal(
    hypervisor: Option<&str>,
    command_line: &str,
    cpuinfo: &str,
    mitigate: Option<&str>,
) -> Option<(String, &'static str)> {
    const OFF: &str = "boot with split_lock_detect=off, or omit --split-locks";
    if let Some(hypervisor) = hypervisor {
        let why = format!(
            "this machine is a guest ({hypervisor}): its other guests would stall, and it may be \
             slowed down or ended for it"
        );
        return Some((why, "measure on the physical machine, or omit --split-locks"));
    }
    let words = |text: &str, word: &str| text.split_whitespace().any(|other| other == word);
    let (faults, traps) = (words(cpuinfo, "split_lock_detect"), words(cpuinfo, "bus_lock_detect"));
    let options = command_line.split_whitespace();
    let choice = options.rev().find_map(|option| option.strip_prefix("split_lock_detect="));
    let why = match choice {
        Some("off") => return None,
        _ if !faults && !traps => return None,
        Some("fatal") => "the kernel ends a program that splits a lock (split_lock_detect=fatal)",
        Some(other) if other.starts_with("ratelimit") => {
            "the kernel slows down programs that split locks (split_lock_detect=ratelimit)"
        }
        // With traps alone it warns in its log, and lets the lock pass.
        _ if !faults || mitigate.is_some_and(|value| value.trim() == "0") => return None,
        _ => {
            return Some((
                "the kernel delays each thread that splits a lock for 10 ms".to_owned(),
                "run `sysctl kernel.split_lock_mitigate=0` for the measurement, or omit --split-locks",
            ));
        }
    };
    Some((why.to_owned(), OFF))
}

/// The address at which a load thread continues after a signal at the address `at`; `None` if `at` is not an address of
/// the load's code.
fn go_on_at(at: usize) -> Option<usize> {
    // A lock that is refused faults at its own address, one that is trapped at the next.
    let ours = [corehop_split_lock as *const () as usize, corehop_split_done as *const () as usize];
    ours.contains(&at).then_some(corehop_split_refused as *const () as usize)
}

/// Handles SIGBUS while split locks are in use.
#[derive(Debug)]
struct SigbusHandler(libc::sigaction);

impl SigbusHandler {
    fn install() -> std::io::Result<Self> {
        // SAFETY: all-zero bits are a valid value of these plain C structures.
        let (mut old, mut new): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        new.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
        new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `on_bus_error` changes the context that it is given, and makes one call that
        // signal-safety(7) allows.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const new, &raw mut old) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Self(old))
    }
}

impl Drop for SigbusHandler {
    fn drop(&mut self) {
        // SAFETY: puts back what was there.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const self.0, std::ptr::null_mut()) };
    }
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    _: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel hands the handler the context of the interrupted thread.
    let at = unsafe { &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize] };
    match go_on_at(*at as usize) {
        Some(address) => *at = address as i64,
        // Not ours: it comes again, and does what it does by default.
        // SAFETY: restores the default action.
        None => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    use crate::mapped::{Mapped, WRITABLE};
    use crate::memory::Mapping;
    use corehop_plan::units::Bytes;
    use corehop_plan::workload::Page;

    #[test]
    fn threads_add_to_the_same_lines_and_count_what_they_move() {
        let mut works = BusLocker::on(&[Cpu(0), Cpu(1)]);
        for (_, work) in &mut works {
            assert_eq!(work.step(), Ok(STRIDE * LINE));
        }
        let lines = &works[0].1.lines.0;
        let sum: u64 = lines.iter().map(|word| word.load(Ordering::Relaxed)).sum();
        assert_eq!((sum, lines[8].load(Ordering::Relaxed)), (2 * STRIDE, 2));
    }

    #[test]
    fn an_addition_on_one_line_adds_one() {
        let word = AtomicU64::new(41);
        // SAFETY: an aligned word of our own.
        assert_eq!(unsafe { corehop_split_add(word.as_ptr().cast()) }, 0);
        assert_eq!(word.into_inner(), 42);
    }

    /// The test raises the signal at the instruction for another reason: a page beyond the end of a
    /// file.
    #[test]
    fn an_addition_that_is_answered_with_a_bus_error_is_a_refusal_and_not_the_end() {
        let file = tempfile::tempfile().unwrap();
        // Touching a mapping of an empty file brings SIGBUS, and nothing else.
        let page = Mapped::shared(file.as_fd(), 4096, WRITABLE).unwrap();
        let handler = SigbusHandler::install().unwrap();
        // SAFETY: the handler makes a refusal of the signal.
        assert_eq!(unsafe { corehop_split_add(page.start().as_ptr()) }, 1);
        drop(handler);
    }

    #[test]
    fn only_the_two_addresses_of_the_addition_are_ours() {
        let mapping = Mapping::new(Bytes::from_kib(4), Page::Base, None).unwrap();
        assert_eq!(go_on_at(mapping.address() as usize), None);
        assert_eq!(
            go_on_at(corehop_split_add as *const () as usize),
            go_on_at(corehop_split_done as *const () as usize)
        );
    }

    #[test]
    fn every_word_that_is_split_lies_in_the_shared_lines_and_in_two_of_them() {
        assert_eq!(align_of::<ContendedLines>(), 4096);
        for pair in 0..LINES / 2 {
            let first = pair * 128 + 60;
            assert_ne!(first / 64, (first + 7) / 64);
            assert!(first + 8 <= size_of::<ContendedLines>());
        }
    }

    #[test]
    fn split_locks_are_refused_where_they_would_be_punished_and_the_reason_given() {
        let (both, traps) =
            ("flags : fpu split_lock_detect bus_lock_detect", "flags : bus_lock_detect");
        let refused = |hypervisor, line, info, mitigate| {
            refusal(hypervisor, line, info, mitigate)
                .map(|(why, remedy)| format!("{why}; {remedy}"))
        };
        for (hypervisor, line, info, mitigate, words) in [
            (Some("kvm"), "split_lock_detect=off", "", None, "guest (kvm)"),
            (None, "quiet split_lock_detect=fatal", both, Some("0"), "fatal"),
            (None, "split_lock_detect=ratelimit:10", traps, None, "ratelimit"),
            (None, "", both, Some("1\n"), "split_lock_mitigate=0"),
            (None, "split_lock_detect=warn", both, None, "10 ms"),
            (None, "split_lock_detect=off split_lock_detect=fatal", both, None, "fatal"),
        ] {
            let text = refused(hypervisor, line, info, mitigate).unwrap();
            assert!(text.contains(words) && text.contains("--split-locks"), "{text}");
        }
        for (line, info, mitigate) in [
            ("", "flags : fpu", None),
            ("split_lock_detect=off", both, Some("1")),
            ("", both, Some("0\n")),
            ("", traps, Some("1")),
        ] {
            assert_eq!(refused(None, line, info, mitigate), None);
        }
    }
}
