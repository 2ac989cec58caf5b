// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of small studies from description to sheet: the plan, the simulation, and the comparison with print.

use super::aim::Samples;
use super::gangs::GangStudy;
use super::printed_number::ErrorLaw;
use super::sheet::{GangQuantity, JudgementRole, PrintedQuantity, QuantityErrors};
use super::switches::SwitchStudy;
use super::tables::TableStudy;
use super::{Lab, PublishedStudy, all};
use corehop_plan::experiment::{Body, Plan, Step};
use corehop_plan::platform::{Fact, Hertz, Latency, Platform};
use corehop_plan::units::Nanos;
use corehop_plan::workload::{Absence, Event, Load};

fn x5650() -> Platform {
    Platform::named("xeon_x5650").unwrap().unwrap()
}

fn is(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-9
}

#[test]
fn every_folder_of_studies_is_one_study_in_the_order_of_its_kind() {
    let all = all().unwrap();
    let ids: Vec<&str> = all.iter().map(|it| it.head().id).collect();
    let expected = "bastoni-spread bastoni-table3 bastoni-table4 waechtler-a4 waechtler-a5 waechtler-a6 \
        waechtler-5-2 waechtler-5-3 kamali-3-6 kamali-4-5 kamali-4-6 kamali-4-8 kamali-5-1 kamali-5-3 strong-2a strong-2b \
        strong-3 strong-5 strong-6 strong-7 strong-8 strong-10 strong-13 strong-14 kamali-regression bastoni-fig3 bastoni-fig4 bastoni-claims bastoni-claim-1 \
        waechtler-claims waechtler-exclusive";
    assert_eq!(ids.join(" "), expected);
    assert!(all.iter().all(|it| !it.head().title.is_empty()));
}

/// A table of two sizes, with fewer samples for the smaller size; `more` is inserted before its lengths.
fn table(more: &str) -> TableStudy {
    let description = format!(
        "id = \"made-up\"\ntitle = \"two sizes\"\nplatform = \"xeon_x5650\"\nsamples = 6\npattern = \"shuffled\"\n\
         page = \"4k\"\nwrite_ratio = 0.5\n{more}\n[limits.avg]\nmedian = 0.1\np90 = 0.3\n[small]\nup_to = \"4 KiB\"\n\
         samples = 4\n[lengths]\nfixed_4ms = \"fixed_4ms\"\n\"\" = \"fixed_1ms\"\n\
         [[marked]]\nrole = \"fitted\"\nrows = {{ event = \"l3_migration\", wss_kib = [16] }}\nnumbers = [\"one\"]\n"
    );
    let rows = "event,preemption_length,statistic,wss_kib,cost_us\npreemption,fixed_4ms,avg,4,0.5\n\
        preemption,fixed_4ms,max,4,2\npreemption,fixed_4ms,std,4,0.1\npreemption,fixed_4ms,avg,16,8\n\
        l3_migration,,avg,4,2\nl3_migration,,avg,16,10\n";
    TableStudy::new(&description, rows).unwrap()
}

/// The load, the absence and the numbers of jobs of a plan, by event and size in KiB.
fn planned(plan: &Plan) -> Vec<(Event, u64, usize)> {
    let jobs = plan.jobs().unwrap();
    let count = |cell: usize| {
        jobs.phases.iter().flat_map(|it| &it.jobs).filter(|job| job.cell == cell).count()
    };
    let cells = jobs.cells.iter().enumerate();
    cells.map(|(at, it)| (it.event, jobs.sets[it.set].wss.get() >> 10, count(at))).collect()
}

