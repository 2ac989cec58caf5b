// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first screen of a placer's log shows the result of the placer and the progress in each
//! trial.

use corehop_decide::placer::log::{PlacementFindings, TrialJudgement};
use corehop_decide::placer::trial::TrialVerdict;

use super::front::{MOST_LINES, PageFront, SurenessCheck, WordedChart, WordedLine};
use super::placement::sentence;

/// Makes the first screen of a placer's log, with this title, the command that prints the complete log, and facts.
pub(super) fn front(
    title: String,
    everything: &str,
    answer: &PlacementFindings,
    facts: Vec<String>,
) -> PageFront {
    PageFront {
        title,
        answer: sentence(answer),
        checks: checks(answer),
        chart: trials(answer),
        next: Some((
            "corehop place --progress SOURCE PID".to_owned(),
            "tries the placement, and keeps the placement only if the program makes faster progress.",
        )),
        everything: everything.to_owned(),
        facts,
        ..PageFront::default()
    }
}

/// Returns a check whether each trial ended with a verdict.
fn checks(answer: &PlacementFindings) -> Vec<SurenessCheck> {
    let (all, lost) =
        (answer.trials.len(), answer.trials.iter().filter(|it| has_no_result(it)).count());
    let text = format!("{} of {all} trials have a result", all - lost);
    if all == 0 { Vec::new() } else { vec![SurenessCheck::new(lost == 0, text)] }
}

fn has_no_result(trial: &TrialJudgement) -> bool {
    matches!(trial.verdict, TrialVerdict::Invalid { .. })
}

/// Returns a chart of each trial that has a verdict, which compares the progress in the trial with
/// the progress before.
fn trials(answer: &PlacementFindings) -> Option<WordedChart> {
    let line = |(at, it): (usize, &TrialJudgement)| {
        let (TrialVerdict::Better(of) | TrialVerdict::Worse(of) | TrialVerdict::Same(of)) =
            &it.verdict
        else {
            return None;
        };
        let words = format!("placement {}, compared with before", at + 1);
        Some(WordedLine { words, value: of.ratio, ends: Some((of.low, of.high)), group: 0 })
    };
    let lines: Vec<WordedLine> =
        answer.trials.iter().enumerate().filter_map(line).take(MOST_LINES).collect();
    (!lines.is_empty()).then(|| WordedChart {
        quantity: "progress with the placement, as a multiple of progress before".to_owned(),
        unit: "times",
        point: "ratio",
        level: 0.95,
        under: String::new(),
        lines,
    })
}
