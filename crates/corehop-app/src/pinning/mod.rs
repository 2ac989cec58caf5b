// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers whether a program should be pinned, and to which CPUs. The arms that the host offers are tried in rounds.
//!
//! A command runs completely in each turn. A running process gets an interval of time, in which its progress is
//! measured. The rounds for commands and for running processes are organised in one way.

mod rounds;
mod stretches;
mod whole;

use std::time::Duration;

use corehop_decide::pinning::answer::{PinAnswer, TriedProgram};
use corehop_decide::pinning::arms::{PinArms, ProgramLoad, derive};
use corehop_decide::pinning::contest::{ContestVerdict, TrialQuantity};
use corehop_plan::host::Host;
use corehop_plan::host::whole_run::CommandRunner;
use corehop_plan::platform::Platform;
use corehop_plan::stop::Stop;
use corehop_plan::units::CpuList;
use corehop_report::pinning::{ONE_CPU, lines, sentence, text};
use serde_json::{Map, Value, json};

use crate::answer::Answer;
use crate::failure::{Exit, Failure};
use rounds::{TrialClock, tried};
use stretches::Stretches;
use whole::WholeRuns;

/// The shortest duration of a trial.
const SHORTEST: Duration = Duration::from_secs(1);

/// Shows a trial in progress.
pub trait PinTrialView {
    /// Shows the beginning of a turn.
    fn turn(&mut self, line: &str);
}

/// A request for a pinning trial.
#[derive(Debug)]
pub struct PinTrial<'a> {
    /// The platform of the host.
    pub platform: &'a Platform,
    /// The time that the whole trial may take.
    pub duration: Duration,
    /// The seed for the order within rounds.
    pub seed: u64,
    /// Tells whether the trial was stopped.
    pub stop: &'a Stop,
}

impl PinTrial<'_> {
    /// Rejects a duration that is too short for a trial.
    ///
    /// # Errors
    /// Fails with exit code 2 if the duration is too short.
    pub fn check(&self) -> Result<(), Failure> {
        if self.duration >= SHORTEST {
            return Ok(());
        }
        let what = "--duration is shorter than a second: write for example --duration 3min";
        Err(Failure::says(Exit::Usage, what))
    }

    /// Tries arms for a command, which `words` names in shell syntax; `inherited` are the CPUs that it has without
    /// pinning.
    ///
    /// # Errors
    /// Fails with exit code 2 for a command that cannot be run completely, with the command's own status if the command
    /// fails, and with exit code 130 after an interrupt.
    pub fn command(
        &self,
        words: &str,
        inherited: &CpuList,
        runner: &mut dyn CommandRunner,
        view: &mut dyn PinTrialView,
    ) -> Result<Answer, Failure> {
        if self.usable(inherited)?.len() < 2 {
            return Ok(one_cpu());
        }
        let clock = TrialClock::begin(self);
        let mut runs = WholeRuns::new(words, runner);
        view.turn("corehop runs the command once without pinning, to count its threads");
        let Some(first) = runs.first(&clock)? else { return Err(self.cut_short()) };
        let arms = derive(self.platform, inherited, &first.load);
        let turn_s = runs.divide(self.duration, arms.arms.len(), first.wall_s);
        let program = TriedProgram::Command(words.to_owned());
        let mut head = self.head(program, inherited, first.load, &arms);
        // A trial that cannot end in time is not begun.
        head.round_s = (arms.arms.len() + 2) as f64 * turn_s;
        tried(&mut head, &mut runs, &clock, view)?;
        Ok(answered(&head))
    }

    /// Tries arms for the processes that a host follows. At the end, the processes get their own CPUs back.
    ///
    /// # Errors
    /// Fails with exit code 1 if progress stands still or cannot be read, with exit code 3 if a thread cannot be moved,
    /// with exit code 6 if the host failed, and with exit code 130 after an interrupt.
    pub fn process(
        &self,
        pid: u32,
        host: &mut dyn Host,
        view: &mut dyn PinTrialView,
    ) -> Result<Answer, Failure> {
        let clock = TrialClock::begin(self);
        let mut stretches = Stretches::begin(host, self.duration, self.stop)?;
        let (own, load) = (stretches.own().clone(), stretches.load());
        if self.usable(&own)?.len() < 2 {
            return Ok(one_cpu());
        }
        let arms = derive(self.platform, &own, &load);
        stretches.divide(self.duration, arms.arms.len());
        let mut head = self.head(TriedProgram::Process(pid), &own, load, &arms);
        head.quantity = TrialQuantity::Progress;
        head.round_s = (arms.arms.len() + 2) as f64 * stretches.turn_s();
        tried(&mut head, &mut stretches, &clock, view)?;
        Ok(answered(&head))
    }

    /// The online CPUs among `own`.
    fn usable(&self, own: &CpuList) -> Result<CpuList, Failure> {
        let Platform { id, cpus, .. } = self.platform;
        let there = &cpus.value;
        if own.is_within(there) {
            return Ok(self.platform.online().intersection(own));
        }
        let what = format!(
            "--platform {id} describes CPUs {there}, but the program may run on CPUs {own}: name the file of this host, or omit --platform"
        );
        Err(Failure::says(Exit::Usage, what))
    }

    /// The answer before the first round.
    fn head(
        &self,
        program: TriedProgram,
        own: &CpuList,
        load: ProgramLoad,
        arms: &PinArms,
    ) -> PinAnswer {
        PinAnswer {
            program,
            platform: self.platform.id.clone(),
            quantity: TrialQuantity::WallTime,
            default_cpus: own.intersection(self.platform.online()),
            load,
            seed: self.seed,
            rounds: 0,
            seconds: 0.0,
            round_s: 0.0,
            default: None,
            again: None,
            floor: None,
            arms: arms.arms.iter().map(|arm| arm.clone().into()).collect(),
            left_out: arms.left_out.clone(),
            verdict: ContestVerdict::TooFew { rounds: 0, needed: 0 },
        }
    }

    /// The reason why a first turn did not end.
    fn cut_short(&self) -> Failure {
        if self.stop.is_asked() {
            return interrupted();
        }
        let seconds = self.duration.as_secs();
        Failure::says(
            Exit::No,
            format!(
                "cannot tell: the first run of the command was stopped after {seconds} s; give the command less work, or set a longer --duration"
            ),
        )
    }
}

