// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page sampling, on programs whose pairs of threads are known. Skips with the reason where pages cannot be sampled.
//!
//! The handler, the placer that is killed, and the sampled program are this program too, started anew; so it has a `main` of its
//! own instead of the usual harness.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports")]

#[path = "../harness/mod.rs"]
mod harness;
mod program;
mod scene;
mod found;
mod endings;

use std::process::ExitCode;

use harness::{Test, report, tests};

const TESTS: &[Test] = tests![
    found::each_thread_is_found_with_its_partner_and_one_alone_with_none,
    found::another_order_of_the_threads_has_other_pairs,
    found::the_kernel_reads_into_protected_pages,
    found::a_pair_in_memory_that_other_processes_could_share_is_found,
    found::huge_pages_are_left_whole,
    found::a_program_forks_and_its_children_are_not_held_up,
    found::a_program_that_starts_another_one_is_lost_and_goes_on,
    found::without_the_right_the_source_is_off_and_says_so,
    endings::the_program_goes_on_without_a_handler_that_was_killed,
    endings::the_program_goes_on_without_a_handler_that_was_stopped,
    endings::the_program_goes_on_without_the_placer,
    endings::the_program_goes_on_without_placer_and_handler,
    endings::killed_at_any_time_they_leave_no_protected_page_and_no_process,
    endings::nothing_remains_of_a_program_that_was_killed,
];

fn main() -> ExitCode {
    if let Some(code) = corehop_linux::main_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [role, words @ ..] if role == program::ROLE => ExitCode::from(program::main(words) as u8),
        [role, words @ ..] if role == scene::PLACER => scene::placer(words),
        // One at a time: their threads spin.
        filters => report(TESTS, filters, 1),
    }
}
