// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random task sets; a seed and an index determine each set, whatever the order in which sets are made.
//! Logarithms and powers come from the platform, so their last digit can differ on another kind of machine.

mod distribution;
pub mod fixed_sum;

pub use distribution::{Deadline, Period, Utilisation};

use super::draw::DrawStream;
use super::task::{TaskParameters, Time};

/// The treatment of the task that exceeds the utilisation cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Last {
    /// The generator leaves the task out: every task is from the distributions, and the set stays below the
    /// cap.
    Discard,
    /// The generator shortens the task until the set meets the cap, so the task's utilisation can be below
    /// the range of the distribution.
    Scale,
}

/// Draws tasks until their utilisations exceed a cap (Bastoni, Brandenburg and Anderson 2010, section 5).
#[derive(Debug, Clone, PartialEq)]
pub struct Capped {
    /// The cap on the sum of the utilisations.
    pub cap: f64,
    /// The distribution of a task's utilisation.
    pub utilisation: Utilisation,
    /// The distribution of a task's period.
    pub period: Period,
    /// The choice of a task's deadline.
    pub deadline: Deadline,
    /// The treatment of the task that exceeds the cap.
    pub last: Last,
}

impl Capped {
    /// Returns the tasks of the set with this index; times are in microseconds. The set is empty if its
    /// first task exceeds the cap.
    pub fn set(&self, seed: u64, index: u64) -> Vec<TaskParameters> {
        let mut tasks = Vec::new();
        let mut sum = 0.0;
        for task in self.drawn(seed, index) {
            let more = sum + share(&task);
            if more <= self.cap {
                sum = more;
                tasks.push(task);
                continue;
            }
            if self.last == Last::Scale {
                tasks.extend(scaled(&task, self.cap - sum));
            }
            break;
        }
        tasks
    }

    /// Returns the endless stream of tasks from which the set with this index is made, whatever the cap.
    pub fn drawn(&self, seed: u64, index: u64) -> impl Iterator<Item = TaskParameters> + use<> {
        let (utilisation, period, deadline) = (self.utilisation, self.period, self.deadline);
        let mut stream = DrawStream::of_set(seed, index);
        std::iter::repeat_with(move || {
            let u = utilisation.draw(&mut stream);
            let period = period.draw(&mut stream);
            parameters(u, period, deadline, &mut stream)
        })
    }
}

/// Returns the utilisation of a task whose times are rounded to whole microseconds, which is the
/// utilisation that counts towards the cap.
pub fn share(task: &TaskParameters) -> f64 {
    task.wcet.as_f64() / task.period.as_f64()
}

/// Returns the task shortened to the utilisation `left`, rounded down, or `None` if no execution time
/// remains.
pub fn scaled(task: &TaskParameters, left: f64) -> Option<TaskParameters> {
    let wcet = Time::new((left * task.period.as_f64()).floor() as u64);
    (wcet > Time::ZERO).then(|| TaskParameters { wcet, ..task.clone() })
}

/// Draws a fixed number of tasks with a fixed sum of utilisations.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedSum {
    /// The number of tasks in the set.
    pub tasks: usize,
    /// The sum of the tasks' utilisations.
    pub sum: f64,
    /// The method that draws the utilisations.
    pub method: fixed_sum::UtilisationMethod,
    /// The distribution of a task's period.
    pub period: Period,
    /// The choice of a task's deadline.
    pub deadline: Deadline,
}

impl FixedSum {
    /// Returns the tasks of the set with this index; times are in microseconds.
    ///
    /// # Errors
    /// Returns [`fixed_sum::NoSuchSum`] if no utilisations have the sum (for example because it is above
    /// the number of tasks), or if the method gives up.
    pub fn set(&self, seed: u64, index: u64) -> Result<Vec<TaskParameters>, fixed_sum::NoSuchSum> {
        let mut stream = DrawStream::of_set(seed, index);
        let utilisations = self.method.draw(self.tasks, self.sum, &mut stream)?;
        let of = |&u: &f64| {
            let period = self.period.draw(&mut stream);
            parameters(u, period, self.deadline, &mut stream)
        };
        Ok(utilisations.iter().map(of).collect())
    }
}

fn parameters(u: f64, period: Time, deadline: Deadline, stream: &mut DrawStream) -> TaskParameters {
    let wcet = Time::new((u * period.as_f64()).round() as u64).clamp(Time::TICK, period);
    let deadline = deadline.draw(wcet, period, stream);
    TaskParameters { wcet, period, deadline: Some(deadline), ..TaskParameters::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capped(last: Last) -> Capped {
        Capped {
            cap: 4.0,
            utilisation: Utilisation::UNI_HEAVY,
            period: Period::SHORT,
            deadline: Deadline::Implicit,
            last,
        }
    }

    fn utilisation(tasks: &[TaskParameters]) -> f64 {
        tasks.iter().map(|task| task.wcet.as_f64() / task.period.as_f64()).sum()
    }

    #[test]
    fn a_set_depends_on_seed_and_index_and_on_nothing_else() {
        let generator = capped(Last::Discard);
        let forwards: Vec<_> = (0..50).map(|index| generator.set(7, index)).collect();
        let backwards: Vec<_> = (0..50).rev().map(|index| generator.set(7, index)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        assert_ne!(generator.set(7, 1), generator.set(8, 1));
        assert_ne!(generator.set(7, 1), generator.set(7, 2));
        // A seed is not an index by another name.
        assert_ne!(generator.set(1, 2), generator.set(2, 1));
    }

    #[test]
    fn the_last_task_is_discarded_or_scaled_to_the_cap() {
        for index in 0..200 {
            let discarded = capped(Last::Discard).set(1, index);
            let scaled = capped(Last::Scale).set(1, index);
            assert_eq!(discarded[..], scaled[..discarded.len()]);
            let (u, full) = (utilisation(&discarded), utilisation(&scaled));
            assert!(u <= 4.0 && u > 3.1, "{u}");
            assert!(full <= 4.0 && full > 3.999, "{full}");
            assert!(discarded.iter().all(|task| {
                let u = task.wcet.as_f64() / task.period.as_f64();
                (0.499..0.901).contains(&u) && (3_000..=33_000).contains(&task.period.ticks())
            }));
        }
    }

    #[test]
    fn fixed_sums_are_met() {
        for method in fixed_sum::UtilisationMethod::ALL {
            let generator = FixedSum {
                tasks: 6,
                sum: 2.5,
                method: *method,
                period: Period::LogUniform {
                    low: Time::new(10_000),
                    high: Time::new(1_000_000),
                    granularity: Time::new(1),
                },
                deadline: Deadline::Constrained,
            };
            for index in 0..50 {
                let tasks = generator.set(3, index).unwrap();
                assert!((utilisation(&tasks) - 2.5).abs() < 1e-3, "{method:?}");
                assert!(tasks.iter().all(|task| {
                    let deadline = task.deadline.unwrap();
                    task.wcet <= deadline && deadline <= task.period
                }));
            }
        }
    }
}
