// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports a program's calls by the core that executed them, as JSON and as text.

use std::ffi::OsString;
use std::fmt::Write as _;

use corehop_plan::shown;
use corehop_plan::units::CpuList;
use corehop_report::figure::FigureTable;
use corehop_report::off_load;
use corehop_report::table::plain;
use corehop_shim::board::{CallFate, ProcessEvent};
use corehop_shim::call::Call;
use corehop_shim::tally::CallTally;
use serde::Serialize;

/// The answer about a program that ran with off-load.
#[derive(Debug, Serialize)]
pub struct OffloadAnswer {
    schema: &'static str,
    version: u64,
    program: Vec<String>,
    exit_code: u8,
    os_cores: CpuList,
    program_cpus: CpuList,
    mechanism: String,
    /// The reason why all following fields are null.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
    #[serde(flatten)]
    counted: OffLoadCounts,
    /// The answer as sentences, the main sentence first.
    sentences: Vec<String>,
}

/// The counts of the system calls of a program. All counts are null if the program changed the file of its counts.
#[derive(Debug, Default, Serialize)]
struct OffLoadCounts {
    /// The number of calls on the list, of any size.
    calls: Option<u64>,
    /// The number of calls that reach the threshold size or have no size.
    qualifying: Option<u64>,
    offloaded: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<Coverage>,
    guard: Option<GuardDecisions>,
    processes: Option<u64>,
    partners: Option<u64>,
    without_partner: Option<u64>,
    private_threads: Option<u64>,
    uncounted_threads: Option<u64>,
    by_call: Option<Vec<OfCall>>,
}

/// The qualifying calls by the kernel's count, and how many of them reached the library.
#[derive(Debug, Serialize)]
struct Coverage {
    /// The share in percent; absent if no call qualified.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<f64>,
    calls: u64,
    missed: u64,
    by_call: Vec<CoverageOfCall>,
}

#[derive(Debug, Serialize)]
struct CoverageOfCall {
    call: &'static str,
    calls: u64,
    missed: u64,
}

/// The decisions of the guards, over all processes.
#[derive(Debug, Serialize)]
struct GuardDecisions {
    turned_off: u64,
    /// The time from the first qualifying call to the first time that a guard turned off-load off.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_seconds: Option<f64>,
    /// By how much off-load had reduced the program's progress when a guard first turned off-load off.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_percent: Option<f64>,
    /// The number of times that a guard turned off-load off because the prediction kept nearly all calls local.
    unused: u64,
    /// The number of times that a guard sent all calls because that was faster.
    sent_all: u64,
    /// By how much sending all calls was faster when a guard last sent all calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    gain_percent: Option<f64>,
}

/// The counts and times of the system calls of one kind.
#[derive(Debug, Serialize)]
struct OfCall {
    call: &'static str,
    calls: u64,
    small: u64,
    offloaded: u64,
    repeated: u64,
    predicted: u64,
    guarded: u64,
    busy: u64,
    kept: u64,
    /// The mean duration of the timed calls on the caller's core.
    #[serde(skip_serializing_if = "Option::is_none")]
    here_ns: Option<f64>,
    /// The mean duration of the timed calls on an OS core.
    #[serde(skip_serializing_if = "Option::is_none")]
    there_ns: Option<f64>,
}

/// A program that has ended, and the counts of its calls.
#[derive(Debug)]
pub struct Offloaded<'a> {
    /// The program's command line.
    pub command: &'a [OsString],
    /// The OS cores of the run.
    pub os_cores: &'a CpuList,
    /// The number of the mechanism.
    pub mechanism: u32,
    /// The exit code of the program.
    pub code: u8,
    /// The counts of calls, or the reason why they are unknown.
    pub tally: Result<&'a CallTally, String>,
    /// The CPUs that the program could use while calls were off-loaded.
    pub program_cpus: &'a CpuList,
    /// The number of time-stamp counter ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// The qualifying calls by the kernel's count, if requested and if the library's count is known.
    pub coverage: Option<Vec<KernelCoverage>>,
}

/// The qualifying calls of one kind, by both counts.
#[derive(Debug, Clone, Copy)]
pub struct KernelCoverage {
    /// The kind of system call.
    pub call: Call,
    /// The number of calls that the kernel counted.
    pub by_kernel: u64,
    /// The number of calls that did not reach the library.
    pub missed: u64,
}

