// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the main result, and about how far to trust it.

use super::machine;
use super::panel::{count, median, panels, percent};
use crate::figure::{FigureTable, PageSection, SectionPlace};
use crate::table::{self, IN_ERROR, micros};
use corehop_plan::finding::Severity;
use corehop_plan::units::Bytes;
use corehop_plan::workload::Event;
use corehop_results::{FileNote, Results};
use corehop_stats::classes::Classes;
use corehop_stats::control::within_error;
use corehop_stats::delay::ALPHA;
use corehop_stats::distance::LevelStay;
use corehop_stats::replicates::{FEWEST_REPLICATES, ReplicateDrift};
use corehop_stats::saturation::SWEEP;
use corehop_stats::summary::CellSummary;

/// The number of working-set sizes in the first table.
const SIZES: usize = 6;

/// Returns the section about the delays of the first panel that is no sweep, such as the panel of an idle machine with
/// base pages.
pub(super) fn overview(data: &Results) -> Option<PageSection> {
    let sweep = |summary: &&CellSummary| &*summary.cell.experiment == SWEEP;
    let panels = panels(data.jobs.summaries.iter());
    let panel = panels.iter().find(|panel| !sweep(&panel.cells[0])).or(panels.first())?;
    let sizes = panel.sizes();
    let shown: Vec<u64> = some_of(&sizes);
    let mut table = FigureTable::new(
        format!("Delay in µs ({}): median [95 % interval], and the greatest", panel.label),
        &["event"],
    )
    .shown();
    table.head.extend(shown.iter().map(|&wss| Bytes::new(wss).to_string()));
    table.rows.push(line("warm touch itself", &shown, |wss| {
        let with_it = panel.cells.iter().find(|cell| cell.cell.wss_bytes == wss)?;
        Some(micros(with_it.warm_us?.estimate))
    }));
    for (name, cells) in panel.series() {
        table.rows.push(line(&name, &shown, |wss| {
            let cell = cells.iter().find(|cell| cell.cell.wss_bytes == wss)?;
            let delay = cell.delay.as_ref()?;
            let mark = if within_error(cell, &data.jobs.summaries) { IN_ERROR } else { "" };
            Some(format!(
                "{mark}{}\nmax {}",
                median(delay).replacen(' ', "\n", 1),
                micros(delay.max.value)
            ))
        }));
    }
    let total = &data.budget.total;
    let section = PageSection::new(SectionPlace::Detail, "overview", "In short")
        .says(
            "The additional time of a thread after an absence, because its working set is no longer in its caches: the time of the first touch after the event minus the time of a warm touch. Columns are working-set sizes.",
        )
        .says(format!(
            "{} of {} samples are valid ({}); no sample was dropped, and every statistic here is over \
             valid ones. Delays are computed by the estimator {}.",
            total.n_valid,
            total.n_all,
            percent(total.valid_share),
            data.estimator,
        ));
    let marked = table.rows.iter().flatten().any(|field| field.starts_with(IN_ERROR));
    let section = if marked { section.says(table::IN_ERROR_MEANS) } else { section };
    Some(PageSection { tables: vec![table], ..section })
}

fn line(name: &str, sizes: &[u64], field: impl Fn(u64) -> Option<String>) -> Vec<String> {
    let fields = sizes.iter().map(|&wss| field(wss).unwrap_or_else(|| "–".to_owned()));
    std::iter::once(name.to_owned()).chain(fields).collect()
}

/// Chooses at most [`SIZES`] sizes at even steps, always with the last size.
fn some_of(sizes: &[u64]) -> Vec<u64> {
    let step = sizes.len().div_ceil(SIZES).max(1);
    let mut some: Vec<u64> = sizes.iter().rev().step_by(step).copied().collect();
    some.reverse();
    some
}

