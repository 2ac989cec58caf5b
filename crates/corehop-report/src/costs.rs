// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fitted models and their predictions, as text.

use std::collections::BTreeSet;

use super::figure::FigureTable;
use super::label::size;
use super::table::{interval, micros, plain};
use corehop_plan::units::Bytes;
use corehop_stats::cpmd::{
    DelayModel, DelaySeries, FEWEST_FOR_INTERVAL, FittedSeries, HoldoutErrors, Method, Prediction,
    SeriesKey, Statistic, ValueOrigin,
};
use corehop_stats::delay::ALPHA;
use corehop_stats::replicates::bounds_quantile;

/// Returns the series of a model: the measurements, and the errors of each method on points to
/// which it was not fitted.
pub fn fitted(model: &DelayModel) -> String {
    let columns =
        ["series", "sizes", "lengths", "n", "fitted", "survivors", "worst case", "answers"];
    let mut table = FigureTable::new(
        "Error on unseen points: median and 90th percentile (number of points), as shares of the mean cost",
        &columns,
    );
    let keys: Vec<&SeriesKey> = model.curves.iter().map(|curve| &curve.series.key).collect();
    let names = names(&keys);
    table.rows =
        names.into_iter().zip(&model.curves).map(|(name, curve)| row(name, curve)).collect();
    plain(&table)
}

fn row(name: String, curve: &FittedSeries) -> Vec<String> {
    let error = |method| {
        let errors = curve.errors.iter().find(|errors| errors.method == method);
        errors.map_or_else(|| "–".to_owned(), shares)
    };
    let samples: usize = curve.series.points.iter().map(|point| point.n).sum();
    vec![
        name,
        sizes(&curve.series),
        lengths(&curve.series),
        samples.to_string(),
        error(Method::Fitted),
        error(Method::Survivors),
        error(Method::WorstCase),
        curve.method.to_string(),
    ]
}

/// Returns the errors of a method as text, such as `4 %, 12 % (5)`.
fn shares(errors: &HoldoutErrors) -> String {
    let percent = |share: f64| {
        if share < 9.995 { format!("{:.0} %", 100.0 * share) } else { format!("{share:.0} ×") }
    };
    format!("{}, {} ({})", percent(errors.median), percent(errors.p90), errors.points)
}

fn sizes(series: &DelaySeries) -> String {
    let sizes = series.sizes();
    let text = |at: Option<&u64>| at.map_or_else(String::new, |&it| size(Bytes::new(it)));
    match sizes.len() {
        1 => text(sizes.first()),
        n => format!("{}..{} ({n})", text(sizes.first()), text(sizes.last())),
    }
}

fn lengths(series: &DelaySeries) -> String {
    let least = series.points.iter().map(|point| point.least_length_us).fold(f64::MAX, f64::min);
    let most = series.points.iter().map(|point| point.most_length_us).fold(0.0, f64::max);
    match (least, most) {
        (_, most) if most <= 0.0 => "–".to_owned(),
        (least, most) if most < 1.2 * least => time(f64::midpoint(least, most)),
        (least, most) => format!("{}..{}", time(least), time(most)),
    }
}

fn time(us: f64) -> String {
    if us < 1e3 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1e3) }
}

/// Returns a name for each series: the event, the load, and the fields that distinguish it from the
/// others.
fn names(keys: &[&SeriesKey]) -> Vec<String> {
    let all: Vec<Vec<(String, String)>> = keys.iter().map(|key| key.fields()).collect();
    let telling: BTreeSet<&str> = all
        .iter()
        .flatten()
        .filter(|(name, value)| {
            all.iter().flatten().any(|(other, its)| other == name && its != value)
        })
        .map(|(name, _)| name.as_str())
        .collect();
    let name = |fields: &Vec<(String, String)>| {
        let of = |wanted: &str| {
            fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
        };
        let mut words: Vec<String> = of("event").into_iter().chain(of("load")).collect();
        let more = fields.iter().filter(|(name, value)| {
            let shown = ["event", "load"].contains(&name.as_str()) || value == "none";
            telling.contains(name.as_str()) && !shown
        });
        words.extend(more.map(|(name, value)| {
            if name == "polluter" { format!("({value})") } else { value.clone() }
        }));
        words.join(" ")
    };
    all.iter().map(name).collect()
}

