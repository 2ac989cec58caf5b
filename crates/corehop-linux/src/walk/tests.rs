// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of walks over real memory: the elements they visit, the lines they write, and the
//! interruptions they detect.

use std::sync::atomic::{AtomicBool, Ordering};

use corehop_plan::experiment::DrawStream;
use corehop_plan::units::Bytes;
use corehop_plan::workload::{LINE, Page, Pattern, WorkingSet};

use super::*;
use crate::set_memory::SetMemory;

fn set(kib: u64, pattern: Pattern, write_ratio: f64, chains: u8) -> WorkingSet {
    WorkingSet { pattern, chains, ..WorkingSet::list(Bytes::from_kib(kib), write_ratio) }
}

fn walked(set: &WorkingSet, memory: &SetMemory) -> WalkResult {
    let rseq = Rseq::of_this_thread().ok();
    Walk::new(set, memory.linked()).walk(rseq.as_ref(), Ticks::MAX, Ticks::MAX)
}

/// For each offset within the lines, the number of nonzero 8-byte words.
fn written(memory: &SetMemory) -> [usize; 8] {
    let (start, length) = memory.raw();
    let mut counts = [0; 8];
    for offset in (0..length).step_by(8) {
        // SAFETY: an aligned word of a mapping that lives as long as `memory`.
        let word = unsafe { *((start as usize + offset) as *const u64) };
        counts[offset % LINE as usize / 8] += usize::from(word != 0);
    }
    counts
}

#[test]
fn a_list_walk_writes_the_planned_share_of_lines_in_every_number_of_chains() {
    for chains in [1, 4, 8] {
        for (ratio, lines) in [(0.0, 0), (0.2, 256), (1.0 / 3.0, 512), (0.5, 1024)] {
            let set = set(64, Pattern::Shuffled, ratio, chains);
            let memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
            let walk = walked(&set, &memory);
            let [next, data, rest @ ..] = written(&memory);
            assert!(walk.complete && walk.ticks > 0);
            assert_eq!((next, rest), (1024, [0; 6]));
            // An abort repeats a chunk, which can shift the pattern by a line.
            let most = 2 + walk.aborts as usize;
            assert!(data.abs_diff(lines) <= most, "{chains} chains, ratio {ratio}: {data}");
        }
    }
}

#[test]
fn a_scan_writes_the_planned_share_of_words() {
    for (ratio, words) in [(0.0, 0), (1.0 / 128.0, 64), (0.25, 2048), (0.5, 4096), (1.0, 8192)] {
        let set = set(64, Pattern::Scan, ratio, 1);
        let memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
        let walk = walked(&set, &memory);
        assert!(walk.complete);
        let written: usize = written(&memory).iter().sum();
        let most = 2 + walk.aborts as usize;
        assert!(written.abs_diff(words) <= most, "{ratio}: {written}");
    }
}

#[test]
fn code_runs_to_its_end_and_back() {
    let set = set(64, Pattern::Code, 0.0, 1);
    let mut memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
    for _ in 0..3 {
        assert!(walked(&set, &memory).complete);
    }
    memory.renew(&mut DrawStream::new(2, 0)).unwrap();
    assert!(walked(&set, &memory).complete);
}

#[test]
fn with_a_threshold_of_nothing_every_chunk_has_a_hole_and_every_tick_is_lost() {
    for pattern in [Pattern::Shuffled, Pattern::Scan, Pattern::Code] {
        for chains in if pattern == Pattern::Shuffled { vec![1, 4, 8] } else { vec![1] } {
            let set = set(64, pattern, 0.0, chains);
            let memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
            let mut walk = Walk::new(&set, memory.linked());
            let walked = walk.walk(None, 0, Ticks::MAX);
            assert!(walked.complete && !walked.watched);
            assert_eq!(walked.holes, walk.chunks(), "{pattern}, {chains} chains");
            assert!(walked.lost <= walked.ticks && walked.lost > walked.ticks / 2);
        }
    }
}

