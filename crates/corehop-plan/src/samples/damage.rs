// SPDX-License-Identifier: MIT OR Apache-2.0
//! The damage that checksums find in a file, and a guard around the decoders of Arrow and Parquet.

use std::cell::Cell;
use std::fmt::{Display, Formatter};
use std::io::{self, Read, Seek, SeekFrom};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use parquet::errors::ParquetError;

/// The metadata key with which a schema announces checksums, so that a part without a checksum is known to be damaged.
pub const ANNOUNCED: &str = "corehop.checksums";
/// Eight hexadecimal digits in place of a part's checksum. A checksum covers its part with zeros in place
/// of the checksum's own digits.
pub(super) const PLACEHOLDER: &str = "00000000";

/// Whether checksums verify the contents of an opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a file without checksums may be damaged, and its reader says so"]
pub enum Verification {
    /// All checksums of the file were verified.
    Verified,
    /// The file has no checksums: another program wrote it, or a version of corehop before checksums.
    NotVerified,
}

impl Verification {
    /// Returns the result for a file with or without checksums.
    pub const fn of(has_checksums: bool) -> Self {
        if has_checksums { Self::Verified } else { Self::NotVerified }
    }

    /// Returns whether a reader would have noticed damage to the file.
    pub const fn is_verified(self) -> bool {
        matches!(self, Self::Verified)
    }

    /// Returns the sentence that every reader prints about a file without checksums.
    pub const fn doubt(self) -> Option<&'static str> {
        match self {
            Self::Verified => None,
            Self::NotVerified => Some(
                "not verified: written by another program or before checksums, so that damage to \
                 this file would not be noticed",
            ),
        }
    }
}

/// The place of damage in a file, and the number of rows that are sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The part of the file that is damaged.
    pub what: String,
    /// The offset of the damaged part in bytes.
    pub byte: u64,
    /// The number of sound rows before the damaged part.
    pub before: u64,
    /// The number of sound rows after the damaged part.
    pub after: u64,
}

impl Damage {
    /// Returns the number of rows that are not damaged.
    pub const fn sound(&self) -> u64 {
        self.before + self.after
    }

    /// Makes damage at `byte` after `before` sound rows; `what` names the damaged part.
    pub(super) fn at(byte: u64, before: u64, what: impl Into<String>) -> Self {
        Self { what: what.into(), byte, before, after: 0 }
    }
}

impl Display for Damage {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { what, byte, before, after } = self;
        write!(f, "{what}, from byte {byte} on: {before} rows before it are intact")?;
        if *after > 0 { write!(f, ", and {after} after it") } else { Ok(()) }
    }
}

/// Returns the checksum of the next `length` bytes of a file.
pub(super) fn sum_of(file: &mut impl Read, length: u64) -> io::Result<u32> {
    let mut sum = crc32fast::Hasher::new();
    let mut buffer = [0; 1 << 14];
    let mut left = length;
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match file.read(&mut buffer[..most])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                sum.update(&buffer[..read]);
                left -= read as u64;
            }
        }
    }
    Ok(sum.finalize())
}

/// Returns the bytes at an offset of a file. The caller has checked that the file has this many bytes.
pub(super) fn bytes_at(
    file: &mut (impl Read + Seek),
    at: u64,
    length: usize,
) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(at))?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Calls a decoder of Arrow or Parquet. A panic of the decoder becomes an error.
///
/// The two decoders promise an error for damaged bytes, but panic on some damaged bytes. Checksums find damage before
/// corehop calls a decoder, but files of earlier versions have no checksums.
///
/// # Errors
/// Returns the message of the decoder's panic.
pub fn guarded<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    static SILENT: Once = Once::new();
    // The default hook would print the panic, which is an answer here and no defect.
    SILENT.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !DECODING.get() {
                usual(about);
            }
        }));
    });
    let outer = DECODING.replace(true);
    let decoded = panic::catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(outer);
    decoded.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        text.unwrap_or_else(|| "the data cannot be decoded".to_owned())
    })
}

/// Returns the cause of an error of Parquet, if the system failed to read or write.
///
/// # Errors
/// Returns the text of the error if the file is damaged.
pub fn parquet_cause(error: ParquetError) -> Result<std::io::Error, String> {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) => Ok(*error),
            Err(other) => Err(other.to_string()),
        },
        other => Err(other.to_string()),
    }
}
