// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the records of a machine to rows.

use super::for_each_kind;
use super::kind::{Body, Kind};
use super::origin::RunContext;
use super::plan::Plan;
use super::table::{RowKind, Rows};
use crate::platform::Platform;

/// The position of a plan's records in a run.
#[derive(Debug, Clone)]
pub struct ProjectionContext<'a> {
    /// The facts that all rows of the plan share.
    pub(super) context: RunContext,
    /// The platform on which the plan runs.
    pub(super) platform: &'a Platform,
    /// The number of jobs, batches, windows or program runs in the run before the plan's first.
    pub(super) first: u64,
}

/// A function that converts records to rows and appends the rows; it keeps its position between calls.
pub type Projection<'a, R> = Box<dyn FnMut(&[R], &mut Rows) + 'a>;

macro_rules! projected {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// A batch of a plan's records, as a machine hands them over.
        #[derive(Debug, Clone, Copy)]
        pub enum Batch<'a> {
            $(
                #[doc = concat!("The records of a plan of ", $what, ".")]
                $kind(&'a [<$body as Kind>::Record])
            ),+
        }

        /// The projection of a plan, in a variant of the plan's kind.
        enum KindProjection<'a> { $($kind(Projection<'a, <$body as Kind>::Record>)),+ }

        impl<'a> KindProjection<'a> {
            fn of(body: &'a Body, at: ProjectionContext<'a>) -> Self {
                match body { $(Body::$kind(body) => Self::$kind(body.projection(at))),+ }
            }

            /// Appends the rows of a batch; records of another kind add no rows.
            fn append(&mut self, batch: Batch<'_>, rows: &mut Rows) {
                match batch {
                    $(Batch::$kind(records) => if let Self::$kind(project) = self { project(records, rows) }),+
                }
            }
        }
    };
}

for_each_kind!(projected);

impl Plan {
    /// Returns the kinds of rows that the plan's records become; `-o FILE` names the file of the first
    /// kind.
    pub fn kinds(&self) -> &'static [RowKind] {
        self.body.row_kinds()
    }
}

/// Converts the records of a plan to rows.
pub struct Projector<'a>(KindProjection<'a>);

impl std::fmt::Debug for Projector<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projector").finish_non_exhaustive()
    }
}

impl<'a> Projector<'a> {
    /// Makes a projector for the records of `plan` on `platform`; the plan is a block of a run that has
    /// already had `first` jobs.
    pub fn new(plan: &'a Plan, platform: &'a Platform, first: u64) -> Self {
        let context = RunContext::new(plan, platform);
        Self(KindProjection::of(&plan.body, ProjectionContext { context, platform, first }))
    }

    /// Returns the rows of a batch; records of another kind yield no rows.
    pub fn rows(&mut self, batch: Batch<'_>) -> Rows {
        let mut rows = Rows::default();
        self.0.append(batch, &mut rows);
        rows
    }
}