/// Creates the answer about a program that has ended.
pub fn of(ended: &Offloaded<'_>) -> OffloadAnswer {
    let coverage = ended.coverage.as_deref().map(Coverage::of);
    let counted = ended.tally.clone().map(|tally| counted(tally, ended.ticks_per_ns));
    let mut answer = OffloadAnswer {
        schema: off_load::SCHEMAS[0],
        version: off_load::VERSION,
        program: ended.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        exit_code: ended.code,
        os_cores: ended.os_cores.clone(),
        program_cpus: ended.program_cpus.clone(),
        mechanism: format!("v{}", ended.mechanism),
        unknown: counted.as_ref().err().map(|why| shown::line(why).into_owned()),
        counted: OffLoadCounts { coverage, ..counted.unwrap_or_default() },
        sentences: Vec::new(),
    };
    answer.sentences = sentences(&answer);
    answer
}

fn counted(tally: &CallTally, ticks_per_ns: f64) -> OffLoadCounts {
    let by_call: Vec<OfCall> =
        Call::ALL.into_iter().filter_map(|call| of_call(tally, call, ticks_per_ns)).collect();
    let sum = |of: fn(&OfCall) -> u64| Some(by_call.iter().map(of).sum::<u64>());
    let event = |event| Some(tally.event(event));
    OffLoadCounts {
        calls: sum(|it| it.calls),
        qualifying: sum(|it| it.calls - it.small),
        offloaded: sum(|it| it.offloaded),
        coverage: None,
        guard: Some(GuardDecisions::of(tally, ticks_per_ns)),
        processes: event(ProcessEvent::Processes),
        partners: event(ProcessEvent::Partners),
        without_partner: event(ProcessEvent::WithoutPartner),
        private_threads: event(ProcessEvent::Private),
        uncounted_threads: event(ProcessEvent::WithoutRow),
        by_call: Some(by_call),
    }
}

impl GuardDecisions {
    fn of(tally: &CallTally, ticks_per_ns: f64) -> Self {
        let event = |event| tally.event(event);
        let (turned_off, sent_all) = (event(ProcessEvent::TurnedOff), event(ProcessEvent::SentAll));
        let seconds = event(ProcessEvent::UntilTurnedOff) as f64 / ticks_per_ns / 1e9;
        Self {
            turned_off,
            after_seconds: (turned_off > 0).then_some(seconds),
            loss_percent: (turned_off > 0).then_some(event(ProcessEvent::Loss) as f64 / 10.0),
            unused: event(ProcessEvent::Unused),
            sent_all,
            gain_percent: (sent_all > 0).then_some(event(ProcessEvent::Gain) as f64 / 10.0),
        }
    }
}

impl Coverage {
    fn of(covered: &[KernelCoverage]) -> Self {
        let calls = covered.iter().map(|it| it.by_kernel).sum();
        let missed = covered.iter().map(|it| it.missed).sum();
        let percent = (calls > 0).then(|| 100.0 * (1.0 - missed as f64 / calls as f64));
        let of_call = |it: &KernelCoverage| CoverageOfCall {
            call: it.call.name(),
            calls: it.by_kernel,
            missed: it.missed,
        };
        Self { percent, calls, missed, by_call: covered.iter().map(of_call).collect() }
    }

    fn sentence(&self) -> String {
        let Some(percent) = self.percent else {
            return "The kernel counted no call that qualifies.".to_owned();
        };
        let missed = self.by_call.iter().filter(|it| it.missed > 0);
        let missed: Vec<_> =
            missed.map(|it| format!("{} {} of {}", it.call, it.missed, it.calls)).collect();
        let missed = match missed[..] {
            [] => String::new(),
            _ => format!(" Not seen: {}.", missed.join(", ")),
        };
        let calls = self.calls;
        format!(
            "The kernel counted {calls} calls that qualify for off-loading; the library saw {percent:.2} % of these calls.{missed}"
        )
    }
}

