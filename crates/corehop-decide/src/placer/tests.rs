// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the placer against all placements of small machines, and against hosts with known pairs.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::assign::{Bond, Crowd, CrowdMember, ThreadCluster, assign, saved};
use super::settings::Settings;
use super::step::{Action, Placer};
use super::terrain::Terrain;
use super::terrain::tests::{COSTS, LINES, list};
use super::trial::TrialVerdict;
use corehop_plan::host::{ActiveThread, Activity, Contact, DataSharing, Evidence};
use corehop_plan::units::{Cpu, CpuList};

mod crowded;
mod observed;
mod replayed;
mod searched;

fn two_caches(cpus_each: u32) -> Terrain {
    let group = |from: u32| CpuList::new((from..from + cpus_each).map(Cpu));
    Terrain::new(&[group(0), group(cpus_each)], COSTS)
}

fn free(busy: &[f64], bonds: &[(usize, usize, f64)], terrain: &Terrain) -> Crowd {
    let bond = |&(a, b, per_second): &(usize, usize, f64)| Bond {
        a,
        b,
        wakes: per_second,
        lines: 0.0,
        ran: None,
    };
    Crowd {
        lists: vec![terrain.cpus().clone()],
        members: busy.iter().map(|&busy| CrowdMember { busy, bytes: 0.0, list: 0 }).collect(),
        bonds: bonds.iter().map(bond).collect(),
    }
}

#[test]
fn threads_that_fit_onto_one_cpu_and_wake_each_other_share_it() {
    let terrain = two_caches(2);
    let crowd = free(&[0.4, 0.4, 0.4, 0.4], &[(0, 2, 1e4), (1, 3, 1e4)], &terrain);
    let placement = assign(&crowd, &terrain);
    let [x, y] = placement.placed.try_into().unwrap();
    assert_eq!((&x.members[..], &y.members[..]), (&[0, 2][..], &[1, 3][..]));
    assert!(x.cpus.len() == 1 && y.cpus.len() == 1 && x.cpus != y.cpus);
}

#[test]
fn busy_threads_that_wake_each_other_share_a_cache_and_keep_a_cpu_each() {
    let terrain = two_caches(4);
    let bonds = [(0, 1, 1e4), (2, 3, 1e4), (0, 2, 10.0)];
    let crowd = free(&[0.9; 4], &bonds, &terrain);
    let placement = assign(&crowd, &terrain);
    let place = |member: usize| {
        placement.placed.iter().find(|it| it.members.contains(&member)).map(|it| it.cpus.clone())
    };
    assert_eq!(place(0), place(1));
    assert_eq!(place(2), place(3));
    assert!(placement.placed.iter().all(|it| it.cpus.len() == 4), "{placement:?}");
}

#[test]
fn threads_without_ties_are_left_alone_and_so_are_those_with_weak_ones() {
    let terrain = two_caches(2);
    assert!(assign(&free(&[0.9; 4], &[], &terrain), &terrain).placed.is_empty());
    assert!(assign(&free(&[0.9; 4], &[(0, 1, 3.0)], &terrain), &terrain).placed.is_empty());
}

#[test]
fn no_thread_is_placed_outside_of_what_it_may_use() {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    for _ in 0..2_000 {
        let terrain = two_caches(random.random_range(1..4));
        let all: Vec<Cpu> = terrain.cpus().iter().collect();
        let some = |random: &mut Pcg64Mcg| {
            let some = all.iter().copied().filter(|_| random.random_bool(0.6)).collect::<Vec<_>>();
            CpuList::new(if some.is_empty() { all.clone() } else { some })
        };
        let lists: Vec<CpuList> = (0..3).map(|_| some(&mut random)).collect();
        let members = (0..6).map(|_| CrowdMember {
            busy: random.random_range(0.0..1.0),
            bytes: 0.0,
            list: random.random_range(0..3),
        });
        let members: Vec<CrowdMember> = members.collect();
        let bonds = (0..8).map(|_| {
            let (a, b) = (random.random_range(0..6), random.random_range(0..6));
            Bond { a, b, wakes: random.random_range(0.0..1e5), lines: 0.0, ran: None }
        });
        let bonds = bonds.filter(|it| it.a != it.b).collect();
        let crowd = Crowd { lists, members, bonds };
        let placement = assign(&crowd, &terrain);
        for it in &placement.placed {
            for &member in &it.members {
                let may = &crowd.lists[crowd.members[member].list];
                assert_eq!(it.cpus.intersection(may), it.cpus, "{crowd:?} {placement:?}");
            }
        }
    }
}

