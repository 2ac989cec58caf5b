// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outline of a run: a text that describes the run before it starts.

use std::time::Duration;

use corehop_plan::experiment::{Experiment, Plan, RunPosition, SamplingUnit};
use corehop_plan::platform::Platform;
use corehop_plan::units::Nanos;

use crate::output::{AnswerBody, answer};
use corehop_app::failure::{Exit, Failure};

/// Prints the outline of an experiment, or its plan.
pub(in crate::cmd) fn of_experiment(
    experiment: &dyn Experiment,
    platform: &Platform,
    seed: u64,
    replicates: u32,
    json: bool,
) -> Result<Exit, Failure> {
    if json {
        return of_json(&experiment.replicated(platform, seed, replicates)?);
    }
    let units = experiment.units(platform, seed)?;
    let nothing = vec![0; units.len()];
    let empty = experiment.block(platform, seed, RunPosition::default(), &nothing)?;
    of_text(&outline(&empty, &units, Some(replicates as usize), platform), &units)
}

/// Ends the command by printing a plan as JSON.
fn of_json(plan: &Plan) -> Result<Exit, Failure> {
    let sentence = "This is a plan; nothing ran. `corehop measure plan FILE` runs the plan.";
    answer(sentence, AnswerBody::Data(&format!("{}\n", plan.to_json())))?;
    Ok(Exit::Done)
}

/// Ends the command by printing an outline.
fn of_text(text: &str, units: &[SamplingUnit]) -> Result<Exit, Failure> {
    let projected = SamplingUnit::projected(units);
    let time = if projected > Nanos::default() {
        format!(", and takes {}", crate::progress::rough(duration(projected)))
    } else {
        String::new()
    };
    let sentence = format!("Nothing ran: the same command without --dry-run runs this plan{time}.");
    answer(&sentence, AnswerBody::Text(text))?;
    Ok(Exit::Done)
}

/// Prints the outline of a plan from a file, or the plan.
pub(in crate::cmd) fn of_plan(
    plan: &Plan,
    platform: &Platform,
    json: bool,
) -> Result<Exit, Failure> {
    if json {
        return of_json(plan);
    }
    let replicates = plan.jobs().and_then(corehop_plan::experiment::Jobs::replicates);
    of_text(&outline(plan, &plan.units(), replicates, platform), &plan.units())
}

/// The outline of a plan: its units with sample counts, the projected time, and the parts that cannot be measured.
fn outline(
    plan: &Plan,
    units: &[SamplingUnit],
    replicates: Option<usize>,
    platform: &Platform,
) -> String {
    let head = plan.outline(units, replicates, platform);
    let lines = units.iter().map(|unit| format!("{:>8}  {}", unit.asked, unit.name));
    let projected = SamplingUnit::projected(units);
    let time = (projected > Nanos::default())
        .then(|| format!("projected: {}", crate::progress::rough(duration(projected))));
    let missing = platform.missing_classes();
    let missing = missing.iter().filter(|_| plan.jobs().is_some());
    let missing =
        missing.map(|it| format!("not measurable here: {} ({})", it.affinity.event(), it.why));
    let all = std::iter::once(head).chain(lines).chain(time).chain(missing);
    all.flat_map(|line| [line, "\n".to_owned()]).collect()
}

/// Converts a time to the standard library's type.
pub(in crate::cmd) fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.get())
}
