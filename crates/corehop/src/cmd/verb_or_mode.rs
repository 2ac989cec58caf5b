// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verbs with modes: `corehop place …` runs the verb itself, `corehop place replay …` runs a mode.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};

/// The parsed arguments of a verb with modes: the arguments of the verb itself or of a mode.
#[derive(Debug)]
pub(crate) enum VerbOrMode<V, M> {
    /// The arguments of the verb itself.
    Verb(V),
    /// A mode with its arguments.
    Mode(M),
}

impl<V: clap::Args, M: Subcommand> clap::Args for VerbOrMode<V, M> {
    fn augment_args(command: Command) -> Command {
        let command = M::augment_subcommands(V::augment_args(command));
        let command = command.subcommand_required(false).arg_required_else_help(false);
        command.subcommand_negates_reqs(true).disable_help_subcommand(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<V: clap::Args, M: Subcommand> FromArgMatches for VerbOrMode<V, M> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        if matches.subcommand_name().is_none() {
            return V::from_arg_matches(matches).map(Self::Verb);
        }
        let typed = |id: &clap::Id| {
            matches.value_source(id.as_str()) == Some(ValueSource::CommandLine)
                && id.as_str() != crate::cli::QUIET
        };
        // They would be ignored.
        if let Some(id) = matches.ids().find(|id| typed(id)) {
            let what = format!(
                "`{id}` precedes the name of a mode: write the arguments of a mode after its name"
            );
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, what));
        }
        M::from_arg_matches(matches).map(Self::Mode)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
