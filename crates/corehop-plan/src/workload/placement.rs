// SPDX-License-Identifier: MIT OR Apache-2.0
//! The placement of tasks: on some CPUs, in consecutive pieces on different CPUs, or by shares of CPUs from job to
//! job.

use super::time::{Tick, Time};

/// A piece of a task: a part of its work that runs on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedPiece {
    /// The CPU on which the piece runs.
    pub cpu: usize,
    /// The part of the task's work that the piece contains.
    pub wcet: Time,
    /// The budget of the piece: its work, plus the reload after the move to its CPU.
    pub budget: Time,
    /// The deadline of the piece, relative to its release, which is the deadline of the previous piece.
    pub deadline: Time,
}

/// The share of a CPU that a task receives over its jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacedShare {
    /// The CPU that executes the share.
    pub cpu: usize,
    /// The share of the CPU, as a rounded number.
    pub share: f64,
}

/// The placement of a task on CPUs.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskPlacement {
    /// The task runs on any of the listed CPUs, which are in ascending order.
    Cpus(Vec<usize>),
    /// The task runs in several pieces, one after the other.
    Pieces(Vec<PlacedPiece>),
    /// The jobs of the task run on the CPUs of the shares, each job on one of these CPUs; the first share is on the
    /// task's first CPU under EDF-os.
    Shares(Vec<PlacedShare>),
}

// Shares are numbers that were read or computed, never NaN.
impl Eq for TaskPlacement {}

impl TaskPlacement {
    /// Returns the CPUs of each of `n` tasks, in order; `bins` has the tasks of each bin, and `cpus` returns a
    /// bin's CPUs.
    pub fn of_bins(bins: &[Vec<usize>], cpus: impl Fn(usize) -> Vec<usize>, n: usize) -> Vec<Self> {
        let mut places = vec![Self::Cpus(Vec::new()); n];
        for (bin, tasks) in bins.iter().enumerate() {
            for &at in tasks {
                places[at] = Self::Cpus(cpus(bin));
            }
        }
        places
    }

    /// Returns whether the placement agrees with `stated`: its CPUs are among the stated CPUs, its pieces are
    /// equal, or its shares are of the same CPUs.
    pub fn is_within(&self, stated: &Self) -> bool {
        match (self, stated) {
            (Self::Cpus(own), Self::Cpus(stated)) => own.iter().all(|cpu| stated.contains(cpu)),
            (Self::Pieces(own), Self::Pieces(stated)) => {
                let key = |it: &PlacedPiece| (it.cpu, it.wcet, it.deadline);
                own.iter().map(key).eq(stated.iter().map(key))
            }
            (Self::Shares(_), Self::Shares(_)) => self.cpus() == stated.cpus(),
            _ => false,
        }
    }

    /// Returns the CPUs that the placement names.
    pub fn cpus(&self) -> Vec<usize> {
        match self {
            Self::Cpus(cpus) => cpus.clone(),
            Self::Pieces(pieces) => pieces.iter().map(|piece| piece.cpu).collect(),
            Self::Shares(shares) => shares.iter().map(|share| share.cpu).collect(),
        }
    }

    /// Returns the error in the placement for a task with this C, T and D in a set on `cpus` CPUs: the field, its
    /// value, and the expected value.
    pub(crate) fn wrong(
        &self,
        [wcet, period, deadline]: [Time; 3],
        tick: Tick,
        cpus: u32,
    ) -> Option<(&'static str, String, String)> {
        let named = self.cpus();
        let field = match self {
            Self::Cpus(_) => "cpus",
            Self::Pieces(_) => "pieces",
            Self::Shares(_) => "shares",
        };
        let twice = named.iter().enumerate().any(|(at, cpu)| named[..at].contains(cpu));
        if named.is_empty() || twice || named.iter().any(|&cpu| cpu >= cpus as usize) {
            let expected = format!("one CPU or several, each once, from 0 to {}", cpus - 1);
            return Some((field, format!("on CPUs {named:?}"), expected));
        }
        let wrong = |value: String, expected: String| Some((field, value, expected));
        match self {
            Self::Cpus(_) => None,
            Self::Pieces(pieces) => {
                let sum = |of: fn(&PlacedPiece) -> Time| pieces.iter().map(of).sum::<Time>();
                let (work, due) = (sum(|it| it.wcet), sum(|it| it.deadline));
                let short = |it: &&PlacedPiece| it.budget < it.wcet || it.deadline < it.budget;
                if work != wcet {
                    let expected = format!("wcet_us of the task, which is {}", tick.us(wcet));
                    return wrong(format!("{} us of work together", tick.us(work)), expected);
                }
                if let Some(it) = pieces.iter().find(short) {
                    let [own, budget, due] =
                        [it.wcet, it.budget, it.deadline].map(|it| tick.us(it));
                    let value = format!("{own}, {budget}, {due} on CPU {}", it.cpu);
                    return wrong(value, "wcet_us <= budget_us <= deadline_us of each".to_owned());
                }
                let most = tick.us(deadline);
                let expected = format!("at most deadline_us of the task, which is {most}");
                if due > deadline {
                    wrong(format!("due after {} us together", tick.us(due)), expected)
                } else {
                    None
                }
            }
            Self::Shares(shares) => {
                let sum: f64 = shares.iter().map(|it| it.share).sum();
                let u = wcet.as_f64() / period.as_f64();
                let each = shares.iter().all(|it| it.share > 0.0 && it.share <= 1.0);
                let expected = format!("shares above 0 that make at least C / T = {u}");
                if each && sum >= u - 1e-9 {
                    None
                } else {
                    wrong(format!("{sum} together"), expected)
                }
            }
        }
    }
}
