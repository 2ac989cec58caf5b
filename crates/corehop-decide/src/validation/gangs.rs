// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares published tables of threads that share data with the simulated machine.

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

/// A published table of gangs, and the experiment behind it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangStudy {
    /// The name of the study.
    pub id: String,
    /// The title of the printed table, with its source.
    pub title: String,
    /// The ID of the platform on which the table was measured.
    pub platform: String,
    /// The number of runs averaged in each row.
    pub samples: u32,
    /// The number of rounds of each thread in a run.
    pub rounds: u64,
    /// The number of rounds of both threads in the printed runs, if counts are printed.
    #[serde(default)]
    pub printed_rounds: Option<f64>,
    /// The way in which the threads share their data.
    pub sharing: Sharing,
    /// The value of the field `fixed_low_bits` in [`GangProgram::Swap`].
    #[serde(default)]
    pub fixed_low_bits: bool,
    /// The value of the field `instructions` in [`GangProgram::Exchange`].
    #[serde(default)]
    pub instructions: u32,
    /// The judged quantities, each with its accepted errors.
    pub limits: BTreeMap<GangQuantity, ErrorLimits>,
    /// The rows that do not judge the simulation, with their roles.
    #[serde(default)]
    pub marked: Vec<MarkedRows<GangRows>>,
    /// Verbal claims that programs gain nothing from a common cache.
    #[serde(default)]
    pub no_gain: Vec<NoGainClaim>,
    /// The printed rows, which come from a separate file.
    #[serde(skip)]
    pub printed: Vec<GangRow>,
}

/// A claim that a program gains nothing below a common cache.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoGainClaim {
    /// The claim, with its place in print.
    pub claim: String,
    /// The program that the claim is about.
    pub program: GangProgram,
    /// The smallest ratio of run times that counts as no gain.
    pub least_ratio: f64,
}

impl NoGainClaim {
    /// Compares the claim with the simulated result.
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
                "the run time on one package is {ratio} of the run time on two packages; a ratio of {} or more is no gain",
                self.least_ratio
            ),
        }
    }
}

/// Whether a summary belongs to a program.
fn is_of(program: &GangProgram, summary: &SharingSummary) -> bool {
    summary.program == program.word()
        && summary.items == program.items()
        && summary.parameters == program.parameters()
}

/// A selection of rows from a table of gangs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangRows {
    /// The quantity of the selected rows.
    pub quantity: GangQuantity,
    /// The sizes of the selected rows; empty selects all sizes.
    #[serde(default)]
    pub items: Vec<u64>,
}

impl GangRows {
    fn has(&self, row: &GangRow) -> bool {
        let is_size = self.items.is_empty() || self.items.contains(&row.program.items());
        self.quantity == row.quantity && is_size
    }
}

/// One printed value of a gang.
#[derive(Debug, Clone, PartialEq)]
pub struct GangRow {
    /// The program that was run.
    pub program: GangProgram,
    /// The quantity that is printed.
    pub quantity: GangQuantity,
    /// The number in print.
    pub value: PrintedNumber,
}

impl GangStudy {
    /// Parses a study from its description and its table.
    ///
    /// # Errors
    /// Returns [`PublishedStudyError`], which names the problem and its place.
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
    /// Returns an error if `platform` has fewer than two packages, or a program is impossible.
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

    /// Combines the printed rows with the simulated results.
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

    /// The simulated value for a printed row.
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

    /// Working set sizes do not restrict this study, because its values are about whole programs.
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
