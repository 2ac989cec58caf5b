// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kinds of rows, and tables of rows of several kinds.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Field;

use super::column::{Row, SchemaError};
use super::for_each_row_kind;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident, $field:ident: $row:ty, $suffix:expr, $from:literal;)+) => {
        /// The kind of the rows in a file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RowKind { $($(#[doc = $doc])+ $kind),+ }

        impl RowKind {
            /// All kinds of rows, in the order of the reference pages.
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            /// Returns the word for the kind in files.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$kind => <$row as Row>::KIND),+ }
            }

            /// Returns the text before the extension of a file that lies beside the plan's main file,
            /// so that `x.parquet` becomes `x.jobs.parquet`.
            pub const fn suffix(self) -> Option<&'static str> {
                match self { $(Self::$kind => $suffix),+ }
            }

            /// Returns the experiments that produce rows of this kind, as text for people.
            pub const fn experiments(self) -> &'static str {
                match self { $(Self::$kind => $from),+ }
            }

            /// Returns the Arrow fields of the rows, in order.
            pub fn fields(self) -> Vec<Field> {
                match self { $(Self::$kind => <$row as Row>::fields()),+ }
            }

            /// Returns the name and the meaning of every column, in order.
            pub fn docs(self) -> Vec<(&'static str, &'static str)> {
                match self { $(Self::$kind => <$row as Row>::docs()),+ }
            }
        }

        /// Rows of several kinds; the rows of each kind are in the order in which they were made.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Rows { $($(#[doc = $doc])+ pub $field: Vec<$row>),+ }

        $(impl From<Vec<$row>> for Rows {
            fn from($field: Vec<$row>) -> Self {
                Self { $field, ..Self::default() }
            }
        })+

        impl Rows {
            /// Returns the number of rows of a kind.
            pub const fn len(&self, kind: RowKind) -> usize {
                match kind { $(RowKind::$kind => self.$field.len()),+ }
            }

            /// Moves all rows of `more` to this table.
            pub fn append(&mut self, mut more: Self) {
                $(self.$field.append(&mut more.$field);)+
            }

            /// Returns the Arrow columns of the rows of a kind.
            pub fn columns(&self, kind: RowKind) -> Vec<ArrayRef> {
                match kind { $(RowKind::$kind => <$row as Row>::columns(&self.$field)),+ }
            }

            /// Converts a batch to rows of a kind.
            ///
            /// # Errors
            /// Returns [`SchemaError`] if the batch does not contain rows of the kind.
            pub fn read(kind: RowKind, batch: &RecordBatch) -> Result<Self, SchemaError> {
                let mut rows = Self::default();
                match kind { $(RowKind::$kind => rows.$field = <$row as Row>::rows(batch)?),+ }
                Ok(rows)
            }
        }
    };
}

for_each_row_kind!(kinds);

impl RowKind {
    /// Returns the kind of rows that files denote by `word`.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own_and_a_meaning_for_every_column() {
        for &kind in RowKind::ALL {
            assert_eq!(RowKind::named(kind.word()), Some(kind));
            let names: Vec<&str> = kind.docs().into_iter().map(|(name, _)| name).collect();
            let fields = kind.fields();
            assert!(fields.iter().map(|field| field.name().as_str()).eq(names));
        }
        assert_eq!(RowKind::named("nonsense"), None);
    }

    #[test]
    fn no_two_kinds_of_one_plan_lie_in_the_same_file() {
        let suffixes: Vec<_> = RowKind::ALL.iter().filter_map(|kind| kind.suffix()).collect();
        assert_eq!(suffixes, ["jobs", "threads", "runs"]);
    }
}