/// Returns the section about the facts that weaken the numbers of this report.
pub(super) fn trust(data: &Results) -> Option<PageSection> {
    let mut points = Vec::new();
    for file in &data.files {
        points.extend(file.incomplete.as_ref().map(|why| format!("{}: {why}.", file.name)));
    }
    points.extend(control(&data.jobs.summaries));
    points.extend(table::leaving(&data.jobs.summaries));
    for machine in &data.machines {
        let grave = machine.findings.iter().filter(|it| it.severity >= Severity::Warning);
        points.extend(grave.map(|finding| format!("{}. {}", capital(&finding.found), finding.why)));
    }
    points.extend(
        machine::missing_classes(data).into_iter().map(|class| {
            format!("Not measurable here: {} ({}).", class.affinity.event(), class.why)
        }),
    );
    points.extend(few_replicates(&data.jobs.summaries));
    points.extend(drifting(&data.jobs.summaries));
    points.extend(data.files.iter().filter_map(distance));
    points.extend(data.files.iter().filter_map(no_distance));
    points.extend(data.files.iter().filter_map(unseen_frames));
    points.extend(stopped_by_the_data(data));
    points.extend(censored(&data.jobs.summaries));
    points.extend(weak_certificates(&data.jobs.summaries));
    (!points.is_empty()).then(|| PageSection {
        text: points,
        ..PageSection::new(SectionPlace::Trust, "trust", "How far to trust this")
    })
}

