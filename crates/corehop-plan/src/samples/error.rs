// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of files of rows.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use super::damage::{Damage, parquet_cause};
use super::parquet_sums::VerifyError;
use crate::kinds::SCHEMA_VERSION;
use crate::kinds::SchemaError;

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Neither Parquet nor an Arrow stream, or without our metadata.
    #[error("not a corehop file ({0}): pass a file of `corehop measure`")]
    NotOurs(String),
    /// Counts of a schedulability study.
    #[error(
        "this file contains the counts of a study: `corehop check study FILE` prints them, and --page draws them"
    )]
    Study,
    /// Written by a later version.
    #[error(
        "this file has schema {found}, this program knows {SCHEMA_VERSION}: use a newer corehop"
    )]
    Later {
        /// The schema version found.
        found: u32,
    },
    /// Of another row type than asked for.
    #[error("this file contains {found}, not {expected}")]
    Kind {
        /// The row type found.
        found: String,
        /// The row type asked for.
        expected: &'static str,
    },
    /// Begins like a corehop file, but is damaged.
    #[error("this file is damaged: {0}; a `.part` beside it may still be readable")]
    Damaged(String),
    /// Its checksums tell where it is damaged.
    #[error(
        "this file is damaged: {0}; `corehop convert rows FILE --salvage -o NEW.parquet` keeps the intact rows"
    )]
    Checksum(Damage),
    /// The rows are not as their schema version says.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The system could not read or write.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<ArrowError> for FileError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => Self::Io(error),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<ParquetError> for FileError {
    fn from(error: ParquetError) -> Self {
        match parquet_cause(error) {
            Ok(error) => Self::Io(error),
            Err(what) => Self::Damaged(what),
        }
    }
}

impl From<VerifyError> for FileError {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Footer(damage) => Self::Checksum(damage),
            VerifyError::Io(error) => Self::Io(error),
        }
    }
}
