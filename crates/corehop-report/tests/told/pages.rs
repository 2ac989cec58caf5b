// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of every kind of result: their size, the order of their sections, and what they must not say.

use super::rows;
use corehop_plan::platform::Platform;
use corehop_plan::workload::Event;
use corehop_report::figure::SectionPlace;
use corehop_report::off_load::OffLoadAnswer;
use corehop_report::page;
use corehop_results::Results;
use corehop_stats::switches::SwitchResults;

const MOST_BYTES: usize = 400_000;

/// The results of `all` of which one kind remains, each with its name.
fn kinds(all: &Results) -> Vec<(&'static str, Results)> {
    let none = || {
        let mut data = all.clone();
        data.gangs.clear();
        data.supply.clear();
        (data.tasks, data.switches) = (None, SwitchResults::default());
        data.overheads.summaries.clear();
        data
    };
    vec![
        ("gangs", Results { gangs: all.gangs.clone(), ..none() }),
        ("tasks", Results { tasks: all.tasks.clone(), ..none() }),
        ("overheads", Results { overheads: all.overheads.clone(), ..none() }),
        ("switches", Results { switches: all.switches.clone(), ..none() }),
        ("supply", Results { supply: all.supply.clone(), ..none() }),
    ]
}

/// The pages of all kinds, each with its name.
fn pages() -> Vec<(&'static str, String)> {
    let mut pages: Vec<(&str, String)> = kinds(&rows::others().finish())
        .iter()
        .map(|(name, data)| (*name, page::page(data)))
        .collect();
    pages.push(("samples", page::page(&rows::samples().finish())));
    pages.push(("recorded", page::page(&rows::recorded(true).finish())));
    pages.push(("balanced", page::page(&rows::balanced().finish())));
    let off_load = r#"{"schema": "corehop-offload", "version": 1, "program": ["a"], "os_cores": "1",
        "by_call": [{"call": "read", "calls": 3, "here_ns": 12.5, "there_ns": 40.0}],
        "sentences": ["2 of 3 calls were made on CPU 1."]}"#;
    pages.push((
        "off-load",
        OffLoadAnswer::parse(off_load).unwrap().page("corehop report offload.json --table text"),
    ));
    pages
}

/// The first screen of a page.
fn front(page: &str) -> &str {
    page.split_once("<h1>").unwrap().1.split_once("</header>").unwrap().0
}

#[test]
fn every_page_is_small_and_folds_all_its_sections() {
    for (name, page) in pages() {
        assert!(page.len() <= MOST_BYTES, "{name}: {} bytes", page.len());
        let sections = page.matches("<section id=").count();
        assert!(sections > 0, "{name}");
        assert_eq!(page.matches("<details class=\"fold\"><summary>").count(), sections, "{name}");
    }
}

#[test]
fn every_page_has_its_sections_in_the_one_order() {
    for (name, page) in pages() {
        let places = SectionPlace::ALL.map(|it| page.find(&format!(">{}</p>", it.heading())));
        let found: Vec<usize> = places.into_iter().flatten().collect();
        assert!(!found.is_empty() && found.is_sorted(), "{name}: {places:?}");
    }
}

#[test]
fn every_first_screen_has_an_answer_a_chart_in_words_and_the_next_command() {
    for (name, page) in pages() {
        let front = front(&page);
        for part in ["class=\"answer\"", "class=\"words\"", "<strong>Next:</strong> <code>corehop "]
        {
            assert!(front.contains(part), "{name}: {part}: {front}");
        }
        for file in ["download=\"corehop.svg\"", "download=\"corehop.pdf\""] {
            assert!(front.contains(file), "{name}: {file}");
        }
    }
}

#[test]
fn the_first_screen_of_costs_says_how_sure_they_are_and_what_ran() {
    let page = page::page(&rows::samples().finish());
    let front = front(&page);
    for words in [
        "How sure: ",
        "replicates of each cost",
        "samples are valid",
        ">after 4 ms, nothing else ran<",
        ">after 4 ms, another job ran<",
    ] {
        assert!(front.contains(words), "{words}: {front}");
    }
}

#[test]
fn a_class_with_rows_is_not_called_unmeasurable() {
    let mut data = rows::samples().finish();
    let missing: Vec<String> = data
        .machines
        .iter()
        .filter_map(|it| it.platform.as_ref())
        .flat_map(Platform::missing_classes)
        .map(|class| class.affinity.event().to_owned())
        .collect();
    let class = missing.first().expect("a class that the machines lack");
    let unmeasurable = format!("Not measurable here: {class}");
    let says = |data: &Results| page::page(data).contains(&unmeasurable);
    data.jobs.summaries.retain(|it| it.cell.event.word() != class);
    assert!(says(&data), "{class}");
    let mut moved = data.jobs.summaries[0].clone();
    moved.cell.event = Event::ALL.iter().copied().find(|it| it.word() == class).unwrap();
    data.jobs.summaries.push(moved);
    assert!(!says(&data), "{class}");
}

#[test]
fn a_page_too_large_is_an_extract_that_names_the_command_for_the_rest() {
    let mut data = rows::samples().finish();
    let first = data.jobs.summaries.clone();
    for copy in 0..120 {
        data.jobs.summaries.extend(first.iter().cloned().map(|mut it| {
            it.cell.load = format!("load-{copy}").into();
            it
        }));
    }
    let page = page::page(&data);
    assert!(page.len() <= MOST_BYTES, "{} bytes", page.len());
    assert!(
        page.contains("An extract: ") && page.contains("--table text</code> prints everything.")
    );
}
