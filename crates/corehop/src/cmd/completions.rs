// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop completions` and `corehop manual`: what shells and `man` read, from the same definitions as
//! the command line itself.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use corehop_plan::shown;

use crate::exit::{Exit, Failure};
use crate::output::{self, Force, OutputFile, Rest, answer, counted};

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
    #[command(flatten)]
    force: Force,
}

pub(crate) fn completions(args: &Completions, mut command: Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "corehop", &mut script);
    let sentence = format!(
        "These are the completions of {}: write them to the folder from which the shell loads completions.",
        args.shell
    );
    answer(&sentence, Rest::Data(&String::from_utf8_lossy(&script)))?;
    Ok(Exit::Done)
}

pub(crate) fn manual(args: &Manual, command: Command) -> Result<Exit, Failure> {
    output::file::folder(&args.folder)?;
    let mut pages = Vec::new();
    let mut whole = command.disable_help_subcommand(true);
    whole.build();
    let rendered = render(&whole, &mut pages);
    rendered.map_err(|error| Failure::new(Exit::Failed, error))?;
    // No page is written before every page may be.
    let file = |(name, page): (String, Vec<u8>)| {
        Ok((OutputFile::ordinary(&args.folder.join(name), &[], args.force)?, page))
    };
    let files = pages.into_iter().map(file).collect::<Result<Vec<_>, Failure>>()?;
    let count = files.len() as u64;
    files.iter().try_for_each(|(file, page)| file.write(page))?;
    let (folder, pages) = (shown::path(&args.folder), counted(count, "man page"));
    let sentence =
        format!("{pages} of corehop are in {folder}: `man -l {folder}/corehop.1` shows the first.");
    answer(&sentence, Rest::Text(""))?;
    Ok(Exit::Done)
}

/// Adds the pages of a command and of those below it, each with the name of its file.
fn render(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        render(inner, pages)?;
    }
    let (man, mut page) = (Man::new(command.clone()), Vec::new());
    man.render(&mut page)?;
    pages.push((man.get_filename(), page));
    Ok(())
}
