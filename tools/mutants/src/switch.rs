// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of the module that is put into each crate, and no module of this tool. The text becomes one line: a comment
//! has a line of its own.
use std::io::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const UNREAD: u32 = u32::MAX;
const NOTING: u32 = u32::MAX - 1;
const NONE: u32 = 0;

static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
static NOTED: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

#[inline]
pub(crate) fn on(number: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    if active < NOTING { active == number } else { slowly(number) }
}

#[cold]
#[inline(never)]
fn slowly(number: u32) -> bool {
    // Reading a variable may itself run code with mutants, for instance where the crate has an allocator or stands before libc.
    if ACTIVE.compare_exchange(UNREAD, NONE, Relaxed, Relaxed).is_ok() {
        let stated = std::env::var("COREHOP_MUTANT").ok().and_then(|text| text.parse().ok());
        let notes = std::env::var_os("COREHOP_MUTANT_NOTES").is_some();
        ACTIVE.store(if notes { NOTING } else { stated.unwrap_or(NONE) }, Relaxed);
    }
    let active = ACTIVE.load(Relaxed);
    if active == NOTING {
        note(number);
    }
    active == number
}

fn note(number: u32) {
    let bit = 1_u64 << (number % 64);
    if NOTED[number as usize / 64].fetch_or(bit, Relaxed) & bit != 0 {
        return;
    }
    let Some(path) = std::env::var_os("COREHOP_MUTANT_NOTES") else { return };
    if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).open(path) {
        let _ = file.write_all(format!("{number}\n").as_bytes());
    }
}
