// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of placements of small crowds, computed by hand: cache lines, cache sizes, siblings,
//! nodes.

use super::super::terrain::tests::{COSTS, LINES, list};
use super::*;
use corehop_plan::platform::Platform;

fn member(busy: f64, bytes: f64) -> CrowdMember {
    CrowdMember { busy, bytes, list: 0 }
}

fn crowd(terrain: &Terrain, members: Vec<CrowdMember>, bonds: Vec<Bond>) -> Crowd {
    Crowd { lists: vec![terrain.cpus().clone()], members, bonds }
}

fn lines(a: usize, b: usize, lines: f64) -> Bond {
    Bond { a, b, wakes: 0.0, lines, ran: None }
}

/// The CPUs of a member in the placement.
fn place(placement: &PlacementProposal, member: usize) -> Option<&CpuList> {
    placement.placed.iter().find(|it| it.members.contains(&member)).map(|it| &it.cpus)
}

fn named(id: &str) -> Terrain {
    let platform = Platform::named(id).unwrap().unwrap();
    Terrain::of(&platform, COSTS).with_lines(LINES)
}

#[test]
fn busy_threads_that_take_lines_from_each_other_share_a_cache_and_those_that_are_not_a_cpu() {
    let terrain = Terrain::new(&[list("0-3"), list("4-7")], COSTS).with_lines(LINES);
    let bonds = || vec![lines(0, 1, 1e6), lines(2, 3, 1e6)];
    let busy = assign(&crowd(&terrain, vec![member(0.9, 0.0); 4], bonds()), &terrain);
    assert!(place(&busy, 0) == place(&busy, 1) && place(&busy, 0).unwrap().len() == 4);
    // Spread over all CPUs a line takes 4 of 64 pairs of CPUs nothing, 24 of them 40 ns, the others 100 ns.
    let mean = (24.0 * 40.0 + 32.0 * 100.0) / 64.0;
    let then = 12.0 * 40.0 / 16.0;
    assert!((busy.saved - 2e6 * (mean - then) * 1e-9).abs() < 1e-9, "{}", busy.saved);
    let idle = assign(&crowd(&terrain, vec![member(0.4, 0.0); 4], bonds()), &terrain);
    assert!(place(&idle, 0) == place(&idle, 1) && place(&idle, 0).unwrap().len() == 1);
}

#[test]
fn threads_whose_data_does_not_fit_a_cache_together_are_not_put_below_one() {
    // 8 MiB for four CPUs.
    let terrain = named("xeon_e5520");
    assert_eq!(terrain.size(0).unwrap().get(), 8 << 20);
    let of = |bytes: f64| {
        let members = vec![member(0.9, bytes), member(0.9, bytes)];
        assign(&crowd(&terrain, members, vec![lines(0, 1, 1e6)]), &terrain)
    };
    let both = of(3e6);
    assert!(place(&both, 0).is_some() && place(&both, 0) == place(&both, 1), "{both:?}");
    assert_eq!(of(6e6), PlacementProposal::default());
}

#[test]
fn clusters_of_one_core_each_go_to_cores_of_their_own_where_cores_have_siblings() {
    let mut platform = Platform::named("epyc_7313").unwrap().unwrap();
    platform.cores.value =
        corehop_plan::platform::CpuGroups::regular(&platform.cpus.value, 2, 1).unwrap();
    let terrain = Terrain::of(&platform, COSTS).with_lines(LINES);
    let siblings = terrain.siblings(Cpu(0)).unwrap().clone();
    assert_eq!(siblings, list("0-1"));
    // Four CPUs of a cache do the work of two and a half.
    assert!((terrain.capacity(0) - 4.0 * (1.0 - SIBLING)).abs() < 1e-9);
    let bonds = [(0, 1), (2, 3)].map(|(a, b)| Bond { a, b, wakes: 1e4, lines: 0.0, ran: None });
    // Both pairs may use the first cache alone.
    let mut crowd = crowd(&terrain, vec![member(0.45, 0.0); 4], bonds.to_vec());
    crowd.lists = vec![terrain.caches()[0].clone()];
    let placement = assign(&crowd, &terrain);
    let [x, y] = [0, 2].map(|it| place(&placement, it).unwrap().first().unwrap());
    assert!(terrain.siblings(x) != terrain.siblings(y), "{placement:?}");
}

#[test]
fn clusters_that_fit_no_cache_together_go_to_caches_of_one_node() {
    // Two nodes of two caches of two CPUs.
    let mut platform = Platform::named("epyc_7313").unwrap().unwrap();
    let cpus = list("0-7");
    platform.cpus.value = cpus.clone();
    let nodes = ["0-3", "4-7"].map(list);
    let mut node = platform.nodes[0].clone();
    node.cpus.value = nodes[0].clone();
    let mut other = node.clone();
    (other.id, other.cpus.value) = (1, nodes[1].clone());
    platform.nodes = vec![node, other];
    let caches = ["0-1", "2-3", "4-5", "6-7"].map(list);
    for it in platform.caches.iter_mut().filter(|it| it.level == 3) {
        it.instances.value = corehop_plan::platform::CpuGroups::new(caches.clone());
    }
    let terrain = Terrain::of(&platform, COSTS).with_lines(LINES);
    assert_eq!((terrain.caches().len(), terrain.nodes()), (4, 2));
    // Two pairs that need a cache each, and have to do with each other too; two more pairs fill what is left.
    let bonds = vec![
        lines(0, 1, 5e6),
        lines(2, 3, 5e6),
        lines(4, 5, 4e6),
        lines(6, 7, 4e6),
        lines(0, 7, 1e6),
        lines(2, 5, 1e6),
    ];
    let placement = assign(&crowd(&terrain, vec![member(0.8, 0.0); 8], bonds), &terrain);
    let node_of = |member: usize| {
        let cache = terrain.cache_of(place(&placement, member).unwrap().first().unwrap());
        terrain.node_of(cache.unwrap())
    };
    assert_eq!(node_of(0), node_of(7), "{placement:?}");
    assert_eq!(node_of(2), node_of(5), "{placement:?}");
}
