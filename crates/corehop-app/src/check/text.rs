// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the verdict of a check as text.

use corehop_plan::units::{Cpu, CpuList};
use corehop_plan::workload::placement::{PlacedPiece, TaskPlacement};
use corehop_sched::charge::ChargedAnswer;
use corehop_sched::{TaskSet, Test, TestAnswer, Tick, Verdict};

use super::asked::{CheckedSet, SetSurvey};
use super::margin;
use crate::layout::{Paint, TerminalLayout};

/// The CPUs of the cluster of a task; `None` if the task has a single CPU.
fn cpus_of(answer: &TestAnswer, task: usize) -> Option<CpuList> {
    match &answer.placement.as_ref()?[task] {
        TaskPlacement::Cpus(cpus) if cpus.len() > 1 => {
            Some(CpuList::new(cpus.iter().map(|&cpu| Cpu(cpu as u32))))
        }
        _ => None,
    }
}

/// The pieces or shares of a split task.
fn in_parts(place: &TaskPlacement, tick: Tick) -> Option<String> {
    let all = |parts: Vec<String>| Some(parts.join(", then "));
    match place {
        TaskPlacement::Cpus(_) => None,
        TaskPlacement::Pieces(pieces) => all(pieces
            .iter()
            .map(|piece| {
                let PlacedPiece { cpu, .. } = piece;
                let (budget, deadline) = (tick.us(piece.budget), tick.us(piece.deadline));
                format!("{budget} us on CPU {cpu} within {deadline} us")
            })
            .collect()),
        TaskPlacement::Shares(shares) => {
            let parts: Vec<String> =
                shares.iter().map(|it| format!("{:.3} of CPU {}", it.share, it.cpu)).collect();
            Some(parts.join(", "))
        }
    }
}

fn word(verdict: Verdict) -> (&'static str, Paint) {
    match verdict {
        Verdict::Schedulable => ("yes", Paint::Green),
        Verdict::Unschedulable => ("no", Paint::Red),
        Verdict::Unknown => ("unknown", Paint::Yellow),
    }
}

/// The first line of a survey.
pub(super) fn survey(of: &SetSurvey) -> String {
    let accepts = |asked: &ChargedAnswer| asked.answer.verdict.is_schedulable();
    let accepted_by = of.answers.iter().filter(|(_, asked)| accepts(asked)).count();
    format!(
        "survey: {accepted_by} of {} tests accept the set; each test is about its own scheduler, and some tests only bound the tardiness",
        of.answers.len()
    )
}

