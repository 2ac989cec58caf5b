// SPDX-License-Identifier: MIT OR Apache-2.0
//! Corehop writes the costs and losses of a program as OpenMetrics text, for the textfile collector of a
//! node exporter.
//!
//! Times are in seconds, because the conventions of OpenMetrics ask for seconds. A metric whose value is
//! unknown has no line.

use std::fmt::Write as _;

use corehop_decide::placer::log::PlacementFindings;
use corehop_decide::placer::trial::{TrialOutcome, TrialVerdict};
use corehop_decide::run_cost::{ClassCost, RunCost};
use corehop_plan::samples::Recording;
use corehop_stats::program_costs::{EventCost, ProgramCost, ProgramCostResults};

/// A family of metrics has a name after the prefix `corehop_`, a type, a help text, and values with their
/// labels.
struct MetricFamily {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    values: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Writes the costs of events that corehop caused in a program as metrics.
pub fn of_costs(costs: &ProgramCostResults) -> String {
    let label = |it: &ProgramCost| {
        let length = it.length_us.map(|us| ("length_seconds", format!("{:e}", us * 1e-6)));
        let event = ("event", it.event.word().to_owned());
        let preemptor = it.polluter.clone().map(|it| ("preemptor", it));
        let program = ("program", costs.program.clone());
        [program, event].into_iter().chain(length).chain(preemptor).collect()
    };
    let ends = |of: fn(&EventCost) -> Option<f64>| {
        let value = |it: &ProgramCost| Some((label(it), of(&it.cost?)? * 1e-6));
        costs.costs.iter().filter_map(value).collect()
    };
    let gauge = |name, help, values| MetricFamily { name, kind: "gauge", help, values };
    let program = vec![("program", costs.program.clone())];
    let slowdown = costs.slowdown_percent.map(|percent| (program, percent / 100.0));
    text(&[
        gauge(
            "event_cost_seconds",
            "CPU time that an event costs the program.",
            ends(|it| Some(it.us)),
        ),
        gauge(
            "event_cost_low_seconds",
            "Lower end of the 95 % interval of the CPU time that an event costs the program.",
            ends(|it| it.interval.map(|it| it.low)),
        ),
        gauge(
            "event_cost_high_seconds",
            "Upper end of the 95 % interval of the CPU time that an event costs the program.",
            ends(|it| it.interval.map(|it| it.high)),
        ),
        gauge(
            "measurement_slowdown_ratio",
            "Slowdown of the program that the measurement caused.",
            slowdown.into_iter().collect(),
        ),
    ])
}

/// Writes the CPU time of a recorded run, the time for which its threads waited, its events, and the CPU
/// time lost to the events.
pub fn of_run(recording: &Recording, cost: &RunCost) -> String {
    let program = || ("program", recording.facts.what.clone());
    let alone = |ns: Option<u64>| {
        ns.map(|ns| (vec![program()], ns as f64 * 1e-9)).into_iter().collect::<Vec<_>>()
    };
    let by_event = |of: fn(&ClassCost) -> Option<f64>| {
        let value = |it: &ClassCost| {
            Some((vec![program(), ("event", it.event.word().to_owned())], of(it)?))
        };
        cost.classes.iter().filter_map(value).collect::<Vec<_>>()
    };
    let counter = |name, help, values| MetricFamily { name, kind: "counter", help, values };
    text(&[
        counter(
            "run_cpu_seconds_total",
            "CPU time that the threads used.",
            alone(cost.waits.cpu_ns),
        ),
        counter(
            "run_waited_seconds_total",
            "Time that runnable threads waited for a CPU.",
            alone(cost.waits.waited_ns),
        ),
        counter(
            "run_events_total",
            "Number of preemptions and migrations.",
            by_event(|it| Some(it.count as f64)),
        ),
        counter(
            "run_lost_seconds_total",
            "Expected CPU time that preemptions and migrations cost.",
            by_event(|it| Some(it.cost?.us? * 1e-6)),
        ),
        counter(
            "run_lost_low_seconds_total",
            "Lower bound of the CPU time that preemptions and migrations cost.",
            by_event(|it| Some(it.cost?.low_us * 1e-6)),
        ),
        counter(
            "run_lost_high_seconds_total",
            "Upper bound of the CPU time that preemptions and migrations cost.",
            by_event(|it| Some(it.cost?.high_us? * 1e-6)),
        ),
    ])
}

/// Writes the number of windows that a placer observed, its trials by verdict, and the placement that it
/// kept.
pub fn of_placement(of: &PlacementFindings) -> String {
    let program = || ("program", of.targets.join(", "));
    let one = |value: f64| vec![(vec![program()], value)];
    let counter = |name, help, values| MetricFamily { name, kind: "counter", help, values };
    let gauge = |name, help, values| MetricFamily { name, kind: "gauge", help, values };
    let verdicts = ["better", "worse", "same", "invalid"].into_iter().map(|verdict| {
        let times = of.trials.iter().filter(|it| word(&it.verdict) == verdict).count();
        (vec![program(), ("verdict", verdict.to_owned())], times as f64)
    });
    let last = of.trials.iter().rev().find_map(|it| outcome(&it.verdict));
    let ratio = |end: fn(&TrialOutcome) -> f64| last.map_or_else(Vec::new, |it| one(end(it)));
    let kept = of.trials.last().is_some_and(|it| it.kept);
    text(&[
        counter(
            "place_windows_total",
            "Windows in which corehop observed the program.",
            one(of.windows as f64),
        ),
        counter(
            "place_proposals_total",
            "Placements that corehop proposed.",
            one(of.proposals.len() as f64),
        ),
        counter("place_trials_total", "Trials of placements, by verdict.", verdicts.collect()),
        gauge(
            "place_kept",
            "Whether corehop keeps the last placement that it tried.",
            one(f64::from(u8::from(kept))),
        ),
        gauge(
            "place_progress_ratio",
            "Progress with the last placement divided by progress without the placement.",
            ratio(|it| it.ratio),
        ),
        gauge(
            "place_progress_low_ratio",
            "Lower end of the 95 % interval of the progress ratio.",
            ratio(|it| it.low),
        ),
        gauge(
            "place_progress_high_ratio",
            "Upper end of the 95 % interval of the progress ratio.",
            ratio(|it| it.high),
        ),
    ])
}

/// Returns the verdict of a trial as the value of a label.
const fn word(verdict: &TrialVerdict) -> &'static str {
    match verdict {
        TrialVerdict::Better(_) => "better",
        TrialVerdict::Worse(_) => "worse",
        TrialVerdict::Same(_) => "same",
        TrialVerdict::Invalid { .. } => "invalid",
    }
}

