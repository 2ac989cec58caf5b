// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests compare tables with the printed tables and with tables that were worked out by hand.

use super::*;
use corehop_plan::experiment::{Cell, Preset};
use corehop_plan::platform::{MemoryArchitecture, Platform};
use corehop_plan::samples::example::sample;
use corehop_plan::samples::{Cause, Sample};
use corehop_plan::units::CpuList;
use corehop_plan::workload::{Absence, Event, Load, Page};
use corehop_stats::estimator::Estimator;
use corehop_stats::summary::summarize;

/// Lines as printed in two studies, Bastoni et al. 2010, table 1 (Fig. 2a), and Wächtler 2012,
/// table A.1, each with the columns of its own table.
const PRINTED: [&str; 2] = [
    "platform,memory_architecture,load,event,preemption_length,write_ratio,statistic,wss_kib,cost_us
xeon_l7455,uma,constructed,preemption,uniform_0_50ms,0.25,max,4,17.52
xeon_l7455,uma,constructed,l2_migration,uniform_0_50ms,0.25,max,4,19.09",
    "platform,memory_architecture,load,event,preemption_length,statistic,wss_kib,cost_us
xeon_x5650,numa,idle,preemption,fixed_4ms,max,4,0.19
xeon_x5650,numa,idle,l3_migration,,max,4,4.59",
];

/// Returns samples that would give the lines in [`PRINTED`].
fn as_in_the_studies() -> Vec<Sample> {
    let bastoni = Sample {
        machine: "xeon_l7455".into(),
        memory_architecture: MemoryArchitecture::Uma,
        load: "constructed".into(),
        preemption_length: "uniform_0_50ms".into(),
        write_ratio: 0.25,
        ..sample()
    };
    let waechtler = Sample {
        machine: "xeon_x5650".into(),
        memory_architecture: MemoryArchitecture::Numa,
        ..sample()
    };
    vec![
        bastoni.clone(),
        Sample { event: Event::L2Migration, ..bastoni },
        waechtler.clone(),
        Sample { event: Event::L3Migration, preemption_length: "none".into(), ..waechtler },
    ]
}

fn table(samples: &[Sample]) -> String {
    let summaries = summarize(samples, Estimator::Difference);
    csv(&joinable(&summaries))
}

/// Returns the values of the columns `names` in every line of a CSV table without quotes.
fn values<'a>(table: &'a str, names: &[&str]) -> Vec<Vec<&'a str>> {
    let mut lines = table.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let places: Vec<usize> =
        names.iter().map(|name| head.iter().position(|column| column == name).unwrap()).collect();
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            places.iter().map(|&place| fields[place]).collect()
        })
        .collect()
}

#[test]
fn a_table_of_ours_and_a_printed_one_join_on_their_common_columns() {
    let ours = table(&as_in_the_studies());
    for printed in PRINTED {
        let head = printed.lines().next().unwrap();
        let keys: Vec<&str> = head.split(',').filter(|&name| name != "cost_us").collect();
        let rows = values(&ours, &keys);
        for wanted in values(printed, &keys) {
            assert_eq!(rows.iter().filter(|row| **row == wanted).count(), 1, "{wanted:?}");
        }
    }
}

/// Makes two samples of every cell that the preset measures on the first machine of the study.
fn as_planned(preset: Preset) -> Vec<Sample> {
    let platform = Platform::named("xeon_x5650").unwrap().unwrap();
    let make = Load::Realistic { command: "make".to_owned(), cpus: CpuList::default() };
    let experiment = preset.synthetic(&platform, None, Some(&make));
    let sets = experiment.sets();
    let of_cell = |(cell, _): (Cell, u32)| {
        let leaves = !matches!(cell.event, Event::None | Event::Flush);
        let length = if leaves { cell.length.to_string() } else { "none".to_owned() };
        let set = &sets[cell.set];
        let one = Sample {
            machine: platform.id.as_str().into(),
            memory_architecture: platform.memory_architecture(),
            load: cell.load.word().into(),
            event: cell.event,
            preempted_by: cell.absence,
            preemption_length: length.as_str().into(),
            wss_bytes: set.wss.get(),
            write_ratio: set.write_ratio,
            polluter: cell.load.runs().map(|runs| runs.as_str().into()),
            mover: experiment.mover,
            ..sample()
        };
        [Sample { resumed_ns: 4_000.0, ..one.clone() }, one]
    };
    experiment.cells(&platform).unwrap().into_iter().flat_map(of_cell).collect()
}

