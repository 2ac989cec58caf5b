// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common interface of the summaries of all kinds of measurement.
//!
//! The summary of a kind is in the module with the kind's name, which exports the summary as `Summary`: here, or in a crate
//! that can compute more. The crate of results finds the summaries by the registry of kinds.

use super::estimator::Estimator;
use corehop_plan::samples::{MissingFile, Provenance, RowKind, Rows};

/// The file that rows come from.
#[derive(Debug, Clone, Copy)]
pub struct FromFile<'a> {
    /// The name of the file.
    pub name: &'a str,
    /// The kind of its rows.
    pub kind: RowKind,
    /// The origin of its rows.
    pub provenance: &'a Provenance,
}

/// Takes the rows of files as they stream by, and says what the rows of one kind of measurement say together.
pub trait Summarise {
    /// The statements about the rows.
    type Said;

    /// No rows yet; delays will be computed by `estimator`.
    fn new(estimator: Estimator) -> Self;

    /// The rows of another file follow.
    fn begin(&mut self, _: &FromFile<'_>) {}

    /// Takes some rows of that file; those of other kinds pass by.
    fn take(&mut self, rows: &Rows, from: &FromFile<'_>);

    /// The files that belong beside those that were taken, and are not among them.
    fn missing(&self) -> Vec<MissingFile> {
        Vec::new()
    }

    /// The statements about all rows together; no rows are taken afterwards.
    fn finish(&mut self) -> Self::Said;
}
