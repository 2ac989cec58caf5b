// SPDX-License-Identifier: MIT OR Apache-2.0
//! An Arrow stream in a file; corehop verifies the whole stream before it decodes a batch.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, SchemaRef};

use super::damage::{ANNOUNCED, Damage, Verification, bytes_at, guarded};
use super::error::FileError;
use super::message::{MessageExtent, Seal, StreamItem, next_sound, piece};

/// The scan goes through the messages of a stream.
pub(super) struct MessageScan {
    pub(super) schema: SchemaRef,
    /// The decoder, which has read the schema.
    decoder: StreamDecoder,
    /// The length in bytes of the message with the schema.
    head: u64,
    /// The sound messages; all messages of a file without checksums.
    messages: VecDeque<MessageExtent>,
    /// The number of rows that were read.
    read: u64,
    pub(super) damage: Option<Damage>,
    pub(super) verification: Verification,
    /// Whether the end of the stream is missing, as after a crash.
    pub(super) torn: bool,
}

impl MessageScan {
    /// Reads the head of a stream and verifies the whole stream.
    ///
    /// # Errors
    /// Returns [`FileError::NotOurs`] if the head cannot be read.
    pub(super) fn of(file: &mut (impl Read + Seek)) -> Result<Self, FileError> {
        let size = file.seek(SeekFrom::End(0))?;
        let not_ours = |what: &str| {
            FileError::NotOurs(format!("the head of the stream cannot be read: {what}"))
        };
        let head = match piece(file, 0, size, 0)? {
            StreamItem::Message(found) => found.length,
            StreamItem::Cut => return Err(not_ours("the stream is cut off")),
            StreamItem::End | StreamItem::Garbage => {
                return Err(not_ours("the head is no message of Arrow"));
            }
        };
        let bytes = bytes_at(file, 0, head as usize)?;
        let (schema, decoder) = schema_in(bytes).map_err(|what| not_ours(&what))?;
        let first = piece(file, head, size, head)?;
        let has_seals = schema.metadata().contains_key(ANNOUNCED)
            || matches!(
                first,
                StreamItem::Message(MessageExtent { seal: Seal::Right(_) | Seal::Wrong, .. })
            );
        let mut scan = Self {
            schema,
            decoder,
            head,
            messages: VecDeque::new(),
            read: 0,
            damage: None,
            verification: Verification::of(has_seals),
            torn: false,
        };
        if has_seals {
            scan.verify(file, size)?;
        } else {
            scan.list(file, size)?;
        }
        Ok(scan)
    }

    /// Lists the messages of a file without checksums.
    fn list(&mut self, file: &mut (impl Read + Seek), size: u64) -> io::Result<()> {
        let mut at = self.head;
        loop {
            match piece(file, at, size, self.head)? {
                StreamItem::Message(found) => {
                    at += found.length;
                    self.take(found);
                }
                StreamItem::End => return Ok(()),
                StreamItem::Cut => {
                    self.torn = true;
                    return Ok(());
                }
                StreamItem::Garbage if is_blank(file, at, size)? => {
                    self.torn = true;
                    return Ok(());
                }
                StreamItem::Garbage => {
                    self.damaged(at, "a message of Arrow is missing");
                    return Ok(());
                }
            }
        }
    }

    /// Verifies every message, and searches for sound messages after a damaged message.
    fn verify(&mut self, file: &mut (impl Read + Seek), size: u64) -> io::Result<()> {
        let (mut at, mut expected) = (self.head, 0);
        loop {
            let here = piece(file, at, size, self.head)?;
            match here {
                StreamItem::Message(found) if found.seal == Seal::Right(expected) => {
                    (at, expected) = (at + found.length, expected + 1);
                    self.take(found);
                    continue;
                }
                StreamItem::End if at + 8 == size => return Ok(()),
                _ => {}
            }
            let Some(found) = next_sound(file, at, size, self.head)? else {
                let is_cut = here == StreamItem::Cut
                    || (here == StreamItem::Garbage && is_blank(file, at, size)?);
                if is_cut {
                    self.torn = true;
                } else {
                    self.damaged(at, what_of(here, expected));
                }
                return Ok(());
            };
            self.damaged(at, what_of(here, expected));
            if let Seal::Right(number) = found.seal {
                expected = number + 1;
            }
            at = found.at + found.length;
            self.take(found);
        }
    }

