// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts rows to Arrow columns and back: one declaration yields the struct, the schema, both conversions and
//! the documentation.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, ListArray, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field};

use crate::bounds;

/// The version of the row types; a file states the version of its rows.
pub const SCHEMA_VERSION: u32 = 1;

/// A text that many rows share.
pub type Text = Arc<str>;

/// The reason why a batch does not contain rows of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// The batch lacks a column that all rows of the type have.
    #[error("the column `{0}` is missing")]
    Missing(String),
    /// A column has another type than the row type requires.
    #[error("the column `{name}` is of type {found}, not {expected}")]
    Type {
        /// The name of the column that has another type.
        name: String,
        /// The type of the column in the batch.
        found: String,
        /// The type that the row type requires.
        expected: String,
    },
    /// A required column has no value, or has a word that the column's type does not know.
    #[error("the column `{name}`, row {row}: {what}")]
    Value {
        /// The name of the column that has the value.
        name: String,
        /// The row, counted from 0 in its batch; a reader of files counts from the first row of the file.
        row: usize,
        /// A description of the problem with the value.
        what: String,
    },
}

impl SchemaError {
    /// Returns the error with its row counted from the first row of the file, where `rows` rows precede the
    /// batch.
    #[must_use]
    pub fn after(mut self, rows: usize) -> Self {
        if let Self::Value { row, .. } = &mut self {
            *row += rows;
        }
        self
    }
}

/// A type whose values form a column.
pub trait Column: Sized {
    /// Returns the Arrow type of the column.
    fn data_type() -> DataType;
    /// Whether the column may lack values.
    const OPTIONAL: bool = false;
    /// Returns an Arrow array that holds `values`.
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;
    /// Returns the values of the column `name`.
    ///
    /// # Errors
    /// Returns [`SchemaError::Value`] if a value is absent or unknown.
    fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError>;

    /// Returns the column `name` of `batch`; if an optional column is absent, its values are absent too.
    ///
    /// # Errors
    /// Returns [`SchemaError`] if the column is missing, has another type, or holds a value that its type does not
    /// allow.
    fn read(batch: &RecordBatch, name: &str) -> Result<Vec<Self>, SchemaError> {
        let Some(array) = batch.column_by_name(name) else {
            return if Self::OPTIONAL {
                Self::values(
                    &arrow_array::new_null_array(&Self::data_type(), batch.num_rows()),
                    name,
                )
            } else {
                Err(SchemaError::Missing(name.to_owned()))
            };
        };
        // Libraries differ in what they call the elements of a list.
        if !array.data_type().equals_datatype(&Self::data_type()) {
            return Err(SchemaError::Type {
                name: name.to_owned(),
                found: array.data_type().to_string(),
                expected: Self::data_type().to_string(),
            });
        }
        Self::values(array, name)
    }
}

fn absent(name: &str, row: usize) -> SchemaError {
    SchemaError::Value { name: name.to_owned(), row, what: "no value".to_owned() }
}

/// Casts the array to the type that `data_type` has stated.
fn cast<'a, A: 'static>(array: &'a ArrayRef, name: &str) -> Result<&'a A, SchemaError> {
    array.as_any().downcast_ref().ok_or_else(|| SchemaError::Missing(name.to_owned()))
}

/// Implements [`Column`] for numbers and truth values, with and without absent values.
macro_rules! plain_columns {
    ($($ty:ty, $array:ty, $data_type:expr, $check:expr);* $(;)?) => {$(
        impl Column for $ty {
            fn data_type() -> DataType { $data_type }
            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                Arc::new(<$array>::from(values.copied().collect::<Vec<_>>()))
            }
            fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError> {
                let all = cast::<$array>(array, name)?.iter().enumerate();
                let value = |value: Option<$ty>, row| value.ok_or_else(|| absent(name, row));
                all.map(|(row, it)| $check(value(it, row)?, name, row)).collect()
            }
        }
        impl Column for Option<$ty> {
            const OPTIONAL: bool = true;
            fn data_type() -> DataType { $data_type }
            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                Arc::new(<$array>::from(values.copied().collect::<Vec<_>>()))
            }
            fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError> {
                let all = cast::<$array>(array, name)?.iter().enumerate();
                all.map(|(row, value)| value.map(|it| $check(it, name, row)).transpose()).collect()
            }
        }
    )*};
}
plain_columns! {
    u64, UInt64Array, DataType::UInt64, whole;
    f64, Float64Array, DataType::Float64, quantity;
    bool, BooleanArray, DataType::Boolean, any;
}

