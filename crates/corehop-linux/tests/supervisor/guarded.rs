// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run that the tests end: makes changes as it is told on its standard input, one order a
//! line, and answers each with a line.

use std::error::Error;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use corehop_plan::units::CpuList;
use corehop_system::supervisor::{Guard, LoadChild, ProcessId, Undo, interrupt, spawn_load};
use corehop_system::thread::usage;

use crate::denied::deny;

/// The argument that makes the test program such a run.
pub(crate) const ROLE: &str = "guarded";

pub(crate) fn main(directory: &str) -> ExitCode {
    match run(Path::new(directory)) {
        Ok(()) if interrupt::requested() => ExitCode::from(interrupt::INTERRUPTED as u8),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    interrupt::install()?;
    let guard = Guard::in_directory(directory);
    let mut loads = Vec::new();
    let orders = lines_of_stdin();
    while !interrupt::requested() {
        match orders.recv_timeout(Duration::from_millis(10)) {
            Ok(order) if order == "end" => break,
            Ok(order) => match obey(&order, &guard, &mut loads) {
                Ok(answer) => println!("{answer}"),
                Err(error) => println!("refused: {error}"),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    // The loads go first, then the guard; nothing needs to be said.
    Ok(())
}

/// Read by a thread of its own, because reading goes on after a signal.
fn lines_of_stdin() -> Receiver<String> {
    let (send, receive) = channel();
    thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    receive
}

fn obey(order: &str, guard: &Guard, loads: &mut Vec<LoadChild>) -> Result<String, Box<dyn Error>> {
    let (verb, rest) = order.split_once(' ').unwrap_or((order, ""));
    let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
    let load = || loads.last().ok_or("no load yet");
    match verb {
        "set" => drop(guard.set(Path::new(first), second)?),
        "cgroup" => join_new_cgroup(guard, Path::new(first), second.parse()?)?,
        "pin" => pin(guard, first.parse()?, second)?,
        "load" => loads.push(spawn_load(second, first.parse()?, guard)?),
        "faults-after-load" => {
            let (faults, load) = faults_after_load(first.parse()?, second, guard)?;
            loads.push(load);
            return Ok(faults.to_string());
        }
        "unload" => drop(loads.pop()),
        // Held until the process ends.
        "whole" => guard.lock_whole_host()?.keep(),
        "whole-once" => drop(guard.lock_whole_host()?),
        "beat" => guard.beat()?,
        "lose-main" => lose_main_thread(),
        "back" => guard.take_all_back()?,
        "check" => load()?.check()?,
        "leader" => return Ok(load()?.leader().pid.to_string()),
        "restarts" => return Ok(load()?.restarts().to_string()),
        "cpu-time" => return Ok(load()?.cpu_time().get().to_string()),
        "supervisor" => return Ok(guard.supervisor_pid().unwrap_or(0).to_string()),
        "no-locks" => deny(libc::SYS_flock, libc::ENOLCK)?,
        "file-size" => limit_file_size(first.parse()?)?,
        "real-time" => become_real_time()?,
        "stubborn" => stay_busy(),
        "abort" => std::process::abort(),
        "panic" => panic!("as asked"),
        #[allow(clippy::exit, reason = "to show that no destructor is needed")]
        "exit" => std::process::exit(0),
        _ => return Err("no such order".into()),
    }
    Ok("done".into())
}

/// The page faults that writing to memory takes which was written just before a load was started.
fn faults_after_load(
    cpus: CpuList,
    command: &str,
    guard: &Guard,
) -> Result<(u64, LoadChild), Box<dyn Error>> {
    const PAGE: usize = 4096;
    let mut memory = vec![1_u8; 256 * PAGE];
    let mut write = |value: u8| {
        for byte in memory.iter_mut().step_by(PAGE) {
            // SAFETY: a write to a byte of this process, which the compiler may not leave out.
            unsafe { std::ptr::write_volatile(byte, value) };
        }
    };
    // The supervisor is started with the first of them.
    let first = spawn_load(command, cpus.clone(), guard)?;
    write(2);
    let load = spawn_load(command, cpus, guard)?;
    let before = usage().faults;
    write(3);
    let faults = usage().faults - before;
    drop(first);
    Ok((faults, load))
}

fn join_new_cgroup(guard: &Guard, path: &Path, process: i32) -> Result<(), Box<dyn Error>> {
    let back_to: PathBuf = path.parent().ok_or("it has no parent")?.into();
    guard.record(Undo::RemoveCgroup { path: path.into(), back_to })?;
    std::fs::create_dir(path)?;
    Ok(std::fs::write(path.join("cgroup.procs"), process.to_string())?)
}

fn pin(guard: &Guard, thread: i32, before_and_after: &str) -> Result<(), Box<dyn Error>> {
    let (before, after) = before_and_after.split_once(' ').ok_or("from where, to where?")?;
    let (thread_id, cpus) = (ProcessId::of(thread)?, before.parse()?);
    let undo = Undo::SetAffinity { thread: thread_id, cpus, given: None, anywhere: false };
    guard.record(undo)?;
    let mask = 1_u64 << after.parse::<u32>()?;
    // SAFETY: the kernel reads eight bytes of a live local.
    match unsafe { libc::sched_setaffinity(thread, 8, (&raw const mask).cast()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Gives the calling thread, which mostly sleeps, the lowest real-time priority.
fn become_real_time() -> Result<(), Box<dyn Error>> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel reads a live local.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Makes every write beyond `bytes` fail, as on a full disk, but after writing what fits.
fn limit_file_size(bytes: u64) -> Result<(), Box<dyn Error>> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel reads a live local, and a signal that would end the process is ignored.
    match unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit)
    } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

/// Ends the main thread while another one keeps the process alive for some seconds.
fn lose_main_thread() -> ! {
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(20));
        std::process::abort();
    });
    loop {
        // SAFETY: ends this thread; what it has borrowed stays where it is.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
}

/// Does not ask whether it has been interrupted; comes to a bad end if nothing else ends it.
fn stay_busy() {
    println!("done");
    thread::sleep(Duration::from_secs(20));
    std::process::abort();
}
