// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recipe of a simulated machine: the platform, the partitioning of its memory and caches, and the sampling.

use corehop_plan::experiment::DrawStream;
use corehop_plan::machine::MachineError;
use corehop_plan::platform::{Fact, Platform};
use corehop_plan::stop::Stop;
use corehop_plan::units::{Bytes, Cpu, Nanos};
use corehop_plan::workload::trace::TraceError;
use corehop_plan::workload::{Load, Page, Pattern, Polluter, WorkingSet};

use super::frames::{Colours, FramesError};
use super::machine_state::MachineState;
use super::partitioning::{CacheShare, Partitioning, PartitioningError, Placement};
use super::spec::SpecError;
use super::tags::LineNumber;
use super::times::Picos;
use super::walker::{TracePages, Walker};

/// The smallest working set for which only some of the cache sets are simulated.
const LEAST_SAMPLE: Bytes = Bytes::from_kib(512);
/// The smallest number of simulated lines in a task's working set, unless polluters run.
const LEAST_LINES: u64 = 64;
/// The largest distance between simulated cache sets: one set in 64 is simulated.
const MOST_APART: u32 = 64;
/// The smallest distance between simulated cache sets under a load of polluters.
const APART_UNDER_LOAD: u32 = 16;
/// The number of simulated lines that is enough for a larger distance between sets under polluters.
const ENOUGH_LINES: u64 = 256;

/// The number of snapshots of a loaded phase, each with other frames.
pub(super) const SNAPSHOTS: usize = 4;

/// The working sets for which only some sets of every cache are simulated. Whether a line is lost does not depend
/// on lines in other sets, so a sample of sets represents the whole working set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sampling {
    /// No sampling: all sets are simulated for every working set.
    #[default]
    Exact,
    /// Samples working sets of 8 MiB and more: one set in 16 is simulated.
    Large,
    /// Samples working sets of 1 MiB and more: one set in 2 is simulated, down to one in 64 for the largest working
    /// sets. Under polluters, smaller working sets are also sampled, with one set in 16.
    Most,
}

/// The size from which on a working set counts as large.
pub(super) const LARGE: Bytes = Bytes::from_mib(8);
/// The sampling factor for large working sets: one set in this many is simulated.
const LARGE_APART: u32 = 16;

/// The size of a huge page.
const HUGE: Bytes = Bytes::from_mib(2);

/// All parameters needed to create a fresh simulated machine.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) platform: Platform,
    pub(super) partitioning: Partitioning,
    /// The page colours of the job and of other users; None if unrestricted.
    pub(super) colours: [Option<Colours>; 2],
    /// The rule that selects the working sets for which only some cache sets are simulated.
    pub(super) sampling: Sampling,
    /// The extra time that polluters and preemptors spend on each line, in addition to the access.
    pub(super) pause: Picos,
    /// Whether the run has to end.
    pub(super) stop: Stop,
}

impl Recipe {
    /// Creates the recipe of `platform` with partitioned memory and caches.
    ///
    /// # Errors
    /// Returns [`MachineError::NotPossible`], which names the fact that the platform file lacks or that cannot be
    /// simulated, or the cache share that is not possible.
    pub(super) fn new(
        platform: Platform,
        partitioning: Partitioning,
    ) -> Result<Self, MachineError> {
        let refused = |error: PartitioningError| MachineError::NotPossible {
            what: format!("an arrangement on {}", platform.name),
            why: error.to_string(),
            remedy: format!("see `corehop sim platform {}`", platform.id),
        };
        partitioning.check(&platform).map_err(refused)?;
        let mut colours = [None, None];
        if partitioning.has_colours() {
            let of = partitioning.colour_count(&platform).map_err(refused)?;
            let restricted = |share: &CacheShare| {
                (!share.colours.is_empty()).then(|| Colours { of, mine: share.colours.clone() })
            };
            colours = [restricted(&partitioning.job), restricted(&partitioning.others)];
        }
        let recipe = Self {
            platform,
            partitioning,
            colours,
            sampling: Sampling::Exact,
            pause: 0,
            stop: Stop::never(),
        };
        recipe.state(1, 0)?;
        Ok(recipe)
    }