/// Iterates over all placements of threads on single CPUs of equal caches. Only the first of several empty CPUs or
/// empty caches is tried, because empty ones are equivalent.
struct AllPlacements<'a> {
    crowd: &'a Crowd,
    terrain: &'a Terrain,
    places: Vec<Cpu>,
    best: f64,
}

impl AllPlacements<'_> {
    /// The largest saving of any placement that keeps CPUs within the placer's limit.
    fn best(crowd: &Crowd, terrain: &Terrain) -> f64 {
        let mut all = AllPlacements { crowd, terrain, places: Vec::new(), best: 0.0 };
        all.go_on();
        all.best
    }

    fn load(&self, on: impl Fn(Cpu) -> bool) -> f64 {
        let here = self.places.iter().zip(&self.crowd.members).filter(|(cpu, _)| on(**cpu));
        here.map(|(_, member)| member.busy).sum()
    }

    fn fits(&self, cpu: Cpu) -> bool {
        let cache = self.terrain.cache_of(cpu).unwrap();
        let room = 0.9 * self.terrain.caches()[cache].len() as f64;
        self.load(|it| it == cpu) <= 1.05
            && self.load(|it| self.terrain.cache_of(it) == Some(cache)) <= room
    }

    fn go_on(&mut self) {
        if self.places.len() == self.crowd.members.len() {
            let placed = self.places.iter().enumerate();
            let placed: Vec<ThreadCluster> = placed
                .map(|(member, &cpu)| ThreadCluster {
                    members: vec![member],
                    cpus: CpuList::new([cpu]),
                })
                .collect();
            self.best = self.best.max(saved(self.crowd, self.terrain, &placed));
            return;
        }
        for cache in self.terrain.caches() {
            let is_new = !self.places.iter().any(|&it| cache.contains(it));
            for cpu in cache.iter() {
                let taken = self.places.contains(&cpu);
                self.places.push(cpu);
                if self.fits(cpu) {
                    self.go_on();
                }
                self.places.pop();
                if !taken {
                    break;
                }
            }
            if is_new {
                break;
            }
        }
    }
}

/// The placer's saving as a share of the best placement's saving, averaged over several sets of threads.
fn share_of_best(terrain: &Terrain, threads: usize, sets: usize, seed: u64) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (mut shares, mut done) = (0.0, 0);
    while done < sets {
        let busy: Vec<f64> = (0..threads).map(|_| random.random_range(0.05..0.6)).collect();
        let bonds = (0..threads).map(|_| {
            let (a, b) = (random.random_range(0..threads), random.random_range(0..threads));
            (a, b, random.random_range(0.0..4e4))
        });
        let bonds: Vec<(usize, usize, f64)> = bonds.filter(|(a, b, _)| a != b).collect();
        let crowd = free(&busy, &bonds, terrain);
        let best = AllPlacements::best(&crowd, terrain);
        if best <= 0.0 {
            continue;
        }
        let share = assign(&crowd, terrain).saved / best;
        assert!(share >= 0.0, "{crowd:?}");
        shares += share.min(1.0);
        done += 1;
    }
    shares / sets as f64
}

#[test]
fn nine_tenths_of_what_the_best_of_all_placements_saves_are_saved_on_the_mean() {
    let four_caches = Terrain::new(&["0-1", "2-3", "4-5", "6-7"].map(list), COSTS);
    for (terrain, threads, sets) in [
        (two_caches(2), 6, 100),
        (two_caches(4), 7, 20),
        (two_caches(4), 8, 5),
        (four_caches, 8, 5),
    ] {
        let mean = share_of_best(&terrain, threads, sets, 11);
        assert!(mean >= 0.9, "{threads} threads on {:?}: {mean}", terrain.caches());
    }
}

/// Pairs of threads that wake each other. A pair's progress is multiplied by `gain` if both threads are on one CPU.
struct Pairs {
    tids: Vec<u32>,
    /// The progress of a pair that shares a CPU, divided by the progress of a pair that does not.
    gain: f64,
    allowed: BTreeMap<u32, CpuList>,
    home: CpuList,
    progress: f64,
    /// CPUs on which other threads run: threads there wait, and are a quarter as fast.
    company: Option<CpuList>,
    random: Pcg64Mcg,
}

