// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of measurement: what plans of one kind have in common, whatever made them and whatever runs them.

use super::count::RowCounting;
use super::for_each_kind;
use super::plan::{Plan, PlanError};
use super::project::{Projection, ProjectionContext};
use super::table::{RowKind, Rows};
use super::times::RowTime;
use super::unit::SamplingUnit;
use crate::platform::Platform;
use crate::workload::WorkingSet;

/// A kind of measurement, as the body of its plans: the module of a kind has this, its records and its rows.
pub trait Kind: Sized {
    /// The record that a machine hands over.
    type Record;
    /// Why a platform cannot run a body.
    type Error;

    /// The measurement, in the words of a machine that refuses it, where only the live machine can run it; None where
    /// the simulated machine can run it too.
    const ONLY_LIVE: Option<&'static str> = None;

    /// Whether `platform` can run it.
    ///
    /// # Errors
    /// [`Kind::Error`] names the first thing that does not fit.
    fn fits(&self, platform: &Platform) -> Result<(), Self::Error>;

    /// The number of things that it runs, behind their noun; None where that cannot be counted before.
    fn amount(&self) -> Option<(&'static str, u64)>;

    /// Its units, each with its number of samples.
    fn units(&self) -> Vec<SamplingUnit>;

    /// Leaves out the first `done` of its samples. `jobs` is the number of jobs in the result that they are in.
    fn leave_out(&mut self, done: u64, jobs: u64);

    /// Goes on with what another one runs.
    fn go_on(&mut self, more: Self);

    /// Its noun, where it runs as a whole and cannot go on after an interrupt.
    fn is_whole(&self) -> Option<&'static str> {
        None
    }

    /// The working sets of its jobs.
    fn working_sets(&self) -> Vec<&WorkingSet> {
        Vec::new()
    }

    /// The part of an outline behind the names of experiment and machine: counts of `units`, and of replicates, if they
    /// are known.
    fn outline(&self, units: &[SamplingUnit], replicates: Option<usize>) -> String;

    /// The kinds of rows that its records become; the first is what `-o FILE` names.
    fn row_kinds(&self) -> &'static [RowKind];

    /// The way from its records, which come in their order, to rows.
    fn projection<'a>(&'a self, at: ProjectionContext<'a>) -> Projection<'a, Self::Record>;

    /// The way in which its rows are counted, where an experiment counts `units` units.
    fn counting(&self, units: u64) -> Box<dyn RowCounting>;

    /// The times in its rows that two results can be compared by.
    fn times(rows: &Rows) -> Vec<RowTime>;
}

/// The number of samples of all units.
pub(super) fn samples(units: &[SamplingUnit]) -> u64 {
    units.iter().map(|unit| u64::from(unit.asked)).sum()
}

macro_rules! bodies {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// The work, under the name of its kind.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Body { $($(#[doc = $doc])+ $kind($body)),+ }

        /// Why a platform cannot run the work of a plan.
        #[derive(Debug, Clone, PartialEq, thiserror::Error)]
        pub enum BodyError {
            $(
                #[doc = concat!("Of ", $what, ".")]
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

            /// Goes on with what another body of the same kind runs.
            pub(super) fn go_on(&mut self, more: Self) {
                match self { $(Self::$kind(body) => if let Self::$kind(more) = more { body.go_on(more) }),+ }
            }

            pub(super) fn is_whole(&self) -> Option<&'static str> {
                match self { $(Self::$kind(body) => body.is_whole()),+ }
            }

            /// The working sets of its jobs.
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
