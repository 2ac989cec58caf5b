// SPDX-License-Identifier: MIT OR Apache-2.0
//! The live machine on this host, with plans of some milliseconds.
//!
//! Asserted are orders, counts and refusals, never a time: a neighbour may double any of them. Unless the
//! point is another one, the measured thread is an ordinary one.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports")]

#[path = "../harness/mod.rs"]
mod harness;
mod account;
mod duty;
mod endings;
mod loads;
mod plans;
mod touches;

use std::process::ExitCode;

use harness::{Test, report, tests};

const TESTS: &[Test] = tests![
    touches::an_undisturbed_touch_is_quicker_than_one_after_a_flush,
    touches::lines_from_modified_caches_are_dearer_than_valid_ones,
    touches::an_absence_lasts_at_least_as_long_as_asked,
    touches::the_users_own_job_is_measured_as_any_other,
    touches::a_job_of_the_users_own_that_cannot_be_loaded_is_refused_by_name,
    touches::the_duty_budget_is_kept,
    touches::no_window_is_busier_than_the_budget_by_the_kernels_account,
    account::the_busiest_window_of_made_up_spans_is_found,
    duty::no_window_is_busier_than_half_without_load,
    duty::no_window_is_busier_than_half_beside_polluters,
    duty::no_window_is_busier_than_half_beside_changing_programs,
    duty::no_window_is_busier_than_half_beside_transfers_and_datagrams,
    duty::no_window_is_busier_than_half_beside_locked_instructions,
    duty::no_window_is_busier_than_half_beside_a_command,
    duty::no_window_is_busier_than_half_where_parked_threads_hand_jobs_over,
    duty::no_window_is_busier_than_half_where_replicates_follow_each_other,
    duty::a_new_phase_goes_on_with_what_the_one_before_has_used,
    duty::a_migrated_job_counts_on_the_cpu_that_it_reaches,
    duty::short_absences_between_long_parts_of_a_job_do_not_make_room,
    loads::polluters_run_and_are_gone_afterwards,
    loads::changing_programs_run_and_are_gone_afterwards,
    loads::direct_transfers_run_and_are_gone_afterwards,
    loads::datagrams_run_and_are_gone_afterwards,
    loads::locked_instructions_run_and_are_gone_afterwards,
    loads::a_preemptor_has_the_cpu_to_itself_beside_loads_that_compute,
    loads::a_command_runs_on_every_cpu_and_is_gone_afterwards,
    loads::a_command_that_ends_at_once_is_an_error_that_names_it,
    loads::split_locks_are_refused_with_a_reason_where_they_would_be_punished,
    loads::a_load_on_a_cpu_that_is_not_there_is_refused_by_its_number,
    endings::an_interrupted_run_ends_its_load,
    endings::a_run_that_is_killed_leaves_no_load,
];

fn main() -> ExitCode {
    // One arena, and large blocks mapped on their own: what a thread has freed then goes back to the
    // kernel, and memory that is left is left by the machine.
    // SAFETY: sets two numbers of the allocator, before any other thread runs.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
    if let Some(code) = corehop_linux::main_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [role, path] if role == endings::ROLE => endings::run_plan(path),
        // One at a time: they measure.
        filters => report(TESTS, filters, 1),
    }
}
