// SPDX-License-Identifier: MIT OR Apache-2.0
//! A working set in memory, with its lines linked into lists or written as code.

use std::os::unix::fs::FileExt;

use corehop_plan::experiment::DrawStream;
use corehop_plan::workload::{LINE, Pattern, WorkingSet};

use crate::memory::{Linked, Mapping, MemoryError};
use crate::walk::code::CodeMemory;
use corehop_system::proc;

/// The page size that the page map uses.
const BASE_PAGE: usize = 4096;
/// The bits of a page map entry that contain the page frame number, which is zero for unprivileged
/// users (Documentation/admin-guide/mm/pagemap.rst).
const FRAME: u64 = (1 << 55) - 1;
/// A working set in memory, linked in an order that depends on the seed.
#[derive(Debug)]
pub(crate) struct SetMemory {
    mapping: Mapping,
    code: Option<CodeMemory>,
    linked: Linked,
    set: WorkingSet,
    /// Whether the pages are locked.
    pub(crate) locked: bool,
}

impl SetMemory {
    /// Maps and links `set`; `draw` determines the order.
    pub(crate) fn new(set: &WorkingSet, draw: &mut DrawStream) -> Result<Self, MemoryError> {
        let mut mapping = Mapping::new(set.wss, set.page, set.node)?;
        let locked = mapping.lock().is_ok();
        let (linked, code) = link(set, &mut mapping, draw)?;
        Ok(Self { mapping, code, linked, set: set.clone(), locked })
    }

    /// Takes new page frames and links them again.
    pub(crate) fn renew(&mut self, draw: &mut DrawStream) -> Result<(), MemoryError> {
        let refused = |error| MemoryError::Refused { what: "making code writable", error };
        self.mapping.make_writable().map_err(refused)?;
        self.mapping.renew(self.set.node)?;
        self.locked = self.mapping.lock().is_ok();
        (self.linked, self.code) = link(&self.set, &mut self.mapping, draw)?;
        Ok(())
    }

    /// Links the page frames in another order.
    pub(crate) fn reorder(&mut self, draw: &mut DrawStream) -> Result<(), MemoryError> {
        let refused = |error| MemoryError::Refused { what: "making code writable", error };
        self.mapping.make_writable().map_err(refused)?;
        (self.linked, self.code) = link(&self.set, &mut self.mapping, draw)?;
        Ok(())
    }

    pub(crate) fn linked(&self) -> &Linked {
        &self.linked
    }

    pub(crate) fn flush(&self) {
        self.mapping.flush();
    }

    /// The share of the working set on huge pages, according to the kernel.
    pub(crate) fn huge_share(&self) -> f64 {
        let (start, length) = self.raw();
        let smaps = proc::text("/proc/self/smaps").unwrap_or_default();
        let huge = huge_bytes(&smaps, start);
        (huge as f64 / length as f64).min(1.0)
    }

    /// The page frame numbers of the working set; `None` if the kernel does not show them.
    pub(crate) fn frames(&self) -> Option<Vec<u64>> {
        let (start, length) = self.raw();
        let pages = length.div_ceil(BASE_PAGE);
        let mut entries = vec![0; pages * 8];
        let map = std::fs::File::open("/proc/self/pagemap").ok()?;
        map.read_exact_at(&mut entries, start / BASE_PAGE as u64 * 8).ok()?;
        let entry = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) & FRAME;
        let frames: Vec<u64> = entries.as_chunks::<8>().0.iter().map(entry).collect();
        frames.iter().all(|&frame| frame != 0).then_some(frames)
    }

    /// The address and the length of the memory, for the user's own jobs.
    pub(crate) fn raw(&self) -> (u64, usize) {
        (self.mapping.address(), self.mapping.length())
    }
}

fn link(
    set: &WorkingSet,
    mapping: &mut Mapping,
    draw: &mut DrawStream,
) -> Result<(Linked, Option<CodeMemory>), MemoryError> {
    let start = mapping.address();
    let end = start + set.wss.get();
    match set.pattern {
        // The user's own job finds zeros, and puts into it what it wants.
        _ if set.workload.is_some() => Ok((Linked { start, end, chains: [0; 8] }, None)),
        Pattern::Scan => Ok((Linked { start, end, chains: [0; 8] }, None)),
        Pattern::Shuffled => Ok((link_chains(set, mapping, draw), None)),
        Pattern::Code => {
            let refused = |error| MemoryError::Refused { what: "making memory executable", error };
            let code = CodeMemory::write(mapping, set.lines(), draw).map_err(refused)?;
            Ok((code.linked(), Some(code)))
        }
    }
}

/// Links one element per line; the lines of all chains are mixed, and each chain is a cycle.
fn link_chains(set: &WorkingSet, mapping: &mut Mapping, draw: &mut DrawStream) -> Linked {
    let base = mapping.address();
    let mut order: Vec<u32> = (0..set.lines() as u32).collect();
    draw.shuffle(&mut order);
    let mut chains = [0; 8];
    let per_chain = order.len() / usize::from(set.chains);
    for (chain, lines) in order.chunks(per_chain).enumerate().take(usize::from(set.chains)) {
        let address = |line: u32| base + u64::from(line) * LINE;
        for (at, &line) in lines.iter().enumerate() {
            let next = address(lines[(at + 1) % lines.len()]);
            let offset = line as usize * LINE as usize;
            mapping.bytes_mut()[offset..offset + 8].copy_from_slice(&next.to_le_bytes());
        }
        chains[chain] = address(lines[0]);
    }
    Linked { start: chains[0], end: 0, chains }
}

/// The bytes on huge pages in the mapping that contains `address`, from the text of
/// `/proc/self/smaps`.
fn huge_bytes(smaps: &str, address: u64) -> u64 {
    let mut lines = smaps.lines().skip_while(|line| !holds(line, address)).skip(1);
    let field = |line: &str, name: &str| -> Option<u64> {
        line.strip_prefix(name)?.trim().trim_end_matches(" kB").parse().ok()
    };
    let mapping = lines
        .by_ref()
        .take_while(|line| line.split_once(' ').is_some_and(|(head, _)| head.ends_with(':')));
    let kib = mapping.filter_map(|line| {
        field(line, "AnonHugePages:").or_else(|| field(line, "Private_Hugetlb:"))
    });
    kib.sum::<u64>() * 1024
}

/// Whether a line of smaps begins a mapping that contains `address`.
fn holds(line: &str, address: u64) -> bool {
    let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
    let hex = |text| u64::from_str_radix(text, 16).ok();
    range
        .and_then(|(from, to)| Some(hex(from)?..hex(to)?))
        .is_some_and(|range| range.contains(&address))
}
