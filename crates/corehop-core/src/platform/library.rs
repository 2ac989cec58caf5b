// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platforms that come with the program: the files of `platforms/`.

use super::{Platform, PlatformError};

/// Every file of `platforms/`, by its id.
const FILES: &[(&str, &str)] = &[
    ("xeon_l7455", include_str!("../../../../platforms/xeon_l7455.toml")),
    ("xeon_x5650", include_str!("../../../../platforms/xeon_x5650.toml")),
];

impl Platform {
    /// The ids of the platforms that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|&(id, _)| id)
    }

    /// The platform of this id, if it comes with the program.
    ///
    /// # Errors
    /// Where its file is wrong; a test reads them all.
    pub fn named(id: &str) -> Option<Result<Self, PlatformError>> {
        let (_, text) = FILES.iter().find(|&&(other, _)| other == id)?;
        Some(Self::from_toml(text))
    }
}
