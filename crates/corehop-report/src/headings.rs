// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headings of printed tables and the words of their answers, each with its meaning.

mod answers;

pub(super) use answers::ANSWERS;

/// The headings of tables that mean what their words say.
pub(super) const PLAIN: &[&str] = &[
    "cells",
    "runs",
    "samples",
    "preemptions",
    "migrations",
    "schedulers",
    "jobs",
    "median delay",
    "set",
    "sets",
    "preemptions/s",
    "a preemption costs",
    "gaps/s",
    "largest",
    "file",
    "reason",
    "value",
    "scheduler",
    "assuming",
    "absences",
    "lengths",
    "response median",
    "largest tardiness",
    "valid share",
];

/// The headings of tables without units, each with its meaning. The columns of files are explained
/// in their schema.
pub(super) const HEADINGS: &[(&str, &str)] = &[
    (
        "median",
        "The median of the valid samples; its 95 % interval, in brackets, comes from the differences between replicates.",
    ),
    (
        "medians of replicates",
        "The smallest and the largest median of a replicate, and the number of replicates.",
    ),
    ("mean", "The mean of the valid samples."),
    (
        "between",
        "The interval of a calibrated number: the values that fit the ends of the 95 % intervals of the live medians. For a loss, the interval spans the quartiles.",
    ),
    ("live", "The median delay that was measured on this host."),
    (
        "error",
        "The difference between the simulated and the live median, divided by the live median.",
    ),
    ("warm", "The median time of the warm touch."),
    (
        "judged",
        "`yes` if the error of the cell counts in the comparison, otherwise the reason for leaving the cell out.",
    ),
    ("median per KiB", "The median delay divided by the working-set size in KiB."),
    ("over warm", "The median delay as a multiple of the median warm touch."),
    (
        "cold − warm",
        "The cold touch minus the warm touch, which is the delay if every line is lost. No delay can be longer.",
    ),
    ("switch", "The direct cost of the switch to another CPU, without cache misses."),
    (
        "beyond the samples",
        "An estimate of a quantile beyond the largest sample, from a fitted tail, or `refused` with the reason.",
    ),
    ("90 %", "The 90 % quantile: 90 % of the measured values do not exceed this value."),
    ("99 %", "The 99 % quantile: 99 % of the measured values do not exceed this value."),
    ("wss_kib", "The working-set size in KiB, in summary tables."),
    (
        "p999",
        "The 99.9 % quantile of the valid samples, as a statistic, if there are enough samples.",
    ),
    ("n_all", "The number of all samples, including disturbed samples."),
    ("of", "The group of samples that a row of the table counts."),
    ("all", "The number of all samples or rows, including disturbed ones."),
    ("untouched", "The number of valid samples from which corehop cut out no disturbed segment."),
    ("observation", "A finding of a published study, which corehop tests on these samples."),
    ("here", "The outcome of the test on this machine."),
    ("because", "The evidence or the reason for the outcome."),
    ("source", "The origin of a number: a paper and section, a file, or a measurement."),
    ("rule", "The rule by which corehop tests an observation."),
    ("compared", "The two events or conditions whose costs are compared."),
    (
        "found",
        "The measured value of a ratio or a difference, or the value that `corehop doctor` found.",
    ),
    ("interval", "The confidence interval, at 95 % unless another level is stated."),
    (
        "margin",
        "The largest difference that counts as no difference; the margin is chosen before the comparison.",
    ),
    (
        "says",
        "The outcome of one comparison: fits, contradicts or open; for task sets more, less or inconclusive.",
    ),
    ("size", "The size of a cache."),
    ("access", "The time of one memory access, in nanoseconds."),
    (
        "from",
        "The origin of a value or a transfer: a cache, a CPU, the first size of a plateau, a paper, or the source of a latency.",
    ),
    ("to", "The second CPU of a pair, or the last size of a plateau."),
    (
        "lines from",
        "The cache, or the memory, from which the job fetches its lines after the event.",
    ),
    ("per line", "The time to fetch one cache line, in nanoseconds."),
    ("ns per line", "The time to fetch one cache line after the event, in nanoseconds."),
    ("warm, ns per line", "The time for one cache line in a warm touch, in nanoseconds."),
    (
        "measured",
        "The measured delay, for comparison with the delay that latencies explain. For a fact of a platform: the value was measured on this machine.",
    ),
    ("explained", "The part of the delay that the latencies of the caches explain."),
    ("explained share", "The explained delay divided by the measured delay."),
    ("residual", "The measured delay minus the explained delay."),
    ("by misses", "The delay computed from counted last-level cache misses."),
    ("huge pages", "The share of the working set that was on huge pages."),
    ("base", "The median delay with base pages."),
    ("huge", "The median delay with huge pages."),
    (
        "translation",
        "The part of the delay due to address translation: the delay with base pages minus the delay with huge pages.",
    ),
    ("share", "The part of a whole, in percent."),
    ("machine", "The machine of the row, as the id of its platform."),
    ("cache", "The cache of the row, by its level."),
    ("declared", "The value that the machine declares (sysfs, CPUID)."),
    (
        "outcome",
        "The outcome of a check or a comparison; `corehop help WORD` explains each outcome.",
    ),
    (
        "access on its plateau",
        "The median time of an access on the plateau of the cache, in nanoseconds.",
    ),
    (
        "points",
        "The number of points: the measured sizes on a plateau of the access-time curve, or the plotted samples.",
    ),
    ("lines", "The number of cache lines of the working set."),
    ("pages", "The pages of the working set: 4k, thp or hugetlb."),
    ("valid walks", "The number of passes over the working set that nothing disturbed."),
    ("min", "The smallest value of the valid samples."),
    (
        "part",
        "A cause of the spread of the samples; the steps of `corehop measure conditions` separate the causes.",
    ),
    ("95 %", "The 95 % confidence interval."),
    (
        "alone",
        "The standard deviation of the medians that one cause of the spread alone would produce.",
    ),
    (
        "class",
        "The class of a pair of CPUs, or of a migration: the innermost cache that both CPUs share.",
    ),
    ("pairs", "The number of CPU pairs of a class."),
    ("shortest", "The shortest line exchange of a pair of CPUs, in nanoseconds."),
    ("shortest of all", "The shortest line exchange of any pair of the class, in nanoseconds."),
    ("middle median", "The median of the medians of all pairs of the class, in nanoseconds."),
    ("batches", "The number of batches of line exchanges or of calls."),
    ("latency", "The time of one access to a cache level or to memory."),
    ("fact", "A fact of the platform that measurements can confirm or contradict."),
    ("length", "The preemption length: the time that the job was off the CPU."),
    ("shown", "The number of points in the picture; corehop thins large clouds of points evenly."),
    ("disturbed", "The number of disturbed samples."),
    ("asked for", "The preemption length that the plan requests."),
    ("got", "The preemption length that the job actually had."),
    (
        "excess",
        "The actual preemption length minus the requested length; the excess comes from the timer and the wake-up.",
    ),
    ("what", "The event, the finding or the overhead that the row describes."),
    ("why it matters", "The effect of the finding on measurements."),
    ("remedy", "The command or change that removes the finding."),
    ("program", "A program of a published study, which corehop simulates or runs."),
    ("with", "The parameters with which the program ran."),
    ("items", "The number of items that the program works on."),
    (
        "shared",
        "The threads run on two cores with a common cache; values in nanoseconds are their run time.",
    ),
    ("separate", "The threads run on two packages; values in nanoseconds are their run time."),
    (
        "ratio",
        "The first value divided by the second value; the first value is smaller if the ratio is below 1.",
    ),
    (
        "predicted",
        "The ratio of run times that corehop predicts from the misses without a common cache.",
    ),
    (
        "predicted to save",
        "The CPU time per second that a placement is predicted to save, in percent of one CPU.",
    ),
    ("placement", "The threads, and the CPUs on which a placement lets the threads run."),
    (
        "verdict",
        "The result of a trial (better than before, worse, or undecided), and the action that corehop took.",
    ),
    (
        "other thread",
        "The second thread of the pair, which wakes the first thread or is woken by it.",
    ),
    (
        "wake-ups/s",
        "Wake-ups per second between two threads, in both directions; recent wake-ups have more weight.",
    ),
    ("at least", "The lower end of the 95 % interval of the wake-up rate."),
    (
        "hand-overs of data/s, at least",
        "The cache lines per second that one thread takes over from the other thread without a wake-up. The rate of hand-overs is a lower bound, because the sources of evidence only sample.",
    ),
    (
        "sure to",
        "The probability that two threads belong together, computed from all sources of evidence under the assumption of independent errors.",
    ),
    ("SMR separate", "The SMR with the threads on two packages."),
    ("MPmI shared", "The MPmI with the threads below a common cache."),
    ("MPmI separate", "The MPmI with the threads on two packages."),
    ("ran meanwhile", "The work that ran on the job's CPU during the absence."),
    (
        "stops growing at",
        "The shortest preemption length beyond which the delay grows by less than a tenth.",
    ),
    ("delay at the longest", "The median delay after the longest preemption length."),
    ("lines in, a µs", "The number of cache lines that enter the caches per microsecond."),
    ("known by", "The source of the rate at which lines enter the caches."),
    ("seconds", "The total duration of the runs, in seconds."),
    ("missed", "The deadlines that jobs missed, as a share in percent or as a number."),
    ("response", "The response time of a job, from its release to its end."),
    ("response p99", "The response time that 99 % of the jobs do not exceed."),
    (
        "CPUs",
        "The application core, and the OS core that executes its calls; in a trial of arms, the CPUs of an arm.",
    ),
    (
        "arm",
        "A set of CPUs to which corehop pins a program for a turn; the arm `default` leaves the choice to the kernel.",
    ),
    ("wall s", "The mean wall time of a run, in seconds."),
    (
        "CPU s",
        "The mean CPU time of a run, in seconds; for a running process, the CPU time per second.",
    ),
    ("progress/s", "The mean progress per second, in the program's own unit."),
    ("faster", "The speed of an arm divided by the speed of the default, minus 1."),
    ("more progress", "The progress of an arm divided by the progress of the default, minus 1."),
    ("stretches", "The number of time stretches in which a process ran in an arm."),
    (
        "mechanism",
        "A way to execute a call on another core; for example, `corehop help v4` explains the mechanism v4.",
    ),
    (
        "call",
        "The call that another core executes; values in nanoseconds are the mean time of the call, including its switches.",
    ),
    (
        "a switch",
        "The cost of one core switch, which is half of the additional time of a call on the other core.",
    ),
    ("range of batches", "The shortest and the longest mean time of a call in a batch."),
    ("10 %", "The 10 % quantile: 10 % of the measured values do not exceed this value."),
    ("line", "The line exchange between the two CPUs, in nanoseconds for one direction."),
    ("bytes", "The bytes that the call reads or writes; 0 for a call without a size."),
    ("outstanding", "The number of outstanding calls; with 1 the caller waits for each call."),
    (
        "way",
        "The mechanism that executes a call, and the number of outstanding calls if there are several.",
    ),
    ("longer by", "The additional time of the call compared with the same call without a switch."),
    (
        "pays",
        "The point from which a core switch pays, with its interval and the number of replicates; for `second-worker`, the comparison with a second worker on the other core.",
    ),
    (
        "instead of a second worker",
        "The range of the caller's own work per call in which a core switch uses the other core better than a second worker thread would.",
    ),
    (
        "invalid",
        "The number of invalid batches, in which calls stayed on the caller's core or the hypervisor moved a CPU.",
    ),
    ("a second", "The number of samples per second."),
    (
        "tasks",
        "The number of tasks in a set; in a comparison of sets, the numbers of tasks in both.",
    ),
    (
        "jobs by course",
        "The number of jobs by their course; only jobs with the course `sample` give a sample.",
    ),
    (
        "execution",
        "For two schedulers X against Y: the execution time of a task under X divided by its execution time under Y, as the median of all tasks.",
    ),
    (
        "fewer misses",
        "For each of two schedulers, the number of tasks that miss fewer deadlines than under the other scheduler.",
    ),
    (
        "longest response",
        "For two schedulers X against Y: the longest response time of a task under X divided by its longest response time under Y.",
    ),
    ("write", "The write ratio: the share of word accesses that write."),
    ("p10", "The 10 % quantile: one in ten measured values does not exceed this value."),
    (
        "max of all",
        "The largest delay of all samples of a cell; the column `max` covers only the first k_min samples.",
    ),
    ("detectable", "The smallest ratio that the number of samples can distinguish from 1."),
    ("reading", "One interpretation of a published study that leaves details open."),
    ("is preferable to", "The scheduler that is compared with the scheduler of the row."),
    ("whose delay is", "The fixed delay D_c that is charged under the compared scheduler."),
    (
        "below",
        "The delay D_c under the scheduler of the row up to which this scheduler has a higher weighted schedulability than the compared scheduler.",
    ),
    ("printed", "The value that the paper prints."),
    ("simulated", "The value that the simulated machine gives."),
    ("after", "The preemption length after which the job resumed."),
    ("do", "The advice: stay, move, or unknown if the intervals do not decide."),
    ("costs", "The median cost of the move, with its interval."),
    (
        "pays from",
        "The expected wait from which a move costs less than staying. Staying costs the wait and a preemption of that length.",
    ),
    ("stay", "The median cost of staying on the CPU, without the wait itself."),
    ("cost", "The predicted cost of a preemption or migration, in microseconds."),
    ("company", "The work that uses the caches beside the job: the load, or none."),
    ("saves", "The amount by which the cost falls."),
    (
        "n in replicates",
        "The number of samples, and the number of replicates that contain the samples.",
    ),
    ("divided by", "The way to divide a cache: by ways or by page colours."),
    ("as it is", "The cost of a preemption with an undivided cache."),
    ("divided", "The cost of a preemption with a divided cache."),
    ("a warm touch grows by", "The additional time of a warm touch if the cache is divided."),
    (
        "sched_migration_cost_ns",
        "A constant of the kernel's scheduler: the kernel avoids moving a task that ran more recently than this time.",
    ),
    ("which is", "The costs from which corehop computes the constant."),
    (
        "warm budget",
        "The time off the CPU after which half of the cost of a preemption has accrued.",
    ),
    ("cell", "Samples with the same machine, load, event, absence and working set."),
    ("A", "The first of two compared results, which is the baseline."),
    ("B", "The second of two compared results."),
    ("B - A", "The median of the second result minus the median of the first result."),
    ("per run", "A quantity of one run of the program."),
    (
        "none seen",
        "The comparison shows no difference: its interval contains 0, or the unchanged command differs as much from itself.",
    ),
    ("A/A floor", "The difference that the machine shows between runs of the unchanged command."),
    ("smallest seen", "The smallest difference that the number of replicates can detect."),
    ("U", "The utilisation of a task set: the sum of WCET over period."),
    (
        "by pair",
        "The number of task sets that are schedulable if each pair of tasks has its own cost of a preemption.",
    ),
    (
        "one value",
        "The number of task sets that are schedulable if every preemption has the same cost.",
    ),
    (
        "only by pair",
        "The number of task sets that are schedulable with costs by pair, but not with one value.",
    ),
    (
        "only one value",
        "The number of task sets that are schedulable with one value, but not with costs by pair.",
    ),
    (
        "schedulable",
        "Every job meets its deadline; as a heading, the number of task sets for which a test proves schedulability.",
    ),
    ("so limited", "The number of task sets that are schedulable with limited preemptions."),
    ("remain/s", "The preemptions per second that remain if preemptions are limited."),
    ("cost in CPUs", "The CPU time per second that preemptions take, in CPUs."),
    (
        "remains",
        "The CPU time per second that preemptions take if preemptions are limited, in CPUs.",
    ),
    ("remain", "The number of preemptions that remain if preemptions are limited."),
    ("saves at most", "The upper bound on the time that limited preemptions save."),
    ("by", "The method of the prediction: fitted, survivors or worst_case."),
    ("thread", "A thread of the recorded or placed program."),
    ("process", "A process of the recorded program, with all its threads."),
    (
        "had the CPU",
        "The time for which a thread ran on a CPU while threads of the recorded program waited for that CPU.",
    ),
    (
        "came first after preemptions",
        "The number of preemptions after which the named thread was the next to run on the CPU.",
    ),
    (
        "at wake-up",
        "The number of preemptions or migrations of the class in which the thread had blocked and was woken up.",
    ),
    ("CPU changes", "The number of times a thread resumed on another CPU."),
    ("name", "The name of a thread, or of the work that preempted the thread."),
    ("times", "The number of preemptions or migrations of the class."),
    ("away", "The total time that threads were off the CPU."),
    ("preempted", "The number of absences of threads that could have continued to run."),
    (
        "by affinity",
        "The number of moves that were caused by a change of the thread's own CPU mask.",
    ),
    ("longest", "The longest time that a thread was off the CPU."),
    ("series", "The cells that differ only in size and length; a model fits one curve to them."),
    ("sizes", "The working-set sizes that were measured."),
    (
        "answers",
        "The method or form that gives the predictions, because its error is the smallest.",
    ),
    ("form", "The form of the prediction; `corehop help WORD` explains each form."),
    (
        "a program left out",
        "The errors of predictions for programs that were excluded from the fit: the typical and the largest error as factors, and the number of rows.",
    ),
    (
        "a size left out",
        "The errors of predictions for sizes that were excluded from the fit, each between two other sizes: the typical and the largest error as factors, and the number of rows.",
    ),
    (
        "how",
        "The method of measuring: `kernel` (between tracepoints) or `threads` (from user space).",
    ),
    ("column", "The column of the overhead table to which a measured time belongs."),
    ("for", "The scheduler to which the test applies."),
    ("asks", "The question that the test answers."),
    ("is", "The kind of the test: exact, sufficient or necessary."),
    ("accepted by", "The method that accepted the task set."),
    ("priorities", "The tasks in the order of their priorities, the highest first."),
    ("charged", "The delay that the test adds to the task."),
    (
        "supply",
        "The time that CPUs supply to the tasks, if CPUs do not supply all of their time; the bounds of the test include the gaps.",
    ),
    ("responds", "The bound on the task's response time."),
    (
        "holds",
        "The number and kind of the rows in a file. For an observation: the samples confirm the observation.",
    ),
    ("incomplete", "The reason why the file is not a complete run."),
    ("us", "The table has its times in microseconds."),
    (
        "B-A, %",
        "The difference of the second result from the first, in percent of the first result.",
    ),
    (
        "A/A, %",
        "The largest difference between halves of the first result, in percent, which is the noise of an unchanged state.",
    ),
    (
        "quota",
        "The thread's control group, or a group above it, had used up its CPU time for the period (`cpu.max`).",
    ),
    ("deadline_budget", "The thread had used up its SCHED_DEADLINE budget until the next period."),
    (
        "realtime_limit",
        "Real-time threads, or the real-time threads of the control group, had used up their share of the CPU.",
    ),
    ("frozen", "The thread's control group was frozen."),
    ("stopped", "A signal or a debugger had stopped the thread."),
    ("command", "The command line that wrote the file."),
    ("date", "The date and time at which the run started."),
    ("plan digest", "A checksum of the plan: equal digests mean equal plans."),
    ("corehop", "The version of corehop that wrote the file."),
    ("warm touch itself", "The median time of the warm touch, for comparison with the delays."),
    (
        "all draws at once",
        "The part of the spread of the samples that appears when `measure conditions` renews page frames, order, threads, polluters and preemptors together.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that add nothing to the meaning of other words.
    const FILLERS: [&str; 18] = [
        "the", "a", "an", "of", "in", "is", "are", "was", "were", "by", "that", "this", "per",
        "to", "number", "name", "value", "values",
    ];

    /// Returns the words of a text without their endings, and without fillers.
    fn stems(text: &str) -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
        let telling = words.filter(|it| !it.is_empty() && !FILLERS.contains(&it.as_str()));
        telling.map(|it| it.trim_end_matches(['s', 'd', 'e']).to_owned()).collect()
    }

    fn repeats((word, meaning): (&str, &str)) -> bool {
        let own = stems(word);
        stems(meaning).iter().all(|it| own.contains(it))
    }

    #[test]
    fn no_entry_only_repeats_its_word() {
        assert!(repeats(("jobs", "The number of jobs.")) && !repeats(("jobs", "Parts of tasks.")));
        let all = HEADINGS.iter().chain(ANSWERS).copied().filter(|&it| repeats(it));
        assert_eq!(all.collect::<Vec<_>>(), []);
        let listed = |word: &&&str| HEADINGS.iter().any(|(other, _)| *other == **word);
        assert_eq!(PLAIN.iter().find(listed), None, "explained and called plain");
    }
}