/// Lists the accepting tests, one per line, and then the other tests, one line for each reason.
pub(super) fn every(survey: &SetSurvey, page: TerminalLayout) -> String {
    let answers: Vec<(&Test, &TestAnswer)> =
        survey.answers.iter().map(|(test, asked)| (*test, &asked.answer)).collect();
    let accepts = |answer: &TestAnswer| answer.verdict == Verdict::Schedulable;
    let names = answers.iter().filter(|(_, answer)| accepts(answer));
    let names = names.map(|(test, _)| test.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut others: Vec<(Verdict, &str, Vec<&str>)> = Vec::new();
    for &(test, answer) in &answers {
        if accepts(answer) {
            text.push_str(&accepted(page, test, answer, names));
            continue;
        }
        let why = answer.why.as_deref().unwrap_or(match answer.verdict {
            Verdict::Unschedulable => "a deadline is missed, or tardiness is not bounded",
            _ => "this test is only sufficient (or only necessary), so it cannot decide this set",
        });
        let same = others.iter_mut().find(|it| (it.0, it.1) == (answer.verdict, why));
        match same {
            Some(group) => group.2.push(test.name),
            None => others.push((answer.verdict, why, vec![test.name])),
        }
    }
    if text.is_empty() {
        text.push_str("no test accepts\n");
    }
    others.sort_by_key(|it| it.0 == Verdict::Unknown);
    for (verdict, why, tests) in others {
        let (verdict, paint) = word(verdict);
        let rest = page.wrap(&format!("{why}: {}", tests.join(", ")), 9);
        let verdict = page.paint(&format!("{verdict:<7}"), paint);
        text.extend([verdict.as_str(), "  ", &rest, "\n"]);
    }
    text
}

/// The line of an accepting test; `names` is the width of the longest name.
fn accepted(page: TerminalLayout, test: &Test, answer: &TestAnswer, names: usize) -> String {
    let (verdict, paint) = word(answer.verdict);
    let verdict = page.paint(&format!("{verdict:<7}"), paint);
    let more = answer.accepted_by.map(|by| format!(" (by {by})")).unwrap_or_default();
    let rest = page.wrap(&format!("{}{more}", test.scheduler), names + 11);
    format!("{:<names$}  {verdict}  {rest}\n", test.name)
}

/// The detailed result of one test.
pub(super) fn one(set: &TaskSet, checked: &CheckedSet, page: TerminalLayout) -> String {
    let CheckedSet { limits, margin, .. } = checked;
    let (test, asked) = (checked.answered.test, &checked.answered.asked);
    let ChargedAnswer { answer, delays, .. } = asked;
    let (verdict, paint) = word(answer.verdict);
    let accepted = answer.verdict == Verdict::Schedulable;
    let by = asked.conditions().filter(|_| accepted).unwrap_or_default();
    let mut text = format!("{}: {}{by}\n", test.name, page.paint(verdict, paint));
    let mut say = |head: &str, what: &str| {
        text.extend(["  ", &format!("{head:<12}"), &page.wrap(what, 14), "\n"]);
    };
    say("for", test.scheduler);
    say("asks", test.title);
    say("is", test.kind.meaning());
    say("from", test.citation);
    if let Some(by) = answer.accepted_by {
        say("accepted by", by);
    }
    if let Some(why) = &answer.why {
        say("because", why);
    }
    let us = |time| set.tick().us(time);
    let name = |at: usize| set.names()[at].clone().unwrap_or_else(|| format!("task {at}"));
    if let Some(order) = &answer.priorities {
        let order: Vec<_> = order.iter().map(|&at| name(at)).collect();
        say("priorities", &order.join(", "));
    }
    for (at, place) in answer.placement.iter().flatten().enumerate() {
        if let Some(how) = in_parts(place, set.tick()) {
            say("runs", &format!("{}: {how}", name(at)));
        }
    }
    let bins = answer.partition.iter().flatten();
    for (cpu, tasks) in bins.enumerate().filter(|(_, tasks)| !tasks.is_empty()) {
        let names: Vec<_> = tasks.iter().map(|&at| name(at)).collect();
        match cpus_of(answer, tasks[0]) {
            Some(cpus) => say("cluster", &format!("CPUs {cpus}: {}", names.join(", "))),
            None => say(&format!("CPU {cpu}"), &names.join(", ")),
        }
    }
    for (at, delay) in delays.iter().flatten().enumerate().filter(|(_, delay)| !delay.is_zero()) {
        say("charged", &format!("{}: {} us", name(at), us(*delay)));
    }
    for (at, bound) in answer.bounds.iter().flatten().enumerate() {
        let (bound, deadline) = (us(*bound), us(set.tasks()[at].deadline()));
        say("responds", &format!("{}: within {bound} us, deadline {deadline} us", name(at)));
    }
    if let Some(supply) = &asked.supply {
        say("supply", &supply.line());
    }
    let chains = set.chains().into_iter().flat_map(|chains| &chains.all);
    for (chain, latency) in chains.zip(answer.latencies.iter().flatten()) {
        let (latency, deadline) = (us(*latency), us(chain.deadline));
        say("chain", &format!("`{}`: within {latency} us, deadline {deadline} us", chain.name));
    }
    for limit in limits {
        say("on Linux", limit);
    }
    for (head, line) in margin::lines(set, margin) {
        say(head, &line);
    }
    text.extend(margin::bars(set, margin, page.width));
    let mut say = |head: &str, what: &str| {
        text.extend(["  ", &format!("{head:<12}"), &page.wrap(what, 14), "\n"]);
    };
    for (at, assumption) in test.assumptions().into_iter().chain(asked.note.as_deref()).enumerate()
    {
        say(if at == 0 { "assuming" } else { "" }, &format!("{}. {assumption}", at + 1));
    }
    text
}
