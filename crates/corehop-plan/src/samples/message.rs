// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes messages of an Arrow stream; each message has its number and a checksum in its own metadata.
//!
//! Programs other than corehop that read Arrow skip this metadata. The checksum covers all bytes of the message,
//! with zeros in place of the checksum's digits; the checksum of the first message, which has no rows, also
//! covers the head of the stream.

use std::io::{self, Read, Seek, SeekFrom};

use arrow_ipc::{
    Buffer, FieldNode, KeyValue, KeyValueArgs, Message, MessageArgs, MessageHeader, RecordBatch,
    RecordBatchArgs, root_as_message,
};
use flatbuffers::FlatBufferBuilder;

use super::damage::{PLACEHOLDER, bytes_at, sum_of};

const SUM: &str = "corehop.crc32";
const NUMBER: &str = "corehop.batch";
/// The length of the prefix before each message: four bytes of ones, then the length of the metadata.
const PREFIX: usize = 8;
const MARK: [u8; 4] = [0xff; 4];
/// The alignment of message bodies, as arrow-rs writes them.
const ALIGNED: usize = 64;
/// The largest length of metadata, far above the metadata of any corehop file.
const MOST_METADATA: u64 = 64 << 20;
/// The largest length of a batch, far above the batches of any corehop file.
const MOST_BODY: u64 = 1 << 30;

/// Returns a message of a batch, as `arrow_ipc` wrote it, with its number and its checksum added. The argument
/// `head` is the head of the stream, if the checksum must also cover the head. Returns `None` if `wire` is not
/// one message of a batch.
pub(super) fn sealed(wire: &[u8], number: u64, head: &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(wire.get(4..PREFIX)?.try_into().ok()?) as usize;
    let metadata = wire.get(PREFIX..PREFIX + length)?;
    let body = &wire[PREFIX + length..];
    let mut bytes = MARK.to_vec();
    let rebuilt = with_placeholder(root_as_message(metadata).ok()?, number)?;
    let padded = (PREFIX + rebuilt.len()).next_multiple_of(ALIGNED) - PREFIX;
    bytes.extend((padded as u32).to_le_bytes());
    bytes.extend(&rebuilt);
    bytes.resize(PREFIX + padded, 0);
    let digits = PREFIX + digits_of(root_as_message(&bytes[PREFIX..]).ok()?, &bytes[PREFIX..])?;
    bytes.extend(body);
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(&bytes);
    let sum = format!("{:08x}", sum.finalize());
    bytes[digits..digits + sum.len()].copy_from_slice(sum.as_bytes());
    Some(bytes)
}

fn with_placeholder(message: Message<'_>, number: u64) -> Option<Vec<u8>> {
    let batch = message.header_as_record_batch()?;
    let mut build = FlatBufferBuilder::new();
    let nodes: Vec<FieldNode> = batch.nodes()?.iter().copied().collect();
    let buffers: Vec<Buffer> = batch.buffers()?.iter().copied().collect();
    let args = RecordBatchArgs {
        length: batch.length(),
        nodes: Some(build.create_vector(&nodes)),
        buffers: Some(build.create_vector(&buffers)),
        compression: None,
        variadicBufferCounts: None,
    };
    let header = RecordBatch::create(&mut build, &args).as_union_value();
    let number = number.to_string();
    let pairs = [(SUM, PLACEHOLDER), (NUMBER, &number)].map(|(key, value)| {
        let (key, value) = (build.create_string(key), build.create_string(value));
        KeyValue::create(&mut build, &KeyValueArgs { key: Some(key), value: Some(value) })
    });
    let args = MessageArgs {
        version: message.version(),
        header_type: MessageHeader::RecordBatch,
        header: Some(header),
        bodyLength: message.bodyLength(),
        custom_metadata: Some(build.create_vector(&pairs)),
    };
    let message = Message::create(&mut build, &args);
    build.finish(message, None);
    Some(build.finished_data().to_vec())
}

fn value_of<'a>(message: Message<'a>, name: &str) -> Option<&'a str> {
    let pairs = message.custom_metadata()?;
    pairs.iter().find(|pair| pair.key() == Some(name))?.value()
}

/// Returns the offset of the checksum's digits in `metadata`.
fn digits_of(message: Message<'_>, metadata: &[u8]) -> Option<usize> {
    let digits = value_of(message, SUM)?;
    let offset = digits.as_ptr() as usize - metadata.as_ptr() as usize;
    (digits.len() == PLACEHOLDER.len()).then_some(offset)
}

/// The extent of a message in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageExtent {
    /// The offset of the message in the file.
    pub(super) at: u64,
    /// The length of the message, including prefix and body.
    pub(super) length: u64,
    /// The number of rows in the message's batch.
    pub(super) rows: u64,
    pub(super) seal: Seal,
}

