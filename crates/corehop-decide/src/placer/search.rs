// SPDX-License-Identifier: MIT OR Apache-2.0
//! Placements without a predicted gain: for threads that were seen using common data, or for all busy threads.
//!
//! A sampling source shows which threads share data, but not how often. So nothing predicts whether a common CPU,
//! inner cache or last-level cache helps, and each is tried.

use std::collections::BTreeMap;

use super::terrain::Terrain;
use corehop_plan::host::{ActiveThread, Activity, Move};
use corehop_plan::units::{Bytes, CpuList};
use corehop_stats::contacts::Tie;

/// The share of a CPU that a thread must use to be worth a trial.
pub(super) const BUSY: f64 = 0.3;
/// The largest number of threads for which pairs are tried, because more would take too long.
const MOST_PAIRED: usize = 16;
/// The certainty that a tie needs to join threads into a group.
const SURE: f64 = 0.5;

/// A thread that may be placed in a trial, with the CPUs that it may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct MoveCandidate<'a> {
    pub(super) thread: &'a ActiveThread,
    pub(super) home: &'a CpuList,
}

/// The busy threads of a window that may be placed.
pub(super) fn busy<'a>(
    activity: &'a Activity,
    home: impl Fn(&'a ActiveThread) -> Option<&'a CpuList>,
) -> Vec<MoveCandidate<'a>> {
    let busy = |it: &&ActiveThread| it.busy_ns as f64 >= BUSY * activity.span_ns as f64;
    let threads = activity.threads.iter().filter(busy);
    threads.filter_map(|thread| Some(MoveCandidate { thread, home: home(thread)? })).collect()
}

/// Busy threads that were seen using common data, in groups of at most `most` threads; the most certain and strongest
/// ties join first.
pub(super) fn groups<'a>(
    busy: &[MoveCandidate<'a>],
    ties: &[Tie],
    most: usize,
) -> Vec<Vec<MoveCandidate<'a>>> {
    let mut group: BTreeMap<u32, usize> =
        busy.iter().enumerate().map(|(at, it)| (it.thread.tid, at)).collect();
    let mut ties: Vec<&Tie> =
        ties.iter().filter(|it| it.lines_at_least > 0.0 && it.confidence >= SURE).collect();
    ties.sort_by(|x, y| {
        y.lines_at_least.total_cmp(&x.lines_at_least).then((x.a, x.b).cmp(&(y.a, y.b)))
    });
    for tie in ties {
        let (Some(&a), Some(&b)) = (group.get(&tie.a), group.get(&tie.b)) else { continue };
        let size = group.values().filter(|&&it| it == a || it == b).count();
        if a != b && size <= most {
            group.values_mut().filter(|it| **it == b).for_each(|it| *it = a);
        }
    }
    let mut groups: BTreeMap<usize, Vec<MoveCandidate<'_>>> = BTreeMap::new();
    for it in busy {
        groups.entry(group[&it.thread.tid]).or_default().push(*it);
    }
    groups.into_values().filter(|it| it.len() > 1).collect()
}

/// All rounds of a tournament: each round pairs the threads, and every pair of threads occurs once. The first thread
/// stays and the others rotate. With an odd number of threads, one thread pauses in each round. The list is empty for
/// more than [`MOST_PAIRED`] threads.
fn pairings<'a>(threads: &[MoveCandidate<'a>]) -> Vec<Vec<Vec<MoveCandidate<'a>>>> {
    let seats = threads.len().next_multiple_of(2);
    if !(3..=MOST_PAIRED).contains(&threads.len()) {
        return Vec::new();
    }
    let round = |round: usize| {
        let seat = |at: usize| if at == 0 { 0 } else { 1 + (at - 1 + round) % (seats - 1) };
        let pair = |at: usize| {
            let both = [seat(at), seat(seats - 1 - at)].map(|it| threads.get(it));
            both.into_iter().flatten().copied().collect::<Vec<_>>()
        };
        (0..seats / 2).map(pair).filter(|it| it.len() == 2).collect()
    };
    (0..seats - 1).map(round).collect()
}

/// The groupings to try, in order. Threads that were seen using common data form their groups. Other threads are
/// tried all together, and then in pairs.
pub(super) fn groupings<'a>(
    busy: &[MoveCandidate<'a>],
    ties: &[Tie],
    most: usize,
) -> Vec<Vec<Vec<MoveCandidate<'a>>>> {
    let seen = groups(busy, ties, most);
    if !seen.is_empty() {
        return vec![seen];
    }
    let mut all = vec![vec![busy.to_vec()]];
    all.extend(pairings(busy));
    all
}

/// The CPUs that a group may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CandidateCpus {
    pub(super) cpus: CpuList,
    /// The size of the last-level cache, if the group gets the CPUs of one.
    size: Option<Bytes>,
}