#[test]
fn a_deadline_in_the_past_ends_the_walk_after_its_first_chunk() {
    for pattern in [Pattern::Shuffled, Pattern::Scan, Pattern::Code] {
        let set = set(1024, pattern, 0.0, 1);
        let memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
        let mut walk = Walk::new(&set, memory.linked());
        let whole = walk.walk(None, Ticks::MAX, Ticks::MAX);
        let given_up = walk.walk(None, Ticks::MAX, 0);
        assert!(whole.complete && !given_up.complete);
        assert!(given_up.ticks < whole.ticks, "{pattern}: {given_up:?} {whole:?}");
    }
}

/// The test runs walks of every kind under many signals: each walk is aborted often, and still
/// visits everything.
#[test]
#[expect(clippy::print_stderr, reason = "a skip says why")]
fn a_walk_that_is_aborted_again_and_again_still_ends_and_counts_what_it_lost() {
    if Rseq::of_this_thread().is_err() {
        return eprintln!("skipped: no restartable sequences here");
    }
    // SAFETY: a handler that does nothing, for a signal that has no other use here.
    unsafe { libc::signal(libc::SIGURG, nothing as *const () as libc::sighandler_t) };
    for (pattern, chains) in [
        (Pattern::Shuffled, 1),
        (Pattern::Shuffled, 4),
        (Pattern::Shuffled, 8),
        (Pattern::Scan, 1),
        (Pattern::Code, 1),
    ] {
        let set = set(4096, pattern, 0.0, chains);
        let memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
        let mut walk = Walk::new(&set, memory.linked());
        let rseq = Rseq::of_this_thread().ok();
        let done = AtomicBool::new(false);
        // SAFETY: this thread's id.
        let target = unsafe { libc::pthread_self() };
        let aborted = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the target waits below until this thread has ended.
                    unsafe { libc::pthread_kill(target, libc::SIGURG) };
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            });
            let walks = (0..400).map(|_| walk.walk(rseq.as_ref(), Ticks::MAX, Ticks::MAX));
            let aborted = walks.filter(|walked| walked.aborts > 0).last();
            done.store(true, Ordering::Relaxed);
            aborted
        });
        let aborted = aborted.expect("400 walks, a signal every 50 us");
        assert!(aborted.complete && aborted.lost > 0, "{pattern}: {aborted:?}");
        assert!(aborted.holes > 0, "{pattern}: the chunk that was repeated is not certified");
    }
}

extern "C" fn nothing(_: i32) {}

#[test]
fn a_list_in_huge_pages_or_fresh_frames_is_as_good_as_any() {
    let set = WorkingSet { page: Page::Transparent, ..set(256, Pattern::Shuffled, 0.5, 1) };
    let mut memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
    assert!(walked(&set, &memory).complete);
    memory.renew(&mut DrawStream::new(1, 1)).unwrap();
    assert!(walked(&set, &memory).complete);
}

/// The calls of [`sum_up`]: the bytes, the pass number, and whether the stack was aligned.
static CALLS: std::sync::Mutex<Vec<(usize, u64, bool)>> = std::sync::Mutex::new(Vec::new());

unsafe extern "C" fn sum_up(memory: *mut u8, bytes: usize, pass: u64) {
    let local = 0_u128;
    let aligned = (std::hint::black_box(&raw const local) as usize).is_multiple_of(16);
    // SAFETY: the walk says that these are its bytes.
    unsafe { memory.add(bytes - 1).write(pass as u8 + 1) };
    CALLS.lock().unwrap().push((bytes, pass, aligned));
}

#[test]
fn the_users_own_job_is_called_with_its_memory_and_the_number_of_the_call() {
    let set = WorkingSet { workload: Some(String::new()), ..set(4, Pattern::Shuffled, 0.0, 1) };
    let memory = SetMemory::new(&set, &mut DrawStream::new(1, 0)).unwrap();
    assert_eq!(written(&memory), [0; 8], "its memory is handed over empty");
    let mut walk = Walk::calling(OwnJob::of(sum_up), memory.raw());
    let rseq = Rseq::of_this_thread().ok();
    for _ in 0..3 {
        let called = walk.walk(rseq.as_ref(), 0, 0);
        assert!(called.complete && called.ticks > 0 && called.holes == 0);
        assert!(!called.watched && !called.stamped, "nothing inside of it is seen");
    }
    assert_eq!(*CALLS.lock().unwrap(), [(4096, 0, true), (4096, 1, true), (4096, 2, true)]);
    assert_eq!(written(&memory).iter().sum::<usize>(), 1);
}