    fn take(&mut self, found: MessageExtent) {
        if let Some(damage) = &mut self.damage {
            damage.after += found.rows;
        }
        if found.rows > 0 {
            self.messages.push_back(found);
        }
    }

    /// Notes the damage if no damage was noted before.
    fn damaged(&mut self, at: u64, what: impl Into<String>) {
        if self.damage.is_none() {
            let before = self.messages.iter().map(|found| found.rows).sum::<u64>() + self.read;
            self.damage = Some(Damage::at(at, before, what));
        }
    }

    /// Returns the next batch of the stream.
    ///
    /// # Errors
    /// Returns [`FileError::Checksum`] for a batch of a file without checksums that cannot be decoded.
    pub(super) fn next(
        &mut self,
        file: &mut (impl Read + Seek),
    ) -> Result<Option<RecordBatch>, FileError> {
        let Some(found) = self.messages.pop_front() else { return Ok(None) };
        let bytes = bytes_at(file, found.at, found.length as usize)?;
        match batch_in(&mut self.decoder, bytes) {
            Ok(batch) => {
                self.read += batch.num_rows() as u64;
                Ok(Some(batch))
            }
            Err(what) => {
                self.messages.clear();
                Err(FileError::Checksum(Damage::at(found.at, self.read, what)))
            }
        }
    }
}

fn what_of(piece: StreamItem, expected: u64) -> String {
    match (piece, expected) {
        (StreamItem::Message(MessageExtent { seal: Seal::Right(number), .. }), _) => {
            format!("batch {number} is in the place of batch {expected}")
        }
        (StreamItem::End, _) => "bytes follow the end of the stream".to_owned(),
        (_, 0) => "the head differs from what was written".to_owned(),
        _ => format!("batch {expected} differs from what was written"),
    }
}

/// Returns whether the rest of a file is zeros: after a crash of the system, blocks that were never
/// written are zeros.
fn is_blank(file: &mut (impl Read + Seek), at: u64, size: u64) -> io::Result<bool> {
    file.seek(SeekFrom::Start(at))?;
    let (mut left, mut buffer) = (size - at, [0; 4096]);
    while left > 0 {
        let most = buffer.len().min(left as usize);
        file.read_exact(&mut buffer[..most])?;
        if buffer[..most].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        left -= most as u64;
    }
    Ok(true)
}

fn schema_in(head: Vec<u8>) -> Result<(SchemaRef, StreamDecoder), String> {
    let decode = || {
        let (mut first, mut second) = (StreamDecoder::new(), StreamDecoder::new());
        first.decode(&mut Buffer::from_vec(head.clone()))?;
        // The schema is known when the byte after its message comes, which the other is to read with a batch.
        first.decode(&mut Buffer::from_vec(vec![0xff_u8]))?;
        second.decode(&mut Buffer::from_vec(head))?;
        Ok((first.schema(), second))
    };
    let decoded: Result<_, ArrowError> = guarded(decode)?;
    let (schema, decoder) = decoded.map_err(|error| error.to_string())?;
    Ok((schema.ok_or_else(|| "the stream has no schema".to_owned())?, decoder))
}

fn batch_in(decoder: &mut StreamDecoder, message: Vec<u8>) -> Result<RecordBatch, String> {
    let batch = guarded(|| decoder.decode(&mut Buffer::from_vec(message)))?;
    batch.map_err(|error| error.to_string())?.ok_or_else(|| "a message without rows".to_owned())
}