impl Pairs {
    fn new(pairs: usize, gain: f64, terrain: &Terrain, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut tids: Vec<u32> = Vec::new();
        while tids.len() < 2 * pairs {
            let tid = random.random_range(100..30_000);
            if !tids.contains(&tid) {
                tids.push(tid);
            }
        }
        let home = terrain.cpus().clone();
        let allowed = tids.iter().map(|&tid| (tid, home.clone())).collect();
        Self { tids, gain, allowed, home, progress: 0.0, company: None, random }
    }

    fn partners(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.tids.chunks(2).map(|pair| (pair[0], pair[1]))
    }

    fn window(&mut self) -> Activity {
        let together = |(a, b): (u32, u32)| {
            self.allowed[&a] == self.allowed[&b] && self.allowed[&a].len() == 1
        };
        let crowded = |tid: u32| self.company.as_ref() == Some(&self.allowed[&tid]);
        let rate = |it: (u32, u32)| {
            let rate = if together(it) { self.gain } else { 1.0 };
            if crowded(it.0) { rate / 4.0 } else { rate }
        };
        let rates: Vec<f64> = self.partners().map(rate).collect();
        let noise = 1.0 + 0.05 * self.random.random_range(-1.0..1.0);
        self.progress += rates.iter().sum::<f64>() * 100.0 * noise;
        let contacts = self.partners().flat_map(|(a, b)| {
            [(a, b), (b, a)].map(|(waker, woken)| Contact { waker, woken, count: 500 })
        });
        let active = |&tid: &u32| ActiveThread {
            tid,
            pid: 1,
            name: format!("thread {tid}"),
            busy_ns: 40_000_000,
            waited_ns: if crowded(tid) { 60_000_000 } else { 4_000_000 },
            allowed: self.allowed[&tid].clone(),
            ..ActiveThread::default()
        };
        Activity {
            span_ns: 100_000_000,
            threads: self.tids.iter().map(active).collect(),
            contacts: contacts.collect(),
            progress: Some(self.progress),
            ..Activity::default()
        }
    }

    fn obey(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                Action::Place { moves } => moves.iter().for_each(|moved| {
                    self.allowed.insert(moved.tid, moved.cpus.clone());
                }),
                Action::Restore => {
                    let home = &self.home;
                    self.allowed.values_mut().for_each(|it| *it = home.clone());
                }
                _ => {}
            }
        }
    }

    /// Runs the placer for `windows` windows; returns all windows with the actions.
    fn run(&mut self, placer: &mut Placer, windows: usize) -> Vec<(Activity, Vec<Action>)> {
        let mut all = Vec::new();
        for _ in 0..windows {
            let window = self.window();
            let actions = placer.step(&window);
            self.obey(&actions);
            all.push((window, actions));
        }
        all
    }
}

fn may_move() -> Settings {
    Settings { may_move: true, ..Settings::default() }
}

fn verdicts(steps: &[(Activity, Vec<Action>)]) -> Vec<(TrialVerdict, bool)> {
    let judged = |action: &Action| match action {
        Action::Judge { verdict, kept } => Some((*verdict, *kept)),
        _ => None,
    };
    steps.iter().flat_map(|(_, actions)| actions.iter().filter_map(judged)).collect()
}

/// A window of a host whose pairs share data and wake no thread, as page sampling observes.
fn without_wake_ups(mut window: Activity, pairs: &[(u32, u32)]) -> Activity {
    window.contacts.clear();
    let seen = |&(a, b): &(u32, u32)| DataSharing {
        a: a.min(b),
        b: a.max(b),
        by: Evidence::Pages,
        seen: 20,
        per_second: 200.0,
    };
    window.shared = pairs.iter().map(seen).collect();
    window
}

#[test]
fn pairs_that_gain_together_are_found_placed_and_kept_whatever_their_numbers() {
    for seed in 0..20 {
        let terrain = two_caches(4);
        let mut host = Pairs::new(4, 3.0, &terrain, seed);
        let mut placer = Placer::new(may_move(), terrain);
        let steps = host.run(&mut placer, 60);
        let [(TrialVerdict::Better(outcome), true)] = verdicts(&steps)[..] else {
            panic!("seed {seed}")
        };
        assert!((2.5..3.5).contains(&outcome.ratio), "{outcome:?}");
        for (a, b) in host.partners() {
            assert!(host.allowed[&a].len() == 1 && host.allowed[&a] == host.allowed[&b]);
        }
        // What has been decided is not decided again.
        assert!(host.run(&mut placer, 200).iter().all(|(_, actions)| actions.is_empty()));
    }
}

