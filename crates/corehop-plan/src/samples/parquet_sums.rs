// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksums of a Parquet file: one checksum for the bytes of each row group, and one for all bytes after the row
//! groups.
//!
//! The checksums are a text in the key-value metadata of the footer. Checksums cover bytes and not values, so that
//! a reader verifies a file before it decodes anything. A row group has few rows, so that damage to a group costs
//! few rows.

use std::fmt::Write as _;
use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;

use super::damage::{Damage, PLACEHOLDER, parquet_cause, sum_of};

/// The number of rows in a row group.
pub(crate) const GROUP_ROWS: usize = 8192;
const KEY: &str = "corehop.sums";
/// The beginning of the text with the checksums; the checksum of the rest of the file and `rows:bytes:checksum` of each
/// group follow.
const BEGIN: &str = "corehop.crc32=";
const END: u8 = b';';
/// The largest size of a footer with its metadata.
const MOST_FOOTER: u64 = 256 << 20;
/// The length of the trailer that ends a file: the length of the footer, and four letters.
const TRAILER: u64 = 8;

/// A part of a file that has a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ParquetGroup {
    rows: u64,
    bytes: u64,
    sum: u32,
}

/// A writer that passes bytes on and sums them; at the end of a file, the writer keeps the bytes instead.
#[derive(Debug)]
struct Summing<W> {
    out: W,
    sum: crc32fast::Hasher,
    bytes: u64,
    tail: Option<Vec<u8>>,
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some(tail) = &mut self.tail {
            tail.extend(buffer);
            return Ok(buffer.len());
        }
        let written = self.out.write(buffer)?;
        self.sum.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A writer of Parquet files with checksums.
#[expect(missing_debug_implementations, reason = "the writer inside has none")]
pub struct SealedWriter<W: Write + Send> {
    writer: ArrowWriter<Summing<W>>,
    /// The checksums so far: the first covers the four letters at the beginning of the file, and each further checksum
    /// covers a row group.
    groups: Vec<ParquetGroup>,
}

impl<W: Write + Send> SealedWriter<W> {
    /// Begins a Parquet file with checksums.
    ///
    /// # Errors
    /// Returns [`ParquetError`] if `out` cannot be written, or if Parquet does not know a type of the schema.
    pub fn begin(
        out: W,
        schema: SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, ParquetError> {
        let out = Summing { out, sum: crc32fast::Hasher::new(), bytes: 0, tail: None };
        let writer = ArrowWriter::try_new(out, schema, Some(properties))?;
        let mut sealed = Self { writer, groups: Vec::new() };
        sealed.close_group(0)?;
        Ok(sealed)
    }

    /// Appends rows to the Parquet file.
    ///
    /// # Errors
    /// Returns [`ParquetError`] if the file cannot be written, or if the rows do not match its schema.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let mut from = 0;
        while from < batch.num_rows() {
            let room = GROUP_ROWS - self.writer.in_progress_rows();
            let rows = room.min(batch.num_rows() - from);
            self.writer.write(&batch.slice(from, rows))?;
            from += rows;
            if rows == room {
                self.close_group(GROUP_ROWS as u64)?;
            }
        }
        Ok(())
    }

    fn close_group(&mut self, rows: u64) -> Result<(), ParquetError> {
        self.writer.flush()?;
        self.writer.sync()?;
        let out = self.writer.inner_mut();
        let sum = std::mem::take(&mut out.sum).finalize();
        let bytes = std::mem::take(&mut out.bytes);
        self.groups.push(ParquetGroup { rows, bytes, sum });
        Ok(())
    }

