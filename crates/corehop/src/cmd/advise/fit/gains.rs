// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop advise fit` of files of `measure shared-data`: the speed-up of threads that run close together.

use corehop_report::gains;
use corehop_results::Results;

use super::Args;
use crate::output::{AnswerBody, OutputFile, answer};
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::input;

/// Fits the model forms, and writes or prints the fitted models.
pub(super) fn run(
    args: &Args,
    data: &Results,
    output: Option<OutputFile>,
) -> Result<Exit, Failure> {
    refuse("files of `measure shared-data` have no costs", &[("--default", args.is_default)])?;
    let gain = input::gain_of(data)?;
    if let Some(file) = output {
        file.write(gain.to_json())?;
    }
    let sentence = format!(
        "The gain of threads that share data follows the form `{}`.{}",
        gain.taken,
        super::next(args.output.as_deref())
    );
    let text = if args.json { gain.to_json() } else { gains::fitted(&gain) };
    answer(&sentence, if args.json { AnswerBody::Data(&text) } else { AnswerBody::Text(&text) })?;
    Ok(Exit::Done)
}