#[test]
fn a_placement_that_loses_is_taken_back_and_not_tried_again_for_a_minute() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(3, 0.7, &terrain, 3);
    let mut placer = Placer::new(may_move(), terrain);
    let steps = host.run(&mut placer, 500);
    assert!(
        matches!(verdicts(&steps)[..], [(TrialVerdict::Worse(_), false)]),
        "{:?}",
        verdicts(&steps)
    );
    assert!(host.allowed.values().all(|it| *it == host.home));
    let later = host.run(&mut placer, 200);
    assert!(matches!(verdicts(&later)[..], [(TrialVerdict::Worse(_), false)]));
}

#[test]
fn a_placement_that_changes_nothing_is_taken_back() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(3, 1.0, &terrain, 3);
    let mut placer = Placer::new(may_move(), terrain);
    let steps = host.run(&mut placer, 120);
    assert!(
        matches!(verdicts(&steps)[..], [(TrialVerdict::Same(_), false)]),
        "{:?}",
        verdicts(&steps)
    );
    assert!(host.allowed.values().all(|it| *it == host.home));
}

#[test]
fn without_the_right_to_move_it_advises_once_and_moves_nothing() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(3, 3.0, &terrain, 3);
    let mut placer = Placer::new(Settings { may_move: false, ..may_move() }, terrain);
    let steps = host.run(&mut placer, 100);
    let actions: Vec<&Action> = steps.iter().flat_map(|(_, actions)| actions).collect();
    assert!(matches!(actions[..], [Action::Advise(_)]), "{actions:?}");
}

#[test]
fn recorded_windows_give_the_same_actions_again() {
    let mut host = Pairs::new(3, 3.0, &two_caches(4), 8);
    let steps = host.run(&mut Placer::new(may_move(), two_caches(4)), 200);
    let mut again = Placer::new(may_move(), two_caches(4));
    for (window, actions) in &steps {
        let text = serde_json::to_string(window).unwrap();
        let window: Activity = serde_json::from_str(&text).unwrap();
        assert_eq!(again.step(&window), *actions);
    }
}

#[test]
fn a_start_that_no_evidence_speaks_for_is_tried_against_leaving_alone_and_put_back_where_it_is_worse()
 {
    let terrain = two_caches(1);
    for (worse, stays) in [(0.5, false), (2.0, true)] {
        let mut placer = Placer::new(may_move(), terrain.clone());
        let (mut moved, mut progress, mut verdicts) = (false, 0.0, Vec::new());
        for window in 0..200 {
            let allowed = |tid| placer.placed().get(&tid).unwrap_or(terrain.cpus()).clone();
            let thread = |tid| ActiveThread {
                tid,
                pid: 1,
                allowed: allowed(tid),
                ..ActiveThread::default()
            };
            progress += if moved { worse } else { 1.0 };
            let activity = Activity {
                span_ns: 100_000_000,
                threads: [1, 2].map(thread).to_vec(),
                progress: Some(progress),
                ..Activity::default()
            };
            let mut actions = placer.step(&activity);
            if window == 0 {
                actions.extend(placer.start(&"0".parse().unwrap(), &activity));
            }
            for it in actions {
                match it {
                    Action::Place { .. } => moved = true,
                    Action::Restore => moved = false,
                    Action::Judge { kept, .. } => verdicts.push(kept),
                    _ => {}
                }
            }
        }
        assert_eq!((verdicts, moved), (vec![stays], stays));
    }
}

#[test]
fn a_thread_that_chooses_its_own_cpus_is_left_alone_from_then_on() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(3, 3.0, &terrain, 4);
    let mut placer = Placer::new(may_move(), terrain);
    host.run(&mut placer, 60);
    let tid = host.tids[0];
    host.allowed.insert(tid, list("3"));
    let later = host.run(&mut placer, 200);
    let moved = later.iter().flat_map(|(_, actions)| actions).any(|action| match action {
        Action::Place { moves } => moves.iter().any(|it| it.tid == tid),
        _ => false,
    });
    assert!(!moved);
    assert!(!placer.placed().contains_key(&tid));
}

