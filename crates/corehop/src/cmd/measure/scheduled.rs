// SPDX-License-Identifier: MIT OR Apache-2.0
//! `schedule-sensitive`: task sets, or a program as it runs.

use corehop_core::decision::sampling::Goal;
use corehop_core::experiment::Length;
use corehop_core::platform::Platform;
use corehop_core::units::Bytes;
use corehop_core::workload::{Load, Page, Pattern, WorkingSet};

use super::super::{observe, on, task_sets};
use super::{Args, duration};
use crate::exit::{Exit, Failure, refuse};

impl Args {
    /// Runs task sets, or records a program, where one is named.
    pub(super) fn schedule_sensitive(&self, platform: Platform) -> Result<Exit, Failure> {
        if self.observe.is_asked_for() { self.record(&platform) } else { self.task_sets(platform) }
    }

    fn task_sets(&self, platform: Platform) -> Result<Exit, Failure> {
        refuse(
            "jobs of a task set are released and preempted by its schedule",
            &[
                ("--samples", self.samples.is_some()),
                ("--precision", self.precision.is_some()),
                ("--replicates", self.replicates.is_some()),
                ("--event", !self.events.is_empty()),
                ("--length", self.length.is_some()),
                ("--preemptor", self.preemptor.is_some()),
                ("--mover", self.mover.is_some()),
                ("--workload", self.workload.is_some()),
                ("--fresh-frames", self.fresh_frames),
                ("--no-real-time (use --scheduler eevdf)", self.no_real_time),
            ],
        )?;
        let asked = task_sets::Asked {
            platform: &platform,
            live: self.on == on::LIVE,
            preset: self.preset,
            loads: self
                .load(&platform)?
                .map_or_else(|| self.usual_loads(&platform), |load| vec![load]),
            cpus: self.cpus.clone().unwrap_or_default(),
            like: WorkingSet {
                pattern: self.pattern.unwrap_or(Pattern::Shuffled),
                page: self.page.unwrap_or(Page::Base),
                chains: self.chains.unwrap_or(1),
                node: self.node,
                ..WorkingSet::list(Bytes::from_kib(64), 0.5)
            },
            sizes: &self.wss,
            ratios: &self.write_ratio,
        };
        let experiment = self.tasks.experiment(&asked)?;
        let plan = experiment.plan(&platform, self.seed);
        let plan = plan.map_err(|error| Failure::new(Exit::Usage, error))?;
        if self.dry_run {
            on::arrangement(&self.on, &platform, &self.arrange)?;
            return task_sets::dry_run(&plan, &platform, self.json);
        }
        let mut machine = on::task_machine(&self.on, platform, self.options(), &self.arrange)?;
        self.to_run(Goal::Count)?.tasks(machine.as_mut(), &plan, serde_json::json!(experiment))
    }

    /// Idle, and with a polluter on each CPU, as in Bastoni et al., section 4.1.
    fn usual_loads(&self, platform: &Platform) -> Vec<Load> {
        let polluter = corehop_core::experiment::Preset::polluter(platform);
        let polluter = self.polluter.clone().unwrap_or(polluter);
        vec![
            Load::Idle,
            Load::Constructed { polluter, cpus: self.load_cpus.clone().unwrap_or_default() },
        ]
    }

    /// Records a program.
    fn record(&self, platform: &Platform) -> Result<Exit, Failure> {
        refuse("that is an option of task sets, and a program is recorded", &self.tasks.given())?;
        let why = "schedule-sensitive records a program as it runs";
        let [wss, others @ ..] = self.of_working_sets();
        refuse(why, &others)?;
        refuse(
            why,
            &[
                ("--samples", self.samples.is_some()),
                ("--precision", self.precision.is_some()),
                ("--replicates", self.replicates.is_some()),
                ("--event", !self.events.is_empty()),
                ("--preemptor", self.preemptor.is_some()),
                ("--mover", self.mover.is_some()),
                ("--command (name the program after `--`)", self.command.is_some()),
                ("--stream", self.stream),
                ("all but one size of --wss", wss.1 && self.wss.len() > 1),
                ("--length LOW..HIGH", matches!(self.length, Some(Length::Uniform(..)))),
            ],
        )?;
        let length = match self.length {
            Some(Length::Fixed(length)) => Some(length),
            _ => None,
        };
        let run = observe::Asked {
            live: self.on == on::LIVE,
            platform,
            load: self.load.clone(),
            length,
            wss: self.wss.first().copied(),
            budget: self.budget.map(duration),
            output: self.output.as_deref(),
            json: self.json,
        };
        observe::carry_out(&self.observe, &run)
    }
}
