// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds changes that make a rejected set schedulable, the cheapest first.
//!
//! New priorities and CPUs come first, then another scheduler, then limited preemption, then more CPUs and less work.
//! Each proposed change was verified by the tests of its scheduler, and carries the accepted set in the form that
//! `check -o` writes.

use serde::Serialize;
use serde_json::Value;

use super::catalogue::{Test, TestExactness, test};
use super::charge::ChargedAnswer;
use super::deployment::deployed;
use super::limited::remedy::{Limit, Remedy, Treated};
use super::margin::TestSettings;
use super::question::SchedulabilityQuestion;
use super::sentence::{called, sentence};
use super::slack::{largest, longest, percent};
use corehop_plan::workload::placement::TaskPlacement;
use corehop_plan::workload::scheduler::{JobPreference, MigrationReach, Scheduler};
use corehop_plan::workload::set_file;
use corehop_plan::workload::task::{TaskSet, Tick, Time};

/// The largest number of CPUs that a change may add.
const MORE_CPUS: u32 = 4;

/// A change that makes a set accepted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetChange {
    /// The change as a clause, for example `with other priorities, the highest first: a, b`.
    pub what: String,
    /// The name of the test that accepts the changed set.
    pub test: &'static str,
    /// The condition under which the test accepts, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The changed set in the form that `check -o` writes, with its scheduler, priorities and CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<Value>,
    /// The limit on the preemption of each task: the time for which the task continues to run after a more urgent job
    /// arrives, or the tasks that may preempt it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Vec<Treated>>,
}

impl SetChange {
    /// The change as a sentence, with its condition.
    pub fn sentence(&self) -> String {
        let condition = self.condition.as_deref().and_then(|it| it.strip_prefix("yes, "));
        condition.map_or_else(|| self.what.clone(), |it| format!("{}, {it}", self.what))
    }
}

/// A set that was accepted.
struct Accepted {
    test: &'static Test,
    asked: ChargedAnswer,
    set: TaskSet,
}

impl Accepted {
    fn change(&self, what: String) -> SetChange {
        let condition = self.asked.answer.why.clone();
        let condition = condition.filter(|_| self.asked.answer.is_conditional());
        let (test, set) = (self.test.name, Some(set_file::write(&self.set)));
        SetChange { what, test, condition, set, limits: None }
    }

    /// The tasks of each CPU.
    fn packing(&self) -> Option<String> {
        let places = self.set.placement()?;
        let on = |cpu: usize| {
            let here = |at: &usize| places[*at].cpus() == [cpu];
            let names = (0..places.len()).filter(here).map(|at| called(&self.set, at));
            let names: Vec<String> = names.collect();
            (!names.is_empty()).then(|| format!("CPU {cpu}: {}", names.join(", ")))
        };
        let cpus: Vec<String> = (0..self.set.cpus() as usize).filter_map(on).collect();
        (self.set.cpus() > 1 && !cpus.is_empty()).then(|| cpus.join("; "))
    }

    /// The tasks by priority.
    fn order(&self) -> String {
        let mut order: Vec<usize> = (0..self.set.tasks().len()).collect();
        order.sort_by_key(|&at| self.set.tasks()[at].priority);
        let names: Vec<String> = order.into_iter().map(|at| called(&self.set, at)).collect();
        names.join(", ")
    }

    /// The tasks that run in pieces.
    fn pieces(&self) -> Vec<String> {
        let of = |(at, place): (usize, &TaskPlacement)| {
            let TaskPlacement::Pieces(pieces) = place else { return None };
            let piece = |it: &corehop_plan::workload::placement::PlacedPiece| {
                let span = |time| self.set.tick().span(time);
                format!("{} on CPU {} within {}", span(it.budget), it.cpu, span(it.deadline))
            };
            let pieces: Vec<String> = pieces.iter().map(piece).collect();
            Some(format!("{} as {}", called(&self.set, at), pieces.join(", then ")))
        };
        self.set.placement().unwrap_or_default().iter().enumerate().filter_map(of).collect()
    }
}

/// The search for changes that make a set schedulable, starting from the set's scheduler.
struct ChangeSearch<'a, 'b> {
    set: &'a TaskSet,
    scheduler: Scheduler,
    asking: &'a TestSettings<'b>,
    found: Vec<SetChange>,
}

