// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop predict` of threads that share data: the ratio of run times, near over far.

use corehop_plan::workload::gang::Sharing;
use corehop_report::gains;
use corehop_stats::machine_gain::{Asked, MachineGain, NoGain};
use serde_json::json;

use super::Args;
use crate::doubts;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::output::either;

/// Predicts and prints, if the options ask for a ratio; None if they ask for a cost.
pub(super) fn run(args: &Args) -> Option<Result<Exit, Failure>> {
    let asked = asked(args)?;
    Some(input::gain(&args.file).and_then(|gain| answer(args, &gain, &asked)))
}

fn asked(args: &Args) -> Option<Asked> {
    if let (Some(program), Some(items)) = (&args.program, args.items) {
        let sharing = args.sharing.unwrap_or(Sharing::Write);
        return Some(Asked::Program { program: program.clone(), items, sharing });
    }
    Some(Asked::Counts { smr: args.smr?, mpmi: args.mpmi? })
}

fn answer(args: &Args, gain: &MachineGain, asked: &Asked) -> Result<Exit, Failure> {
    let known = gain.predict(asked);
    if args.json {
        let source = gain.source();
        let answer = match &known {
            Ok(it) => {
                json!({ "near": gain.near, "far": gain.far, "source": source, "predicted": it })
            }
            Err(why) => {
                json!({ "near": gain.near, "far": gain.far, "source": source, "predicted": null, "why": why.to_string() })
            }
        };
        let sentence = match &known {
            Ok(it) => gains::predicted_in_words(gain, asked, it),
            Err(why) => format!("unknown: {why}."),
        };
        either(&sentence, Some(&doubts::with(answer)), String::new)?;
        return Ok(if known.is_ok() { Exit::Done } else { Exit::No });
    }
    let it = known.map_err(|why| {
        let exit = if matches!(why, NoGain::Several { .. }) { Exit::Usage } else { Exit::No };
        Failure::new(exit, why)
    })?;
    let sentence = gains::predicted_in_words(gain, asked, &it);
    either(&sentence, None, || gains::predicted(gain, asked, &it))?;
    Ok(Exit::Done)
}
