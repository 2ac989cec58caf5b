// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop help --completions` and `--man`: completion scripts and manual pages, generated from the definitions of
//! the command line.

use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use corehop_plan::shown;
use serde_json::json;

use crate::output::{self, AnswerBody, Force, OutputFile, answer, counted, either};
use corehop_app::failure::{Exit, Failure};

pub(super) fn completions(shell: Shell, mut command: Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "corehop", &mut script);
    let sentence = format!(
        "Save these completions of {shell} in the folder from which the shell loads completions."
    );
    answer(&sentence, AnswerBody::Data(&String::from_utf8_lossy(&script)))?;
    Ok(Exit::Done)
}

pub(super) fn manual(
    folder: &Path,
    force: Force,
    as_json: bool,
    mut command: Command,
) -> Result<Exit, Failure> {
    output::file::folder(folder)?;
    let mut pages = Vec::new();
    command.build();
    let rendered = render(&command, &mut pages);
    rendered.map_err(|error| Failure::new(Exit::Failed, error))?;
    // No page is written before every page may be.
    let file = |(name, page): (String, Vec<u8>)| {
        Ok((OutputFile::ordinary(&folder.join(name), &[], force)?, page))
    };
    let files = pages.into_iter().map(file).collect::<Result<Vec<_>, Failure>>()?;
    let count = files.len() as u64;
    files.iter().try_for_each(|(file, page)| file.write(page))?;
    let (folder, pages) = (shown::path(folder), counted(count, "man page"));
    let sentence =
        format!("{pages} of corehop are in {folder}: `man -l {folder}/corehop.1` shows the first.");
    let json = as_json.then(|| {
        let files: Vec<String> = files.iter().map(|(file, _)| shown::value(file.path())).collect();
        json!({ "files": files, "sentence": sentence })
    });
    either(&sentence, json.as_ref(), String::new)?;
    Ok(Exit::Done)
}

/// Adds the manual pages of a command and of its subcommands, each with its file name.
fn render(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        render(inner, pages)?;
    }
    let (man, mut page) = (Man::new(command.clone()), Vec::new());
    man.render(&mut page)?;
    pages.push((man.get_filename(), page));
    Ok(())
}
