// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `corehop` program: parses the command line, calls the libraries, prints their answers.

mod output;
mod cli;
mod cmd;
mod exit;
mod run;
mod input;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = corehop_linux::supervisor::main_if_asked() {
        return code;
    }
    match cli::parse(&cli::words(std::env::args_os())).and_then(cli::run) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}
