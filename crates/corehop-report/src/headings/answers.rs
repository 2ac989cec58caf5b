// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words that stand as answers in printed tables and messages.

/// The words of answers that belong to no column, each with its meaning.
pub(crate) const ANSWERS: &[(&str, &str)] = &[
    ("does not hold", "The samples contradict the observation of a study."),
    (
        "cannot tell",
        "The samples neither confirm nor contradict the observation; more replicates or another machine may decide.",
    ),
    ("fits", "The comparison agrees with the observation."),
    ("contradicts", "The comparison excludes the observation."),
    ("open", "The interval of the comparison includes agreement as well as contradiction."),
    (
        "more",
        "The second value is greater than the first, because the interval of the difference lies above 0.",
    ),
    (
        "less",
        "The second value is smaller than the first, because the interval of the difference lies below 0.",
    ),
    ("inconclusive", "The interval of the difference includes 0, so the comparison has no result."),
    ("observed", "The access-time curve leaves a plateau at the declared size of the cache."),
    ("contradicted", "A measurement excludes the declared value; corehop prints the reason."),
    ("confirmed", "A measurement agrees with the declared value."),
    ("slower", "The second result costs more than the first, by at least the margin."),
    ("faster", "The second result costs less than the first, by at least the margin."),
    ("equivalent", "The two results differ by less than the margin, with the required confidence."),
    ("stay", "The advice: wait for the CPU on which the job ran, and resume there."),
    ("move", "The advice: move the job at once to an idle CPU, in the class that the row names."),
    (
        "not enough evidence",
        "The measurement has too few replicates, or its intervals are too wide.",
    ),
    ("unschedulable", "An exact or necessary test proves that a job can miss its deadline."),
    (
        "unknown",
        "The question has no answer, because a sufficient test failed or too little was measured. The answer `unknown` does not mean no.",
    ),
    ("exact", "A test that accepts exactly the schedulable task sets."),
    (
        "sufficient",
        "A test whose yes proves schedulability; if the test fails, the answer is `unknown`.",
    ),
    (
        "necessary",
        "A test whose no proves that the set is unschedulable; if the set passes, the answer is `unknown`.",
    ),
    ("cited", "The source of a fact is a document, which the platform file names."),
    (
        "fitted",
        "The value of a fact was adjusted to published or measured numbers. As a method of prediction, `fitted` is a curve through measured cells.",
    ),
    ("assumed", "The value of a fact has no evidence; corehop uses a common value."),
    ("refused", "The samples do not support the statistic; corehop prints the reason."),
    ("not known", "The value was not measured, and the platform file does not state it."),
    (
        "stated by the platform",
        "The platform file states the value, and no measurement checked it.",
    ),
    (
        "~",
        "The delay is no larger than the delay of the control `none`, so the delay is within the error of the method.",
    ),
    ("–", "The value was not measured, or is not defined for this row."),
    ("…", "An end of the interval is missing, because there are too few replicates."),
    (
        "bpf",
        "Kernel programs at the scheduler's tracepoints recorded every event, with the preempting thread.",
    ),
    (
        "perf_records",
        "The kernel's context-switch records recorded the events, without the preempting thread.",
    ),
    (
        "rseq",
        "Restartable sequences recorded the events: the thread detects that it was off the CPU.",
    ),
    ("schedstat", "The kernel's counters recorded only the number of events."),
    (
        "distance of the CPUs",
        "The part of the spread of the samples that appears because the hypervisor moved virtual CPUs during `measure conditions`.",
    ),
    (
        "the job's page frames",
        "The part of the spread of the samples that appears when `measure conditions` draws other page frames for the job's working set.",
    ),
    (
        "the order of its accesses",
        "The part of the spread of the samples that appears when `measure conditions` draws another random order of the job's accesses.",
    ),
    (
        "polluters and preemptors",
        "The part of the spread of the samples that appears when `measure conditions` draws other page frames and orders for polluters and preemptors.",
    ),
    (
        "the measured threads",
        "The part of the spread of the samples that appears when `measure conditions` starts new measured threads.",
    ),
    (
        "time, from step to step",
        "The part of the spread of the samples that appears between steps of `measure conditions` although no step renewed anything.",
    ),
    (
        "time, over the run",
        "The part of the spread of the samples that comes from slow changes during the run.",
    ),
    (
        "error of a step's median",
        "The part of the spread that appears because each step of `measure conditions` takes few samples, so that its median has an error.",
    ),
    (
        "goes with",
        "A quantity (a covariate) that changes together with the delays, but is not a separate part of the spread.",
    ),
    ("TASK-COUNT", "In a table of overheads: the number of tasks of the set."),
    ("SCHEDULE", "In a table of overheads: the time of a scheduling decision, in µs."),
    ("CXS", "In a table of overheads: the time of a context switch, in µs."),
    ("TICK", "In a table of overheads: the time of the scheduler's tick, in µs."),
    ("RELEASE", "In a table of overheads: the time of the interrupt that releases a job, in µs."),
    (
        "RELEASE-LATENCY",
        "In a table of overheads: the time from the expiry of a timer to its interrupt, in µs.",
    ),
    (
        "IPI-LATENCY",
        "In a table of overheads: the time from sending an interrupt to another CPU to the start of that interrupt, in µs.",
    ),
];
