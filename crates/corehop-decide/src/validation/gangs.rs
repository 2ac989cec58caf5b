// SPDX-License-Identifier: MIT OR Apache-2.0
//! Published tables of threads with common data against the simulated machine.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::aim::ErrorLimits;
use super::printed_number::PrintedNumber;
use super::sheet::{
    GangQuantity, JudgementRole, MarkedRows, PrintedQuantity, QuantityErrors, Sheet, Tested,
    ValidationRow, numbers_of, role_among,
};
use super::table_text::lines;
use super::{Lab, PublishedStudy, PublishedStudyError, StudyHeading, ValidationError, described};
use corehop_plan::experiment::{Experiment, ExperimentError, Plan, SharedData};
use corehop_plan::machine::rows_of;
use corehop_plan::platform::Platform;
use corehop_plan::units::CpuList;
use corehop_plan::workload::gang::{Channel, GangProgram, Placing, Sharing};
use corehop_sim::SimMachine;
use corehop_stats::gangs::{SharingSummary, Sharings};
use corehop_stats::verdict::TestOutcome;

/// A table of gangs, and how it came about.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangStudy {
    /// Its name.
    pub id: String,
    /// The printed table, with its source.
    pub title: String,
    /// The platform it was measured on, by id.
    pub platform: String,
    /// The number of runs that a row is the mean of.
    pub samples: u32,
    /// The number of rounds of each thread in a run.
    pub rounds: u64,
    /// The number of rounds of both in the printed runs; where counts are printed.
    #[serde(default)]
    pub printed_rounds: Option<f64>,
    /// The way threads share their data.
    pub sharing: Sharing,
    /// See [`GangProgram::Swap`].
    #[serde(default)]
    pub fixed_low_bits: bool,
    /// See [`GangProgram::Exchange`].
    #[serde(default)]
    pub instructions: u32,
    /// The quantities that judge, each with the errors that are aimed at.
    pub limits: BTreeMap<GangQuantity, ErrorLimits>,
    /// The rows with another part than to judge.
    #[serde(default)]
    pub marked: Vec<MarkedRows<GangRows>>,
    /// Claims in words: that programs gain nothing below a common cache.
    #[serde(default)]
    pub no_gain: Vec<NoGainClaim>,
    /// The printed rows; they come from a file of their own.
    #[serde(skip)]
    pub printed: Vec<GangRow>,
}

/// A claim that a program gains nothing below a common cache.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoGainClaim {
    /// The claim, with its place in print.
    pub claim: String,
    /// The program.
    pub program: GangProgram,
    /// The least ratio of run times that is no gain.
    pub least_ratio: f64,
}

impl NoGainClaim {
    /// The claim beside what the plan came to.
    fn test(&self, summaries: &[SharingSummary]) -> Tested {
        let summary = summaries.iter().find(|it| is_of(&self.program, it));
        let ratio = summary.and_then(|it| it.runtime_ratio);
        let found = match ratio {
            None => TestOutcome::CannotTell,
            Some(ratio) if ratio >= self.least_ratio => TestOutcome::Holds,
            Some(_) => TestOutcome::DoesNot,
        };
        let ratio = ratio.map_or_else(|| "no ratio".to_owned(), |ratio| format!("{ratio:.2}"));
        Tested {
            claim: format!("{}, {} items", self.claim, self.program.items()),
            expected: Some(TestOutcome::Holds),
            found,
            evidence: format!(
                "the run time is {ratio} of that on two packages; no gain is {} or more",
                self.least_ratio
            ),
        }
    }
}

/// Whether a summary is of a program.
fn is_of(program: &GangProgram, summary: &SharingSummary) -> bool {
    summary.program == program.word()
        && summary.items == program.items()
        && summary.parameters == program.parameters()
}

/// Some rows of a table of gangs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangRows {
    /// Of this quantity.
    pub quantity: GangQuantity,
    /// Of these sizes; of all where none is named.
    #[serde(default)]
    pub items: Vec<u64>,
}

impl GangRows {
    fn has(&self, row: &GangRow) -> bool {
        let is_size = self.items.is_empty() || self.items.contains(&row.program.items());
        self.quantity == row.quantity && is_size
    }
}

/// A printed value.
#[derive(Debug, Clone, PartialEq)]
pub struct GangRow {
    /// The program.
    pub program: GangProgram,
    /// The quantity.
    pub quantity: GangQuantity,
    /// The printed value.
    pub value: PrintedNumber,
}