/// The columns of differences, which can be negative: differences between the clocks of two CPUs, between a time
/// and a subtracted time, and between an end and a deadline. The values of all other columns are not negative.
const DIFFERENCES: [&str; 9] = [
    "exchange_after_ns",
    "exchange_ns",
    "lateness_ns",
    "latency_ns",
    "length_ns",
    "ns",
    "repaired_ns",
    "response_ns",
    "switch_ns",
];

/// Returns a number that a measurement can have; [`crate::bounds`] states the bounds.
fn quantity(value: f64, name: &str, row: usize) -> Result<f64, SchemaError> {
    let least = if DIFFERENCES.contains(&name) { -bounds::MOST } else { 0.0 };
    bounds::bounded(value, least).map_err(|error| SchemaError::Value {
        name: name.to_owned(),
        row,
        what: error.to_string(),
    })
}

/// Returns a count that is within the bounds; a seed has no bounds.
fn whole(value: u64, name: &str, row: usize) -> Result<u64, SchemaError> {
    if name == "seed" || value <= bounds::MOST_WHOLE {
        return Ok(value);
    }
    let what = bounds::OutOfBounds { value: value as f64, least: 0.0 }.to_string();
    Err(SchemaError::Value { name: name.to_owned(), row, what })
}

#[expect(clippy::unnecessary_wraps, reason = "the form of the other checks")]
fn any<T>(value: T, _: &str, _: usize) -> Result<T, SchemaError> {
    Ok(value)
}

impl Column for Text {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        Arc::new(StringArray::from_iter_values(values))
    }
    fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError> {
        let all = <Option<Text>>::values(array, name)?.into_iter().enumerate();
        all.map(|(row, value)| value.ok_or_else(|| absent(name, row))).collect()
    }
}

impl Column for Option<Text> {
    const OPTIONAL: bool = true;
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        Arc::new(values.map(Option::as_deref).collect::<StringArray>())
    }
    fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError> {
        let mut last: Option<Text> = None;
        let mut shared = |text: &str| match &last {
            // Neighbouring rows mostly say the same: one copy serves them all.
            Some(same) if &**same == text => same.clone(),
            _ => last.insert(text.into()).clone(),
        };
        Ok(cast::<StringArray>(array, name)?.iter().map(|value| value.map(&mut shared)).collect())
    }
}

/// Implements [`Column`] for enums of words, as columns of text.
macro_rules! word_columns {
    ($($ty:ty),* $(,)?) => {$(
        impl Column for $ty {
            fn data_type() -> DataType { DataType::Utf8 }
            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                Arc::new(StringArray::from_iter_values(values.map(|value| value.word())))
            }
            fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError> {
                let all = cast::<StringArray>(array, name)?.iter().enumerate();
                all.map(|(row, value)| {
                    let word = value.ok_or_else(|| absent(name, row))?;
                    word.parse().map_err(|error: $crate::words::UnknownWord| SchemaError::Value {
                        name: name.to_owned(), row, what: error.to_string(),
                    })
                }).collect()
            }
        }
        impl Column for Option<$ty> {
            const OPTIONAL: bool = true;
            fn data_type() -> DataType { DataType::Utf8 }
            fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
                Arc::new(values.map(|value| value.as_ref().map(|it| it.word())).collect::<StringArray>())
            }
            fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError> {
                let all = cast::<StringArray>(array, name)?.iter().enumerate();
                all.map(|(row, value)| {
                    value.map(str::parse).transpose().map_err(|error: $crate::words::UnknownWord| SchemaError::Value {
                        name: name.to_owned(), row, what: error.to_string(),
                    })
                }).collect()
            }
        }
    )*};
}
word_columns! {
    crate::workload::Event, crate::workload::Pattern, crate::workload::Page,
    crate::workload::LineState, crate::workload::Mover, crate::workload::Absence,
    crate::platform::MemoryArchitecture, crate::kinds::Certificate,
    crate::workload::gang::Sharing, crate::workload::gang::Placing,
    crate::workload::scheduler::Scheduler, crate::workload::switching::SwitchMechanism,
    crate::workload::switching::SwitchCall, crate::kinds::JobOutcome, crate::kinds::Renewed,
    crate::kinds::Overhead, crate::kinds::Vantage,
}

