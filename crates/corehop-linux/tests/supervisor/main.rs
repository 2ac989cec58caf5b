// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing of a run is left behind, for every cause of its end.
//!
//! The run, its supervisor and the keepers of its loads are this program too, started anew; so it
//! has a `main` of its own instead of the usual harness. A temporary file stands for a setting of
//! the kernel.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test program reports")]

#[path = "../harness/mod.rs"]
mod harness;
mod guarded;
mod run;
mod endings;
mod loads;
mod journals;
mod whole;
mod stopped;
#[path = "../harness/denied.rs"]
mod denied;

use std::process::ExitCode;

use harness::{Test, report, tests};

const TESTS: &[Test] = tests![
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
    loads::starting_a_load_write_protects_nothing_of_the_measuring_process,
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
    journals::a_name_that_another_user_planted_is_told_and_keeps_nothing_from_being_restored,
    journals::a_setting_that_cannot_be_written_is_an_error_and_leaves_nothing_to_restore,
    journals::killed_with_its_supervisor_a_run_leaves_one_readable_journal,
    journals::a_line_of_which_only_half_can_be_written_is_cut_off_again,
    journals::on_a_full_disk_the_change_is_refused_before_it_is_made,
    whole::a_second_run_that_would_change_the_whole_host_is_refused_with_the_number_of_the_first,
    whole::the_lock_on_the_whole_host_lasts_until_the_supervisor_has_restored,
    whole::what_two_dead_processes_left_is_told_and_refuses_the_lock_until_it_is_restored,
    whole::a_number_of_another_pid_namespace_is_not_taken_for_the_owner,
    whole::a_run_removes_its_empty_folder,
    stopped::a_stopped_supervisor_is_told_and_the_change_is_not_made,
    stopped::between_changes_a_stopped_supervisor_is_told_within_seconds,
    stopped::an_owner_that_beats_and_is_stopped_finds_its_changes_taken_back,
    stopped::an_owner_that_changes_settings_all_the_time_is_not_taken_for_a_silent_one,
    stopped::an_owner_whose_main_thread_ends_before_another_one_is_restored,
    stopped::the_rest_of_a_dead_run_with_a_stopped_supervisor_is_told_and_restored,
    stopped::loads_end_whatever_their_processes_are_called,
    stopped::without_locks_changes_are_made_and_restored_and_the_whole_host_is_refused,
];

fn main() -> ExitCode {
    if let Some(code) = corehop_linux::main_if_asked() {
        return code;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [role, directory] if role == guarded::ROLE => guarded::main(directory),
        // Four at a time: mostly they wait.
        filters => report(TESTS, filters, 4),
    }
}
