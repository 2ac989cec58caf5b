// SPDX-License-Identifier: MIT OR Apache-2.0
//! The studies of cost tables that come with the program: the folders of `studies/` that have one.

use super::claims::ClaimStudy;
use super::gangs::GangStudy;
use super::points::PointStudy;
use super::tables::{Study, StudyError};

macro_rules! studies {
    ($($id:literal),* $(,)?) => {
        &[$((
            $id,
            include_str!(concat!("../../../../studies/", $id, "/study.toml")),
            include_str!(concat!("../../../../studies/", $id, "/table.csv")),
        )),*]
    };
}

/// Each study's name, description and table.
const FILES: &[(&str, &str, &str)] =
    studies!["bastoni-table3", "bastoni-table4", "waechtler-a4", "waechtler-a5", "waechtler-a6"];

/// Of single values each study's name and description.
const POINTS: &[(&str, &str)] = &[
    ("waechtler-5-2", include_str!("../../../../studies/waechtler-5-2/study.toml")),
    ("waechtler-5-3", include_str!("../../../../studies/waechtler-5-3/study.toml")),
];

/// Of gangs each study's name, description and table.
const GANGS: &[(&str, &str, &str)] =
    studies!["kamali-4-5", "kamali-4-6", "kamali-4-8", "kamali-5-1"];

/// Of claims in words each study's name and description.
const CLAIMS: &[(&str, &str)] = &[
    ("bastoni-fig3", include_str!("../../../../studies/bastoni-fig3/study.toml")),
    ("bastoni-fig4", include_str!("../../../../studies/bastoni-fig4/study.toml")),
    ("bastoni-claims", include_str!("../../../../studies/bastoni-claims/study.toml")),
    ("waechtler-claims", include_str!("../../../../studies/waechtler-claims/study.toml")),
    ("waechtler-exclusive", include_str!("../../../../studies/waechtler-exclusive/study.toml")),
];

impl ClaimStudy {
    /// Those that come with the program.
    ///
    /// # Errors
    /// Where a file is wrong; a test reads them all.
    pub fn all() -> Result<Vec<Self>, StudyError> {
        CLAIMS.iter().map(|(_, description)| Self::new(description)).collect()
    }
}

impl GangStudy {
    /// Those that come with the program.
    ///
    /// # Errors
    /// Where a file is wrong; a test reads them all.
    pub fn all() -> Result<Vec<Self>, StudyError> {
        GANGS.iter().map(|(_, description, table)| Self::new(description, table)).collect()
    }
}

impl PointStudy {
    /// Those that come with the program.
    ///
    /// # Errors
    /// Where a file is wrong; a test reads them all.
    pub fn all() -> Result<Vec<Self>, StudyError> {
        POINTS.iter().map(|(_, description)| Self::new(description)).collect()
    }
}

impl Study {
    /// The names of the studies that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|&(id, ..)| id)
    }

    /// The study of this name, if it comes with the program.
    ///
    /// # Errors
    /// Where its files are wrong; a test reads them all.
    pub fn named(id: &str) -> Option<Result<Self, StudyError>> {
        let (_, description, table) = FILES.iter().find(|&&(other, ..)| other == id)?;
        Some(Self::new(description, table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_study_of_single_values_can_be_read_and_its_platform_has_its_cpus() {
        let studies = PointStudy::all().unwrap();
        for (study, (id, _)) in studies.iter().zip(POINTS) {
            assert_eq!(study.id, *id);
            let platform = crate::platform::Platform::named(&study.platform).unwrap().unwrap();
            let plans = study.plans(&platform, 1).unwrap();
            assert_eq!(plans.len(), study.points.len());
            assert!(study.points.iter().any(|point| point.fitted.is_empty()), "{id}");
        }
    }

    #[test]
    fn every_study_of_claims_can_be_read_and_names_tables_of_its_platform() {
        for (study, (id, _)) in ClaimStudy::all().unwrap().iter().zip(CLAIMS) {
            assert_eq!(study.id, *id);
            let platform = crate::platform::Platform::named(&study.platform).unwrap().unwrap();
            let plans = study.plans(&platform, 1).unwrap().len();
            assert!(plans + study.tables.len() > 0, "{id}");
            for table in &study.tables {
                assert_eq!(Study::named(table).unwrap().unwrap().platform, study.platform);
            }
            assert!(!study.observations.is_empty(), "{id}");
        }
    }

    #[test]
    fn every_study_of_gangs_can_be_read_and_its_platform_has_two_packages() {
        for (study, (id, ..)) in GangStudy::all().unwrap().iter().zip(GANGS) {
            assert_eq!(study.id, *id);
            let platform = crate::platform::Platform::named(&study.platform).unwrap().unwrap();
            let plan = study.plan(&platform, 1).unwrap();
            let gangs = plan.gangs().unwrap().gangs.len();
            assert!(gangs > 0 && gangs % 2 == 0, "{id}");
            let rows = study.join(&[]);
            let fitted = rows.iter().filter(|row| row.fitted).count();
            assert!(fitted * 2 < rows.len(), "{id}: {fitted} rows were read from");
        }
    }

    #[test]
    fn every_study_can_be_read_and_fits_its_folder_and_its_platform() {
        for id in Study::names() {
            let study = Study::named(id).unwrap().unwrap();
            assert_eq!(study.id, id);
            assert!(crate::platform::Platform::named(&study.platform).is_some(), "{id}");
            let fitted = study.printed.iter().filter(|row| study.is_fitted(row)).count();
            assert!(fitted * 2 < study.printed.len(), "{id}: {fitted} rows are fitted on");
            let parameters: usize = study.fitted.iter().map(|it| it.parameters.len()).sum();
            let rows = study.fitted.iter().map(|it| it.wss_kib.len()).sum::<usize>();
            assert!(parameters * 3 <= rows, "{id}: {parameters} parameters on {rows} rows");
        }
    }
}
