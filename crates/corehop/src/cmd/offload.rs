// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop offload`

mod simulate;

use std::ffi::OsString;
use std::path::PathBuf;

use corehop_app::offload::{self as answer, KernelCoverage, Offloaded};
use corehop_linux::offload::{CALLS, Call, Offload, OffloadError, OffloadSettings, PlaceRule};
use corehop_plan::units::{Bytes, CpuList, Nanos};
use corehop_plan::workload::switching::SwitchMechanism;

use crate::cmd::VerbOrMode;
use crate::output::{self, AnswerBody, Force, OutputFile};
use corehop_app::failure::{Exit, Failure};

/// The arguments of `corehop offload` and of its modes.
pub(crate) type Args = VerbOrMode<OffloadRunOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// Simulate threads that compute and make system calls, and compare the policies for the choice of an OS core.
    Simulate(simulate::Args),
}

/// Run a program, execute its system calls on other cores, and print the effect.
///
/// The verb reproduces an experiment of 2009 (Strong et al.) on a stock kernel; few programs get faster. corehop
/// preloads a library into the program. Calls above a size, and calls without a size, go to a thread on an OS core if
/// recent timings show that the OS core is faster. A guard compares short stretches with and without off-loading, and
/// turns off-loading off if the program makes slower progress. If a call would sleep, the program's own thread makes
/// the call. While calls are off-loaded, the program runs on the remaining CPUs. corehop exits with the program's
/// exit code.
///
/// corehop prints the answer on stderr. `corehop help offload` lists the calls that are off-loaded, and the cases in
/// which a call stays on its thread.
#[derive(Debug, clap::Args)]
pub(crate) struct OffloadRunOptions {
    /// Use these CPUs as OS cores, which execute the program's system calls and, meanwhile, none of its other code
    #[arg(long, value_name = "LIST", value_parser = os_cores)]
    os_cores: CpuList,
    /// Choose an OS core by these policies [default: af]. The policy `wc` keeps a call on its own core if all OS
    /// cores are busy. The policy `af` returns to the thread's last OS core. The policy `pa`, together with `wc` and
    /// `af`, returns even to a busy OS core. The policy `static` uses fixed pairs of cores. Without `af` and
    /// `static`, OS cores alternate
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    policy: Vec<CorePolicy>,
    /// Switch cores by this mechanism: v1, v2, v3, v4 or v5
    #[arg(long, value_name = "MECHANISM", default_value = "v5", value_parser = mechanism)]
    mechanism: SwitchMechanism,
    /// Off-load calls of this size and more; calls without a size qualify as well
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    threshold: Bytes,
    /// Set the threshold of single calls to a size, `all` or `never`, for example `read=64KiB,open=never`
    #[arg(long = "call", value_name = "CALL=SIZE", value_delimiter = ',', value_parser = of_call)]
    calls: Vec<(Call, u64)>,
    /// Decide by this rule which core executes a call
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Decide::Predicted)]
    decide: Decide,
    /// Let a waiting thread spin for at most this many microseconds (default: 5 with two usable CPUs, otherwise 50)
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    spin: Option<u64>,
    /// Also count the program's calls in the kernel, and print how many calls the library did not see. Counting calls
    /// in the kernel needs root, and slows every system call of the machine by some 50 ns
    #[arg(long)]
    coverage: bool,
    /// Write the answer to this file, as JSON
    #[arg(short, long, value_name = "FILE.json")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print the answer as JSON to stdout; the program's output goes to stderr
    #[arg(long)]
    json: bool,
    /// The program and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// A word of `--policy`; the value of a variant is the word's bit in the flags of the off-load library.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
#[repr(u32)]
enum CorePolicy {
    /// Keep a call on its own core if all OS cores are busy (work-conserving)
    Wc = 1,
    /// Return to the thread's last OS core (affinity)
    Af = 2,
    /// Return to the thread's last OS core even if that core is busy
    Pa = 4,
    /// Use fixed pairs of cores (static binding)
    Static = 8,
}

/// The rule for the place of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Decide {
    /// Off-load a call if recent timings of the same call and size favour the OS core, under the guard
    Predicted,
    /// Off-load every qualifying call, under the guard
    Guarded,
    /// Off-load every qualifying call, without the guard
    Always,
    /// Off-load nothing, to measure the cost of the library alone
    Never,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => on_this_host(args),
        VerbOrMode::Mode(Mode::Simulate(args)) => simulate::run(args),
    }
}

