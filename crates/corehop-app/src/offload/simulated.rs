// SPDX-License-Identifier: MIT OR Apache-2.0
//! Off-load on a simulated machine: compares the policies with each other, and with the threads running without
//! off-load.

use corehop_plan::platform::Platform;
use corehop_plan::units::Nanos;
use corehop_report::figure::FigureTable;
use corehop_report::off_load;
use corehop_report::table::plain;
use corehop_sim::switch::off_load::{
    self as simulation, Flags, OffLoadArm, OffLoadWorkload, OffLoaded, SwitchLatencies,
};
use serde::Serialize;

use crate::answer::Answer;
use crate::failure::{Exit, Failure};

/// The number of calls that a core without off-load makes in the simulated time.
const SIMULATED_CALLS: u64 = 20_000;
/// The longest simulated time: days, which suffice for any part of a loop.
const LONGEST: Nanos = Nanos::new(1_000_000_000_000_000);

/// The policies that differ from each other on some load, with the values of `--policy`.
const POLICIES: [(&str, u32); 7] = [
    ("in turns", 0),
    ("af", 2),
    ("wc", 1),
    ("wc,af", 3),
    ("wc,af,pa", 7),
    ("static", 8),
    ("wc,static", 9),
];

/// The answer for a simulated machine.
#[derive(Debug, Serialize)]
struct OffloadReport<'a> {
    schema: &'static str,
    version: u64,
    platform: &'a str,
    load: &'a OffLoadWorkload,
    policies: Vec<ArmOutcome>,
    /// The mean time of a switch to an OS core and of a switch back, in microseconds, if the target polls.
    switch_us: [f64; 2],
    /// The answer as sentences, the main sentence first.
    sentences: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ArmOutcome {
    /// The name of the arm: `unmodified`, `bound`, or the value of `--policy`.
    arm: String,
    #[serde(skip)]
    off_loads: bool,
    /// An earlier policy that decided every call in the same way.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_as: Option<String>,
    #[serde(flatten)]
    outcome: OffLoaded,
}

/// Returns the simulated time that suffices for loops of this length.
pub fn simulated_time(compute: Nanos, call: Nanos) -> Nanos {
    let together = compute.get().saturating_add(call.get());
    Nanos::new(together.saturating_mul(SIMULATED_CALLS)).min(LONGEST)
}

/// Runs a load without off-load, and with one policy or with each policy, and returns the answer.
///
/// # Errors
/// Fails with exit code 1 if the mechanism's cost is unknown on the platform, and with the errors of the simulation.
pub fn simulate(
    platform: &Platform,
    load: &OffLoadWorkload,
    policy: Option<(String, u32)>,
) -> Result<Answer, Failure> {
    if let Some(why) = simulation::unknown(platform, load.mechanism)? {
        let sentence = format!(
            "the cost of {} on {} is unknown. {why}. Otherwise use v4, which polls, or a mechanism of the kernel of 2009 (--mechanism strong-v5)",
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

/// Runs a load without off-load, and with one policy or with each policy.
fn simulated<'a>(
    platform: &'a Platform,
    load: &'a OffLoadWorkload,
    policy: Option<(String, u32)>,
) -> Result<OffloadReport<'a>, Failure> {
    let switches = SwitchLatencies::simulate(platform, load)?;
    let mut policies: Vec<ArmOutcome> = Vec::new();
    for (arm, of) in arms(policy) {
        let outcome = simulation::off_load(platform, load, &switches, of)?;
        let off_loads = matches!(of, OffLoadArm::Policy(_));
        let twin = tried(&policies).find(|other| off_loads && other.outcome == outcome);
        let same_as = twin.map(|other| other.arm.clone());
        policies.push(ArmOutcome { arm, off_loads, same_as, outcome });
    }
    let switch_us = switches.mean_us(&load.os_cores);
    let sentences = sentences(&platform.id, load, &policies, switch_us);
    let [_, schema] = off_load::SCHEMAS;
    let version = off_load::VERSION;
    Ok(OffloadReport {
        schema,
        version,
        platform: &platform.id,
        load,
        policies,
        switch_us,
        sentences,
    })
}

/// The arms by name: two arms without off-load, and an arm for one policy or for each policy.
fn arms(policy: Option<(String, u32)>) -> Vec<(String, OffLoadArm)> {
    let policies = policy.map_or_else(
        || POLICIES.map(|(words, bits)| (words.to_owned(), bits)).to_vec(),
        |one| vec![one],
    );
    let policies = policies.into_iter().map(|(words, bits)| {
        (words, OffLoadArm::Policy(Flags::from_bits(bits).unwrap_or_default()))
    });
    let without = [("unmodified", OffLoadArm::Unmodified), ("bound", OffLoadArm::Bound)];
    without.map(|(name, arm)| (name.to_owned(), arm)).into_iter().chain(policies).collect()
}

/// The sentences of the answer: calls per second, energy, and the switches there and back.
fn sentences(
    platform: &str,
    load: &OffLoadWorkload,
    arms: &[ArmOutcome],
    switch_us: [f64; 2],
) -> Vec<String> {
    let [there, back] = switch_us;
    let ways = format!(
        "A switch to an OS core takes {there:.2} us, and a switch back takes {back:.2} us."
    );
    [throughput(platform, load, arms), energy(arms), Some(ways)].into_iter().flatten().collect()
}

/// The arms with off-load.
fn tried(arms: &[ArmOutcome]) -> impl Iterator<Item = &ArmOutcome> {
    arms.iter().filter(|it| it.off_loads)
}

/// An arm without off-load.
fn named<'a>(arms: &'a [ArmOutcome], name: &str) -> Option<&'a ArmOutcome> {
    arms.iter().find(|it| !it.off_loads && it.arm == name)
}

