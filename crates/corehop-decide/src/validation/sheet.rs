// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a study: printed and simulated values side by side, and the errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::StudyHeading;
use super::aim::{Aim, ClassConcordance, ErrorLimits, ErrorQuantiles, Samples};
use super::printed_number::ErrorLaw;
use corehop_plan::words::words;
use corehop_plan::workload::Event;
use corehop_stats::verdict::TestOutcome;

/// The result of validating one study.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    /// The name of the study.
    pub id: String,
    /// The title of the printed table, with its source.
    pub title: String,
    /// The ID of the platform on which the study was measured.
    pub platform: String,
    /// The source of each value, for example `64 samples a cell`; `None` for claims.
    pub basis: Option<String>,
    /// The numbers of samples of each value; `None` for claims.
    pub samples: Option<u32>,
    /// The printed values with their simulated counterparts.
    pub rows: Vec<ValidationRow>,
    /// The quantities that occur in the rows.
    pub quantities: Vec<QuantityErrors>,
    /// The results of verbal claims.
    pub claims: Vec<Tested>,
}

/// A printed value and its simulated counterpart.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationRow {
    /// The quantity of the value.
    pub what: PrintedQuantity,
    /// The name of the quantity with which the value is judged; `None` for values that are only shown.
    pub quantity: Option<&'static str>,
    /// The value in print.
    pub printed: f64,
    /// The simulated value; `None` if the simulation had too few misses.
    pub simulated: Option<f64>,
    /// The number of samples, if it differs between rows.
    pub n: Option<usize>,
    /// The number of samples behind the printed value, to which the simulated value is extrapolated.
    pub printed_n: Option<u32>,
    /// The role of the value in the judgement.
    pub role: JudgementRole,
    /// The error of the simulated value, by the law of its quantity.
    pub error: Option<f64>,
}

words! {
    /// The role of a printed value in the judgement of a study.
    JudgementRole, "a part in the judgement" {
        /// The value judges the simulation.
        Judged = "judged",
        /// The value shows an effect that is not simulated. The value still judges the simulation, but has a mark, and
        /// no number is fitted on the value.
        NotModelled = "not_modelled",
        /// A number was fitted on the value, so the value cannot judge.
        Fitted = "fitted",
        /// A model or a setting was chosen with the value in view, so the value cannot judge.
        Chosen = "chosen",
        /// Another study contains the value, and judges the simulation with the value.
        Repeated = "repeated",
    }
}

impl JudgementRole {
    /// Whether a row with this role judges the simulation.
    pub const fn judges(self) -> bool {
        matches!(self, Self::Judged | Self::NotModelled)
    }

    /// The mark of a row with this role; empty for a judged row.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Judged => "",
            Self::NotModelled => "not modelled",
            Self::Fitted => "fitted",
            Self::Chosen => "chosen on",
            Self::Repeated => "of another study",
        }
    }
}

#[expect(clippy::derivable_impls, reason = "words! marks no default")]
impl Default for JudgementRole {
    fn default() -> Self {
        Self::Judged
    }
}

/// Rows of a study that do not simply judge, and the reason.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarkedRows<S> {
    /// The role of these rows.
    pub role: JudgementRole,
    /// The selection of rows.
    pub rows: S,
    /// The free parameters that were fitted on these rows.
    #[serde(default)]
    pub numbers: Vec<String>,
    /// The reason for the role, for readers.
    #[serde(default)]
    pub why: String,
}

/// The parameters that were fitted or chosen on marked rows, with the role of each.
pub(super) fn numbers_of<S>(marked: &[MarkedRows<S>]) -> Vec<(JudgementRole, &str)> {
    let mut all = Vec::new();
    for it in marked {
        all.extend(it.numbers.iter().map(|number| (it.role, number.as_str())));
    }
    all
}

/// The role of a row: the role of the first marked selection that contains the row.
pub(super) fn role_among<S>(
    marked: &[MarkedRows<S>],
    is_among: impl Fn(&S) -> bool,
) -> JudgementRole {
    let found = marked.iter().find(|it| is_among(&it.rows));
    found.map_or(JudgementRole::Judged, |it| it.role)
}

