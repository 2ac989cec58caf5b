// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage to a file is noticed, whichever byte it hits, and what is sound can be kept.

mod common;
mod memory;

use std::io::Cursor;
use std::panic::{self, AssertUnwindSafe};

use arrow_ipc::reader::StreamReader;
use corehop_core::samples::{
    Damage, FileError, Part, Provenance, Reader, RowKind, Rows, Sample, example, write_parquet,
};
use corehop_core::study::{StoreError, StudyCounts};
use memory::Memory;

fn rows(from: u64, count: u64) -> Rows {
    let row = |job| Sample { job, ..example::sample() };
    (from..from + count).map(row).collect::<Vec<_>>().into()
}

/// A stream of batches of so many rows, and where each begins; the end last.
fn stream(batches: &[u64], ended: bool) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut part = Part::begin(&mut bytes, RowKind::Samples, &Provenance::default()).unwrap();
    let mut job = 0;
    for &count in batches {
        part.append(&rows(job, count)).unwrap();
        job += count;
    }
    if ended {
        part.end().unwrap();
    }
    let mut begins: Vec<usize> = Vec::new();
    let mut at = 0;
    while at + 8 <= bytes.len() {
        begins.push(at);
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        let message = arrow_ipc::root_as_message(&bytes[at + 8..at + 8 + length]).unwrap();
        at += 8 + length + message.bodyLength() as usize;
    }
    (bytes, begins)
}

fn parquet(count: u64) -> Vec<u8> {
    let (stream, _) = stream(&[count], true);
    let mut bytes = Vec::new();
    let mut reader = Reader::open(Memory::new(&stream)).unwrap();
    write_parquet(&mut reader, &Provenance::default(), &mut bytes, |_| {}).unwrap();
    bytes
}

/// The jobs in a file, and whether its end is missing.
fn jobs(bytes: &[u8]) -> Result<(Vec<u64>, bool), FileError> {
    let mut reader = Reader::open(Memory::new(bytes))?;
    let rows: Vec<Sample> = reader.all()?;
    Ok((rows.iter().map(|row| row.job).collect(), reader.truncated()))
}

fn salvaged(bytes: &[u8]) -> Vec<u64> {
    let mut reader = Reader::salvage(Memory::new(bytes)).unwrap();
    reader.all::<Sample>().unwrap().iter().map(|row| row.job).collect()
}

fn damage(bytes: &[u8]) -> Damage {
    match jobs(bytes) {
        Err(FileError::Checksum(damage)) => damage,
        other => panic!("{other:?}"),
    }
}

/// Every byte changed, one after the other: one of its bits, or all of them.
fn flips(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    (0..bytes.len()).map(move |at| {
        let mut changed = bytes.to_vec();
        changed[at] ^= if at % 9 == 8 { 0xff } else { 1 << (at % 9) };
        (at, changed)
    })
}

#[test]
fn a_change_of_any_byte_of_a_result_is_noticed() {
    let whole = parquet(5);
    assert_eq!(jobs(&whole).unwrap(), ((0..5).collect(), false));
    for (at, changed) in flips(&whole) {
        let read = panic::catch_unwind(AssertUnwindSafe(|| jobs(&changed)));
        let error = read.expect("no panic").expect_err(&format!("byte {at} of {}", whole.len()));
        assert!(!matches!(error, FileError::Io(_)), "byte {at}: {error}");
    }
}

#[test]
fn a_change_of_any_byte_is_noticed_in_results_of_every_kind() {
    for &kind in RowKind::ALL {
        let mut stream = Vec::new();
        Part::begin(&mut stream, kind, &Provenance::default()).unwrap().end().unwrap();
        let mut whole = Vec::new();
        let mut reader = Reader::open(Memory::new(&stream)).unwrap();
        write_parquet(&mut reader, &Provenance::default(), &mut whole, |_| {}).unwrap();
        let open = |bytes: &[u8]| Reader::open(Memory::new(bytes)).map(drop);
        assert!(open(&whole).is_ok(), "{}", kind.word());
        for (at, changed) in flips(&whole) {
            let error = open(&changed).expect_err(&format!("{}: byte {at}", kind.word()));
            assert!(!matches!(error, FileError::Io(_)), "{}: byte {at}: {error}", kind.word());
        }
    }
}

