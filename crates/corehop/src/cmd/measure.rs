// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop measure`

use crate::exit::{Exit, Failure};

/// What to measure, on what, and where to write it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<Exit, Failure> {
    Err(Failure::says(Exit::Usage, "name an experiment"))
}
