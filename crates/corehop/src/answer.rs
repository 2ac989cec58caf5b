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

/// The columns of the terminal; 100 where standard output is none.
pub(crate) fn width() -> usize {
    terminal_size::terminal_size().map_or(100, |(width, _)| usize::from(width.0))
}
