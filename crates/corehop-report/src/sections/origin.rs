// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections about the provenance of the numbers, with enough detail to reproduce the numbers and to
//! question them.

use serde_json::Value;

use crate::figure::{FigureTable, PageSection, SectionPlace};
use corehop_results::{FileNote, Results};

/// Returns the section about the provenance of every file.
pub(super) fn origin(data: &Results) -> Option<PageSection> {
    (!data.files.is_empty()).then(|| PageSection {
        tables: data.files.iter().map(provenance).collect(),
        ..PageSection::new(SectionPlace::Origin, "provenance", "Provenance")
    })
}

fn provenance(file: &FileNote) -> FigureTable {
    let of = &file.provenance;
    let mut table = FigureTable::new(
        format!("{} ({} rows of {})", file.name, file.n_rows, file.rows),
        &["what", "value"],
    );
    let mut say = |what: &str, value: String| {
        if !value.is_empty() {
            table.rows.push(vec![what.to_owned(), value]);
        }
    };
    say("incomplete", file.incomplete.clone().unwrap_or_default());
    say("checksums", file.verification.doubt().unwrap_or_default().to_owned());
    say("experiment", of.experiment.clone());
    say("command", of.command.join(" "));
    say("date", of.date.clone());
    say("seed", of.seed.to_string());
    say("corehop", of.corehop.clone());
    say("schema of the rows", file.schema.to_string());
    say("plan digest", of.plan_digest.clone());
    for (key, value) in &of.machine {
        // They stand in a section of their own.
        if key != "findings" {
            say(key, text(value));
        }
    }
    say("parameters", text(&of.parameters));
    say("platform", of.platform.clone());
    table
}

/// Writes a JSON string as the string itself, and any other JSON value as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    }
}
