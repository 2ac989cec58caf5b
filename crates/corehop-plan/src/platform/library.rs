// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platforms that come with the program: the files of `platforms/`.

use super::{Platform, PlatformError};

macro_rules! files {
    ($($id:literal),* $(,)?) => {
        &[$(($id, include_str!(concat!("../../platforms/", $id, ".toml")))),*]
    };
}

/// The files of `platforms/`, each with its id.
const FILES: &[(&str, &str)] = files![
    "epyc_7313",
    "epyc_7742",
    "m5_c",
    "m5_cc",
    "m5_cc_slow",
    "m5_cccc",
    "m5_ccss",
    "m5_ccss_slow",
    "m5_cs",
    "m5_cs_16k_2way",
    "m5_cs_16k_direct",
    "m5_cs_slow",
    "m5_cs_slow_16k_2way",
    "m5_cs_slow_16k_direct",
    "m5_ss",
    "m5_ss_16k_2way",
    "m5_ss_16k_direct",
    "opteron_2x4",
    "phenom_9550",
    "xeon_5160",
    "xeon_6130",
    "xeon_e5520",
    "xeon_l7455",
    "xeon_x5650",
];

impl Platform {
    /// Returns the ids of the platforms that come with the program.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|&(id, _)| id)
    }

    /// Returns the platform of this id, if it comes with the program.
    ///
    /// # Errors
    /// Returns the error in the platform's file, if the file has an error; a test reads all files.
    pub fn named(id: &str) -> Option<Result<Self, PlatformError>> {
        let (_, text) = FILES.iter().find(|&&(other, _)| other == id)?;
        Some(Self::from_toml(text))
    }
}
