// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of rows: an Arrow stream during a run, and Parquet after the run has ended.
//!
//! The writer appends the stream batch by batch without a footer, so that a reader can read everything written
//! before a crash. [`Reader`] reads both forms and distinguishes them by their first bytes.

use std::collections::HashMap;
use std::io::{Read, Seek, Write};
use std::marker::PhantomData;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;

use super::damage::{ANNOUNCED, Damage, Verification, guarded};
use super::error::FileError;
use super::message;
use super::parquet_sums::{self, GROUP_ROWS, SealedWriter, Verified};
use super::provenance::Provenance;
use super::seen::{ENOUGH, seen};
use super::stream::MessageScan;
use crate::bounds;
use crate::kinds::Row;
use crate::kinds::SCHEMA_VERSION;
use crate::kinds::{RowKind, Rows};

/// The metadata key, in every corehop file, for the kind of the rows.
pub const KIND: &str = "corehop.rows";
/// The metadata key for the version of the row types.
pub const VERSION: &str = "corehop.schema";
/// The kind of a file whose rows are the counts of a study, which the command `study` reads.
pub const STUDY: &str = "study";
const PROVENANCE: &str = "corehop.provenance";

fn schema_of(kind: RowKind, provenance: &Provenance) -> SchemaRef {
    let file = FileKind {
        rows: kind.word().to_owned(),
        schema: SCHEMA_VERSION,
        provenance: provenance.clone(),
    };
    let mut metadata = file.metadata();
    metadata.insert(ANNOUNCED.to_owned(), "1".to_owned());
    Arc::new(Schema::new_with_metadata(kind.fields(), metadata))
}

/// The kind of a file, as its metadata states it.
#[derive(Debug, Clone, PartialEq)]
pub struct FileKind {
    /// The name of the row type.
    pub rows: String,
    /// The version of the row types.
    pub schema: u32,
    /// The provenance of the rows of the file.
    pub provenance: Provenance,
}

impl FileKind {
    fn of(schema: &Schema) -> Result<Self, FileError> {
        let get = |key: &str| schema.metadata().get(key);
        let not_ours = || FileError::NotOurs("the file lacks our metadata".to_owned());
        let rows = get(KIND).ok_or_else(not_ours)?.clone();
        if rows == STUDY {
            return Err(FileError::Study);
        }
        let found = get(VERSION).and_then(|text| text.parse().ok()).ok_or_else(not_ours)?;
        if found > SCHEMA_VERSION {
            return Err(FileError::Later { found });
        }
        let provenance = get(PROVENANCE).ok_or_else(not_ours)?;
        let provenance = bounds::from_json(provenance)
            .map_err(|error| FileError::Damaged(format!("its provenance: {error}")))?;
        Ok(Self { rows, schema: found, provenance })
    }

    /// Returns the metadata of an Arrow schema, which states the kind of the file, so that the kind goes wherever the rows
    /// go.
    pub fn metadata(&self) -> HashMap<String, String> {
        HashMap::from([
            (KIND.to_owned(), self.rows.clone()),
            (VERSION.to_owned(), self.schema.to_string()),
            (PROVENANCE.to_owned(), self.provenance.to_json()),
        ])
    }
}

/// A file in progress: an Arrow stream of batches; each batch is complete and has a checksum.
pub struct BatchWriter<W: Write> {
    out: W,
    /// The encoder, which writes to memory.
    encoder: StreamWriter<Vec<u8>>,
    /// The number of the next batch.
    number: u64,
    schema: SchemaRef,
    kind: RowKind,
}

impl<W: Write> std::fmt::Debug for BatchWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<W: Write> BatchWriter<W> {
    /// Begins a stream of rows of a kind.
    ///
    /// # Errors
    /// Returns [`FileError::Io`] if `out` cannot be written.
    pub fn begin(mut out: W, kind: RowKind, provenance: &Provenance) -> Result<Self, FileError> {
        let schema = schema_of(kind, provenance);
        let mut encoder = StreamWriter::try_new(Vec::new(), &schema)?;
        let head = std::mem::take(encoder.get_mut());
        out.write_all(&head)?;
        let mut part = Self { out, encoder, number: 0, schema, kind };
        // A batch without rows has the checksum of the head. A run that is killed before its first rows leaves a
        // file that says what it is.
        part.write(&RecordBatch::new_empty(part.schema.clone()), &head)?;
        Ok(part)
    }

