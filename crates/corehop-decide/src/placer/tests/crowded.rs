// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of kept placements whose CPUs other threads begin to use.

use super::*;

/// Two pairs that were each placed on one CPU, and the CPU of the first pair.
fn kept() -> (Pairs, Placer, CpuList) {
    let terrain = two_caches(4);
    let mut host = Pairs::new(2, 3.0, &terrain, 4);
    let mut placer = Placer::new(may_move(), terrain);
    host.run(&mut placer, 250);
    let cpu = host.allowed[&host.tids[0]].clone();
    assert_eq!(cpu.len(), 1);
    (host, placer, cpu)
}

#[test]
fn a_pair_whose_cpu_others_have_come_to_is_tried_elsewhere_within_a_second_and_stays_there() {
    let (mut host, mut placer, cpu) = kept();
    host.company = Some(cpu.clone());
    let steps = host.run(&mut placer, 40);
    let tried = steps.iter().position(|(_, actions)| matches!(actions[..], [Action::Try(_), ..]));
    assert!(tried.is_some_and(|at| at < 10), "{tried:?}");
    assert!(
        matches!(verdicts(&steps)[..], [(TrialVerdict::Better(_), true)]),
        "{:?}",
        verdicts(&steps)
    );
    let now: Vec<&CpuList> = host.tids.iter().map(|tid| &host.allowed[tid]).collect();
    assert!(now.iter().all(|it| it.len() == 1 && **it != cpu), "{now:?}");
    assert!(now[0] == now[1] && now[2] == now[3], "{now:?}");
    // There, no company has come.
    assert!(host.run(&mut placer, 100).iter().all(|(_, actions)| actions.is_empty()));
}

#[test]
fn a_pair_without_company_is_left_where_it_is() {
    let (mut host, mut placer, _) = kept();
    let steps = host.run(&mut placer, 300);
    assert!(steps.iter().all(|(_, actions)| actions.is_empty()));
}

#[test]
fn a_trial_that_told_nothing_is_repeated_soon_and_one_that_did_is_not() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(2, 3.0, &terrain, 4);
    let mut placer = Placer::new(may_move(), terrain);
    // Progress cannot be read in a whole trial.
    let mut tries = 0;
    for window in 0..140 {
        let mut activity = host.window();
        if (8..60).contains(&window) {
            activity.progress = None;
        }
        let actions = placer.step(&activity);
        tries += actions.iter().filter(|it| matches!(it, Action::Try(_))).count();
        host.obey(&actions);
    }
    assert_eq!(tries, 2);
}
