// SPDX-License-Identifier: MIT OR Apache-2.0
//! The trait that every kind of measurement implements, whatever experiment makes its plans and whatever machine runs
//! them.

use super::count::RowCounting;
use super::for_each_kind;
use super::plan::{Plan, PlanError};
use super::project::{Projection, ProjectionContext};
use super::table::{RowKind, Rows};
use super::times::RowTime;
use super::unit::SamplingUnit;
use crate::platform::Platform;
use crate::workload::WorkingSet;

/// A kind of measurement, implemented by the body of its plans; the module of a kind also has the records and the rows
/// of the kind.
pub trait Kind: Sized {
    /// The type of the records that a machine hands over.
    type Record;
    /// The reason why a platform cannot run a body.
    type Error;

    /// The name of the measurement if only the live machine can run the measurement, or `None` if the simulated
    /// machine can also run the measurement. The error of a machine that cannot run the measurement states this name.
    const ONLY_LIVE: Option<&'static str> = None;

    /// Checks whether `platform` can run the body.
    ///
    /// # Errors
    /// Returns [`Kind::Error`] for the first part that does not fit the platform.
    fn fits(&self, platform: &Platform) -> Result<(), Self::Error>;

    /// Returns the noun for the things that the body runs, and their number, or `None` if the number is not known in
    /// advance.
    fn amount(&self) -> Option<(&'static str, u64)>;

    /// Returns the units of the body, each with its number of samples.
    fn units(&self) -> Vec<SamplingUnit>;

    /// Removes the first `done` samples from the body. The argument `jobs` is the number of jobs in the result that
    /// already has the removed samples.
    fn leave_out(&mut self, done: u64, jobs: u64);

    /// Appends the work of another body.
    fn go_on(&mut self, more: Self);

    /// Returns the noun for the body if the body runs only as a whole and cannot continue after an interrupt; otherwise
    /// `None`.
    fn is_whole(&self) -> Option<&'static str> {
        None
    }

    /// Returns the working sets of the body's jobs.
    fn working_sets(&self) -> Vec<&WorkingSet> {
        Vec::new()
    }

    /// Returns the part of the plan's outline that follows the names of experiment and machine: the counts of `units`,
    /// and of replicates if known.
    fn outline(&self, units: &[SamplingUnit], replicates: Option<usize>) -> String;

    /// Returns the kinds of rows that the records become; `-o FILE` names the file of the first kind.
    fn row_kinds(&self) -> &'static [RowKind];

    /// Returns the projection of the body's records, in their order, to rows.
    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, Self::Record>;

    /// Returns the counter of the body's rows for an experiment with `units` units.
    fn counting(&self, units: u64) -> Box<dyn RowCounting>;

    /// Returns the times in the rows by which two results can be compared.
    fn times(rows: &Rows) -> Vec<RowTime>;
}

/// Returns the number of samples of all units.
pub(super) fn samples(units: &[SamplingUnit]) -> u64 {
    units.iter().map(|unit| u64::from(unit.asked)).sum()
}

macro_rules! bodies {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// The work of a plan, with one variant for each kind of plan.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Body { $($(#[doc = $doc])+ $kind($body)),+ }

        /// The reason why a platform cannot run the work of a plan.
        #[derive(Debug, Clone, PartialEq, thiserror::Error)]
        pub enum BodyError {
            $(
                #[doc = concat!("The error of a plan of ", $what, ".")]
                #[error(transparent)]
                $kind(#[from] <$body as Kind>::Error)
            ),+
        }

        impl Body {
            pub(super) fn fits(&self, platform: &Platform) -> Result<(), BodyError> {
                match self { $(Self::$kind(body) => Ok(body.fits(platform)?)),+ }
            }

            pub(super) fn amount(&self) -> Option<(&'static str, u64)> {
                match self { $(Self::$kind(body) => body.amount()),+ }
            }

            pub(super) fn units(&self) -> Vec<SamplingUnit> {
                match self { $(Self::$kind(body) => body.units()),+ }
            }

            pub(super) fn leave_out(&mut self, done: u64, jobs: u64) {
                match self { $(Self::$kind(body) => body.leave_out(done, jobs)),+ }
            }

            /// Appends the work of another body of the same kind.
            pub(super) fn go_on(&mut self, more: Self) {
                match self { $(Self::$kind(body) => if let Self::$kind(more) = more { body.go_on(more) }),+ }
            }

            pub(super) fn is_whole(&self) -> Option<&'static str> {
                match self { $(Self::$kind(body) => body.is_whole()),+ }
            }

            /// Returns the working sets of the body's jobs.
            pub fn working_sets(&self) -> Vec<&WorkingSet> {
                match self { $(Self::$kind(body) => body.working_sets()),+ }
            }

            pub(super) fn outline(&self, units: &[SamplingUnit], replicates: Option<usize>) -> String {
                match self { $(Self::$kind(body) => body.outline(units, replicates)),+ }
            }

            pub(super) fn row_kinds(&self) -> &'static [RowKind] {
                match self { $(Self::$kind(body) => body.row_kinds()),+ }
            }

            pub(super) fn counting(&self, units: u64) -> Box<dyn RowCounting> {
                match self { $(Self::$kind(body) => body.counting(units)),+ }
            }
        }

        impl Plan {
            $(
                #[doc = concat!("Its ", $what, "; None for a plan of another kind.")]
                pub const fn $name(&self) -> Option<&$body> {
                    if let Body::$kind(body) = &self.body { Some(body) } else { None }
                }
            )+
        }

        $(
            impl From<$body> for Body {
                fn from(body: $body) -> Self {
                    Self::$kind(body)
                }
            }

            impl From<<$body as Kind>::Error> for PlanError {
                fn from(error: <$body as Kind>::Error) -> Self {
                    Self::Body(BodyError::$kind(error))
                }
            }
        )+
    };
}

for_each_kind!(bodies);