    /// Appends the rows of the stream's kind among `rows`, and hands them to the operating system.
    ///
    /// # Errors
    /// Returns [`FileError::Io`] if the rows cannot be written; batches written earlier stay readable.
    pub fn append(&mut self, rows: &Rows) -> Result<(), FileError> {
        if rows.len(self.kind) == 0 {
            return Ok(());
        }
        let all = RecordBatch::try_new(self.schema.clone(), rows.columns(self.kind))?;
        for from in (0..all.num_rows()).step_by(GROUP_ROWS) {
            let batch = all.slice(from, GROUP_ROWS.min(all.num_rows() - from));
            self.write(&batch, &[])?;
        }
        Ok(())
    }

    fn write(&mut self, batch: &RecordBatch, head: &[u8]) -> Result<(), FileError> {
        self.encoder.write(batch)?;
        let wire = std::mem::take(self.encoder.get_mut());
        let sealed = message::sealed(&wire, self.number, head).ok_or_else(|| {
            FileError::Damaged("a batch was not encoded as one message".to_owned())
        })?;
        self.out.write_all(&sealed)?;
        self.out.flush()?;
        self.number += 1;
        Ok(())
    }

    /// Ends the stream with its end marker.
    ///
    /// # Errors
    /// Returns [`FileError::Io`] if the end marker cannot be written.
    pub fn end(mut self) -> Result<(), FileError> {
        // A batch without rows is the last: damage to the length of the one before is told from a torn end.
        self.write(&RecordBatch::new_empty(self.schema.clone()), &[])?;
        self.encoder.finish()?;
        self.out.write_all(self.encoder.get_ref())?;
        Ok(self.out.flush()?)
    }
}

enum BatchReader<S: ChunkReader + 'static> {
    Stream(Box<MessageScan>, S),
    Parquet(Box<ParquetRecordBatchReader>, PhantomData<S>),
}

/// A reader of a file of rows, which is a Parquet file or an Arrow stream.
pub struct Reader<S: ChunkReader + Read + Seek + 'static> {
    kind: FileKind,
    schema: SchemaRef,
    batches: BatchReader<S>,
    truncated: bool,
    damage: Option<Damage>,
    /// The number of rows before the last batch that was read, and the number of rows in that batch.
    rows: (usize, usize),
    verification: Verification,
}

impl<S: ChunkReader + Read + Seek + 'static> std::fmt::Debug for Reader<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("kind", &self.kind)
            .field("truncated", &self.truncated)
            .finish_non_exhaustive()
    }
}

