// SPDX-License-Identifier: MIT OR Apache-2.0
//! A set asked with what is charged to it: each test with the delays and overheads of its own scheduler.

use super::catalogue::{Charging, Test};
use super::overhead::system::{Overheads, fixed_priority, job_level};
use super::overhead::{self, Inflated};
use super::task::{System, TaskError, TaskSet, Time};
use super::verdict::Answer;
use crate::decision::costs::Costs;
use crate::platform::Platform;
use crate::workload::Event;

/// The delay that a preemption or migration costs each job.
#[expect(missing_debug_implementations, reason = "whoever has costs need not print them")]
pub enum Delay<'a> {
    /// None is charged.
    Nothing,
    /// The same to each, `D_c`.
    Each(Time),
    /// What the dearest event that its scheduler lets happen costs the task's working set.
    Costs(Box<dyn Costs + Send + 'a>),
}

/// A set, and what is charged to it.
#[expect(missing_debug_implementations, reason = "as for `Delay`")]
pub struct Charged<'a> {
    set: &'a TaskSet,
    platform: Option<&'a Platform>,
    delay: Delay<'a>,
    overheads: Option<Overheads>,
    /// What was inflated already, by what it depends on.
    inflated: Vec<(Vec<Event>, Charging, Inflated)>,
}

/// What a test said, and of which system.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The answer; its bounds are of the tasks of the set.
    pub answer: Answer,
    /// The system that was asked about: interrupts may come after the tasks.
    pub system: System<'a>,
    /// The delay that each task was charged, where any was.
    pub delays: Option<&'a [Time]>,
}

impl<'a> Charged<'a> {
    /// `platform` says which migrations there are, and which stay within a cluster.
    pub fn new(
        set: &'a TaskSet,
        platform: Option<&'a Platform>,
        delay: Delay<'a>,
        overheads: Option<Overheads>,
    ) -> Self {
        Self { set, platform, delay, overheads, inflated: Vec::new() }
    }

    /// What a test says of the set, charged for its scheduler.
    ///
    /// # Errors
    /// [`TaskError`] for a task whose delay is not known.
    pub fn ask(&mut self, test: &Test) -> Result<Asked<'_>, TaskError> {
        let bare = matches!(self.delay, Delay::Nothing) && self.overheads.is_none();
        if bare {
            let system = self.set.system();
            return Ok(Asked { answer: test.run(system), system, delays: None });
        }
        let charging = test.charging();
        if self.overheads.is_some() && charging == Charging::NotKnown {
            let answer = Answer::unknown("overheads cannot be charged for it");
            return Ok(Asked { answer, system: self.set.system(), delays: None });
        }
        let at = self.inflated(&test.events(self.platform), charging)?;
        let charged = &self.inflated[at].2;
        let system = charged.system();
        let mut answer = test.run(system);
        if let Some(bounds) = &mut answer.bounds {
            bounds.truncate(self.set.tasks().len());
        }
        Ok(Asked { answer, system, delays: Some(charged.delays()) })
    }

    /// The place of the set that was inflated for these events in this way.
    fn inflated(&mut self, events: &[Event], charging: Charging) -> Result<usize, TaskError> {
        let known = self.inflated.iter().position(|it| it.0 == events && it.1 == charging);
        if let Some(at) = known {
            return Ok(at);
        }
        let delays = match &self.delay {
            Delay::Nothing => vec![0; self.set.tasks().len()],
            Delay::Each(delay) => vec![*delay; self.set.tasks().len()],
            Delay::Costs(costs) => overhead::delays(self.set, events, costs.as_ref())?,
        };
        let inflated = match (&self.overheads, charging) {
            (Some(costs), Charging::JobLevel) => job_level(self.set, costs, |at| delays[at]),
            (Some(costs), Charging::FixedPriority) => {
                fixed_priority(self.set, costs, |at| delays[at])
            }
            _ => overhead::plain(self.set, |at| delays[at]),
        };
        self.inflated.push((events.to_vec(), charging, inflated));
        Ok(self.inflated.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::sched::catalogue::{all, test};
    use crate::decision::sched::task::testing::implicit;
    use crate::decision::sched::verdict::Verdict;

    fn overheads() -> Overheads {
        Overheads { scheduling: 1, context_switch: 1, release: 1, ..Overheads::default() }
    }

    #[test]
    fn each_scheduler_pays_in_its_own_way_and_what_nobody_knows_to_charge_is_not_told() {
        let set = implicit(1, &[(10, 100), (20, 200)]);
        let mut charged = Charged::new(&set, None, Delay::Each(5), Some(overheads()));
        // By hand: 20 + 2 (1 + 1) + 5, and above it the other task, 10 + 4 + 5, and two releases.
        let asked = charged.ask(test("p-fp-rta").unwrap()).unwrap();
        assert_eq!(asked.system.tasks().len(), 4);
        assert_eq!(asked.answer.bounds.as_ref().map(Vec::len), Some(2));
        // 19 + 29 + 2 releases, and the jitter of its own release: 51.
        assert_eq!(asked.answer.bounds.unwrap()[1], 51);
        let asked = charged.ask(test("qpa").unwrap()).unwrap();
        assert_eq!((asked.system.tasks().len(), asked.delays), (2, Some(&[5, 5][..])));
        let asked = charged.ask(test("g-fp-guan").unwrap()).unwrap();
        assert_eq!(asked.answer.verdict, Verdict::Unknown);
        assert!(asked.answer.why.unwrap().contains("overheads"));
    }

    #[test]
    fn overheads_never_make_a_set_schedulable() {
        let set = implicit(1, &[(30, 60), (30, 60)]);
        let mut bare = Charged::new(&set, None, Delay::Nothing, None);
        let mut charged = Charged::new(&set, None, Delay::Nothing, Some(overheads()));
        let yes = |asked: Asked<'_>| asked.answer.verdict == Verdict::Schedulable;
        let mut accepted = 0;
        for test in all() {
            accepted += usize::from(yes(bare.ask(test).unwrap()));
            assert!(!yes(charged.ask(test).unwrap()), "{}", test.name);
        }
        assert!(accepted > 10, "{accepted}");
    }
}
