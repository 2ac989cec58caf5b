// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common interface of the summaries of all kinds of measurement.
//!
//! The summary of a kind is in the module with the kind's name, which exports it as `Summary`, either in this crate or
//! in a crate that can compute more. The crate of results finds the summaries by the registry of kinds.

use super::estimator::Estimator;
use corehop_plan::samples::{MissingFile, Provenance, RowKind, Rows};

/// The file from which rows come.
#[derive(Debug, Clone, Copy)]
pub struct FromFile<'a> {
    /// The name of the file from which the rows come.
    pub name: &'a str,
    /// The kind of the file's rows.
    pub kind: RowKind,
    /// The provenance of the file's rows.
    pub provenance: &'a Provenance,
}

/// Collects the rows of one kind of measurement while files stream in, and draws conclusions from all rows together.
pub trait Summarise {
    /// The type of the conclusions from the rows.
    type Said;

    /// Makes a summary without rows; delays will be computed by `estimator`.
    fn new(estimator: Estimator) -> Self;

    /// Announces that the rows of another file follow.
    fn begin(&mut self, _: &FromFile<'_>) {}

    /// Adds rows of the file `from`; rows of other kinds are ignored.
    fn take(&mut self, rows: &Rows, from: &FromFile<'_>);

    /// Returns the files that belong beside the collected files and are missing.
    fn missing(&self) -> Vec<MissingFile> {
        Vec::new()
    }

    /// Returns the conclusions from all rows; no rows can be added afterwards.
    fn finish(&mut self) -> Self::Said;
}
