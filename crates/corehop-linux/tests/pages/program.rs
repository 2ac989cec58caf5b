// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program that is sampled: threads in pairs, each pair with pages of its own, and no system calls.

use std::io::Read;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use corehop_plan::workload::draw::DrawStream;

/// The argument that makes this test program the sampled one.
pub(crate) const ROLE: &str = "__pairs";
/// Words of a page.
const WORDS: usize = 512;
/// Pages of a pair.
const PAGES: usize = 4;

/// Memory that begins at the start of a page.
#[repr(align(4096))]
struct Page([AtomicU64; WORDS]);

impl Page {
    fn new() -> Self {
        Self(std::array::from_fn(|at| AtomicU64::new(at as u64)))
    }
}

/// Pages that threads write to: they stay as long as the program.
type Pages = &'static [Page; PAGES];

/// A huge page on x86 and on most others.
const HUGE: usize = 2 << 20;

/// Pages of the heap, in memory that other processes could share (`shared`), or at the start of a huge page (`huge`).
fn pages(word: &str) -> Pages {
    let new = || std::array::from_fn(|_| Page::new());
    match word {
        "shared" => mapped(libc::MAP_SHARED, HUGE, |_| {}).write(new()),
        "huge" => mapped(libc::MAP_PRIVATE, 2 * HUGE, whole).write(new()),
        _ => Box::leak(Box::new(new())),
    }
}

/// Asks for the first aligned huge page.
fn whole(start: *mut libc::c_void) {
    // SAFETY: memory of this process, of which the kernel is told how it is to be backed.
    let advised = unsafe { libc::madvise(start, HUGE, libc::MADV_HUGEPAGE) };
    assert_eq!(advised, 0);
}

/// Room in a mapping of its own, at a multiple of a huge page where there is one within it.
fn mapped(
    kind: i32,
    bytes: usize,
    advise: fn(*mut libc::c_void),
) -> &'static mut MaybeUninit<[Page; PAGES]> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, wherever the kernel has room.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, rights, kind | libc::MAP_ANONYMOUS, -1, 0)
    };
    assert_ne!(start, libc::MAP_FAILED);
    let aligned = start.map_addr(|it| if bytes > HUGE { it.next_multiple_of(HUGE) } else { it });
    advise(aligned);
    // SAFETY: it is not unmapped, nothing else has it, and it is aligned and long enough.
    unsafe { &mut *aligned.cast() }
}

/// Steps through the pages at random, adding one to each word it comes to; their number.
fn write(pages: Pages, seed: u64, end: &AtomicBool) -> u64 {
    let (mut draw, mut steps) = (DrawStream::new(seed, 1), 0);
    while !end.load(Ordering::Relaxed) {
        let at = draw.below((PAGES * WORDS) as u64) as usize;
        pages[at / WORDS].0[at % WORDS].fetch_add(1, Ordering::Relaxed);
        steps += 1;
    }
    steps
}

/// The threads, as they are to be: which pages each writes to, by number; the first two share the first ones, and so on.
struct Plan {
    seed: u64,
    /// The pages of each thread.
    pages: Vec<Pages>,
    partner: Vec<Option<usize>>,
}

impl Plan {
    /// So many pairs, and threads alone, in an order of the seed, in memory as the word says.
    fn new(pairs: usize, alone: usize, seed: u64, word: &str) -> Self {
        let mut draw = DrawStream::new(seed, 0);
        let mut order: Vec<usize> = (0..2 * pairs + alone).collect();
        draw.shuffle(&mut order);
        let mut partner = vec![None; order.len()];
        let mut all: Vec<Pages> = order.iter().map(|_| pages(word)).collect();
        for pair in order[..2 * pairs].chunks(2) {
            partner[pair[0]] = Some(pair[1]);
            partner[pair[1]] = Some(pair[0]);
            all[pair[0]] = all[pair[1]];
        }
        Self { seed, pages: all, partner }
    }
}

