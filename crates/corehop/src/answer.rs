// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a verb answers on standard output.

use std::io::{ErrorKind, Write};

use crate::exit::{Exit, Failure};

/// Prints `text`. A reader that has seen enough and went away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Failed, error).context("standard output"))
        }
        _ => Ok(()),
    }
}

/// The columns of the terminal, as the shell states them; 100 where it does not.
pub(crate) fn width() -> usize {
    let stated = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    stated.unwrap_or_else(|| usize::from(terminal_columns().unwrap_or(100)))
}

/// The width of the terminal that standard output is, if it is one.
fn terminal_columns() -> Option<u16> {
    indicatif::TermLike::width(&indicatif_stdout()?).into()
}