/// Returns all changes that were found for a set under `scheduler`; `named` is the test that the user named, if there
/// is one. If a set cannot state the scheduler of the named test, the only change tried is the unchanged set under
/// `scheduler`. If the named test only bounds tardiness, no change is tried.
pub fn changes(
    set: &TaskSet,
    scheduler: Scheduler,
    asking: &TestSettings<'_>,
    named: Option<&Test>,
) -> Vec<SetChange> {
    let mut all = ChangeSearch { set, scheduler, asking, found: Vec::new() };
    match named {
        Some(test) if test.is_soft() => return all.found,
        Some(test) => {
            let stated = test.scheduler().is_some() || test.kind == TestExactness::Necessary;
            all.as_it_is(stated);
            if !stated {
                return all.found;
            }
        }
        None => {}
    }
    all.other_priorities_and_cpus();
    all.other_schedulers();
    all.in_pieces();
    all.limited_preemption();
    all.smaller_working_sets();
    all.more_cpus();
    all.less_work();
    all.found
}

impl ChangeSearch<'_, '_> {
    fn by_priority(&self) -> bool {
        self.scheduler.order() == JobPreference::Rank
    }

    fn ranked(&self) -> bool {
        self.set.tasks().iter().all(|it| it.priority.is_some())
    }

    /// Returns the accepted set if some test for `scheduler` accepts `set`.
    fn holds(&self, set: &TaskSet, scheduler: Scheduler) -> Option<Accepted> {
        let question = SchedulabilityQuestion { scheduler, assumed: false };
        let answered = self.asking.question(set, question)?;
        Self::accepted(set, answered.test, Some(scheduler), answered.asked)
    }

    fn accepted(
        set: &TaskSet,
        test: &'static Test,
        scheduler: Option<Scheduler>,
        asked: ChargedAnswer,
    ) -> Option<Accepted> {
        if !asked.is_accepted() {
            return None;
        }
        let under = scheduler.map_or_else(
            || test.scheduler.to_owned(),
            |scheduler| SchedulabilityQuestion { scheduler, assumed: false }.under(set, None),
        );
        let judged = sentence(set, &under, test, &asked);
        let deployed = deployed(set, test, scheduler, &asked).ok().flatten();
        let set = deployed.unwrap_or_else(|| set.clone()).judged(judged);
        Some(Accepted { test, asked, set })
    }

    fn consider(
        &mut self,
        set: &TaskSet,
        scheduler: Scheduler,
        what: impl FnOnce(&Accepted) -> String,
    ) -> bool {
        let accepted = self.holds(set, scheduler);
        if let Some(accepted) = &accepted {
            self.found.push(accepted.change(what(accepted)));
        }
        accepted.is_some()
    }

    /// Tries the unchanged set under the search's scheduler with other tests; `same` says whether the named test is
    /// about that scheduler.
    fn as_it_is(&mut self, same: bool) {
        let (set, scheduler) = (self.set, self.scheduler);
        self.consider(set, scheduler, |partition| {
            let packing = partition.packing().map_or_else(String::new, |it| format!(", with {it}"));
            let under = SchedulabilityQuestion { scheduler, assumed: false }.under(set, None);
            let how = if same { "as it is".to_owned() } else { format!("under {under}") };
            format!("{how}, by the test {}{packing}", partition.test.name)
        });
    }

    fn other_priorities_and_cpus(&mut self) {
        let before = self.found.len();
        let with_cpus =
            |it: &Accepted| it.packing().map_or_else(String::new, |it| format!(": {it}"));
        if self.by_priority() && self.ranked() {
            self.consider(&self.set.clone().unranked(), self.scheduler, |change| {
                format!("with other priorities, the highest first: {}", change.order())
            });
        }
        if self.set.placement().is_some() {
            self.consider(&self.set.clone().unplaced(), self.scheduler, |change| {
                format!("with other CPUs for its tasks{}", with_cpus(change))
            });
            if self.found.len() == before && self.by_priority() && self.ranked() {
                self.consider(&self.set.clone().unplaced().unranked(), self.scheduler, |change| {
                    format!(
                        "with other CPUs and priorities, the highest first: {}{}",
                        change.order(),
                        change.packing().map_or_else(String::new, |it| format!("; {it}"))
                    )
                });
            }
        }
    }

