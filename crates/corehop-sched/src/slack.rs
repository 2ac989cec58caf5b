// SPDX-License-Identifier: MIT OR Apache-2.0
//! The distance of a yes from a no.
//!
//! Every number was tested: a test accepted the changed set that the number describes. The gap between the largest
//! accepted and the smallest rejected value is at most a thousandth of the range. Tests are not always monotonic, so
//! a larger change may pass as well.

use serde::Serialize;

use corehop_plan::workload::locks::{Locking, Locks};
use corehop_plan::workload::task::{Task, TaskSet, Time};

/// Sets with more tasks than this get slack only if the user requests slack.
pub const FEW_TASKS: usize = 20;
/// A range is halved until this fraction of the range remains.
const PARTS: u64 = 1_000;

/// The distance of a yes from a no. Times are in ticks, written in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slack {
    /// The factor by which every WCET may be multiplied, in thousandths; `None` if even 1.001 is rejected.
    pub every_wcet_thousandths: Option<u64>,
    /// The largest WCET of each task, if only this task's WCET grows.
    pub wcets_us: Vec<Time>,
    /// The largest delay that every job may suffer once, if no delays are charged; `None` if delays are charged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<Time>,
    /// The largest WCET and the period of one additional task, which has the longest period and the lowest priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_more_us: Option<[Time; 2]>,
}

/// Tests sets for the slack search: whether a set is accepted, with a delay `D_c` for each job.
pub trait Asks {
    /// Returns whether the test that accepted the original set also accepts this set.
    fn accepts(&mut self, set: &TaskSet, delay: Option<Time>) -> bool;
}

impl Slack {
    /// Computes the slack of an accepted set without split tasks; `charged` says whether delays are charged already.
    pub fn of(set: &TaskSet, charged: bool, asks: &mut impl Asks) -> Option<Self> {
        if set.is_in_parts() {
            return None;
        }
        let wcets: Vec<Time> = set.tasks().iter().map(Task::wcet).collect();
        let with = |wcets: &[Time]| set.clone().stretched(wcets);
        let times = |thousandths: u64| -> Vec<Time> {
            wcets.iter().map(|it| (*it * thousandths).div_up(1_000)).collect()
        };
        let room =
            set.tasks().iter().map(|it| it.deadline() * 1_000 / it.wcet().max(Time::TICK)).min()?;
        let every = largest(1_000, room, |at| asks.accepts(&with(&times(at)), None));
        let alone = |at: usize| {
            let most = set.tasks()[at].deadline();
            longest(wcets[at], most, |wcet| {
                let mut wcets = wcets.clone();
                wcets[at] = wcet;
                asks.accepts(&with(&wcets), None)
            })
        };
        let wcets_us = (0..wcets.len()).map(alone).collect();
        let shortest = set.tasks().iter().map(|it| it.deadline() - it.wcet()).min()?;
        // A delay for each job bounds nothing where jobs lose the cache more often.
        let waits = |locks: &Locks| locks.protocol == Locking::Pi;
        let once = set.tasks().iter().all(|it| it.suspension() == Time::ZERO)
            && !set.locks().is_some_and(waits);
        let delay_us = (!charged && once)
            .then(|| longest(Time::ZERO, shortest, |delay| asks.accepts(set, Some(delay))));
        let period = set.tasks().iter().map(Task::period).max()?;
        let more = |wcet: Time| set.clone().with_one_more(wcet, period);
        let one_more = more(Time::TICK).is_some().then(|| {
            longest(Time::ZERO, period, |wcet| {
                more(wcet).is_some_and(|set| asks.accepts(&set, None))
            })
        });
        Some(Self {
            every_wcet_thousandths: Some(every).filter(|&it| it > 1_000),
            wcets_us,
            delay_us,
            one_more_us: one_more.map(|wcet| [wcet, period]),
        })
    }

    /// Describes the slack in sentences; `name` returns the name of a task.
    pub fn sentences(&self, set: &TaskSet, name: impl Fn(usize) -> String) -> Vec<String> {
        let mut all = vec![match self.every_wcet_thousandths {
            Some(it) => format!("every WCET may grow by {} % at once", percent(it - 1_000)),
            None => "no WCET may grow if all grow at once".to_owned(),
        }];
        let span = |time| set.tick().span(time);
        let grows = |at: &usize| self.wcets_us[*at] - set.tasks()[*at].wcet();
        if let Some(at) = (0..self.wcets_us.len()).min_by_key(grows) {
            let (from, to) = (set.tasks()[at].wcet(), self.wcets_us[at]);
            let (from, to) = (span(from), span(to));
            all.push(format!(
                "if only one WCET grows, {} may grow least: from {from} to {to}",
                name(at)
            ));
        }
        all.extend(self.delay_us.map(|delay| format!("each job may lose {} once", span(delay))));
        all.extend(self.one_more_us.map(|[wcet, period]| {
            let load = percent(wcet * 1_000 / period);
            let (wcet, period) = (span(wcet), span(period));
            format!("one more task of {wcet} in {period} fits, with the lowest priority: {load} % of a CPU")
        }));
        all
    }
}