#[test]
fn the_preset_waechtler_has_a_line_for_every_printed_one_of_the_study() {
    let ours = table(&as_planned(Preset::Waechtler));
    let names = ["load", "event", "preemption_length", "statistic", "wss_kib"];
    let ours = values(&ours, &names);
    // The heads of tables A.1 to A.6; a migration has no length there.
    let columns = [
        ["preemption", "fixed_4ms"],
        ["preemption", "uniform"],
        ["l3_migration", ""],
        ["memory_migration", ""],
    ];
    let sizes = (2..=15).map(|power| 1_u32 << power).chain([12_288]).map(|kib| kib.to_string());
    for wss in sizes {
        for load in ["idle", "constructed", "realistic"] {
            for ([event, length], statistic) in
                columns.iter().flat_map(|&column| ["max", "avg", "std"].map(|it| (column, it)))
            {
                let wanted = [load, event, length, statistic, &wss];
                assert_eq!(ours.iter().filter(|row| **row == wanted).count(), 1, "{wanted:?}");
            }
        }
    }
}

#[test]
fn cells_can_be_picked_by_any_of_their_fields_and_a_slip_is_answered_with_what_there_is() {
    let huge = Sample { page: Page::Transparent, chains: 4, ..sample() };
    let summaries = summarize(&[huge, sample()], Estimator::Difference);
    let shared = joinable(&summaries).shared;
    assert_eq!(shared, [("chains=4 and page=thp".to_owned(), 1)]);
    let pick = |wanted: &[&str]| {
        only(&summaries, &wanted.iter().map(|it| (*it).into()).collect::<Vec<_>>())
    };
    let picked = pick(&["page=thp", "chains=4", "wss_bytes=4096", "polluter=none"]).unwrap();
    assert_eq!((picked.len(), picked[0].cell.page), (1, Page::Transparent));
    assert_eq!(pick(&[]).unwrap().len(), 2);
    for (wanted, words) in [
        (&["thp"][..], "page=thp"),
        (&["pages=thp"], "they have cache_state, chains"),
        (&["page=hugetlb"], "no cell has page=hugetlb; the cells have 4k, thp"),
        (&["page=4k", "chains=4"], "no cell has chains=4; the cells have 1"),
    ] {
        let error = pick(wanted).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn columns_that_differ_in_what_ran_alone_say_what_ran() {
    let on = |what: &str| Sample { polluter: Some(what.into()), ..sample() };
    let long = "find / -name 'a name that no heading needs' on CPUs 0";
    let text = text(&summarize(&[on("make"), on(long)], Estimator::Difference), 200);
    assert!(text.contains(" make\n") && text.contains("heading needs' on CPUs 0 "), "{text}");
    assert_eq!(text.matches("preemption").count(), 2, "{text}");
}

#[test]
fn the_statistics_of_a_cell_are_lines_of_their_own() {
    let delays = [4.0, 1.0, 2.0, 3.0, 10.0];
    let mut samples: Vec<Sample> =
        delays.iter().map(|us| Sample { resumed_ns: 1e3 * (1.0 + us), ..sample() }).collect();
    samples.push(Sample { valid: false, disturbed_by: vec![Cause::Gap], ..sample() });
    let head = "box,single_socket,idle,preemption,fixed_4ms,0.5";
    let expected = [
        ("max", "10"),
        ("avg", "4"),
        ("std", "3.535534"),
        ("min", "1"),
        ("p50", "3"),
        ("n", "5"),
        ("n_all", "6"),
    ];
    let lines: Vec<String> =
        expected.iter().map(|(name, value)| format!("{head},{name},4,{value}")).collect();
    assert_eq!(table(&samples), format!("{COLUMNS}\n{}\n", lines.join("\n")));
}

#[test]
fn an_interval_stands_beside_its_quantile_once_there_are_samples_for_it() {
    let samples: Vec<Sample> = (1..=9_u32)
        .map(|us| Sample {
            resumed_ns: 1e3 * f64::from(1 + us),
            replicate: Some(u64::from(us * 4 % 9)),
            ..sample()
        })
        .collect();
    let table = table(&samples);
    // Nine replicates: ranks 2 and 8 cover the median with 96.1 %, 3 and 7 with 82 %.
    for line in [",p50,4,5", ",p50_low,4,2.2", ",p50_high,4,7.7"] {
        assert_eq!(table.lines().filter(|row| row.contains(line)).count(), 1, "{line}");
    }
    assert!(!table.contains("p90"));
}

#[test]
fn of_cells_that_the_columns_cannot_tell_apart_each_statistic_is_the_largest_and_they_are_counted()
{
    // Delays of 2, 2 and 9 us in base pages, and of 3, 3 and 3 us in huge ones.
    let of = |page, us: f64| Sample { page, resumed_ns: 1e3 * (1.0 + us), ..sample() };
    let base = [2.0, 2.0, 9.0].map(|us| of(Page::Base, us));
    let huge = [3.0, 3.0, 3.0].map(|us| of(Page::Transparent, us));
    let summaries = summarize(&[base, huge].concat(), Estimator::Difference);
    assert_eq!(joinable(&summaries).shared, [("page=thp".to_owned(), 1)]);
    let table = csv(&joinable(&summaries));
    let cost = |name: &str| {
        let rows: Vec<&str> =
            table.lines().filter(|row| row.contains(&format!(",{name},"))).collect();
        assert_eq!(rows.len(), 1, "{name} {table}");
        rows[0].rsplit(',').next().unwrap().to_owned()
    };
    assert_eq!([cost("p50"), cost("max"), cost("n")], ["3", "9", "3"]);
}

#[test]
fn an_absence_in_which_nothing_ran_is_no_preemption_beside_one_in_which_something_did() {
    let of =
        |preempted_by, us: f64| Sample { preempted_by, resumed_ns: 1e3 * (1.0 + us), ..sample() };
    let both = [of(Absence::Nothing, 25.0), of(Absence::Preemptor, 51.0)];
    let rows = values(&table(&both), &["event", "statistic", "cost_us"]).concat().join(" ");
    assert!(rows.contains("preemption max 51") && rows.contains("idle_leave max 25"), "{rows}");
    assert!(!rows.contains("preemption max 25"), "{rows}");
    // The studies have preemptions of idle systems, with nothing else to compare them with.
    assert!(table(&both[..1]).contains(",preemption,fixed_4ms,"));
}

#[test]
fn a_length_that_no_study_used_is_written_as_its_range() {
    let of =
        |text: &str| length(&CellKey::of(&Sample { preemption_length: text.into(), ..sample() }));
    let lengths = ["none", "fixed_4ms", "uniform_0_50ms", "uniform_0_20ms", "uniform_1_5ms"];
    assert_eq!(lengths.map(of), ["", "fixed_4ms", "uniform_0_50ms", "0..20ms", "1..5ms"]);
}

#[test]
fn a_name_with_a_comma_or_a_quote_stays_one_field() {
    let odd = Sample { load: "make -j2, \"all\"".into(), ..sample() };
    assert!(table(&[odd]).contains("single_socket,\"make -j2, \"\"all\"\"\",preemption"));
}

#[test]
fn the_terminal_table_is_aligned_and_says_over_how_many_samples_a_maximum_is() {
    let quiet = |event, us: f64| Sample {
        event,
        preempted_by: Absence::Nothing,
        resumed_ns: 1e3 * (1.0 + us),
        replicate: Some(us as u64 * 4 % 9),
        ..sample()
    };
    let mut samples: Vec<Sample> = (1..=9)
        .flat_map(|us| {
            [
                quiet(Event::Preemption, f64::from(us)),
                quiet(Event::L3Migration, f64::from(100 * us)),
            ]
        })
        .collect();
    samples.push(Sample {
        valid: false,
        disturbed_by: vec![Cause::Gap],
        ..quiet(Event::Preemption, 1.0)
    });
    let text = text(&summarize(&samples, Estimator::Difference), 100);
    assert_eq!(
        text,
        "\
delay in µs by `difference`: median [95 % interval], max (n valid samples, of how many), medians of the replicates

box · synthetic · load idle · shuffled, 4k pages, write ratio 0.5
WSS       warm touch            preemption     l3_migration
                  µs             fixed_4ms        fixed_4ms
4 KiB           1.00     5.00 [2.23, 7.77]   500 [223, 777]
                      max 9.00 (n 9 of 10)    max 900 (n 9)
                         1.00 to 9.00 in 9  100 to 900 in 9

"
    );
}

#[test]
fn a_narrow_terminal_gets_the_columns_below_each_other() {
    let events = [Event::None, Event::Preemption, Event::L3Migration, Event::MemoryMigration];
    let samples: Vec<Sample> = events.iter().map(|&event| Sample { event, ..sample() }).collect();
    let text = text(&summarize(&samples, Estimator::Difference), 60);
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 65), "{text}");
    assert_eq!(text.matches("WSS").count(), 3, "{text}");
}
