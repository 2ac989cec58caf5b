// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills the caches with modified lines of other data, as a touch with cache state "modified"
//! requires (Wächtler 3.4.1).
//!
//! No unprivileged instruction can do that directly. Writing a buffer that is larger than the
//! caches from end to end leaves them full of the buffer's modified lines.

use corehop_plan::platform::Platform;
use corehop_plan::units::Bytes;
use corehop_plan::workload::{LINE, Page};
use serde_json::{Value, json};

use crate::memory::{Mapping, MemoryError};

/// The largest size of the buffer.
const MOST: Bytes = Bytes::from_kib(32 << 10);
/// The number of bytes written between two clock readings.
const PIECE: usize = 1 << 20;
/// The assumed time to write a line before the first measurement, in nanoseconds.
const UNKNOWN_LINE_NS: f64 = 25.0;

/// The buffer for all working sets of a plan.
#[derive(Debug)]
pub(crate) struct Eviction {
    mapping: Mapping,
    llc: Option<Bytes>,
    /// The written value, which changes so that every pass modifies every line.
    pass: u64,
    /// The duration of the last pass, in nanoseconds.
    pub(super) last_ns: f64,
}

impl Eviction {
    /// Allocates a buffer of the size that the caches of `platform` need.
    ///
    /// # Errors
    /// Fails with [`MemoryError`] if there is too little memory.
    pub(crate) fn new(platform: &Platform) -> Result<Self, MemoryError> {
        let mapping = Mapping::new(buffer_size(platform), Page::Transparent, None)?;
        let lines = mapping.length() as f64 / LINE as f64;
        let last_ns = lines * UNKNOWN_LINE_NS;
        Ok(Self { mapping, llc: platform.llc_size(), pass: 0, last_ns })
    }

    /// The number of pieces in a pass.
    pub(super) fn pieces(&self) -> f64 {
        self.mapping.length().div_ceil(PIECE).max(1) as f64
    }

    /// Writes every line once; `pause` is called before each piece of at most a mebibyte.
    pub(crate) fn fill(&mut self, mut pause: impl FnMut()) {
        self.pass += 1;
        let pass = self.pass;
        for piece in self.mapping.bytes_mut().chunks_mut(PIECE) {
            pause();
            for line in piece.chunks_exact_mut(LINE as usize) {
                line[..8].copy_from_slice(&pass.to_le_bytes());
            }
        }
        std::hint::black_box(&self.mapping);
    }

    /// Describes the buffer for the provenance: its size, and whether it is larger than the stated
    /// last-level cache.
    pub(crate) fn describe(&self) -> Value {
        let bytes = self.mapping.length() as u64;
        json!({
            "bytes": bytes,
            "exceeds_declared_llc": self.llc.map(|llc| bytes > llc.get()),
        })
    }
}

/// The size of a buffer that exceeds the caches of `platform`, up to the allowed maximum.
pub(super) fn buffer_size(platform: &Platform) -> Bytes {
    size(platform.largest_private_cache(), platform.llc_size())
}

/// One and a half times the last-level cache, but at least twice the largest private cache and at
/// most [`MOST`]. The limit exists because firmware and hypervisors claim caches of hundreds of
/// megabytes, of which a machine with few CPUs has at most a share.
fn size(largest_private: Option<Bytes>, llc: Option<Bytes>) -> Bytes {
    let llc = llc.map_or(MOST.get(), |llc| llc.get() / 2 * 3);
    let private = largest_private.map_or(0, |size| size.get() * 2);
    Bytes::new(llc.max(private).min(MOST.get()).next_multiple_of(PIECE as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::units::Bytes;

    #[test]
    fn the_buffer_exceeds_the_caches_as_far_as_it_may() {
        let mib = |mib: u64| Bytes::from_kib(mib << 10);
        assert_eq!(size(Some(mib(1)), Some(mib(8))), mib(12));
        assert_eq!(size(Some(mib(2)), Some(mib(2))), mib(4));
        assert_eq!(size(Some(mib(2)), Some(mib(480))), mib(32));
        assert_eq!(size(None, None), mib(32));
        assert_eq!(size(Some(Bytes::from_kib(256)), Some(Bytes::from_kib(512))), mib(1));
    }

    #[test]
    fn every_pass_modifies_every_line() {
        let mapping = Mapping::new(Bytes::from_kib(3 << 10), Page::Base, None).unwrap();
        let mut eviction = Eviction { mapping, llc: None, pass: 0, last_ns: 0.0 };
        for pass in 1..=2_u64 {
            let mut pauses = 0;
            eviction.fill(|| pauses += 1);
            let lines = eviction.mapping.bytes_mut().chunks_exact(LINE as usize);
            assert!(lines.map(|line| line[0]).all(|byte| u64::from(byte) == pass));
            assert_eq!(pauses, 3);
        }
    }
}
