// SPDX-License-Identifier: MIT OR Apache-2.0
//! A traced program, one of whose calls that change files fails, is interrupted or writes half.

use std::ffi::c_void;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The fault to inject into a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does nothing and gives this `errno`.
    Error(i32),
    /// It writes half of what it was given.
    Short,
}

/// A call that changes a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Create,
    Write,
    Sync,
    Rename,
}

impl Call {
    /// The call of these registers, if it changes a file below `folder`.
    fn of(tid: i32, it: &libc::user_regs_struct, folder: &Path) -> Option<Self> {
        let is_below = |path: Option<PathBuf>| path.is_some_and(|path| path.starts_with(folder));
        let opened = |fd: u64| is_below(fs::read_link(format!("/proc/{tid}/fd/{fd}")).ok());
        let creates = it.rdx & u64::from(libc::O_CREAT.cast_unsigned()) != 0;
        match it.orig_rax.cast_signed() {
            libc::SYS_write | libc::SYS_pwrite64 => opened(it.rdi).then_some(Self::Write),
            libc::SYS_fsync | libc::SYS_fdatasync => opened(it.rdi).then_some(Self::Sync),
            libc::SYS_openat if creates => is_below(path_at(tid, it.rsi)).then_some(Self::Create),
            libc::SYS_rename | libc::SYS_link => {
                is_below(path_at(tid, it.rdi)).then_some(Self::Rename)
            }
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => {
                is_below(path_at(tid, it.rsi)).then_some(Self::Rename)
            }
            _ => None,
        }
    }
}

/// A path in the memory of a thread.
fn path_at(tid: i32, address: u64) -> Option<PathBuf> {
    let mut memory = fs::File::open(format!("/proc/{tid}/mem")).ok()?;
    memory.seek(SeekFrom::Start(address)).ok()?;
    let mut bytes = [0; 512];
    let length = memory.read(&mut bytes).ok()?;
    let text = bytes[..length].split(|&byte| byte == 0).next()?;
    Some(PathBuf::from(String::from_utf8_lossy(text).into_owned()))
}

fn ptrace(request: u32, tid: i32, address: *mut c_void, data: *mut c_void) -> io::Result<()> {
    // SAFETY: `data` is null, a number, or points to registers that outlive the call.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: registers are numbers.
    let mut it: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, tid, std::ptr::null_mut(), (&raw mut it).cast())?;
    Ok(it)
}

fn set_registers(tid: i32, it: &libc::user_regs_struct) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, tid, std::ptr::null_mut(), (&raw const *it).cast_mut().cast())
}

/// The threads of a traced program, and what it has done.
struct Tracer<'a> {
    folder: &'a Path,
    fault: Option<(usize, Fault)>,
    calls: Vec<Call>,
    /// Threads within a call, and the error that it is to give.
    within: Vec<(i32, Option<i32>)>,
}

impl Tracer<'_> {
    /// A thread enters or leaves a call.
    fn stopped(&mut self, tid: i32) -> io::Result<()> {
        if let Some(at) = self.within.iter().position(|it| it.0 == tid) {
            return match self.within.swap_remove(at).1 {
                Some(errno) => {
                    let mut it = registers(tid)?;
                    it.rax = (-i64::from(errno)).cast_unsigned();
                    set_registers(tid, &it)
                }
                None => Ok(()),
            };
        }
        let mut it = registers(tid)?;
        let mut error = None;
        if let Some(call) = Call::of(tid, &it, self.folder) {
            self.calls.push(call);
            match self.fault {
                Some((number, Fault::Error(errno))) if number + 1 == self.calls.len() => {
                    it.orig_rax = u64::MAX;
                    error = Some(errno);
                }
                Some((number, Fault::Short)) if number + 1 == self.calls.len() => {
                    it.rdx = it.rdx.div_ceil(2);
                }
                _ => {}
            }
            set_registers(tid, &it)?;
        }
        self.within.push((tid, error));
        Ok(())
    }

    /// Follows all threads until the first one, the program itself, has ended; gives its exit code.
    fn follow(&mut self, program: i32) -> io::Result<i32> {
        loop {
            let mut status = 0;
            // SAFETY: `status` is a number. Only what this thread traces is waited for.
            let tid =
                unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            if tid < 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                if tid == program {
                    let code = libc::WEXITSTATUS(status);
                    return Ok(if libc::WIFEXITED(status) { code } else { 128 });
                }
                continue;
            }
            let signal = match libc::WSTOPSIG(status) {
                stop if stop == libc::SIGTRAP | 0x80 => {
                    // A thread that was killed meanwhile is no failure.
                    drop(self.stopped(tid));
                    0
                }
                libc::SIGTRAP | libc::SIGSTOP => 0,
                signal => signal,
            };
            drop(go_on(tid, signal));
        }
    }
}

fn go_on(tid: i32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SYSCALL, tid, std::ptr::null_mut(), signal as usize as *mut c_void)
}

/// Starts `command` as a program that this thread traces.
fn begin(command: &mut Command) -> io::Result<Child> {
    let traced = || ptrace(libc::PTRACE_TRACEME, 0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(traced) };
    let child = command.spawn()?;
    let tid = child.id().cast_signed();
    // SAFETY: a null pointer asks for no status. The program has stopped at its first instruction.
    unsafe { libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL) };
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SETOPTIONS, tid, std::ptr::null_mut(), options as usize as *mut c_void)?;
    go_on(tid, 0)?;
    Ok(child)
}

/// Runs the program to its end. Gives its exit code, what it said on stderr, and its calls that change files below
/// `folder`, of which the one of the fault's number fails.
pub(crate) fn run(
    command: &mut Command,
    folder: &Path,
    fault: Option<(usize, Fault)>,
) -> io::Result<(i32, String, Vec<Call>)> {
    let said = tempfile::NamedTempFile::new()?;
    command.stdout(Stdio::null()).stderr(said.reopen()?);
    let mut child = begin(command)?;
    let mut tracer = Tracer { folder, fault, calls: Vec::new(), within: Vec::new() };
    let code = tracer.follow(child.id().cast_signed());
    // It has been waited for: this only forgets it.
    drop(child.try_wait());
    Ok((code?, fs::read_to_string(said.path())?, tracer.calls))
}