    fn other_schedulers(&mut self) {
        let reach = self.scheduler.reach();
        if self.by_priority() {
            let edf = if reach == MigrationReach::Partitioned {
                Scheduler::PEdf
            } else {
                Scheduler::GEdf
            };
            self.consider(&self.set.clone().unranked(), edf, |_| "under EDF".to_owned());
        }
        if self.set.cpus() == 1 || !self.scheduler.is_simulated() {
            return;
        }
        let free = self.set.clone().unplaced();
        let [apart, global] = if self.by_priority() {
            [Scheduler::PFp, Scheduler::GFp]
        } else {
            [Scheduler::PEdf, Scheduler::GEdf]
        };
        if reach == MigrationReach::Partitioned {
            self.consider(&free, global, |_| "with all CPUs for all tasks (global)".to_owned());
        } else {
            self.consider(&free, apart, |change| {
                let on = change.packing().map_or_else(String::new, |it| format!(": {it}"));
                format!("with one CPU for each task (partitioned){on}")
            });
        }
    }

    /// Tries semi-partitioned EDF with split tasks.
    fn in_pieces(&mut self) {
        let free = self.set.clone().unplaced().unranked();
        if free.cpus() == 1 || !self.scheduler.is_simulated() {
            return;
        }
        let Ok(test) = test("sp-edf-c=d") else { return };
        let asked = self.asking.ask(&free, test);
        let accepted = asked.and_then(|asked| Self::accepted(&free, test, None, asked));
        let Some(accepted) = accepted else { return };
        let pieces = accepted.pieces();
        if !pieces.is_empty() {
            let what = format!("in pieces under EDF (C=D): {}", pieces.join("; "));
            self.found.push(accepted.change(what));
        }
    }

    fn limited_preemption(&mut self) {
        let limits: &[Limit] = if self.by_priority() {
            &[Limit::FpThresholds, Limit::FpRegions]
        } else {
            &[Limit::EdfRegions]
        };
        for &limit in limits {
            let Some(remedy) = self.asking.limited(self.set, limit) else { continue };
            let what = format!("with preemptions limited ({limit}): {}", self.told(&remedy));
            let test = if self.by_priority() { "p-fp-rta" } else { "qpa" };
            let limits = Some(remedy.tasks);
            self.found.push(SetChange { what, test, condition: None, set: None, limits });
            return;
        }
    }

    /// Describes the tasks whose preemption is limited.
    fn told(&self, remedy: &Remedy) -> String {
        let of = |(at, it): (usize, &Treated)| {
            let who = called(self.set, at);
            let wcet = self.set.in_whole_microseconds()[at].wcet;
            match &it.preempted_by {
                _ if it.preemptions == it.remaining => None,
                Some(by) if !by.is_empty() => {
                    let by: Vec<String> = by.iter().map(|&at| called(self.set, at)).collect();
                    Some(format!("{who} by {} only", by.join(", ")))
                }
                None if it.region_us < wcet => {
                    Some(format!("{who} runs on for {}", Tick::Micro.span(it.region_us)))
                }
                _ => Some(format!("{who} is not preempted")),
            }
        };
        let all: Vec<String> = remedy.tasks.iter().enumerate().filter_map(of).collect();
        if all.is_empty() { "as the delays allow".to_owned() } else { all.join(", ") }
    }

    /// Tries smaller working sets if delays depend on working set sizes: first one factor for all tasks, then each
    /// task alone.
    fn smaller_working_sets(&mut self) {
        if self.asking.charges_by_size(self.set) {
            let all = self.set.wss_kib().to_vec();
            let shrunk = |thousandths: u64| -> Vec<Option<u64>> {
                all.iter().map(|it| it.map(|kib| (kib * thousandths / 1_000).max(1))).collect()
            };
            if let Some(at) = self.largest_share(|at| self.with_sizes(shrunk(at))) {
                let set = self.with_sizes(shrunk(at));
                let off = percent(1_000 - at);
                self.consider(&set, self.scheduler, |_| {
                    format!("with every working set {off} % smaller")
                });
            }
            let largest = (0..all.len()).max_by_key(|&at| all[at]);
            let Some((one, Some(size))) = largest.map(|at| (at, all[at])) else { return };
            let alone = |thousandths: u64| {
                let mut sizes = all.clone();
                sizes[one] = Some((size * thousandths / 1_000).max(1));
                self.with_sizes(sizes)
            };
            if let Some(at) = self.largest_share(alone) {
                let set = alone(at);
                let kib = set.wss_kib()[one].unwrap_or_default();
                let who = called(self.set, one);
                self.consider(&set, self.scheduler, |_| {
                    format!("with a working set of {kib} KiB in place of {size} for {who} alone")
                });
            }
        }
    }

