// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-load on a simulated machine: the policies side by side.

use corehop_plan::platform::Platform;
use corehop_plan::workload::switching::SwitchMechanism;
use corehop_report::figure::FigureTable;
use corehop_report::off_load;
use corehop_report::table::plain;
use corehop_sim::switch::off_load::{
    self as simulation, Flags, OffLoadWorkload, OffLoaded, SwitchLatencies,
};
use serde::Serialize;

use crate::answer::Answer;
use crate::failure::{Exit, Failure};

/// The calls of each simulated thread.
pub const SIMULATED_CALLS: u32 = 20_000;

/// The policies that differ from each other, by the words of `--policy`.
const POLICIES: [(&str, u32); 7] =
    [("", 0), ("af", 2), ("wc", 1), ("wc,af", 3), ("wc,af,pa", 7), ("static", 8), ("wc,static", 9)];

/// The answer for a simulated machine.
#[derive(Debug, Serialize)]
struct OffloadReport<'a> {
    schema: &'static str,
    version: u64,
    platform: &'a str,
    load: &'a OffLoadWorkload,
    policies: Vec<OfPolicy>,
    /// The answer in words, the main sentence first.
    sentences: Vec<String>,
}

#[derive(Debug, Serialize)]
struct OfPolicy {
    /// Words of `--policy`; None: nothing is off-loaded.
    policy: Option<String>,
    #[serde(flatten)]
    outcome: OffLoaded,
}

/// Runs a load without off-load, and by one policy or by each, and answers.
///
/// # Errors
/// Exit 1 where the cost of the mechanism is unknown on the platform; errors of the simulation.
pub fn simulate(
    platform: &Platform,
    load: &OffLoadWorkload,
    policy: Option<(String, u32)>,
) -> Result<Answer, Failure> {
    if let Some(why) = simulation::unknown(platform, load.mechanism)? {
        let sentence = format!(
            "unknown: what {} costs on {}. {why}. Otherwise name v4, which polls, or a mechanism of the kernel of 2009 \
             (--mechanism strong-v5)",
            load.mechanism, platform.id
        );
        return Err(Failure::says(Exit::No, sentence));
    }
    let of = simulated(platform, load, policy)?;
    Ok(Answer {
        sentence: of.sentence().to_owned(),
        json: serde_json::to_value(&of).map_err(|it| Failure::new(Exit::Failed, it))?,
        text: text(&of),
        exit: Exit::Done,
    })
}

/// Runs a load without off-load, and by one policy or by each.
fn simulated<'a>(
    platform: &'a Platform,
    load: &'a OffLoadWorkload,
    policy: Option<(String, u32)>,
) -> Result<OffloadReport<'a>, Failure> {
    let alone = OffLoadWorkload { mechanism: SwitchMechanism::None, ..load.clone() };
    let none = simulation::off_load(
        platform,
        &alone,
        &SwitchLatencies::simulate(platform, &alone)?,
        Flags::NONE,
    )?;
    let mut policies = vec![OfPolicy { policy: None, outcome: none }];
    let switches = SwitchLatencies::simulate(platform, load)?;
    let all = policy.map_or_else(
        || POLICIES.map(|(words, bits)| (words.to_owned(), bits)).to_vec(),
        |one| vec![one],
    );
    for (words, bits) in all {
        let flags = Flags::from_bits(bits).unwrap_or_default();
        let outcome = simulation::off_load(platform, load, &switches, flags)?;
        policies.push(OfPolicy { policy: Some(words), outcome });
    }
    let sentences = vec![sentence(&platform.id, load, &policies)];
    let [_, schema] = off_load::SCHEMAS;
    let version = off_load::VERSION;
    Ok(OffloadReport { schema, version, platform: &platform.id, load, policies, sentences })
}

/// The best policy against no off-load, by the calls per second.
fn sentence(platform: &str, load: &OffLoadWorkload, policies: &[OfPolicy]) -> String {
    let rate = |it: &OfPolicy| it.outcome.calls_per_second;
    let none = policies.iter().find(|it| it.policy.is_none()).map_or(f64::NAN, rate);
    let tried = policies.iter().filter(|it| it.policy.is_some());
    let best = tried.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let Some(best) = best else { return "No policy was simulated.".to_owned() };
    let gain = 100.0 * (rate(best) / none - 1.0);
    let (name, more) = (name(best), if gain < 0.0 { "fewer" } else { "more" });
    format!(
        "On {platform}, simulated, off-load by {} with the policy `{name}` makes {:.1} % {more} calls per second than \
         without off-load ({:.0} and {none:.0}).",
        load.mechanism,
        gain.abs(),
        rate(best)
    )
}

fn name(of: &OfPolicy) -> &str {
    match of.policy.as_deref() {
        None => "no off-load",
        Some("") => "in turns",
        Some(words) => words,
    }
}

impl OffloadReport<'_> {
    /// The main sentence.
    fn sentence(&self) -> &str {
        self.sentences.first().map_or("", String::as_str)
    }
}

/// The evidence of the answer for a terminal.
fn text(answer: &OffloadReport<'_>) -> String {
    let OffLoadWorkload { threads, compute, call, os_cores, mechanism, .. } = answer.load;
    let title = format!(
        "{}, simulated: {threads} threads that compute {compute} and call {call}, OS cores {os_cores}, {mechanism}",
        answer.platform
    );
    let columns = [
        "policy",
        "calls/s",
        "call mean us",
        "call p99 us",
        "off-loaded %",
        "application cores quiet %",
        "energy uJ a call",
    ];
    let mut table = FigureTable::new(&title, &columns);
    table.rows = answer.policies.iter().map(row).collect();
    let unknown = answer.policies.iter().any(|it| it.outcome.microjoules.is_none());
    let why = if unknown {
        "Energy is unknown: the platform file lacks `active_power`, `polling_power` or `quiesced_power` of a core.\n"
    } else {
        ""
    };
    format!("{}{why}", plain(&table))
}

fn row(of: &OfPolicy) -> Vec<String> {
    let it = &of.outcome;
    vec![
        name(of).to_owned(),
        format!("{:.0}", it.calls_per_second),
        format!("{:.2}", it.mean_us),
        format!("{:.2}", it.p99_us),
        format!("{:.1}", 100.0 * it.there),
        format!("{:.1}", 100.0 * it.quiet),
        it.microjoules.map_or_else(|| "unknown".to_owned(), |joules| format!("{joules:.2}")),
    ]
}
