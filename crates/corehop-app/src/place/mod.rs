// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places the threads of a host, window by window.

mod log;
mod progress;
mod simulated;

pub use log::PlacementFile;
pub use progress::WindowLine;
pub use simulated::simulate;

use std::time::{Duration, Instant};

use corehop_decide::placer::log::PlacementFindings;
use corehop_decide::placer::replay::actions_of;
use corehop_decide::placer::terrain::Terrain;
use corehop_decide::placer::{Action, InitialPlacement, Placer, Session, Settings};
use corehop_plan::host::{Activity, Host, HostError, ProgramExit};
use corehop_plan::stop::Stop;
use corehop_plan::units::Nanos;

use crate::failure::{Exit, Failure};
use crate::voice::note;

/// The time in which evidence for advice is collected.
const ADVICE: Nanos = Nanos::from_millis(2_000);
/// The time within which a placement for export must have its verdict, unless another time is given.
const VERDICT: Nanos = Nanos::from_millis(60_000);
/// The largest number of windows with evidence for advice.
const MOST_EVIDENCE: u32 = 20;
/// The shortest length of a window.
const SHORTEST: Nanos = Nanos::from_millis(10);

/// The settings that the caller of a placer chooses.
#[expect(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
#[derive(Debug, Clone)]
pub struct Placing {
    /// Whether threads may be moved, because there is a source of progress and no dry run was requested.
    pub may_move: bool,
    /// Whether a program was started, which is placed until it ends.
    pub starts_program: bool,
    /// Whether to end with the first verdict, because the placement is exported.
    pub ends_with_verdict: bool,
    /// Whether to try placements without evidence in their favour.
    pub search: bool,
    /// The initial placement of the threads.
    pub start: Option<InitialPlacement>,
    /// The time after which placing ends.
    pub duration: Option<Nanos>,
    /// The length of a window.
    pub window: Nanos,
}

/// Shows a running placer.
pub trait PlacingView {
    /// Shows a window that has passed.
    fn window(&mut self, activity: &Activity, actions: &[Action]);
    /// Shows new advice, if there is any.
    fn advice(&self, answer: &PlacementFindings, actions: &[Action]);
    /// Calls `write`, which may write to the terminal, without disturbing the view.
    fn beside(&self, write: &mut dyn FnMut());
}

impl Placing {
    /// Rejects windows and times that are too short.
    ///
    /// # Errors
    /// Fails with exit code 2 if a window or time is too short.
    pub fn check(&self) -> Result<(), Failure> {
        let usage = |why: String| Err(Failure::says(Exit::Usage, why));
        if self.window < SHORTEST {
            return usage(
                "--window is shorter than 10 ms: write for example --window 100ms".to_owned(),
            );
        }
        // Before the evidence is there, nothing can be said.
        let windows = u64::from(Settings::default().evidence) + 1;
        let least = Nanos::new(windows * self.window.get());
        let Some(length) = self.duration.filter(|&it| it < least) else { return Ok(()) };
        let window = self.window;
        usage(format!(
            "--for {length} is too short: a decision needs {windows} windows of {window}, which take {least}"
        ))
    }

    /// Returns the settings of the placer, including the cost of a move.
    pub fn settings(&self, move_cost_ns: f64) -> Settings {
        Settings {
            may_move: self.may_move,
            evidence: self.evidence_windows(),
            search: self.search,
            move_cost_ns,
            ends_after_s: self.duration.map(|it| it.get() as f64 * 1e-9),
            ..Settings::default()
        }
    }

    /// Whether the run only gives advice: no thread is moved, and no started program is placed until it ends.
    const fn is_advice(&self) -> bool {
        !self.may_move && self.start.is_none() && !self.starts_program
    }

