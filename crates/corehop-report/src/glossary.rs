// SPDX-License-Identifier: MIT OR Apache-2.0
//! The glossary: terms of the field, values of columns and options, columns.

use super::headings::{ANSWERS, HEADINGS, PLAIN};
use super::sections;
use corehop_decide::gate::FailOn;
use corehop_decide::move_cost::CostOrigin;
use corehop_decide::pinning::arms::ArmKind;
use corehop_decide::pinning::contest::TrialQuantity;
use corehop_decide::program_runs::{RunQuantity, Seen};
use corehop_decide::simulated::Division;
use corehop_decide::validation::claims::Trend;
use corehop_decide::validation::host::Part as HostPart;
use corehop_decide::validation::points::Quantity;
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::{GangQuantity, JudgementRole};
use corehop_plan::experiment::{Preset, Renewed};
use corehop_plan::finding::Severity;
use corehop_plan::host::Evidence;
use corehop_plan::platform::{
    Distance, Found, Home, Inclusion, LineRequest, Lookup, MemoryArchitecture, PrefetchKind,
    Protocol, Replacement, Side, Supplier, Traffic, Writes,
};
use corehop_plan::samples::{Cause, Certificate, JobOutcome, Overhead, RowKind, Vantage};
use corehop_plan::words::edit_distance;
use corehop_plan::workload::chains::Activation;
use corehop_plan::workload::gang::{Channel, Placing, Sharing};
use corehop_plan::workload::locks::Locking;
use corehop_plan::workload::scheduler::Scheduler;
use corehop_plan::workload::switching::{SwitchCall, SwitchMechanism};
use corehop_plan::workload::{Absence, Event, LineState, Mover, Page, Pattern, Transfer};
use corehop_sched::composition::Kind as ResponsePart;
use corehop_sched::limited::remedy::Limit;
use corehop_sim::partitioning::Placement;
use corehop_stats::cpmd::{Method, Statistic};
use corehop_stats::estimator::Estimator;
use corehop_stats::gain::Form;
use corehop_stats::machine_gain::{Form as MachineForm, LeftOut};
use corehop_stats::saturation::FillSource;

/// A word, what kind of word it is, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlossaryEntry {
    /// The word.
    pub word: String,
    /// The kind of word, with its article.
    pub kind: String,
    /// Its meaning.
    pub meaning: String,
}

impl GlossaryEntry {
    /// A word of this kind and meaning.
    pub fn new(word: &str, kind: &str, meaning: &str) -> Self {
        Self { word: word.to_owned(), kind: kind.to_owned(), meaning: meaning.to_owned() }
    }
}

