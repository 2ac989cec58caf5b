// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page frames of a working set in physical memory.
//!
//! A cache finds its sets by physical address, so the frames of a working set decide which of its lines compete for
//! a set. Base pages get random frames, as on a machine that has been running for a while; huge pages are
//! contiguous inside; page colours restrict the choice of frames.

use std::collections::BTreeSet;

use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Platform;
use corehop_plan::units::Bytes;
use corehop_plan::workload::Page;

use super::spec::SpecError;
use super::tags::{LineNumber, NO_LINE};

/// The size of a base page in bytes.
const BASE: u64 = 4 << 10;
/// The size of a huge page in bytes.
const HUGE: u64 = 2 << 20;
/// The memory of a node in bytes, if the platform does not state the size.
const UNSTATED: u64 = 32 << 30;

/// The page colours that a working set may use: of every `of` consecutive frames, the frames at the listed
/// positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Colours {
    /// The number of colours.
    pub of: u32,
    /// The colours that the working set may use.
    pub mine: Vec<u32>,
}

/// The physical memory of a machine, from which frames are drawn once each.
#[derive(Debug, Clone)]
pub struct Frames {
    /// For each node, the first line of its memory and the line after the last.
    nodes: Vec<(u64, u64)>,
    /// The place of each node in the platform's list, by its number.
    numbers: Vec<u32>,
    line: u64,
    /// Base frames that are taken, by number.
    taken: BTreeSet<u64>,
    draw: DrawStream,
    /// Whether the pages of a working set are neighbours.
    contiguous: bool,
    /// The sampling factor: one in `every` lines is simulated.
    every: u64,
}

/// The reason for which a working set gets no frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramesError {
    /// The working set is larger than the free simulated memory in the colours that the set may use.
    #[error(
        "a working set of {wss} does not fit into the simulated memory ({memory} on the node and in the colours of this set): choose a smaller one, or state more `memory` in the platform file"
    )]
    Full {
        /// The size of the working set.
        wss: Bytes,
        /// The memory available in these colours, in bytes.
        memory: Bytes,
    },
    /// The plan names a node that the platform lacks.
    #[error("node {node} does not exist on this platform: name one of the nodes {nodes:?}")]
    Node {
        /// The number of the node that the plan requests.
        node: u32,
        /// The numbers of the nodes that exist.
        nodes: Vec<u32>,
    },
}

impl Frames {
    /// Creates the memory of `platform` with all frames free; `seed` decides which frames are drawn.
    ///
    /// # Errors
    /// Returns [`SpecError`] if the memory has more lines than a line number can distinguish.
    pub fn new(platform: &Platform, every: u32, seed: u64) -> Result<Self, SpecError> {
        let line = platform.line_size().get();
        let own = |at: usize| platform.nodes[at].memory.as_ref().map(|fact| fact.value.get());
        let stated = (0..platform.nodes.len()).any(|at| own(at).is_some());
        let mut sizes: Vec<u64> = (0..platform.nodes.len())
            .map(|at| own(at).unwrap_or(if stated { 0 } else { UNSTATED }))
            .collect();
        if sizes.is_empty() {
            sizes.push(UNSTATED);
        }
        let mut first = 0;
        let mut nodes = Vec::new();
        for size in &sizes {
            nodes.push((first, first + size / HUGE * (HUGE / line)));
            first += size / HUGE * (HUGE / line);
        }
        if first > u64::from(NO_LINE) {
            let problem = format!(
                "the platform has {first} lines of memory; corehop simulates fewer than {NO_LINE}"
            );
            return Err(SpecError::Unsupported { fact: "node.memory".to_owned(), problem });
        }
        let numbers = platform.nodes.iter().map(|node| node.id).collect();
        Ok(Self {
            nodes,
            numbers,
            line,
            taken: BTreeSet::new(),
            draw: DrawStream::new(seed, 11),
            contiguous: false,
            every: u64::from(every),
        })
    }

