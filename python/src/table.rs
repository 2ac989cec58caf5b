// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables on their way to Python, as Arrow streams in capsules: nothing is copied.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::exceptions::{PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::errors;

/// A table that any library speaking Arrow's PyCapsule interface takes: polars, pyarrow, pandas.
#[pyclass(frozen, module = "corehop")]
#[derive(Debug)]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// A table of named columns of equal length; what is absent is null.
    pub(crate) fn of(columns: Vec<(&str, ArrayRef)>) -> Result<Self, ArrowError> {
        // A run that recorded nothing has no results either, and a batch without columns has to say its length.
        if columns.is_empty() {
            let schema = Arc::new(Schema::empty());
            return Ok(Self { batches: vec![RecordBatch::new_empty(schema.clone())], schema });
        }
        let named = columns.into_iter().map(|(name, array)| (name, array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(named)?;
        Ok(Self { schema: batch.schema(), batches: vec![batch] })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }
}

#[pymethods]
impl Table {
    /// The Arrow stream of the rows, as a capsule.
    ///
    /// The rows come in the table's own types, which the interface allows whatever is requested.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The Arrow schema, as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(errors::broken)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        format!(
            "<corehop.Table: {} rows of {} columns>",
            self.__len__(),
            self.schema.fields().len()
        )
    }

    /// The names of the columns, in order.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The values of the column `name`, as a list; what is absent is None.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        if self.schema.column_with_name(name).is_none() {
            return Err(PyKeyError::new_err(name.to_owned()));
        }
        for array in self.batches.iter().filter_map(|batch| batch.column_by_name(name)) {
            append(&all, array)?;
        }
        Ok(all)
    }

    /// Every column by its name, as a list.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for name in self.columns() {
            columns.set_item(&name, self.column(py, &name)?)?;
        }
        Ok(columns)
    }
}

/// Appends the values of `array` to `list`.
fn append(list: &Bound<'_, PyList>, array: &ArrayRef) -> PyResult<()> {
    match array.data_type() {
        DataType::Int64 => extend(list, array.as_primitive::<Int64Type>().iter()),
        DataType::UInt64 => extend(list, array.as_primitive::<UInt64Type>().iter()),
        DataType::Float64 => extend(list, array.as_primitive::<Float64Type>().iter()),
        DataType::Boolean => extend(list, array.as_boolean().iter()),
        DataType::Utf8 => extend(list, array.as_string::<i32>().iter()),
        DataType::List(_) => array.as_list::<i32>().iter().try_for_each(|inner| match inner {
            Some(inner) => {
                let values = PyList::empty(list.py());
                append(&values, &inner)?;
                list.append(values)
            }
            None => list.append(list.py().None()),
        }),
        other => Err(PyTypeError::new_err(format!("unexpected column type {other}"))),
    }
}

fn extend<'py, T: IntoPyObject<'py>>(
    list: &Bound<'py, PyList>,
    values: impl Iterator<Item = Option<T>>,
) -> PyResult<()> {
    for value in values {
        list.append(value)?;
    }
    Ok(())
}
