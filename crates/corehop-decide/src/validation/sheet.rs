// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a study: printed values beside simulated ones, and the errors.

use serde::Serialize;
use serde_json::{Value, json};

use super::StudyHeading;
use super::aim::{Aim, ClassConcordance, ErrorQuantiles, Samples};
use corehop_plan::words::words;
use corehop_plan::workload::Event;
use corehop_stats::verdict::TestOutcome;

/// The result of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The study's name.
    pub id: String,
    /// The printed table, with its source.
    pub title: String,
    /// The platform it was measured on, by id.
    pub platform: String,
    /// The basis of a value, for instance `64 samples a cell`; None for claims.
    pub basis: Option<String>,
    /// The samples of each value; none for claims.
    pub samples: Option<u32>,
    /// The printed values.
    pub rows: Vec<ValidationRow>,
    /// The quantities among them.
    pub quantities: Vec<QuantityErrors>,
    /// Claims in words.
    pub claims: Vec<Tested>,
}

/// A printed value and what the simulation has for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationRow {
    /// The quantity.
    pub what: PrintedQuantity,
    /// The quantity that it is judged with; none for what is only shown.
    pub quantity: Option<&'static str>,
    /// The printed value.
    pub printed: f64,
    /// The simulated value; None without enough misses.
    pub simulated: Option<f64>,
    /// Over how many samples, where that differs from row to row.
    pub n: Option<usize>,
    /// The part it has in the judgement.
    pub role: JudgementRole,
    /// Its error, as its quantity states it.
    pub error: Option<f64>,
}

/// The part that a printed value has in the judgement of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JudgementRole {
    /// The simulation is held against it.
    #[default]
    Judged,
    /// A parameter was fitted on it: it cannot judge.
    Fitted,
    /// It tells of an effect that is not simulated. It is shown with its error, counted beside the judged ones, and nothing
    /// is fitted on it.
    NotModelled,
}

impl JudgementRole {
    /// Of a value that a parameter was fitted on, or was not.
    pub(super) const fn fitted(fitted: bool) -> Self {
        if fitted { Self::Fitted } else { Self::Judged }
    }

    /// The mark of such a row; none of a judged one.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Judged => "",
            Self::Fitted => "fitted",
            Self::NotModelled => "not modelled",
        }
    }
}

/// The kind of a printed value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PrintedQuantity {
    /// A cell of a table of costs, in microseconds.
    Cost {
        /// The event.
        event: Event,
        /// The label of the preemption length.
        preemption_length: String,
        /// `avg`, `max` or `std`.
        statistic: String,
        /// The working-set size in KiB.
        wss_kib: u64,
    },
    /// A single value.
    Point {
        /// Its name.
        name: String,
    },
    /// A value of a gang.
    Gang {
        /// The program, by its word.
        program: &'static str,
        /// The size of its data.
        items: u64,
        /// Its other parameters.
        parameters: String,
        /// The quantity.
        quantity: GangQuantity,
    },
}

words! {
    /// The quantity in a table of gangs.
    GangQuantity, "a quantity of gangs" {
        /// The time below a common cache over that on two packages.
        RuntimeRatio = "runtime_ratio",
        /// Misses that the other package answered, over all, on two packages.
        SmrSeparate = "smr_separate",
        /// Misses per million instructions below a common cache.
        MpmiShared = "mpmi_shared",
        /// The same on two packages.
        MpmiSeparate = "mpmi_separate",
        /// Misses that the other package answered, on two packages, in millions.
        Snoops = "snoops_million",
        /// Misses on two packages, in millions.
        Misses = "misses_million",
    }
}

impl GangQuantity {
    /// Whether errors are plain differences, and not relative to what was printed.
    pub const fn is_share(self) -> bool {
        matches!(self, Self::RuntimeRatio | Self::SmrSeparate)
    }
}

impl ValidationRow {
    /// Whether its error counts among those of `quantity`.
    pub fn is_of(&self, quantity: &QuantityErrors) -> bool {
        self.quantity == Some(quantity.word)
    }

    /// |difference| over the printed value, or over `least` where less was printed.
    pub(super) fn relative(printed: f64, simulated: f64, least: f64) -> f64 {
        (simulated - printed).abs() / printed.abs().max(least)
    }

