// SPDX-License-Identifier: MIT OR Apache-2.0
//! The glossary: terms of the field, values of columns and options, and names of columns.

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

/// A word of the glossary, with its kind and its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlossaryEntry {
    /// The word that the glossary explains.
    pub word: String,
    /// The kind of word, with its article.
    pub kind: String,
    /// The meaning of the word in a sentence.
    pub meaning: String,
}

impl GlossaryEntry {
    /// Makes an entry for a word of this kind and meaning.
    pub fn new(word: &str, kind: &str, meaning: &str) -> Self {
        Self { word: word.to_owned(), kind: kind.to_owned(), meaning: meaning.to_owned() }
    }
}

/// Technical terms, and words of corehop, that are not values of a column.
const WORDS: &[(&str, &str)] = &[
    (
        "working set",
        "The data (or code) that a job touches repeatedly; the size of the working set is the WSS.",
    ),
    ("WSS", "The working-set size: the amount of data (or code) that a job touches repeatedly."),
    ("touch", "One timed pass of a job over its working set, in a fixed order."),
    (
        "cold",
        "A cold touch starts with the lines of the working set in a prepared state; see `cold touch`.",
    ),
    (
        "warm",
        "A warm touch starts with as much of the working set in the caches as fits; see `warm touch`.",
    ),
    ("resumed", "A resumed touch is the first touch after the event; see `resumed touch`."),
    (
        "cold touch",
        "The first touch of a job, t0 to t1, which starts with the lines in a prepared state.",
    ),
    (
        "warm touch",
        "The second touch of a job, t1 to t2, in the order of the first touch; the caches hold as much of the working set as fits.",
    ),
    ("resumed touch", "The touch after the event, t4 to t5, in the order of the first touch."),
    ("preemption", "The job loses its CPU, and later resumes on the same CPU."),
    (
        "migration",
        "The job resumes on another CPU; the class of the migration is the innermost cache that both CPUs share.",
    ),
    ("preemption length", "The time for which the job was off the CPU, t4 - t3."),
    (
        "CPMD",
        "Cache-related preemption and migration delay: the time of the resumed touch minus the time of the warm touch, (t5 - t4) - (t2 - t1), by the estimator `difference`.",
    ),
    ("D_c", "The bound on the CPMD that a schedulability analysis charges."),
    (
        "delay",
        "The extra time of a resumed touch compared with a warm touch; see CPMD and `estimator`.",
    ),
    (
        "polluter",
        "A thread that only walks its own working set, in order to evict the working sets of others.",
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
    ("realistic", "The load under which your own command runs on the other CPUs (--command)."),
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
        "The simulation covers only some of the cache sets, which is faster; `--exact` simulates all sets. The medians of `sampled` and `--exact` agree, and sampled results scatter more.",
    ),
    (
        "simulated",
        "The experiment ran on the simulated machine of a platform file (--on); nothing was measured on this host.",
    ),
    ("live", "The experiment ran on this host, not on a simulated machine."),
    ("write ratio", "The share of word accesses that write."),
    (
        "chain",
        "A sequence of accesses in which each access waits for the previous access; several chains run at the same time.",
    ),
    ("task", "Recurring work: a task releases a sequence of jobs."),
    ("job", "One instance of a task; in a measurement, one script of touches and absences."),
    ("e", "The execution time of a job, which is the WCET of its task."),
    ("WCET", "The worst-case execution time: the longest time that a job of a task can execute."),
    ("p", "The period of a task."),
    ("d", "The relative deadline of a task."),
    ("TSS", "Task-set size: the number of tasks."),
    ("tardiness", "The time by which a job misses its deadline."),
    (
        "k_min",
        "The number of valid samples of the shortest trace. corehop compares maxima over the first k_min samples of each trace, because a maximum grows with the number of samples (Bastoni et al. 2010, section 3.1).",
    ),
    (
        "weighted schedulability",
        "W(D_c): the share of task sets that are schedulable at a delay D_c, where each set is weighted by its utilisation.",
    ),
    ("CPU", "A logical processor, as Linux numbers them."),
    ("core", "A physical core; its CPUs are SMT siblings."),
    ("package", "The processor that occupies one socket."),
    ("node", "A NUMA node: a memory and the CPUs close to that memory."),
    ("LLC", "The last-level cache: the outermost cache before memory."),
    ("core switch", "The calling thread continues on another core for one call, and then returns."),
    ("off-load", "Another core executes a call of a thread."),
    (
        "offload",
        "`corehop offload` executes two groups of system calls on OS cores, under all names that libc has for \
         them. The first group is calls above a size: read, pread, readv, recv, recvfrom, recvmsg, write, pwrite, \
         writev, send, sendto, sendmsg, sendfile. The second group is calls without a size: open, openat, stat, \
         fstatat, statx, fsync, fdatasync, select, poll, epoll_wait, accept4. No other call is off-loaded, in \
         particular no call whose outcome depends on the thread (gettid, sched_*, signals, prctl, credentials, \
         futexes). A call stays on its own thread if the call would sleep: the thread's partner on the OS core \
         tries the call without waiting, and SA_RESTART, EINTR and time-outs then apply to the caller. A call \
         that would raise SIGPIPE or SIGXFSZ also stays on its thread, and so does a call that reads or writes no \
         byte or has the flag MSG_WAITALL or MSG_OOB. A call on a device stays on its thread, and so does a call \
         on a file whose file system is not on a disk or in memory (/proc, tracefs, FUSE, NFS). No call is \
         off-loaded in a signal handler that interrupts an off-loaded call, after vfork, or after a clone that \
         bypasses libc. All calls of a thread stay on the thread if it blocks signals or has a real-time policy \
         when its partner would start, or if it has changed its own rights. A thread's partner ends before the \
         thread calls unshare, setns, setfsuid, setfsgid, capset, personality or ptrace(PTRACE_TRACEME), or opens \
         a file of /proc to write. The partner also ends before the thread calls prctl or syscall for filters, \
         capabilities, credentials, labels, keyrings, memory policy or I/O priority. If the partner takes more \
         than 10 s to end, the call fails with EAGAIN. A filter for all threads ends all partners, and after any \
         filter no thread gets a new partner. The library does not see a system call that the program makes by \
         its own instruction, or a call inside libc (stdio). The library changes some behaviour of the program: \
         CPU clocks of a thread exclude its partner's time, and a process has more threads. The library ignores \
         SO_RCVLOWAT above 1, and a vector of iovec that cannot be read ends the program instead of returning \
         EFAULT. The threads of the program may use the OS cores only while no calls are off-loaded. A program \
         that is started by posix_spawn or vfork while calls are off-loaded may never use the OS cores.",
    ),
    (
        "OS core",
        "A core that executes system calls for threads on other cores (Strong et al. 2009).",
    ),
    (
        "guard",
        "A part of off-loading that compares stretches of 10 ms with and without off-loading by their calls and bytes per second. If six blocks in a row are slower with off-loading (or 8 of 9, 10 of 12, 12 of 15; or the first three by a tenth), corehop turns off-loading off, and tries again after 2 to 60 s. If the prediction keeps nearly all calls, corehop also turns off-loading off, and tries once to send all calls. Off-loading stays on only if the program is faster in this trial.",
    ),
    (
        "guarded",
        "The calls that stayed on their core because the guard was comparing, or had turned off-loading off.",
    ),
    (
        "predicted",
        "The calls that stayed on the caller's core because recent calls of the same kind and size were faster there.",
    ),
    (
        "small",
        "The calls below the threshold (--threshold, --call), which stay on the caller's core.",
    ),
    ("off-loaded", "The calls that an OS core executed."),
    (
        "repeated",
        "The calls that an OS core tried and the caller then made itself, because the call would have slept or raised a signal.",
    ),
    (
        "kept",
        "The calls of a thread without a partner: the thread has made fewer than 32 calls, blocks signals, or is in a signal handler.",
    ),
    (
        "busy",
        "The calls that stayed on the caller's core because every OS core was busy and the policy is work-conserving.",
    ),
    ("calls", "The number of system calls, by name, that the library of off-loading saw."),
    ("here ns", "The mean time of the calls that corehop timed on the caller's own core."),
    (
        "there ns",
        "The mean time of the calls that corehop timed on an OS core, including the switch there and back.",
    ),
    ("SMR", "Snoops over misses: the share of last-level cache misses that another cache answers."),
    ("MPmI", "The number of last-level cache misses per million instructions."),
    ("platform", "The description of a machine, in which each fact has its source."),
    ("plan", "The work of a machine, as data: the working sets, the cells, and the jobs in order."),
    (
        "sample",
        "One row of a result: the raw intervals of one job, and the causes that disturbed the job.",
    ),
    ("cell", "Samples with the same machine, load, event, absence and working set."),
    (
        "replicate",
        "A part of a run with new draws of everything that a process draws at its start: page frames, order, threads, the pair of CPUs. Samples of one replicate are alike, so intervals come from the differences between replicates; fewer than six replicates give no interval.",
    ),
    (
        "line exchange",
        "Two CPUs send a cache line to each other and back. Half of the time, in nanoseconds, measures the distance between the two CPUs at that moment.",
    ),
    (
        "level",
        "A group of line exchanges that take about the same time. A run has one level for each distance that two CPUs had in the run.",
    ),
    (
        "measured class",
        "The class of a migration according to the line exchanges around its batch; `declared_event` is the class according to the machine's description.",
    ),
    (
        "drift",
        "The medians of replicates rise or fall during a run, because the run was too short or the machine changed.",
    ),
    (
        "valid",
        "A sample is valid if nothing disturbed it, so that `disturbed_by` is empty. Statistics use only valid samples.",
    ),
    (
        "repaired",
        "A sample is repaired if it is valid after corehop cut disturbed segments out of a touch. At least nine tenths of the touch were certified, and corehop scaled the time of the certified part to all lines.",
    ),
    (
        "control",
        "An event that should cost nothing: `none` (the job touches its working set again at once) or `idle_leave` (the job leaves the CPU while nothing else runs there).",
    ),
    (
        "closing balance",
        "The number of lines times the difference between the latency of the supplying level and the warm time of a line. corehop compares the product with the measured delay; the difference is the residual.",
    ),
    ("plateau", "A range of sizes at which an access takes the same time: a cache level."),
    (
        "preemption_length",
        "The time for which the job was off the CPU, as tables name it: `fixed_4ms` is 4 ms each time, `uniform_0_50ms` is drawn evenly between 0 and 50 ms, and LOW..HIGHms are the measured lengths.",
    ),
    (
        "max",
        "The largest delay of the valid samples, as a statistic. The maximum grows with the number of samples.",
    ),
    (
        "avg",
        "The mean of the valid samples, as a statistic; `avg_low` and `avg_high` are the ends of its 95 % interval.",
    ),
    ("std", "The standard deviation of the valid samples, as a statistic, with divisor n - 1."),
    (
        "p50",
        "The median of the valid samples, as a statistic; `p50_low` and `p50_high` are the ends of its distribution-free 95 % interval. `p90`, `p99` and `p999` are the other quantiles, with the same two ends.",
    ),
    ("n", "The number of valid samples, as a statistic; `n_all` is the number of all samples."),
];

