// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words for the causes, other than threads, that kept threads off their CPUs: quotas, budgets, limits and
//! freezing.

use super::ns;
use crate::label::time;
use corehop_decide::run_cost::Waits;
use corehop_plan::samples::{Bar, GroupLimit, Recording};
use corehop_plan::shown;

/// Returns the cause that kept a thread off its CPU, in words.
const fn reason(bar: Bar) -> &'static str {
    match bar {
        Bar::Quota => "CPU quota of a control group",
        Bar::Budget => "SCHED_DEADLINE budget",
        Bar::Realtime => "limit on real-time threads",
        Bar::Frozen => "frozen by a control group",
        Bar::Stopped => "stopped by a signal or a debugger",
    }
}

/// Returns a sentence about the waiting for which the kernel throttled threads, and about the cause, or
/// `None` if no thread was throttled.
pub(super) fn throttled(waits: &Waits) -> Option<String> {
    let all = waits.barred?.longest_first();
    let by: Vec<String> = all
        .into_iter()
        .filter(|(bar, _)| bar.is_waiting())
        .map(|(bar, held)| format!("{} {}", reason(bar), ns(Some(held))))
        .collect();
    let all = ns(Some(waits.throttled_ns()));
    (!by.is_empty()).then(|| {
        format!("the kernel throttled threads for {all} of the waiting time: {}", by.join(", "))
    })
}

/// Returns a sentence about the time for which threads were frozen or stopped, which does not count as
/// waiting, or `None` if no thread was.
pub(super) fn halted(waits: &Waits) -> Option<String> {
    let all = waits.barred?.longest_first();
    let by: Vec<String> = all
        .into_iter()
        .filter(|(bar, _)| !bar.is_waiting())
        .map(|(bar, held)| format!("{} for {}", reason(bar), ns(Some(held))))
        .collect();
    (!by.is_empty()).then(|| format!("threads were {}, in addition to waiting", by.join(", and ")))
}

/// Returns rows about quotas, limits and freezing, for the table of threads that had the CPU.
pub(super) fn rows(waits: &Waits) -> Vec<Vec<String>> {
    let all = waits.barred.map(|it| it.longest_first()).unwrap_or_default();
    let row = |(bar, held): (Bar, u64)| {
        let kind = if bar.is_waiting() { "throttled" } else { "not waiting" };
        vec![format!("({kind}: {})", reason(bar)), ns(Some(held)), String::new()]
    };
    all.into_iter().map(row).collect()
}

/// Returns sentences about the limits on CPU time of the program's control groups and of the control groups
/// above these.
pub(super) fn limits(recording: &Recording) -> Vec<String> {
    match recording.facts.limits.as_deref() {
        None => Vec::new(),
        Some([]) => {
            vec![
                "no control group of the program limits its CPU time, nor does one above"
                    .to_owned(),
            ]
        }
        Some(limits) => limits.iter().map(limit).collect(),
    }
}

fn limit(it: &GroupLimit) -> String {
    let [runtime, period] = [it.runtime_us, it.period_us].map(|us| time(us as f64 * 1e3));
    let who = if it.realtime { "real-time threads" } else { "threads" };
    let throttled = it.throttled.zip(it.throttled_ns).map_or_else(String::new, |(times, ns)| {
        format!(
            "; the kernel throttled the group {times} times, for {} summed over all CPUs",
            time(ns as f64)
        )
    });
    format!(
        "{who} of a control group may use {runtime} of CPU time in each {period}{throttled}\n  (/{})",
        shown::line(&it.file)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::Bars;

    #[test]
    fn throttling_is_a_cause_of_its_own_and_freezing_is_no_waiting() {
        let barred = Some(Bars::new([0, 45_000_000, 3_000_000, 2_000_000_000, 0]));
        let waits = Waits { barred, waited_ns: Some(50_000_000), ..Waits::default() };
        assert_eq!(
            throttled(&waits).unwrap(),
            "the kernel throttled threads for 48.0 ms of the waiting time: SCHED_DEADLINE budget 45.0 ms, limit on real-time threads \
             3.00 ms"
        );
        assert_eq!(
            halted(&waits).unwrap(),
            "threads were frozen by a control group for 2.00 s, in addition to waiting"
        );
        assert_eq!(rows(&waits).len(), 3);
        let none = Waits { barred: Some(Bars::default()), ..waits };
        assert_eq!((throttled(&none), halted(&none)), (None, None));
    }

    #[test]
    fn the_limits_are_named_with_what_they_allow() {
        let mut recording = Recording::default();
        assert!(limits(&recording).is_empty(), "not looked at");
        recording.facts.limits = Some(Vec::new());
        assert!(limits(&recording)[0].starts_with("no control group"));
        let quota = GroupLimit {
            file: "sys/fs/cgroup/a/cpu.max".to_owned(),
            runtime_us: 20_000,
            period_us: 100_000,
            realtime: false,
            throttled: Some(5),
            throttled_ns: Some(400_000_000),
        };
        recording.facts.limits = Some(vec![quota]);
        let said = limits(&recording).remove(0);
        assert!(
            said.contains("20.0 ms of CPU time in each 100 ms; the kernel throttled the group 5 times, for 400 ms"),
            "{said}"
        );
        assert!(said.ends_with("(/sys/fs/cgroup/a/cpu.max)"), "{said}");
    }
}
