// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of placements without wake-ups in their favour: a search, or common pages.

use super::*;

#[test]
fn busy_threads_without_wake_ups_are_tried_together_if_a_search_is_asked_for() {
    let terrain = || Terrain::new(&[list("0-1")], COSTS);
    let run = |gain: f64, search: bool| {
        let mut host = Pairs::new(1, gain, &terrain(), 6);
        let mut placer = Placer::new(Settings { search, ..may_move() }, terrain());
        for _ in 0..60 {
            let mut window = host.window();
            window.contacts.clear();
            let actions = placer.step(&window);
            host.obey(&actions);
        }
        host.allowed.into_values().collect::<Vec<_>>()
    };
    assert_eq!(run(2.7, true), [list("0"), list("0")]);
    assert_eq!(run(0.5, true), [list("0-1"), list("0-1")]);
    assert_eq!(run(2.7, false), [list("0-1"), list("0-1")]);
}

#[test]
fn pairs_that_were_seen_at_the_same_pages_are_tried_together_and_no_others() {
    for (gain, kept) in [(2.0, true), (0.6, false)] {
        let terrain = two_caches(4);
        let mut host = Pairs::new(3, gain, &terrain, 12);
        let pairs: Vec<(u32, u32)> = host.partners().take(2).collect();
        let mut placer = Placer::new(may_move(), terrain);
        let mut tried = Vec::new();
        for _ in 0..300 {
            let actions = placer.step(&without_wake_ups(host.window(), &pairs));
            host.obey(&actions);
            tried.extend(actions.into_iter().filter(|it| matches!(it, Action::Try(_))));
        }
        let Action::Try(first) = &tried[0] else { panic!("{tried:?}") };
        assert!(first.saved.is_none() && first.seen && first.moves.len() == 4, "{first:?}");
        for (a, b) in &pairs {
            let together = host.allowed[a].len() == 1 && host.allowed[a] == host.allowed[b];
            assert_eq!(together, kept, "{:?}", host.allowed);
        }
        let (c, d) = host.partners().last().unwrap();
        assert!(host.allowed[&c] == host.home && host.allowed[&d] == host.home);
    }
}

#[test]
fn a_search_without_any_evidence_finds_the_pairs_among_several_threads() {
    for seed in 0..4 {
        let terrain = two_caches(2);
        let mut host = Pairs::new(2, 3.0, &terrain, seed);
        let mut placer = Placer::new(Settings { search: true, ..may_move() }, terrain);
        for _ in 0..900 {
            let actions = placer.step(&without_wake_ups(host.window(), &[]));
            host.obey(&actions);
        }
        for (a, b) in host.partners() {
            assert!(host.allowed[&a].len() == 1 && host.allowed[&a] == host.allowed[&b]);
        }
    }
}