/// Formats thousandths as percent: 234 becomes 23.4.
pub(super) fn percent(thousandths: u64) -> String {
    let text = format!("{}.{}", thousandths / 10, thousandths % 10);
    text.trim_end_matches(".0").to_owned()
}

/// The longest accepted time up to `most`, to a thousandth of the range; `least` must be accepted.
pub(super) fn longest(least: Time, most: Time, mut accepts: impl FnMut(Time) -> bool) -> Time {
    Time::new(largest(least.ticks(), most.ticks(), |ticks| accepts(Time::new(ticks))))
}

/// The largest accepted number up to `most`, to a thousandth of the range; `least` must be accepted.
pub(super) fn largest(least: u64, most: u64, mut accepts: impl FnMut(u64) -> bool) -> u64 {
    if most <= least {
        return least;
    }
    if accepts(most) {
        return most;
    }
    let (mut low, mut high) = (least, most);
    let near = ((most - least) / PARTS).max(1);
    while high - low > near {
        let middle = low + (high - low) / 2;
        if accepts(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Test, test};
    use crate::charge::{ChargedSet, DelayCharge};
    use corehop_plan::workload::set_file;

    /// Runs one test, and counts the runs of the test.
    struct By(&'static Test, usize);

    impl Asks for By {
        fn accepts(&mut self, set: &TaskSet, delay: Option<Time>) -> bool {
            self.1 += 1;
            let delay = delay.map_or(DelayCharge::Nothing, DelayCharge::Each);
            let asked = ChargedSet::new(set, None, delay, None).ask(self.0).unwrap();
            asked.answer.verdict.is_schedulable()
        }
    }

    fn slack(text: &str, name: &str) -> (Slack, usize) {
        let set = set_file::parse(text).unwrap();
        let mut by = By(test(name).unwrap(), 0);
        (Slack::of(&set, false, &mut by).unwrap(), by.1)
    }

    #[test]
    fn the_slack_of_two_tasks_is_what_a_hand_computes() {
        let two = r#"{"cpus":1,"tasks":[{"wcet_us":2000,"period_us":10000},{"wcet_us":6000,"period_us":20000}]}"#;
        // U is 0.5: all may double, and the first may take 7 of 10 ms, the second 16 of 20.
        let (slack, asked) = slack(two, "qpa");
        assert!((1_990..=2_000).contains(&slack.every_wcet_thousandths.unwrap()), "{slack:?}");
        assert!((6_985..=7_000).contains(&slack.wcets_us[0].ticks()), "{slack:?}");
        assert!((15_980..=16_000).contains(&slack.wcets_us[1].ticks()), "{slack:?}");
        // 2 (2 + D) + 6 + D = 20: 3.333 ms.
        assert!((3_325..=3_333).contains(&slack.delay_us.unwrap().ticks()), "{slack:?}");
        let [wcet, period] = slack.one_more_us.unwrap();
        assert!(
            (9_980..=10_000).contains(&wcet.ticks()) && period == Time::new(20_000),
            "{slack:?}"
        );
        assert!(asked < 60, "{asked}");
    }

    #[test]
    fn what_is_said_of_slack_was_accepted_and_a_little_more_is_not() {
        let text = r#"{"cpus":2,"tasks":[{"wcet_us":3100,"period_us":10000},{"wcet_us":4700,"period_us":13000},
            {"wcet_us":900,"period_us":3000},{"wcet_us":7000,"period_us":40000}]}"#;
        let (slack, _) = slack(text, "p-edf-ffd-qpa");
        let (set, mut by) = (set_file::parse(text).unwrap(), By(test("p-edf-ffd-qpa").unwrap(), 0));
        for at in 0..4 {
            let with = |wcet| {
                let mut wcets: Vec<Time> = set.tasks().iter().map(Task::wcet).collect();
                wcets[at] = wcet;
                set.clone().stretched(&wcets)
            };
            assert!(by.accepts(&with(slack.wcets_us[at]), None));
            let more = slack.wcets_us[at] + set.tasks()[at].deadline() / 900 + Time::new(1);
            assert!(!by.accepts(&with(more), None), "task {at}: {slack:?}");
        }
    }
}