impl Column for Vec<crate::kinds::Cause> {
    fn data_type() -> DataType {
        DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))
    }
    fn array<'a>(values: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let mut list = ListBuilder::new(StringBuilder::new());
        for causes in values {
            list.append_value(causes.iter().map(|cause| Some(cause.word())));
        }
        Arc::new(list.finish())
    }
    fn values(array: &ArrayRef, name: &str) -> Result<Vec<Self>, SchemaError> {
        let unknown = |row, what| SchemaError::Value { name: name.to_owned(), row, what };
        let causes = |(row, list): (usize, Option<ArrayRef>)| {
            let list = list.ok_or_else(|| absent(name, row))?;
            let words = <Vec<Text> as FromArray>::from_array(&list, name)?;
            let parse = |word: &Text| word.parse();
            words
                .iter()
                .map(parse)
                .collect::<Result<Vec<_>, crate::words::UnknownWord>>()
                .map_err(|error| unknown(row, error.to_string()))
        };
        cast::<ListArray>(array, name)?.iter().enumerate().map(causes).collect()
    }
}

/// Converts the texts of an array to values, for lists of words.
trait FromArray: Sized {
    fn from_array(array: &ArrayRef, name: &str) -> Result<Self, SchemaError>;
}

impl FromArray for Vec<Text> {
    fn from_array(array: &ArrayRef, name: &str) -> Result<Self, SchemaError> {
        Text::values(array, name)
    }
}

/// A row of a corehop file.
pub trait Row: Sized {
    /// The name of the row type, stored in the file.
    const KIND: &'static str;
    /// Returns the Arrow fields of the row type, in order.
    fn fields() -> Vec<Field>;
    /// Returns the name and the meaning of every column, in order.
    fn docs() -> Vec<(&'static str, &'static str)>;
    /// Returns the Arrow arrays that hold `rows`.
    fn columns(rows: &[Self]) -> Vec<ArrayRef>;
    /// Converts an Arrow batch to rows.
    ///
    /// # Errors
    /// Returns [`SchemaError`] if the batch does not contain rows of this type.
    fn rows(batch: &RecordBatch) -> Result<Vec<Self>, SchemaError>;
}

/// Declares a row type; the documentation of a field is also the documentation of its column.
macro_rules! row {
    ($(#[$meta:meta])* $name:ident, $kind:literal { $($(#[doc = $doc:literal])+ $field:ident: $ty:ty),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $ty),+ }

        impl $crate::kinds::Row for $name {
            const KIND: &'static str = $kind;
            fn fields() -> Vec<arrow_schema::Field> {
                vec![$(arrow_schema::Field::new(
                    stringify!($field),
                    <$ty as $crate::kinds::Column>::data_type(),
                    <$ty as $crate::kinds::Column>::OPTIONAL,
                )),+]
            }
            fn docs() -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($field), concat!($($doc),+).trim_ascii())),+]
            }
            fn columns(rows: &[Self]) -> Vec<arrow_array::ArrayRef> {
                vec![$(<$ty as $crate::kinds::Column>::array(rows.iter().map(|row| &row.$field))),+]
            }
            fn rows(batch: &arrow_array::RecordBatch) -> Result<Vec<Self>, $crate::kinds::SchemaError> {
                $(let mut $field = <$ty as $crate::kinds::Column>::read(batch, stringify!($field))?.into_iter();)+
                // Every column has as many values as the batch has rows.
                Ok(std::iter::from_fn(|| Some(Self { $($field: $field.next()?),+ })).collect())
            }
        }
    };
}
pub(crate) use row;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Cause;

    /// Returns two samples, one of which an interrupt disturbed, in lists whose elements have the name
    /// `element`.
    fn causes(element: &str) -> Result<Vec<Vec<Cause>>, SchemaError> {
        let field = Field::new(element, DataType::Utf8, true);
        let mut list = ListBuilder::new(StringBuilder::new()).with_field(field);
        list.append_value([Some(Cause::Interrupt.word())]);
        list.append_value([None::<&str>; 0]);
        let batch = RecordBatch::try_from_iter([("by", Arc::new(list.finish()) as ArrayRef)]);
        Column::read(&batch.unwrap(), "by")
    }

    #[test]
    fn lists_are_read_whatever_their_elements_are_called() {
        let expected = vec![vec![Cause::Interrupt], vec![]];
        assert_eq!(causes("item"), Ok(expected.clone()));
        assert_eq!(causes("element"), Ok(expected));
    }

    #[test]
    fn a_column_of_another_type_is_refused_by_name() {
        let texts = Arc::new(StringArray::from(vec!["1"])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("seed", texts)]).unwrap();
        let error = u64::read(&batch, "seed").unwrap_err();
        assert_eq!(error.to_string(), "the column `seed` is of type Utf8, not UInt64");
    }
}
