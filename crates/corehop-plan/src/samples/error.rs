// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of reading and writing files of rows.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use super::damage::{Damage, parquet_cause};
use super::parquet_sums::VerifyError;
use crate::kinds::SCHEMA_VERSION;
use crate::kinds::SchemaError;

/// The reason why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is neither Parquet nor an Arrow stream, or lacks corehop's metadata.
    #[error("this is not a corehop file ({0}): pass a file of `corehop measure`")]
    NotOurs(String),
    /// The file has counts of a schedulability study, not rows.
    #[error(
        "this file contains the counts of a study: `corehop check study FILE` prints the counts, and --page draws the counts"
    )]
    Study,
    /// A later version of corehop wrote the file.
    #[error(
        "this file has schema {found}, but this corehop reads schema {SCHEMA_VERSION}: use a newer corehop"
    )]
    Later {
        /// The schema version that the file states.
        found: u32,
    },
    /// The file has rows of another type than the caller requested.
    #[error("this file contains {found}, not {expected}")]
    Kind {
        /// The row type that the file states.
        found: String,
        /// The row type that the caller requested.
        expected: &'static str,
    },
    /// The file begins like a corehop file, but is damaged.
    #[error("this file is damaged: {0}; a `.part` beside it may still be readable")]
    Damaged(String),
    /// The checksums of the file show the damaged place.
    #[error(
        "this file is damaged: {0}; `corehop convert rows FILE --salvage -o NEW.parquet` keeps the intact rows"
    )]
    Checksum(Damage),
    /// The rows do not match the schema version of the file.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The system could not read or write the file.
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
