// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts of verbs that are no report of files: platforms, validation, comparison, advice, costs, placement, schedules.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{all_lines, rows, svg, without_version};
use corehop_decide::advice::{AdviceQuery, advise};
use corehop_decide::comparison::{EquivalenceMargin, Quantities, compare};
use corehop_decide::example::{OUTCOME, placed as answer};
use corehop_decide::example::{halts, seen};
use corehop_decide::gate::FailOn;
use corehop_decide::placer::trial::TrialVerdict;
use corehop_decide::validation::aim::{ErrorLimits, ErrorQuantiles};
use corehop_decide::validation::printed_number::ErrorLaw;
use corehop_decide::validation::sheet::{
    GangQuantity, JudgementRole, PrintedQuantity, PrintedStatistic, QuantityErrors, Sheet,
    ValidationRow,
};
use corehop_decide::wake_cost::WakeCost;
use corehop_fixtures::task_sets::implicit;
use corehop_plan::platform::Platform;
use corehop_plan::samples::Sample;
use corehop_plan::units::Bytes;
use corehop_plan::workload::Event;
use corehop_plan::workload::task::Time;
use corehop_report::compared_page::ComparisonHeading;
use corehop_report::{
    advice_page, compared, compared_page, costs, decided, exchange_svg, gem5, placement,
    platform_svg, platform_text, schedule_svg, schedule_text, validation, wake_cost,
};
use corehop_sched::schedule::{CpuActivity, Schedule, ScheduledJob, Stretch};
use corehop_stats::cpmd::{DelayModel, DelayQuery, Statistic};
use corehop_stats::estimator::Estimator;

#[test]
fn platforms_as_text_as_drawings_and_for_gem5() {
    let mut text = String::new();
    for id in ["xeon_x5650", "xeon_l7455", "epyc_7313"] {
        let platform = Platform::named(id).unwrap().unwrap();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "# {id}\n{}", platform_text::text(&platform));
    }
    let measured = rows::measured();
    let _ = writeln!(text, "# measured\n{}", platform_text::text(&measured));
    let _ = writeln!(text, "# lines\n{}", svg(&exchange_svg::draw(&measured).unwrap()));
    let several = Platform::named("xeon_x5650").unwrap().unwrap();
    let _ = writeln!(text, "# drawing\n{}", svg(&platform_svg::draw(&several)));
    let script = gem5::script(&several).unwrap();
    let _ = writeln!(text, "# gem5\n{}", without_version(&script));
    let _ = writeln!(text, "# gem5 measured\n{}", gem5::script(&measured).unwrap_err());
    told!("platforms.txt", &text);
}

/// A sheet with these rows of one quantity.
fn sheet(id: &str, rows: Vec<ValidationRow>, quantity: QuantityErrors) -> Sheet {
    Sheet {
        id: id.to_owned(),
        title: "Costs & more".to_owned(),
        platform: "box".to_owned(),
        basis: Some("8 samples a cell".to_owned()),
        samples: Some(8),
        rows,
        quantities: vec![quantity],
        claims: Vec::new(),
    }
}

/// A quantity of which so many rows are judged.
fn quantity(word: &'static str, law: ErrorLaw, rows: usize) -> QuantityErrors {
    QuantityErrors {
        word,
        law,
        limits: (law != ErrorLaw::Difference).then_some(ErrorLimits {
            median: 0.2,
            p90: 0.5,
            order: 1.0,
        }),
        judged: Some(ErrorQuantiles { rows, missing: 0, median: 0.1, p90: 0.25 }),
        by_role: BTreeMap::new(),
        order: None,
        near: None,
        aim: None,
    }
}