    /// Sets whether later working sets get contiguous frames instead of random frames.
    pub fn set_contiguous(&mut self, contiguous: bool) {
        self.contiguous = contiguous;
    }

    /// The simulated lines of a page of this kind.
    pub fn lines_of(&self, page: Page) -> u32 {
        let size = if page == Page::Base { BASE } else { HUGE };
        (size / self.line / self.every) as u32
    }

    /// Draws later frames from the random stream `stream`.
    pub fn redraw(&mut self, seed: u64, stream: u64) {
        self.draw = DrawStream::new(seed, stream);
    }

    /// The index of the node whose memory contains `line`.
    #[inline(always)]
    pub fn home(&self, line: LineNumber) -> usize {
        let line = u64::from(line) * self.every;
        self.nodes.iter().position(|&(first, end)| (first..end).contains(&line)).unwrap_or(0)
    }

    /// The index of the first node with memory, starting at `node`: the node that serves requests for memory of
    /// `node`.
    fn node_with_memory(&self, node: usize) -> usize {
        let has = |&at: &usize| self.nodes[at].1 > self.nodes[at].0;
        let after = (0..self.nodes.len()).map(|step| (node + step) % self.nodes.len());
        after.into_iter().find(has).unwrap_or(0)
    }

    /// The index of the node with this number.
    ///
    /// # Errors
    /// Returns [`FramesError`] if the platform has no node with this number.
    pub fn node(&self, number: u32) -> Result<usize, FramesError> {
        let place = self.numbers.iter().position(|&other| other == number);
        place.ok_or_else(|| FramesError::Node { node: number, nodes: self.numbers.clone() })
    }

    /// Allocates frames for `wss` bytes on pages of kind `page`, from the node at index `node` or, if that node has
    /// no memory, from the next node with memory. Returns the lines in virtual order.
    ///
    /// # Errors
    /// Returns [`FramesError`] if the node has too little free memory.
    pub fn place(
        &mut self,
        wss: Bytes,
        page: Page,
        node: usize,
        colours: Option<&Colours>,
    ) -> Result<Vec<LineNumber>, FramesError> {
        let size = if page == Page::Base { BASE } else { HUGE };
        let (first, end) = self.nodes[self.node_with_memory(node)];
        let lines_of_page = size / self.line;
        let (low, high) = (first / lines_of_page, end / lines_of_page);
        let fits = |frame: u64| {
            colours.is_none_or(|colours| {
                colours.mine.contains(&((frame % u64::from(colours.of)) as u32))
            })
        };
        let share = colours.map_or((1, 1), |it| (it.mine.len() as u64, u64::from(it.of)));
        let memory = Bytes::new((high - low) * size * share.0 / share.1.max(1));
        let pages = wss.get().div_ceil(size);
        let full = FramesError::Full { wss, memory };
        if pages * size > memory.get() {
            return Err(full);
        }
        let together = if self.contiguous { pages } else { 1 };
        let every = self.every;
        let mut left = wss.get() / self.line;
        let mut lines = Vec::with_capacity((left / every) as usize + 1);
        for _ in 0..pages / together {
            let drawn = self.draw_pages(low..high, size, together, &fits);
            let first = drawn.ok_or_else(|| full.clone())? * lines_of_page;
            let some = left.min(lines_of_page * together);
            let simulated = first.div_ceil(every)..(first + some).div_ceil(every);
            lines.extend(simulated.map(|line| line as LineNumber));
            left -= some;
        }
        Ok(lines)
    }

    /// Allocates `count` free contiguous pages at a random suitable position; None if the search finds no free
    /// range.
    fn draw_pages(
        &mut self,
        from: std::ops::Range<u64>,
        size: u64,
        together: u64,
        fits: &impl Fn(u64) -> bool,
    ) -> Option<u64> {
        // With nine tenths of the frames taken a draw in ten is good: a thousand are enough.
        for _ in 0..10_000 {
            let last = (from.end - from.start + 1).saturating_sub(together);
            let page = from.start + self.draw.below(last.max(1));
            if fits(page) && self.take(page, together, size) {
                return Some(page);
            }
        }
        None
    }