words! {
    /// A statistic of the delays of a cell.
    PrintedStatistic, "a statistic" {
        /// The mean of the delays.
        Average = "avg",
        /// The largest delay of the cell.
        Maximum = "max",
        /// The standard deviation of the delays.
        Deviation = "std",
    }
}

/// The kind of a printed value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PrintedQuantity {
    /// A cell of a table of costs, in microseconds.
    Cost {
        /// The event whose cost the cell states.
        event: Event,
        /// The label of the preemption length.
        preemption_length: String,
        /// The statistic that the cell states.
        statistic: PrintedStatistic,
        /// The working-set size in KiB.
        wss_kib: u64,
    },
    /// A single printed value.
    Point {
        /// The name of the value.
        name: String,
    },
    /// A value in a table of gangs.
    Gang {
        /// The keyword of the program.
        program: &'static str,
        /// The size of the program's data.
        items: u64,
        /// The program's other parameters.
        parameters: String,
        /// The quantity of the value.
        quantity: GangQuantity,
    },
}

words! {
    /// The quantity in a table of gangs.
    GangQuantity, "a quantity of gangs" {
        /// The run time below a common cache divided by the run time on two packages.
        RuntimeRatio = "runtime_ratio",
        /// With the threads on two packages, the share of last-level cache misses that the other package answered.
        SmrSeparate = "smr_separate",
        /// With the threads below a common cache, the last-level cache misses per million instructions.
        MpmiShared = "mpmi_shared",
        /// With the threads on two packages, the last-level cache misses per million instructions.
        MpmiSeparate = "mpmi_separate",
        /// With the threads on two packages, the last-level cache misses that the other package answered, in millions.
        Snoops = "snoops_million",
        /// With the threads on two packages, the last-level cache misses, in millions.
        Misses = "misses_million",
    }
}

impl GangQuantity {
    /// Returns the error law of this quantity.
    pub const fn law(self) -> ErrorLaw {
        match self {
            Self::RuntimeRatio => ErrorLaw::Gain,
            Self::SmrSeparate => ErrorLaw::Difference,
            _ => ErrorLaw::Relative,
        }
    }
}

impl PrintedStatistic {
    /// Returns the error law of this statistic; maxima are compared by factor.
    pub const fn law(self) -> ErrorLaw {
        match self {
            Self::Maximum => ErrorLaw::Factor,
            Self::Average | Self::Deviation => ErrorLaw::Relative,
        }
    }
}

impl ValidationRow {
    /// Returns whether the value's error counts towards `quantity`.
    pub fn is_of(&self, quantity: &QuantityErrors) -> bool {
        self.quantity == Some(quantity.word)
    }

    /// Returns the row as JSON; costs carry their unit.
    pub fn json(&self) -> Value {
        let mut row = json!(self.what);
        let unit = if matches!(self.what, PrintedQuantity::Cost { .. }) { "_us" } else { "" };
        row[format!("printed{unit}")] = json!(self.printed);
        row[format!("simulated{unit}")] = json!(self.simulated);
        row["role"] = json!(self.role);
        row["error"] = json!(self.error);
        if let Some(n) = self.n {
            row["n"] = json!(n);
        }
        if let Some(n) = self.printed_n {
            row["printed_n"] = json!(n);
        }
        row
    }
}

/// A quantity of a study, and the errors of its values.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantityErrors {
    /// The keyword of the quantity, or its unit.
    pub word: &'static str,
    /// The error law of the quantity.
    pub law: ErrorLaw,
    /// The accepted errors, if there is a goal.
    pub limits: Option<ErrorLimits>,
    /// The errors of judged rows.
    pub judged: Option<ErrorQuantiles>,
    /// The errors of rows by role.
    pub by_role: BTreeMap<JudgementRole, ErrorQuantiles>,
    /// Whether events or kernels are simulated in the printed order, if that was tested.
    pub order: Option<ClassConcordance>,
    /// The order of pairs whose printed values are close, which judges nothing.
    pub near: Option<ClassConcordance>,
    /// Whether the goal is reached.
    pub aim: Option<Aim>,
}

impl QuantityErrors {
    /// A quantity whose errors are not computed yet.
    pub(super) const fn new(
        word: &'static str,
        law: ErrorLaw,
        limits: Option<ErrorLimits>,
    ) -> Self {
        let by_role = BTreeMap::new();
        Self { word, law, limits, judged: None, by_role, order: None, near: None, aim: None }
    }

