// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop check study` of what preemptions cost: finer charges, and limited preemption.

use corehop_report::cost_study;
use corehop_sched::study::cost::{CostStudy, CostStudyError};
use serde_json::json;

use super::CountOptions;
use crate::output::either;
use corehop_app::failure::{Exit, Failure};

/// Runs the study and prints the result.
pub(super) fn run(args: &CountOptions, study: CostStudy) -> Result<Exit, Failure> {
    refuse(args)?;
    let study = study.with(args.seed, args.sets);
    let costs = &args.shown.costs;
    let source = costs.chosen()?.source;
    let selected = source.as_ref().map(|source| source.selected(&costs.selection()));
    let selected = selected.transpose()?;
    let costs = selected.as_ref().map(|selected| selected.costs.as_ref() as _);
    let outcome = study.run(costs).map_err(|error| {
        let exit =
            if matches!(error, CostStudyError::NoCosts) { Exit::Usage } else { Exit::Damaged };
        Failure::new(exit, error)
    })?;
    let json = args.shown.json.then(|| {
        json!({
            "id": study.id,
            "seed": study.seed,
            "sets": study.sets,
            "readings": outcome.readings,
        })
    });
    let sentence = format!(
        "{} task sets, seed {}, were charged for preemptions in {} ways.",
        study.sets,
        study.seed,
        outcome.readings.len()
    );
    either(&sentence, json.as_ref(), || cost_study::text(&study, &outcome))?;
    Ok(Exit::Done)
}

/// Options that do not apply to such a study.
fn refuse(args: &CountOptions) -> Result<(), Failure> {
    let given = [
        ("--shard", args.shard.is_some()),
        ("--threads", args.threads.is_some()),
        ("--output", args.shown.output.is_some()),
        ("--page", args.shown.page.is_some()),
        ("--picture", args.shown.picture.is_some()),
    ];
    let Some((name, _)) = given.into_iter().find(|it| it.1) else { return Ok(()) };
    let what = format!("{name}: a study of preemption costs runs as a whole and prints its result");
    Err(Failure::says(Exit::Usage, what))
}
