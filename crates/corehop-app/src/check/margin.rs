// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the margin of an answer as text, and its schedule as a picture.

use corehop_plan::shown;
use corehop_report::{schedule_svg, schedule_text};
use corehop_sched::TaskSet;
use corehop_sched::margin::Margin;

use crate::failure::Failure;
use crate::file::OutputFile;
use crate::voice::note;

/// The heading of the line about the schedule.
fn head(margin: &Margin) -> &'static str {
    if margin.is_accepted() { "busiest" } else { "miss" }
}

/// Returns the lines about the margin, each as a heading with a sentence.
pub(super) fn lines(set: &TaskSet, margin: &Margin) -> Vec<(&'static str, String)> {
    let mut lines = margin.lines(set);
    if let Some(found) = &margin.schedule {
        let sentence = schedule_text::sentence(set, found, margin.is_accepted());
        lines.push((head(margin), sentence));
    }
    lines
}

/// The schedule as bars of `width` columns, if there is a schedule.
pub(super) fn bars(set: &TaskSet, margin: &Margin, width: usize) -> Option<String> {
    let (schedule, _) = margin.schedule.as_ref()?.as_ref().ok()?.schedule.as_ref()?;
    Some(schedule_text::bars(set, schedule, width))
}

/// Writes the picture of the schedule, if there is a schedule.
pub(super) fn draw(
    file: &OutputFile,
    set: &TaskSet,
    margin: &Margin,
    title: &str,
) -> Result<(), Failure> {
    let Some(found) = &margin.schedule else { return Ok(()) };
    let sentence = schedule_text::sentence(set, found, margin.is_accepted());
    if let Some((schedule, _)) = found.as_ref().ok().and_then(|found| found.schedule.as_ref()) {
        return file.write(schedule_svg::draw(set, schedule, title, &sentence));
    }
    note(&format!("corehop did not write {}: {sentence}", shown::path(file.path())));
    Ok(())
}