fn on_this_host(args: &OffloadRunOptions) -> Result<Exit, Failure> {
    if args.mechanism.is_strong() {
        return Err(Failure::says(
            Exit::Usage,
            format!(
                "{} is a mechanism of the kernel of 2009, which exists only in simulation (`corehop offload simulate`): use v1 to v5",
                args.mechanism
            ),
        ));
    }
    if args.coverage && args.mechanism == SwitchMechanism::V1 {
        return Err(Failure::says(
            Exit::Usage,
            "--coverage distinguishes the program's calls from those of partner threads, and v1 has no partner threads: use another --mechanism, or omit --coverage",
        ));
    }
    let output = OutputFile::if_asked(args.output.as_ref(), &[], args.force)?;
    let offload = Offload {
        command: args.program.clone(),
        os_cores: args.os_cores.clone(),
        wishes: args.wishes(),
        output_to_stderr: args.json,
        coverage: args.coverage,
    };
    let ended = offload.run().map_err(not_run)?;
    let answer = answer::of(&Offloaded {
        command: &offload.command,
        os_cores: &offload.os_cores,
        mechanism: offload.wishes.mechanism,
        code: ended.code,
        tally: ended.tally.as_ref().map_err(ToString::to_string),
        program_cpus: &ended.program_cpus,
        ticks_per_ns: ended.ticks_per_ns,
        coverage: ended.coverage.as_deref().map(|all| all.iter().map(covered).collect()),
    });
    let text =
        serde_json::to_string_pretty(&answer).map_err(|it| Failure::new(Exit::Failed, it))?;
    let written = output.map_or(Ok(()), |output| output.write(format!("{text}\n")));
    let (sentence, words) = answer::words(&answer);
    let printed = if args.json {
        output::answer(sentence, AnswerBody::Data(&format!("{text}\n")))
    } else {
        output::answer(sentence, AnswerBody::Beside(&words))
    };
    for failure in [written, printed].into_iter().filter_map(Result::err) {
        // A wrapper ends as the program did, even if the answer is lost.
        let _of_the_program = output::report(&failure);
    }
    Ok(match ended.code {
        0 => Exit::Done,
        other => Exit::Of(other),
    })
}

impl OffloadRunOptions {
    fn wishes(&self) -> OffloadSettings {
        let mut thresholds = [0; CALLS];
        for (call, threshold) in Call::ALL.into_iter().zip(&mut thresholds) {
            *threshold = if call.has_size() { self.threshold.get() } else { 0 };
        }
        for &(call, threshold) in &self.calls {
            thresholds[call as usize] = threshold;
        }
        OffloadSettings {
            mechanism: self.mechanism.number(),
            flags: if self.policy.is_empty() { CorePolicy::Af as u32 } else { flags(&self.policy) },
            // These three are set by `Offload`.
            os_cores: [0; 16],
            free_cpus: [0; 16],
            ticks_per_microsecond: 1,
            spin_limit_ns: self.spin.map_or(u64::MAX, |us| Nanos::from_micros(us).get()),
            decision: match self.decide {
                Decide::Predicted => PlaceRule::Predicted,
                Decide::Guarded => PlaceRule::Guarded,
                Decide::Always => PlaceRule::Always,
                Decide::Never => PlaceRule::Never,
            },
            thresholds,
        }
    }
}

fn covered(of: &corehop_linux::offload::CallCoverage) -> KernelCoverage {
    KernelCoverage { call: of.call, by_kernel: of.by_kernel, missed: of.missed() }
}

/// The words of `--policy`, as flag bits of the off-load library.
fn flags(policy: &[CorePolicy]) -> u32 {
    policy.iter().fold(0, |all, &policy| all | policy as u32)
}

fn os_cores(text: &str) -> Result<CpuList, String> {
    match text.parse::<CpuList>() {
        Ok(cpus) if cpus.is_empty() => {
            Err("--os-cores names no CPU: write for example --os-cores 1".to_owned())
        }
        Ok(cpus) if cpus.len() > 64 => Err("name at most 64 OS cores".to_owned()),
        Ok(cpus) => Ok(cpus),
        Err(error) => Err(error.to_string()),
    }
}

fn mechanism(text: &str) -> Result<SwitchMechanism, String> {
    let of_kernel = |it: &SwitchMechanism| it.is_strong();
    let known = |it: &SwitchMechanism| SwitchMechanism::LIBRARY.contains(it) || of_kernel(it);
    let mechanism = text.parse::<SwitchMechanism>().ok().filter(known);
    mechanism.ok_or_else(|| {
        format!(
            "`{text}` is not a mechanism: use v1 to v5, or in simulation strong-v1 to strong-v5"
        )
    })
}

/// `read=64KiB`, `open=never`.
fn of_call(text: &str) -> Result<(Call, u64), String> {
    let (name, threshold) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not CALL=SIZE: write for example read=64KiB"))?;
    let call = Call::named(name).ok_or_else(|| {
        let names = Call::ALL.map(Call::name).join(", ");
        format!("`{name}` is not off-loaded; these calls are: {names}")
    })?;
    let threshold = match threshold {
        "never" => u64::MAX,
        "all" => 0,
        _ if !call.has_size() => {
            return Err(format!("`{name}` has no size: write {name}=all or {name}=never"));
        }
        size => size.parse::<Bytes>().map_err(|error| error.to_string())?.get(),
    };
    Ok((call, threshold))
}

/// Converts an off-load error to a failure that states why the program did not run.
fn not_run(error: OffloadError) -> Failure {
    let exit = match error {
        OffloadError::Failed { .. } => Exit::Failed,
        _ => Exit::NotPossible,
    };
    Failure::new(exit, error)
}