    /// Ends the Parquet file with its footer.
    ///
    /// # Errors
    /// Returns [`ParquetError`] if the file cannot be written.
    pub fn end(mut self) -> Result<(), ParquetError> {
        let left = self.writer.in_progress_rows() as u64;
        if left > 0 {
            self.close_group(left)?;
        }
        let text = text_of(&self.groups);
        self.writer.append_key_value_metadata(KeyValue::new(KEY.to_owned(), text));
        self.writer.inner_mut().tail = Some(Vec::new());
        let Summing { mut out, tail, .. } = self.writer.into_inner()?;
        let mut tail = tail.unwrap_or_default();
        let sum = format!("{:08x}", crc32fast::hash(&tail));
        let lost = || ParquetError::General("the checksums are not in the footer".to_owned());
        let at = digits_in(&tail).ok_or_else(lost)?;
        tail[at..at + sum.len()].copy_from_slice(sum.as_bytes());
        out.write_all(&tail)?;
        Ok(out.flush()?)
    }
}

fn text_of(groups: &[ParquetGroup]) -> String {
    let mut text = format!("{BEGIN}{PLACEHOLDER}");
    for ParquetGroup { rows, bytes, sum } in groups {
        // Writing to a string cannot fail.
        let _ = write!(text, " {rows}:{bytes}:{sum:08x}");
    }
    text.push(END as char);
    text
}

/// Returns the offset of the checksum's digits in the bytes of a footer. The function searches from the end,
/// because other metadata comes before the checksums.
fn digits_in(tail: &[u8]) -> Option<usize> {
    let begin = BEGIN.as_bytes();
    let at = tail.windows(begin.len()).rposition(|bytes| bytes == begin)? + begin.len();
    (tail.len() >= at + PLACEHOLDER.len()).then_some(at)
}

/// Parses the text after its beginning: the checksum of the rest, and the row groups.
fn parsed(text: &[u8]) -> Option<(u32, Vec<ParquetGroup>)> {
    let text = text.split(|&byte| byte == END).next()?;
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    // As it was written, and in no other way: the digits are in no checksum themselves.
    let hex =
        |text: &str| u32::from_str_radix(text, 16).ok().filter(|sum| format!("{sum:08x}") == text);
    let sum = hex(words.next()?)?;
    let group = |word: &str| {
        let mut parts = word.split(':');
        let (rows, bytes) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let group = ParquetGroup { rows, bytes, sum: hex(parts.next()?)? };
        parts.next().is_none().then_some(group)
    };
    Some((sum, words.map(group).collect::<Option<_>>()?))
}

/// The result of verifying a file's checksums.
#[derive(Debug)]
pub struct Verified {
    /// The first damage in the file, if there is one.
    pub damage: Option<Damage>,
    /// The indices of the sound row groups.
    pub sound: Vec<usize>,
}

/// Returns the error for a file whose footer is damaged, so that none of its rows can be read.
fn without_footer(at: u64) -> VerifyError {
    VerifyError::Footer(Damage::at(at, 0, "the footer, without which no row can be read"))
}

/// The reason why a file could not be verified.
#[derive(Debug)]
pub enum VerifyError {
    /// The footer of the file is damaged.
    Footer(Damage),
    /// The system could not read the file.
    Io(io::Error),
}

impl From<io::Error> for VerifyError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ParquetError> for VerifyError {
    fn from(error: ParquetError) -> Self {
        match parquet_cause(error) {
            Ok(error) => Self::Io(error),
            Err(what) => Self::Footer(Damage::at(0, 0, what)),
        }
    }
}

/// Verifies the checksums of a file. Returns None for a file without checksums.
///
/// # Errors
/// Returns [`VerifyError`] if the file cannot be read, or if its footer is damaged.
pub fn verify(file: &impl ChunkReader) -> Result<Option<Verified>, VerifyError> {
    let size = file.len();
    sums_of(file, size)?.map(|sums| check(file, size, &sums)).transpose()
}

/// The bytes of the footer and of the metadata before it, with the checksums that they contain.
struct FooterChecksums {
    /// The offset in the file of the digits of the checksum that covers the rest of the file.
    digits: u64,
    tail: u32,
    groups: Vec<ParquetGroup>,
}

fn sums_of(file: &impl ChunkReader, size: u64) -> Result<Option<FooterChecksums>, VerifyError> {
    if size < TRAILER {
        return Ok(None);
    }
    let trailer = file.get_bytes(size - TRAILER, TRAILER as usize)?;
    let stated = u64::from(u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]));
    if stated > MOST_FOOTER {
        return Err(without_footer(size - TRAILER));
    }
    // A damaged length must not hide the checksums.
    let length = stated.max(1 << 16).saturating_add(TRAILER).min(size);
    let footer = file.get_bytes(size - length, length as usize)?;
    let Some(at) = digits_in(&footer) else { return Ok(None) };
    let Some((tail, groups)) = parsed(&footer[at..]) else {
        return Err(without_footer(size - length));
    };
    Ok(Some(FooterChecksums { digits: size - length + at as u64, tail, groups }))
}

fn check(
    file: &impl ChunkReader,
    size: u64,
    sums: &FooterChecksums,
) -> Result<Verified, VerifyError> {
    let &FooterChecksums { digits, tail, ref groups } = sums;
    let begin = groups.iter().try_fold(0_u64, |sum, group| sum.checked_add(group.bytes));
    let begin = begin.filter(|&begin| begin <= digits && size - begin <= 2 * MOST_FOOTER);
    let begin = begin.ok_or_else(|| without_footer(digits))?;
    let mut rest = file.get_bytes(begin, (size - begin) as usize)?.to_vec();
    let digits = (digits - begin) as usize;
    rest[digits..digits + PLACEHOLDER.len()].copy_from_slice(PLACEHOLDER.as_bytes());
    if crc32fast::hash(&rest) != tail {
        return Err(without_footer(begin));
    }
    let mut verified = Verified { damage: None, sound: Vec::new() };
    let (mut at, mut before) = (0, 0);
    for (index, group) in groups.iter().enumerate() {
        let is_sound = sum_of(&mut file.get_read(at)?, group.bytes)? == group.sum;
        match &mut verified.damage {
            Some(damage) if is_sound => damage.after += group.rows,
            None if is_sound => before += group.rows,
            None => verified.damage = Some(Damage::at(at, before, what_of(index))),
            Some(_) => {}
        }
        if is_sound && index > 0 {
            verified.sound.push(index - 1);
        }
        at += group.bytes;
    }
    Ok(verified)
}

fn what_of(index: usize) -> String {
    match index {
        0 => "the first four bytes differ from what was written".to_owned(),
        _ => format!("row group {} differs from what was written", index - 1),
    }
}