#[test]
fn a_table_plans_its_cells_with_fewer_samples_up_to_a_size_and_with_its_load() {
    let lab = Lab::new(1, None, false);
    let plan = table("").plan(&x5650(), &lab).unwrap();
    let mut cells = planned(&plan);
    cells.sort_unstable();
    let expected = [
        (Event::Preemption, 4, 4),
        (Event::Preemption, 16, 6),
        (Event::L3Migration, 4, 4),
        (Event::L3Migration, 16, 6),
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(cells, expected);
    // A lab that takes fewer than the small sets takes as many of all.
    let few = table("").plan(&x5650(), &Lab::new(1, Some(2), false)).unwrap();
    assert!(planned(&few).iter().all(|it| it.2 == 2), "{:?}", planned(&few));
    let of = |more: &str| {
        let plan = table(more).plan(&x5650(), &lab).unwrap();
        let cell = plan.jobs().unwrap().cells[0].clone();
        (cell.load, cell.absence)
    };
    assert_eq!(of(""), (Load::Idle, Absence::Nothing));
    let polluter = "polluter = { wss = \"4 MiB\", pattern = \"scan\", write_ratio = 0.0 }";
    let (load, absence) = of(polluter);
    assert!(matches!(load, Load::Constructed { .. }) && absence == Absence::Load, "{load:?}");
    let changing =
        "changing = { window = \"1 MiB\", fresh = 0.1, write_ratio = 0.5, pause = \"1 us\" }";
    let (load, absence) = of(changing);
    assert!(matches!(load, Load::Changing { .. }) && absence == Absence::Load, "{load:?}");
}

#[test]
fn further_passes_are_those_of_the_study_unless_the_lab_says_otherwise() {
    let passes = |more: &str, lab: Lab| {
        let plan = table(more).plan(&x5650(), &lab).unwrap();
        let Body::Jobs(jobs) = &plan.body else { panic!("jobs") };
        let steps = jobs.phases[0].jobs[0].steps.iter();
        steps
            .filter_map(|it| if let Step::Passes(passes) = it { Some(*passes) } else { None })
            .sum::<u32>()
    };
    let lab = || Lab::new(1, Some(1), false);
    assert_eq!([passes("", lab()), passes("passes = 2", lab())], [0, 2]);
    assert_eq!(passes("passes = 2", lab().passing(Some(1))), 1);
    assert_eq!(passes("passes = 2", lab().passing(None)), 2);
}

#[test]
fn a_server_drifts_only_in_a_study_that_says_so_and_a_missing_one_is_named() {
    let platform = Platform::named("xeon_l7455").unwrap().unwrap();
    let drifting = |server: &str| {
        table(&format!(
            "contention = {{ server = \"{server}\", drift = {{ stages = {{ value = 2, source = \"measured\" }}, \
             hold = {{ value = \"25 ms\", source = \"measured\" }} }} }}"
        ))
    };
    let drifts = |study: &TableStudy| {
        let on = study.on(&platform).unwrap();
        on.servers
            .iter()
            .filter_map(|it| Some((it.name.clone(), it.drift.clone()?.hold.value)))
            .collect::<Vec<_>>()
    };
    assert_eq!(drifts(&table("")), []);
    assert_eq!(drifts(&drifting("memory")), [("memory".to_owned(), Nanos::from_millis(25))]);
    let mut other = drifting("memory");
    let contention = other.contention.as_mut().unwrap();
    contention.service = Some(Fact::assumed(Latency::Picos(7), ""));
    contention.without = vec!["level-3 port".to_owned()];
    let servers = other.on(&platform).unwrap().servers.clone();
    let memory = servers.iter().find(|it| it.name == "memory").unwrap();
    assert_eq!((servers.len(), memory.service.value), (2, Latency::Picos(7)));
    let error = drifting("tape").on(&platform).unwrap_err().to_string();
    assert!(
        error.contains("made-up needs a [[server]] named tape, and xeon_l7455 has none"),
        "{error}"
    );
}

#[test]
fn a_pause_is_in_cycles_of_the_core_or_none() {
    let platform = x5650();
    assert_eq!(table("").pause(&platform), 0);
    let pause = |value: &str| {
        let more = format!("polluter_pause = {{ value = \"{value}\", source = \"measured\" }}");
        table(&more).pause(&platform)
    };
    assert_eq!(pause("5 ns"), 5_000);
    let core = platform.clock.core.as_ref().unwrap().value;
    assert_eq!(pause("10 cycles"), Latency::cycles(10).picos(core));
    assert!(core > Hertz::new(1) && pause("10 cycles") > 3_000);
}

#[test]
fn a_table_is_judged_by_the_statistics_of_its_samples() {
    let mut lab = Lab::new(1, Some(4), false);
    let mut study = table("");
    let sheet = study.judge(&x5650(), &mut lab).unwrap();
    let of = |event: Event, kib: u64| -> Vec<f64> {
        let samples = lab.of_table("made-up").iter();
        let own = samples.filter(|it| it.event == event && it.wss_bytes == kib << 10);
        own.map(|it| (it.resumed_ns - it.warm_ns) / 1e3).collect()
    };
    let small = of(Event::Preemption, 4);
    let mean = small.iter().sum::<f64>() / 4.0;
    let deviation = (small.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>() / 3.0).sqrt();
    let most = small.iter().copied().fold(f64::MIN, f64::max);
    let found: Vec<f64> = sheet.rows.iter().map(|it| it.simulated.unwrap()).collect();
    assert!(
        is(found[0], mean) && is(found[1], most) && is(found[2], deviation),
        "{found:?} {small:?}"
    );
    let others = of(Event::L3Migration, 16);
    assert!(is(found[5], others.iter().sum::<f64>() / 4.0), "{found:?}");
    let error = ((found[3] - 8.0).abs() - 0.5) / 8.0;
    assert!(is(sheet.rows[3].error.unwrap(), error), "{:?}", sheet.rows[3]);
    let parts: Vec<_> = sheet.rows.iter().map(|it| (it.n, it.role, it.quantity)).collect();
    let judged = (Some(4), JudgementRole::Judged, Some("avg"));
    assert_eq!(
        parts,
        [
            judged,
            (Some(4), JudgementRole::Judged, None),
            (Some(4), JudgementRole::Judged, None),
            judged,
            judged,
            (Some(4), JudgementRole::Fitted, Some("avg"))
        ]
    );
    let cost = &sheet.quantities[0];
    assert_eq!((cost.judged.unwrap().rows, cost.by_role[&JudgementRole::Fitted].rows), (3, 1));
    assert_eq!((cost.limits.unwrap().median, cost.order.unwrap().pairs), (0.1, 1));
    assert_eq!(sheet.basis.as_deref(), Some("4 samples a cell, 4 up to 4 KiB"));
    // Deviations have no order of events; the samples are not simulated again.
    let before = lab.of_table("made-up").as_ptr();
    let more = "limits.std = { median = 0.3, p90 = 0.6 }";
    let spread = table(more).judge(&x5650(), &mut lab).unwrap();
    assert_eq!(lab.of_table("made-up").as_ptr(), before);
    let [_, deviations] = &spread.quantities[..] else { panic!("averages and deviations") };
    assert_eq!((deviations.word, deviations.order), ("std", None));
    assert_eq!(deviations.judged.unwrap().rows, 1);
    assert!(lab.of_table("another").is_empty());
    assert!(study.narrow(&[16]) && study.printed.len() == 2 && !study.narrow(&[64]));
}

#[test]
fn a_lab_takes_its_own_number_of_samples_where_it_has_one() {
    let of = |own, takes| Lab::new(1, own, false).samples(takes);
    assert_eq!(of(None, 64), Samples { have: 64, takes: 64 });
    assert_eq!(of(Some(8), 64), Samples { have: 8, takes: 64 });
}

const SWITCHES: &str = "id = \"s\"\ntitle = \"t\"\nplatform = \"m5_cs\"\nsamples = 2\nlimits = { median = 0.5, p90 = 1.0 }\n\
    [[marked]]\nrole = \"fitted\"\nnumbers = [\"one\"]\n\
    rows = { platform = \"m5_cs\", mechanisms = [\"strong-v2\", \"strong-v4\"], wake_up = 100 }\n";

#[test]
fn a_core_switch_is_simulated_on_the_machine_of_its_row() {
    let rows = "platform,mechanism,wake_up_cycles,value\nm5_cs,strong-v2,100,1000\nm5_cs,strong-v2,0,0.5\n\
        m5_cs,strong-v3,100,1000\nm5_cc,strong-v2,100,1000\nm5_cs,strong-v4,100,1000\nxeon_5160,strong-v2,,1000\n";
    let study = SwitchStudy::new(SWITCHES, rows).unwrap();
    let fitted: Vec<bool> = study.printed.iter().map(|it| study.marked[0].rows.has(it)).collect();
    assert_eq!(fitted, [true, false, false, false, true, false]);
    let wake_up = |at: usize| study.printed[at].machine().unwrap().core.wake_up.unwrap().value;
    assert_eq!([wake_up(0), wake_up(1)], [Latency::cycles(100), Latency::cycles(0)]);
    assert_eq!(
        wake_up(5),
        Platform::named("xeon_5160").unwrap().unwrap().core.wake_up.unwrap().value
    );
    let one = SwitchStudy { printed: study.printed[..3].to_vec(), ..study };
    let sheet = one.judge(&x5650(), &mut Lab::new(1, Some(1), false)).unwrap();
    let names: Vec<&PrintedQuantity> = sheet.rows.iter().map(|it| &it.what).collect();
    let name = |name: &str| PrintedQuantity::Point { name: name.to_owned() };
    let expected = [
        name("m5_cs strong-v2, awake after 100"),
        name("m5_cs strong-v2"),
        name("m5_cs strong-v3, awake after 100"),
    ];
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
    let found: Vec<f64> = sheet.rows.iter().map(|it| it.simulated.unwrap()).collect();
    assert!(found[0] > found[1] && found[1] > 10.0, "waking up takes time: {found:?}");
    assert!((found[2] - found[0]).abs() > 1.0, "each row has its own mechanism: {found:?}");
    // Relative to what was printed, however little that is.
    assert!(is(sheet.rows[1].error.unwrap(), (found[1] - 0.55) / 0.5), "{:?}", sheet.rows[1]);
    assert_eq!(
        sheet.rows.iter().map(|it| it.role).collect::<Vec<_>>(),
        [JudgementRole::Fitted, JudgementRole::Judged, JudgementRole::Judged]
    );
    assert_eq!(sheet.basis.as_deref(), Some("1 layouts a value"));
    let wrong = rows.replace("m5_cc,", "m6,");
    let error = SwitchStudy::new(SWITCHES, &wrong).unwrap_err().to_string();
    assert!(error.contains("line 5") && error.contains("`m6` is not a platform"), "{error}");
}

#[test]
fn gangs_are_simulated_once_for_each_program_and_joined_with_their_rows() {
    let description = "id = \"g\"\ntitle = \"t\"\nplatform = \"xeon_e5520\"\nsamples = 1\nrounds = 20\n\
        printed_rounds = 2000000.0\nsharing = \"write\"\n\
        limits.runtime_ratio = { median = 0.1, p90 = 0.25 }\nlimits.smr_separate = { median = 0.15, p90 = 0.4 }\n";
    let rows = "program,items,buckets,quantity,value\nswap,100,,runtime_ratio,0.5\nswap,100,,smr_separate,0.9\n\
        swap,200,,misses_million,4\nswap,200,,snoops_million,4\n";
    let study = GangStudy::new(description, rows).unwrap();
    let platform = Platform::named("xeon_e5520").unwrap().unwrap();
    // Two programs, each below one cache and on two packages.
    let plan = study.plan(&platform, 1, 1).unwrap();
    assert_eq!(plan.gangs().unwrap().gangs.len(), 4);
    let sheet = study.judge(&platform, &mut Lab::new(1, Some(9), false)).unwrap();
    assert_eq!(sheet.samples, Some(1), "no more runs than the study takes");
    let found: Vec<f64> = sheet.rows.iter().map(|it| it.simulated.unwrap()).collect();
    assert!(found[0] > 0.0 && (0.0..=1.0).contains(&found[1]), "{found:?}");
    assert!(found[2] >= found[3] && found[2] > 0.0, "{found:?}");
    let limit = |it: &QuantityErrors| it.limits.map(|limits| limits.median);
    let quantities: Vec<_> =
        sheet.quantities.iter().map(|it| (it.word, it.law, limit(it))).collect();
    let expected = [
        (GangQuantity::RuntimeRatio.word(), ErrorLaw::Gain, Some(0.1)),
        (GangQuantity::SmrSeparate.word(), ErrorLaw::Difference, Some(0.15)),
        (GangQuantity::Snoops.word(), ErrorLaw::Relative, None),
        (GangQuantity::Misses.word(), ErrorLaw::Relative, None),
    ];
    assert_eq!(quantities, expected);
}

#[test]
fn only_studies_of_one_machine_take_another_platform() {
    let all = all().unwrap();
    let own: Vec<&str> =
        all.iter().filter(|it| !it.is_of_one_machine()).map(|it| it.head().id).collect();
    assert_eq!(
        own,
        [
            "strong-2a",
            "strong-2b",
            "strong-3",
            "strong-5",
            "strong-6",
            "strong-7",
            "strong-8",
            "strong-10",
            "strong-13",
            "strong-14",
            "kamali-regression"
        ]
    );
}