/// Words of the field, or of this program, that are no values of a column.
const WORDS: &[(&str, &str)] = &[
    ("working set", "The data (or code) that a job touches repeatedly; its size is the WSS."),
    ("WSS", "Working-set size."),
    ("touch", "One timed pass over a working set, in a fixed order."),
    ("cold", "Of a touch: the lines start in a prepared state; see `cold touch`."),
    ("warm", "Of a touch: the caches hold as much of the working set as fits; see `warm touch`."),
    ("resumed", "Of a touch: the first one after the event; see `resumed touch`."),
    ("cold touch", "The first touch, t0 to t1: the lines start in a prepared state."),
    (
        "warm touch",
        "The second touch, t1 to t2, in the order of the first: the caches hold as much of the working set as fits.",
    ),
    ("resumed touch", "The touch after the event, t4 to t5, again in the same order."),
    ("preemption", "Off the CPU, then resumed on the same CPU."),
    ("migration", "Resumed on another CPU; its class is the innermost cache that both share."),
    ("preemption length", "The time a job was off the CPU, t4 - t3."),
    (
        "CPMD",
        "Cache-related preemption and migration delay: the time of the resumed touch minus the time of the warm touch, (t5 - t4) - (t2 - t1), by the estimator `difference`.",
    ),
    ("D_c", "The bound on the CPMD that a schedulability analysis charges."),
    ("delay", "The extra time of a resumed touch over a warm one; see CPMD and `estimator`."),
    (
        "polluter",
        "A task that only walks its own working set, to evict the working sets of others.",
    ),
    ("idle", "The load under which the experiment runs nothing on the other CPUs."),
    (
        "constructed",
        "The load under which polluters walk their working sets on the other CPUs, or on those of --load-cpus, to evict \
         the lines of the job.",
    ),
    (
        "changing",
        "The load under which a program with a moving working set runs on the other CPUs.",
    ),
    (
        "realistic",
        "The load under which a command of yours runs on the other CPUs (--load-command).",
    ),
    (
        "dma",
        "The load under which devices read and write memory: direct I/O, or datagrams on the loopback device. A preemptor also takes the job's CPU.",
    ),
    (
        "buslock",
        "The load of locked instructions on the other CPUs, which may stop all memory accesses. A preemptor also takes the job's CPU.",
    ),
    (
        "preemptor",
        "The thread that runs on the job's CPU while the job is away; it walks its own memory, and thereby evicts cache lines.",
    ),
    (
        "sampled",
        "Simulated in only some of the cache sets, which is faster; `--exact` simulates all sets. The medians of both agree; sampled results scatter more.",
    ),
    (
        "simulated",
        "Run on the simulated machine of a platform file (--on); nothing was measured on this host.",
    ),
    ("live", "Measured on this host."),
    ("write ratio", "The share of word accesses that write."),
    (
        "chain",
        "A sequence of accesses in which each access waits for the previous one; several chains run at once.",
    ),
    ("task", "Recurring work: a sequence of jobs."),
    ("job", "One instance of a task; in a measurement, one script of touches and absences."),
    ("e", "Execution time of a job, its WCET."),
    ("WCET", "Worst-case execution time."),
    ("p", "Period of a task."),
    ("d", "Relative deadline of a task."),
    ("TSS", "Task-set size: the number of tasks."),
    ("tardiness", "The time by which a job misses its deadline."),
    (
        "k_min",
        "The number of valid samples of the shortest trace: maxima are compared over the first k_min \
         samples of each, as a maximum grows with their number (Bastoni et al. 2010, section 3.1).",
    ),
    (
        "weighted schedulability",
        "W(D_c): the share of task sets that are schedulable at a delay \
                                 D_c, weighted by their utilisation.",
    ),
    ("CPU", "A logical processor, as Linux numbers them."),
    ("core", "A physical core; its CPUs are SMT siblings."),
    ("package", "The processor in one socket."),
    ("node", "A NUMA node: memory, and the CPUs close to it."),
    ("LLC", "Last-level cache."),
    ("core switch", "Moving the calling thread to another core while it runs."),
    ("off-load", "Running one call on another core."),
    (
        "offload",
        "`corehop offload` executes these system calls on OS cores, under all names that libc has for them: read, \
         pread, readv, recv, recvfrom, recvmsg, write, pwrite, writev, send, sendto, sendmsg, sendfile above a \
         size; open, openat, stat, fstatat, statx, fsync, fdatasync, select, poll, epoll_wait, accept4. This \
         list is complete: no other call is off-loaded, in particular no call whose outcome depends on the \
         thread (gettid, sched_*, signals, prctl, credentials, futexes). A call stays on its thread in these \
         cases: if the call would sleep (the partner tries the call without waiting; SA_RESTART, EINTR and \
         time-outs then apply to the caller); if it would raise SIGPIPE or SIGXFSZ; on devices, and on files of \
         any file system that is not on a disk or in memory (/proc, tracefs, FUSE, NFS); if no byte is to be \
         read or written; for messages with MSG_WAITALL or MSG_OOB; in a signal handler that interrupts an \
         off-loaded call; after vfork, or a clone that bypasses libc; in a thread that blocks signals or has a \
         real-time policy when its partner would start; and in a thread that changed its own rights. Before \
         unshare, setns, setfsuid, setfsgid, capset, personality, ptrace(PTRACE_TRACEME), opening a file of \
         /proc to write, and prctl or syscall for filters, capabilities, credentials, labels, keyrings, memory \
         policy or I/O priority, the thread's partner ends; if that takes more than 10 s the call fails with \
         EAGAIN. A filter for all threads ends all partners, and after any filter no thread gets a new partner. \
         The library does not see a system call by the program's own instruction, or a call inside libc \
         (stdio). Differences from a run without the library: CPU clocks of a thread exclude its partner's \
         time; SO_RCVLOWAT above 1 is ignored; a vector of iovec that cannot be read ends the program instead \
         of returning EFAULT; a process has more threads; its threads may use the OS cores only while no calls \
         are off-loaded; and a program that it starts in that time by posix_spawn or vfork never may.",
    ),
    (
        "OS core",
        "A core that executes system calls for threads on other cores (Strong et al. 2009).",
    ),
    (
        "guard",
        "The trial of off-loading: stretches of 10 ms with and without off-loading alternate, and corehop compares their calls and bytes per second. If six blocks in a row are slower with off-loading (or 8 of 9, 10 of 12, 12 of 15; or the first three by a tenth), off-loading is turned off, and tried again after 2 to 60 s. If the prediction keeps nearly all calls, off-loading is also turned off, and corehop tries once to send all calls; this trial has to win.",
    ),
    (
        "guarded",
        "Calls that stayed because the guard was comparing, or had turned off-loading off.",
    ),
    (
        "predicted",
        "Calls that stayed because recent calls of the same kind and size were faster on the caller's core.",
    ),
    ("small", "Calls below the threshold (--threshold, --call): they stay."),
    ("off-loaded", "Calls that an OS core executed."),
    (
        "repeated",
        "Calls that were tried on an OS core and then made by the caller, because they would have slept or raised a signal.",
    ),
    (
        "kept",
        "Calls of a thread without a partner: the thread has made fewer than 32 calls, blocks signals, or is in a handler.",
    ),
    ("busy", "Calls that stayed because every OS core was busy and the policy is work-conserving."),
    ("calls", "The number of calls."),
    ("here ns", "The mean time of the calls that were timed on the caller's own core."),
    (
        "there ns",
        "The mean time of the calls that were timed on an OS core, including the switch there and back.",
    ),
    ("SMR", "Snoops over misses: the share of last-level cache misses that another cache answers."),
    ("MPmI", "Last-level cache misses per million instructions."),
    ("platform", "The description of a machine, each fact with its source."),
    ("plan", "The work of a machine, as data: working sets, cells, and jobs in order."),
    ("sample", "One row: the raw intervals of one job, and the causes of its disturbance."),
    ("cell", "Samples with the same machine, load, event, absence and working set."),
    (
        "replicate",
        "A part of a run with new draws of everything that a process draws at its start: page frames, order, threads, the pair of CPUs. Samples of one replicate are alike, so intervals come from the differences between replicates; fewer than six replicates give no interval.",
    ),
    (
        "line exchange",
        "A cache line sent from one CPU to another and back; half of the time, in nanoseconds, measures the distance of the two CPUs at that moment.",
    ),
    (
        "level",
        "A group of line exchanges of about the same time: one level for each distance that two CPUs had in a run.",
    ),
    (
        "measured class",
        "The class of a migration by the line exchanges around its batch; `declared_event` is the \
         class by the machine's description.",
    ),
    (
        "drift",
        "Medians of replicates that rise or fall during a run: the run was too short, or the machine changed.",
    ),
    (
        "valid",
        "Not disturbed: exactly when `disturbed_by` is empty. Statistics are over valid samples.",
    ),
    (
        "repaired",
        "Valid after disturbed segments were cut out of a touch: at least nine tenths of the touch were certified, and their time is scaled to all lines.",
    ),
    (
        "control",
        "An event that should cost nothing: `none` (touched again at once), `idle_leave` \
                 (off the CPU while nothing else runs there).",
    ),
    (
        "closing balance",
        "Lines × (latency of the level that supplies them − warm time of a line), compared with the measured delay; the difference is the residual.",
    ),
    ("plateau", "Sizes at which an access takes the same time: a cache level."),
    (
        "preemption_length",
        "The time a job was off the CPU, as tables name it: `fixed_4ms` is 4 ms each time, `uniform_0_50ms` is drawn evenly \
         between 0 and 50 ms, LOW..HIGHms are the lengths that were seen.",
    ),
    ("max", "Statistic: the greatest delay of the valid samples. It grows with their number."),
    ("avg", "Statistic: the mean; `avg_low` and `avg_high` are the ends of its 95 % interval."),
    ("std", "Statistic: the standard deviation, with divisor n - 1."),
    (
        "p50",
        "Statistic: the median; `p50_low` and `p50_high` are the ends of its \
             distribution-free 95 % interval. `p90`, `p99` and `p999` likewise.",
    ),
    ("n", "Statistic: the number of valid samples; `n_all` that of all."),
];

