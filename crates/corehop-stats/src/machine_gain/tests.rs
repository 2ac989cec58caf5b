// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of forms that are fitted to rows with a known law.

use super::rows::Inputs;
use super::*;
use corehop_plan::workload::gang::Sharing;

fn platform() -> Platform {
    Platform::named("xeon_e5520").unwrap().unwrap()
}

fn row(program: &str, items: u64, x: f64, ratio: f64) -> GainRow {
    GainRow {
        program: program.to_owned(),
        items,
        parameters: String::new(),
        sharing: Sharing::Write,
        threads: 2,
        ratio,
        low: None,
        high: None,
        replicates: None,
        inputs: Inputs { turns: 1.0, smr: Some(1.0), mpmi: Some(x), ..Inputs::default() },
    }
}

fn gain(rows: Vec<GainRow>) -> MachineGain {
    let crowding = laws::crowding(&rows);
    let forms = judge::judged(&rows, crowding);
    let taken = judge::best(&forms).unwrap();
    MachineGain {
        host: HostIdentity { platform: platform(), identity: None },
        simulated: true,
        date: "2026-11-25".to_owned(),
        near: Placing::Shared,
        far: Placing::Separate,
        rows,
        crowding,
        forms,
        taken,
    }
}

/// Returns rows of two programs that follow a saturating law.
fn saturating() -> Vec<GainRow> {
    let law = |x: f64| 1.0 - 0.5 * x / (5_000.0 + x);
    let sizes = [100, 1_000, 10_000, 100_000];
    let of = |program, more: f64| {
        sizes.map(|items| {
            let x = more + (items as f64).ln() * 1_000.0;
            row(program, items, x, law(x))
        })
    };
    [of("swap", 0.0), of("exchange", 500.0)].concat()
}

#[test]
fn the_form_that_made_the_rows_is_taken_and_is_hardly_off() {
    let it = gain(saturating());
    assert_eq!(it.taken, Form::Saturating);
    let judged = it.form(Form::Saturating).unwrap().by_program.clone().unwrap();
    assert_eq!((judged.groups, judged.rows), (2, 8));
    assert!(judged.worst < 1.01, "{judged:?}");
    let product = it.form(Form::Product).unwrap().judged().unwrap();
    assert!(product.mean > 1.02, "{product:?}");
    // Of two left out nothing better can be said.
    assert!((judged.level - 2.0 / 3.0).abs() < 1e-12);
}

#[test]
fn a_size_between_others_is_predicted_and_one_beyond_is_not() {
    let it = gain(saturating());
    let asked =
        |items| GainSubject::Program { program: "swap".to_owned(), items, sharing: Sharing::Write };
    let between = it.predict(&asked(3_000)).unwrap();
    let truth = 1.0 - 0.5 * 8_006.4 / 13_006.4;
    assert!((between.ratio.unwrap() - truth).abs() < 0.01, "{between:?} against {truth}");
    assert!(between.low.unwrap() <= truth && truth <= between.high.unwrap(), "{between:?}");
    let measured = it.predict(&asked(1_000)).unwrap();
    assert_eq!((measured.by, measured.ratio), (None, Some(it.rows[1].ratio)));
    assert!(matches!(it.predict(&asked(1_000_000)), Err(NoGain::Beyond { .. })));
    let other =
        GainSubject::Program { program: "sort".to_owned(), items: 100, sharing: Sharing::Write };
    let error = it.predict(&other).unwrap_err().to_string();
    assert!(error.contains("swap (write)"), "{error}");
}

#[test]
fn beyond_the_range_of_counts_there_are_bounds() {
    let it = gain(saturating());
    let at = |mpmi| it.predict(&GainSubject::Counts { smr: 1.0, mpmi }).unwrap();
    let (most, least) = (at(1e6), at(10.0));
    assert_eq!((most.ratio, most.low), (None, None), "no less than at the largest: {most:?}");
    assert!(most.high.unwrap() < 0.7 && most.gain() > 0.3, "{most:?}");
    assert_eq!((least.ratio, least.high), (None, None));
    assert!(at(8_000.0).ratio.is_some());
}

