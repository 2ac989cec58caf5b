// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores study counts as Parquet: one row per count, with the study and its shards in the metadata.
//!
//! A file contains no date and no host, so identical sets give identical bytes, whether counted at once or merged.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;
use serde::{Deserialize, Serialize};

use super::counts::{ReadingCounts, StudyCounts};
use super::shard::Shards;
use super::tally::SetMoments;
use super::{Measure, SchedulabilityStudy, StudyReading};
use corehop_plan::bounds;
use corehop_plan::samples::Verification;
use corehop_plan::samples::damage::{ANNOUNCED, guarded, parquet_cause};
use corehop_plan::samples::parquet_sums::{self, SealedWriter, Verified, VerifyError};
use corehop_plan::samples::store::{KIND, STUDY, VERSION};
use corehop_plan::workload::task::Time;

/// The reason why a file contains no study counts, or could not be written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file has another format.
    #[error("this file has no counts of a study: pass a file of `corehop check study … -o`")]
    NotOurs,
    /// The file has a later format version.
    #[error("this file has version {0} of study counts: use a newer corehop")]
    Later(u32),
    /// The contents of the file contradict each other.
    #[error("this file is damaged: {0}")]
    Damaged(String),
    /// The system could not read or write.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<ParquetError> for StoreError {
    fn from(error: ParquetError) -> Self {
        match parquet_cause(error) {
            Ok(error) => Self::Io(error),
            Err(what) => Self::Damaged(what),
        }
    }
}

/// The format version that this module writes.
const VERSION_HERE: u32 = 1;
const ABOUT: &str = "corehop.study";

/// The contents of the metadata.
#[derive(Serialize, Deserialize)]
struct About {
    description: String,
    seed: u64,
    sets: u64,
    shards: String,
}

/// The columns that identify a row.
struct StudyRowKey<'a> {
    reading: &'a str,
    quantity: &'static str,
    scheduler: &'a str,
    against: Option<&'a str>,
    delay: Time,
    cap: Option<f64>,
    tally: SetMoments,
}

/// The rows of a reading, in the order of its counts.
fn rows<'a>(
    about: &'a StudyReading,
    counts: &'a ReadingCounts,
) -> impl Iterator<Item = StudyRowKey<'a>> {
    let places = about.schedulers.iter().flat_map(|scheduler| {
        about.delays.iter().map(move |&delay| (scheduler.name.as_str(), delay))
    });
    let (single, weighted) = match about.measure {
        Measure::Schedulability => ("schedulable", "weighted"),
        Measure::Breakdown => ("breakdown", "mean-breakdown"),
    };
    let row = move |quantity, scheduler, delay, cap, tally| StudyRowKey {
        reading: &about.name,
        quantity,
        scheduler,
        against: None,
        delay,
        cap,
        tally,
    };
    let caps = about.caps;
    let cells = places
        .clone()
        .flat_map(move |(name, delay)| (0..caps.len()).map(move |cap| (name, delay, cap)))
        .zip(&counts.cells)
        .map(move |((name, delay, cap), &tally)| {
            row(single, name, delay, Some(caps.at(cap)), tally)
        });
    let means = places
        .zip(&counts.weighted)
        .map(move |((name, delay), &tally)| row(weighted, name, delay, None, tally));
    let steps = about.crossovers.iter().flat_map(|crossover| {
        about.steps(crossover).into_iter().map(move |step| (crossover, step))
    });
    let differences =
        steps.zip(&counts.differences).map(|((crossover, delay), &tally)| StudyRowKey {
            reading: &about.name,
            quantity: "difference",
            scheduler: &crossover.of,
            against: Some(&crossover.against),
            delay,
            cap: None,
            tally,
        });
    cells.chain(means).chain(differences)
}

impl StudyCounts {
    /// Writes the counts as Parquet.
    ///
    /// # Errors
    /// Returns [`StoreError::Io`] if `out` cannot be written.
    pub fn write(&self, out: impl Write + Send) -> Result<(), StoreError> {
        let batch = self.batch()?;
        let snappy = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("corehop".to_owned())
            .build();
        let mut writer = SealedWriter::begin(out, batch.schema(), snappy)?;
        writer.write(&batch)?;
        Ok(writer.end()?)
    }

