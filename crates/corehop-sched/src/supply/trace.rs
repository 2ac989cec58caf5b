// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes a supply from observation windows of a CPU: the largest loss in any part of a window, by length.

use std::collections::BTreeMap;

use super::{NoSupply, Supplies, Supply, WHOLE};

/// The largest number of gaps per window. In a window with more gaps, the closest gaps are merged, including the time
/// between these gaps.
const MOST_GAPS: usize = 512;

/// A time in which a CPU was not available, in nanoseconds since the beginning of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The beginning of the gap.
    pub at: u64,
    /// The length of the gap.
    pub length: u64,
}

impl Gap {
    fn end(self) -> u64 {
        self.at + self.length
    }
}

/// A time in which a CPU was observed without interruption, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupplyWindow {
    /// The number of the observed CPU.
    pub cpu: u32,
    /// The planned length, from a starting instant that does not depend on gaps.
    pub asked: u64,
    /// The observed length: the planned length, and more if a gap crossed an end of the window.
    pub watched: u64,
    /// The total time lost in gaps too short to be recorded individually.
    pub short: u64,
    /// The recorded gaps, in order and disjoint.
    pub gaps: Vec<Gap>,
}

/// The observation windows of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WindowCensus {
    /// The planned window lengths in nanoseconds, with the number of windows of each length.
    pub(super) asked: BTreeMap<u64, u64>,
}

impl WindowCensus {
    /// The number of disjoint observed windows of this length in nanoseconds.
    pub fn windows_of(&self, length: u64) -> u64 {
        let of = |(asked, count): (&u64, &u64)| (asked / length.max(1)).saturating_mul(*count);
        self.asked.iter().map(of).fold(0, u64::saturating_add)
    }

    /// The longest planned window, in nanoseconds.
    pub fn longest(&self) -> u64 {
        self.asked.keys().next_back().copied().unwrap_or(0)
    }
}

impl Supplies {
    /// Computes the supply of each observed CPU.
    ///
    /// # Errors
    /// Returns [`NoSupply`] if there is no window, or a window is shorter than stated.
    pub fn watched(windows: &[SupplyWindow]) -> Result<Self, NoSupply> {
        let mut by_cpu: BTreeMap<u32, Vec<&SupplyWindow>> = BTreeMap::new();
        for window in windows {
            window.check()?;
            by_cpu.entry(window.cpu).or_default().push(window);
        }
        if by_cpu.is_empty() {
            return Err(NoSupply("no window watched a CPU".to_owned()));
        }
        let mut watched = BTreeMap::new();
        for (&cpu, windows) in &by_cpu {
            let all: &mut WindowCensus = watched.entry(cpu).or_default();
            for it in windows {
                *all.asked.entry(it.asked).or_default() += 1;
            }
        }
        let supplies = by_cpu.into_iter().map(|(cpu, windows)| (cpu, Supply::watched(&windows)));
        let origin = "The supply is the minimum observed in windows of each length, assuming that all windows are alike; a later window can lose more.";
        Ok(Self::of(supplies.collect(), watched, origin))
    }

    /// The observations of each CPU; empty if the supply is stated.
    pub fn observed(&self) -> &BTreeMap<u32, WindowCensus> {
        &self.watched
    }
}

impl SupplyWindow {
    fn check(&self) -> Result<(), NoSupply> {
        let mut end = 0;
        let apart = self.gaps.iter().all(|gap| {
            let after = gap.at >= end;
            end = gap.at.saturating_add(gap.length);
            after
        });
        if apart && end <= self.watched && self.asked > 0 && self.asked <= self.watched {
            return Ok(());
        }
        Err(NoSupply(format!(
            "a window of CPU {} has gaps outside the window, or is shorter than planned ({} of {} ns): measure again",
            self.cpu, self.watched, self.asked
        )))
    }

    /// The parts of the window that begin and end with a gap: length, and lost time.
    fn parts(&self) -> Vec<(u64, u64)> {
        let gaps = merged(&self.gaps);
        let mut parts = Vec::new();
        for (at, first) in gaps.iter().enumerate() {
            let mut lost = 0;
            for last in &gaps[at..] {
                lost += last.length;
                parts.push((last.end() - first.at, lost));
            }
        }
        parts
    }
}

/// At most [`MOST_GAPS`] gaps that lose at least as much as `gaps`.
pub(super) fn merged(gaps: &[Gap]) -> Vec<Gap> {
    let Some(excess) = gaps.len().checked_sub(MOST_GAPS).filter(|&it| it > 0) else {
        return gaps.to_vec();
    };
    let mut spaces: Vec<u64> = gaps.windows(2).map(|it| it[1].at - it[0].end()).collect();
    let (nearer, &mut near, _) = spaces.select_nth_unstable(excess - 1);
    let mut as_near = excess - nearer.iter().filter(|&&space| space < near).count();
    let mut merged: Vec<Gap> = Vec::new();
    for &gap in gaps {
        let space = merged.last().map(|last| gap.at - last.end());
        let joins = space.is_some_and(|space| space < near || space == near && as_near > 0);
        as_near -= usize::from(joins && space == Some(near));
        match merged.last_mut().filter(|_| joins) {
            Some(last) => last.length = gap.end() - last.at,
            None => merged.push(gap),
        }
    }
    merged
}

impl Supply {
    fn watched(windows: &[&SupplyWindow]) -> Self {
        let longest = windows.iter().map(|it| it.asked).max().unwrap_or(0);
        // Each window by itself first: what is left of it is little.
        let parts = windows.iter().flat_map(|it| Self::new(it.parts(), it.watched, None, 0).losses);
        let slow = |it: &&SupplyWindow| {
            (u128::from(it.short) * WHOLE).div_ceil(u128::from(it.watched)).min(WHOLE - 1) as u64
        };
        let slow = windows.iter().map(slow).max().unwrap_or(0);
        Self::new(parts.collect::<Vec<_>>(), longest, None, slow)
    }
}