/// Compares the calls per second of the best policy with two arms without off-load: all cores, and the application
/// cores alone.
fn throughput(platform: &str, load: &OffLoadWorkload, arms: &[ArmOutcome]) -> Option<String> {
    let rate = |it: &ArmOutcome| it.outcome.calls_per_second;
    // Of those that are alike the first.
    let best = tried(arms).min_by(|a, b| rate(b).total_cmp(&rate(a)))?;
    let [all, fewer] = [rate(named(arms, "unmodified")?), rate(named(arms, "bound")?)];
    Some(format!(
        "On {platform}, simulated, off-load by {} with the policy `{}` makes {:.0} calls per second: {} the same cores without \
         off-load ({all:.0}), and {} the application cores alone ({fewer:.0}).",
        load.mechanism,
        best.arm,
        rate(best),
        against(rate(best), all),
        against(rate(best), fewer)
    ))
}

fn against(rate: f64, other: f64) -> String {
    let gain = 100.0 * (rate / other - 1.0);
    format!("{:.1} % {} than", gain.abs(), if gain < 0.0 { "fewer" } else { "more" })
}

/// Compares the policy with the least energy per call with the arms without off-load; `None` if a power is not known.
fn energy(arms: &[ArmOutcome]) -> Option<String> {
    let of = |it: &ArmOutcome| it.outcome.microjoules;
    let known = tried(arms).filter_map(|it| Some((it, of(it)?)));
    let (least, joules) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let [all, fewer] = [of(named(arms, "unmodified")?)?, of(named(arms, "bound")?)?];
    Some(format!(
        "The policy with the least energy, `{}`, takes {joules:.0} uJ a call; the same cores without off-load take {all:.0} uJ, the \
         application cores alone {fewer:.0} uJ.",
        least.arm
    ))
}

impl OffloadReport<'_> {
    /// The main sentence of the answer.
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
        "arm",
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
    let rest: Vec<String> = answer.sentences.iter().skip(1).cloned().collect();
    let alike = |it: &ArmOutcome| {
        let other = it.same_as.as_deref()?;
        Some(format!(
            "With this load `{}` makes the same decision as `{other}` for every call.",
            it.arm
        ))
    };
    let same: Vec<String> = answer.policies.iter().filter_map(alike).collect();
    let [rest, same] =
        [rest, same].map(|lines| lines.into_iter().map(|it| it + "\n").collect::<String>());
    format!("{rest}{}{same}{why}", plain(&table))
}

fn row(of: &ArmOutcome) -> Vec<String> {
    let it = &of.outcome;
    vec![
        of.arm.clone(),
        format!("{:.0}", it.calls_per_second),
        format!("{:.2}", it.mean_us),
        format!("{:.2}", it.p99_us),
        format!("{:.1}", 100.0 * it.there),
        format!("{:.1}", 100.0 * it.quiet),
        it.microjoules.map_or_else(|| "unknown".to_owned(), |joules| format!("{joules:.2}")),
    ]
}