impl<S: ChunkReader + Read + Seek + 'static> Reader<S> {
    /// Opens a file, verifies its checksums and reads its metadata.
    ///
    /// # Errors
    /// Returns [`FileError`] if the file is not a corehop file, comes from a later version, or is damaged.
    pub fn open(file: S) -> Result<Self, FileError> {
        let reader = Self::salvage(file)?;
        match reader.damage {
            Some(damage) => Err(FileError::Checksum(damage)),
            None => Ok(reader),
        }
    }

    /// Opens a file that may be damaged, so that its sound rows can be read.
    ///
    /// # Errors
    /// Returns [`FileError`] if the file is not a corehop file, comes from a later version, or is so damaged that
    /// corehop cannot identify a sound row.
    pub fn salvage(mut file: S) -> Result<Self, FileError> {
        let mut magic = [0; 4];
        let mut read = 0;
        while read < magic.len() {
            match file.read(&mut magic[read..])? {
                0 => return Err(FileError::NotOurs("the file is empty, or nearly so".to_owned())),
                more => read += more,
            }
        }
        match &magic {
            b"PAR1" => Self::parquet(file),
            [0xff, 0xff, 0xff, 0xff] => Self::stream(file),
            _ => Err(FileError::NotOurs(unknown(&magic, file))),
        }
    }

    fn parquet(file: S) -> Result<Self, FileError> {
        let seal = parquet_sums::verify(&file)?;
        let builder = guarded(|| ParquetRecordBatchReaderBuilder::try_new(file))
            .map_err(FileError::Damaged)??;
        let kind = FileKind::of(builder.schema())?;
        if seal.is_none() && builder.schema().metadata().contains_key(ANNOUNCED) {
            return Err(FileError::Damaged("the checksums are missing".to_owned()));
        }
        let verification = Verification::of(seal.is_some());
        let schema = builder.schema().clone();
        let (damage, builder) = match seal {
            Some(Verified { damage: Some(damage), sound }) => {
                (Some(damage), builder.with_row_groups(sound))
            }
            _ => (None, builder),
        };
        let reader = guarded(|| builder.with_batch_size(GROUP_ROWS).build());
        let reader = Box::new(reader.map_err(FileError::Damaged)??);
        let batches = BatchReader::Parquet(reader, PhantomData);
        Ok(Self { kind, schema, batches, truncated: false, damage, rows: (0, 0), verification })
    }

    fn stream(mut file: S) -> Result<Self, FileError> {
        let scan = MessageScan::of(&mut file)?;
        let kind = FileKind::of(&scan.schema)?;
        let (schema, truncated, damage) = (scan.schema.clone(), scan.torn, scan.damage.clone());
        let verification = scan.verification;
        let batches = BatchReader::Stream(Box::new(scan), file);
        Ok(Self { kind, schema, batches, truncated, damage, rows: (0, 0), verification })
    }

    /// Returns the damage of a file that was opened for salvage, or `None` if the file is sound.
    pub const fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Returns whether checksums verified the rows.
    pub const fn verification(&self) -> Verification {
        self.verification
    }

    /// Returns the kind of the file, as its metadata states it.
    pub const fn kind(&self) -> &FileKind {
        &self.kind
    }

    /// Returns the kind of the file's rows.
    ///
    /// # Errors
    /// Returns [`FileError::NotOurs`] for a kind that this program does not know.
    pub fn rows_kind(&self) -> Result<RowKind, FileError> {
        let unknown =
            || FileError::NotOurs(format!("the file has rows of the kind `{}`", self.kind.rows));
        RowKind::named(&self.kind.rows).ok_or_else(unknown)
    }

    /// Returns whether an Arrow stream ended in the middle of a batch, as after a crash.
    pub const fn truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the next batch of rows; `None` at the end of the file, or at the place where a crash cut a
    /// stream off.
    ///
    /// # Errors
    /// Returns [`FileError`] if the file has rows of another kind, or is damaged.
    pub fn next_rows<R: Row>(&mut self) -> Result<Option<Vec<R>>, FileError> {
        if self.kind.rows != R::KIND {
            return Err(FileError::Kind { found: self.kind.rows.clone(), expected: R::KIND });
        }
        match self.next_batch()? {
            Some(batch) => Ok(Some(R::rows(&batch).map_err(|error| error.after(self.rows.0))?)),
            None => Ok(None),
        }
    }

    /// Returns the next batch as rows of the file's kind.
    ///
    /// # Errors
    /// Returns [`FileError`] if the kind of the rows is unknown, or if the file is damaged.
    pub fn next_of_any_kind(&mut self) -> Result<Option<Rows>, FileError> {
        let kind = self.rows_kind()?;
        let Some(batch) = self.next_batch()? else { return Ok(None) };
        Ok(Some(Rows::read(kind, &batch).map_err(|error| error.after(self.rows.0))?))
    }

    /// Returns the next batch, whatever rows it contains.
    ///
    /// # Errors
    /// Returns [`FileError`] if the file cannot be read, or if a batch without a checksum cannot be decoded.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, FileError> {
        let next = match &mut self.batches {
            BatchReader::Parquet(reader, _) => {
                guarded(|| reader.next()).map_err(FileError::Damaged)?.transpose()?
            }
            BatchReader::Stream(scan, file) => scan.next(file)?,
        };
        let count = next.as_ref().map_or(0, RecordBatch::num_rows);
        self.rows = (self.rows.0 + self.rows.1, count);
        Ok(next)
    }

    /// Returns all remaining rows of the file.
    ///
    /// # Errors
    /// Returns [`FileError`], as [`Reader::next_rows`] does.
    pub fn all<R: Row>(&mut self) -> Result<Vec<R>, FileError> {
        let mut all = Vec::new();
        while let Some(rows) = self.next_rows()? {
            all.extend(rows);
        }
        Ok(all)
    }
}

