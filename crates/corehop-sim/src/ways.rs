// SPDX-License-Identifier: MIT OR Apache-2.0
//! The quick loop's knowledge of a CPU's way: the caches beside the way that the loop has to search. The knowledge
//! is valid until a cache that was left out because it was empty receives a line.

use super::hierarchy::{CachePath, Hierarchy};
use super::observer::Observer;
use super::replacement::ANY;
use super::spec::MAX_LEVELS;
use corehop_plan::platform::{Distance, Lookup};

/// The facts that the quick loop keeps about a CPU's path to memory and the caches beside the path.
#[derive(Debug, Clone)]
pub(super) struct WayCaches {
    pub(super) fetches: bool,
    pub(super) masks: [u32; MAX_LEVELS],
    /// For each cache of the path, whether no other inner cache has to be searched, except the caches in `all`.
    pub(super) lonely: [bool; 3],
    /// The caches of the path, innermost first; then the non-empty caches beside the innermost cache, unless the
    /// second cache includes these; then the non-empty other roots.
    pub(super) all: Vec<usize>,
    /// The number of caches in `all` that are beside the innermost cache.
    pub(super) beside: usize,
    /// The number of requests counted for each search of the caches beside the innermost cache.
    pub(super) beside_asked: u8,
    /// Whether all other roots include the caches inside.
    pub(super) remote_includes: bool,
    /// The number of roots asked, and counted, at a miss of all caches.
    pub(super) asked: u8,
    /// The policy key of the three caches of the path.
    pub(super) known: u8,
    /// The caches that were left out because they were empty.
    pub(super) empty: Vec<usize>,
    /// The value of [`Hierarchy::fillings`] when the caches in `empty` were last known to be empty.
    pub(super) fillings: u64,
}

impl<O: Observer> Hierarchy<O> {
    /// Takes the stored facts about a path to memory, or computes these facts anew if they are outdated.
    #[inline(always)]
    pub(super) fn ready(
        &mut self,
        cpu: usize,
        fetches: bool,
        path: &CachePath,
    ) -> Option<Box<WayCaches>> {
        let mut known = self.ready[cpu][usize::from(fetches)].take();
        // The loop fills those of the way without a word.
        self.fillings +=
            u64::from(path.caches[..path.len].iter().any(|&x| self.caches[x].is_empty()));
        if known.as_mut().is_some_and(|way| self.is_valid(way)) {
            return known;
        }
        if O::ON { None } else { self.way_of_three(cpu, path, fetches).map(Box::new) }
    }

    /// Whether the caches that were left out are still empty and all searched caches are not.
    #[inline(always)]
    fn is_valid(&self, way: &mut WayCaches) -> bool {
        if way.fillings != self.fillings {
            way.fillings = self.fillings;
            if !way.empty.iter().all(|&x| self.caches[x].is_empty()) {
                return false;
            }
        }
        let idle = |&x: &usize| self.caches[x].is_empty() && self.is_deserted(x);
        !way.all[3..].iter().any(idle)
    }

