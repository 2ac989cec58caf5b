// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a program and obtains a descriptor of its memory before its first instruction.
//!
//! Such a descriptor always belongs to the process that requests it. So the program itself must request it: it is
//! stopped after exec (ptrace(2)), two system calls are executed in its place, and it continues unaffected. No
//! library is loaded into the program, and it may be statically linked.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use super::uffd::FLAGS;
use corehop_system::supervisor::pidfd;

/// The instructions `syscall; int3`, and the following bytes.
const CALL: u64 = 0xcc_050f;
const CALL_BITS: u64 = 0xff_ffff;

/// Starts the command; returns it with the descriptor of its memory, or with the reason why there is no descriptor. The
/// program runs in both cases.
///
/// # Errors
/// Fails with the errors of [`Command::spawn`].
pub(super) fn start(command: &mut Command) -> io::Result<(Child, io::Result<OwnedFd>)> {
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0, 0, 0).map(drop)) };
    let child = command.spawn()?;
    let pid = child.id().cast_signed();
    let descriptor = StoppedTracee::wait(pid).and_then(|mut program| {
        let descriptor = program.descriptor();
        program.go_on().and(descriptor)
    });
    Ok((child, descriptor))
}

fn ptrace(request: u32, pid: i32, address: u64, data: u64) -> io::Result<i64> {
    // SAFETY: addresses are those of the traced program, or of registers that outlive the call.
    let answer = unsafe { libc::ptrace(request, pid, address as *mut c_void, data as *mut c_void) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// A program that is stopped before its first instruction.
struct StoppedTracee {
    pid: i32,
    registers: libc::user_regs_struct,
    /// A signal that arrived meanwhile and is delivered later.
    signal: i32,
}

impl StoppedTracee {
    /// Waits until exec is complete.
    fn wait(pid: i32) -> io::Result<Self> {
        stop(pid)?;
        let kill_it_with_us = u64::from(libc::PTRACE_O_EXITKILL.cast_unsigned());
        // A program that is left with half a call in its place could do anything.
        ptrace(libc::PTRACE_SETOPTIONS, pid, 0, kill_it_with_us)?;
        // SAFETY: registers are numbers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers as u64)?;
        Ok(Self { pid, registers, signal: 0 })
    }

    fn descriptor(&mut self) -> io::Result<OwnedFd> {
        let fd = self.call(libc::SYS_userfaultfd, FLAGS as u64)?;
        let taken = take(self.pid, fd as i32);
        self.call(libc::SYS_close, fd)?;
        taken
    }

    /// Executes one system call in the program's place.
    fn call(&mut self, number: i64, argument: u64) -> io::Result<u64> {
        let at = self.registers.rip;
        let text = self.text(at)?;
        let call = text & !CALL_BITS | CALL;
        ptrace(libc::PTRACE_POKETEXT, self.pid, at, call)?;
        let answer = self.run(number, argument);
        ptrace(libc::PTRACE_POKETEXT, self.pid, at, text)?;
        self.set(&self.registers)?;
        match answer?.cast_signed() {
            error @ -4_095..=-1 => Err(io::Error::from_raw_os_error(-error as i32)),
            value => Ok(value.cast_unsigned()),
        }
    }

    /// The eight bytes at address `at`. The bytes may equal -1 without being an error.
    fn text(&self, at: u64) -> io::Result<u64> {
        let mut word = 0_u64;
        // SAFETY: the raw call, unlike the library's, writes the word to a live local.
        let done = unsafe {
            let (pid, to) = (i64::from(self.pid), &raw mut word);
            libc::syscall(libc::SYS_ptrace, i64::from(libc::PTRACE_PEEKTEXT), pid, at, to)
        };
        if done == 0 { Ok(word) } else { Err(io::Error::last_os_error()) }
    }

    fn run(&mut self, number: i64, argument: u64) -> io::Result<u64> {
        let mut registers = self.registers;
        registers.rax = number.cast_unsigned();
        registers.rdi = argument;
        // No call is under way that the kernel would begin again.
        registers.orig_rax = u64::MAX;
        self.set(&registers)?;
        loop {
            ptrace(libc::PTRACE_CONT, self.pid, 0, 0)?;
            match stop(self.pid)? {
                libc::SIGTRAP => break,
                signal => self.signal = signal,
            }
        }
        ptrace(libc::PTRACE_GETREGS, self.pid, 0, &raw mut registers as u64)?;
        Ok(registers.rax)
    }

    fn set(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        ptrace(libc::PTRACE_SETREGS, self.pid, 0, std::ptr::from_ref(registers) as u64).map(drop)
    }

    /// Lets the program continue on its own.
    fn go_on(&self) -> io::Result<()> {
        ptrace(libc::PTRACE_DETACH, self.pid, 0, self.signal as u64).map(drop)
    }
}

/// Waits until the program stops; returns the signal. The exit status remains available for the caller that waits for
/// it.
fn stop(pid: i32) -> io::Result<i32> {
    let for_what = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL;
    loop {
        // SAFETY: all-zero is valid information, and the kernel writes to a live local.
        let (answer, information) = unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            let id = pid.cast_unsigned();
            (libc::waitid(libc::P_PID, id, &raw mut information, for_what), information)
        };
        match answer {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ if [libc::CLD_TRAPPED, libc::CLD_STOPPED].contains(&information.si_code) => break,
            _ => return Err(io::Error::other("the program ended as it began")),
        }
    }
    let mut status = 0;
    // SAFETY: `status` is a live local.
    unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    Ok(libc::WSTOPSIG(status))
}

/// Copies the program's descriptor (pidfd_getfd(2)).
fn take(pid: i32, fd: i32) -> io::Result<OwnedFd> {
    let process = pidfd(pid).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: takes integers.
    let copy = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just made, with this one owner.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as i32) })
}