    /// The number of windows before a proposal. Advice has no trial that could correct a wrong proposal. Advice
    /// therefore uses the evidence of two seconds, or of a quarter of the given time, because windows are longer than
    /// requested if other threads have the CPUs.
    fn evidence_windows(&self) -> u32 {
        let least = Settings::default().evidence;
        if !self.is_advice() {
            return least;
        }
        let time = self.duration.map_or(ADVICE, |it| Nanos::new(it.get() / 4).min(ADVICE));
        let windows = time.get() / self.window.get();
        u32::try_from(windows).unwrap_or(u32::MAX).clamp(least, MOST_EVIDENCE)
    }

    /// Returns the number of windows after which the placer ends with its advice, unless a time was given.
    pub fn advises(&self, settings: &Settings) -> Option<u32> {
        (self.is_advice() && self.duration.is_none()).then_some(settings.evidence)
    }

    /// Runs window by window until the program or the time ends, or `stop` is set. At the end, the host puts all
    /// threads back to their former CPUs.
    ///
    /// # Errors
    /// Fails with exit code 6 if the host failed.
    pub fn run(
        &self,
        host: &mut dyn Host,
        mut placer: Placer,
        (log, view): (&mut PlacementFile, &mut dyn PlacingView),
        (advises, stop): (Option<u32>, &Stop),
    ) -> Result<Option<ProgramExit>, Failure> {
        let mut session = Session::new(host);
        let ended = self.windows(&mut session, &mut placer, (log, view), (advises, stop));
        session.restore().map_err(failed)?;
        ended
    }

    fn windows(
        &self,
        session: &mut Session<'_>,
        placer: &mut Placer,
        (log, view): (&mut PlacementFile, &mut dyn PlacingView),
        (advises, stop): (Option<u32>, &Stop),
    ) -> Result<Option<ProgramExit>, Failure> {
        let (begin, window) = (Instant::now(), Duration::from_nanos(self.window.get()));
        let mut start = self.start.as_ref();
        let length = self.duration.or(self.ends_with_verdict.then_some(VERDICT));
        let is_over = || length.is_some_and(|it| begin.elapsed() >= Duration::from_nanos(it.get()));
        while !stop.is_asked() && !is_over() && !self.is_settled(log, advises) {
            session.host().look_closely(placer.looks_closely());
            let observation = session.host().observe(window).map_err(failed)?;
            let notes = session.host().notes();
            view.beside(&mut || notes.iter().for_each(|it| note(it)));
            if observation.ended.is_some() {
                return Ok(observation.ended);
            }
            let Some(activity) = observation.activity else { continue };
            let actions = actions_of(placer, start.take(), &activity);
            view.window(&activity, &actions);
            let mut written = Ok(());
            view.beside(&mut || written = log.window(activity.clone(), &actions));
            written?;
            view.advice(log.answer(), &actions);
            for action in actions {
                if let Some(refused) = session.act(&action, placer).map_err(failed)? {
                    log.refused(&refused)?;
                }
            }
        }
        Ok(None)
    }

    /// Whether the log has the verdict or the advice that the user requested.
    fn is_settled(&self, log: &PlacementFile, advises: Option<u32>) -> bool {
        let settled = self.ends_with_verdict && log.answer().is_settled(self.search);
        settled || advises.is_some_and(|it| log.windows() >= u64::from(it))
    }
}

/// Checks that the CPUs of an initial placement exist.
///
/// # Errors
/// Fails with exit code 2 if a CPU does not exist.
pub fn check_start(start: Option<&InitialPlacement>, terrain: &Terrain) -> Result<(), Failure> {
    let Some(InitialPlacement::List(cpus)) = start else { return Ok(()) };
    let there = terrain.cpus();
    if cpus.is_within(there) {
        return Ok(());
    }
    let why = format!("--start {cpus}: not all of these CPUs are usable; usable are CPUs {there}");
    Err(Failure::says(Exit::Usage, why))
}

fn failed(error: HostError) -> Failure {
    Failure::new(Exit::Failed, error)
}