#[test]
fn moves_that_the_host_refuses_end_the_trial() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(3, 3.0, &terrain, 4);
    let mut placer = Placer::new(may_move(), terrain);
    let mut places = 0;
    for _ in 0..200 {
        let window = host.window();
        let actions = placer.step(&window);
        if actions.iter().any(|it| matches!(it, Action::Place { .. })) {
            places += 1;
            placer.refused();
        }
    }
    assert_eq!(places, 1);
}

#[test]
fn four_pairs_that_were_kept_on_one_cpu_each_go_on_to_two_cpus_each_below_a_cache_where_that_is_better()
 {
    let terrain = two_caches(4);
    let mut host = Pairs::new(4, 1.0, &terrain, 12);
    let pairs: Vec<(u32, u32)> = host.partners().collect();
    let mut placer = Placer::new(may_move(), terrain);
    let mut progress = 0.0;
    for _ in 0..200 {
        let mut window = without_wake_ups(host.window(), &pairs);
        let gain = |(a, b): &(u32, u32)| match (&host.allowed[a], &host.allowed[b]) {
            (a, b) if a != b || a.len() == 8 => 1.0,
            (a, _) if a.len() == 1 => 1.4,
            _ => 2.0,
        };
        progress += pairs.iter().map(gain).sum::<f64>();
        window.progress = Some(progress);
        // The kernel keeps the two of a pair below two caches, and below one cache on two CPUs.
        for (at, it) in window.threads.iter_mut().enumerate() {
            let cpu = if it.allowed.len() == 8 { at % 2 * 4 + at / 2 } else { at % 4 };
            it.cpu = it.allowed.iter().nth(cpu % it.allowed.len());
        }
        host.obey(&placer.step(&window));
    }
    for (a, b) in pairs {
        assert!(host.allowed[&a].len() == 4 && host.allowed[&a] == host.allowed[&b], "{a}, {b}");
    }
}

#[test]
fn a_placement_that_does_not_pay_any_more_is_tried_anew_and_taken_back() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(2, 3.0, &terrain, 4);
    let mut placer = Placer::new(may_move(), terrain);
    host.run(&mut placer, 250);
    assert!(host.allowed.values().all(|it| it.len() == 1));
    // From now on a pair is a fifth as fast on one CPU.
    host.gain = 0.2;
    let steps = host.run(&mut placer, 100);
    assert!(
        matches!(verdicts(&steps)[..], [(TrialVerdict::Worse(_), false)]),
        "{:?}",
        verdicts(&steps)
    );
    assert!(host.allowed.values().all(|it| *it == host.home));
}

#[test]
fn nothing_is_tried_in_time_that_is_left_for_no_trial() {
    let terrain = two_caches(4);
    let mut host = Pairs::new(2, 3.0, &terrain, 4);
    let settings = Settings { ends_after_s: Some(2.5), ..may_move() };
    let steps = host.run(&mut Placer::new(settings, terrain), 25);
    assert!(steps.iter().all(|(_, actions)| actions.is_empty()));
}

#[test]
fn a_cache_is_not_tried_for_threads_whose_data_it_does_not_hold() {
    // 8 MiB below each of two caches.
    let platform = corehop_plan::platform::Platform::named("xeon_e5520").unwrap().unwrap();
    let tried = |bytes: Option<u64>| {
        let terrain = Terrain::of(&platform, COSTS).with_lines(LINES);
        let mut host = Pairs::new(1, 0.6, &terrain, 12);
        let pairs: Vec<(u32, u32)> = host.partners().collect();
        let mut placer = Placer::new(may_move(), terrain);
        let mut sizes = Vec::new();
        for _ in 0..300 {
            let mut window = without_wake_ups(host.window(), &pairs);
            window.threads.iter_mut().for_each(|it| it.working_set = bytes);
            let actions = placer.step(&window);
            host.obey(&actions);
            sizes.extend(actions.iter().filter_map(|action| match action {
                Action::Try(it) => Some(it.moves[0].cpus.len()),
                _ => None,
            }));
        }
        sizes
    };
    assert_eq!(tried(None), [1, 4]);
    assert_eq!(tried(Some(3 << 20)), [1, 4]);
    assert_eq!(tried(Some(6 << 20)), [1]);
}
