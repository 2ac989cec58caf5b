// SPDX-License-Identifier: MIT OR Apache-2.0
//! Damage to a file is noticed, whichever byte it hits, and what is sound can be kept.

mod memory;
mod unsealed;

use std::fs::File;
use std::io::Cursor;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use corehop_plan::samples::{
    BatchWriter, Damage, FileError, Provenance, Reader, RowKind, Rows, Sample, Verification,
    copy_parquet, example, write_parquet,
};
use corehop_sched::study::{StoreError, StudyCounts};
use memory::Memory;
use unsealed::{counts_without_checksums, without_checksums};

fn rows(from: u64, count: u64) -> Rows {
    let row = |job| Sample { job, ..example::sample() };
    (from..from + count).map(row).collect::<Vec<_>>().into()
}

/// A stream of batches of so many rows, and where each begins; the end last.
fn stream(batches: &[u64], ended: bool) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut part =
        BatchWriter::begin(&mut bytes, RowKind::Samples, &Provenance::default()).unwrap();
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
        BatchWriter::begin(&mut stream, kind, &Provenance::default()).unwrap().end().unwrap();
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
    let counts = unsealed::study_counts();
    let mut whole = Vec::new();
    counts.write(&mut whole).unwrap();
    assert!(
        StudyCounts::read(Memory::new(&whole)).unwrap() == (counts.clone(), Verification::Verified)
    );
    for (at, changed) in flips(&whole) {
        let read = panic::catch_unwind(AssertUnwindSafe(|| {
            StudyCounts::read(Memory::new(&changed)).map(|(found, _)| found == counts)
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
            // A wrong length of the last batch, which has no rows, looks as if the file ended in it.
            Ok((jobs, truncated)) => {
                assert!(truncated && at >= last, "byte {at} of {}", whole.len());
                assert_eq!(jobs.len(), 7, "byte {at}: every row is there");
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
    assert_eq!(rows, [0, 3, 4, 0]);
}

#[test]
fn a_file_without_checksums_opens_and_is_not_verified() {
    let (stream, _) = stream(&[3, 4], true);
    for bytes in [parquet(7), stream] {
        let sealed = Reader::open(Memory::new(&bytes)).unwrap().verification();
        assert_eq!(sealed, Verification::Verified);
        let bytes = without_checksums(&bytes);
        assert_eq!(jobs(&bytes).unwrap().0, [0, 1, 2, 3, 4, 5, 6]);
        for reader in [Reader::open(Memory::new(&bytes)), Reader::salvage(Memory::new(&bytes))] {
            let unsealed = reader.unwrap().verification();
            assert!(unsealed.doubt().unwrap().starts_with("not verified: "), "{unsealed:?}");
        }
    }
    let counts = unsealed::study_counts();
    let unsealed = StudyCounts::read(Memory::new(&counts_without_checksums(&counts))).unwrap();
    assert_eq!(unsealed, (counts, Verification::NotVerified));
}

/// The rows of a file, batch by batch.
fn contents(bytes: &[u8]) -> Result<(Vec<RecordBatch>, Verification), FileError> {
    let mut reader = Reader::open(Memory::new(bytes))?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        batches.push(batch);
    }
    Ok((batches, reader.verification()))
}

/// SplitMix64.
fn drawn(seed: u64) -> usize {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

/// A file of each kind of rows: as Parquet, and as a stream; and the recordings of the project.
fn files_of_every_kind() -> Vec<Vec<u8>> {
    let mut files = vec![parquet(20_000), stream(&[3, 4], true).0, stream(&[900], true).0];
    for &kind in RowKind::ALL {
        let mut stream = Vec::new();
        BatchWriter::begin(&mut stream, kind, &Provenance::default()).unwrap().end().unwrap();
        let mut whole = Vec::new();
        let mut reader = Reader::open(Memory::new(&stream)).unwrap();
        write_parquet(&mut reader, &Provenance::default(), &mut whole, |_| {}).unwrap();
        files.extend([whole, stream]);
    }
    files.extend(project_files().iter().map(|path| std::fs::read(path).unwrap()));
    files
}

#[test]
fn of_300_bits_flipped_in_files_of_every_kind_none_is_unnoticed() {
    let files = files_of_every_kind();
    let (mut damaged, mut without_effect, mut doubted) = (0, 0, 0);
    for round in 0..300 {
        let mut bytes = files[drawn(round) % files.len()].clone();
        let whole = contents(&bytes).unwrap();
        // A third of the bits lie in the last bytes, where the footer and the padding are.
        let bits = bytes.len() * 8;
        let from = if round % 3 == 0 { bits.saturating_sub(8 << 10) } else { 0 };
        let bit = from + drawn(round + 300) % (bits - from);
        bytes[bit / 8] ^= 1 << (bit % 8);
        match contents(&bytes) {
            Ok(read) => {
                assert!(read == whole, "round {round}: bit {bit} of {bits} is unnoticed");
                without_effect += 1;
            }
            Err(FileError::Io(error)) => panic!("round {round}: {error}"),
            Err(_) => damaged += 1,
        }
        // The same of a file without checksums, which may be read and is not verified.
        if round % 10 == 0 {
            let mut bytes = without_checksums(&files[drawn(round) % files.len()]);
            let bit = drawn(round + 600) % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok((_, verification)) = contents(&bytes) {
                assert_eq!(verification, Verification::NotVerified, "round {round}");
                doubted += 1;
            }
        }
    }
    assert_eq!(damaged + without_effect, 300);
    assert!(damaged >= 285 && doubted > 0, "{damaged} {without_effect} {doubted}");
}

/// The files of rows in a folder and the folders in it.
fn files_of_rows(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let is_rows =
        |path: &PathBuf| path.extension().is_some_and(|it| it == "parquet" || it == "part");
    let below = folders.iter().flat_map(|folder| files_of_rows(folder));
    below.chain(files.into_iter().filter(is_rows)).collect()
}

/// The files of rows that the project is published with.
fn project_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["data", "studies", "python/tests", "examples"].map(|name| root.join(name));
    let mut files: Vec<PathBuf> = folders.iter().flat_map(|folder| files_of_rows(folder)).collect();
    files.sort();
    assert!(files.len() >= 11, "{files:?}");
    files
}

#[test]
fn every_file_of_rows_of_the_project_is_verified() {
    for path in project_files() {
        let mut reader = Reader::open(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.verification(), Verification::Verified, "{}", path.display());
        let mut rows = 0;
        while let Some(batch) = reader.next_batch().unwrap() {
            rows += batch.num_rows();
        }
        assert!(rows > 0, "{}", path.display());
    }
}

#[test]
fn a_copy_of_a_file_without_checksums_has_them_and_the_same_contents() {
    let mut old = Reader::open(Memory::new(&without_checksums(&parquet(20_000)))).unwrap();
    let mut copy = Vec::new();
    let provenance = old.kind().provenance.clone();
    assert_eq!(copy_parquet(&mut old, &provenance, &mut copy).unwrap(), 20_000);
    let mut new = Reader::open(Memory::new(&copy)).unwrap();
    assert_eq!((new.verification(), new.kind()), (Verification::Verified, old.kind()));
    let expected = rows(0, 20_000).samples;
    assert!(new.all::<Sample>().unwrap() == expected);
}