macro_rules! values_of {
    ($($words:ty),* $(,)?) => {
        [$(<$words>::ALL.iter().map(|value| GlossaryEntry::new(value.word(), <$words>::WHAT, value.meaning()))
            .collect::<Vec<_>>()),*].concat()
    };
}

/// Every word that can be explained from here.
pub fn entries() -> Vec<GlossaryEntry> {
    let words = WORDS
        .iter()
        .map(|(word, meaning)| GlossaryEntry::new(word, "a word of the field", meaning));
    let values = values_of![
        Event,
        Cause,
        JobOutcome,
        Scheduler,
        Locking,
        Activation,
        Certificate,
        Pattern,
        Page,
        LineState,
        Absence,
        Mover,
        Transfer,
        MemoryArchitecture,
        Preset,
        Estimator,
        Severity,
        Renewed,
        Placing,
        Channel,
        Sharing,
        Statistic,
        Method,
        FillSource,
        Limit,
        ResponsePart,
        Trend,
        FailOn,
        RunQuantity,
        Seen,
        ArmKind,
        TrialQuantity,
        Division,
        ErrorLaw,
        GangQuantity,
        JudgementRole,
        Form,
        MachineForm,
        LeftOut,
        HostPart,
        CostOrigin,
        Evidence,
        Quantity,
        Placement,
        Replacement,
        Inclusion,
        Writes,
        Protocol,
        Lookup,
        PrefetchKind,
        LineRequest,
        Supplier,
        Found,
        Distance,
        Home,
        Side,
        Traffic,
        corehop_plan::workload::trace::Source,
        Overhead,
        Vantage,
        SwitchMechanism,
        SwitchCall,
    ];
    let of = |list: &'static [(&str, &str)], kind: &'static str| {
        list.iter().map(move |(word, meaning)| GlossaryEntry::new(word, kind, meaning))
    };
    let of_kinds = sections::HEADINGS.iter().flat_map(|list| of(list, "a heading"));
    let printed = of(HEADINGS, "a heading").chain(of_kinds).chain(of(ANSWERS, "an answer"));
    let plain =
        PLAIN.iter().map(|word| GlossaryEntry::new(word, "a heading", "The heading is literal."));
    words.chain(values).chain(columns()).chain(printed).chain(plain).collect()
}

