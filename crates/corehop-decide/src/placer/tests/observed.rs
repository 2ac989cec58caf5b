// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that predictions start from the CPUs on which threads ran, and never exceed what can be
//! saved.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Pairs, may_move, two_caches, verdicts, without_wake_ups};
use crate::placer::assign::{Bond, Crowd, CrowdMember, assign, changes, savable};
use crate::placer::terrain::tests::{COSTS, list};
use crate::placer::terrain::{Ran, Terrain, WakeCosts};
use crate::placer::trial::{TrialVerdict, UndecidedReason};
use crate::placer::{Action, Placer, Proposal, Settings};
use corehop_plan::host::Activity;
use corehop_plan::units::Cpu;

fn one_cache() -> Terrain {
    Terrain::new(&[list("0-1")], COSTS)
}

/// The windows of some pairs whose threads ran on the CPUs that `cpus` returns for a pair and a
/// window.
fn windows(pairs: usize, count: usize, cpus: impl Fn(usize, usize) -> [u32; 2]) -> Vec<Activity> {
    let mut host = Pairs::new(pairs, 1.0, &one_cache(), 3);
    let partners: Vec<(u32, u32)> = host.partners().collect();
    let ran = |tid: u32, at: usize| {
        let pair = partners.iter().position(|(a, b)| [*a, *b].contains(&tid)).unwrap();
        Some(Cpu(cpus(pair, at)[usize::from(partners[pair].1 == tid)]))
    };
    let window = |at: usize| {
        let mut window = host.window();
        window.threads.iter_mut().for_each(|it| it.cpu = ran(it.tid, at));
        window
    };
    (0..count).map(window).collect()
}

/// The placer's advice after these windows.
fn advised(terrain: Terrain, windows: &[Activity]) -> Option<Proposal> {
    let evidence = windows.len() as u32;
    let mut placer = Placer::new(Settings { evidence, ..Settings::default() }, terrain);
    let actions: Vec<Action> = windows.iter().flat_map(|it| placer.step(it)).collect();
    actions.into_iter().find_map(|action| match action {
        Action::Advise(it) => Some(it),
        _ => None,
    })
}

fn saved(cpus: impl Fn(usize, usize) -> [u32; 2]) -> f64 {
    advised(one_cache(), &windows(1, 20, cpus)).map_or(0.0, |it| it.saved.unwrap())
}

#[test]
fn a_pair_that_the_kernel_already_runs_on_one_cpu_gains_nothing_whatever_its_threads_may_use() {
    assert!(saved(|_, _| [0, 1]) > 0.03);
    assert_eq!(advised(one_cache(), &windows(1, 20, |_, _| [1, 1])), None);
    // Both move from one CPU to the other, together.
    assert_eq!(advised(one_cache(), &windows(1, 20, |_, at| [at as u32 % 2; 2])), None);
    // The same with the right to move: nothing is tried.
    let mut placer = Placer::new(may_move(), one_cache());
    let moved = windows(1, 60, |_, _| [0, 0]);
    assert!(moved.iter().all(|it| placer.step(it).is_empty()));
}

#[test]
fn a_pair_that_ran_on_two_cpus_in_half_of_the_looks_gains_half() {
    let all = saved(|_, _| [0, 1]);
    let half = saved(|_, at| [0, at as u32 % 2]);
    assert!((half / all - 0.5).abs() < 1e-9, "{half} of {all}");
}

#[test]
fn wake_ups_are_charged_with_the_distance_at_which_they_were_counted() {
    // On two CPUs a pair wakes a quarter as often: a fifth of all wake-ups, in half of the looks.
    let mut mixed = windows(1, 20, |_, at| [0, at as u32 % 2]);
    for (at, it) in mixed.iter_mut().enumerate() {
        it.contacts.iter_mut().for_each(|it| it.count *= if at % 2 == 0 { 8 } else { 2 });
    }
    let mut even = windows(1, 20, |_, at| [0, at as u32 % 2]);
    let count = mixed.iter().flat_map(|it| &it.contacts).map(|it| it.count).sum::<u64>();
    for it in even.iter_mut().flat_map(|it| &mut it.contacts) {
        it.count = count / 40;
    }
    let saved = |windows: &[Activity]| advised(one_cache(), windows).unwrap().saved.unwrap();
    let (mixed, even) = (saved(&mixed), saved(&even));
    assert!((mixed / even - 0.4).abs() < 0.05, "{mixed} of {even}");
}

#[test]
fn advice_leaves_out_a_pair_that_runs_together_already() {
    let windows = windows(2, 20, |pair, _| [0, u32::from(pair == 1)]);
    let apart: Vec<u32> = {
        let ran = |cpu: u32| windows[0].threads.iter().find(|it| it.cpu == Some(Cpu(cpu)));
        let on_one = ran(1).unwrap().tid;
        let contact = windows[0].contacts.iter().find(|it| it.waker == on_one).unwrap();
        vec![on_one.min(contact.woken), on_one.max(contact.woken)]
    };
    let advice = advised(one_cache(), &windows).unwrap();
    assert_eq!(advice.moves.iter().map(|it| it.tid).collect::<Vec<_>>(), apart);
}