/// A thread that tells its number and then writes.
fn begin(
    plan: &Plan,
    at: usize,
    tids: &Arc<Mutex<Vec<(usize, u32)>>>,
    end: &Arc<AtomicBool>,
) -> JoinHandle<u64> {
    let (pages, tids, end) = (plan.pages[at], tids.clone(), end.clone());
    let seed = plan.seed + at as u64;
    let name = format!("{:08x}", DrawStream::new(seed, 2).bits() as u32);
    let work = move || {
        tids.lock().unwrap().push((at, tid()));
        write(pages, seed, &end)
    };
    std::thread::Builder::new().name(name).spawn(work).unwrap()
}

fn tid() -> u32 {
    // SAFETY: gettid takes nothing.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// `PAIRS ALONE SEED WORD FILE`: writes the thread numbers into FILE, `TID PARTNER` in lines (0: alone), then does what the word
/// says, and ends when a second passes after that and FILE is gone. The exit code is 0 if no write was lost.
pub(crate) fn main(words: &[String]) -> i32 {
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    let (word, file) = (words[3].as_str(), std::path::PathBuf::from(&words[4]));
    let plan = Plan::new(number(0) as usize, number(1) as usize, number(2), word);
    let (tids, end) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let threads: Vec<_> = (0..plan.pages.len()).map(|at| begin(&plan, at, &tids, &end)).collect();
    while tids.lock().unwrap().len() < threads.len() {
        sleep(Duration::from_millis(1));
    }
    tell(&plan, &tids.lock().unwrap(), &file);
    act(word, &plan);
    while file.exists() {
        sleep(Duration::from_millis(20));
    }
    end.store(true, Ordering::Relaxed);
    let steps: u64 = threads.into_iter().map(|it| it.join().unwrap()).sum();
    let before: u64 = (0..WORDS as u64).sum::<u64>() * PAGES as u64;
    let mut seen = Vec::new();
    let sum = plan.pages.iter().map(|lines| {
        let first = lines.as_ptr();
        if seen.contains(&first) {
            return 0;
        }
        seen.push(first);
        lines.iter().flat_map(|it| &it.0).map(|it| it.load(Ordering::Relaxed)).sum::<u64>() - before
    });
    i32::from(sum.sum::<u64>() != steps)
}

fn tell(plan: &Plan, tids: &[(usize, u32)], file: &std::path::Path) {
    let of = |at: usize| tids.iter().find(|it| it.0 == at).unwrap().1;
    let partner = |at: usize| plan.partner[at].map_or(0, of);
    let lines: Vec<String> =
        (0..tids.len()).map(|at| format!("{} {}", of(at), partner(at))).collect();
    let new = file.with_extension("new");
    std::fs::write(&new, lines.join("\n") + "\n").unwrap();
    std::fs::rename(&new, file).unwrap();
}

/// More than writing to memory.
fn act(word: &str, plan: &Plan) {
    match word {
        "write" | "shared" | "huge" => {}
        // The kernel itself writes to pages that may be protected.
        "read" => {
            let mut zeros = std::fs::File::open("/dev/zero").unwrap();
            let buffer = Page::new();
            for _ in 0..20_000 {
                // SAFETY: atomics have the memory of numbers, and no other thread has this page.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(buffer.0.as_ptr().cast_mut().cast(), 4_096)
                };
                zeros.read_exact(bytes).unwrap();
            }
            assert!(buffer.0.iter().all(|it| it.load(Ordering::Relaxed) == 0));
        }
        // Children write to copies of these pages.
        "fork" => {
            for _ in 0..50 {
                // SAFETY: the child only writes to memory and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    plan.pages.iter().flat_map(|it| it.iter()).for_each(|line| {
                        line.0.iter().for_each(|it| it.store(0, Ordering::Relaxed));
                    });
                    // SAFETY: ends this process alone.
                    unsafe { libc::_exit(7) };
                }
                let mut status = 0;
                // SAFETY: a child of this process and a live local.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(libc::WEXITSTATUS(status), 7);
                sleep(Duration::from_millis(10));
            }
        }
        other => panic!("{other}"),
    }
}