/// The reason why a computed cost has no interval, as a clause.
const NO_INTERVAL: &str = "no interval: computed from the platform";

/// Returns the interval of a prediction, or `None` for a computed prediction without ends.
fn range(it: &Prediction) -> Option<String> {
    let (low, high) = (it.cost.low_us, it.cost.high_us);
    let none = it.method != Method::Fitted && low.is_none() && high.is_none();
    (!none).then(|| interval(low, high))
}

/// Returns the predicted costs for the first three sizes, as a sentence.
pub fn predicted_in_words(answers: &[Prediction]) -> String {
    let Some(first) = answers.first() else { return "No size was given.".to_owned() };
    let one = |it: &Prediction| {
        let cost = micros(it.cost.estimate_us);
        let range = match range(it) {
            Some(range) => range,
            None => format!("({NO_INTERVAL})"),
        };
        format!("{cost} us {range} at {}", size(Bytes::new(it.wss_bytes)))
    };
    let shown: Vec<String> = answers.iter().take(3).map(one).collect();
    let more = answers.len() - shown.len();
    let more = if more == 0 { String::new() } else { format!(", and {more} sizes more") };
    let series = &first.series;
    format!(
        "The {} cost of {} under {} on {} is {}{more}.",
        first.statistic,
        series.event,
        series.load,
        series.machine,
        shown.join(", ")
    )
}

/// Returns the predictions of one series, as a table.
pub fn predicted(answers: &[Prediction]) -> String {
    let Some(first) = answers.first() else { return String::new() };
    let length = first.length_us.map_or_else(|| "the longest measured".to_owned(), time);
    let caption = format!(
        "{} under {} on {}, {} cost in us after {length}",
        first.series.event, first.series.load, first.series.machine, first.statistic
    );
    let mut table = FigureTable::new(caption, &["WSS", "cost", "interval", "by", "because"]);
    table.rows = answers.iter().map(answer).collect();
    let trust = match &first.errors {
        None => "No unseen points were available to test the model.\n".to_owned(),
        Some(errors) => format!(
            "On {} unseen points, the error of `{}` was {:.0} % in the median and at most {:.0} % in nine of ten; {}.\n",
            errors.points,
            errors.method,
            100.0 * errors.median,
            100.0 * errors.p90,
            held(errors)
        ),
    };
    plain(&table) + &trust
}

/// Returns a clause with the number of points inside the interval, or the reason why there is no
/// interval.
fn held(errors: &HoldoutErrors) -> String {
    match errors.inside {
        Some(inside) if errors.method == Method::Fitted => {
            format!("{inside} of these points were inside the interval of the prediction")
        }
        Some(inside) => {
            format!(
                "{inside} of these points were inside the interval that the errors on the other points give"
            )
        }
        None => format!(
            "the method has no interval, because it uses no samples; with {FEWEST_FOR_INTERVAL} or more points its errors give an interval"
        ),
    }
}

fn answer(it: &Prediction) -> Vec<String> {
    vec![
        size(Bytes::new(it.wss_bytes)),
        micros(it.cost.estimate_us),
        range(it).unwrap_or_else(|| "none".to_owned()),
        it.method.to_string(),
        because(it),
    ]
}

