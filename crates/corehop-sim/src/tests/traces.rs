// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs' accesses on a simulated machine: the walk does what the trace says, wherever its pages lie.

use std::sync::Arc;

use crate::machine_state::MachineState;
use crate::walker::{TracePages, Visit, Walker};
use corehop_plan::experiment::DrawStream;
use corehop_plan::platform::Platform;
use corehop_plan::units::Bytes;
use corehop_plan::workload::trace::{ParsedTrace, Trace, TraceWindow};
use corehop_plan::workload::{LINE, Page, WorkingSet};

fn trace(text: &str) -> Trace {
    ParsedTrace::from(text.as_bytes(), "by hand", TraceWindow::default()).unwrap().trace
}

#[test]
fn a_walk_visits_the_lines_of_a_trace_in_its_order_as_often_as_it_did() {
    // Two pages far apart: the first is read, written, and read again; of the other a line is written.
    let trace = trace(" L 1000,8\n S 7fff040,8\n L 1000,8\n M 1fc0,4\n");
    let lines: Vec<u32> = (640..704).chain(64..128).collect();
    let pages = TracePages::of(&trace, 64).unwrap();
    let mut walker = Walker::of_trace(&trace, &pages, &lines, Page::Base).unwrap();
    let visits: Vec<Visit> = (0..walker.visits()).map(|_| walker.visit()).collect();
    let visit =
        |line, page, reads, writes| Visit { line, page, reads, writes, fetches: false, words: 1 };
    assert_eq!(
        visits,
        [
            visit(640, 0, true, false),
            visit(65, 1, false, true),
            visit(640, 0, true, false),
            visit(703, 0, true, true),
        ]
    );
    assert_eq!(walker.memory(), [640, 703, 65]);
    assert_eq!(walker.visit(), visits[0]);
}

#[test]
fn pages_of_any_size_hold_what_lies_in_them_and_no_more() {
    // Three base pages in two of 2 MiB.
    let trace = trace(" L 1000,8\n L 3000,8\n L 400000,8\n");
    let of_huge = (2 << 20) / LINE as u32;
    let [base, huge] = [64, of_huge].map(|of_page| TracePages::of(&trace, of_page).unwrap());
    assert_eq!((base.size(), huge.size()), (Bytes::from_kib(12), Bytes::from_mib(4)));
    let lines: Vec<u32> = (0..2 * of_huge).collect();
    let mut walker = Walker::of_trace(&trace, &huge, &lines, Page::Transparent).unwrap();
    let visits: Vec<(u32, u32)> =
        (0..3).map(|_| walker.visit()).map(|it| (it.line, it.page)).collect();
    assert_eq!(visits, [(64, 0), (192, 0), (of_huge, 1)]);
}

/// The times of four passes over `set` on an idle Xeon X5650.
fn passes(set: &WorkingSet, walker: impl Fn(Vec<u32>, u32) -> Walker) -> Vec<u64> {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let mut state = MachineState::new(&platform, 1, 3).unwrap();
    let lines = state.frames.place(set.wss, set.page, 0, None).unwrap();
    let of_page = state.frames.lines_of(set.page);
    let mut walker = walker(lines, of_page);
    state.begin_on(0);
    (0..4).map(|_| state.walk(0, &mut walker).picos).collect()
}

#[test]
fn the_trace_of_a_scan_takes_the_time_of_the_scan() {
    let scan = WorkingSet {
        pattern: corehop_plan::workload::Pattern::Scan,
        write_ratio: 1.0,
        ..WorkingSet::list(Bytes::from_kib(32), 0.0)
    };
    let words: Vec<String> =
        (0..32 * 128).map(|word| format!(" S {:x},8\n", 0x10_0000 + 8 * word)).collect();
    let trace = Arc::new(trace(&words.concat()));
    assert_eq!(WorkingSet::of_trace(trace.clone()).unwrap().wss, scan.wss);
    let of_trace = |lines: Vec<u32>, of_page| {
        let pages = TracePages::of(&trace, of_page).unwrap();
        Walker::of_trace(&trace, &pages, &lines, Page::Base).unwrap()
    };
    let of_scan =
        |lines, of_page| Walker::of_set(&scan, lines, of_page, &mut DrawStream::new(1, 1));
    assert_eq!(passes(&scan, of_trace), passes(&scan, of_scan));
}
