// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times in rows by which two results can be compared.

use super::for_each_kind;
use super::kind::Kind;
use super::table::Rows;

/// A measured time of a quantity of the results; a smaller time is better.
#[derive(Debug, Clone, PartialEq)]
pub struct RowTime {
    /// The name of the experiment that measured the time.
    pub experiment: &'static str,
    /// The common properties of the quantities of one table.
    pub group: String,
    /// The position of the quantity in its group.
    pub place: u64,
    /// The name of the quantity in its group.
    pub name: String,
    /// The replicate to which the time belongs.
    pub replicate: u64,
    /// The time in nanoseconds, or the reason why the time was not measured.
    pub ns: Result<f64, String>,
}

macro_rules! times {
    ($($(#[doc = $doc:literal])+ $kind:ident, $what:literal, $name:ident: $body:ty;)+) => {
        impl RowTime {
            /// Returns the times in rows of all kinds.
            pub fn of(rows: &Rows) -> Vec<Self> {
                [$(<$body as Kind>::times(rows)),+].concat()
            }
        }
    };
}

for_each_kind!(times);