#[test]
fn lines_are_fitted_where_nothing_is_counted_and_counts_get_no_answer_then() {
    let line = |program, items, handed_over: f64, alone: f64| {
        // On one CPU two take turns; far each line takes half of 80 ns.
        let ratio = 2.0 * alone / (alone + 0.5 * handed_over * 80.0);
        let inputs = Inputs {
            turns: 2.0,
            handed_over: Some(handed_over),
            far_line_ns: Some(80.0),
            near_line_ns: Some(0.0),
            alone_ns: Some(alone),
            ..Inputs::default()
        };
        GainRow { inputs, ..row(program, items, 0.0, ratio) }
    };
    let rows = vec![
        line("swap", 100, 2.0, 10.0),
        line("swap", 800, 1.5, 20.0),
        line("sort", 100, 1.0, 5.0),
    ];
    let it = gain(rows);
    assert_eq!(it.taken, Form::Lines);
    let GainLaw::Lines { each } = it.form(Form::Lines).unwrap().law else { panic!("{it:?}") };
    assert!((each / 0.5 - 1.0).abs() < 0.03, "{each}");
    assert!(it.form(Form::Saturating).is_none());
    let nothing = it.predict(&GainSubject::Counts { smr: 1.0, mpmi: 1_000.0 });
    assert!(matches!(nothing, Err(NoGain::Lacks { .. })));
}

#[test]
fn a_form_by_which_more_sharing_gains_less_is_not_taken() {
    let rising = |it: GainRow| GainRow { ratio: 1.0 / it.ratio, ..it };
    let rows: Vec<GainRow> = saturating().into_iter().map(rising).collect();
    let forms = judge::judged(&rows, None);
    // What is printed is not fitted, and falls.
    assert_eq!(forms.iter().map(|it| it.form).collect::<Vec<_>>(), [Form::Printed]);
}

#[test]
fn what_fits_only_while_threads_are_apart_raises_the_ratio_as_the_twins_say() {
    let crowded = |program: &str, sharing, x, crowded, ratio| {
        let plain = row(program, 100, x, ratio);
        GainRow { sharing, inputs: Inputs { crowded: Some(crowded), ..plain.inputs }, ..plain }
    };
    let mut rows = vec![
        crowded("swap", Sharing::None, 0.0, 0.25, 1.5),
        crowded("sort", Sharing::None, 0.0, 0.5, 2.0),
    ];
    assert_eq!(laws::crowding(&rows), Some(2.0));
    rows.extend(saturating());
    let it = gain(rows);
    let form = it.form(Form::Saturating).unwrap();
    assert!(form.judged().unwrap().worst < 1.01, "{form:?}");
    assert_eq!(laws::crowding(&saturating()), None);
}

#[test]
fn a_file_of_gains_is_read_back_to_the_last_bit_and_other_files_are_refused() {
    let it = gain(saturating());
    let text = it.to_json();
    assert!(MachineGain::is_meant(&text));
    assert_eq!(MachineGain::from_json(&text).unwrap(), it);
    let refused = |text: &str| MachineGain::from_json(text).unwrap_err().to_string();
    assert!(refused(&text[..text.len() / 2]).contains("shared-data"));
    assert!(refused(&text.replace("corehop-gain-1", "corehop-gain-9")).contains("corehop-gain-9"));
    assert!(refused("{\"schema\": \"corehop-model-1\"}").contains("corehop-model-1"));
    assert!(
        refused(&text.replace("\"taken\": \"saturating\"", "\"taken\": \"lines\""))
            .contains("`lines`")
    );
}

#[test]
fn runs_of_several_machines_are_refused_and_so_are_runs_without_a_second_placing() {
    let host = || HostIdentity { platform: platform(), identity: None };
    let fit =
        |all: &[SharingSummary]| MachineGain::fit(all, host(), true, String::new()).unwrap_err();
    assert_eq!(fit(&[]), NoFit::Nothing);
    let of = |machine: &str| SharingSummary {
        machine: machine.to_owned(),
        program: "swap".to_owned(),
        items: 100,
        parameters: String::new(),
        sharing: Sharing::Write,
        threads: Some(2),
        shared: None,
        separate: None,
        same: None,
        moved: None,
        runtime_ratio: None,
        ratio_interval: None,
        replicates: None,
        predicted_ratio: None,
    };
    assert_eq!(fit(&[of("a"), of("b")]), NoFit::Machines("a, b".to_owned()));
}