/// The result of verifying a message's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seal {
    /// The message has no checksum, as in files of earlier versions.
    Absent,
    /// The message is unchanged, and has this number.
    Right(u64),
    /// The checksum does not match the message.
    Wrong,
}

/// The item at an offset of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamItem {
    Message(MessageExtent),
    /// The end marker of the stream.
    End,
    /// The file ends before the end of the message, if the stated length is right.
    Cut,
    /// The bytes are not a message.
    Garbage,
}

/// Reads the item at offset `at` in a file of `size` bytes; the checksum of the first message covers the first
/// `head` bytes of the file.
pub(super) fn piece(
    file: &mut (impl Read + Seek),
    at: u64,
    size: u64,
    head: u64,
) -> io::Result<StreamItem> {
    let rest = size.saturating_sub(at);
    if rest < PREFIX as u64 {
        return Ok(StreamItem::Cut);
    }
    let prefix = bytes_at(file, at, PREFIX)?;
    let length = u64::from(u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]));
    if prefix[..4] != MARK || length > MOST_METADATA {
        return Ok(StreamItem::Garbage);
    }
    if length == 0 {
        return Ok(StreamItem::End);
    }
    if length > rest - PREFIX as u64 {
        return Ok(StreamItem::Cut);
    }
    let mut metadata = bytes_at(file, at + PREFIX as u64, length as usize)?;
    let Ok(message) = root_as_message(&metadata) else { return Ok(StreamItem::Garbage) };
    let Some(body) = u64::try_from(message.bodyLength()).ok().filter(|&body| body <= MOST_BODY)
    else {
        return Ok(StreamItem::Garbage);
    };
    let rows = message.header_as_record_batch().map_or(0, |batch| batch.length());
    let Ok(rows) = u64::try_from(rows) else { return Ok(StreamItem::Garbage) };
    if body > rest - PREFIX as u64 - length {
        return Ok(StreamItem::Cut);
    }
    let number = value_of(message, NUMBER).and_then(|text| text.parse().ok());
    let stated = value_of(message, SUM).map(ToOwned::to_owned);
    let digits = digits_of(message, &metadata);
    let seal = match (number, stated, digits) {
        (None, None, _) => Seal::Absent,
        (Some(number), Some(stated), Some(digits)) => {
            metadata[digits..digits + PLACEHOLDER.len()].copy_from_slice(PLACEHOLDER.as_bytes());
            let covered = if number == 0 { head } else { 0 };
            let sum = sum_around(file, (covered, at), [&prefix, &metadata], body)?;
            if stated == format!("{sum:08x}") { Seal::Right(number) } else { Seal::Wrong }
        }
        _ => Seal::Wrong,
    };
    Ok(StreamItem::Message(MessageExtent { at, length: PREFIX as u64 + length + body, rows, seal }))
}

/// Returns the checksum of a message, over the first `head` bytes of the file and the message's prefix, metadata and
/// body.
fn sum_around(
    file: &mut (impl Read + Seek),
    (head, at): (u64, u64),
    [prefix, metadata]: [&[u8]; 2],
    body: u64,
) -> io::Result<u32> {
    let mut sum = crc32fast::Hasher::new();
    file.seek(SeekFrom::Start(0))?;
    sum.combine(&crc32fast::Hasher::new_with_initial_len(sum_of(file, head)?, head));
    sum.update(prefix);
    sum.update(metadata);
    file.seek(SeekFrom::Start(at + (prefix.len() + metadata.len()) as u64))?;
    sum.combine(&crc32fast::Hasher::new_with_initial_len(sum_of(file, body)?, body));
    Ok(sum.finalize())
}

/// Returns the first sound message at offset `from` or later.
pub(super) fn next_sound(
    file: &mut (impl Read + Seek),
    from: u64,
    size: u64,
    head: u64,
) -> io::Result<Option<MessageExtent>> {
    const WINDOW: u64 = 1 << 20;
    // Messages begin at multiples of eight bytes.
    let mut start = from.next_multiple_of(8);
    while start + (PREFIX as u64) <= size {
        let window = bytes_at(file, start, WINDOW.min(size - start) as usize)?;
        for (index, eight) in window.chunks_exact(PREFIX).enumerate() {
            // Of a bitmap of set bits, the length is set too.
            if eight[..4] == MARK && eight[4..] != MARK {
                let at = start + (index * PREFIX) as u64;
                if let StreamItem::Message(found) = piece(file, at, size, head)?
                    && matches!(found.seal, Seal::Right(_))
                {
                    return Ok(Some(found));
                }
            }
        }
        start += WINDOW;
    }
    Ok(None)
}
