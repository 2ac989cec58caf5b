// SPDX-License-Identifier: MIT OR Apache-2.0
//! The published studies that are embedded in the program: the folders of `studies/` that contain one.

use super::claims::ClaimStudy;
use super::gangs::GangStudy;
use super::placements::PlacementStudy;
use super::points::PointStudy;
use super::regression::RegressionStudy;
use super::switches::SwitchStudy;
use super::tables::TableStudy;
use super::throughput::ThroughputStudy;
use super::{PublishedStudy, PublishedStudyError};

macro_rules! file {
    ($id:literal, $name:literal) => {
        include_str!(concat!("../../studies/", $id, "/", $name))
    };
}

/// The name and description of each study.
macro_rules! described {
    ($($id:literal),* $(,)?) => { &[$(($id, file!($id, "study.toml"))),*] };
}

/// The name, description and table of each study.
macro_rules! with_tables {
    ($($id:literal),* $(,)?) => { &[$(($id, file!($id, "study.toml"), file!($id, "table.csv"))),*] };
}

const TABLES: &[(&str, &str, &str)] = with_tables![
    "bastoni-spread",
    "bastoni-table3",
    "bastoni-table4",
    "waechtler-a4",
    "waechtler-a5",
    "waechtler-a6"
];

const POINTS: &[(&str, &str)] = described!["waechtler-5-2", "waechtler-5-3"];

const GANGS: &[(&str, &str, &str)] =
    with_tables!["kamali-3-6", "kamali-4-5", "kamali-4-6", "kamali-4-8", "kamali-5-1"];

const PLACEMENTS: &[(&str, &str)] = described!["kamali-5-3"];

const SWITCHES: &[(&str, &str, &str)] =
    with_tables!["strong-2a", "strong-2b", "strong-3", "strong-5", "strong-6"];

const THROUGHPUTS: &[(&str, &str, &str)] =
    with_tables!["strong-7", "strong-8", "strong-10", "strong-13", "strong-14"];

pub(super) const REGRESSIONS: &[(&str, &str, &str)] = with_tables!["kamali-regression"];

const CLAIMS: &[(&str, &str)] = described![
    "bastoni-fig3",
    "bastoni-fig4",
    "bastoni-claims",
    "bastoni-claim-1",
    "waechtler-claims",
    "waechtler-exclusive",
];

const OF_TASK_SETS: &[(&str, &str)] =
    described!["bastoni-fig5", "delays-by-pair", "limited-preemption"];

/// Returns the description of an embedded study of random task sets, by its name.
#[must_use]
pub fn task_set_study(name: &str) -> Option<&'static str> {
    OF_TASK_SETS.iter().find(|(id, _)| *id == name).map(|(_, description)| *description)
}

/// Returns the names of the embedded studies of random task sets.
pub fn task_set_studies() -> impl Iterator<Item = &'static str> {
    OF_TASK_SETS.iter().map(|(id, _)| *id)
}

/// Returns the embedded studies: tables, single values, tables of gangs, of core switches and of throughput,
/// placements, a regression, and claims.
///
/// # Errors
/// Returns an error if a file is invalid; a test reads all of them.
pub fn all() -> Result<Vec<Box<dyn PublishedStudy>>, PublishedStudyError> {
    let mut all: Vec<Box<dyn PublishedStudy>> = Vec::new();
    for (_, description, table) in TABLES {
        all.push(Box::new(TableStudy::new(description, table)?));
    }
    for (_, description) in POINTS {
        all.push(Box::new(PointStudy::new(description)?));
    }
    for (_, description, table) in GANGS {
        all.push(Box::new(GangStudy::new(description, table)?));
    }
    for (_, description) in PLACEMENTS {
        all.push(Box::new(PlacementStudy::new(description)?));
    }
    for (_, description, table) in SWITCHES {
        all.push(Box::new(SwitchStudy::new(description, table)?));
    }
    for (_, description, table) in THROUGHPUTS {
        all.push(Box::new(ThroughputStudy::new(description, table)?));
    }
    for (_, description, table) in REGRESSIONS {
        all.push(Box::new(RegressionStudy::new(description, table)?));
    }
    for (_, description) in CLAIMS {
        all.push(Box::new(ClaimStudy::new(description)?));
    }
    Ok(all)
}

impl TableStudy {
    /// Returns the embedded table study of this name, if there is one.
    ///
    /// # Errors
    /// Returns an error if its files are invalid; a test reads all of them.
    pub fn named(id: &str) -> Option<Result<Self, PublishedStudyError>> {
        with_table(TABLES, id, Self::new)
    }
}

impl RegressionStudy {
    /// Returns the embedded study of this name, if there is one.
    ///
    /// # Errors
    /// Returns an error if its files are invalid; a test reads all of them.
    pub fn named(id: &str) -> Option<Result<Self, PublishedStudyError>> {
        with_table(REGRESSIONS, id, Self::new)
    }
}

/// Parses the study of this name from its description and its table.
fn with_table<S>(
    list: &[(&str, &str, &str)],
    id: &str,
    new: impl Fn(&str, &str) -> Result<S, PublishedStudyError>,
) -> Option<Result<S, PublishedStudyError>> {
    let (_, description, table) = list.iter().find(|&&(other, ..)| other == id)?;
    Some(new(description, table))
}