/// The places to try for groups: single CPUs, inner caches and last-level caches, as one list each.
pub(super) fn kinds(terrain: &Terrain) -> [Vec<CandidateCpus>; 3] {
    let place = |cpus: &CpuList| CandidateCpus { cpus: cpus.clone(), size: None };
    let single = |cpu| place(&CpuList::new([cpu]));
    // Cache after cache in turns, so that groups on single CPUs do not crowd one cache.
    let caches: Vec<Vec<CandidateCpus>> =
        terrain.caches().iter().map(|it| it.iter().map(single).collect()).collect();
    let longest = caches.iter().map(Vec::len).max().unwrap_or(0);
    let in_turns = (0..longest).flat_map(|at| caches.iter().filter_map(move |it| it.get(at)));
    let several = terrain.caches().len() > 1;
    let sized = |(at, cpus)| CandidateCpus { size: terrain.size(at), ..place(cpus) };
    let last = terrain.caches().iter().enumerate().filter(|_| several).map(sized);
    let inner = terrain.inner().iter().map(place);
    [in_turns.cloned().collect(), inner.collect(), last.collect()]
}

/// The threads of the moves, grouped by their target CPUs.
pub(super) fn by_cpus(moves: &[Move]) -> BTreeMap<&CpuList, Vec<u32>> {
    let mut groups: BTreeMap<&CpuList, Vec<u32>> = BTreeMap::new();
    for it in moves {
        groups.entry(&it.cpus).or_default().push(it.tid);
    }
    groups
}

/// The groups moved to other places of the same kind, each to a place that no group has now; `None` if there are too
/// few places that all threads of a group may use.
pub(super) fn elsewhere<'a>(
    moves: &[Move],
    terrain: &Terrain,
    home: impl Fn(u32) -> Option<&'a CpuList>,
) -> Option<Vec<Move>> {
    let groups = by_cpus(moves);
    let among = |places: &Vec<CandidateCpus>| {
        groups.keys().all(|it| places.iter().any(|at| at.cpus == **it))
    };
    let places = kinds(terrain).into_iter().find(among)?;
    let mut free: Vec<&CandidateCpus> =
        places.iter().filter(|it| !groups.contains_key(&it.cpus)).collect();
    let mut all = Vec::new();
    for tids in groups.values() {
        let may = |at: &&CandidateCpus| {
            tids.iter().all(|&tid| home(tid).is_some_and(|it| at.cpus.is_within(it)))
        };
        let at = free.remove(free.iter().position(may)?);
        all.extend(tids.iter().map(|&tid| Move { tid, cpus: at.cpus.clone() }));
    }
    all.sort_by_key(|it| it.tid);
    (!all.is_empty()).then_some(all)
}

/// Gives each group a place of its own while places remain; `None` if a group's threads or data do not fit, or its
/// threads may not use the place.
pub(super) fn deal(
    groups: &[Vec<MoveCandidate<'_>>],
    places: &[CandidateCpus],
) -> Option<Vec<Move>> {
    let mut taken = vec![(0_usize, 0_u64); places.len()];
    let mut moves = Vec::new();
    for group in groups {
        // On one CPU they take turns, as many as they are; elsewhere each has a CPU.
        let room = |at: usize| match places[at].cpus.len() {
            1 => usize::from(taken[at].0 == 0) * group.len(),
            cpus => cpus - taken[at].0.min(cpus),
        };
        let bytes: u64 = group.iter().filter_map(|it| it.thread.working_set).sum();
        let holds = |at: usize| places[at].size.is_none_or(|it| taken[at].1 + bytes <= it.get());
        let all_may =
            |at: usize| group.iter().all(|it| !it.home.intersection(&places[at].cpus).is_empty());
        let fits = |&at: &usize| room(at) >= group.len() && holds(at) && all_may(at);
        let at = (0..places.len()).filter(fits).min_by_key(|&at| (taken[at].0, at))?;
        taken[at] = (taken[at].0 + group.len(), taken[at].1 + bytes);
        let to = |it: &MoveCandidate<'_>| Move {
            tid: it.thread.tid,
            cpus: it.home.intersection(&places[at].cpus),
        };
        moves.extend(group.iter().map(to));
    }
    moves.sort_by_key(|it| it.tid);
    (!moves.is_empty()).then_some(moves)
}

/// Groups of threads with their CPUs, which identify a proposal.
pub(super) type ProposalKey = Vec<(Vec<u32>, CpuList)>;

