// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of the sampled process: its areas, and the pages of them that are protected to explore.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use super::areas::{Range, areas};
use super::sampler::PageSampler;
use super::uffd::{PAGE, Uffd, populated};
use corehop_system::proc::ProcEntry;

/// Pages are looked up and protected in places of this length: a huge page.
const PLACE: u64 = 2 << 20;
/// Protecting pages takes at most so long at a time.
const ROUND: Duration = Duration::from_micros(200);
/// The most places with protected pages: 256 MiB.
const MOST: usize = 128;

/// The memory of a process.
#[derive(Debug)]
pub(super) struct ProcessMemory {
    pid: u32,
    pagemap: File,
    /// The areas in which pages can be protected.
    areas: Vec<Range>,
    /// Those, and others that the kernel refused.
    known: HashSet<Range>,
    /// Protected runs of pages, by place, and the places in the order in which that was done.
    protected: HashMap<u64, Vec<Range>>,
    order: VecDeque<u64>,
    /// Places of which a page was written since.
    written: HashSet<u64>,
}

impl ProcessMemory {
    /// That of a process, of which nothing is known yet.
    ///
    /// # Errors
    /// If it cannot be looked into.
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

    /// Registers areas that are new.
    ///
    /// # Errors
    /// `ESRCH` where the process has ended or runs another program.
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

    /// Protects pages at random places.
    ///
    /// # Errors
    /// `ESRCH` where the process has ended or runs another program.
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

    /// A place, and the number of its area. Small areas are as likely as large ones half of the time.
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

    /// The area with this byte, counted through all of them.
    fn area_at(&self, mut byte: u64) -> usize {
        let within = |(start, end): &Range| {
            let length = end - start;
            let found = byte < length;
            byte = byte.saturating_sub(length);
            found
        };
        self.areas.iter().position(within).unwrap_or(0)
    }

    /// Whether all runs could be protected.
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

    /// A page at this address was written, and is not protected any more.
    pub(super) fn written(&mut self, address: u64) {
        self.written.extend(self.place_of(address));
    }

    fn place_of(&self, address: u64) -> Option<u64> {
        let near = |place: &u64| address.checked_sub(*place).is_some_and(|it| it < PLACE);
        self.order.iter().copied().filter(near).max()
    }

    /// Lifts all protection that is there to explore, around an address first.
    ///
    /// # Errors
    /// `ESRCH` where the process has ended or runs another program.
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

    /// Pages that are looked at by plan meanwhile keep their protection.
    fn release(&mut self, place: u64, uffd: &Uffd, sampler: &PageSampler) -> io::Result<()> {
        self.written.remove(&place);
        let runs = self.protected.remove(&place).unwrap_or_default().into_iter();
        runs.flat_map(|run| unplanned(run, sampler)).try_for_each(|run| uffd.release(run))
    }
}

/// The parts of a run of pages that are not looked at by plan.
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