    /// Returns the quantity as JSON.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "quantity": self.word, "errors": self.law, "limits": self.limits, "judged": self.judged, "aim": self.aim,
            "by_role": self.by_role,
        });
        if let Some(order) = self.order {
            value["order"] = json!(order);
        }
        if let Some(near) = self.near {
            value["near"] = json!(near);
        }
        value
    }
}

impl Sheet {
    /// The sheet of a study, with `quantities` judged. `each` names what a value is computed from, such as `samples a
    /// cell`.
    pub(super) fn judged(
        head: StudyHeading<'_>,
        (samples, each): (Samples, &str),
        rows: Vec<ValidationRow>,
        quantities: Vec<QuantityErrors>,
    ) -> Self {
        let judge = |mut it: QuantityErrors| {
            it.judged = errors(&rows, &it, JudgementRole::judges);
            let of = |&role| Some((role, errors(&rows, &it, |other| other == role)?));
            it.by_role = JudgementRole::ALL.iter().filter_map(of).collect();
            it.aim =
                it.limits.map(|limits| Aim::of(it.judged, it.order, (it.law, limits), samples));
            it
        };
        let quantities = quantities.into_iter().map(judge).collect();
        let (samples, basis) = (Some(samples.have), Some(format!("{} {each}", samples.have)));
        Self { basis, samples, rows, quantities, ..Self::of_claims(head, Vec::new()) }
    }

    /// The sheet of verbal claims.
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

    /// Whether a goal is missed or not judged, or a claim differs from the printed finding.
    pub fn is_missed(&self) -> bool {
        let mut aims = self.quantities.iter().filter_map(|it| it.aim.as_ref());
        aims.any(Aim::is_open) || self.claims.iter().any(Tested::is_missed)
    }
}

/// The errors of `quantity` among the `rows` with some roles. Returns `None` if no row has one of the roles.
pub(super) fn errors(
    rows: &[ValidationRow],
    quantity: &QuantityErrors,
    is_wanted: impl Fn(JudgementRole) -> bool,
) -> Option<ErrorQuantiles> {
    let wanted = rows.iter().filter(|row| is_wanted(row.role) && row.is_of(quantity));
    ErrorQuantiles::over(wanted.map(|row| row.error.unwrap_or(f64::INFINITY)).collect())
}

/// A claim and its result on the simulated machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tested {
    /// The text of the claim.
    pub claim: String,
    /// The printed finding; `None` if only a length is compared.
    pub expected: Option<TestOutcome>,
    /// The finding in simulation.
    pub found: TestOutcome,
    /// The numbers behind the simulated finding.
    pub evidence: String,
}