/// Costs with a row of each part; gangs, whose errors are plain differences; and points above and below a hundred.
fn sheets() -> [Sheet; 3] {
    let row = |what, quantity, printed: f64, simulated: Option<f64>, role| ValidationRow {
        what,
        quantity: Some(quantity),
        printed,
        simulated,
        n: Some(8),
        printed_n: None,
        role,
        error: None,
    };
    let cost = |event, wss_kib| PrintedQuantity::Cost {
        event,
        preemption_length: "fixed_4ms".to_owned(),
        statistic: PrintedStatistic::Average,
        wss_kib,
    };
    let of_cost = |event, kib, printed, simulated, role| {
        row(cost(event, kib), "cost_us", printed, simulated, role)
    };
    let costs = vec![
        of_cost(Event::Preemption, 4, 1.0, Some(1.1), JudgementRole::Judged),
        of_cost(Event::Preemption, 64, 20.0, Some(15.0), JudgementRole::Judged),
        of_cost(Event::L3Migration, 64, 50.0, Some(50.0), JudgementRole::Fitted),
        of_cost(Event::L3Migration, 4, -0.5, Some(0.0), JudgementRole::NotModelled),
        of_cost(Event::L3Migration, 256, 200.0, None, JudgementRole::Judged),
    ];
    let gang = |items| PrintedQuantity::Gang {
        program: "sum",
        items,
        parameters: "2 threads".to_owned(),
        quantity: GangQuantity::SmrSeparate,
    };
    let word = GangQuantity::SmrSeparate.word();
    let of_gang = |items, printed, simulated| {
        row(gang(items), word, printed, Some(simulated), JudgementRole::Judged)
    };
    let point = |name: &str| PrintedQuantity::Point { name: name.to_owned() };
    let cycles = "cycles_per_line";
    let of_point = |name, printed, simulated| {
        row(point(name), cycles, printed, Some(simulated), JudgementRole::Judged)
    };
    [
        sheet("t-1", costs, quantity("cost_us", ErrorLaw::Relative, 2)),
        sheet(
            "g-1",
            vec![of_gang(10, 0.5, 0.4), of_gang(20, 0.75, 0.75)],
            quantity(word, ErrorLaw::Difference, 2),
        ),
        sheet(
            "p-1",
            vec![of_point("L1", 4.0, 5.0), of_point("memory", 183.0, 180.0)],
            quantity(cycles, ErrorLaw::Relative, 2),
        ),
    ]
}

#[test]
fn printed_values_beside_simulated_ones() {
    let dots: Vec<_> = sheets().iter().flat_map(validation::Dots::of).collect();
    let text = all_lines(&validation::page(7, &dots));
    told!("validation.txt", &text);
}

fn model() -> DelayModel {
    rows::balanced().finish().fit.finish()
}

