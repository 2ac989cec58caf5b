// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers lists of CPUs, because on a large host ten thousand threads share a handful of lists that are a thousand
//! CPUs long.

use std::collections::HashMap;

use super::terrain::{Ran, Terrain};
use corehop_plan::units::{Cpu, CpuList};

/// A list of CPUs, with the number of its CPUs in each cache.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuRegion {
    /// The CPUs of the region.
    pub cpus: CpuList,
    /// The number of the region's CPUs in each of [`Terrain::caches`].
    pub within: Vec<f64>,
    /// The number of the region's CPUs in each of [`Terrain::inner`].
    pub within_inner: Vec<f64>,
    /// The number of the region's CPUs in each NUMA node.
    pub within_nodes: Vec<f64>,
}

/// A quickly comparable fingerprint: lists with different fingerprints differ.
type CpuFingerprint = (usize, Option<Cpu>);

fn mark(cpus: &CpuList) -> CpuFingerprint {
    (cpus.len(), cpus.first())
}

/// Distinct regions, each with a number.
#[derive(Debug)]
pub(super) struct Regions<'t> {
    terrain: &'t Terrain,
    all: Vec<CpuRegion>,
    marked: HashMap<CpuFingerprint, Vec<usize>>,
    common: HashMap<(usize, usize), usize>,
    anywhere: HashMap<(usize, usize), Ran>,
}

impl<'t> Regions<'t> {
    pub(super) fn new(terrain: &'t Terrain) -> Self {
        Self {
            terrain,
            all: Vec::new(),
            marked: HashMap::new(),
            common: HashMap::new(),
            anywhere: HashMap::new(),
        }
    }

    /// The number of a CPU list; a new list gets a new number.
    pub(super) fn number(&mut self, cpus: &CpuList) -> usize {
        let same = self.marked.entry(mark(cpus)).or_default();
        if let Some(&known) = same.iter().find(|&&it| self.all[it].cpus == *cpus) {
            return known;
        }
        same.push(self.all.len());
        self.all.push(self.terrain.region(cpus.clone()));
        self.all.len() - 1
    }

    pub(super) fn get(&self, number: usize) -> &CpuRegion {
        &self.all[number]
    }

    pub(super) fn into_lists(self) -> Vec<CpuList> {
        self.all.into_iter().map(|it| it.cpus).collect()
    }

    /// The number of the intersection of two regions.
    pub(super) fn common(&mut self, a: usize, b: usize) -> usize {
        if a == b {
            return a;
        }
        let pair = (a.min(b), a.max(b));
        if let Some(&known) = self.common.get(&pair) {
            return known;
        }
        let cpus = self.all[a].cpus.intersection(&self.all[b].cpus);
        let common = self.number(&cpus);
        self.common.insert(pair, common);
        common
    }

    /// The distances between two threads that run anywhere in their regions.
    pub(super) fn anywhere(&mut self, a: usize, b: usize) -> Ran {
        if let (Some(x), Some(y)) = (self.single(a), self.single(b)) {
            return self.terrain.at(x, y);
        }
        let all = &self.all;
        let pair = (a.min(b), a.max(b));
        *self.anywhere.entry(pair).or_insert_with(|| Ran::anywhere(&all[a], &all[b]))
    }

    fn single(&self, number: usize) -> Option<Cpu> {
        let cpus = &self.all[number].cpus;
        cpus.first().filter(|_| cpus.len() == 1)
    }
}