#[test]
fn a_change_of_any_byte_of_study_counts_is_noticed() {
    let counts = common::study_counts();
    let mut whole = Vec::new();
    counts.write(&mut whole).unwrap();
    assert!(StudyCounts::read(Memory::new(&whole)).unwrap() == counts);
    for (at, changed) in flips(&whole) {
        let read = panic::catch_unwind(AssertUnwindSafe(|| {
            StudyCounts::read(Memory::new(&changed)).map(|found| found == counts)
        }));
        let error = read.expect("no panic").expect_err(&format!("byte {at} of {}", whole.len()));
        assert!(!matches!(error, StoreError::Io(_)), "byte {at}: {error}");
    }
}

#[test]
fn a_change_of_any_byte_of_a_stream_is_noticed() {
    let (whole, begins) = stream(&[3, 4], true);
    assert_eq!(jobs(&whole).unwrap(), ((0..7).collect(), false));
    let last = begins[begins.len() - 2];
    for (at, changed) in flips(&whole) {
        match panic::catch_unwind(AssertUnwindSafe(|| jobs(&changed))).expect("no panic") {
            Err(error) => assert!(!matches!(error, FileError::Io(_)), "byte {at}: {error}"),
            // A wrong length of the last batch looks as if the file ended in it.
            Ok((jobs, truncated)) => {
                assert!(truncated && at >= last, "byte {at} of {}", whole.len());
                assert!(jobs.len() == if at < begins[begins.len() - 1] { 3 } else { 7 });
            }
        }
    }
}

#[test]
fn damage_in_a_stream_is_told_with_the_sound_rows_which_can_be_kept() {
    let (whole, begins) = stream(&[3, 4, 5], true);
    // The schema, the batch without rows, and the batches.
    for (at, what) in [(begins[3] + 4, "length"), (begins[4] - 100, "body")] {
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        let told = damage(&changed);
        assert_eq!((told.before, told.after, told.byte), (3, 5, begins[3] as u64), "{what}");
        assert_eq!(salvaged(&changed), [0, 1, 2, 7, 8, 9, 10, 11], "{what}");
    }
    let mut without: Vec<u8> = whole[..begins[3]].to_vec();
    without.extend(&whole[begins[4]..]);
    assert_eq!((damage(&without).before, damage(&without).after), (3, 5), "a batch is missing");
    let twice = [&whole[..begins[4]], &whole[begins[3]..]].concat();
    assert_eq!(damage(&twice).before, 7, "a batch is there twice");
}

#[test]
fn what_a_crash_tore_off_is_no_damage() {
    let (whole, begins) = stream(&[3, 4], true);
    for length in (begins[1]..whole.len()).step_by(7) {
        let (jobs, truncated) = jobs(&whole[..length]).unwrap();
        let rows = begins[3..].iter().zip([3, 7]).filter(|(begin, _)| **begin <= length);
        assert_eq!(jobs.len(), rows.map(|(_, rows)| rows).next_back().unwrap_or(0), "{length}");
        assert!(truncated);
    }
    let blank = [&whole[..begins[3]], &vec![0; 4096]].concat();
    assert_eq!(jobs(&blank).unwrap(), (vec![0, 1, 2], true), "blocks that were never written");
}

#[test]
fn damage_to_a_result_costs_the_rows_of_its_row_group() {
    let mut bytes = parquet(20_000);
    assert_eq!(jobs(&bytes).unwrap().0.len(), 20_000);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let told = damage(&bytes);
    assert_eq!((told.before, told.after), (8_192, 20_000 - 2 * 8_192), "{told}");
    let expected: Vec<u64> = (0..8_192).chain(16_384..20_000).collect();
    assert_eq!(salvaged(&bytes), expected);
}

#[test]
fn others_read_the_stream_as_plain_arrow() {
    let (whole, _) = stream(&[3, 4], true);
    let reader = StreamReader::try_new(Cursor::new(whole), None).unwrap();
    let rows: Vec<usize> = reader.map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(rows, [0, 3, 4]);
}

#[test]
fn files_of_earlier_versions_have_no_checksums_and_open() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/2026-11-21-guest-2cpu");
    for name in ["quick.parquet", "quick-access.parquet", "quick-length.parquet"] {
        let file = std::fs::File::open(format!("{data}/{name}")).unwrap();
        let mut reader = Reader::open(file).unwrap();
        let mut rows = 0;
        while let Some(batch) = reader.next_batch().unwrap() {
            rows += batch.num_rows();
        }
        assert!(rows > 0, "{name}");
    }
}