/// The columns of all row types; one that several have is listed once for each meaning.
fn columns() -> Vec<GlossaryEntry> {
    let mut entries: Vec<GlossaryEntry> = Vec::new();
    for kind in RowKind::ALL {
        for (word, meaning) in kind.docs() {
            let same = |entry: &GlossaryEntry| entry.word == word && entry.meaning == meaning;
            if !entries.iter().any(same) {
                entries.push(GlossaryEntry::new(
                    word,
                    &format!("a column of `{}`", kind.word()),
                    meaning,
                ));
            }
        }
    }
    entries
}

/// The entries for `word`: those of that name, or all of that kind (`event`, `causes`). A label that joins several words
/// (`preemption, constructed`) has the entries of each, if all are known.
pub fn look_up<'a>(entries: &'a [GlossaryEntry], word: &str) -> Vec<&'a GlossaryEntry> {
    let found = look_up_one(entries, word);
    let parts: Vec<&str> =
        word.split([',', '·']).map(str::trim).filter(|it| !it.is_empty()).collect();
    if !found.is_empty() || parts.len() < 2 {
        return found;
    }
    let each: Vec<Vec<&GlossaryEntry>> =
        parts.iter().map(|part| look_up_one(entries, part)).collect();
    if each.iter().any(Vec::is_empty) { Vec::new() } else { each.concat() }
}

/// Whether a word is a preemption length as tables write it: `fixed_4ms`, `uniform_0_20ms`, `0.5..2ms`.
fn is_length(plain: &str) -> bool {
    let has_digit = plain.contains(|c: char| c.is_ascii_digit());
    let shapes =
        plain.starts_with("fixed ") || plain.starts_with("uniform ") || plain.contains("..");
    has_digit && shapes && ["ns", "us", "ms", "s"].iter().any(|unit| plain.ends_with(unit))
}