/// Makes a clause the beginning of a sentence, with a capital letter.
fn capital(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a sentence about the control, in which a job touches its working set again at once.
fn control(summaries: &[CellSummary]) -> Option<String> {
    let shares = summaries
        .iter()
        .filter(|summary| summary.cell.event == Event::None)
        .filter_map(|summary| Some((summary.cell.wss_bytes, summary.delay.as_ref()?.over_warm?)));
    let (wss, worst) = shares.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
    Some(format!(
        "The control none (touched again at once) should cost nothing: its median delay is at most {} of the warm touch, at {}. Delays below that share are not meaningful.",
        percent(worst.abs()),
        Bytes::new(wss)
    ))
}

/// Returns a sentence about the cells that have no interval because they have too few replicates.
fn few_replicates(summaries: &[CellSummary]) -> Option<String> {
    let few = |it: &&CellSummary| it.delay.as_ref().is_some_and(|delay| !delay.has_replicates());
    let cells = summaries.iter().filter(few).count();
    (cells > 0).then(|| {
        format!(
            "{cells} of {} cells have fewer than {FEWEST_REPLICATES} replicates, and therefore no interval: one replicate does not predict the next. Their medians describe one moment.",
            summaries.len()
        )
    })
}

/// Returns a sentence about the cells whose replicates rise or fall during the run, if there are more
/// such cells than chance would produce.
fn drifting(summaries: &[CellSummary]) -> Option<String> {
    let tested: Vec<(&CellSummary, ReplicateDrift)> =
        summaries.iter().filter_map(|it| Some((it, it.delay.as_ref()?.drift?))).collect();
    let found: Vec<&(&CellSummary, ReplicateDrift)> =
        tested.iter().filter(|(_, it)| it.drifts).collect();
    // One in twenty does where nothing drifts; cells of one run drift together.
    let many = found.len() as f64 > 2.0 * ALPHA * tested.len() as f64 + 1.0;
    let worst = found.iter().min_by(|a, b| a.1.p_value.total_cmp(&b.1.p_value)).filter(|_| many)?;
    Some(format!(
        "In {} of {} cells the replicates rise or fall during the run; by chance alone, one cell in twenty would. The change is clearest for {} at {}, load {}: the second half of the run differs by {} µs from the first half. The machine changed during the run, and the next run may lie outside these intervals: measure longer, or when fewer other programs run.",
        found.len(),
        tested.len(),
        worst.0.cell.event,
        Bytes::new(worst.0.cell.wss_bytes),
        worst.0.cell.load,
        micros(worst.1.shift)
    ))
}

/// Returns a sentence about the distances between CPUs that the line exchanges of a run revealed.
fn distance(file: &FileNote) -> Option<String> {
    let classes: Classes =
        serde_json::from_value(file.provenance.machine.get("distance")?.clone()).ok()?;
    let of = classes.pairs.iter().find(|of| of.levels.count() > 1)?;
    let stay = |stay: &LevelStay| {
        let length = stay.median_stay_s.map_or_else(
            || format!("at most {:.1} s at a time", stay.longest_stay_s),
            |seconds| format!("{seconds:.1} s at a time (median)"),
        );
        format!("{:.0} ns for {} of the time, {length}", stay.level.median_ns, percent(stay.share))
    };
    let stays: Vec<String> = of.stays.levels.iter().map(stay).collect();
    Some(format!(
        "{}: CPUs that are declared {} apart alternated between {} distances: {}. The hypervisor moves its virtual CPUs. Each sample has the class that was measured around it; {} changes were seen in {:.0} s.",
        file.name,
        of.declared,
        stays.len(),
        stays.join("; "),
        of.stays.changes,
        of.stays.seconds
    ))
}

/// Returns a sentence about page frames of replicates that corehop could not renew or check, with the
/// reason.
fn unseen_frames(file: &FileNote) -> Option<String> {
    let renewal = file.provenance.machine.get("renewal")?;
    let why = |name: &str| renewal.get(name)?.as_str();
    if let Some(why) = why("why_not_fresh") {
        return Some(format!(
            "{}: corehop renewed the page frames of replicates in place ({why}).",
            file.name
        ));
    }
    let why = why("why_not_seen")?;
    let name = &file.name;
    Some(format!(
        "{name}: corehop could not check whether replicates had their own frames ({why})."
    ))
}

/// Returns a sentence about the reason why no cache lines were exchanged.
fn no_distance(file: &FileNote) -> Option<String> {
    let why = file.provenance.machine.get("no_exchange")?.as_str()?;
    Some(format!(
        "{}: {why}, so no lines were exchanged, and corehop could not check whether the hypervisor moved that CPU.",
        file.name
    ))
}

/// Returns a sentence about runs that ended when corehop had seen enough, because such a run makes
/// intervals somewhat too narrow.
fn stopped_by_the_data(data: &Results) -> Option<String> {
    let ended = |word: &&String| word.starts_with("--precision") || word.starts_with("--budget");
    let commands = data.files.iter().flat_map(|file| &file.provenance.command);
    let words: std::collections::BTreeSet<&str> =
        commands.filter(ended).map(|word| word.split('=').next().unwrap_or(word)).collect();
    let words: Vec<&str> = words.into_iter().collect();
    (!words.is_empty()).then(|| {
        format!(
            "The number of samples was decided during the run ({}); the intervals assume a fixed number, and are somewhat too narrow.",
            words.join(", ")
        )
    })
}

/// Returns a sentence about the cell that lost the largest share of its samples.
fn censored(summaries: &[CellSummary]) -> Option<String> {
    let worst = summaries.iter().min_by(|a, b| a.valid_share.total_cmp(&b.valid_share))?;
    (worst.n_valid < worst.n_all).then(|| {
        format!(
            "Disturbed samples are flagged and excluded from the statistics; the most disturbed cell is {} at {}, load {}, with {} valid.",
            worst.cell.event,
            Bytes::new(worst.cell.wss_bytes),
            worst.cell.load,
            count(worst)
        )
    })
}

/// Returns a sentence about the valid samples that were certified without restartable sequences.
fn weak_certificates(summaries: &[CellSummary]) -> Option<String> {
    use corehop_plan::samples::Certificate;
    let weak: usize = summaries
        .iter()
        .flat_map(|summary| &summary.certificates)
        .filter(|(certificate, _)| {
            !matches!(certificate, Certificate::RseqAndGaps | Certificate::Simulated)
        })
        .map(|(_, count)| count)
        .sum();
    (weak > 0).then(|| {
        format!(
            "{weak} valid samples are certified without restartable sequences, so a short preemption within them may be missed."
        )
    })
}