impl GangStudy {
    /// A study from its description and its table.
    ///
    /// # Errors
    /// [`PublishedStudyError`] says what is wrong where.
    pub fn new(description: &str, table: &str) -> Result<Self, PublishedStudyError> {
        let mut study: Self = described(description)?;
        for line in lines(table, &["program", "items", "quantity", "value"])? {
            let items = line.number("items")? as u64;
            let program = match line.cell("program") {
                "swap" => GangProgram::Swap { items, fixed_low_bits: study.fixed_low_bits },
                "bucket-sort" => {
                    GangProgram::BucketSort { items, buckets: line.number("buckets")? as u32 }
                }
                "linear-regression" => GangProgram::LinearRegression { items },
                "exchange" => GangProgram::Exchange {
                    items,
                    instructions: study.instructions,
                    through: Channel::Memory,
                },
                other => return Err(line.wrong(format!("`{other}` is not a program"))),
            };
            let (quantity, value) = (line.word("quantity")?, line.word("value")?);
            study.printed.push(GangRow { program, quantity, value });
        }
        Ok(study)
    }

    /// The plan behind the table.
    ///
    /// # Errors
    /// If `platform` has no two packages, or a program is impossible.
    pub(super) fn plan(
        &self,
        platform: &Platform,
        seed: u64,
        samples: u32,
    ) -> Result<Plan, ExperimentError> {
        let mut programs: Vec<GangProgram> = Vec::new();
        let claimed = self.no_gain.iter().map(|it| &it.program);
        for program in self.printed.iter().map(|row| &row.program).chain(claimed) {
            if !programs.contains(program) {
                programs.push(program.clone());
            }
        }
        let experiment = SharedData {
            programs,
            sharings: vec![self.sharing],
            placings: vec![Placing::Shared, Placing::Separate],
            threads: 2,
            rounds: Some(self.rounds),
            steps: None,
            samples,
            replicates: 1,
            cpus: CpuList::default(),
        };
        experiment.plan(platform, seed)
    }

    /// Joins the printed rows with what the plan came to.
    pub(super) fn join(&self, summaries: &[SharingSummary]) -> Vec<ValidationRow> {
        let joined = |row: &GangRow| {
            let (program, items) = (row.program.word(), row.program.items());
            let parameters = row.program.parameters();
            let same = |it: &&SharingSummary| is_of(&row.program, it);
            let simulated = summaries.iter().find(same).and_then(|it| self.value(row, it));
            let quantity = row.quantity;
            ValidationRow {
                what: PrintedQuantity::Gang { program, items, parameters, quantity },
                quantity: Some(quantity.word()),
                printed: row.value.value,
                simulated,
                n: None,
                printed_n: None,
                role: role_among(&self.marked, |rows: &GangRows| rows.has(row)),
                error: simulated.map(|simulated| quantity.law().error(row.value, simulated)),
            }
        };
        self.printed.iter().map(joined).collect()
    }

    /// The value of a gang.
    fn value(&self, row: &GangRow, it: &SharingSummary) -> Option<f64> {
        let (shared, separate) = (it.shared?, it.separate?);
        let misses = || Some(separate.misses_a_round? * self.printed_rounds? / 1e6);
        match row.quantity {
            GangQuantity::RuntimeRatio => it.runtime_ratio,
            GangQuantity::SmrSeparate => separate.smr,
            GangQuantity::MpmiShared => shared.mpmi,
            GangQuantity::MpmiSeparate => separate.mpmi,
            GangQuantity::Snoops => Some(misses()? * separate.smr.unwrap_or(0.0)),
            GangQuantity::Misses => misses(),
        }
    }
}

