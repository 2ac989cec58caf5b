// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses studies of preemption costs from TOML, with the choices that other studies also have.

use serde::Deserialize;
use toml::Table;

use super::{CostReading, CostStudy, TestPair};
use crate::catalogue::{self, Suffers, Test};
use crate::limited::remedy::Limit;
use crate::study::StudyError;
use crate::study::law::TaskLaws;
use crate::study::text::{CapsText, caps, combined};
use corehop_plan::bounds;
use corehop_plan::workload::task::MOST_CPUS;

/// The TOML table that marks a study of preemption costs.
const SIZES: &str = "working_sets";

/// The largest working set in KiB; the costs of sizes are looked up one by one.
const MOST_KIB: u64 = 1 << 16;

#[derive(Deserialize)]
struct CostStudyPreamble {
    id: String,
    title: String,
    #[serde(default = "one")]
    seed: u64,
    sets: u64,
    #[serde(default)]
    choices: Table,
}

fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostStudyText {
    cpus: u32,
    caps: CapsText,
    tasks: TaskLaws,
    working_sets: Working,
    #[serde(default)]
    costs: Each,
    #[serde(default)]
    compare: Table,
    #[serde(default)]
    limit: Vec<Limit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Working {
    log_uniform_kib: [u64; 2],
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Each {
    us_per_kib: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ComparedTests {
    test: String,
    against: String,
}

impl CostStudy {
    /// Whether a description is a study of preemption costs, because it states working sets.
    pub fn is_described(text: &str) -> bool {
        text.parse::<Table>().is_ok_and(|table| table.contains_key(SIZES))
    }

    /// Parses a description.
    ///
    /// # Errors
    /// Returns [`StudyError`], which says what is wrong and what is expected.
    pub fn parse(text: &str) -> Result<Self, StudyError> {
        let form = |error: toml::de::Error| {
            StudyError::Form(error.to_string().trim_end().replace('\n', " "))
        };
        let mut table: Table = bounds::from_toml(text).map_err(form)?;
        let head: CostStudyPreamble = table.clone().try_into().map_err(form)?;
        for known in ["id", "title", "seed", "sets", "choices"] {
            table.remove(known);
        }
        let read = |(name, table): (String, Table)| {
            let inside = format!(", reading {name}");
            let body: CostStudyText = table.try_into().map_err(form)?;
            reading(name, body).map_err(|what| StudyError::Sense { reading: inside, what })
        };
        let readings = combined(table, &head.choices)?.into_iter().map(read);
        let readings = readings.collect::<Result<_, _>>()?;
        if head.sets == 0 {
            let what = "sets is 0: expected at least 1".to_owned();
            return Err(StudyError::Sense { reading: String::new(), what });
        }
        let CostStudyPreamble { id, title, seed, sets, .. } = head;
        Ok(Self { id, title, seed, sets, readings })
    }
}

fn reading(name: String, body: CostStudyText) -> Result<CostReading, String> {
    let CostStudyText {
        cpus, tasks, working_sets: Working { log_uniform_kib: sizes }, limit, ..
    } = body;
    if cpus == 0 || cpus > MOST_CPUS {
        return Err(format!("cpus is {cpus}: expected 1 to {MOST_CPUS}"));
    }
    let [low, high] = sizes;
    if low == 0 || low > high || high > MOST_KIB {
        return Err(format!(
            "{SIZES}.log_uniform_kib is {low} to {high}: expected the lower first, 1 to {MOST_KIB}"
        ));
    }
    if let Some(each) = body.costs.us_per_kib.filter(|each| !each.is_finite() || *each <= 0.0) {
        return Err(format!("costs.us_per_kib is {each}: expected a number above zero"));
    }
    if body.compare.is_empty() && limit.is_empty() {
        return Err("expected compare, limit, or both".to_owned());
    }
    let compared = body.compare.into_iter().map(|(name, value)| {
        let within = |what: String| format!("compare.{name}: {what}");
        let pair: ComparedTests =
            value.try_into().map_err(|error: toml::de::Error| within(error.message().into()))?;
        let test = |name: &str| preempted(name).map_err(within);
        let (test, against) = (test(&pair.test)?, test(&pair.against)?);
        Ok(TestPair { name, test, against })
    });
    Ok(CostReading {
        name,
        cpus,
        caps: caps(body.caps, cpus)?,
        generator: tasks.generator().map_err(|what| format!("tasks: {what}"))?,
        wss_kib: sizes,
        us_per_kib: body.costs.us_per_kib,
        compared: compared.collect::<Result<_, String>>()?,
        limits: limit,
    })
}

/// Finds a test whose scheduler preempts jobs and does not migrate them.
fn preempted(name: &str) -> Result<&'static Test, String> {
    let test = catalogue::test(name).map_err(|error| error.to_string())?;
    let stays = matches!(test.suffers, Suffers::Nothing | Suffers::Preemptions);
    let why = "the test lets jobs migrate, but the study has only the cost of preemptions";
    stays.then_some(test).ok_or_else(|| format!("{name}: {why}"))
}
