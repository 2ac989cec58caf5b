// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs rounds of turns until the contest is decided or the time is over.

use std::time::{Duration, Instant};

use corehop_decide::pinning::answer::{ArmFigures, PinAnswer, TriedArm};
use corehop_decide::pinning::arms::PinArm;
use corehop_decide::pinning::contest::{ArmContest, Contender, ContestVerdict};
use corehop_plan::stop::Stop;

use super::{PinTrial, PinTrialView, interrupted};
use crate::failure::Failure;

/// The number of rounds by which the time is divided: the largest possible number, with some reserve.
const ROUNDS: u32 = 18;

/// The length of a turn with which all rounds of `arms` arms fit into the time.
pub(super) fn turn_of(duration: Duration, arms: usize) -> Duration {
    let turns = u32::try_from(arms + 2).unwrap_or(u32::MAX);
    duration / ROUNDS.saturating_mul(turns)
}

/// Gives a program its turns.
pub(super) trait ProgramTurns {
    /// Runs one turn in an arm, or unpinned; `None` if the time is over, the user interrupts, or the program has
    /// ended.
    fn turn(
        &mut self,
        arm: Option<&PinArm>,
        clock: &TrialClock,
    ) -> Result<Option<TurnFigures>, Failure>;
}

/// The result of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnFigures {
    /// The number of complete runs of a command; 1 for an interval of a process.
    pub(super) runs: usize,
    /// The mean wall time in seconds, or the progress per second.
    pub(super) value: f64,
    /// The mean CPU time in seconds.
    pub(super) cpu_s: Option<f64>,
}

/// The time budget of a trial.
pub(super) struct TrialClock {
    begun: Instant,
    deadline: Instant,
    stop: Stop,
}

impl TrialClock {
    pub(super) fn begin(trial: &PinTrial<'_>) -> Self {
        let begun = Instant::now();
        Self { begun, deadline: begun + trial.duration, stop: trial.stop.clone() }
    }

    /// The time until the deadline.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Whether a turn of `next_s` seconds no longer fits.
    fn is_over(&self, next_s: f64) -> bool {
        self.stop.is_asked() || self.left().as_secs_f64() < next_s
    }
}

/// The sums over the turns of one contender.
#[derive(Debug, Clone, Default)]
struct TurnSums {
    turns: usize,
    runs: usize,
    value: f64,
    /// The CPU time; `None` after a turn with unknown CPU time.
    cpu_s: Option<f64>,
}

impl TurnSums {
    fn take(&mut self, it: TurnFigures) {
        let before = if self.turns == 0 { Some(0.0) } else { self.cpu_s };
        self.cpu_s = before.zip(it.cpu_s).map(|(sum, more)| sum + more);
        self.turns += 1;
        self.runs += it.runs;
        self.value += it.value;
    }

    fn means(&self) -> Option<ArmFigures> {
        let turns = self.turns as f64;
        (self.turns > 0).then(|| ArmFigures {
            runs: self.runs,
            mean: self.value / turns,
            cpu_s: self.cpu_s.map(|it| it / turns),
        })
    }
}

/// The sums of all contenders: the default, the control, and the arms.
struct TrialSums(Vec<TurnSums>);

impl TrialSums {
    fn of(&mut self, turn: Contender) -> &mut TurnSums {
        &mut self.0[place(turn)]
    }
}

const fn place(turn: Contender) -> usize {
    match turn {
        Contender::Default => 0,
        Contender::Again => 1,
        Contender::Arm(at) => at + 2,
    }
}

/// Tries the arms of an answer without a verdict. A round begins only if the length of the previous round (at first
/// `round_s`) fits into the remaining time.
pub(super) fn tried(
    answer: &mut PinAnswer,
    turns: &mut dyn ProgramTurns,
    clock: &TrialClock,
    view: &mut dyn PinTrialView,
) -> Result<(), Failure> {
    if answer.arms.is_empty() {
        answer.verdict = ContestVerdict::NoArm;
        return Ok(());
    }
    let arms: Vec<PinArm> = answer.arms.iter().map(|it| it.arm.clone()).collect();
    let mut contest = ArmContest::new(answer.quantity, arms.len(), answer.seed);
    let mut sums = TrialSums(vec![TurnSums::default(); arms.len() + 2]);
    let (first_look, _) = contest.looks();
    let verdict = loop {
        let rest = first_look.saturating_sub(contest.rounds()).max(1) as f64;
        if clock.is_over(rest * answer.round_s) {
            break contest.last_look();
        }
        let begun = Instant::now();
        let Some(round) = one_round(&contest, &arms, turns, &mut sums, (clock, view))? else {
            break contest.last_look();
        };
        answer.round_s = begun.elapsed().as_secs_f64();
        if let Some(verdict) = contest.take(&round) {
            break verdict;
        }
    };
    if clock.stop.is_asked() {
        return Err(interrupted());
    }
    finish(answer, &contest, verdict, &sums, clock);
    Ok(())
}

/// Runs one turn of each contender; `None` if a turn did not end.
fn one_round(
    contest: &ArmContest,
    arms: &[PinArm],
    turns: &mut dyn ProgramTurns,
    sums: &mut TrialSums,
    (clock, view): (&TrialClock, &mut dyn PinTrialView),
) -> Result<Option<Vec<(Contender, f64)>>, Failure> {
    let (number, (_, most)) = (contest.rounds() + 1, contest.looks());
    let mut round = Vec::new();
    for turn in contest.order() {
        let arm = match turn {
            Contender::Arm(at) => Some(&arms[at]),
            Contender::Default | Contender::Again => None,
        };
        let name = arm.map_or("default", |it| it.kind.word());
        view.turn(&format!("round {number} of at most {most}: {name}"));
        let Some(figures) = turns.turn(arm, clock)? else { return Ok(None) };
        sums.of(turn).take(figures);
        round.push((turn, figures.value));
    }
    Ok(Some(round))
}

fn finish(
    answer: &mut PinAnswer,
    contest: &ArmContest,
    verdict: ContestVerdict,
    sums: &TrialSums,
    clock: &TrialClock,
) {
    let means = |turn| sums.0[place(turn)].means();
    let gains = contest.gains();
    for (at, (tried, gain)) in answer.arms.iter_mut().zip(gains).enumerate() {
        *tried = TriedArm { figures: means(Contender::Arm(at)), gain, ..tried.clone() };
    }
    answer.default = means(Contender::Default);
    answer.again = means(Contender::Again);
    answer.floor = contest.floor();
    answer.rounds = contest.rounds();
    answer.seconds = clock.seconds();
    answer.verdict = verdict;
}