impl PublishedStudy for GangStudy {
    fn head(&self) -> StudyHeading<'_> {
        StudyHeading { id: &self.id, title: &self.title, platform: &self.platform }
    }

    fn numbers(&self) -> Vec<(JudgementRole, &str)> {
        numbers_of(&self.marked)
    }

    /// Its values are about whole programs.
    fn narrow(&mut self, _: &[u64]) -> bool {
        false
    }

    fn judge(&self, platform: &Platform, lab: &mut Lab) -> Result<Sheet, ValidationError> {
        let mut samples = lab.samples(self.samples);
        samples.have = samples.have.min(self.samples);
        let plan = self.plan(platform, lab.seed, samples.have)?;
        let mut sharings = Sharings::default();
        sharings.take(&rows_of(&mut SimMachine::new(platform.clone())?, &plan)?.shared_data);
        let summaries = sharings.finish();
        let rows = self.join(&summaries);
        let claims = self.no_gain.iter().map(|it| it.test(&summaries)).collect();
        let judged = |&it: &GangQuantity| {
            QuantityErrors::new(it.word(), it.law(), self.limits.get(&it).copied())
        };
        let has = |it: &QuantityErrors| rows.iter().any(|row| row.is_of(it));
        let quantities = GangQuantity::ALL.iter().map(judged).filter(has).collect();
        let sheet = Sheet::judged(self.head(), (samples, "runs a value"), rows, quantities);
        Ok(Sheet { claims, ..sheet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_stats::gangs::GangOutcome;

    const DESCRIPTION: &str = r#"
        id = "made-up"
        title = "x"
        platform = "xeon_e5520"
        samples = 1
        rounds = 100
        printed_rounds = 1000000.0
        sharing = "write"
        [limits.runtime_ratio]
        median = 0.1
        p90 = 0.25
        [[marked]]
        role = "fitted"
        rows = { quantity = "mpmi_shared", items = [100] }
        numbers = ["one"]
    "#;
    const TABLE: &str = "program,items,buckets,quantity,value\n\
        swap,100,,runtime_ratio,0.5\nswap,100,,smr_separate,0.9\nswap,100,,mpmi_shared,20\n\
        swap,100,,misses_million,4\nbucket-sort,100,8,runtime_ratio,0.4\n";

    #[test]
    fn ratios_are_off_by_their_gain_shares_by_their_difference_and_counts_in_proportion() {
        let study = GangStudy::new(DESCRIPTION, TABLE).unwrap();
        let side = |mpmi, smr, misses_a_round| GangOutcome {
            runs: 1,
            round_ns: 1.0,
            least_ns: 1.0,
            line_ns: None,
            mpmi: Some(mpmi),
            smr,
            misses_a_round: Some(misses_a_round),
        };
        let summary = SharingSummary {
            machine: "x".to_owned(),
            program: "swap".to_owned(),
            items: 100,
            parameters: String::new(),
            sharing: Sharing::Write,
            threads: Some(2),
            shared: Some(side(0.0, None, 0.0)),
            separate: Some(side(100.0, Some(1.0), 3.0)),
            same: None,
            moved: None,
            ratio_interval: None,
            replicates: None,
            predicted_ratio: None,
            runtime_ratio: Some(0.55),
        };
        let claim = |program: &str, least_ratio| {
            let description = format!(
                "{DESCRIPTION}\n[[no_gain]]\nclaim = \"none\"\nprogram = {program}\nleast_ratio = {least_ratio}"
            );
            let study = GangStudy::new(&description, TABLE).unwrap();
            let tested = study.no_gain[0].test(std::slice::from_ref(&summary));
            (tested.found, tested.is_missed())
        };
        let swap = "{ kind = \"swap\", items = 100, fixed_low_bits = false }";
        assert_eq!(claim(swap, 0.55), (TestOutcome::Holds, false));
        assert_eq!(claim(swap, 0.56), (TestOutcome::DoesNot, true));
        let other = "{ kind = \"linear-regression\", items = 100 }";
        assert_eq!(claim(other, 0.1), (TestOutcome::CannotTell, true));
        let rows = study.join(&[summary]);
        let errors: Vec<Option<f64>> = rows.iter().map(|row| row.error).collect();
        // Printed are 0.5 (a gain of half), 0.9, 20 and 4, each give or take half of its last digit. Of 20 there is nothing.
        for (error, by_hand) in errors.iter().zip([0.0, 0.05, 0.975, 0.125]) {
            assert!((error.unwrap() - by_hand).abs() < 1e-12, "{errors:?}");
        }
        assert_eq!(errors[4], None);
        assert_eq!(
            rows.iter().map(|row| row.role).collect::<Vec<_>>()[1..3],
            [JudgementRole::Judged, JudgementRole::Fitted]
        );
    }

    #[test]
    fn a_table_that_is_wrong_says_where() {
        let wrong = |table: &str| GangStudy::new(DESCRIPTION, table).unwrap_err().to_string();
        assert!(wrong("program,items,buckets,quantity,value\nsort,1,,x,2").contains("line 2"));
        assert!(wrong("program,items,buckets,quantity\nswap,4,,smr_separate").contains("`value`"));
    }
}