fn because(it: &Prediction) -> String {
    let place = match it.place {
        None if range(it).is_none() => NO_INTERVAL.to_owned(),
        None => "computed from the platform, with its errors on measured points".to_owned(),
        Some(ValueOrigin::Measured) => "measured there".to_owned(),
        Some(ValueOrigin::Between { below_bytes, above_bytes }) => {
            format!(
                "between {} and {}",
                size(Bytes::new(below_bytes)),
                size(Bytes::new(above_bytes))
            )
        }
        Some(ValueOrigin::BelowAll { smallest_bytes }) => {
            format!("below {}, the smallest measured", size(Bytes::new(smallest_bytes)))
        }
    };
    let n = it.n.map(|n| format!(", n = {n}")).unwrap_or_default();
    let of = it.replicates.map(|of| format!(" in {of} replicates")).unwrap_or_default();
    let pooled = it.curve.map(|its| {
        let ends = interval(its.low_us, its.high_us);
        format!(" (the curve through all sizes: {} {ends})", micros(its.estimate_us))
    });
    let class = it.series.pair_class.as_ref().filter(|_| it.classes > 1);
    let class = class.map(|class| {
        format!(", beside a {class} neighbour, the most expensive of {} classes", it.classes)
    });
    let nearest = it.nearest_length_us.map(|us| format!(", nearest length measured {}", time(us)));
    let parts: String = [class, nearest, exceeded(it)].into_iter().flatten().collect();
    format!("{place}{}{n}{of}{parts}", pooled.unwrap_or_default())
}