#[test]
fn no_more_is_predicted_than_the_threads_use_beyond_the_best_placement() {
    // 10,000 wake-ups a second of 200 us each are two CPUs; both threads together use 0.8 of one, and need 0.02 on one CPU.
    let costs = WakeCosts { shared_cache_ns: 200_000.0, separate_ns: 200_000.0, ..COSTS };
    let terrain = Terrain::new(&[list("0-1")], costs);
    let advice = advised(terrain, &windows(1, 20, |_, _| [0, 1])).unwrap();
    assert!((0.77..=0.781).contains(&advice.saved.unwrap()), "{advice:?}");
}

#[test]
fn no_prediction_exceeds_the_wake_ups_of_where_threads_ran_the_threads_time_or_the_host() {
    let mut random = Pcg64Mcg::seed_from_u64(9);
    let mut gains = 0;
    for _ in 0..3_000 {
        let terrain = two_caches(random.random_range(1..4));
        let cpus = terrain.cpus().len() as u32;
        let cpu = |random: &mut Pcg64Mcg| Cpu(random.random_range(0..cpus));
        let member = |random: &mut Pcg64Mcg| CrowdMember {
            busy: random.random_range(0.0..0.7),
            bytes: 0.0,
            list: 0,
        };
        let bond = |random: &mut Pcg64Mcg| {
            let looks: Vec<_> = (0..5).map(|_| ([cpu(random), cpu(random)], 1.0)).collect();
            let (a, b) = (random.random_range(0..6), random.random_range(0..6));
            let wakes = random.random_range(0.0..1e5);
            Bond { a, b, wakes, lines: 0.0, ran: terrain.ran(looks.into_iter()) }
        };
        let members: Vec<CrowdMember> = (0..6).map(|_| member(&mut random)).collect();
        let bonds = (0..8).map(|_| bond(&mut random)).filter(|it| it.a != it.b).collect();
        let crowd = Crowd { lists: vec![terrain.cpus().clone()], members, bonds };
        let placement = assign(&crowd, &terrain);
        let gain = savable(&crowd, &terrain, &changes(&crowd, &terrain, &placement.placed));
        let cost = |ran: Ran| ran.shares().zip(terrain.by_distance()).map(|(n, it)| n * it.0).sum();
        let beyond = |it: &Bond| {
            let now: f64 = cost(it.ran.unwrap());
            it.wakes * (now - COSTS.same_cpu_ns) * 1e-9
        };
        let most: f64 = crowd.bonds.iter().map(beyond).sum();
        let used: f64 = crowd.members.iter().map(|it| it.busy).sum();
        let bound = most.min(used).min(f64::from(cpus)) + 1e-9;
        assert!(gain <= bound, "{gain} of {bound}: {crowd:?} {placement:?}");
        gains += usize::from(gain > 0.0);
    }
    assert!(gains > 1_000, "{gains}");
}

#[test]
fn threads_that_share_pages_and_run_on_one_cpu_get_no_advice() {
    let seen = |cpus: [u32; 2]| {
        let mut all = windows(1, 20, |_, _| cpus);
        for it in &mut all {
            let pair = [(it.threads[0].tid, it.threads[1].tid)];
            *it = without_wake_ups(std::mem::take(it), &pair);
        }
        advised(one_cache(), &all)
    };
    assert!(seen([0, 1]).is_some_and(|it| it.seen && it.moves.len() == 2));
    assert_eq!(seen([1, 1]), None);
}

#[test]
fn a_trial_whose_control_is_none_is_called_so() {
    // The kernel has each pair on two CPUs at first, and on one by itself once it was released.
    let terrain = two_caches(4);
    let mut host = Pairs::new(2, 1.0, &terrain, 4);
    let mut placer = Placer::new(may_move(), terrain);
    let mut all = Vec::new();
    for at in 0..120 {
        let mut window = host.window();
        let pairs: Vec<(u32, u32)> = host.partners().collect();
        for it in &mut window.threads {
            let pair = pairs.iter().position(|(a, b)| [*a, *b].contains(&it.tid));
            let apart = usize::from(at < 5 && pairs.iter().any(|(_, b)| *b == it.tid));
            it.cpu = it.allowed.iter().nth((pair.unwrap() + apart) % it.allowed.len());
        }
        let actions = placer.step(&window);
        host.obey(&actions);
        all.push((window, actions));
    }
    let invalid = TrialVerdict::Invalid { why: UndecidedReason::NoControl };
    assert_eq!(verdicts(&all)[0], (invalid, false));
}
