// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of replayed logs.

use super::{Pairs, may_move, two_caches};
use crate::placer::log::{PlacementLogEntry, PlacementLogHeader};
use crate::placer::replay::{actions_of, replay};
use crate::placer::terrain::tests::list;
use crate::placer::{Action, InitialPlacement, Placer};
use corehop_plan::host::Evidence;

/// A log of pairs that were started on one CPU, with a refused move in its middle.
fn recorded(pairs: usize) -> String {
    let terrain = two_caches(4);
    let mut host = Pairs::new(pairs, 3.0, &terrain, 8);
    let mut placer = Placer::new(may_move(), terrain.clone());
    let start = InitialPlacement::List(list("0"));
    let head = PlacementLogHeader::new(
        may_move(),
        &terrain,
        &[],
        vec![Evidence::Wakes],
        Some(start.clone()),
    );
    let mut lines = vec![PlacementLogEntry::Head(Box::new(head))];
    for at in 0..120 {
        let window = host.window();
        let actions = actions_of(&mut placer, (at == 0).then_some(&start), &window);
        host.obey(&actions);
        lines.push(PlacementLogEntry::Window { window, actions });
        if at == 30 {
            placer.refused();
            host.obey(&[Action::Restore]);
            lines.push(PlacementLogEntry::Refused { refused: "busy".to_owned() });
        }
    }
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

#[test]
fn a_log_is_played_back_to_the_same_actions_whatever_the_number_of_threads() {
    for pairs in [1, 3, 4] {
        let done = replay(recorded(pairs).as_bytes(), None).unwrap();
        assert_eq!((done.windows, done.difference), (120, None), "{pairs} pairs");
        assert!(done.actions > 4, "{pairs} pairs: {} actions", done.actions);
    }
}

#[test]
fn a_log_whose_evidence_was_changed_differs_from_the_window_in_which_it_matters() {
    // From the third window on the pairs hardly wake each other.
    let changed: String = recorded(3)
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let line =
                if at < 3 { line.to_owned() } else { line.replace("\"count\":500", "\"count\":1") };
            line + "\n"
        })
        .collect();
    let difference = replay(changed.as_bytes(), None).unwrap().difference.unwrap();
    assert!(!difference.recorded.is_empty() && difference.now != difference.recorded);
    let older = recorded(1).replacen("\"terrain\"", "\"unknown\"", 1);
    assert!(replay(older.as_bytes(), None).unwrap_err().to_string().contains("CPUs"));
}
