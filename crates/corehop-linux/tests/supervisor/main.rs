// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whatever ends a run, nothing of it is left behind.
//!
//! The run, its supervisor and the keepers of its loads are this program too, started anew; so it
//! has a `main` of its own instead of the usual harness. A temporary file stands for a setting of
//! the kernel.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports")]

mod guarded;
mod run;
mod endings;
mod loads;
mod journals;

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

/// A test that is missing here is dead code, of which the compiler warns.
macro_rules! tests {
    ($($test:path,)*) => { &[$((stringify!($test), $test)),*] };
}

const TESTS: &[(&str, fn())] = tests![
    endings::nothing_is_left_after_a_normal_end,
    endings::nothing_is_left_after_a_crash,
    endings::nothing_is_left_after_a_signal_that_asks_to_end,
    endings::nothing_is_left_after_sigkill,
    endings::nothing_is_left_after_sigkill_of_the_supervisor,
    endings::after_sigkill_of_both_the_journal_restores,
    endings::a_group_whose_leader_was_killed_is_found_by_its_mark,
    endings::a_supervisor_that_was_killed_is_replaced_before_the_next_change,
    endings::a_second_interrupt_ends_a_run_that_does_not_listen_and_finds_all_restored,
    endings::a_stopped_supervisor_does_not_hold_up_the_end,
    endings::signals_that_end_programs_do_not_end_the_supervisor,
    endings::a_thread_runs_where_it_ran_before,
    endings::a_cgroup_is_emptied_and_removed,
    endings::what_cannot_be_taken_back_is_told_and_stays_listed_until_it_can,
    endings::what_the_supervisor_cannot_take_back_stays_listed,
    endings::what_belongs_to_an_earlier_list_does_not_touch_a_later_one,
    endings::output_of_a_run_ends_with_it,
    loads::the_supervisor_holds_nothing_of_its_parents_and_the_journal_is_private,
    loads::under_a_real_time_parent_supervisor_and_load_are_ordinary,
    loads::a_load_runs_where_it_is_told_is_restarted_and_shows_that_it_ran,
    loads::a_load_hears_signals_as_usual_and_dies_with_its_keeper,
    loads::a_stopped_load_does_not_hold_up_the_end,
    loads::a_load_is_over_when_what_it_left_in_the_background_is,
    loads::a_load_that_ends_at_once_is_given_up_with_its_name_its_status_and_a_remedy,
    loads::a_load_on_a_cpu_that_is_not_there_is_refused,
    journals::a_number_that_has_gone_to_another_process_is_not_killed,
    journals::a_last_line_that_was_cut_off_is_a_change_that_was_not_made,
    journals::a_kind_that_is_not_known_is_reported_and_its_journal_kept_for_a_later_version,
    journals::a_journal_whose_owner_lives_is_left_alone,
    journals::a_file_that_is_not_our_journal_is_not_touched,
    journals::a_directory_that_others_control_is_refused_before_the_change,
    journals::a_setting_that_cannot_be_written_is_an_error_and_leaves_nothing_to_restore,
    journals::killed_with_its_supervisor_a_run_leaves_one_readable_journal,
    journals::a_line_of_which_only_half_can_be_written_is_cut_off_again,
    journals::on_a_full_disk_the_change_is_refused_before_it_is_made,
];

fn main() -> ExitCode {
    if let Some(code) = corehop_linux::supervisor::main_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [role, directory] if role == guarded::ROLE => guarded::main(directory),
        filters => report(filters),
    }
}

/// Runs the tests whose name contains one of `filters`, four at a time: mostly they wait.
fn report(filters: &[String]) -> ExitCode {
    let words: Vec<&String> = filters.iter().filter(|word| !word.starts_with('-')).collect();
    let chosen = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(*word));
    let tests: Vec<_> = TESTS.iter().filter(|(name, _)| chosen(name)).collect();
    let (queue, failed) = (Mutex::new(tests.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let next = || queue.lock().unwrap().next();
                while let Some((name, test)) = next() {
                    let ran = thread::Builder::new().name((*name).into()).spawn(test).unwrap();
                    let verdict = if ran.join().is_ok() { "ok" } else { "FAILED" };
                    println!("test {name} ... {verdict}");
                    if verdict != "ok" {
                        failed.lock().unwrap().push(*name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("test result: {} passed; {} failed", tests.len() - failed.len(), failed.len());
    for name in &failed {
        println!("    {name}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