macro_rules! values_of {
    ($($words:ty),* $(,)?) => {
        [$(<$words>::ALL.iter().map(|value| GlossaryEntry::new(value.word(), <$words>::WHAT, value.meaning()))
            .collect::<Vec<_>>()),*].concat()
    };
}

/// Returns all words that the glossary explains.
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

/// Returns the columns of all row types; a column that several types have is listed once for each meaning.
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

/// Returns the entries for `word`: entries of that name, or all entries of that kind (`event`, `causes`). If a label
/// joins several words (`preemption, constructed`) and all words are known, the result has the entries of each word.
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

/// Returns whether a word is a preemption length as tables write it: `fixed_4ms`, `uniform_0_20ms`, `0.5..2ms`.
fn is_length(plain: &str) -> bool {
    let has_digit = plain.contains(|c: char| c.is_ascii_digit());
    let shapes =
        plain.starts_with("fixed ") || plain.starts_with("uniform ") || plain.contains("..");
    has_digit && shapes && ["ns", "us", "ms", "s"].iter().any(|unit| plain.ends_with(unit))
}

/// Returns the entries for a single word.
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

/// Returns a heading without its unit, such as `measured, µs` or `median [95 %]`; for `excess: p99` the part before
/// the colon.
fn without_unit(heading: &str) -> &str {
    const UNITS: [&str; 10] =
        [", µs", " µs", ", us", " us", ", ns", " ns", ", ms", " ms", "µs ", " [95 %]"];
    let heading = heading.split_once(": ").map_or(heading, |(before, _)| before);
    UNITS
        .iter()
        .find_map(|unit| heading.strip_suffix(unit).or_else(|| heading.strip_prefix(unit)))
        .unwrap_or(heading)
}

/// Returns the value in a label that also names its column: `load idle`, `4k pages`, `write ratio 0.5`.
fn without_column(label: &str) -> &str {
    let value = label.strip_prefix("load ").or_else(|| label.strip_suffix(" pages"));
    let named = || label.rsplit_once(' ').filter(|(_, number)| number.parse::<f64>().is_ok());
    value.or_else(|| named().map(|(name, _)| name)).unwrap_or(label)
}

/// Returns the word in lower case, with spaces in place of underscores and hyphens.
fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace(['_', '-'], " ")
}

/// Returns the known words nearest to `word`, nearest first.
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