    /// The facts that the loop of [`super::fast_path`] needs for reads on this path to memory; None if the loop
    /// cannot handle the path.
    pub(super) fn way_of_three(
        &self,
        cpu: usize,
        path: &CachePath,
        fetches: bool,
    ) -> Option<WayCaches> {
        let own = &path.caches[..path.len];
        let fits = |&x: &usize| self.caches[x].width() <= 16 && self.caches[x].names_all();
        if own.len() != 3 || !path.plain || !own.iter().all(fits) {
            return None;
        }
        let widths = [0, 1, 2].map(|place| self.caches[own[place]].width());
        let masked = own[..2].iter().all(|&x| self.caches[x].has_mask());
        if !matches!(widths, [8, 8, 8 | 16] | [8, 16, 16]) || !masked {
            return None;
        }
        let masks = self.masks(cpu);
        let known = |&x: &usize| {
            let cache = &self.caches[x];
            cache.known(masks[usize::from(cache.level) - 1])
        };
        let first = known(&own[0]);
        let mut empty = Vec::new();
        let beside = self.beside_first(own[1], path.places[0], &mut empty);
        let outer = &self.caches[own[2]];
        let lonely = outer.includes() || self.is_lonely(own[2], path.places[1], &mut empty);
        let others = self.roots.iter().copied().filter(|&root| root != own[2]);
        let (deserted, remote): (Vec<usize>, Vec<usize>) =
            others.partition(|&root| self.is_deserted(root));
        for root in deserted {
            self.add_all_of(root, &mut empty);
        }
        let inner = &self.caches[own[1]];
        let asked = if inner.includes() { 0 } else { self.beside_asked(own[1]) };
        let looked_at = beside.is_some();
        let beside = beside.unwrap_or_default();
        Some(WayCaches {
            fetches,
            masks,
            known: if own.iter().all(|x| known(x) == first) { first } else { ANY },
            lonely: [true, looked_at, lonely],
            remote_includes: remote.iter().all(|&root| self.caches[root].includes()),
            beside: beside.len(),
            beside_asked: asked,
            all: own.iter().copied().chain(beside).chain(remote).collect(),
            asked: self.roots_asked(),
            empty,
            fillings: self.fillings,
        })
    }

    /// The non-empty caches inside `x`, the second cache of a path, except the cache in place `own`; an empty list
    /// if `x` includes these caches. Returns None if the caches are not innermost caches.
    fn beside_first(&self, x: usize, own: usize, empty: &mut Vec<usize>) -> Option<Vec<usize>> {
        if self.caches[x].includes() {
            return Some(Vec::new());
        }
        let (without, with): (Vec<usize>, Vec<usize>) =
            self.others_inside(x, own).partition(|&child| self.is_deserted(child));
        for child in without {
            self.add_all_of(child, empty);
        }
        with.iter().all(|&child| self.caches[child].is_innermost()).then_some(with)
    }

    /// The caches inside `x`, except the cache in place `own`.
    fn others_inside(&self, x: usize, own: usize) -> impl Iterator<Item = usize> {
        let children = self.caches[x].children.iter().copied();
        children.filter(move |&child| self.caches[child].place != own)
    }

    /// Adds `x` to the list `to` and, unless `x` includes its inner caches, adds those caches too.
    fn add_all_of(&self, x: usize, to: &mut Vec<usize>) {
        let cache = &self.caches[x];
        to.push(x);
        if !cache.includes() {
            cache.children.iter().for_each(|&child| self.add_all_of(child, to));
        }
    }

    /// The number of requests that an access costs if no cache of its root has the line.
    pub(super) fn roots_asked(&self) -> u8 {
        if self.lookup == Lookup::Directory { 0 } else { (self.roots.len() - 1).min(255) as u8 }
    }

    /// Whether requests to the caches inside `x`, except the cache in place `own`, would find nothing and count
    /// nothing, because these caches are `empty`.
    fn is_lonely(&self, x: usize, own: usize, empty: &mut Vec<usize>) -> bool {
        let lonely =
            self.beside_asked(x) == 0 && self.others_inside(x, own).all(|it| self.is_deserted(it));
        if lonely {
            for child in self.others_inside(x, own) {
                self.add_all_of(child, empty);
            }
        }
        lonely
    }

    /// The number of requests that a search of the other caches inside `x` counts; 0 with a directory or within a
    /// core.
    #[inline(always)]
    pub(super) fn beside_asked(&self, x: usize) -> u8 {
        let cache = &self.caches[x];
        let free = self.lookup == Lookup::Directory || cache.distance == Distance::Core;
        if free { 0 } else { (cache.children.len() - 1).min(255) as u8 }
    }

    /// Whether cache `x` and all caches inside are empty.
    fn is_deserted(&self, x: usize) -> bool {
        let cache = &self.caches[x];
        cache.is_empty() && cache.children.iter().all(|&child| self.is_deserted(child))
    }
}
