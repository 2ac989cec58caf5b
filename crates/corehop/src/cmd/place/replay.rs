// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays a log of the placer.

use std::io::BufReader;
use std::path::PathBuf;

use corehop_decide::placer::Action;
use corehop_decide::placer::log::LogError;
use corehop_decide::placer::replay::{Replay, ReplayDifference, ReplayError, replay};
use corehop_plan::shown;

use super::gain;
use crate::cmd::measure::on;
use crate::output::either;
use corehop_app::failure::{Exit, Failure};
use corehop_app::input;

/// Replay a log of the placer, and check that the placer makes the same decisions. Replaying moves no thread.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replay this log of `corehop place -o`.
    #[arg(value_name = "LOG.jsonl")]
    log: PathBuf,
    /// Predict the gain of threads that run together by this model, if the placer used the model
    #[arg(long, value_name = "MODEL.json")]
    model: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

/// Replays a log, and prints whether the placer makes the logged decisions again.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let log = args.log.as_path();
    let gain = match &args.model {
        Some(_) => gain::of_machine(args.model.as_deref(), &on::platform(on::LIVE)?)?,
        None => None,
    };
    let name = shown::path(log);
    let done = replay(BufReader::new(input::file(log)?), gain).map_err(|error| {
        let unread = matches!(error, ReplayError::Log(LogError::Io(_)));
        let exit = if unread { Exit::Failed } else { Exit::Damaged };
        Failure::new(exit, error).context(name.clone())
    })?;
    let json = args.json.then(|| serde_json::to_value(&done)).transpose();
    let json = json.map_err(|it| Failure::new(Exit::Failed, it))?;
    let sentence = format!("{name}: {}", sentence(&done));
    either(&sentence, json.as_ref(), || done.difference.as_ref().map_or_else(String::new, text))?;
    Ok(if done.difference.is_none() { Exit::Done } else { Exit::No })
}

fn sentence(done: &Replay) -> String {
    let Replay { windows, actions, difference } = done;
    match difference {
        None => {
            format!(
                "The placer made the same decisions as in the log, in {windows} windows with {actions} actions."
            )
        }
        Some(it) => {
            format!("window {}: the placer now decides differently from the log.", it.window)
        }
    }
}

fn text(difference: &ReplayDifference) -> String {
    let ReplayDifference { recorded, now, .. } = difference;
    format!("  recorded: {}\n  now:      {}\n", words(recorded), words(now))
}

fn words(actions: &[Action]) -> String {
    let one = |it: &Action| serde_json::to_string(it).unwrap_or_default();
    if actions.is_empty() {
        "none".to_owned()
    } else {
        actions.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}
