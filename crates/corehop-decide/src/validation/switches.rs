// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares published tables of core switches with the simulated machine.

use serde::Deserialize;

use super::aim::ErrorLimits;
use super::printed_number::{ErrorLaw, PrintedNumber};
use super::sheet::{
    JudgementRole, MarkedRows, PrintedQuantity, QuantityErrors, Sheet, ValidationRow, numbers_of,
    role_among,
};
use super::table_text::lines;
use super::{Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described};
use corehop_plan::experiment::{CoreSwitch, Experiment, ExperimentError, Plan};
use corehop_plan::machine::rows_of;
use corehop_plan::platform::{Fact, Latency, Platform};
use corehop_plan::workload::switching::SwitchMechanism;
use corehop_sim::SimMachine;
use corehop_stats::switches::Switchings;

/// The unit of the values, which is also the name of the judged quantity.
const UNIT: &str = "ns";

/// A published table of core switches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchStudy {
    /// The name of the study.
    pub id: String,
    /// The title of the printed table, with its source.
    pub title: String,
    /// The platform ID of the table's first row. Each row names its own platform.
    pub platform: String,
    /// The number of layouts of the kernel's code over which each value is the median.
    pub samples: u32,
    /// The largest errors that the study accepts.
    pub limits: ErrorLimits,
    /// The rows that do not judge the simulation, with their roles.
    #[serde(default)]
    pub marked: Vec<MarkedRows<SwitchRows>>,
    /// The printed rows, which come from a separate file.
    #[serde(skip)]
    pub printed: Vec<SwitchRow>,
}

/// A selection of rows from a table of core switches.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRows {
    /// The platform ID of the selected rows; `None` selects all platforms.
    #[serde(default)]
    pub platform: Option<String>,
    /// The mechanisms of the selected rows; empty selects all mechanisms.
    #[serde(default)]
    pub mechanisms: Vec<SwitchMechanism>,
    /// The wake-up time of every core in the selected rows, in cycles; 0 also selects rows with the
    /// platform's own wake-up time.
    #[serde(default)]
    pub wake_up: u64,
}

impl SwitchRows {
    pub(super) fn has(&self, row: &SwitchRow) -> bool {
        let is_mechanism = self.mechanisms.is_empty() || self.mechanisms.contains(&row.mechanism);
        let is_platform = self.platform.as_ref().is_none_or(|platform| *platform == row.platform);
        is_platform && is_mechanism && self.wake_up == row.wake_up.unwrap_or(0)
    }
}

/// One printed value of a core switch.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchRow {
    /// The platform ID of the row.
    pub platform: String,
    /// The mechanism of the switch.
    pub mechanism: SwitchMechanism,
    /// The wake-up time of every core, in cycles; `None` for the platform's own.
    pub wake_up: Option<u64>,
    /// The duration of a call, in nanoseconds.
    pub value: PrintedNumber,
}

impl SwitchRow {
    /// The platform with the row's wake-up time; `None` if there is no such platform.
    pub(super) fn machine(&self) -> Option<Platform> {
        let mut platform = Platform::named(&self.platform)?.ok()?;
        if let Some(cycles) = self.wake_up {
            let wake_up = Fact::cited(Latency::cycles(cycles), "Strong et al. 2009, section 7.2");
            platform.core.wake_up = Some(wake_up);
        }
        Some(platform)
    }

    fn name(&self) -> String {
        let Self { platform, mechanism, wake_up, .. } = self;
        let late = wake_up.filter(|&cycles| cycles > 0);
        let after = late.map_or_else(String::new, |cycles| format!(", awake after {cycles}"));
        format!("{platform} {mechanism}{after}")
    }
}

impl SwitchStudy {
    /// Parses a study from its description and its table.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError`], which names the problem and its place.
    pub fn new(description: &str, table: &str) -> Result<Self, PublishedStudyError> {
        let mut study: Self = described(description)?;
        for line in lines(table, &["platform", "mechanism", "wake_up_cycles", "value"])? {
            let row = SwitchRow {
                platform: line.cell("platform").to_owned(),
                mechanism: line.word("mechanism")?,
                wake_up: match line.cell("wake_up_cycles") {
                    "" => None,
                    _ => Some(line.number("wake_up_cycles")? as u64),
                },
                value: line.word("value")?,
            };
            if row.machine().is_none() {
                return Err(line.wrong(format!("`{}` is not a platform", row.platform)));
            }
            study.printed.push(row);
        }
        Ok(study)
    }

    /// The plan behind a row: one timed call after some other calls, in several layouts of the
    /// code.
    pub(super) fn plan(
        row: &SwitchRow,
        platform: &Platform,
        seed: u64,
        samples: u32,
    ) -> Result<Plan, ExperimentError> {
        let experiment = CoreSwitch::one_call(vec![row.mechanism], samples);
        experiment.replicated(platform, seed, samples)
    }

    /// The simulated duration of a call.
    fn simulated(row: &SwitchRow, seed: u64, samples: u32) -> Result<Option<f64>, ValidationError> {
        let Some(platform) = row.machine() else { return Ok(None) };
        let plan = Self::plan(row, &platform, seed, samples)?;
        let mut switchings = Switchings::default();
        switchings.take(&rows_of(&mut SimMachine::new(platform)?, &plan)?.switches);
        let summaries = switchings.finish();
        let same = summaries.iter().find(|it| it.mechanism == row.mechanism);
        Ok(same.map(|it| it.mean_ns.estimate))
    }
}

impl PublishedStudy for SwitchStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    fn numbers(&self) -> Vec<(JudgementRole, &str)> {
        numbers_of(&self.marked)
    }

    /// Working set sizes do not restrict this study, because its values are about calls.
    fn narrow(&mut self, _: &[u64]) -> bool {
        false
    }

    /// Each row names its own chip.
    fn is_of_one_machine(&self) -> bool {
        false
    }

    /// Each row is simulated on the platform that it names.
    fn judge(&self, _: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        let samples = lab.samples(self.samples);
        let mut rows = Vec::new();
        for row in &self.printed {
            let simulated = Self::simulated(row, lab.seed, samples.have)?;
            rows.push(ValidationRow {
                what: PrintedQuantity::Point { name: row.name() },
                quantity: Some(UNIT),
                printed: row.value.value,
                simulated,
                n: None,
                printed_n: None,
                role: role_among(&self.marked, |rows: &SwitchRows| rows.has(row)),
                error: simulated.map(|simulated| ErrorLaw::Relative.error(row.value, simulated)),
            });
        }
        let quantities = vec![QuantityErrors::new(UNIT, ErrorLaw::Relative, Some(self.limits))];
        Ok(Sheet::judged(self.head(), (samples, "layouts a value"), rows, quantities))
    }
}
