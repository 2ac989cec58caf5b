// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes a program window by window: watch, propose, try, keep or revert, and check again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::InitialPlacement;
use super::assign::{
    Bond, Crowd, CrowdMember, ThreadCluster, assign, changes, gainful, savable, saved,
};
use super::controls::Controls;
use super::crowding::Crowding;
use super::forecast::PlacementForecast;
use super::looks::Looks;
use super::phases::Phases;
use super::regions::Regions;
use super::search::{self, ProposalKey, key};
use super::settings::Settings;
use super::terrain::Terrain;
use super::trial::{Trial, TrialAction, TrialArm, TrialObservation, TrialVerdict};
use corehop_plan::host::{ActiveThread, Activity, Move};
use corehop_plan::units::{Cpu, CpuList};
use corehop_stats::contacts::{ContactGraph, Tie};
use corehop_stats::machine_gain::{MachineGain, PredictedRatio};

/// A placement that may make the program faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The threads, and the CPUs on which they should run.
    pub moves: Vec<Move>,
    /// The CPU time per second that the placement is predicted to save compared with the current placement, in CPUs.
    /// The value is `None` for a placement without a predicted saving.
    pub saved: Option<f64>,
    /// The cost of moving, spread over the time in which the move must pay for itself, in CPUs.
    pub cost: f64,
    /// Whether the threads were seen using common data; relevant only without a predicted saving.
    #[serde(default)]
    pub seen: bool,
    /// The predicted ratio of run times, placed over apart, of the pair that gains least; `None` if neither a ratio nor
    /// a bound is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<PredictedRatio>,
}

impl Proposal {
    /// A proposal for a placement that is already in force: moving costs nothing, and nothing is predicted.
    const fn in_force(moves: Vec<Move>) -> Self {
        Self { moves, saved: None, cost: 0.0, seen: true, ratio: None }
    }
}

