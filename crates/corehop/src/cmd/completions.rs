// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop completions` and `corehop manual`: what shells and `man` read, from the same definitions as
//! the command line itself.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use crate::exit::{Exit, Failure};
use crate::output::print;

/// Print the completions of a shell.
///
/// For bash: `corehop completions bash > /etc/bash_completion.d/corehop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Write man pages, one for each command, into a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Manual {
    /// The folder, for instance `/usr/local/share/man/man1`
    folder: PathBuf,
}

pub(crate) fn completions(args: &Completions, mut command: Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "corehop", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub(crate) fn manual(args: &Manual, command: Command) -> Result<Exit, Failure> {
    let folder = &args.folder;
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command.disable_help_subcommand(true), folder));
    written
        .map_err(|error| Failure::new(Exit::Failed, error).context(folder.display().to_string()))?;
    Ok(Exit::Done)
}