    fn with_sizes(&self, sizes: Vec<Option<u64>>) -> TaskSet {
        self.set.clone().with_working_sets(sizes)
    }

    /// The largest fraction in thousandths, below 1000, at which the changed set is accepted. The search begins at
    /// one half and goes down, because small sizes may not have been measured.
    fn largest_share(&self, changed: impl Fn(u64) -> TaskSet) -> Option<u64> {
        let holds = |at: u64| self.holds(&changed(at), self.scheduler).is_some();
        let halves = (1..=9).map(|times| 1_000 >> times);
        let low = halves.into_iter().find(|&at| holds(at))?;
        Some(largest(low, (2 * low + 1).min(999), holds))
    }

    /// Tries the fewest additional CPUs with which a test accepts the set.
    fn more_cpus(&mut self) {
        let free = self.set.clone().unplaced();
        for cpus in self.set.cpus() + 1..=self.set.cpus() + MORE_CPUS {
            let Some(more) = free.clone().with_cpus(cpus) else { return };
            let found = self.consider(&more, self.scheduler, |change| {
                let on = change.packing().map_or_else(String::new, |it| format!(": {it}"));
                format!("on {cpus} CPUs{on}")
            });
            if found {
                return;
            }
        }
    }

    /// Tries shorter WCETs: of the single task that needs the smallest reduction, and of all tasks by one factor.
    fn less_work(&mut self) {
        let set = self.set;
        let wcets: Vec<Time> = set.tasks().iter().map(|it| it.wcet).collect();
        let holds = |set: &TaskSet| self.holds(set, self.scheduler).is_some();
        let shorter = |thousandths: u64| -> TaskSet {
            let wcets: Vec<Time> =
                wcets.iter().map(|it| (*it * thousandths / 1_000).max(Time::TICK)).collect();
            set.clone().stretched(&wcets)
        };
        if !holds(&shorter(1)) {
            return;
        }
        let every = largest(1, 999, |at| holds(&shorter(at)));
        let with = |at: usize, wcet: Time| {
            let mut wcets = wcets.clone();
            wcets[at] = wcet;
            set.clone().stretched(&wcets)
        };
        let mut best: Option<(Time, usize)> = None;
        for (at, &own) in wcets.iter().enumerate() {
            // A task is of interest only if it saves less than the best one so far.
            let least =
                best.map_or(Time::TICK, |(saves, _)| (own + Time::TICK).saturating_sub(saves));
            let most = own - Time::TICK;
            if (Time::TICK..=most).contains(&least) && holds(&with(at, least)) {
                let wcet = longest(least, most, |wcet| holds(&with(at, wcet)));
                best = Some((own - wcet, at));
            }
        }
        if let Some((saves, at)) = best {
            let wcet = wcets[at] - saves;
            self.consider(&with(at, wcet), self.scheduler, |change| {
                format!(
                    "with a WCET of {} in place of {} for {} alone",
                    change.set.tick().span(wcet),
                    change.set.tick().span(wcet + saves),
                    called(&change.set, at)
                )
            });
        }
        self.consider(&shorter(every), self.scheduler, |_| {
            format!("with every WCET {} % shorter", percent(1_000 - every))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::test;
    use crate::charge::DelayCharge;
    use corehop_fixtures::task_sets::implicit;

    #[test]
    fn bounds_on_tardiness_have_no_changes_and_a_test_of_deadlines_some() {
        let set = implicit(1, &[(3, 4), (2, 4)]);
        let delay = |_: &TaskSet| Some(DelayCharge::Nothing);
        let asking = TestSettings {
            platform: None,
            delay: &delay,
            overheads: None,
            supply: None,
            accept_largest: false,
        };
        let scheduler = crate::question::SchedulabilityQuestion::of(&set, None).scheduler;
        let found = |name: &str| changes(&set, scheduler, &asking, Some(test(name).unwrap())).len();
        assert_eq!([found("soft-g-edf"), found("soft-c-edf-2")], [0, 0]);
        assert!(found("qpa") > 0);
        assert!(!changes(&set, scheduler, &asking, None).is_empty());
    }
}
