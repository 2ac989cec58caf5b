// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to "should I pin this program?" is a sentence, a table of the arms, and lines to
//! paste.

use super::figure::FigureTable;
use super::table::plain;
use corehop_decide::pinning::answer::{ArmFigures, PinAnswer, TriedArm, TriedProgram};
use corehop_decide::pinning::contest::{ArmGain, ContestVerdict, TrialQuantity};
use corehop_plan::units::{CpuList, three_digits};

/// A line to paste: the place for the line, and its text.
pub type PasteLine = (&'static str, String);

/// An upper bound on the gain that is larger than this share says little, because the trials varied
/// too much.
const VAGUE: f64 = 0.1;

/// The answer of `corehop` on a host that has only one CPU.
pub const ONE_CPU: &str = "One CPU: nothing to try.";

/// Returns a sentence that answers whether to pin the program.
pub fn sentence(answer: &PinAnswer) -> String {
    if let Some((arm, gain)) = answer.winner() {
        let better = match answer.quantity {
            TrialQuantity::WallTime => "faster",
            TrialQuantity::Progress => "more progress",
        };
        return format!(
            "Pin to {} ({}): {} {better} than the kernel's default {}.",
            cpus(&arm.cpus),
            arm.kind,
            percent(gain.gain),
            bounds(&gain)
        );
    }
    match answer.verdict {
        ContestVerdict::TooFew { rounds, needed } => format!(
            "Cannot tell: {needed} rounds of all arms are needed, and {rounds} fit into the time: --duration {}s is enough{}.",
            answer.enough_s(),
            match answer.program {
                TriedProgram::Command(_) => ", or give the command less to do",
                TriedProgram::Process(_) => "",
            }
        ),
        ContestVerdict::Nothing { at_most } => {
            let rest = if at_most <= VAGUE {
                "do not pin"
            } else {
                "the turns vary too much to see less; try on a quieter host, or give the program more to do"
            };
            format!("Nothing beats the kernel's default by more than {}: {rest}.", percent(at_most))
        }
        ContestVerdict::NoArm => {
            "Nothing to try: no set of fewer CPUs makes sense for this program.".to_owned()
        }
        ContestVerdict::Winner { .. } => "Cannot tell: the winner has no interval.".to_owned(),
    }
}

/// Returns the evidence for the answer: a table of the arms, the arms that were left out, and the
/// lines to paste if an arm has won.
pub fn text(answer: &PinAnswer) -> String {
    let left_out =
        answer.left_out.iter().map(|it| format!("Not tried: {}: {}.\n", it.kind, it.why));
    // Without a whole round there is nothing to compare.
    let table = if answer.rounds > 0 { plain(&table(answer)) } else { String::new() };
    table + &left_out.collect::<String>() + &to_paste(answer)
}

/// Returns the lines that pin the program to the winning arm's CPUs; the list is empty if no arm
/// won.
pub fn lines(answer: &PinAnswer) -> Vec<PasteLine> {
    let Some((arm, _)) = answer.winner() else { return Vec::new() };
    let cpus = &arm.cpus;
    let taskset = match &answer.program {
        TriedProgram::Command(words) => format!("taskset -c {cpus} {words}"),
        TriedProgram::Process(pid) => format!("taskset -acp {cpus} {pid}"),
    };
    vec![
        ("a shell", taskset),
        ("a unit of systemd, [Service]", format!("CPUAffinity={cpus}")),
        ("a container", format!("docker run --cpuset-cpus={cpus} …")),
        ("gamemode.ini, [cpu]", format!("pin_cores={cpus}")),
    ]
}

fn to_paste(answer: &PinAnswer) -> String {
    let line = |(place, text): PasteLine| format!("  {text}  # {place}\n");
    let lines: String = lines(answer).into_iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nTo paste:\n{lines}") }
}

fn table(answer: &PinAnswer) -> FigureTable {
    let PinAnswer { rounds, seed, seconds, load, .. } = answer;
    let name = match &answer.program {
        TriedProgram::Command(words) => words.clone(),
        TriedProgram::Process(pid) => format!("process {pid}"),
    };
    let s = if *rounds == 1 { "" } else { "s" };
    let threads = if load.threads == 1 {
        "1 thread wants a CPU at a time".to_owned()
    } else {
        format!("{} threads want a CPU at a time", load.threads)
    };
    let caption = format!(
        "{name}: {rounds} round{s} in {seconds:.0} s, in random order (seed {seed}); {threads}; intervals hold together at 95 %"
    );
    let mut table = match answer.quantity {
        TrialQuantity::WallTime => FigureTable::new(
            caption,
            &["arm", "CPUs", "wall s", "CPU s", "faster", "interval", "runs"],
        ),
        TrialQuantity::Progress => FigureTable::new(
            caption,
            &["arm", "CPUs", "progress/s", "CPU s", "more progress", "interval", "stretches"],
        ),
    };
    let own = &answer.default_cpus;
    table.rows.push(row("default", own, answer.default.as_ref(), None));
    table.rows.push(row("default again", own, answer.again.as_ref(), answer.floor.as_ref()));
    let arm = |it: &TriedArm| {
        row(it.arm.kind.word(), &it.arm.cpus, it.figures.as_ref(), it.gain.as_ref())
    };
    table.rows.extend(answer.arms.iter().map(arm));
    table
}

fn row(
    name: &str,
    cpus: &CpuList,
    figures: Option<&ArmFigures>,
    gain: Option<&ArmGain>,
) -> Vec<String> {
    let none = || "–".to_owned();
    let number = |value: Option<f64>| value.map_or_else(none, three_digits);
    vec![
        name.to_owned(),
        cpus.to_string(),
        number(figures.map(|it| it.mean)),
        number(figures.and_then(|it| it.cpu_s)),
        gain.map_or_else(none, |it| format!("{:+.1} %", 100.0 * it.gain)),
        gain.map_or_else(none, bounds),
        figures.map_or_else(none, |it| it.runs.to_string()),
    ]
}

/// Returns the bounds of a gain, such as `[9.0 %, 15.1 %]`.
fn bounds(gain: &ArmGain) -> String {
    format!("[{}, {}]", percent(gain.low), percent(gain.high))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Returns CPUs as text, such as `CPU 0` or `CPUs 0-3`.
fn cpus(cpus: &CpuList) -> String {
    format!("CPU{} {cpus}", if cpus.len() == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use corehop_decide::pinning::arms::{ArmKind, LeftOutArm, PinArm, ProgramLoad};

    use super::*;

    fn answer(verdict: ContestVerdict, program: TriedProgram) -> PinAnswer {
        let figures = |mean| Some(ArmFigures { runs: 7, mean, cpu_s: Some(2.0) });
        let quantity = match program {
            TriedProgram::Command(_) => TrialQuantity::WallTime,
            TriedProgram::Process(_) => TrialQuantity::Progress,
        };
        PinAnswer {
            program,
            platform: "made".to_owned(),
            quantity,
            default_cpus: "0-7".parse().unwrap(),
            load: ProgramLoad { threads: 4, busy_cpus: Some(2.0) },
            seed: 1,
            rounds: 7,
            seconds: 30.4,
            round_s: 4.0,
            default: figures(1.0),
            again: figures(1.0),
            floor: Some(ArmGain { rounds: 7, gain: 0.002, low: -0.011, high: 0.012 }),
            arms: vec![TriedArm {
                arm: PinArm { kind: ArmKind::OneCache, cpus: "0-3".parse().unwrap() },
                figures: figures(0.89),
                gain: Some(ArmGain { rounds: 7, gain: 0.1234, low: 0.09, high: 0.151 }),
            }],
            left_out: vec![LeftOutArm {
                kind: ArmKind::NoSmt,
                why: "no core has two of the CPUs (SMT siblings)".to_owned(),
            }],
            verdict,
        }
    }

    fn command() -> TriedProgram {
        TriedProgram::Command("xz -9 'a file'".to_owned())
    }

    #[test]
    fn the_winner_is_one_line_with_its_gain_and_its_interval_and_four_lines_to_paste() {
        let won = answer(ContestVerdict::Winner { arm: 0 }, command());
        assert_eq!(
            sentence(&won),
            "Pin to CPUs 0-3 (one-cache): 12.3 % faster than the kernel's default [9.0 %, 15.1 %]."
        );
        let text = text(&won);
        for words in [
            "taskset -c 0-3 xz -9 'a file'",
            "CPUAffinity=0-3 ",
            "--cpuset-cpus=0-3 ",
            "pin_cores=0-3 ",
            "seed 1",
            "Not tried: no-smt: no core",
            "wall s",
            "+0.2 %",
            "[-1.1 %, 1.2 %]",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("progress/s"), "{text}");
    }

    #[test]
    fn a_process_is_pinned_with_all_of_its_threads_and_compared_by_progress() {
        let won = answer(ContestVerdict::Winner { arm: 0 }, TriedProgram::Process(4711));
        assert!(sentence(&won).contains("12.3 % more progress than"), "{}", sentence(&won));
        let text = text(&won);
        assert!(text.contains("taskset -acp 0-3 4711 "), "{text}");
        assert!(text.contains("progress/s") && !text.contains("wall s"), "{text}");
    }

    #[test]
    fn without_a_winner_the_bound_is_said_and_nothing_is_there_to_paste() {
        let none = answer(ContestVerdict::Nothing { at_most: 0.011 }, command());
        assert_eq!(
            sentence(&none),
            "Nothing beats the kernel's default by more than 1.1 %: do not pin."
        );
        let vague = sentence(&answer(ContestVerdict::Nothing { at_most: 0.495 }, command()));
        assert!(vague.contains("by more than 49.5 %: the turns vary too much"), "{vague}");
        assert!(lines(&none).is_empty() && !text(&none).contains("taskset"));
        let said = sentence(&answer(ContestVerdict::NoArm, command()));
        assert!(said.starts_with("Nothing to try: "), "{said}");
        let few = answer(ContestVerdict::TooFew { rounds: 3, needed: 7 }, command());
        let said = sentence(&few);
        assert!(said.contains("7 rounds") && said.contains("--duration 50s"), "{said}");
    }
}