impl Tested {
    /// Whether the result differs from the printed finding, or is undecided.
    pub fn is_missed(&self) -> bool {
        self.expected.is_some_and(|expected| expected != self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: StudyHeading<'static> = StudyHeading { id: "x", title: "t", platform: "p" };
    const ENOUGH: Samples = Samples { have: 8, takes: 8 };

    const LIMITS: ErrorLimits = ErrorLimits { median: 0.2, p90: 0.5, order: 1.0 };

    fn row(error: Option<f64>, role: JudgementRole, quantity: &'static str) -> ValidationRow {
        ValidationRow {
            what: PrintedQuantity::Point { name: "a".to_owned() },
            quantity: Some(quantity),
            printed: 2.0,
            simulated: error.map(|_| 3.0),
            n: Some(8),
            printed_n: None,
            role,
            error,
        }
    }

    fn quantity(word: &'static str, limits: Option<ErrorLimits>) -> QuantityErrors {
        QuantityErrors::new(word, ErrorLaw::Relative, limits)
    }

    #[test]
    fn errors_are_those_of_the_quantity_by_their_part_in_the_judgement() {
        let rows = vec![
            row(Some(0.1), JudgementRole::Judged, "q"),
            row(Some(0.3), JudgementRole::Judged, "q"),
            row(Some(0.2), JudgementRole::NotModelled, "q"),
            row(Some(0.5), JudgementRole::Fitted, "q"),
            row(Some(0.7), JudgementRole::Chosen, "q"),
            row(Some(0.8), JudgementRole::Repeated, "q"),
            row(Some(0.9), JudgementRole::Judged, "other"),
            ValidationRow { quantity: None, ..row(Some(0.9), JudgementRole::Judged, "q") },
        ];
        let quantities = vec![quantity("q", Some(LIMITS)), quantity("none", None)];
        let sheet = Sheet::judged(HEAD, (ENOUGH, "samples a cell"), rows, quantities);
        let of = |role| sheet.quantities[0].by_role.get(&role).map(|it| (it.rows, it.median));
        let judged = sheet.quantities[0].judged.unwrap();
        assert_eq!((judged.rows, judged.median, judged.p90), (3, 0.2, 0.3));
        assert_eq!(
            [JudgementRole::Judged, JudgementRole::NotModelled, JudgementRole::Fitted].map(of),
            [Some((2, 0.2)), Some((1, 0.2)), Some((1, 0.5))]
        );
        assert_eq!(
            [JudgementRole::Chosen, JudgementRole::Repeated].map(of),
            [Some((1, 0.7)), Some((1, 0.8))]
        );
        let none = &sheet.quantities[1];
        assert!(none.judged.is_none() && none.by_role.is_empty() && none.aim.is_none());
        assert_eq!((sheet.basis.as_deref(), sheet.samples), (Some("8 samples a cell"), Some(8)));
        assert!(!sheet.is_missed());
    }

    #[test]
    fn a_row_that_nothing_was_simulated_for_is_a_miss() {
        let rows = vec![
            row(Some(0.0), JudgementRole::Judged, "q"),
            row(None, JudgementRole::Judged, "q"),
            row(None, JudgementRole::Judged, "q"),
        ];
        let sheet = Sheet::judged(HEAD, (ENOUGH, "x"), rows, vec![quantity("q", Some(LIMITS))]);
        let judged = sheet.quantities[0].judged.unwrap();
        assert_eq!((judged.rows, judged.missing), (3, 2));
        assert!(judged.median.is_infinite() && sheet.is_missed());
        assert_eq!(sheet.quantities[0].json()["judged"]["median"], Value::Null);
    }

    #[test]
    fn a_sheet_is_missed_by_an_aim_or_by_a_claim_that_came_out_otherwise() {
        let judged = |error, samples| {
            let rows = vec![row(Some(error), JudgementRole::Judged, "q")];
            let quantities = vec![quantity("q", Some(LIMITS))];
            Sheet::judged(HEAD, (samples, "x"), rows, quantities).is_missed()
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
    fn a_row_states_its_unit_its_part_and_its_numbers_where_it_has_some() {
        let mut point = row(Some(0.5), JudgementRole::Fitted, "q");
        assert_eq!(
            point.json(),
            json!({"name": "a", "printed": 2.0, "simulated": 3.0, "role": "fitted", "error": 0.5, "n": 8})
        );
        (point.role, point.n, point.printed_n) = (JudgementRole::NotModelled, None, Some(5_000));
        point.what = PrintedQuantity::Cost {
            event: Event::Preemption,
            preemption_length: "l".to_owned(),
            statistic: PrintedStatistic::Maximum,
            wss_kib: 4,
        };
        assert_eq!(
            point.json(),
            json!({
                "event": "preemption", "preemption_length": "l", "statistic": "max", "wss_kib": 4, "printed_us": 2.0,
                "simulated_us": 3.0, "role": "not_modelled", "error": 0.5, "printed_n": 5000
            })
        );
        let none = row(None, JudgementRole::Judged, "q").json();
        assert!(none["simulated"].is_null() && none["error"].is_null());
    }

    #[test]
    fn the_first_marked_rows_say_the_part_of_a_row() {
        let marked =
            |role, rows| MarkedRows { role, rows, numbers: Vec::new(), why: String::new() };
        let all =
            [marked(JudgementRole::Fitted, vec![1, 2]), marked(JudgementRole::Chosen, vec![2, 3])];
        let role = |row: i32| role_among(&all, |rows| rows.contains(&row));
        assert_eq!(
            [1, 2, 3, 4].map(role),
            [
                JudgementRole::Fitted,
                JudgementRole::Fitted,
                JudgementRole::Chosen,
                JudgementRole::Judged
            ]
        );
        let judges = JudgementRole::ALL.iter().filter(|role| role.judges()).count();
        assert_eq!((judges, JudgementRole::default().mark()), (2, ""));
    }
}
