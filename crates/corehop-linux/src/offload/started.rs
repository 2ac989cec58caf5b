// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running program: started on the cores left to it, receiving passed-on signals until it ends.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::mem::zeroed;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use corehop_plan::shown;
use corehop_plan::units::{Cpu, CpuList};
use corehop_shim::board::{PlaceRule, VARIABLE};
use corehop_shim::tally::{CallTally, TallyLimits, Unknown};
use corehop_switch::policy::CoreSet;

use super::boards::OwnBoard;
use super::trusted::Readers;
use super::{CallCoverage, Offload, OffloadError, coverage, library, program};
use crate::observe::exit_code;
use corehop_system::clock::ClockComparison;
use corehop_system::thread;

/// The exit of a program, and the counts of its calls.
#[derive(Debug)]
pub struct OffLoadOutcome {
    /// The exit code, or 128 plus the signal number as in shells.
    pub code: u8,
    /// The counts of calls, or the reason why they are unknown.
    pub tally: Result<CallTally, Unknown>,
    /// The CPUs that the program could use while calls were off-loaded.
    pub program_cpus: CpuList,
    /// The number of time-stamp counter ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// The qualifying calls by the kernel's count, if requested and if the library's count is known.
    pub coverage: Option<Vec<CallCoverage>>,
}

/// The shortest time over which the clocks are compared before the program begins, which gives a rate accurate to a few
/// parts in ten thousand. The times that corehop reports use a comparison over the whole run.
const PACE: Duration = Duration::from_millis(1);

/// The signals that are passed on to the program.
const PASSED_ON: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

pub(super) fn run(offload: &Offload) -> Result<OffLoadOutcome, OffloadError> {
    let failed = |what| move |source| OffloadError::Failed { what, source };
    let Some((name, arguments)) = offload.command.split_first() else {
        let source = io::Error::from_raw_os_error(libc::ENOENT);
        return Err(OffloadError::NoProgram { program: String::new(), source });
    };
    let comparison = ClockComparison::begin();
    program::check(name)?;
    let usable = thread::affinity().map_err(failed("asking for this process's CPUs"))?;
    let program_cpus = cores(&offload.os_cores, &usable)?;
    let mut wishes = offload.wishes;
    wishes.os_cores = words(&offload.os_cores);
    // Where all calls are off-loaded the program never has the OS cores, and where none is it keeps them. Otherwise the
    // library takes them and gives them back.
    let first_cpus = if wishes.decision == PlaceRule::Always { &program_cpus } else { &usable };
    wishes.free_cpus = if wishes.decision.is_guarded() { words(&usable) } else { [0; 16] };
    let readers = Readers::of_programs();
    let library = library::path(readers)?;
    // The guard paces itself by whole ticks of a microsecond, so that a short comparison is enough.
    wishes.ticks_per_microsecond = ((comparison.after(PACE).hertz() / 1e6).round() as u64).max(1);
    let board = OwnBoard::create(&wishes, readers)?;
    let counts = if offload.coverage {
        Some(coverage::begin(&wishes).map_err(OffloadError::NoCount)?)
    } else {
        None
    };
    let signals = SignalMask::new();
    let mut command = Command::new(name);
    command.args(arguments).env("LD_PRELOAD", after_others(&library));
    command.env(VARIABLE, board.path());
    if offload.output_to_stderr {
        command.stdout(io::stderr());
    }
    begin_with(&mut command, first_cpus, signals.before);
    let no_program =
        |source| OffloadError::NoProgram { program: shown::bytes(name.as_encoded_bytes()), source };
    let begun = Instant::now();
    let mut child = command.spawn().map_err(no_program)?;
    let status = signals.wait(&mut child).map_err(failed("waiting for the program"))?;
    let ticks_per_ns = comparison.after(Duration::ZERO).hertz() / 1e9;
    let elapsed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let tally = board.tally(&TallyLimits::of(elapsed, ticks_per_ns));
    let coverage =
        counts.zip(tally.as_ref().ok()).map(|(counts, tally)| coverage::of(&counts, tally));
    Ok(OffLoadOutcome {
        code: u8::try_from(exit_code(status)).unwrap_or(u8::MAX),
        tally,
        program_cpus,
        ticks_per_ns,
        coverage,
    })
}

/// The CPUs that are left to the program.
fn cores(os_cores: &CpuList, usable: &CpuList) -> Result<CpuList, OffloadError> {
    for cpu in os_cores.iter() {
        // A thread that ends at once tries.
        let tried = thread::apart(move || thread::set_affinity([cpu]));
        let failed = |source| OffloadError::Failed { what: "starting a thread", source };
        let tried = tried.map_err(failed)?;
        tried.map_err(|reason| OffloadError::NoCore { cpu: cpu.0, reason })?;
    }
    let left = CpuList::new(usable.iter().filter(|&cpu| !os_cores.contains(cpu)));
    if left.is_empty() {
        return Err(OffloadError::NoneLeft { usable: usable.clone() });
    }
    Ok(left)
}

/// A set of CPUs in the format of the board.
fn words(cpus: &CpuList) -> [u64; 16] {
    let cores: Vec<usize> = cpus.iter().map(|Cpu(cpu)| cpu as usize).collect();
    CoreSet::of(&cores).words()
}

/// The list of libraries to preload. Libraries that the user requested come before corehop's, because they must see
/// every call and corehop's library makes some calls without libc. If this command is off-loaded itself, corehop's
/// library is already in the list.
fn after_others(library: &Path) -> OsString {
    let mut all = std::env::var_os("LD_PRELOAD").filter(|it| !it.is_empty()).unwrap_or_default();
    let mut names = all.as_bytes().split(|byte| b" :".contains(byte));
    if names.any(|name| name == library.as_os_str().as_bytes()) {
        return all;
    }
    if !all.is_empty() {
        all.push(":");
    }
    all.push(library);
    all
}

fn begin_with(command: &mut Command, cpus: &CpuList, signals: libc::sigset_t) {
    let cpus = cpus.clone();
    let begin = move || {
        // SAFETY: the set was filled by the kernel.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const signals, null_mut()) };
        thread::set_affinity(cpus.iter())
    };
    // SAFETY: `begin` makes two system calls on values that it owns.
    unsafe { command.pre_exec(begin) };
}

/// Blocks signals so that they are received one by one instead of ending this process.
struct SignalMask {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl SignalMask {
    fn new() -> Self {
        // SAFETY: both sets are initialised before they are read.
        unsafe {
            let (mut set, mut before) = (zeroed(), zeroed());
            libc::sigemptyset(&raw mut set);
            for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Self { set, before }
        }
    }

    /// Waits for the end of a program and passes signals on to it.
    fn wait(&self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let mut signal = 0;
            // SAFETY: an initialised set, and a number to write.
            unsafe { libc::sigwait(&raw const self.set, &raw mut signal) };
            // Ctrl-C on a terminal has reached the program already.
            let by_terminal = [libc::SIGINT, libc::SIGQUIT].contains(&signal);
            if signal != libc::SIGCHLD && !(by_terminal && io::stdin().is_terminal()) {
                // SAFETY: a child that has not been waited for, so that its number is its own.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
            }
        }
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // A signal that came after the program's end was meant for the program: this command has its answer to give.
        // SAFETY: both sets were filled by the kernel, and the time is a live local.
        unsafe {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            while libc::sigtimedwait(&raw const self.set, null_mut(), &raw const at_once) > 0 {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, null_mut());
        }
    }
}