    /// The sampling factor for `set` under `load`. Whether a line is lost does not depend on other lines, and
    /// polluters cause most of the simulation work, so that few lines are enough under polluters.
    pub(super) fn every(&self, set: &WorkingSet, load: &Load) -> u32 {
        let ahead = self.reads_ahead();
        if !self.is_sampled(set) || (ahead && set.pattern == Pattern::Scan) {
            return 1;
        }
        if self.sampling == Sampling::Large {
            return LARGE_APART;
        }
        let parts = (set.wss.get() / LEAST_SAMPLE.get()).clamp(1, u64::from(MOST_APART));
        let every = 1 << parts.ilog2();
        let few = *load != Load::Idle && (!ahead || set.wss >= LEAST_SAMPLE);
        let enough = (set.lines() / ENOUGH_LINES).clamp(1, u64::from(MOST_APART)).ilog2();
        if few { APART_UNDER_LOAD.max(1 << enough).max(every) } else { every }
    }

    /// The sampling factor for the working set of a task. A task has many samples, so few lines per sample are
    /// enough with or without polluters.
    pub(super) fn every_of_tasks(&self, set: &WorkingSet, load: &Load) -> u32 {
        let needs_pages = set.pattern == Pattern::Scan || set.wss < LEAST_SAMPLE;
        if !self.is_sampled(set) || (self.reads_ahead() && needs_pages) {
            return 1;
        }
        if self.sampling == Sampling::Large {
            return LARGE_APART;
        }
        let least = if *load == Load::Idle { 1 } else { APART_UNDER_LOAD };
        let parts = (set.lines() / LEAST_LINES).clamp(1, u64::from(MOST_APART));
        least.max(1 << parts.ilog2())
    }

    /// Whether sets of caches may be left out for this working set. Working sets of recorded programs are not
    /// sampled, because a program's visit to one line depends on its visits to other lines.
    pub(super) fn is_sampled(&self, set: &WorkingSet) -> bool {
        match self.sampling {
            _ if set.trace.is_some() => false,
            Sampling::Exact => false,
            Sampling::Large => set.wss >= LARGE,
            Sampling::Most => true,
        }
    }

    fn reads_ahead(&self) -> bool {
        self.platform.prefetchers.iter().any(|prefetcher| prefetcher.on.value)
    }

    /// The share of a working set of size `wss` that other users of the host evict during an absence, at quantile
    /// `at` of the losses.
    pub(super) fn lost(&self, wss: Bytes, away: Picos, at: f64) -> f64 {
        self.platform.lost_share(wss, Nanos::new(away / 1_000), at)
    }

    /// The page kind that really backs memory of kind `page`: a host may have backed huge pages with small pages.
    fn backed(&self, page: Page) -> Page {
        let small = |fact: &Fact<Bytes>| fact.value < HUGE;
        if self.platform.pages.backing.as_ref().is_some_and(small) { Page::Base } else { page }
    }

    /// The index of a CPU in the platform's list of CPUs.
    pub(super) fn place(&self, cpu: Cpu) -> usize {
        self.platform.cpus.value.iter().position(|other| other == cpu).unwrap_or(0)
    }

    /// Creates an empty machine that simulates all sets.
    pub(super) fn idle_state(&self, seed: u64) -> Result<MachineState, MachineError> {
        self.state(1, seed)
    }

    /// Creates an empty machine that simulates one in `every` of its sets.
    pub(super) fn state(&self, every: u32, seed: u64) -> Result<MachineState, MachineError> {
        let Self { platform, partitioning, .. } = self;
        let state = MachineState::new(platform, every, seed);
        let mut state = state.map_err(|error| not_possible(platform, &error))?;
        state.frames.set_contiguous(partitioning.placement == Placement::Contiguous);
        state.share(&partitioning.job.ways, &partitioning.others.ways);
        state.heed(&self.stop);
        Ok(state)
    }