    /// It as JSON; costs carry their unit.
    pub fn json(&self) -> Value {
        let mut row = json!(self.what);
        let unit = if matches!(self.what, PrintedQuantity::Cost { .. }) { "_us" } else { "" };
        row[format!("printed{unit}")] = json!(self.printed);
        row[format!("simulated{unit}")] = json!(self.simulated);
        row["fitted"] = json!(self.role == JudgementRole::Fitted);
        if self.role == JudgementRole::NotModelled {
            row["not_modelled"] = json!(true);
        }
        row["error"] = json!(self.error);
        if let Some(n) = self.n {
            row["n"] = json!(n);
        }
        row
    }
}

/// A quantity of a study, and how far off its values are.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantityErrors {
    /// Its word, or its unit.
    pub word: &'static str,
    /// Whether errors are relative to what was printed, and not plain differences.
    pub relative: bool,
    /// The median error that is aimed at, if there is an aim.
    pub limit: Option<f64>,
    /// The errors of rows that nothing was fitted on.
    pub judged: Option<ErrorQuantiles>,
    /// The errors of those that a parameter was fitted on.
    pub fitted: Option<ErrorQuantiles>,
    /// The errors of those that tell of nothing that is simulated.
    pub not_modelled: Option<ErrorQuantiles>,
    /// Whether events come in the printed order, where rows have events.
    pub order: Option<ClassConcordance>,
    /// Whether the aim is reached.
    pub aim: Option<Aim>,
}

impl QuantityErrors {
    /// A quantity whose errors are relative and not yet known.
    pub(super) fn new(word: &'static str, limit: Option<f64>) -> Self {
        Self {
            word,
            relative: true,
            limit,
            judged: None,
            fitted: None,
            not_modelled: None,
            order: None,
            aim: None,
        }
    }
}

impl Sheet {
    /// The rows of a study, with `quantities` judged. `each` says what a value stands on: `samples a cell`.
    pub(super) fn judged(
        head: StudyHeading<'_>,
        (samples, each): (Samples, &str),
        rows: Vec<ValidationRow>,
        quantities: Vec<QuantityErrors>,
    ) -> Self {
        let judge = |mut it: QuantityErrors| {
            [it.judged, it.fitted, it.not_modelled] =
                [JudgementRole::Judged, JudgementRole::Fitted, JudgementRole::NotModelled]
                    .map(|role| errors(&rows, &it, role));
            it.aim = it.limit.map(|limit| Aim::of(it.judged, it.order, limit, samples));
            it
        };
        let quantities = quantities.into_iter().map(judge).collect();
        let (samples, basis) = (Some(samples.have), Some(format!("{} {each}", samples.have)));
        Self { basis, samples, rows, quantities, ..Self::of_claims(head, Vec::new()) }
    }

    /// The result of claims.
    pub(super) fn of_claims(head: StudyHeading<'_>, claims: Vec<Tested>) -> Self {
        Self {
            id: head.id.to_owned(),
            title: head.title.to_owned(),
            platform: head.platform.to_owned(),
            basis: None,
            samples: None,
            rows: Vec::new(),
            quantities: Vec::new(),
            claims,
        }
    }

    /// Whether an aim is missed or open, or a claim came out otherwise than printed.
    pub fn is_missed(&self) -> bool {
        let mut aims = self.quantities.iter().filter_map(|it| it.aim.as_ref());
        aims.any(Aim::is_open) || self.claims.iter().any(Tested::is_missed)
    }
}

/// The errors of `quantity` among the `rows` that have this part. None without any.
pub(super) fn errors(
    rows: &[ValidationRow],
    quantity: &QuantityErrors,
    role: JudgementRole,
) -> Option<ErrorQuantiles> {
    let wanted = rows.iter().filter(|row| row.role == role && row.is_of(quantity));
    ErrorQuantiles::over(wanted.filter_map(|row| row.error).collect())
}

/// A claim and what the simulated machine makes of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    /// The claim.
    pub claim: String,
    /// The finding in print; None where a length is only compared.
    pub expected: Option<TestOutcome>,
    /// The finding here.
    pub found: TestOutcome,
    /// The numbers behind it.
    pub evidence: String,
}

