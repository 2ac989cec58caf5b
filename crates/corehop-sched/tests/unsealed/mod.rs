// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files as they were before checksums, and as other programs write them.
#![allow(dead_code, reason = "no test uses all of it")]

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Schema, SchemaRef};
use corehop_plan::samples::{Reader, RowKind};
use corehop_sched::study::{SchedulabilityStudy, Shard, StudyCounts, run};
use parquet::arrow::ArrowWriter;

use super::memory::Memory;

/// The rows of a file in the form that the file has, without checksums.
pub(crate) fn without_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut reader = Reader::open(Memory::new(bytes)).unwrap();
    let metadata = reader.kind().metadata();
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        batches.push(batch);
    }
    let known = || reader.rows_kind().map(RowKind::fields).unwrap().into();
    let fields = batches.first().map_or_else(known, |batch| batch.schema().fields().clone());
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    if bytes.starts_with(b"PAR1") { parquet(&schema, &batches) } else { stream(&schema, &batches) }
}

/// The counts of a study without checksums.
pub(crate) fn counts_without_checksums(counts: &StudyCounts) -> Vec<u8> {
    let batch = counts.batch().unwrap();
    let mut metadata = batch.schema().metadata().clone();
    metadata.remove("corehop.checksums").expect("files of counts announce their checksums");
    let fields = batch.schema().fields().clone();
    parquet(&Arc::new(Schema::new_with_metadata(fields, metadata)), &[batch])
}

fn parquet(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut out = ArrowWriter::try_new(Vec::new(), schema.clone(), None).unwrap();
    for batch in batches {
        out.write(&of(schema, batch)).unwrap();
    }
    out.into_inner().unwrap()
}

fn stream(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut out = StreamWriter::try_new(Vec::new(), schema).unwrap();
    for batch in batches {
        out.write(&of(schema, batch)).unwrap();
    }
    out.into_inner().unwrap()
}

fn of(schema: &SchemaRef, batch: &RecordBatch) -> RecordBatch {
    RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap()
}

/// The counts of a study of some sets.
pub(crate) fn study_counts() -> StudyCounts {
    const SMALL: &str = r#"
        id = "small"
        title = "small"
        seed = 5
        sets = 6
        cpus = 2
        caps = { from = 0.6, to = 2.0, step = 0.2 }
        delays_us = [0, 400]
        tasks = { deadline = "implicit", utilisation = "bimo-medium", period_us = "short" }

        [schedulers]
        g-edf = { test = "soft-g-edf" }
        p-edf = { test = "p-edf-wfd" }
    "#;
    run(&SchedulabilityStudy::parse(SMALL).unwrap(), Shard::WHOLE, Some(1), &()).unwrap()
}