#[test]
fn fitted_costs_predictions_and_the_advice_that_follows() {
    let model = model();
    let mut text = format!("# fitted\n{}\n", costs::fitted(&model));
    let asked = |kib, statistic| DelayQuery {
        event: Event::Preemption,
        load: "idle".to_owned(),
        wss: Bytes::from_kib(kib),
        length: None,
        statistic,
        method: None,
        only: Vec::new(),
    };
    for statistic in [Statistic::Median, Statistic::Max] {
        let answers = [4, 16, 64].map(|kib| model.predict(&asked(kib, statistic)));
        let (answers, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        text.extend(refused.into_iter().map(|it| format!("{}\n", it.unwrap_err())));
        let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
        let _ = writeln!(
            text,
            "{}\n{}",
            costs::predicted_in_words(&answers),
            costs::predicted(&answers)
        );
    }
    let wanted = AdviceQuery { wss: Vec::new(), length: None, only: Vec::new() };
    let advice = advise(&model, &wanted).unwrap();
    let _ = writeln!(text, "# advice\n{}\n{}", advice.sentence(), decided::advice(&advice));
    text += &all_lines(&advice_page::page(
        &advice,
        "stays.parquet",
        "corehop advise stays.parquet --json",
    ));
    told!("advice.txt", &text);
}

/// Two results: one cell that is slower by a half, one that did not change, one of too few replicates, and one that B lacks.
#[test]
fn two_results_side_by_side() {
    let (mut a, mut b) =
        (Quantities::new(Estimator::Difference), Quantities::new(Estimator::Difference));
    let of = |kib: u64, us: f64, replicates: u64| -> Vec<Sample> {
        rows::cell(
            &Sample { wss_bytes: kib << 10, ..corehop_plan::samples::example::sample() },
            us,
            replicates,
            1,
        )
    };
    for (kib, us, replicates) in [(4, 2.0, 12), (16, 8.0, 12), (64, 30.0, 3), (256, 90.0, 12)] {
        a.take(&of(kib, us, replicates));
        if kib < 256 {
            b.take(&of(kib, if kib == 4 { 1.5 * us } else { us }, replicates));
        }
    }
    let mut text = String::new();
    for share in [0.05, 1.0] {
        let told = compare(&a, &b, EquivalenceMargin { share, least_us: None }, 0.05).unwrap();
        for fail_on in [vec![FailOn::Slower], vec![FailOn::Unknown], Vec::new()] {
            let _ = writeln!(text, "{}", compared::answer(&told, &fail_on));
        }
        let _ = writeln!(text, "\n{}", compared::comparison(&told, 100));
    }
    let same =
        compare(&a, &a, EquivalenceMargin { share: 0.05, least_us: Some(0.5) }, 0.05).unwrap();
    let _ = writeln!(
        text,
        "# with itself\n{}\n{}",
        compared::answer(&same, &[FailOn::Slower]),
        compared::comparison(&same, 80)
    );
    told!("compared.txt", &text);
    let names = ["a b.parquet", "b.parquet"].map(str::to_owned);
    let told = compare(&a, &b, EquivalenceMargin { share: 0.05, least_us: None }, 0.05).unwrap();
    let heading = ComparisonHeading {
        names: &names,
        answer: &compared::answer(&told, &[FailOn::Slower]),
        everything: "corehop compare 'a b.parquet' b.parquet --json",
    };
    told!("compared-page.txt", &all_lines(&compared_page::page(&told, None, &heading)));
}

#[test]
fn what_a_placer_did() {
    let mut text = String::new();
    for (verdict, kept) in [
        (TrialVerdict::Better(OUTCOME), true),
        (TrialVerdict::Worse(OUTCOME), false),
        (TrialVerdict::Same(OUTCOME), false),
    ] {
        let mut answer = answer(&[(7, "0"), (8, "0")], verdict, kept);
        answer.wake_up = Some(WakeCost::of(&seen([2_000.0, 17_000.0, 11_000.0]), Some(halts())));
        let _ = writeln!(
            text,
            "# kept: {kept}\n{}\n{}",
            placement::sentence(&answer),
            placement::text(&answer)
        );
        answer.wake_up = None;
        let _ = writeln!(text, "{}", placement::sentence(&answer));
    }
    for costs in [[2_000.0, 17_000.0, 11_000.0], [2_000.0, 2_300.0, 9_000.0]] {
        let _ = writeln!(
            text,
            "# wake-ups\n{}",
            wake_cost::lines(&WakeCost::of(&seen(costs), Some(halts())))
        );
    }
    told!("placement.txt", &text);
}

#[test]
fn live_samples_beside_simulated_ones() {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let of = |event, kib: u64, us| {
        let one =
            Sample { event, wss_bytes: kib << 10, ..corehop_plan::samples::example::sample() };
        rows::cell(&one, us, 10, 2)
    };
    let live =
        [of(Event::Preemption, 64, 10.0), of(Event::Flush, 64, 40.0), of(Event::None, 64, 0.01)]
            .concat();
    let simulated = [of(Event::Preemption, 64, 12.0), of(Event::Flush, 64, 30.0)].concat();
    let sheet = corehop_decide::example::held_against(&platform, &live, &simulated);
    told!("host.txt", &corehop_report::host_sheet::sheet(&sheet));
}

/// The long job is preempted at 10, resumes on the other CPU at 15, reloads for 5, and ends at 25, when it is due at 20.
#[test]
fn a_schedule_that_misses_a_deadline() {
    let job = |task, release_us, due_us, work_us, ended_us: Option<u64>| ScheduledJob {
        task,
        arrival_us: Time::new(release_us),
        release_us: Time::new(release_us),
        due_us: Time::new(due_us),
        work_us: Time::new(work_us),
        ended_us: ended_us.map(Time::new),
    };
    let stretch = |cpu, job, from, to, doing| {
        let [from_us, to_us] = [from, to].map(Time::new);
        Stretch { cpu, job, from_us, to_us, doing }
    };
    let schedule = Schedule {
        cpus: vec![0, 1],
        from_us: Time::ZERO,
        to_us: Time::new(30),
        jobs: vec![
            job(1, 0, 20, 15, Some(25)),
            job(0, 10, 40, 5, Some(15)),
            job(2, 5, 35, 30, None),
        ],
        stretches: vec![
            stretch(0, 0, 0, 10, CpuActivity::Work),
            stretch(1, 2, 5, 15, CpuActivity::Work),
            stretch(0, 1, 10, 15, CpuActivity::Work),
            stretch(1, 0, 15, 20, CpuActivity::Migration),
            stretch(1, 0, 20, 25, CpuActivity::Work),
            stretch(0, 2, 15, 18, CpuActivity::Preemption),
        ],
        subject: 0,
        with_delays: true,
    };
    let set = implicit(2, &[(5, 100), (15, 100), (30, 100)]);
    let drawn =
        schedule_svg::draw(&set, &schedule, "Two CPUs & a title", "Task 1 is late by 5 us.");
    let bars = schedule_text::bars(&set, &schedule, 70);
    told!("schedule.txt", &format!("{bars}\n{}", svg(&drawn)));
}