impl GangStudy {
    /// Returns the embedded table of this name, if there is one.
    ///
    /// # Errors
    /// Returns an error if its files are invalid; a test reads all of them.
    pub fn named(id: &str) -> Option<Result<Self, PublishedStudyError>> {
        with_table(GANGS, id, Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet::{JudgementRole, role_among};
    use super::super::switches::{SwitchRow, SwitchRows};
    use super::super::tables::Printed;
    use super::super::throughput::ThroughputRow;
    use super::*;
    use corehop_plan::experiment::Experiment;

    #[test]
    fn every_study_of_single_values_can_be_read_and_its_platform_has_its_cpus() {
        for (id, description) in POINTS {
            let study = PointStudy::new(description).unwrap();
            assert_eq!(study.id, *id);
            let platform =
                corehop_plan::platform::Platform::named(&study.platform).unwrap().unwrap();
            for point in &study.points {
                study.experiment(point, 1).plan(&platform, 1).unwrap();
            }
            let names: Vec<&str> = study.points.iter().map(|it| it.name.as_str()).collect();
            let marked = study.marked.iter().flat_map(|it| &it.rows);
            assert!(marked.into_iter().all(|it| names.contains(&it.as_str())), "{id}");
        }
    }

    #[test]
    fn every_study_of_claims_can_be_read_and_names_tables_of_its_platform() {
        for (id, description) in CLAIMS {
            let study = ClaimStudy::new(description).unwrap();
            assert_eq!(study.id, *id);
            let platform =
                corehop_plan::platform::Platform::named(&study.platform).unwrap().unwrap();
            let plans = study.plans(&platform, 1).unwrap().len();
            assert!(plans + study.tables.len() > 0, "{id}");
            for table in &study.tables {
                assert_eq!(TableStudy::named(table).unwrap().unwrap().platform, study.platform);
            }
            assert!(!study.observations.is_empty(), "{id}");
        }
    }

    #[test]
    fn every_study_of_gangs_can_be_read_and_its_platform_has_two_packages() {
        for (id, description, table) in GANGS {
            let study = GangStudy::new(description, table).unwrap();
            assert_eq!(study.id, *id);
            let platform =
                corehop_plan::platform::Platform::named(&study.platform).unwrap().unwrap();
            let plan = study.plan(&platform, 1, 1).unwrap();
            let gangs = plan.gangs().unwrap().gangs.len();
            assert!(gangs > 0 && gangs.is_multiple_of(2), "{id}");
            let rows = study.join(&[]);
            let fitted = rows.iter().filter(|row| row.role == JudgementRole::Fitted).count();
            let is_few = fitted * 2 < rows.len() || !study.no_gain.is_empty() && fitted == 0;
            assert!(is_few, "{id}: {fitted} rows were read from");
        }
    }

    #[test]
    fn every_study_of_core_switches_can_be_read_and_is_fitted_on_half_of_its_rows_at_most() {
        for (id, description, table) in SWITCHES {
            let study = SwitchStudy::new(description, table).unwrap();
            assert_eq!(study.id, *id);
            let of = |row: &&SwitchRow| {
                role_among(&study.marked, |rows: &SwitchRows| rows.has(row))
                    == JudgementRole::Fitted
            };
            let fitted = study.printed.iter().filter(of).count();
            assert!(fitted * 2 <= study.printed.len(), "{id}: {fitted} rows are fitted on");
            for row in &study.printed {
                let platform = row.machine().unwrap();
                SwitchStudy::plan(row, &platform, 1, 1).unwrap().check(&platform).unwrap();
            }
        }
    }

    #[test]
    fn every_study_of_throughput_can_be_read_and_is_fitted_on_few_of_its_rows() {
        for (id, description, table) in THROUGHPUTS {
            let study = ThroughputStudy::new(description, table).unwrap();
            assert_eq!(study.id, *id);
            let marked = |row: &&ThroughputRow| study.marked.iter().any(|it| it.rows.has(row));
            let count = study.printed.iter().filter(marked).count();
            assert!(count * 5 <= study.printed.len(), "{id}: {count} rows do not judge");
            for marked in &study.marked {
                assert!(study.printed.iter().any(|row| marked.rows.has(row)), "{id}: {marked:?}");
            }
        }
    }

    #[test]
    fn every_study_can_be_read_and_fits_its_folder_and_its_platform() {
        for (id, ..) in TABLES {
            let study = TableStudy::named(id).unwrap().unwrap();
            assert_eq!(study.id, *id);
            assert!(corehop_plan::platform::Platform::named(&study.platform).is_some(), "{id}");
            let is_fitted = |row: &&Printed| study.role(row) == JudgementRole::Fitted;
            let fitted = study.printed.iter().filter(is_fitted).count();
            assert!(fitted * 2 < study.printed.len(), "{id}: {fitted} rows are fitted on");
            for marked in &study.marked {
                assert!(study.printed.iter().any(|row| marked.rows.has(row)), "{id}: {marked:?}");
            }
            let of_fits = study.marked.iter().filter(|it| it.role == JudgementRole::Fitted);
            let parameters: usize = of_fits.clone().map(|it| it.numbers.len()).sum();
            let rows = of_fits.map(|it| it.rows.wss_kib.len()).sum::<usize>();
            assert!(parameters * 3 <= rows, "{id}: {parameters} parameters on {rows} rows");
        }
    }
}