    /// Returns the rows that a file contains, one per count.
    ///
    /// # Errors
    /// No error is expected; inconsistent columns are reported as damaged.
    pub fn batch(&self) -> Result<RecordBatch, StoreError> {
        let pairs = self.study.readings.iter().zip(&self.readings);
        let all: Vec<StudyRowKey<'_>> =
            pairs.flat_map(|(about, counts)| rows(about, counts)).collect();
        let text = |of: fn(&StudyRowKey<'_>) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(all.iter().map(of)))
        };
        let number = |of: fn(&StudyRowKey<'_>) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(all.iter().map(of)))
        };
        let against = all.iter().map(|row| row.against);
        let columns: [ArrayRef; 9] = [
            text(|row| row.reading.to_owned()),
            text(|row| row.quantity.to_owned()),
            text(|row| row.scheduler.to_owned()),
            Arc::new(against.collect::<StringArray>()),
            number(|row| row.delay.ticks() as i64),
            Arc::new(all.iter().map(|row| row.cap).collect::<Float64Array>()),
            number(|row| row.tally.sets as i64),
            number(|row| row.tally.sum),
            number(|row| row.tally.square),
        ];
        let names = [
            "reading",
            "quantity",
            "scheduler",
            "against",
            "delay_us",
            "cap",
            "sets",
            "sum",
            "square",
        ];
        let field = |(name, column): (&&str, &ArrayRef)| {
            Field::new(*name, column.data_type().clone(), ["against", "cap"].contains(name))
        };
        let fields: Vec<Field> = names.iter().zip(&columns).map(field).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.metadata()?));
        RecordBatch::try_new(schema, columns.to_vec())
            .map_err(|error| StoreError::Damaged(error.to_string()))
    }

    fn metadata(&self) -> Result<HashMap<String, String>, StoreError> {
        let about = About {
            description: self.study.text.clone(),
            seed: self.study.seed,
            sets: self.study.sets,
            shards: self.shards.to_string(),
        };
        let about = serde_json::to_string(&about)
            .map_err(|error| StoreError::Damaged(error.to_string()))?;
        Ok(HashMap::from([
            (KIND.to_owned(), STUDY.to_owned()),
            (VERSION.to_owned(), VERSION_HERE.to_string()),
            (ABOUT.to_owned(), about),
            (ANNOUNCED.to_owned(), "1".to_owned()),
        ]))
    }

    /// Reads a file that [`StudyCounts::write`] wrote, and reports whether its checksums are valid.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the file has another format or a later version, or is damaged.
    pub fn read(file: impl ChunkReader + 'static) -> Result<(Self, Verification), StoreError> {
        let verified = parquet_sums::verify(&file);
        // What is damaged may be a file of rows, whose reader says so.
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file));
        let builder = builder.map_err(|_| StoreError::NotOurs)?.map_err(|_| StoreError::NotOurs)?;
        let metadata = builder.schema().metadata().clone();
        if metadata.get(KIND).map(String::as_str) != Some(STUDY) {
            return Err(StoreError::NotOurs);
        }
        let version: Option<u32> = metadata.get(VERSION).and_then(|text| text.parse().ok());
        if version != Some(VERSION_HERE) {
            return Err(version.map_or(StoreError::NotOurs, StoreError::Later));
        }
        let verification = match verified {
            Ok(Some(Verified { damage: Some(damage), .. })) | Err(VerifyError::Footer(damage)) => {
                return Err(StoreError::Damaged(damage.to_string()));
            }
            Err(VerifyError::Io(error)) => return Err(StoreError::Io(error)),
            Ok(None) if metadata.contains_key(ANNOUNCED) => {
                return Err(StoreError::Damaged("the checksums are missing".to_owned()));
            }
            Ok(seal) => Verification::of(seal.is_some()),
        };
        let damaged = |error: &dyn std::fmt::Display| StoreError::Damaged(error.to_string());
        let about = metadata.get(ABOUT).ok_or(StoreError::NotOurs)?;
        let about: About = bounds::from_json(about).map_err(|error| damaged(&error))?;
        let study = SchedulabilityStudy::parse(&about.description)
            .and_then(|study| study.with(Some(about.seed), Some(about.sets)))
            .map_err(|error| damaged(&error))?;
        let shards: Shards = about.shards.parse().map_err(|error| damaged(&error))?;
        let mut tallies = Vec::new();
        let mut batches = guarded(|| builder.build()).map_err(StoreError::Damaged)??;
        while let Some(batch) = guarded(|| batches.next()).map_err(StoreError::Damaged)? {
            tallies.extend(tallies_of(&batch.map_err(|error| damaged(&error))?)?);
        }
        let mut rest = tallies.into_iter();
        let readings = study.readings.iter().map(|about| ReadingCounts::of(about, &mut rest));
        let readings: Option<Vec<ReadingCounts>> = readings.collect();
        match readings {
            Some(readings) if rest.next().is_none() => {
                Ok((Self { study, shards, readings }, verification))
            }
            _ => Err(StoreError::Damaged(
                "the rows do not belong to the study of the file".to_owned(),
            )),
        }
    }
}

impl ReadingCounts {
    /// Takes the next tallies as the counts of a reading; `None` if there are too few.
    fn of(about: &StudyReading, tallies: &mut impl Iterator<Item = SetMoments>) -> Option<Self> {
        let pairs = about.schedulers.len() * about.delays.len();
        let steps = about.crossovers.iter().map(|crossover| about.steps(crossover).len()).sum();
        let mut take = |count: usize| -> Option<Vec<SetMoments>> {
            let taken: Vec<SetMoments> = tallies.take(count).collect();
            (taken.len() == count).then_some(taken)
        };
        let cells = take(pairs * about.caps.len())?;
        Some(Self { cells, weighted: take(pairs)?, differences: take(steps)? })
    }
}

fn tallies_of(batch: &RecordBatch) -> Result<Vec<SetMoments>, StoreError> {
    let column = |name: &str| {
        let column = batch.column_by_name(name).filter(|it| *it.data_type() == DataType::Int64);
        let column = column.ok_or_else(|| StoreError::Damaged(format!("no column {name}")))?;
        Ok::<_, StoreError>(column.as_primitive::<Int64Type>().values().clone())
    };
    let (sets, sums, squares) = (column("sets")?, column("sum")?, column("square")?);
    let all = sets.iter().zip(sums.iter()).zip(squares.iter());
    Ok(all.map(|((&sets, &sum), &square)| SetMoments { sets: sets as u64, sum, square }).collect())
}