/// Returns the measured outcome of a trial, or `None` if the trial ended without a verdict.
const fn outcome(verdict: &TrialVerdict) -> Option<&TrialOutcome> {
    match verdict {
        TrialVerdict::Better(it) | TrialVerdict::Worse(it) | TrialVerdict::Same(it) => Some(it),
        TrialVerdict::Invalid { .. } => None,
    }
}

/// Writes the families that have values, and the end mark of OpenMetrics.
fn text(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for it in families.iter().filter(|it| !it.values.is_empty()) {
        // The type of a counter is named without the end of its name.
        let family = it.name.strip_suffix("_total").unwrap_or(it.name);
        let _ = writeln!(
            text,
            "# HELP corehop_{family} {}\n# TYPE corehop_{family} {}",
            it.help, it.kind
        );
        for (labels, value) in &it.values {
            let _ = writeln!(text, "corehop_{}{{{}}} {value:e}", it.name, labelled(labels));
        }
    }
    text + "# EOF\n"
}

/// Writes labels as `program="xz",event="preemption"`, and escapes the characters that OpenMetrics
/// reserves.
fn labelled(labels: &[(&str, String)]) -> String {
    let escaped = |it: &str| it.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let one = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
    labels.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_help_its_type_and_its_values_and_names_are_escaped() {
        let labels =
            vec![("program", "a \"b\"\\\n".to_owned()), ("event", "preemption".to_owned())];
        let family = |values| MetricFamily {
            name: "x_seconds_total",
            kind: "counter",
            help: "Time.",
            values,
        };
        let expected = "# HELP corehop_x_seconds Time.\n# TYPE corehop_x_seconds counter\n\
            corehop_x_seconds_total{program=\"a \\\"b\\\"\\\\\\n\",event=\"preemption\"} 2.5e-5\n# EOF\n";
        assert_eq!(text(&[family(vec![(labels, 25e-6)])]), expected);
        assert_eq!(text(&[family(Vec::new())]), "# EOF\n");
        let nothing = of_costs(&ProgramCostResults::default());
        assert_eq!(nothing, "# EOF\n");
    }

    #[test]
    fn no_two_preemptors_share_a_series() {
        let by = |polluter: &str| ProgramCost {
            event: corehop_plan::workload::Event::Preemption,
            length_us: Some(1_000.0),
            polluter: Some(polluter.to_owned()),
            rounds: 40,
            invalid: <_>::default(),
            events: 9,
            tried: 9,
            cost: Some(EventCost { us: 3.0, interval: None }),
            by_dose: Vec::new(),
            bend: None,
            floor: None,
            effect_percent: None,
            exchange_ns: None,
        };
        let costs = vec![by("64 KiB"), by("2 MiB")];
        let text = of_costs(&ProgramCostResults { costs, ..ProgramCostResults::default() });
        let series = text.lines().filter_map(|line| line.split_once('}')).map(|(series, _)| series);
        let mut all: Vec<&str> = series.collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert!(count >= 2 && all.len() == count, "{text}");
    }

    #[test]
    fn a_placement_has_its_trials_by_verdict_and_the_progress_of_the_last() {
        let outcome = corehop_decide::example::OUTCOME;
        let of = corehop_decide::example::placed(&[(7, "0")], TrialVerdict::Better(outcome), true);
        let text = of_placement(&of);
        for line in [
            "place_trials_total{",
            "verdict=\"better\"} 1e0",
            "verdict=\"worse\"} 0e0",
            "place_kept{",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.contains(&format!("}} {:e}\n", outcome.ratio)), "{text}");
        let mut none = of;
        none.trials.clear();
        let text = of_placement(&none);
        assert!(!text.contains("progress_ratio"), "what is unknown has no line: {text}");
    }
}