    /// Allocates contiguous pages starting at `frame`, unless part of the range is taken.
    fn take(&mut self, frame: u64, count: u64, size: u64) -> bool {
        let parts = size / BASE;
        let (first, end) = (frame * parts, (frame + count) * parts);
        if end - first == 1 {
            return self.taken.insert(first);
        }
        if self.taken.range(first..end).next().is_some() {
            return false;
        }
        self.taken.extend(first..end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(every: u32, seed: u64) -> Frames {
        Frames::new(&Platform::named("xeon_x5650").unwrap().unwrap(), every, seed).unwrap()
    }

    fn frames(seed: u64) -> Frames {
        sampled(1, seed)
    }

    #[test]
    fn every_line_is_its_own_and_pages_stay_whole() {
        let mut frames = frames(1);
        let wss = Bytes::from_mib(4);
        let mut all = frames.place(wss, Page::Base, 0, None).unwrap();
        assert!(all.chunks(64).all(|page| page[0] % 64 == 0 && page[63] == page[0] + 63));
        all.extend(frames.place(wss, Page::Transparent, 0, None).unwrap());
        assert_eq!(all.len(), 2 * 65_536);
        assert!(all[65_536..].chunks(32_768).all(|page| page[32_767] == page[0] + 32_767));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * 65_536);
    }

    #[test]
    fn a_seed_decides_the_frames() {
        let lines = |seed| frames(seed).place(Bytes::from_kib(64), Page::Base, 0, None).unwrap();
        assert_eq!(lines(1), lines(1));
        assert_ne!(lines(1), lines(2));
    }

    #[test]
    fn a_node_without_memory_takes_it_from_the_next_that_has_some() {
        let mut frames = frames(1);
        let line = frames.place(Bytes::from_kib(4), Page::Base, 1, None).unwrap()[0];
        assert_eq!((frames.home(line), frames.node(1)), (0, Ok(1)));
        assert!(frames.node(2).unwrap_err().to_string().contains("node 2"));
    }

    #[test]
    fn neighbouring_frames_are_neighbours_and_taken_once() {
        let mut frames = frames(1);
        frames.set_contiguous(true);
        let mut sets: Vec<Vec<LineNumber>> = (0..3)
            .map(|_| frames.place(Bytes::from_mib(1), Page::Base, 0, None).unwrap())
            .collect();
        assert!(sets.iter().all(|set| set.is_sorted_by(|a, b| a + 1 == *b) && set.len() == 16_384));
        sets.sort();
        assert!(sets[0][16_383] < sets[1][0] && sets[1][16_383] < sets[2][0]);
    }

    #[test]
    fn sampled_lines_are_every_eighth_of_the_same_frames() {
        let wss = Bytes::from_kib(64);
        let all = frames(1).place(wss, Page::Base, 0, None).unwrap();
        let mut sampled = sampled(8, 1);
        let some = sampled.place(wss, Page::Base, 0, None).unwrap();
        let expected: Vec<LineNumber> = all.iter().step_by(8).map(|line| line / 8).collect();
        assert_eq!((some, sampled.lines_of(Page::Base)), (expected, 8));
    }

    #[test]
    fn colours_restrict_the_frames() {
        let colours = Colours { of: 64, mine: vec![3, 5] };
        let lines = frames(1).place(Bytes::from_kib(256), Page::Base, 0, Some(&colours)).unwrap();
        assert!(lines.iter().all(|line| [3, 5].contains(&(line / 64 % 64))));
    }

    #[test]
    fn more_than_there_is_is_refused_with_the_size() {
        let error = frames(1).place(Bytes::from_mib(40 << 10), Page::Transparent, 0, None);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("40 GiB") && text.contains("24 GiB"), "{text}");
    }
}
