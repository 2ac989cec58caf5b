// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop validate`: the claims of the studies.

use std::collections::BTreeMap;
use std::fmt::Write;

use corehop_core::machine::rows_of;
use corehop_core::model::verdict::TestOutcome;
use corehop_core::samples::Sample;
use corehop_core::validation::claims::{self, ClaimStudy, Tested};
use corehop_core::validation::tables::Study;
use serde_json::{Value, json};

use super::{Args, described, machine, simulate};
use crate::exit::{Exit, Failure};

/// The samples of simulated tables, by study.
#[derive(Debug, Default)]
pub(super) struct Simulated(BTreeMap<String, Vec<Sample>>);

impl Simulated {
    /// The samples of a table, simulated on first use.
    pub(super) fn of(&mut self, study: &Study, args: &Args) -> Result<&[Sample], Failure> {
        if !self.0.contains_key(&study.id) {
            self.0.insert(study.id.clone(), simulate(study, args)?);
        }
        Ok(&self.0[&study.id])
    }
}

/// Tests the claims of a study.
pub(super) fn test(
    study: &ClaimStudy,
    args: &Args,
    simulated: &mut Simulated,
) -> Result<Vec<Tested>, Failure> {
    let platform = described(args.on.as_deref().unwrap_or(&study.platform))?;
    for id in &study.tables {
        let Some(table) = Study::named(id) else { continue };
        let table = table.map_err(|error| Failure::new(Exit::Damaged, error))?;
        let samples = args.samples.unwrap_or(table.samples);
        simulated.of(&Study { samples, ..table }, args)?;
    }
    let tables: Vec<&[Sample]> =
        study.tables.iter().filter_map(|id| simulated.0.get(id)).map(Vec::as_slice).collect();
    let mut of_study = claims::Simulated { tables, ..claims::Simulated::default() };
    for plan in study.plans(&platform, args.seed)? {
        of_study.plans.push(rows_of(&mut machine(platform.clone(), args)?, &plan)?);
    }
    study.test(&platform, &of_study).map_err(|error| Failure::new(Exit::Failed, error))
}

pub(super) fn text(study: &ClaimStudy, tested: &[Tested]) -> String {
    let mut text = format!("{} ({})\n", study.title, study.platform);
    for it in tested {
        let expected = it.expected.map_or_else(
            || {
                format!(
                    "compared: {}",
                    if it.found == TestOutcome::Holds { "agrees" } else { "differs" }
                )
            },
            |expected| {
                let differs = if it.is_missed() { ", NOT as printed" } else { "" };
                format!("printed: {}, simulated: {}{differs}", word(expected), word(it.found))
            },
        );
        let _ = writeln!(text, "{}\n    {expected}\n    {}", it.claim, it.evidence);
    }
    let judged = tested.iter().filter(|it| it.expected.is_some()).count();
    let missed = tested.iter().filter(|it| it.is_missed()).count();
    let _ = writeln!(text, "{} of {judged} claims come out as printed\n", judged - missed);
    text
}

const fn word(outcome: TestOutcome) -> &'static str {
    match outcome {
        TestOutcome::Holds => "holds",
        TestOutcome::DoesNot => "does not hold",
        TestOutcome::CannotTell => "cannot tell",
    }
}

pub(super) fn json(study: &ClaimStudy, tested: &[Tested]) -> Value {
    json!({
        "study": study.id,
        "title": study.title,
        "platform": study.platform,
        "claims": tested,
        "missed": tested.iter().filter(|it| it.is_missed()).count(),
    })
}
