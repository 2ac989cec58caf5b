// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of wake-ups in words: the cost itself, its causes, and the setting that is expected to
//! reduce it.

use corehop_decide::wake_cost::{WakeCost, WakeEstimate, WakeUpBreakdown};
use corehop_plan::host::wakes::Setting;

/// Returns a clause about the cost of wake-ups.
pub fn costs(cost: &WakeCost) -> String {
    let Some(same) = cost.same_cpu else {
        let why = cost.trouble.as_deref().unwrap_or("too few wake-ups were measured");
        return format!("what a wake-up costs is unknown ({why})");
    };
    let mut parts = vec![format!("{} on one CPU", interval(same))];
    if cost.cpus.is_some() {
        parts.push(on_an_idle_one(cost));
        parts.extend(
            cost.busy.map(|it| format!("{} on another CPU that others used", interval(it))),
        );
        parts.push(cost.awake.map_or_else(
            || "unknown on another CPU that is kept awake".to_owned(),
            |it| format!("{} on another CPU that an idle-class thread kept awake", interval(it)),
        ));
    }
    format!("a wake-up costs {}", parts.join(", "))
}

fn on_an_idle_one(cost: &WakeCost) -> String {
    match cost.idle {
        Some(it) if cost.idle_is_counted => {
            format!("{} on another CPU that was idle", interval(it))
        }
        Some(it) => format!(
            "{} on another CPU (this host does not count whether it was idle)",
            interval(it)
        ),
        None => "unknown on another CPU that is idle, because others used the CPUs".to_owned(),
    }
}

/// Returns a cost with its interval and the number of batches, such as `17.1 µs [16.9, 17.3; n 44]`.
fn interval(it: WakeEstimate) -> String {
    let WakeEstimate { ns, low, high, batches } = it;
    format!("{} µs [{}, {}; n {batches}]", us(ns), us(low), us(high))
}

fn us(ns: f64) -> String {
    let decimals = usize::from(ns < 99_950.0) + usize::from(ns < 995.0);
    format!("{:.decimals$}", ns / 1e3)
}

/// Returns sentences about the causes of the cost of wake-ups.
pub fn reasons(cost: &WakeCost) -> String {
    let mut sentences = Vec::new();
    if let (Some(WakeUpBreakdown { switch, interrupt, idle }), Some(whole)) =
        (cost.parts(), cost.idle)
    {
        sentences.push(format!(
            "Of {} µs the switch to the woken thread takes {}, the interrupt to the other CPU {}, and the end of its idle state {}.",
            us(whole.ns),
            us(switch),
            us(interrupt),
            us(idle)
        ));
    }
    if cost.polls() {
        sentences.push("An idle CPU is woken without an interrupt.".to_owned());
    }
    let waits = cost.wait.as_ref().map(|it| format!("{}.", capital(&it.how)));
    sentences.push(
        waits.unwrap_or_else(|| "This host does not report how an idle CPU waits.".to_owned()),
    );
    sentences
        .extend(cost.line_ns.map(|it| format!("A cache line takes {it:.0} ns between the CPUs.")));
    sentences.extend(cost.crossed.map(|share| {
        format!(
            "Left to the kernel's balancing, {:.0} % of the wake-ups went to another CPU.",
            100.0 * share
        )
    }));
    sentences.join(" ")
}

/// Gives `text` a capital first letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |it| it.to_uppercase().chain(letters).collect())
}

/// Returns a sentence about the setting that is expected to make wake-ups cheaper, with the expected
/// effect, or `None` if no setting is.
pub fn cure(cost: &WakeCost) -> Option<String> {
    let expected = cost.expected?;
    let Setting { name, .. } = setting(cost)?;
    Some(format!(
        "One setting first, for all programs: {name} is expected to make a wake-up of an idle CPU {:.1} to {:.1} times cheaper \
         ({} to {} µs); not tried, because corehop changes no setting.",
        expected.least_gain,
        expected.most_gain,
        us(expected.least_ns),
        us(expected.most_ns)
    ))
}

fn setting(cost: &WakeCost) -> Option<&Setting> {
    cost.wait.as_ref()?.setting.as_ref()
}

/// Returns the command that makes the setting, and a remark on it, or `None` if no setting is expected
/// to make wake-ups cheaper.
pub fn remedy(cost: &WakeCost) -> Option<(Option<String>, String)> {
    let Setting { command, price, .. } = cost.expected.and_then(|_| setting(cost))?;
    Some((command.clone(), price.clone()))
}

