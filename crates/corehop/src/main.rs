// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `corehop` program: parses the command line, calls the libraries, and prints their answers.

mod output;
mod progress;
mod cli;
mod cmd;

use std::process::ExitCode;

use corehop_app::voice::{Voice, show_by};
use corehop_system::supervisor::interrupt;

fn main() -> ExitCode {
    output::show_panics();
    show_by(Voice { note: output::note, warning: output::warn });
    if let Some(code) = corehop_linux::main_if_asked() {
        return code;
    }
    // Where it fails, signals end the program as they end others.
    let _as_others = interrupt::end_at_once();
    // Where it fails, a file that grows too large ends the program as before.
    let _as_before = interrupt::outlive_file_limit();
    match cli::answer(&cli::words(std::env::args_os())) {
        Ok(exit) => exit.into(),
        Err(failure) => output::report(&failure),
    }
}
