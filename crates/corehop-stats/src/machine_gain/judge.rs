// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of a form on programs and sizes to which it was not fitted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::FittedForm;
use super::laws::{Form, GainLaw};
use super::question::between;
use super::rows::GainRow;
use corehop_plan::words::words;
use corehop_plan::workload::gang::Sharing;

words! {
    /// The kind of rows that is left out of a fit.
    LeftOut, "something left out" {
        /// The rows of one program, at all its sizes, were excluded from the fit.
        Program = "program",
        /// The rows of one size of a program, between two other sizes, were excluded from the fit.
        Size = "size",
    }
}

/// The errors of predictions, as factors: 1.25 means a fifth too low or a quarter too high.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionErrors {
    /// The kind of rows that was left out of each fit.
    pub left_out: LeftOut,
    /// The number of groups that were left out, one at a time.
    pub groups: usize,
    /// The number of rows that were predicted from other rows.
    pub rows: usize,
    /// The typical error: the exponential of the mean absolute logarithm.
    pub mean: f64,
    /// The largest error of any row.
    pub worst: f64,
    /// A bound of the largest error in a further group, which holds with probability `level`; it follows from the order
    /// of the groups' largest errors.
    pub bound: f64,
    /// The probability of the bound; with n groups it cannot exceed n / (n + 1).
    pub level: f64,
}

/// The probability with which an interval should contain the true value.
const LEVEL: f64 = 0.95;

/// The prediction of a row by a form that was fitted without the row.
struct CrossPrediction<'a> {
    row: &'a GainRow,
    group: String,
    ratio: f64,
}

/// Returns all forms that the rows determine, each with its errors.
pub(super) fn judged(rows: &[GainRow], crowding: Option<f64>) -> Vec<FittedForm> {
    let all: Vec<&GainRow> = rows.iter().collect();
    let fitted = |&form: &Form| {
        let law = form.fit(&all, crowding)?;
        // A law without its inputs says nothing.
        let shares = |it: &&GainRow| it.sharing == Sharing::Write;
        let mut written = rows.iter().filter(shares);
        written.any(|it| law.ratio(&it.inputs, crowding).is_some()).then_some((form, law))
    };
    let laws: Vec<(Form, GainLaw)> = Form::ALL.iter().filter_map(fitted).collect();
    // Only rows that all of them predict compare them. The twins with private data would flatter all alike.
    let predicts = |it: &GainRow, law: GainLaw| law.ratio(&it.inputs, crowding).is_some();
    let is_common = |it: &&&GainRow| {
        it.sharing != Sharing::None && laws.iter().all(|&(_, law)| predicts(it, law))
    };
    let judged: Vec<&GainRow> = all.iter().filter(is_common).copied().collect();
    let errors = |form, left_out| {
        let groups = grouped(&judged, left_out);
        let unseen = groups
            .iter()
            .map(|(name, group)| unseen(form, &all, (name, group), left_out, crowding));
        let unseen: Vec<CrossPrediction<'_>> =
            unseen.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
        PredictionErrors::of(left_out, &unseen)
    };
    let fitted = |(form, law)| FittedForm {
        form,
        law,
        by_program: errors(form, LeftOut::Program),
        by_size: errors(form, LeftOut::Size),
    };
    laws.iter().copied().map(fitted).collect()
}

/// Returns the form with the smallest errors on programs, or else on sizes.
pub(super) fn best(forms: &[FittedForm]) -> Option<Form> {
    let off = |it: &FittedForm| it.judged().map(|judged| judged.mean);
    let judged = forms.iter().filter_map(|it| Some((it.form, off(it)?)));
    judged.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(form, _)| form)
}

fn grouped<'a>(rows: &[&'a GainRow], by: LeftOut) -> BTreeMap<String, Vec<&'a GainRow>> {
    let mut groups: BTreeMap<String, Vec<&GainRow>> = BTreeMap::new();
    for it in rows {
        groups.entry(name_of(it, by)).or_default().push(it);
    }
    groups
}

/// Returns the program of a row, or the program with the size.
fn name_of(it: &GainRow, by: LeftOut) -> String {
    match by {
        LeftOut::Program => it.program.clone(),
        LeftOut::Size => format!("{} {} {}", it.program, it.parameters, it.items),
    }
}

/// Returns the predictions of a group from the other groups, or `None` if they do not determine the form.
fn unseen<'a>(
    form: Form,
    rows: &[&'a GainRow],
    (name, group): (&str, &[&'a GainRow]),
    by: LeftOut,
    crowding: Option<f64>,
) -> Option<Vec<CrossPrediction<'a>>> {
    // The twins of what is left out are left out too.
    let others: Vec<&GainRow> = rows.iter().filter(|it| name_of(it, by) != name).copied().collect();
    if others.is_empty() {
        return None;
    }
    let law = form.fit(&others, crowding)?;
    let of = |&row: &&'a GainRow| {
        // Of a size that was not measured the counts and times are those between its neighbours.
        let inputs = match by {
            LeftOut::Program => row.inputs,
            LeftOut::Size => between(&others, row)?,
        };
        Some(CrossPrediction { row, group: name.to_owned(), ratio: law.ratio(&inputs, crowding)? })
    };
    Some(group.iter().filter_map(of).collect())
}

impl PredictionErrors {
    fn of(left_out: LeftOut, unseen: &[CrossPrediction<'_>]) -> Option<Self> {
        let mut groups: BTreeMap<&str, f64> = BTreeMap::new();
        for it in unseen {
            let worst = groups.entry(&it.group).or_default();
            *worst = worst.max(it.off());
        }
        let mut bounds: Vec<f64> = groups.into_values().collect();
        bounds.sort_by(f64::total_cmp);
        let n = bounds.len();
        let off: Vec<f64> = unseen.iter().map(CrossPrediction::off).collect();
        let rank = ((LEVEL * (n + 1) as f64).ceil() as usize).min(n);
        Some(Self {
            left_out,
            groups: n,
            rows: off.len(),
            mean: (off.iter().sum::<f64>() / off.len() as f64).exp(),
            worst: off.iter().copied().fold(0.0, f64::max).exp(),
            bound: bounds.get(rank.checked_sub(1)?)?.exp(),
            level: rank as f64 / (n + 1) as f64,
        })
    }
}

impl CrossPrediction<'_> {
    /// Returns the error as the absolute value of a logarithm. The error includes the noise of the row, because the
    /// next measured ratio will include such noise too.
    fn off(&self) -> f64 {
        (self.ratio / self.row.ratio).ln().abs()
    }
}
