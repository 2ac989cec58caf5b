// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of the sampled process: its areas, and the pages that are protected for exploration.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use super::areas::{Range, areas};
use super::sampler::PageSampler;
use super::uffd::{PAGE, Uffd, populated};
use corehop_system::proc::ProcEntry;

/// The length of the regions in which pages are looked up and protected: a huge page.
const PLACE: u64 = 2 << 20;
/// The longest time for protecting pages in one step.
const ROUND: Duration = Duration::from_micros(200);
/// The largest number of regions with protected pages: 256 MiB.
const MOST: usize = 128;

/// The memory of a sampled process.
#[derive(Debug)]
pub(super) struct ProcessMemory {
    pid: u32,
    pagemap: File,
    /// The areas in which pages can be protected.
    areas: Vec<Range>,
    /// All areas seen, including those that the kernel refused.
    known: HashSet<Range>,
    /// The protected runs of pages by region, and the regions in the order of their protection.
    protected: HashMap<u64, Vec<Range>>,
    order: VecDeque<u64>,
    /// Regions in which a page was written since their protection.
    written: HashSet<u64>,
}

impl ProcessMemory {
    /// The memory of a process, without any areas yet.
    ///
    /// # Errors
    /// Fails if the process cannot be inspected.
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let pagemap = ProcEntry::process(pid).open("pagemap")?;
        Ok(Self {
            pid,
            pagemap,
            areas: Vec::new(),
            known: HashSet::new(),
            protected: HashMap::new(),
            order: VecDeque::new(),
            written: HashSet::new(),
        })
    }

    /// Registers areas that the process has mapped since the last call.
    ///
    /// # Errors
    /// Fails with `ESRCH` if the process has ended or runs another program.
    pub(super) fn refresh(&mut self, uffd: &Uffd) -> io::Result<()> {
        uffd.check()?;
        // The number may have become another process's since the check. Its areas are refused by the kernel then, or
        // hold nothing that `uffd` could protect.
        let maps = ProcEntry::process(self.pid).bytes("maps").unwrap_or_default();
        let now: HashSet<Range> = areas(&maps).into_iter().collect();
        self.areas.retain(|it| now.contains(it));
        self.known.retain(|it| now.contains(it));
        for area in now {
            if !self.known.insert(area) {
                continue;
            }
            // Memory of a kind that cannot be protected, or gone meanwhile, is left out.
            if uffd.register(area).is_ok() {
                self.areas.push(area);
            }
        }
        self.areas.sort_unstable();
        Ok(())
    }

    /// Protects pages in random regions.
    ///
    /// # Errors
    /// Fails with `ESRCH` if the process has ended or runs another program.
    pub(super) fn explore(&mut self, uffd: &Uffd, sampler: &mut PageSampler) -> io::Result<()> {
        let begun = Instant::now();
        for _ in 0..MOST / 2 {
            if begun.elapsed() >= ROUND || self.areas.is_empty() {
                break;
            }
            let (at, place) = self.place(sampler);
            if self.protected.contains_key(&place.0) && !self.written.remove(&place.0) {
                continue;
            }
            let found = populated(&self.pagemap, place)?.into_iter();
            let runs = found.flat_map(|run| unplanned(run, sampler)).collect();
            if !self.protect(place.0, runs, uffd)? {
                // It is not mapped any more, or anew: the next refresh finds out.
                self.known.remove(&self.areas.remove(at));
            }
        }
        while self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.release(oldest, uffd, sampler)?;
        }
        Ok(())
    }

    /// A random region, and the index of its area. In half of the cases, small areas are as likely
    /// as large ones.
    fn place(&self, sampler: &mut PageSampler) -> (usize, Range) {
        let number = if sampler.below(2) == 0 {
            sampler.below(self.areas.len() as u64) as usize
        } else {
            let all = self.areas.iter().map(|(start, end)| end - start).sum();
            self.area_at(sampler.below(all))
        };
        let (start, end) = self.areas[number];
        let at = start + sampler.below(end - start);
        let place = at - at % PLACE;
        (number, (place.max(start), (place + PLACE).min(end)))
    }

    /// The area that contains byte number `byte` of all areas together.
    fn area_at(&self, mut byte: u64) -> usize {
        let within = |(start, end): &Range| {
            let length = end - start;
            let found = byte < length;
            byte = byte.saturating_sub(length);
            found
        };
        self.areas.iter().position(within).unwrap_or(0)
    }

    /// Protects these runs; returns whether all could be protected.
    fn protect(&mut self, place: u64, runs: Vec<Range>, uffd: &Uffd) -> io::Result<bool> {
        let mut all = true;
        for &run in &runs {
            match uffd.protect(run) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(error),
                Err(_) => all = false,
            }
        }
        if self.protected.insert(place, runs).is_none() {
            self.order.push_back(place);
        }
        Ok(all)
    }

    /// Notes that a page at this address was written and is no longer protected.
    pub(super) fn written(&mut self, address: u64) {
        self.written.extend(self.place_of(address));
    }

    fn place_of(&self, address: u64) -> Option<u64> {
        let near = |place: &u64| address.checked_sub(*place).is_some_and(|it| it < PLACE);
        self.order.iter().copied().filter(near).max()
    }

    /// Removes all protection for exploration, starting around an address.
    ///
    /// # Errors
    /// Fails with `ESRCH` if the process has ended or runs another program.
    pub(super) fn release_all(
        &mut self,
        address: u64,
        uffd: &Uffd,
        sampler: &PageSampler,
    ) -> io::Result<()> {
        if let Some(near) = self.place_of(address) {
            self.release(near, uffd, sampler)?;
        }
        while let Some(place) = self.order.pop_front() {
            self.release(place, uffd, sampler)?;
        }
        Ok(())
    }

    /// Removes the protection of a region, except for pages with a planned look.
    fn release(&mut self, place: u64, uffd: &Uffd, sampler: &PageSampler) -> io::Result<()> {
        self.written.remove(&place);
        let runs = self.protected.remove(&place).unwrap_or_default().into_iter();
        runs.flat_map(|run| unplanned(run, sampler)).try_for_each(|run| uffd.release(run))
    }
}

/// The parts of a run of pages without a planned look.
fn unplanned((start, end): Range, sampler: &PageSampler) -> Vec<Range> {
    let mut parts: Vec<Range> = Vec::new();
    for page in (start..end).step_by(PAGE as usize).filter(|it| !sampler.plans(*it)) {
        match parts.last_mut() {
            Some((_, end)) if *end == page => *end += PAGE,
            _ => parts.push((page, page + PAGE)),
        }
    }
    parts
}