/// Returns a clause about the share of replicates that can have a larger maximum, if the prediction
/// is a maximum.
fn exceeded(it: &Prediction) -> Option<String> {
    let replicates = it.replicates.filter(|_| it.statistic == Statistic::Max)?;
    let most = 100.0 * (1.0 - bounds_quantile(replicates, 1.0 - ALPHA));
    Some(format!(", with 95 % confidence at most {most:.0} % of all replicates have a larger cost"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::workload::Event;
    use corehop_stats::cpmd::CostEstimate;

    fn estimate(estimate_us: f64) -> CostEstimate {
        CostEstimate { estimate_us, low_us: Some(estimate_us - 1.0), high_us: None }
    }

    fn prediction(statistic: Statistic) -> Prediction {
        Prediction {
            series: SeriesKey::usual(Event::Preemption, "idle"),
            wss_bytes: 64 << 10,
            length_us: None,
            statistic,
            cost: estimate(5.0),
            curve: None,
            method: Method::Fitted,
            place: Some(ValueOrigin::Measured),
            n: None,
            replicates: None,
            classes: 1,
            nearest_length_us: None,
            errors: None,
        }
    }

    #[test]
    fn a_time_is_in_microseconds_below_a_millisecond() {
        assert_eq!([999.4, 1_000.0, 12_340.0].map(time), ["999 us", "1.0 ms", "12.3 ms"]);
    }

    #[test]
    fn an_error_is_a_percentage_until_it_is_ten_times_the_cost() {
        let told = |median, p90| {
            let (inside, reach) = (Some(4), None);
            let method = Method::Fitted;
            shares(&HoldoutErrors { method, points: 5, median, p90, inside, reach })
        };
        assert_eq!(told(0.04, 0.123), "4 %, 12 % (5)");
        assert_eq!(told(9.994, 10.0), "999 %, 10 × (5)");
    }

    #[test]
    fn series_are_named_by_what_tells_them_apart() {
        let plain = SeriesKey::usual(Event::Preemption, "idle");
        let polluted = SeriesKey { polluter: Some("4 MiB".to_owned()), ..plain.clone() };
        let moved = SeriesKey::usual(Event::L3Migration, "idle");
        let named = |keys: &[&SeriesKey]| names(keys);
        assert_eq!(named(&[&plain]), ["preemption idle"]);
        assert_eq!(
            named(&[&plain, &polluted, &moved]),
            ["preemption idle", "preemption idle (4 MiB)", "l3_migration idle"]
        );
    }

    #[test]
    fn an_answer_says_where_on_the_curve_it_lies_and_what_it_rests_on() {
        let of = |change: &dyn Fn(&mut Prediction)| {
            let mut it = prediction(Statistic::Median);
            change(&mut it);
            because(&it)
        };
        assert_eq!(of(&|_| {}), "measured there");
        let computed = |it: &mut Prediction| (it.place, it.method) = (None, Method::Survivors);
        let whole = "computed from the platform, with its errors on measured points";
        assert_eq!(of(&computed), whole);
        assert_eq!(
            of(&|it| it.place = Some(ValueOrigin::BelowAll { smallest_bytes: 4 << 10 })),
            "below 4 KiB, the smallest measured"
        );
        let whole = of(&|said| {
            said.place = Some(ValueOrigin::Between { below_bytes: 4 << 10, above_bytes: 64 << 10 });
            (said.n, said.replicates, said.curve) = (Some(60), Some(20), Some(estimate(4.0)));
            (said.classes, said.nearest_length_us) = (2, Some(2_000.0));
            said.series.pair_class = Some(Event::L3Migration);
        });
        assert_eq!(
            whole,
            "between 4 KiB and 64 KiB (the curve through all sizes: 4.00 [3.00, …]), n = 60 in 20 replicates, beside a \
             l3_migration neighbour, the most expensive of 2 classes, nearest length measured 2.0 ms"
        );
        // One class is the only one there is.
        assert_eq!(of(&|it| it.series.pair_class = Some(Event::L3Migration)), "measured there");
    }

    #[test]
    fn a_computed_cost_without_an_interval_says_so_in_the_sentence_and_in_the_table() {
        let mut it = prediction(Statistic::Mean);
        (it.place, it.method) = (None, Method::WorstCase);
        it.cost = CostEstimate { estimate_us: 5210.785, low_us: None, high_us: None };
        let (method, median, p90) = (Method::WorstCase, 0.2, 0.4);
        it.errors =
            Some(HoldoutErrors { method, points: 4, median, p90, inside: None, reach: None });
        let sentence = predicted_in_words(std::slice::from_ref(&it));
        assert!(sentence.contains(&format!("us ({NO_INTERVAL}) at 64 KiB")), "{sentence}");
        let page = predicted(std::slice::from_ref(&it));
        assert!(page.contains("none") && page.contains(NO_INTERVAL), "{page}");
        assert!(!page.contains('[') && page.contains("with 10 or more points"), "{page}");
        // Its errors may give it one, and then of those too many tell.
        it.cost.low_us = Some(4000.0);
        it.errors.as_mut().unwrap().inside = Some(11);
        let page = predicted(std::slice::from_ref(&it));
        assert!(page.contains("[4000, …]"), "{page}");
        assert!(
            page.contains("11 of these points were inside the interval that the errors"),
            "{page}"
        );
        // Samples that carry no end are something else.
        (it.method, it.cost.low_us) = (Method::Fitted, None);
        assert!(predicted(std::slice::from_ref(&it)).contains("[…, …]"));
    }

    #[test]
    fn only_a_maximum_of_known_replicates_may_be_exceeded() {
        let mut it = prediction(Statistic::Max);
        assert_eq!(exceeded(&it), None);
        it.replicates = Some(20);
        // 0.05^(1/20) = 0.861.
        assert_eq!(
            exceeded(&it).unwrap(),
            ", with 95 % confidence at most 14 % of all replicates have a larger cost"
        );
        it.statistic = Statistic::P99;
        assert_eq!(exceeded(&it), None);
    }

    #[test]
    fn a_sentence_names_three_sizes_and_counts_the_rest() {
        assert_eq!(predicted_in_words(&[]), "No size was given.");
        let one = prediction(Statistic::Median);
        let cost = "5.00 us [4.00, …] at 64 KiB";
        assert_eq!(
            predicted_in_words(&vec![one.clone(); 3]),
            format!("The median cost of preemption under idle on given is {cost}, {cost}, {cost}.")
        );
        assert_eq!(
            predicted_in_words(&vec![one; 5]),
            format!(
                "The median cost of preemption under idle on given is {cost}, {cost}, {cost}, and 2 sizes more."
            )
        );
    }
}
