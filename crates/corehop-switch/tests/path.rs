// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path of a switch allocates nothing and takes no lock, on either side.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use corehop_switch::{Mechanism, Options, Switch};

/// Counts the allocations of all threads.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

unsafe extern "C" fn nothing(_: *mut c_void) -> u64 {
    0
}

/// Calls alone, 64 together, after sleeps, and such as are taken back.
fn exercise(switch: &mut Switch) {
    for n in 0..200 {
        // SAFETY: it does nothing.
        unsafe { switch.call(nothing, ptr::null_mut()) };
        let (small, large) = ([n; 2], [n; 40]);
        assert_eq!(switch.run(move || small.map(|it| it + 1)), [n + 1; 2]);
        assert_eq!(switch.run(move || large.map(|it| it + 1)), [n + 1; 40]);
        if n % 50 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            switch.prepare();
        }
    }
    for _ in 0..10 {
        // SAFETY: it does nothing.
        let submit = |_| unsafe { switch.submit(nothing, ptr::null_mut()) }.unwrap();
        let tickets: [_; 64] = std::array::from_fn(submit);
        for ticket in tickets {
            switch.wait(ticket).unwrap();
        }
    }
}

/// The only test of its process: other tests allocate.
#[test]
fn no_call_allocates() {
    for mechanism in Mechanism::ALL {
        for patience_ns in [0, 1_000_000_000] {
            let wish = Options { mechanism: Some(mechanism), patience_ns, ..Options::default() };
            let mut switch = Switch::open(&wish);
            exercise(&mut switch);
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            exercise(&mut switch);
            let after = ALLOCATIONS.load(Ordering::Relaxed);
            assert_eq!(after - before, 0, "{mechanism}, patience {patience_ns} ns");
        }
    }
    no_file_of_the_path_names_a_lock();
}

fn no_file_of_the_path_names_a_lock() {
    let files =
        ["budget", "frame", "lane", "line", "partner", "policy", "switch", "sync", "sys", "uring"];
    for file in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{file}.rs"));
        let source = std::fs::read_to_string(&path).unwrap();
        for lock in ["Mutex", "RwLock", "Condvar", "OnceLock", "mpsc", "Barrier", "LazyLock"] {
            assert!(!source.contains(lock), "{file}.rs names {lock}");
        }
    }
}