impl Tested {
    /// Whether it came out otherwise than printed, or could not be told.
    pub fn is_missed(&self) -> bool {
        self.expected.is_some_and(|expected| expected != self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: StudyHeading<'static> = StudyHeading { id: "x", title: "t", platform: "p" };
    const ENOUGH: Samples = Samples { have: 8, takes: 8 };

    fn row(error: Option<f64>, role: JudgementRole, quantity: &'static str) -> ValidationRow {
        ValidationRow {
            what: PrintedQuantity::Point { name: "a".to_owned() },
            quantity: Some(quantity),
            printed: 2.0,
            simulated: error.map(|_| 3.0),
            n: Some(8),
            role,
            error,
        }
    }

    #[test]
    fn errors_are_those_of_the_quantity_by_their_part_in_the_judgement() {
        let rows = vec![
            row(Some(0.1), JudgementRole::Judged, "q"),
            row(Some(0.3), JudgementRole::Judged, "q"),
            row(None, JudgementRole::Judged, "q"),
            row(Some(0.5), JudgementRole::Fitted, "q"),
            row(Some(0.7), JudgementRole::NotModelled, "q"),
            row(Some(0.9), JudgementRole::Judged, "other"),
        ];
        let quantities =
            vec![QuantityErrors::new("q", Some(0.2)), QuantityErrors::new("none", None)];
        let sheet = Sheet::judged(HEAD, (ENOUGH, "samples a cell"), rows, quantities);
        let medians = |it: &QuantityErrors| {
            [it.judged, it.fitted, it.not_modelled].map(|it| it.map(|it| (it.rows, it.median)))
        };
        assert_eq!(medians(&sheet.quantities[0]), [Some((2, 0.1)), Some((1, 0.5)), Some((1, 0.7))]);
        assert_eq!(medians(&sheet.quantities[1]), [None, None, None]);
        assert_eq!((sheet.basis.as_deref(), sheet.samples), (Some("8 samples a cell"), Some(8)));
        assert!(sheet.quantities[1].aim.is_none() && !sheet.is_missed());
    }

    #[test]
    fn a_sheet_is_missed_by_an_aim_or_by_a_claim_that_came_out_otherwise() {
        let judged = |error, samples| {
            let rows = vec![row(Some(error), JudgementRole::Judged, "q")];
            let quantity = QuantityErrors::new("q", Some(0.2));
            Sheet::judged(HEAD, (samples, "x"), rows, vec![quantity]).is_missed()
        };
        assert_eq!([judged(0.2, ENOUGH), judged(0.21, ENOUGH)], [false, true]);
        assert!(judged(0.1, Samples { have: 7, takes: 8 }));
        let claims = |expected, found| {
            let (claim, evidence) = (String::new(), String::new());
            Sheet::of_claims(HEAD, vec![Tested { claim, expected, found, evidence }]).is_missed()
        };
        let (holds, does_not) = (TestOutcome::Holds, TestOutcome::DoesNot);
        assert_eq!(
            [claims(Some(holds), holds), claims(Some(holds), does_not), claims(None, does_not)],
            [false, true, false]
        );
    }

    #[test]
    fn a_row_states_its_unit_its_part_and_its_number_where_it_has_one() {
        let mut point = row(Some(0.5), JudgementRole::Fitted, "q");
        assert_eq!(
            point.json(),
            json!({"name": "a", "printed": 2.0, "simulated": 3.0, "fitted": true, "error": 0.5, "n": 8})
        );
        (point.role, point.n) = (JudgementRole::NotModelled, None);
        point.what = PrintedQuantity::Cost {
            event: Event::Preemption,
            preemption_length: "l".to_owned(),
            statistic: "avg".to_owned(),
            wss_kib: 4,
        };
        assert_eq!(
            point.json(),
            json!({
                "event": "preemption", "preemption_length": "l", "statistic": "avg", "wss_kib": 4, "printed_us": 2.0,
                "simulated_us": 3.0, "fitted": false, "not_modelled": true, "error": 0.5
            })
        );
    }

    #[test]
    fn an_error_is_relative_to_what_was_printed_or_to_the_least() {
        let relative = ValidationRow::relative;
        for (printed, simulated, least, error) in [
            (4.0, 5.0, 1.0, 0.25),
            (-4.0, -5.0, 1.0, 0.25),
            (0.5, 1.0, 1.0, 0.5),
            (0.0, 3.0, 2.0, 1.5),
        ] {
            assert!((relative(printed, simulated, least) - error).abs() < 1e-12, "{printed}");
        }
        let shares = [GangQuantity::RuntimeRatio, GangQuantity::SmrSeparate];
        assert!(shares.iter().all(|it| it.is_share()) && !GangQuantity::Misses.is_share());
        assert!(JudgementRole::fitted(true) == JudgementRole::Fitted);
        assert_eq!(JudgementRole::default().mark(), "");
    }
}
