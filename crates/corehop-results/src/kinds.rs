// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of all kinds of measurement, found by the registry of kinds.

use corehop_plan::for_each_kind;
use corehop_plan::samples::{MissingFile, Rows};
use corehop_stats::balance::TranslationShare;
use corehop_stats::budget::SampleBudget;
use corehop_stats::cpmd::DelayFitter;
use corehop_stats::estimator::Estimator;
use corehop_stats::saturation::Saturation;
use corehop_stats::summarise::{FromFile, Summarise};

use crate::{FileNote, MachineNote};

/// The modules with the summaries of kinds, each under the name of its kind. All of these modules come from the crate
/// of statistics, except for two kinds whose results need more than statistics.
mod of {
    pub(super) use crate::program;
    pub(super) use corehop_sched::supply;
    pub(super) use corehop_stats::*;
}

macro_rules! results {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        /// The results of all files together.
        #[derive(Debug, Clone)]
        pub struct Results {
            /// The estimator that computes the delays.
            pub estimator: Estimator,
            /// The files from which the results come.
            pub files: Vec<FileNote>,
            /// The machines on which the files were measured.
            pub machines: Vec<MachineNote>,
            /// The files that belong beside the files that were read, and are missing.
            pub missing: Vec<MissingFile>,
            /// The numbers of lost samples, by cause.
            pub budget: SampleBudget,
            /// The share of address translation in the delays.
            pub translations: Vec<TranslationShare>,
            /// The preemption lengths at which delays stop growing.
            pub saturations: Vec<Saturation>,
            /// The collected samples for a model of the delays. The model is fitted only on demand, because fitting
            /// takes time.
            pub fit: DelayFitter,
            $(
                #[doc = concat!("The results of ", $what, ".")]
                pub $name: <of::$name::Summary as Summarise>::Said
            ),+
        }

        impl Results {
            pub(crate) fn of(common: CommonResults, said: Said) -> Self {
                let CommonResults {
                    estimator, files, machines, missing, budget, translations, saturations, fit,
                } = common;
                Self {
                    estimator, files, machines, missing, budget, translations, saturations, fit,
                    $($name: said.$name),+
                }
            }
        }

        /// The results of each kind.
        pub(crate) struct Said { $(pub(crate) $name: <of::$name::Summary as Summarise>::Said),+ }

        /// The summaries of each kind, with the rows added so far.
        #[derive(Debug)]
        pub(crate) struct Kinds { $(pub(crate) $name: of::$name::Summary),+ }

        impl Kinds {
            pub(crate) fn new(estimator: Estimator) -> Self {
                Self { $($name: Summarise::new(estimator)),+ }
            }

            pub(crate) fn begin(&mut self, from: &FromFile<'_>) {
                $(self.$name.begin(from);)+
            }

            pub(crate) fn take(&mut self, rows: &Rows, from: &FromFile<'_>) {
                $(Summarise::take(&mut self.$name, rows, from);)+
            }

            pub(crate) fn missing(&self) -> Vec<MissingFile> {
                [$(self.$name.missing()),+].concat()
            }

            pub(crate) fn finish(&mut self) -> Said {
                Said { $($name: Summarise::finish(&mut self.$name)),+ }
            }
        }
    };
}

for_each_kind!(results);

/// The results that do not belong to one kind.
pub(crate) struct CommonResults {
    pub(crate) estimator: Estimator,
    pub(crate) files: Vec<FileNote>,
    pub(crate) machines: Vec<MachineNote>,
    pub(crate) missing: Vec<MissingFile>,
    pub(crate) budget: SampleBudget,
    pub(crate) translations: Vec<TranslationShare>,
    pub(crate) saturations: Vec<Saturation>,
    pub(crate) fit: DelayFitter,
}
