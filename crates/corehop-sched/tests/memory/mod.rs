// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file in memory, as readers of files want it.

use std::io::{Cursor, Read, Seek, SeekFrom};

use bytes::Bytes;
use parquet::errors::Result as ParquetResult;
use parquet::file::reader::{ChunkReader, Length};

/// A file in memory.
#[derive(Clone)]
pub(crate) struct Memory(Cursor<Bytes>);

impl Memory {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self(Cursor::new(Bytes::copy_from_slice(bytes)))
    }
}

impl Length for Memory {
    fn len(&self) -> u64 {
        self.0.get_ref().len() as u64
    }
}

impl ChunkReader for Memory {
    type T = <Bytes as ChunkReader>::T;
    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        self.0.get_ref().get_read(start)
    }
    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        self.0.get_ref().get_bytes(start, length)
    }
}

impl Read for Memory {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}
