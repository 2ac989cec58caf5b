// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables from Python, by Arrow's PyCapsule interface, as rows of JSON.

use std::ffi::CStr;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use serde_json::{Map, Value, json};

use crate::errors;

const STREAM: &CStr = c"arrow_array_stream";

/// The rows of a table of numbers and texts, as a JSON list of objects; what is null is left out.
#[pyfunction]
pub(crate) fn rows_json(table: &Bound<'_, PyAny>) -> PyResult<String> {
    let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: the interface says that a capsule of this name holds such a stream, and that the code that
    // takes it moves it out; what is left behind is marked as released.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    let reader = RecordBatchStreamReader::try_new(stream).map_err(errors::broken)?;
    let mut rows = Vec::new();
    for batch in reader {
        append(&mut rows, &batch.map_err(errors::broken)?)?;
    }
    Ok(Value::Array(rows).to_string())
}

fn append(rows: &mut Vec<Value>, batch: &RecordBatch) -> PyResult<()> {
    let from = rows.len();
    rows.resize(from + batch.num_rows(), Value::Object(Map::new()));
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        for (at, row) in rows[from..].iter_mut().enumerate() {
            if column.is_valid(at)
                && let Value::Object(fields) = row
            {
                fields.insert(field.name().clone(), value(field.name(), column, at)?);
            }
        }
    }
    Ok(())
}

fn value(name: &str, column: &ArrayRef, at: usize) -> PyResult<Value> {
    Ok(match column.data_type() {
        DataType::Int8 => json!(column.as_primitive::<Int8Type>().value(at)),
        DataType::Int16 => json!(column.as_primitive::<Int16Type>().value(at)),
        DataType::Int32 => json!(column.as_primitive::<Int32Type>().value(at)),
        DataType::Int64 => json!(column.as_primitive::<Int64Type>().value(at)),
        DataType::UInt8 => json!(column.as_primitive::<UInt8Type>().value(at)),
        DataType::UInt16 => json!(column.as_primitive::<UInt16Type>().value(at)),
        DataType::UInt32 => json!(column.as_primitive::<UInt32Type>().value(at)),
        DataType::UInt64 => json!(column.as_primitive::<UInt64Type>().value(at)),
        DataType::Float64 => number(column.as_primitive::<Float64Type>().value(at)),
        DataType::Utf8 => json!(column.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => json!(column.as_string::<i64>().value(at)),
        DataType::Utf8View => json!(column.as_string_view().value(at)),
        DataType::List(_) => list(name, &column.as_list::<i32>().value(at))?,
        DataType::LargeList(_) => list(name, &column.as_list::<i64>().value(at))?,
        other => {
            let what = format!("column {name} holds {other}: expected whole numbers or texts");
            return Err(errors::damaged(what));
        }
    })
}

fn list(name: &str, items: &ArrayRef) -> PyResult<Value> {
    (0..items.len()).map(|at| value(name, items, at)).collect()
}

/// A whole number as one: a column with gaps comes as floating-point numbers from pandas.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}
