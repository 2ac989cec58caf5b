// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first screen of a placer's log shows the result of the placer and the progress in each
//! trial.

use corehop_decide::placer::log::{PlacementFindings, TrialJudgement};
use corehop_decide::placer::trial::TrialVerdict;

use super::front::{MOST_LINES, PageFront, WordedChart, WordedLine};
use super::placement::sentence;

/// Makes the first screen of a placer's log with this title and the given facts.
pub(super) fn front(title: String, answer: &PlacementFindings, facts: Vec<String>) -> PageFront {
    PageFront {
        title,
        answer: sentence(answer),
        chart: trials(answer),
        next: Some((
            "corehop place --progress SOURCE PID".to_owned(),
            "tries the placement, and keeps the placement only if the program makes faster progress.",
        )),
        everything: "corehop report LOG.jsonl --table text".to_owned(),
        facts,
        ..PageFront::default()
    }
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
        under: String::new(),
        lines,
    })
}