/// Writes the remaining batches of `from` as Parquet with checksums and copies every column, including columns
/// that this program does not know. `provenance` replaces the provenance of `from`. Returns the number of rows
/// that were copied.
///
/// # Errors
/// Returns [`FileError`] if `from` cannot be read or `out` cannot be written; `out` is then incomplete.
pub fn copy_parquet<S, W>(
    from: &mut Reader<S>,
    provenance: &Provenance,
    out: W,
) -> Result<u64, FileError>
where
    S: ChunkReader + Read + Seek + 'static,
    W: Write + Send,
{
    let kind = from.rows_kind()?;
    let mut metadata = from.schema.metadata().clone();
    metadata.insert(PROVENANCE.to_owned(), provenance.to_json());
    metadata.insert(ANNOUNCED.to_owned(), "1".to_owned());
    let schema = Arc::new(Schema::new_with_metadata(from.schema.fields().clone(), metadata));
    let mut writer = SealedWriter::begin(out, schema.clone(), compressed())?;
    let mut count = 0;
    while let Some(batch) = from.next_batch()? {
        // What is sealed as sound has to be rows of its kind.
        let rows = Rows::read(kind, &batch).map_err(|error| error.after(from.rows.0))?;
        count += rows.len(kind) as u64;
        writer.write(&RecordBatch::try_new(schema.clone(), batch.columns().to_vec())?)?;
    }
    writer.end()?;
    Ok(count)
}

fn compressed() -> WriterProperties {
    WriterProperties::builder().set_compression(Compression::SNAPPY).build()
}

/// Writes the remaining rows of `from` as Parquet; `provenance` replaces the provenance of `from`, and
/// `finish` changes each batch. Returns the number of rows that were written.
///
/// # Errors
/// Returns [`FileError`] if `from` cannot be read or `out` cannot be written; `out` is then incomplete.
pub fn write_parquet<S, W>(
    from: &mut Reader<S>,
    provenance: &Provenance,
    out: W,
    finish: impl Fn(&mut Rows),
) -> Result<u64, FileError>
where
    S: ChunkReader + Read + Seek + 'static,
    W: Write + Send,
{
    let kind = from.rows_kind()?;
    let schema = schema_of(kind, provenance);
    let mut writer = SealedWriter::begin(out, schema.clone(), compressed())?;
    let mut count = 0;
    while let Some(batch) = from.next_batch()? {
        let mut rows = Rows::read(kind, &batch).map_err(|error| error.after(from.rows.0))?;
        count += rows.len(kind) as u64;
        finish(&mut rows);
        writer.write(&RecordBatch::try_new(schema.clone(), rows.columns(kind))?)?;
    }
    writer.end()?;
    Ok(count)
}

/// Returns the format of a file that is neither Parquet nor an Arrow stream, with the programs that read that
/// format.
fn unknown(begin: &[u8], file: impl Read) -> String {
    let mut bytes = begin.to_vec();
    // What cannot be read tells nothing.
    let _partly = file.take(ENOUGH as u64).read_to_end(&mut bytes);
    seen(&bytes)
        .map_or_else(|| "neither Parquet nor an Arrow stream".to_owned(), |it| it.to_string())
}
