// SPDX-License-Identifier: MIT OR Apache-2.0
//! The errors of a form on programs and sizes that it was not fitted to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::FittedForm;
use super::laws::{Form, Law};
use super::question::between;
use super::rows::GainRow;
use crate::words::words;

words! {
    /// What a form was not fitted to.
    LeftOut, "something left out" {
        /// A program, in all its sizes.
        Program = "program",
        /// A size of a program, between two others.
        Size = "size",
    }
}

/// The errors of predictions, as factors: 1.25 is a fifth too little or a quarter too much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// What was left out at a time.
    pub left_out: LeftOut,
    /// How many were.
    pub groups: usize,
    /// The predicted rows.
    pub rows: usize,
    /// The typical error: the exponential of the mean of the logarithms.
    pub mean: f64,
    /// The largest error of a row.
    pub worst: f64,
    /// The largest error of the next one is no more than this with probability `level`: the errors of what was left out,
    /// each the largest of its rows and to the far end of their intervals, in order.
    pub bound: f64,
    /// That probability: with n left out no more than n / (n + 1) can be said.
    pub level: f64,
}

/// The aimed-at probability of intervals.
const LEVEL: f64 = 0.95;

/// The prediction of a row by a form that has not seen it.
struct Unseen<'a> {
    row: &'a GainRow,
    group: String,
    ratio: f64,
}

/// All forms that the rows determine, with their errors.
pub(super) fn judged(rows: &[GainRow], crowding: Option<f64>) -> Vec<FittedForm> {
    let all: Vec<&GainRow> = rows.iter().collect();
    let fitted = |&form: &Form| {
        let law = form.fit(&all, crowding)?;
        // A law without its inputs says nothing.
        rows.iter().any(|it| law.ratio(&it.inputs, crowding).is_some()).then_some((form, law))
    };
    let laws: Vec<(Form, Law)> = Form::ALL.iter().filter_map(fitted).collect();
    // Only rows that all of them predict compare them.
    let is_common =
        |it: &&GainRow| laws.iter().all(|(_, law)| law.ratio(&it.inputs, crowding).is_some());
    let common: Vec<&GainRow> = rows.iter().filter(is_common).collect();
    let rows = if common.is_empty() { all } else { common };
    let errors = |form, left_out| {
        let groups = grouped(&rows, left_out);
        let unseen = groups
            .iter()
            .map(|(name, group)| unseen(form, &rows, (name, group), left_out, crowding));
        let unseen: Vec<Unseen<'_>> =
            unseen.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
        Judged::of(left_out, &unseen)
    };
    let judged = |(form, law)| FittedForm {
        form,
        law,
        by_program: errors(form, LeftOut::Program),
        by_size: errors(form, LeftOut::Size),
    };
    laws.into_iter().map(judged).collect()
}

/// The form that is off least, on programs or else on sizes.
pub(super) fn best(forms: &[FittedForm]) -> Option<Form> {
    let off = |it: &FittedForm| it.judged().map(|judged| judged.mean);
    let judged = forms.iter().filter_map(|it| Some((it.form, off(it)?)));
    judged.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(form, _)| form)
}

fn grouped<'a>(rows: &[&'a GainRow], by: LeftOut) -> BTreeMap<String, Vec<&'a GainRow>> {
    let mut groups: BTreeMap<String, Vec<&GainRow>> = BTreeMap::new();
    for it in rows {
        let name = match by {
            LeftOut::Program => it.program.clone(),
            LeftOut::Size => format!("{} {} {}", it.program, it.parameters, it.items),
        };
        groups.entry(name).or_default().push(it);
    }
    groups
}

/// The predictions of a group from the others; None where the others do not determine the form.
fn unseen<'a>(
    form: Form,
    rows: &[&'a GainRow],
    (name, group): (&str, &[&'a GainRow]),
    by: LeftOut,
    crowding: Option<f64>,
) -> Option<Vec<Unseen<'a>>> {
    let others: Vec<&GainRow> = rows
        .iter()
        .filter(|it| !group.iter().any(|out| std::ptr::eq(*out, **it)))
        .copied()
        .collect();
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
        Some(Unseen { row, group: name.to_owned(), ratio: law.ratio(&inputs, crowding)? })
    };
    Some(group.iter().filter_map(of).collect())
}

impl Judged {
    fn of(left_out: LeftOut, unseen: &[Unseen<'_>]) -> Option<Self> {
        let mut groups: BTreeMap<&str, f64> = BTreeMap::new();
        for it in unseen {
            let worst = groups.entry(&it.group).or_default();
            *worst = worst.max(it.farthest());
        }
        let mut bounds: Vec<f64> = groups.into_values().collect();
        bounds.sort_by(f64::total_cmp);
        let n = bounds.len();
        let off: Vec<f64> = unseen.iter().map(|it| (it.ratio / it.row.ratio).ln().abs()).collect();
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

impl Unseen<'_> {
    /// The error as a logarithm, to the far end of the row's interval where it has one.
    fn farthest(&self) -> f64 {
        let row = self.row;
        let ends = [Some(row.ratio), row.low, row.high];
        ends.into_iter().flatten().map(|end| (self.ratio / end).ln().abs()).fold(0.0, f64::max)
    }
}