fn answered(of: &PinAnswer) -> Answer {
    let exit = if of.winner().is_some() { Exit::Done } else { Exit::No };
    let mut json = json!(of);
    let pasted = lines(of).into_iter().map(|(place, text)| (place.to_owned(), text.into()));
    json["paste"] = Value::Object(pasted.collect::<Map<String, Value>>());
    Answer { sentence: sentence(of), json, text: text(of), exit }
}

/// The answer if there is only one CPU.
fn one_cpu() -> Answer {
    let json = json!({"verdict": "one_cpu", "arms": []});
    Answer { sentence: ONE_CPU.to_owned(), json, text: String::new(), exit: Exit::No }
}

fn interrupted() -> Failure {
    Failure::says(Exit::Interrupted, "interrupted; nothing stays pinned")
}

#[cfg(test)]
mod tests {
    use corehop_plan::host::whole_run::{WholeRun, WholeRunError};

    use super::*;

    /// A simulated command whose runs take this time in milliseconds on these CPUs.
    struct MadeUp {
        times: fn(&CpuList) -> u64,
        runs: u64,
        status: i32,
    }

    impl CommandRunner for MadeUp {
        fn run(&mut self, cpus: Option<&CpuList>, _: Duration) -> Result<WholeRun, WholeRunError> {
            self.runs += 1;
            let ms = cpus.map_or(100, self.times);
            // No two runs take the same time.
            let wall_ns = ms * 1_000_000 + self.runs * 7_919 % 100_000;
            Ok(WholeRun {
                wall_ns,
                cpu_ns: 2 * wall_ns,
                status: if cpus.is_some() { self.status } else { 0 },
                threads: 3,
                ended_early: false,
            })
        }
    }

    struct Unseen;

    impl PinTrialView for Unseen {
        fn turn(&mut self, _: &str) {}
    }

    /// A trial on a machine with four last-level caches of four cores each.
    fn tried(times: fn(&CpuList) -> u64, status: i32) -> (Result<Answer, Failure>, u64) {
        let platform = Platform::named("epyc_7313").unwrap().unwrap();
        let stop = Stop::never();
        let duration = Duration::from_mins(1);
        let trial = PinTrial { platform: &platform, duration, seed: 5, stop: &stop };
        let mut runner = MadeUp { times, runs: 0, status };
        let own = "0-15".parse().unwrap();
        let answer = trial.command("./job", &own, &mut runner, &mut Unseen);
        (answer, runner.runs)
    }

    #[test]
    fn the_arm_that_is_faster_wins_among_all_that_the_machine_has() {
        let (answer, runs) = tried(|cpus| if cpus.len() == 4 { 80 } else { 120 }, 0);
        let answer = answer.unwrap();
        assert!(answer.sentence.starts_with("Pin to CPUs 0-3 (one-cache): 25.0 % faster"));
        assert_eq!((answer.exit, &answer.json["verdict"]), (Exit::Done, &json!("winner")));
        assert_eq!(answer.json["paste"]["a shell"], "taskset -c 0-3 ./job");
        // One cache, one CPU and three CPUs for three threads: eight rounds with the default twice, after one run. A turn of
        // 300 ms has three runs of 100 or 120 ms, and four of 80.
        assert_eq!(answer.json["arms"].as_array().unwrap().len(), 3);
        assert_eq!(runs, 1 + 8 * (4 * 3 + 4));
    }

    #[test]
    fn arms_that_are_slower_leave_the_default() {
        let answer = tried(|_| 130, 0).0.unwrap();
        assert!(answer.sentence.starts_with("Nothing beats the kernel's default by more than 0."));
        assert_eq!((answer.exit, &answer.json["verdict"]), (Exit::No, &json!("nothing")));
        assert_eq!(answer.json["paste"], json!({}));
    }

    #[test]
    fn a_command_that_fails_in_an_arm_gives_its_status_and_the_line_that_shows_why() {
        let failure = tried(|_| 100, 9).0.unwrap_err();
        let said = failure.sentence();
        assert_eq!(failure.exit(), Exit::Of(9));
        assert!(said.contains("status 9") && said.contains("`taskset -c "), "{said}");
    }
}