fn of_call(tally: &CallTally, call: Call, ticks_per_ns: f64) -> Option<OfCall> {
    let count = |count| tally.total(call, count);
    let mean = |timed, ticks| {
        let timed = count(timed);
        (timed > 0).then(|| count(ticks) as f64 / timed as f64 / ticks_per_ns)
    };
    let mut it = OfCall {
        call: call.name(),
        calls: 0,
        small: count(CallFate::Small),
        offloaded: count(CallFate::There),
        repeated: count(CallFate::Repeated),
        predicted: count(CallFate::Predicted),
        guarded: count(CallFate::Guarded),
        busy: count(CallFate::Busy),
        kept: count(CallFate::Kept),
        here_ns: mean(CallFate::TimedHere, CallFate::TicksHere),
        there_ns: mean(CallFate::TimedThere, CallFate::TicksThere),
    };
    let here = it.small + it.repeated + it.predicted + it.guarded + it.busy + it.kept;
    it.calls = here + it.offloaded;
    (it.calls > 0).then_some(it)
}

/// Returns the answer for a terminal: the main sentence, and its evidence as a table with further sentences.
pub fn words(answer: &OffloadAnswer) -> (&str, String) {
    let mut text =
        answer.counted.by_call.as_deref().map(table).as_ref().map(plain).unwrap_or_default();
    let (first, rest) =
        answer.sentences.split_first().map_or(("", &[][..]), |(a, b)| (a.as_str(), b));
    for sentence in rest {
        writeln!(text, "{sentence}").ok();
    }
    (first, text)
}

fn table(by_call: &[OfCall]) -> FigureTable {
    let columns = [
        "call",
        "calls",
        "small",
        "off-loaded",
        "repeated",
        "predicted",
        "guarded",
        "busy",
        "kept",
        "here ns",
        "there ns",
    ];
    let mut table = FigureTable::new("System calls, by the core that executed them", &columns);
    let mean = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
    let row = |it: &OfCall| {
        let counts = [
            it.calls,
            it.small,
            it.offloaded,
            it.repeated,
            it.predicted,
            it.guarded,
            it.busy,
            it.kept,
        ];
        let mut row = vec![it.call.to_owned()];
        row.extend(counts.map(|count| count.to_string()));
        row.extend([mean(it.here_ns), mean(it.there_ns)]);
        row
    };
    table.rows = by_call.iter().map(row).collect();
    table
}

fn sentences(answer: &OffloadAnswer) -> Vec<String> {
    let OffloadAnswer { mechanism, os_cores, counted, .. } = answer;
    let mut all = Vec::new();
    all.extend(answer.unknown.as_ref().map(|why| {
        format!("The counts are unknown, because the program changed the file of counts: {why}.")
    }));
    all.extend(counted.offloaded.zip(counted.qualifying).map(|counts| match counts {
        (_, 0) => "No call qualified: every call has a size, below the threshold.".to_owned(),
        (offloaded, qualifying) => format!(
            "{offloaded} of {qualifying} calls that qualify were made on CPU {os_cores}, by {mechanism}."
        ),
    }));
    all.extend(counted.coverage.as_ref().map(Coverage::sentence));
    all.extend(counted.guard.iter().flat_map(GuardDecisions::sentences));
    let mut of_some = |count: Option<u64>, what: &str| {
        all.extend(count.filter(|&count| count > 0).map(|count| format!("{count} {what}")));
    };
    of_some(
        counted.without_partner,
        "attempts to start a partner thread failed; the calls were not off-loaded.",
    );
    of_some(
        counted.private_threads,
        "threads have their own credentials, namespaces or filters; their calls were not off-loaded.",
    );
    of_some(counted.uncounted_threads, "threads beyond 1024 at a time are not in the table.");
    if counted.processes == Some(0) {
        all.push(
            "The library was not loaded: the program was started by another program that clears the environment, changes the root directory, or has other rights than its caller (set-user-ID, capabilities, a security module), so the loader preloads nothing."
                .to_owned(),
        );
    }
    all
}

impl GuardDecisions {
    fn sentences(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let (Some(seconds), Some(loss)) = (self.after_seconds, self.loss_percent) {
            all.push(format!(
                "The guard turned off-loading off after {seconds:.2} s: with off-loading the program was {loss:.1} % slower. (Turned off {} times, over all processes and trials.)",
                self.turned_off
            ));
        }
        if self.unused > 0 {
            all.push(format!(
                "Recent timings kept nearly all calls on the program's own CPUs, so the guard turned off-loading off. ({} times, over all processes and trials.)",
                self.unused
            ));
        }
        if let Some(gain) = self.gain_percent {
            all.push(format!(
                "The guard off-loaded all calls, against the prediction: the program was {gain:.1} % faster. ({} times, over all processes and trials.)",
                self.sent_all
            ));
        }
        all
    }
}
