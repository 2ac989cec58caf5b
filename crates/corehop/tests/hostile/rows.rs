// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of rows with values that no measurement gives, and no checksum that would say so.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use corehop_plan::samples::Reader;
use parquet::arrow::ArrowWriter;

use corehop_fixtures::changed::{PIECES, SplitMix};

/// Numbers beyond what a clock or a counter says.
const NUMBERS: [f64; 16] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1.4e154,
    1e308,
    -1e308,
    1e200,
    -1.0,
    -0.0,
    0.0,
    5e-324,
    1e-300,
    1e18,
    1.1e18,
    9_007_199_254_740_993.0,
    18_446_744_073_709_551_616.0,
];
const COUNTS: [u64; 10] =
    [0, 1, 63, 1 << 31, u32::MAX as u64, 1 << 53, 1 << 60, 1 << 63, u64::MAX - 1, u64::MAX];

/// Writes the first rows of `from` to `to`, with some values changed: in a few cells, a column, or the description.
pub(crate) fn write(from: &Path, to: &Path, draw: &mut SplitMix) {
    let mut reader = Reader::open(File::open(from).unwrap()).unwrap();
    let mut metadata = reader.kind().metadata();
    let Some(batch) = reader.next_batch().unwrap() else { return };
    let batch = batch.slice(0, batch.num_rows().min(200));
    let mut columns = batch.columns().to_vec();
    for _ in 0..=draw.below(3) {
        let at = draw.below(columns.len());
        columns[at] = spoilt(&columns[at], draw);
    }
    if draw.below(4) == 0 {
        // The description of the machine, the seed, the plan: numbers in it become others.
        let key = "corehop.provenance";
        let text = corehop_fixtures::changed::changed(metadata[key].as_bytes(), draw);
        metadata.insert(key.to_owned(), String::from_utf8_lossy(&text).into_owned());
    }
    let mut fields: Vec<Field> =
        batch.schema().fields().iter().map(|it| it.as_ref().clone().with_nullable(true)).collect();
    if draw.below(10) == 0 {
        let gone = draw.below(columns.len());
        columns.remove(gone);
        fields.remove(gone);
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let Ok(batch) = RecordBatch::try_new(schema.clone(), columns) else { return };
    let file = File::create(to).unwrap();
    if draw.below(2) == 0 {
        let mut out = StreamWriter::try_new(file, &schema).unwrap();
        out.write(&batch).unwrap();
        out.finish().unwrap();
    } else {
        let mut out = ArrowWriter::try_new(file, schema, None).unwrap();
        out.write(&batch).unwrap();
        out.close().unwrap();
    }
}

/// A column with one value in a cell, in a third of them, or in all of them.
fn spoilt(column: &ArrayRef, draw: &mut SplitMix) -> ArrayRef {
    let rows = column.len();
    let (one, every) = (draw.below(rows), draw.below(3));
    let hit = |row: usize| match every {
        0 => row == one,
        1 => row % 3 == one % 3,
        _ => true,
    };
    let nothing = draw.below(12) == 0;
    let number = NUMBERS[draw.below(NUMBERS.len())];
    let count = COUNTS[draw.below(COUNTS.len())];
    let piece = PIECES[draw.below(PIECES.len())];
    let any = column.as_any();
    match column.data_type() {
        DataType::Float64 => {
            let all = any.downcast_ref::<Float64Array>().unwrap().iter().enumerate();
            let value = |(row, old)| if hit(row) { (!nothing).then_some(number) } else { old };
            Arc::new(all.map(value).collect::<Float64Array>())
        }
        DataType::UInt64 => {
            let all = any.downcast_ref::<UInt64Array>().unwrap().iter().enumerate();
            let value = |(row, old)| if hit(row) { (!nothing).then_some(count) } else { old };
            Arc::new(all.map(value).collect::<UInt64Array>())
        }
        DataType::Boolean => {
            let all = any.downcast_ref::<BooleanArray>().unwrap().iter().enumerate();
            let value = |(row, old): (usize, Option<bool>)| {
                if hit(row) { (!nothing).then_some(!old.unwrap_or(false)) } else { old }
            };
            Arc::new(all.map(value).collect::<BooleanArray>())
        }
        DataType::Utf8 => {
            let all = any.downcast_ref::<StringArray>().unwrap();
            // Another word of the column, or a piece.
            let other = (0..rows).map(|row| (row + one) % rows.max(1));
            let other = other.map(|row| all.is_valid(row).then(|| all.value(row))).next().flatten();
            let word = if draw.below(2) == 0 { other } else { (!nothing).then_some(piece) };
            let value = |(row, old)| if hit(row) { word } else { old };
            Arc::new(all.iter().enumerate().map(value).collect::<StringArray>())
        }
        _ => column.clone(),
    }
}
