// SPDX-License-Identifier: MIT OR Apache-2.0
//! Projects the records of a machine to rows.

use super::for_each_kind;
use super::kind::{Body, Kind};
use super::origin::RunContext;
use super::plan::Plan;
use super::table::{RowKind, Rows};
use crate::platform::Platform;

/// The place of a plan's records in a run.
#[derive(Debug, Clone)]
pub struct ProjectionContext<'a> {
    /// The facts that all rows of the plan share.
    pub(super) context: RunContext,
    /// The platform that the plan runs on.
    pub(super) platform: &'a Platform,
    /// The number of jobs, batches, windows or runs of a program in the run before the first of the plan.
    pub(super) first: u64,
}

/// Appends the rows of some records, and remembers how far they have come.
pub type Projection<'a, R> = Box<dyn FnMut(&[R], &mut Rows) + 'a>;

macro_rules! projected {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// Some records of a plan, as a machine hands them over.
        #[derive(Debug, Clone, Copy)]
        pub enum Batch<'a> {
            $(
                #[doc = concat!("Of ", $what, ".")]
                $kind(&'a [<$body as Kind>::Record])
            ),+
        }

        /// The projection of a plan, by its kind.
        enum KindProjection<'a> { $($kind(Projection<'a, <$body as Kind>::Record>)),+ }

        impl<'a> KindProjection<'a> {
            fn of(body: &'a Body, at: ProjectionContext<'a>) -> Self {
                match body { $(Body::$kind(body) => Self::$kind(body.projection(at))),+ }
            }

            /// Appends the rows of some records; none of records that are not of such a plan.
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
    /// The kinds of rows that its records become; the first is what `-o FILE` names.
    pub fn kinds(&self) -> &'static [RowKind] {
        self.body.row_kinds()
    }
}

/// Makes rows of the records of a plan.
pub struct Projector<'a>(KindProjection<'a>);

impl std::fmt::Debug for Projector<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projector").finish_non_exhaustive()
    }
}

impl<'a> Projector<'a> {
    /// For the records of `plan` on `platform`, a block of a run that has had `first` jobs.
    pub fn new(plan: &'a Plan, platform: &'a Platform, first: u64) -> Self {
        let context = RunContext::new(plan, platform);
        Self(KindProjection::of(&plan.body, ProjectionContext { context, platform, first }))
    }

    /// The rows of some records; none of records that are not of such a plan.
    pub fn rows(&mut self, batch: Batch<'_>) -> Rows {
        let mut rows = Rows::default();
        self.0.append(batch, &mut rows);
        rows
    }
}
