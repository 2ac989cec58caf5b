// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gains that were fitted to one machine, and their predictions, as text.

use super::figure::FigureTable;
use super::table::plain;
use corehop_plan::workload::gang::Placing;
use corehop_stats::machine_gain::{
    FittedForm, Form, GainLaw, GainSubject, MachineGain, PredictedRatio, PredictionErrors,
};

/// Returns the fitted forms with their errors, and the limits of the predictions.
pub fn fitted(gain: &MachineGain) -> String {
    let caption = format!(
        "{}; run time {} over {}; errors as factors on the measurements left out of the fit: typical, largest (rows)",
        gain.source(),
        gain.near,
        gain.far
    );
    let mut table = FigureTable::new(
        caption,
        &["form", "a program left out", "a size left out", "ratio", "answers"],
    );
    table.rows = gain.forms.iter().map(|it| row(it, gain.taken)).collect();
    plain(&table) + &taken(gain) + &limits(gain)
}

fn row(it: &FittedForm, taken: Form) -> Vec<String> {
    let errors = |judged: &Option<PredictionErrors>| {
        judged.as_ref().map_or_else(
            || "–".to_owned(),
            |it| format!("{:.2}, {:.2} ({})", it.mean, it.worst, it.rows),
        )
    };
    let law = match it.law {
        GainLaw::Counts(model) => model.to_string(),
        GainLaw::Lines { each } => format!("lines of {each:.2} line times each"),
    };
    let answers = if it.form == taken { "yes" } else { "" };
    vec![it.form.to_string(), errors(&it.by_program), errors(&it.by_size), law, answers.to_owned()]
}

fn taken(gain: &MachineGain) -> String {
    let judged = gain.form(gain.taken).and_then(FittedForm::judged);
    judged.map_or_else(String::new, |model| {
        format!(
            "The form `{}` answers. With each {} left out in turn ({}), the typical error of the form was a factor of {:.2}. The next case is within a factor of {:.2} with a probability of {:.2}.\n",
            gain.taken, model.left_out, model.groups, model.mean, model.bound, model.level
        )
    })
}

/// Returns sentences about the limits of a fitted gain.
fn limits(gain: &MachineGain) -> String {
    let counted = gain.rows.iter().any(|it| it.inputs.mpmi.is_some());
    let mut text = String::new();
    if !counted {
        text += "No misses were counted on this machine, so SMR and MPmI alone give no answer.\n";
    }
    if gain.crowding.is_none() {
        text += "All data fitted into the caches near and far: data that do not fit were not measured.\n";
    }
    if gain.near == Placing::Same {
        text += "Near means one CPU: busy threads that share no data take turns there.\n";
    }
    text
}

/// Returns the prediction for the given threads as a sentence.
pub fn predicted_in_words(gain: &MachineGain, asked: &GainSubject, it: &PredictedRatio) -> String {
    let (what, says) = (words(asked), says(it));
    format!("{what}: the run time {} over {} is {says}.", gain.near, gain.far)
}

/// Returns the prediction for the given threads, as text.
pub fn predicted(gain: &MachineGain, asked: &GainSubject, it: &PredictedRatio) -> String {
    let by = it.by.map_or_else(|| "measured".to_owned(), |form| format!("by `{form}`"));
    let (what, says) = (words(asked), says(it));
    format!("{what}: run time {} over {} {says}, {by}\n{}\n", gain.near, gain.far, gain.source())
}

/// Returns the threads of a question, in words.
fn words(asked: &GainSubject) -> String {
    match asked {
        GainSubject::Program { program, items, sharing } => {
            format!("{program}, {items} items, {sharing}")
        }
        GainSubject::Counts { smr, mpmi } => format!("SMR {smr}, MPmI {mpmi}"),
    }
}

/// Returns a ratio with its interval or its bound, as a clause.
fn says(it: &PredictedRatio) -> String {
    let number =
        |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |it| format!("{it:.3}"));
    match (it.ratio, it.low, it.high) {
        (Some(ratio), Some(low), Some(high)) => {
            let level =
                it.level.map_or_else(String::new, |it| format!(" with a probability of {it:.2}"));
            format!("{ratio:.3} [{low:.3}, {high:.3}]{level}")
        }
        (None, Some(low), None) => format!("at least {low:.3}"),
        (None, None, Some(high)) => format!("at most {high:.3}"),
        _ => number(it.ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::gang::Sharing;

    fn told(ratio: Option<f64>, low: Option<f64>, high: Option<f64>, level: Option<f64>) -> String {
        says(&PredictedRatio { ratio, low, high, level, by: None, replicates: None })
    }

    #[test]
    fn a_ratio_has_an_interval_or_a_bound_or_is_unknown() {
        let (mid, low, high) = (Some(0.8), Some(0.7), Some(0.95));
        assert_eq!(
            told(mid, low, high, Some(0.9)),
            "0.800 [0.700, 0.950] with a probability of 0.90"
        );
        assert_eq!(told(mid, low, high, None), "0.800 [0.700, 0.950]");
        assert_eq!(told(None, low, None, None), "at least 0.700");
        assert_eq!(told(None, None, high, None), "at most 0.950");
        assert_eq!(told(mid, None, high, None), "0.800");
        assert_eq!(told(None, low, high, None), "unknown");
    }

    #[test]
    fn a_question_is_named_by_its_program_or_its_counts() {
        let program = GainSubject::Program {
            program: "queue".to_owned(),
            items: 100,
            sharing: Sharing::Write,
        };
        assert_eq!(words(&program), "queue, 100 items, write");
        assert_eq!(words(&GainSubject::Counts { smr: 0.5, mpmi: 120.0 }), "SMR 0.5, MPmI 120");
    }
}