/// An action of the placer: a change or a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Reports the placement that the placer would make. No thread is moved.
    Advise(Proposal),
    /// Reports the placement that the placer tries from now on.
    Try(Proposal),
    /// Moves the threads.
    Place {
        /// The threads and their target CPUs.
        moves: Vec<Move>,
    },
    /// Puts all threads back.
    Restore,
    /// Reports the result of a trial, and whether the threads keep the tried placement.
    Judge {
        /// The verdict of the trial.
        verdict: TrialVerdict,
        /// Whether the threads keep their placed CPUs.
        kept: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum PlacerState {
    /// The placer collects evidence; the number of windows so far.
    Watching(u32),
    /// The placer tries a proposal.
    Trying(Box<Attempt>),
}

/// A proposal under trial.
#[derive(Debug, Clone, PartialEq)]
struct Attempt {
    trial: Trial,
    proposal: Proposal,
    controls: Controls,
    /// Whether the threads are held for one window in the state in which the next control begins.
    held: bool,
}

/// The number of windows after which a judged proposal may be tried again; it doubles each time.
const REST: u64 = 600;
/// The number of windows after which a proposal with an inconclusive trial may be tried again, because the kernel may
/// soon run the threads elsewhere.
const SHORT_REST: u64 = 50;
/// The number of windows between two phase checks at first; it doubles each time.
const PHASE: u64 = 100;
/// Outside trials, every n-th window with this n is observed closely.
const CLOSELY: u64 = 10;
/// The share of looks that must show threads together, because the kernel sometimes moves them briefly.
const NEARLY_ALL: f64 = 0.9;
/// The number of windows of the shortest trial with a result.
const SHORTEST_TRIAL: f64 = 24.0;

/// The state of a placer between two windows.
#[derive(Debug, Clone)]
pub struct Placer {
    settings: Settings,
    terrain: Terrain,
    /// The gain of sharing that was fitted on this machine.
    gain: Option<MachineGain>,
    graph: ContactGraph,
    /// The CPUs on which threads ran since they were last placed or put back.
    looks: Looks,
    /// The looks before threads were placed.
    alone: Looks,
    phase: PlacerState,
    /// The currently placed threads, with their CPUs.
    placed: BTreeMap<u32, CpuList>,
    /// The kept placement, from which further trials start.
    kept: Vec<Move>,
    /// The CPUs of threads before they were placed.
    homes: BTreeMap<u32, CpuList>,
    /// Threads that changed their own CPUs after being placed; these are left alone.
    own_way: BTreeSet<u32>,
    /// Judged proposals: the window from which each may be tried again, and the length of its pause.
    judged: HashMap<ProposalKey, (u64, u64)>,
    window: u64,
    /// The observed time, in seconds.
    elapsed_s: f64,
    advised: Option<Proposal>,
    phases: Phases,
    crowding: Crowding,
    /// The window from which a phase change counts, and the length of the pause after it.
    next_phase: (u64, u64),
}

impl Placer {
    /// Creates a placer without observations.
    pub fn new(settings: Settings, terrain: Terrain) -> Self {
        Self {
            graph: ContactGraph::new(settings.half_life_s),
            looks: Looks::default(),
            alone: Looks::default(),
            phase: PlacerState::Watching(0),
            placed: BTreeMap::new(),
            kept: Vec::new(),
            homes: BTreeMap::new(),
            own_way: BTreeSet::new(),
            judged: HashMap::new(),
            window: 0,
            elapsed_s: 0.0,
            advised: None,
            phases: Phases::default(),
            crowding: Crowding::default(),
            next_phase: (PHASE, PHASE),
            gain: None,
            settings,
            terrain,
        }
    }

    /// Sets the gain that was fitted on this machine.
    #[must_use]
    pub fn with_gain(self, gain: Option<MachineGain>) -> Self {
        Self { gain, ..self }
    }

    /// Returns the placed threads with their CPUs.
    pub const fn placed(&self) -> &BTreeMap<u32, CpuList> {
        &self.placed
    }

    /// Gives the threads of a first window their initial placement, which stays until a proposal is tried.
    pub fn start(&mut self, start: &InitialPlacement, activity: &Activity) -> Vec<Action> {
        let moves = start.moves(activity, &self.terrain);
        self.change_to(moves, activity)
    }

    /// Returns whether the next window is observed closely, by measuring the distances of CPUs at its end.
    pub const fn looks_closely(&self) -> bool {
        matches!(self.phase, PlacerState::Trying(_)) || self.window.is_multiple_of(CLOSELY)
    }

    /// Processes one window, and returns the actions to take.
    pub fn step(&mut self, activity: &Activity) -> Vec<Action> {
        self.window += 1;
        self.elapsed_s += activity.span_ns as f64 * 1e-9;
        self.graph.take(activity);
        self.looks.take(activity);
        activity.lines.into_iter().for_each(|it| self.terrain.set_lines(it));
        self.look_at(activity);
        match std::mem::replace(&mut self.phase, PlacerState::Watching(0)) {
            PlacerState::Watching(windows) => self.watch(windows + 1, activity),
            PlacerState::Trying(attempt) => self.go_on(attempt, activity),
        }
    }

    /// Tells the placer that the moves of the last step failed and everything was reverted.
    pub fn refused(&mut self) {
        if let PlacerState::Trying(attempt) =
            std::mem::replace(&mut self.phase, PlacerState::Watching(0))
        {
            self.rest(&attempt.proposal, REST);
        }
        self.placed.clear();
        self.kept.clear();
        self.looks.forget();
    }

    /// Notices threads that ended, threads that changed their own CPUs, and threads that placed threads started.
    fn look_at(&mut self, activity: &Activity) {
        let alive: BTreeSet<u32> = activity.threads.iter().map(|it| it.tid).collect();
        self.placed.retain(|tid, _| alive.contains(tid));
        self.homes.retain(|tid, _| alive.contains(tid));
        self.own_way.retain(|tid| alive.contains(tid));
        let moved = |it: &&ActiveThread| self.placed.get(&it.tid) == Some(&it.allowed);
        let parents: HashMap<(u32, &CpuList), CpuList> = activity
            .threads
            .iter()
            .filter(moved)
            .filter_map(|it| Some(((it.pid, &it.allowed), self.homes.get(&it.tid)?.clone())))
            .collect();
        for it in &activity.threads {
            // A thread has the CPUs of the one that started it.
            let started = !parents.is_empty() && !self.placed.contains_key(&it.tid);
            if let Some(home) = started.then(|| parents.get(&(it.pid, &it.allowed))).flatten() {
                self.homes.insert(it.tid, home.clone());
                self.placed.insert(it.tid, it.allowed.clone());
            }
            let Some(given) = self.placed.get(&it.tid) else { continue };
            if it.allowed != *given {
                self.placed.remove(&it.tid);
                self.own_way.insert(it.tid);
            }
        }
    }

    /// The CPUs that a thread may use when it is not placed.
    fn home<'a>(&'a self, it: &'a ActiveThread) -> &'a CpuList {
        let before = self.homes.get(&it.tid).filter(|_| self.placed.contains_key(&it.tid));
        before.unwrap_or(&it.allowed)
    }

    fn watch(&mut self, windows: u32, activity: &Activity) -> Vec<Action> {
        self.phase = PlacerState::Watching(windows);
        if windows < self.settings.evidence {
            return Vec::new();
        }
        if self.is_another_phase(activity) {
            self.judged.clear();
            if let Some(proposal) = self.kept_anew(activity) {
                return self.attempt(proposal, activity);
            }
        }
        if let Some(proposal) = self.crowded(activity) {
            return self.attempt(proposal, activity);
        }
        let proposed = self.propose(activity).or_else(|| self.guess(activity));
        let Some(proposal) = proposed.or_else(|| self.started()) else { return Vec::new() };
        if !self.settings.may_move || activity.progress.is_none() {
            return self.advise(proposal);
        }
        if self.left_s() < SHORTEST_TRIAL * activity.span_ns as f64 * 1e-9 {
            return Vec::new();
        }
        self.attempt(proposal, activity)
    }

    /// The time until all threads are put back, in seconds.
    fn left_s(&self) -> f64 {
        self.settings.ends_after_s.map_or(f64::INFINITY, |it| (it - self.elapsed_s).max(0.0))
    }

    /// Whether the program, or the distances of CPUs, have changed since the last judgement.
    fn is_another_phase(&mut self, activity: &Activity) -> bool {
        self.phases.take(activity);
        let (from, rest) = self.next_phase;
        let another = self.window >= from && self.phases.changed();
        if another {
            self.next_phase = (self.window + rest, 2 * rest);
            self.phases.judged();
        }
        another
    }

    /// A proposal that compares the kept placement with no placement, which may be better in another phase.
    fn kept_anew(&mut self, activity: &Activity) -> Option<Proposal> {
        let kept = std::mem::take(&mut self.kept);
        let moves = self.alive(&kept, activity);
        let may = self.settings.may_move && activity.progress.is_some();
        (may && !moves.is_empty()).then(|| Proposal::in_force(moves))
    }

    /// The reaction to other threads on the kept placement's CPUs: a proposal to move the group elsewhere, or else a
    /// comparison of the kept placement with no placement.
    fn crowded(&mut self, activity: &Activity) -> Option<Proposal> {
        let may = self.settings.may_move && activity.progress.is_some() && !self.kept.is_empty();
        if !may || !self.crowding.has_come(self.window, activity, &self.placed) {
            return None;
        }
        let kept = self.alive(&self.kept, activity);
        let home = |tid| activity.threads.iter().find(|it| it.tid == tid).map(|it| self.home(it));
        let elsewhere = search::elsewhere(&kept, &self.terrain, home);
        match elsewhere.filter(|moves| self.is_new(moves)) {
            Some(moves) => Some(Proposal { cost: self.cost(&moves), ..Proposal::in_force(moves) }),
            None => self.kept_anew(activity),
        }
    }

    /// Without other evidence, a proposal that compares the initial placement with no placement, which may be better.
    fn started(&self) -> Option<Proposal> {
        let is_start = self.kept.is_empty() && !self.placed.is_empty();
        let moves = || self.placed.iter().map(|(&tid, cpus)| Move { tid, cpus: cpus.clone() });
        (is_start && self.settings.may_move).then(|| Proposal::in_force(moves().collect()))
    }

    /// Begins a trial of a proposal.
    fn attempt(&mut self, proposal: Proposal, activity: &Activity) -> Vec<Action> {
        if self.placed.is_empty() {
            self.alone = self.looks.clone();
        }
        let mut actions = vec![Action::Try(proposal.clone())];
        // A start is nothing that a trial goes on from.
        let before = self.alive(&self.kept, activity);
        if !self.is_in_force(&before) {
            actions.extend(self.change_to(before, activity));
        }
        let controls = Controls::of(&proposal.moves, &self.alone);
        let trial = Trial::begin(activity.progress.unwrap_or_default());
        self.phase =
            PlacerState::Trying(Box::new(Attempt { trial, proposal, controls, held: false }));
        actions
    }

    /// Reports a proposal once.
    fn advise(&mut self, proposal: Proposal) -> Vec<Action> {
        let known = self.advised.as_ref().is_some_and(|it| it.moves == proposal.moves);
        if known {
            return Vec::new();
        }
        self.advised = Some(proposal.clone());
        vec![Action::Advise(proposal)]
    }

    fn go_on(&mut self, mut attempt: Box<Attempt>, activity: &Activity) -> Vec<Action> {
        if std::mem::take(&mut attempt.held) {
            attempt.trial.pass(activity.progress);
            self.phase = PlacerState::Trying(attempt);
            return self.change_to(Vec::new(), activity);
        }
        let look = TrialObservation {
            progress: activity.progress,
            seconds: activity.span_ns as f64 * 1e-9,
            lines: activity.lines,
            together: self.are_together(attempt.trial.arm(), &attempt.proposal.moves, activity),
        };
        let to = match attempt.trial.take(look) {
            TrialAction::GoOn => None,
            TrialAction::Change(TrialArm::Placed) => {
                Some(self.alive(&attempt.proposal.moves, activity))
            }
            TrialAction::Change(TrialArm::Before) => Some(self.before(&mut attempt, activity)),
            TrialAction::End(verdict) => return self.end(verdict, &attempt.proposal, activity),
        };
        self.phase = PlacerState::Trying(attempt);
        to.map_or_else(Vec::new, |moves| self.change_to(moves, activity))
    }

    /// The moves with which a control begins: the kept placement, or, without one, a recorded state of the threads
    /// before they were placed.
    fn before(&self, attempt: &mut Attempt, activity: &Activity) -> Vec<Move> {
        let kept = self.alive(&self.kept, activity);
        if !kept.is_empty() {
            return kept;
        }
        let homes: HashMap<u32, &CpuList> =
            activity.threads.iter().map(|it| (it.tid, self.home(it))).collect();
        let may = |it: &Move| homes.get(&it.tid).is_some_and(|home| it.cpus.is_within(home));
        let held = self.alive(&attempt.controls.next(), activity);
        let held: Vec<Move> = held.into_iter().filter(may).collect();
        attempt.held = !held.is_empty();
        held
    }

    fn end(
        &mut self,
        verdict: TrialVerdict,
        proposal: &Proposal,
        activity: &Activity,
    ) -> Vec<Action> {
        let kept = matches!(verdict, TrialVerdict::Better(_));
        let told = !matches!(verdict, TrialVerdict::Invalid { .. });
        self.rest(proposal, if told { REST } else { SHORT_REST });
        self.phases.judged();
        self.crowding.judged();
        let stays = self.alive(if kept { &proposal.moves } else { &self.kept }, activity);
        self.kept.clone_from(&stays);
        let mut actions = Vec::new();
        if !self.is_in_force(&stays) {
            actions = self.change_to(stays, activity);
        }
        actions.push(Action::Judge { verdict, kept });
        actions
    }

    /// Whether threads that should share CPUs ran as near to each other as the moves put them; `None` if the host
    /// does not report where threads ran.
    ///
    /// In a control the threads may have been nearer, because an earlier kept placement puts them on one CPU. An
    /// interval with such threads is still a control, even if another pair of threads was kept on the next CPU.
    fn are_together(&self, arm: TrialArm, moves: &[Move], activity: &Activity) -> Option<bool> {
        let before: &[Move] = if arm == TrialArm::Before { &self.kept } else { &[] };
        let (moves, kept) = (by_thread(moves), by_thread(before));
        let mut groups: BTreeMap<(&CpuList, Option<&CpuList>), Vec<Cpu>> = BTreeMap::new();
        for it in &activity.threads {
            let Some(cpus) = moves.get(&it.tid) else { continue };
            groups.entry((cpus, kept.get(&it.tid).copied())).or_default().push(it.cpu?);
        }
        Some(groups.iter().all(|((cpus, _), ran)| match arm {
            TrialArm::Placed => self.terrain.are_as_near(ran, cpus),
            TrialArm::Before => self.terrain.are_just_as_near(ran, cpus),
        }))
    }

    /// Whether exactly these threads are placed.
    fn is_in_force(&self, moves: &[Move]) -> bool {
        let is_so = |it: &Move| self.placed.get(&it.tid) == Some(&it.cpus);
        self.placed.len() == moves.len() && moves.iter().all(is_so)
    }

    /// Blocks the proposal for `first` windows, or for twice its last pause if that is longer.
    fn rest(&mut self, proposal: &Proposal, first: u64) {
        let key = key(&proposal.moves);
        let rest = self.judged.get(&key).map_or(first, |(_, rest)| first.max(2 * rest));
        self.judged.insert(key, (self.window + rest, rest));
    }

    /// The moves of threads that are alive and have not changed their own CPUs.
    fn alive(&self, moves: &[Move], activity: &Activity) -> Vec<Move> {
        let alive: BTreeSet<u32> = activity.threads.iter().map(|it| it.tid).collect();
        let may = |it: &&Move| alive.contains(&it.tid) && !self.own_way.contains(&it.tid);
        moves.iter().filter(may).cloned().collect()
    }

    /// Puts all threads back, and then moves the given ones.
    fn change_to(&mut self, moves: Vec<Move>, activity: &Activity) -> Vec<Action> {
        let home = |it: &ActiveThread| (it.tid, self.home(it).clone());
        let homes: HashMap<u32, CpuList> = activity.threads.iter().map(home).collect();
        let mut actions = Vec::new();
        self.looks.forget();
        if !self.placed.is_empty() {
            self.placed.clear();
            actions.push(Action::Restore);
        }
        for it in &moves {
            self.homes.insert(it.tid, homes.get(&it.tid).cloned().unwrap_or_default());
            self.placed.insert(it.tid, it.cpus.clone());
        }
        if !moves.is_empty() {
            actions.push(Action::Place { moves });
        }
        actions
    }

    /// The placement that the evidence supports, if it is worth the moves and was not judged yet.
    fn propose(&self, activity: &Activity) -> Option<Proposal> {
        let (crowd, threads) = self.crowd(activity);
        let terrain = &self.terrain;
        let stays = |member: usize| self.placed.contains_key(&threads[member]);
        let placed = gainful(&crowd, terrain, assign(&crowd, terrain).placed, stays);
        let moves = moves(&placed, &threads);
        let cost = self.cost(&moves);
        // Another placement that is as good gains nothing: without this, equal ones would follow each other.
        let gain = savable(&crowd, terrain, &changes(&crowd, terrain, &placed))
            - saved(&crowd, terrain, &self.in_force(&threads));
        let worth = gain - cost >= self.settings.least_gain;
        let new = worth && self.is_new(&moves);
        new.then_some(Proposal { moves, saved: Some(gain), cost, seen: true, ratio: None })
    }

    /// The kept placement of the given threads.
    fn in_force(&self, threads: &[u32]) -> Vec<ThreadCluster> {
        let mut by_cpus: BTreeMap<&CpuList, Vec<usize>> = BTreeMap::new();
        for (member, tid) in threads.iter().enumerate() {
            if let Some(cpus) = self.placed.get(tid).filter(|_| !self.kept.is_empty()) {
                by_cpus.entry(cpus).or_default().push(member);
            }
        }
        let placed = |(cpus, members): (&CpuList, _)| ThreadCluster { members, cpus: cpus.clone() };
        by_cpus.into_iter().map(placed).collect()
    }

    /// The cost of moves, spread over the time in which they must pay for themselves, in CPUs.
    fn cost(&self, moves: &[Move]) -> f64 {
        let moved = moves.iter().filter(|it| self.placed.get(&it.tid) != Some(&it.cpus)).count();
        let time = self.settings.horizon_s.min(self.left_s()).max(f64::MIN_POSITIVE);
        self.settings.move_cost_ns * 1e-9 * moved as f64 / time
    }

    /// Whether the moves were not recently judged and are not in force.
    fn is_new(&self, moves: &[Move]) -> bool {
        let again = self.judged.get(&key(moves));
        again.is_none_or(|(again, _)| self.window >= *again)
            && !moves.iter().all(|it| self.placed.get(&it.tid) == Some(&it.cpus))
    }

    /// A placement without a predicted saving: for threads that were seen using common data, or else, in a search,
    /// for all busy threads.
    fn guess(&self, activity: &Activity) -> Option<Proposal> {
        let may = |it: &ActiveThread| !self.own_way.contains(&it.tid);
        let busy = search::busy(activity, |it| may(it).then(|| self.home(it)));
        let ties = self.graph.ties();
        let seen = !search::groups(&busy, &ties, usize::MAX).is_empty();
        if busy.len() < 2 || !(seen || self.settings.search) {
            return None;
        }
        let forecast =
            PlacementForecast::new(&self.terrain, &self.looks, self.gain.as_ref(), activity);
        let proposals = search::kinds(&self.terrain).into_iter().flat_map(|places| {
            // On one CPU threads take turns: as many as share.
            let each = places.first().map_or(0, |it| it.cpus.len());
            let most = if each > 1 { each } else { usize::MAX };
            let groupings = search::groupings(&busy, &ties, most).into_iter();
            let proposal = |groups: Vec<Vec<search::MoveCandidate<'_>>>| {
                let ratio = forecast.of(&groups, &ties, each == 1);
                let moves = search::deal(&groups, &places)?;
                let cost = self.cost(&moves);
                Some(Proposal { moves, saved: None, cost, seen, ratio })
            };
            groupings.filter_map(proposal).collect::<Vec<_>>()
        });
        let hurts = |it: &Proposal| it.ratio.is_some_and(|it| it.hurts());
        let is_so = |it: &Proposal| self.is_so_already(&it.moves, &ties);
        let mut new = proposals.filter(|it| !hurts(it) && self.is_new(&it.moves) && !is_so(it));
        new.next()
    }

    /// Whether threads that belong together ran as near as these moves put them, in nearly all looks. Without measured
    /// progress nothing supports separating threads that belong together.
    fn is_so_already(&self, moves: &[Move], ties: &[Tie]) -> bool {
        let to = by_thread(moves);
        let joined = |it: &&Tie| to.contains_key(&it.a) && to.get(&it.a) == to.get(&it.b);
        let mut joined = ties.iter().filter(joined).peekable();
        let is_so = |it: &Tie| {
            let ran = self.terrain.ran(self.looks.of(it.a, it.b));
            let near = |ran| self.terrain.share_as_near(ran, to[&it.a], !self.settings.may_move);
            ran.is_some_and(|ran| near(ran) >= NEARLY_ALL)
        };
        joined.peek().is_some() && joined.all(is_so)
    }

    /// The threads that may be placed, with the lower ends of the intervals of their ties, and their thread IDs.
    fn crowd(&self, activity: &Activity) -> (Crowd, Vec<u32>) {
        let mut regions = Regions::new(&self.terrain);
        let mut places: HashMap<u32, usize> = HashMap::new();
        let (mut members, mut threads) = (Vec::new(), Vec::new());
        for it in activity.threads.iter().filter(|it| !self.own_way.contains(&it.tid)) {
            places.insert(it.tid, threads.len());
            threads.push(it.tid);
            members.push(CrowdMember {
                busy: share(it, activity),
                bytes: it.working_set.map_or(0.0, |bytes| bytes as f64),
                list: regions.number(self.home(it)),
            });
        }
        let mut crowd = Crowd { lists: regions.into_lists(), members, bonds: Vec::new() };
        for tie in self.graph.ties() {
            let (Some(&a), Some(&b)) = (places.get(&tie.a), places.get(&tie.b)) else { continue };
            let ran = self.terrain.ran(self.looks.of(tie.a, tie.b));
            crowd.bonds.push(Bond { a, b, wakes: tie.at_least, lines: tie.lines_at_least, ran });
        }
        (crowd, threads)
    }
}

/// The share of a CPU that a thread used in a window.
fn share(it: &ActiveThread, activity: &Activity) -> f64 {
    it.busy_ns as f64 / activity.span_ns.max(1) as f64
}

fn by_thread(moves: &[Move]) -> HashMap<u32, &CpuList> {
    moves.iter().map(|it| (it.tid, &it.cpus)).collect()
}

fn moves(placed: &[ThreadCluster], threads: &[u32]) -> Vec<Move> {
    let of = |it: &ThreadCluster| {
        let cpus = it.cpus.clone();
        let to = move |&member: &usize| Move { tid: threads[member], cpus: cpus.clone() };
        it.members.iter().map(to).collect::<Vec<_>>()
    };
    let mut all: Vec<Move> = placed.iter().flat_map(of).collect();
    all.sort_by_key(|it| it.tid);
    all
}