    /// The walk of a job that begins on the CPU at index `here`, over newly allocated memory.
    pub(super) fn set_on(
        &self,
        state: &mut MachineState,
        here: usize,
        set: &WorkingSet,
        draw: &mut DrawStream,
    ) -> Result<Walker, MachineError> {
        let node = match set.node {
            Some(number) => state.frames.node(number).map_err(|error| no_frames(&error))?,
            None => state.node_of(here),
        };
        let colours = self.colours[0].as_ref();
        if colours.is_some() && set.page != Page::Base {
            return Err(MachineError::NotPossible {
                what: format!("a working set of {} on huge pages of some colours", set.wss),
                why: "a huge page has every colour".to_owned(),
                remedy: "use base pages (`--page 4k`), or omit the job's colours".to_owned(),
            });
        }
        let of_page = state.frames.lines_of(set.page);
        let mut place = |wss| {
            let lines = state.frames.place(wss, self.backed(set.page), node, colours);
            lines.map_err(|error| no_frames(&error))
        };
        let Some(trace) = &set.trace else {
            return Ok(Walker::of_set(set, place(set.wss)?, of_page, draw));
        };
        let pages = TracePages::of(trace, of_page).map_err(|error| damaged(&error))?;
        let lines = place(pages.size())?;
        Walker::of_trace(trace, &pages, &lines, set.page).map_err(|error| damaged(&error))
    }

    /// The walk of a polluter or preemptor, over newly allocated memory.
    pub(super) fn polluter_on(
        &self,
        state: &mut MachineState,
        cpu: usize,
        polluter: &Polluter,
        draw: &mut DrawStream,
    ) -> Result<Walker, MachineError> {
        let (lines, of_page) = self.memory_of_others(state, cpu, polluter.wss, Page::Base)?;
        Ok(Walker::of_polluter(polluter, lines, of_page, draw).pausing(self.pause))
    }

    /// Allocates memory on the node of `cpu` for a user other than the job. Returns the lines, and the number of
    /// lines in a page.
    pub(super) fn memory_of_others(
        &self,
        state: &mut MachineState,
        cpu: usize,
        size: Bytes,
        page: Page,
    ) -> Result<(Vec<LineNumber>, u32), MachineError> {
        let node = state.node_of(cpu);
        let lines = state.frames.place(size, self.backed(page), node, self.colours[1].as_ref());
        Ok((lines.map_err(|error| no_frames(&error))?, state.frames.lines_of(page)))
    }
}

fn not_possible(platform: &Platform, error: &SpecError) -> MachineError {
    MachineError::NotPossible {
        what: format!("simulating {}", platform.name),
        why: error.to_string(),
        remedy: format!("complete its platform file (`{}`)", platform.id),
    }
}

/// The error for a plan whose text changed after it was checked.
fn damaged(error: &TraceError) -> MachineError {
    MachineError::NotPossible {
        what: "this plan".to_owned(),
        why: error.to_string(),
        remedy: "plan the trace again".to_owned(),
    }
}

/// Checks that only jobs of corehop, and no recorded programs, touch these working sets.
pub(super) fn no_programs(sets: &[&WorkingSet]) -> Result<(), MachineError> {
    match sets.iter().find_map(|set| set.workload.as_ref()) {
        None => Ok(()),
        Some(job) => Err(MachineError::NotPossible {
            what: format!("the user's own job {job}"),
            why: "a simulated machine runs no programs of the host's".to_owned(),
            remedy: "measure live".to_owned(),
        }),
    }
}

/// The error for a plan whose memory does not fit into the simulated memory.
pub(super) fn no_frames(error: &FramesError) -> MachineError {
    MachineError::NotPossible {
        what: "this plan".to_owned(),
        why: error.to_string(),
        remedy: "see the platform file".to_owned(),
    }
}
