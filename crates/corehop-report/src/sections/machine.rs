// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the machine, and about the findings of the doctor on it.

use crate::figure::{FigureTable, PageSection, SectionPlace};
use crate::platform_svg;
use corehop_plan::platform::{MissingClass, Platform};
use corehop_results::Results;

/// Returns the section with the drawing of each machine, and with the classes of migration that the machine cannot
/// measure.
pub(super) fn machines(data: &Results) -> Option<PageSection> {
    let known: Vec<_> =
        data.machines.iter().filter_map(|machine| machine.platform.as_ref()).collect();
    let first = known.first()?;
    let mut section = PageSection::new(SectionPlace::Machine, "machine", "The machine");
    section.drawing = Some(known.iter().map(|it| platform_svg::draw(it)).collect());
    if let Some(hypervisor) = &first.hypervisor {
        section.text.push(format!(
            "This host is a guest of {}: the hypervisor declares the caches and CPUs of the guest.",
            hypervisor.value
        ));
    }
    let mut table =
        FigureTable::new("Classes that cannot be measured here", &["class", "because"]).shown();
    for class in missing_classes(data) {
        table.rows.push(vec![class.affinity.event().to_owned(), class.why]);
    }
    section.tables = vec![table];
    section.tables.retain(|table| !table.rows.is_empty());
    Some(section)
}

/// Returns the classes that no two CPUs of a machine have, except those for which the files have rows: a hypervisor
/// that moves its virtual CPUs makes distances that the machine does not declare.
pub(super) fn missing_classes(data: &Results) -> Vec<MissingClass> {
    let measured: Vec<&str> = data.jobs.summaries.iter().map(|it| it.cell.event.word()).collect();
    let known = data.machines.iter().filter_map(|machine| machine.platform.as_ref());
    let missing = known.flat_map(Platform::missing_classes);
    missing.filter(|class| !measured.contains(&class.affinity.event())).collect()
}

/// Returns the section about the findings of the doctor, with the most important findings first.
pub(super) fn findings(data: &Results) -> Option<PageSection> {
    let mut table = FigureTable::new(
        "Found before the run",
        &["what", "severity", "found", "why it matters", "remedy"],
    )
    .shown();
    let mut findings: Vec<_> = data.machines.iter().flat_map(|machine| &machine.findings).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in findings {
        let remedy = [&finding.remedy, &finding.remark];
        table.rows.push(vec![
            finding.id.clone(),
            finding.severity.to_string(),
            finding.found.clone(),
            finding.why.clone(),
            remedy.into_iter().flatten().cloned().collect::<Vec<_>>().join("; "),
        ]);
    }
    (!table.rows.is_empty()).then(|| PageSection {
        tables: vec![table],
        ..PageSection::new(SectionPlace::Machine, "findings", "Findings of the doctor")
            .says("Limits of this host, and threats to a measurement. `corehop help WORD` explains each finding.")
    })
}