/// Returns a sentence about the settings and wake-ups that corehop did not try on this host.
pub fn not_tried(cost: &WakeCost) -> String {
    let mut all = Vec::new();
    if let Some(Setting { name, .. }) = setting(cost).filter(|_| cost.expected.is_none()) {
        let gain = if cost.idle.is_some() && cost.same_cpu.is_some() {
            "no gain is expected"
        } else {
            "the gain is unknown"
        };
        all.push(format!("{name} ({gain}; corehop changes no setting)"));
    }
    let missing = [
        (cost.cpus.is_some() && cost.idle.is_none(), "a wake-up of an idle CPU"),
        (cost.cpus.is_some() && cost.awake.is_none(), "a wake-up of a CPU that is kept awake"),
        (cost.cpus.is_none(), "a wake-up on another CPU (only one is usable)"),
    ];
    all.extend(missing.into_iter().filter(|it| it.0).map(|it| it.1.to_owned()));
    if all.is_empty() { String::new() } else { format!("Not tried: {}.", all.join("; ")) }
}

/// Returns lines for a placer about the costs of wake-ups, their causes, and the setting to make before
/// any placement.
pub fn lines(cost: &WakeCost) -> String {
    let mut lines = vec![format!("{}.", capital(&costs(cost))), reasons(cost)];
    if let Some((command, price)) = remedy(cost) {
        let with_its_name = |it| ["The command that makes the setting:".to_owned(), it];
        lines.extend(command.into_iter().flat_map(with_its_name));
        lines.push(price);
    }
    lines.extend(Some(not_tried(cost)).filter(|it| !it.is_empty()));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::cure as cure_of;
    use super::*;
    use corehop_decide::example::{halts, seen};
    use corehop_plan::host::wakes::WakeBatches;

    fn guest() -> WakeCost {
        WakeCost::of(&seen([2_000.0, 17_000.0, 11_000.0]), Some(halts()))
    }

    #[test]
    fn the_cure_names_the_setting_its_gain_as_an_interval_and_that_it_was_not_tried() {
        let cure = cure_of(&guest()).unwrap();
        let words =
            ["guest_halt_poll_ns = 200000", "for all programs", "1.5 to 7.8 times", "not tried"];
        assert!(words.iter().all(|it| cure.contains(it)), "{cure}");
        let (command, price) = remedy(&guest()).unwrap();
        assert!(command.unwrap().contains("tee /sys/x") && price.contains("200 us"));
        // The sentence above has said so.
        assert_eq!(not_tried(&guest()), "");
        let polls = WakeCost::of(&seen([2_000.0, 2_300.0, 9_000.0]), Some(halts()));
        assert!(reasons(&polls).starts_with("An idle CPU is woken without an interrupt. "));
        assert!(cure_of(&polls).is_none() && not_tried(&polls).contains("no gain is expected"));
    }

    #[test]
    fn the_costs_have_their_intervals_and_the_causes_their_shares() {
        let said = costs(&guest());
        assert!(said.contains("17.1 µs [17.0, 17.1; n 20] on another CPU that was idle"), "{said}");
        let why = reasons(&guest());
        let words = [
            "the interrupt to the other CPU 9.0",
            "its idle state 6.0",
            "An idle CPU halts at once",
            "200 ns",
        ];
        assert!(words.iter().all(|it| why.contains(it)), "{why}");
    }

    #[test]
    fn what_could_not_be_seen_is_unknown_and_named_and_no_setting_is_promised() {
        let nothing =
            WakeBatches { trouble: Some("no thread".to_owned()), ..WakeBatches::default() };
        let cost = WakeCost::of(&nothing, None);
        assert!(costs(&cost).contains("unknown (no thread)"), "{}", costs(&cost));
        assert!(reasons(&cost).contains("does not report how an idle CPU waits"));
        assert_eq!((cure_of(&cost), remedy(&cost)), (None, None));
        let mut busy = seen([2_000.0, 17_000.0, 11_000.0]);
        busy.batches.iter_mut().for_each(|it| it.idle = Some(false));
        let cost = WakeCost::of(&busy, Some(halts()));
        assert!(costs(&cost).contains("unknown on another CPU that is idle"), "{}", costs(&cost));
        let rest = not_tried(&cost);
        let words =
            ["guest_halt_poll_ns = 200000 (the gain is unknown", "a wake-up of an idle CPU"];
        assert!(words.iter().all(|it| rest.contains(it)), "{rest}");
        assert_eq!(cure_of(&cost), None);
    }

    #[test]
    fn a_time_has_three_digits_and_an_uncounted_idle_cpu_a_remark() {
        assert_eq!([994.0, 995.0, 99_949.0, 99_950.0].map(us), ["0.99", "1.0", "99.9", "100"]);
        let mut cost = guest();
        cost.idle_is_counted = false;
        let said = costs(&cost);
        assert!(
            said.contains("on another CPU (this host does not count whether it was idle), "),
            "{said}"
        );
        cost.cpus = None;
        assert!(!costs(&cost).contains("another CPU"), "{}", costs(&cost));
        assert_eq!(capital("äpfel"), "Äpfel");
        assert_eq!(capital(""), "");
    }
}
