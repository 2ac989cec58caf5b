// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of a task set: the critical sections of each task, and the protocol under which tasks wait for each other.
//!
//! The length of a section is the time from taking a lock to releasing it, including the sections inside. A task that
//! takes a second lock inside a section states both sections.

use std::collections::HashMap;

use super::task::{LONGEST, TaskError, Time};
use crate::words::words;

words! {
    /// The protocol of the locks of a set.
    Locking, "a locking protocol" {
        /// Locks follow the priority ceiling protocol, or the immediate priority ceiling protocol
        /// (`PTHREAD_PRIO_PROTECT`), under fixed priorities.
        Pcp = "pcp",
        /// Locks follow priority inheritance, as in rt_mutex of PREEMPT_RT and `PTHREAD_PRIO_INHERIT`, under fixed
        /// priorities.
        Pi = "pi",
        /// Locks follow the stack resource policy, under EDF or fixed priorities.
        Srp = "srp",
    }
}

/// A critical section: the number of its resource, and the longest time for which a job holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CriticalSection {
    /// The index of the resource in [`Locks::names`].
    pub resource: usize,
    /// The longest execution time for which a job holds the lock.
    pub longest: Time,
}

/// The locks of a task set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locks {
    /// The protocol by which tasks wait for locks.
    pub protocol: Locking,
    /// The name of each resource that a lock protects.
    pub names: Vec<String>,
    /// The critical sections of each task, in the order of the tasks.
    pub sections: Vec<Vec<CriticalSection>>,
}

impl Locks {
    /// Makes locks from the sections of each task, given by the names of resources; `wcets` are the WCETs of the tasks.
    ///
    /// # Errors
    /// Returns [`TaskError`] for a section that is empty or longer than the WCET of its task.
    pub fn new(
        protocol: Locking,
        given: &[Vec<(String, Time)>],
        wcets: &[Time],
    ) -> Result<Self, TaskError> {
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut names = Vec::new();
        let mut sections = Vec::new();
        for (at, (own, &wcet)) in given.iter().zip(wcets).enumerate() {
            let mut of_task = Vec::new();
            for (name, longest) in own {
                if !(Time::TICK..=wcet.min(LONGEST)).contains(longest) {
                    let expected = format!("1 to wcet_us, which is {wcet}");
                    let (field, value) = ("longest_us", longest.to_string());
                    return Err(TaskError { task: Some(at), name: None, field, value, expected });
                }
                let resource = *known.entry(name).or_insert_with(|| {
                    names.push(name.clone());
                    names.len() - 1
                });
                of_task.push(CriticalSection { resource, longest: *longest });
            }
            sections.push(of_task);
        }
        Ok(Self { protocol, names, sections })
    }

    /// Returns the locks with their times converted to a unit of time that is `unit` times finer.
    #[must_use]
    pub fn in_finer(&self, unit: u64) -> Self {
        let finer = |it: &CriticalSection| CriticalSection { longest: it.longest * unit, ..*it };
        let sections = self.sections.iter().map(|own| own.iter().map(finer).collect()).collect();
        Self { sections, ..self.clone() }
    }

    /// Returns the locks with sections extended by a reload: a job that is preempted inside a section reloads there,
    /// which takes the task's delay in `delays`. The preemption can precede all delays that the section causes for
    /// other jobs, so that no other job is charged for the reload.
    #[must_use]
    pub fn reloading(&self, delays: &[Time]) -> Self {
        let longer = |(own, delay): (&Vec<CriticalSection>, &Time)| {
            let with = |it: &CriticalSection| CriticalSection {
                longest: it.longest.saturating_add(*delay).min(2 * LONGEST),
                ..*it
            };
            own.iter().map(with).collect()
        };
        Self { sections: self.sections.iter().zip(delays).map(longer).collect(), ..self.clone() }
    }

    /// Returns a resource that tasks `a` and `b` both use.
    pub fn shared(&self, a: usize, b: usize) -> Option<usize> {
        let used = |at: usize| self.sections[at].iter().map(|section| section.resource);
        used(a).find(|resource| used(b).any(|other| other == *resource))
    }

    /// Returns a resource that tasks of two groups use.
    pub fn shared_across(&self, groups: &[Vec<usize>]) -> Option<usize> {
        let mut user: HashMap<usize, usize> = HashMap::new();
        for (group, tasks) in groups.iter().enumerate() {
            for section in tasks.iter().flat_map(|&at| &self.sections[at]) {
                if *user.entry(section.resource).or_insert(group) != group {
                    return Some(section.resource);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(given: &[&[(&str, u64)]]) -> Result<Locks, TaskError> {
        let owned = |own: &&[(&str, u64)]| -> Vec<(String, Time)> {
            own.iter().map(|&(name, longest)| (name.to_owned(), Time::new(longest))).collect()
        };
        let given: Vec<_> = given.iter().map(owned).collect();
        Locks::new(Locking::Pcp, &given, &vec![Time::new(5); given.len()])
    }

    #[test]
    fn resources_are_told_apart_by_name() {
        let locks = locks(&[&[("bus", 2)], &[("log", 1), ("bus", 5)], &[], &[("log", 3)]]).unwrap();
        assert_eq!(locks.names, ["bus", "log"]);
        assert_eq!(
            locks.sections[1],
            [
                CriticalSection { resource: 1, longest: Time::new(1) },
                CriticalSection { resource: 0, longest: Time::new(5) }
            ]
        );
        assert_eq!(
            (locks.shared(0, 1), locks.shared(0, 3), locks.shared(1, 3)),
            (Some(0), None, Some(1))
        );
        assert_eq!(locks.shared_across(&[vec![0, 1], vec![2, 3]]), Some(1));
        assert_eq!(locks.shared_across(&[vec![0, 1, 3], vec![2]]), None);
    }

    #[test]
    fn a_section_is_part_of_a_job() {
        assert!(locks(&[&[("bus", 0)]]).unwrap_err().to_string().contains("longest_us is 0"));
        assert!(
            locks(&[&[], &[("bus", 6)]])
                .unwrap_err()
                .to_string()
                .contains("task 1: longest_us is 6")
        );
    }
}
