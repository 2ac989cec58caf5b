// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a study of preemption costs: finer charges, and limited preemption.

use corehop_report::cost_study;
use corehop_sched::study::cost::{CostStudy, CostStudyError};
use serde_json::json;

use super::StudyRequest;
use crate::answer::Answer;
use crate::failure::{Exit, Failure};

/// Runs the study.
pub(super) fn run(args: &StudyRequest, study: CostStudy) -> Result<Answer, Failure> {
    refuse(args)?;
    let study = study.with(args.seed, args.sets);
    let costs = &args.forms.costs;
    let source = costs.chosen()?.source;
    let selected = source.as_ref().map(|source| source.selected(&costs.choice));
    let selected = selected.transpose()?;
    let costs = selected.as_ref().map(|selected| selected.costs.as_ref() as _);
    let outcome = study.run(costs).map_err(|error| {
        let exit =
            if matches!(error, CostStudyError::NoCosts) { Exit::Usage } else { Exit::Damaged };
        Failure::new(exit, error)
    })?;
    let json = json!({
        "id": study.id,
        "seed": study.seed,
        "sets": study.sets,
        "readings": outcome.readings,
    });
    let sentence = format!(
        "{} task sets, seed {}, were charged for preemptions in {} ways.",
        study.sets,
        study.seed,
        outcome.readings.len()
    );
    let text = cost_study::text(&study, &outcome);
    Ok(Answer { sentence, json, text, exit: Exit::Done })
}

/// Rejects options that do not apply to a study of preemption costs.
fn refuse(args: &StudyRequest) -> Result<(), Failure> {
    let given = [
        ("--shard", args.shard.is_some()),
        ("--threads", args.threads.is_some()),
        ("--output", args.forms.output.is_some()),
        ("--page", args.forms.page.is_some()),
        ("--picture", args.forms.picture.is_some()),
    ];
    let Some((name, _)) = given.into_iter().find(|it| it.1) else { return Ok(()) };
    let what =
        format!("omit {name}: a study of preemption costs runs as a whole and prints its result");
    Err(Failure::says(Exit::Usage, what))
}
