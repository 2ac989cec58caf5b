// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kinds of measurement: what plans of one kind have in common, whatever made them and whatever runs them.

use super::plan::PlanError;
use super::unit::Unit;
use crate::kinds::for_each_kind;
use crate::platform::Platform;
use crate::workload::WorkingSet;

/// The body of the plans of one kind.
pub trait Kind {
    /// Whether `platform` can run it.
    ///
    /// # Errors
    /// [`PlanError`] names the first thing that does not fit.
    fn fits(&self, platform: &Platform) -> Result<(), PlanError>;

    /// The number of things that it runs, behind their noun; None where that cannot be counted before.
    fn amount(&self) -> Option<(&'static str, u64)>;

    /// Its units, each with its number of samples.
    fn units(&self) -> Vec<Unit>;

    /// Leaves out the first `done` of its samples. `jobs` is the number of jobs in the result that they are in.
    fn leave_out(&mut self, done: u64, jobs: u64);

    /// Goes on with what another one runs.
    fn go_on(&mut self, more: Self)
    where
        Self: Sized;

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
    fn outline(&self, units: &[Unit], replicates: Option<usize>) -> String;
}

/// The number of samples of all units.
pub(super) fn samples(units: &[Unit]) -> u64 {
    units.iter().map(|unit| u64::from(unit.asked)).sum()
}

macro_rules! bodies {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty, $record:ty;)+) => {
        /// The work, under the name of its kind.
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Body { $($(#[doc = $doc])+ $kind($body)),+ }

        impl Body {
            /// The same as what all kinds have in common.
            pub fn of_any_kind(&self) -> &dyn Kind {
                match self { $(Self::$kind(body) => body),+ }
            }

            pub(super) fn of_any_kind_mut(&mut self) -> &mut dyn Kind {
                match self { $(Self::$kind(body) => body),+ }
            }

            /// Goes on with what another body of the same kind runs.
            pub(super) fn go_on(&mut self, more: Self) {
                match (self, more) {
                    $((Self::$kind(body), Self::$kind(more)) => body.go_on(more),)+
                    _ => {}
                }
            }
        }

        impl super::plan::Plan {
            $(
                #[doc = concat!("Its ", $what, "; None for a plan of another kind.")]
                pub const fn $name(&self) -> Option<&$body> {
                    if let Body::$kind(body) = &self.body { Some(body) } else { None }
                }
            )+
        }

        $(impl From<$body> for Body {
            fn from(body: $body) -> Self {
                Self::$kind(body)
            }
        })+
    };
}

for_each_kind!(bodies);