/// The entries for one word.
fn look_up_one<'a>(entries: &'a [GlossaryEntry], word: &str) -> Vec<&'a GlossaryEntry> {
    let plain = plain(word);
    let of = |plain: &str| -> Vec<&'a GlossaryEntry> {
        entries.iter().filter(|entry| self::plain(&entry.word) == plain).collect()
    };
    let length = if is_length(&plain) { "preemption length" } else { "" };
    let candidates = [&*plain, length, without_unit(&plain), without_column(&plain)];
    let named =
        candidates.iter().map(|it| of(it)).find(|found| !found.is_empty()).unwrap_or_default();
    let singular = plain.strip_suffix('s').unwrap_or(&plain);
    let of_kind = entries.iter().filter(|entry| {
        let kind = self::plain(entry.kind.split_once(' ').map_or("", |(_, kind)| kind));
        kind == plain || kind == singular
    });
    named.into_iter().chain(of_kind).collect()
}

/// A heading without its unit: `measured, µs` or `median [95 %]`; of `excess: p99` the excess.
fn without_unit(heading: &str) -> &str {
    const UNITS: [&str; 10] =
        [", µs", " µs", ", us", " us", ", ns", " ns", ", ms", " ms", "µs ", " [95 %]"];
    let heading = heading.split_once(": ").map_or(heading, |(before, _)| before);
    UNITS
        .iter()
        .find_map(|unit| heading.strip_suffix(unit).or_else(|| heading.strip_prefix(unit)))
        .unwrap_or(heading)
}

/// A label that has a column beside a value: `load idle`, `4k pages`, `write ratio 0.5`.
fn without_column(label: &str) -> &str {
    let value = label.strip_prefix("load ").or_else(|| label.strip_suffix(" pages"));
    let named = || label.rsplit_once(' ').filter(|(_, number)| number.parse::<f64>().is_ok());
    value.or_else(|| named().map(|(name, _)| name)).unwrap_or(label)
}

/// Without case, and with one way to write a gap.
fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace(['_', '-'], " ")
}

/// The known words nearest to `word`, nearest first.
pub fn nearest<'a>(entries: &'a [GlossaryEntry], word: &str) -> Vec<&'a str> {
    let wanted = plain(word);
    let mut near: Vec<(usize, &str)> = entries
        .iter()
        .map(|entry| {
            let known = plain(&entry.word);
            let part = wanted.len() >= 3 && (known.contains(&wanted) || wanted.contains(&known));
            (
                if part && known.len() >= 3 { 1 } else { edit_distance(&wanted, &known) },
                entry.word.as_str(),
            )
        })
        .collect();
    near.sort_by_key(|&(distance, known)| (distance, known.len().abs_diff(word.len())));
    near.retain(|&(distance, known)| distance <= known.chars().count().max(3) / 2);
    let mut words: Vec<&str> = Vec::new();
    for (_, known) in near {
        if !words.contains(&known) && words.len() < 5 {
            words.push(known);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_column_is_explained() {
        let entries = entries();
        let words =
            Cause::ALL.iter().map(|it| it.word()).chain(Event::ALL.iter().map(|it| it.word()));
        for word in words.chain(RowKind::Samples.docs().into_iter().map(|(name, _)| name)) {
            let found = look_up(&entries, word);
            assert!(
                found.iter().all(|entry| entry.meaning.len() > 10) && !found.is_empty(),
                "{word}"
            );
        }
    }

    #[test]
    fn a_kind_lists_its_values_and_case_and_gaps_do_not_matter() {
        let entries = entries();
        let causes = look_up(&entries, "causes");
        assert_eq!(causes.len(), Cause::ALL.len());
        assert_eq!(look_up(&entries, "Write-Ratio")[0].word, "write ratio");
        assert!(look_up(&entries, "nonsense").is_empty());
    }

    #[test]
    fn a_slip_finds_the_word_that_was_meant() {
        let entries = entries();
        for (slip, meant) in
            [("premption", "preemption"), ("l3_migrate", "l3_migration"), ("poluter", "polluter")]
        {
            assert!(
                nearest(&entries, slip).contains(&meant),
                "{slip}: {:?}",
                nearest(&entries, slip)
            );
        }
        assert_eq!(
            (
                edit_distance("kitten", "sitting"),
                edit_distance("", "abc"),
                edit_distance("same", "same")
            ),
            (3, 3, 0)
        );
    }
}