/// The key of a proposal with these moves.
pub(super) fn key(moves: &[Move]) -> ProposalKey {
    by_cpus(moves).into_iter().map(|(cpus, tids)| (tids, cpus.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::terrain::tests::{COSTS, list};
    use super::*;

    fn threads(tids: &[u32]) -> Activity {
        let thread = |&tid: &u32| ActiveThread { tid, busy_ns: 90, ..ActiveThread::default() };
        let threads = tids.iter().map(thread).collect();
        Activity { span_ns: 100, threads, ..Activity::default() }
    }

    fn tie(a: u32, b: u32, lines_at_least: f64, confidence: f64) -> Tie {
        Tie { a, b, per_second: 0.0, at_least: 0.0, lines_at_least, confidence }
    }

    fn grouped(tids: &[u32], ties: &[Tie], most: usize) -> Vec<Vec<u32>> {
        let (activity, home) = (threads(tids), list("0-3"));
        let groups = groups(&busy(&activity, |_| Some(&home)), ties, most);
        groups.iter().map(|it| it.iter().map(|it| it.thread.tid).collect()).collect()
    }

    #[test]
    fn sure_ties_join_threads_the_strongest_first_and_no_group_grows_beyond_its_bound() {
        let ties = [tie(1, 4, 50.0, 0.9), tie(2, 3, 60.0, 0.9), tie(3, 4, 5.0, 0.9)];
        assert_eq!(grouped(&[1, 2, 3, 4, 5], &ties, 2), [vec![1, 4], vec![2, 3]]);
        assert_eq!(grouped(&[1, 2, 3, 4, 5], &ties, 4), [vec![1, 2, 3, 4]]);
        // One that was hardly seen, and one that wakes alone.
        assert!(grouped(&[1, 2], &[tie(1, 2, 9.0, 0.2), tie(1, 2, 0.0, 0.9)], 4).is_empty());
    }

    #[test]
    fn groups_get_regions_of_their_own_that_all_of_them_may_use() {
        let terrain = Terrain::new(&[list("0-1"), list("2-3")], COSTS);
        let [single, inner, last] = kinds(&terrain);
        let cpus =
            |places: &[CandidateCpus]| places.iter().map(|it| it.cpus.clone()).collect::<Vec<_>>();
        assert_eq!(cpus(&single), ["0", "2", "1", "3"].map(list));
        assert!(inner.is_empty() && cpus(&last) == [list("0-1"), list("2-3")]);
        let (activity, home) = (threads(&[1, 2, 3, 4]), list("2-3"));
        let all = busy(&activity, |it| Some(if it.tid < 3 { &home } else { terrain.cpus() }));
        let moved = |groups: &[Vec<MoveCandidate<'_>>], places: &[CandidateCpus]| {
            let moves = deal(groups, places)?;
            Some(moves.into_iter().map(|it| (it.tid, it.cpus.to_string())).collect::<Vec<_>>())
        };
        let pairs = [all[..2].to_vec(), all[2..].to_vec()];
        let to =
            |cpus: [&str; 4]| (1..).zip(cpus.map(str::to_owned)).collect::<Vec<(u32, String)>>();
        assert_eq!(moved(&pairs, &last), Some(to(["2-3", "2-3", "0-1", "0-1"])));
        assert_eq!(moved(&pairs, &single), Some(to(["2", "2", "0", "0"])));
        assert_eq!(moved(std::slice::from_ref(&all), &last), None);
    }

    #[test]
    fn groups_that_have_company_go_to_free_places_of_the_same_kind_that_they_may_use() {
        let terrain = Terrain::new(&[list("0-1"), list("2-3")], COSTS);
        let to = |cpus: [&str; 2]| -> Vec<Move> {
            (1..).zip(cpus).map(|(tid, cpus)| Move { tid, cpus: list(cpus) }).collect()
        };
        let home = list("0-3");
        let moved = |cpus| elsewhere(&to(cpus), &terrain, |_| Some(&home));
        assert_eq!(moved(["0", "0"]), Some(to(["2", "2"])));
        assert_eq!(moved(["0", "2"]), Some(to(["1", "3"])));
        assert_eq!(moved(["0-1", "0-1"]), Some(to(["2-3", "2-3"])));
        // Both caches are taken, and one thread may not leave its own.
        assert_eq!(moved(["0-1", "2-3"]), None);
        let narrow = list("0-1");
        assert_eq!(elsewhere(&to(["0-1", "0-1"]), &terrain, |_| Some(&narrow)), None);
    }

    #[test]
    fn in_a_tournament_every_two_threads_are_a_pair_once() {
        for count in 3..=MOST_PAIRED as u32 {
            let tids: Vec<u32> = (1..=count).collect();
            let (activity, home) = (threads(&tids), list("0-3"));
            let busy = busy(&activity, |_| Some(&home));
            let mut pairs = Vec::new();
            for round in pairings(&busy) {
                let mut met: Vec<u32> = round.iter().flatten().map(|it| it.thread.tid).collect();
                met.sort_unstable();
                met.dedup();
                assert_eq!(met.len(), 2 * (count as usize / 2), "{count}");
                let of = |pair: &Vec<MoveCandidate<'_>>| {
                    let [a, b] = [pair[0], pair[1]].map(|it| it.thread.tid);
                    (a.min(b), a.max(b))
                };
                pairs.extend(round.iter().map(of));
            }
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len() as u32, count * (count - 1) / 2, "{count}");
        }
        let (activity, home) = (threads(&[1, 2]), list("0-3"));
        assert!(pairings(&busy(&activity, |_| Some(&home))).is_empty());
    }
}
