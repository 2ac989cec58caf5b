// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop` lists the contents of a file of rows as text and as JSON.

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use serde_json::{Value, json};

use super::figure::FigureTable;
use super::sections;
use super::table::plain;
use corehop_plan::samples::RowKind;
use corehop_plan::shown;
use corehop_results::{FileNote, Results};
use corehop_stats::tasks::Under;

/// Lists the name and the meaning of each column of the row type that `rows` names.
pub fn columns(rows: &str) -> Vec<(&'static str, &'static str)> {
    RowKind::named(rows).map_or_else(Vec::new, RowKind::docs)
}

/// Returns a sentence about the number of rows in the files, the valid rows among them, and the
/// machine that the rows come from.
pub fn sentence(data: &Results) -> String {
    let of_one_run = deadlines(data).filter(|_| data.files.len() == 2);
    if let Some(deadlines) = of_one_run {
        return deadlines;
    }
    let [file] = data.files.as_slice() else {
        let rows: u64 = data.files.iter().map(|file| file.n_rows).sum();
        return format!("{} files hold {rows} rows.", data.files.len());
    };
    let of = &file.provenance;
    let machine = corehop_plan::platform::Platform::from_toml(&of.platform);
    let machine = machine.map_or_else(|_| String::new(), |it| format!(" on {}", it.name));
    let total = &data.budget.total;
    let valid = match total.n_all {
        0 => String::new(),
        _ => format!(", {} of them valid", total.n_valid),
    };
    let incomplete = file.incomplete.as_ref().map(|why| format!("; {why}"));
    let text = format!(
        "{} holds {} rows of `{}`{valid}, of {}{machine}{}.",
        file.name,
        file.n_rows,
        file.rows,
        of.experiment,
        incomplete.unwrap_or_default()
    );
    shown::line(&text).into_owned()
}

/// The main sentence of a report states the costs, or describes the contents of the files if no
/// cost was measured.
pub fn answer(data: &Results) -> String {
    let of_a_program = || {
        let costs = &data.program_costs;
        (!costs.is_empty()).then(|| super::program_costs::sentence(costs))
    };
    let answer = super::answer::answer(data).or_else(|| deadlines(data)).or_else(of_a_program);
    answer.unwrap_or_else(|| sentence(data))
}

/// Returns a sentence about the missed deadlines of task sets, which corehop counts in the file of
/// the jobs.
fn deadlines(data: &Results) -> Option<String> {
    if let Some(missing) = data.missing.iter().find(|it| it.kind == RowKind::TaskJobs) {
        return Some(format!("Missed deadlines are unknown: {missing}."));
    }
    let tasks = data.tasks.as_ref()?;
    let jobs: u64 = tasks.schedulers.iter().map(|it| it.misses.jobs).sum();
    let told = tasks.schedulers.iter().map(|misses| {
        let Under { scheduler, load, .. } = &misses.under;
        format!("{} of {} under {scheduler}, load {load}", misses.misses.missed, misses.misses.jobs)
    });
    let told = told.collect::<Vec<_>>().join("; ");
    (jobs > 0).then(|| format!("Deadlines missed by jobs: {told}."))
}

/// Describes the only file of `data` for a terminal.
pub fn text(data: &Results) -> String {
    let Some(file) = data.files.first() else { return String::new() };
    let mut text = String::new();
    let missing = data.missing.iter().map(|file| ("missing", file.to_string()));
    for (what, value) in facts(file).into_iter().chain(missing) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{what:<12}  {}", shown::line(&value));
    }
    text.push('\n');
    for table in counts(data) {
        text.push_str(&plain(&table));
    }
    text
}

fn facts(file: &FileNote) -> Vec<(&'static str, String)> {
    let of = &file.provenance;
    let machine = corehop_plan::platform::Platform::from_toml(&of.platform);
    let machine = machine.map_or_else(|_| String::new(), |it| format!("{} ({})", it.name, it.id));
    let mut facts = vec![
        ("file", file.name.clone()),
        ("holds", format!("{} rows of `{}`, schema {}", file.n_rows, file.rows, file.schema)),
        ("incomplete", file.incomplete.clone().unwrap_or_default()),
        ("checksums", file.verification.doubt().unwrap_or_default().to_owned()),
        ("experiment", of.experiment.clone()),
        ("machine", machine),
        ("command", of.command.join(" ")),
        ("date", of.date.clone()),
        ("seed", of.seed.to_string()),
        ("corehop", of.corehop.clone()),
        ("plan digest", brief(&of.plan_digest)),
    ];
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// Shortens the digests of a run's plans, which `+` joins, to the first digest and the number of
/// the others.
fn brief(digests: &str) -> String {
    match digests.split_once('+') {
        Some((first, others)) => {
            let others = 1 + others.matches('+').count();
            format!("{first}, and the digests of {others} further plans (--json has all)")
        }
        None => digests.to_owned(),
    }
}

/// Returns tables of the number of valid rows in each class, and of the causes that disturbed the
/// other rows.
fn counts(data: &Results) -> Vec<FigureTable> {
    let mut tables = Vec::new();
    let budget = &data.budget;
    for (label, fates) in
        [("event and load", &budget.by_event), ("working-set size", &budget.by_wss)]
    {
        let mut table = FigureTable::new(
            format!("rows by {label}"),
            &["of", "all", "valid", "repaired", "disturbed by"],
        );
        table.rows = fates
            .iter()
            .map(|fate| {
                let causes = fate.lost_to.iter().map(|(cause, count)| format!("{cause} {count}"));
                vec![
                    fate.of.clone(),
                    fate.n_all.to_string(),
                    fate.n_valid.to_string(),
                    fate.repaired.to_string(),
                    causes.collect::<Vec<_>>().join(", "),
                ]
            })
            .collect();
        tables.push(table);
    }
    tables.extend(sections::other_tables(data));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// Describes the only file of `data` as JSON.
pub fn json(data: &Results) -> Value {
    let Some(file) = data.files.first() else { return Value::Null };
    let columns: Vec<Value> = columns(&file.rows)
        .into_iter()
        .map(|(name, meaning)| json!({ "name": name, "meaning": meaning }))
        .collect();
    json!({
        "file": file.name,
        "rows": file.rows,
        "schema": file.schema,
        "n_rows": file.n_rows,
        "incomplete": file.incomplete,
        "verified": file.verification.is_verified(),
        "columns": columns,
        "budget": data.budget,
        "provenance": file.provenance,
    })
}

/// Turns each row of a batch into a JSON object, and leaves out a value that the row does not have.
pub fn rows(batch: &RecordBatch) -> Vec<Value> {
    let schema = batch.schema();
    let row = |row: usize| {
        let fields = schema.fields().iter().zip(batch.columns());
        let present = fields.filter(|(_, column)| column.is_valid(row));
        Value::Object(
            present.map(|(field, column)| (field.name().clone(), value(column, row))).collect(),
        )
    };
    (0..batch.num_rows()).map(row).collect()
}

fn value(column: &dyn Array, row: usize) -> Value {
    match column.data_type() {
        DataType::UInt64 => json!(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => json!(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => json!(column.as_boolean().value(row)),
        DataType::Utf8 => json!(column.as_string::<i32>().value(row)),
        DataType::List(_) => {
            let list = column.as_list::<i32>().value(row);
            (0..list.len()).map(|place| value(&list, place)).collect()
        }
        // Our row types have no other; a later schema is refused before.
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::example::sample;
    use corehop_plan::samples::example::switch_batch;
    use corehop_plan::samples::{Cause, Row as _, Sample, SwitchBatch};
    use corehop_results::Gather;
    use corehop_stats::estimator::Estimator;
    use corehop_stats::switches::not_measured;
    use std::sync::Arc;

    #[test]
    fn a_row_is_printed_with_its_columns_and_without_what_it_lacks() {
        let lost = Sample { valid: false, disturbed_by: vec![Cause::Gap], ..sample() };
        let schema = Arc::new(arrow_schema::Schema::new(Sample::fields()));
        let batch = RecordBatch::try_new(schema, Sample::columns(&[sample(), lost])).unwrap();
        let rows = rows(&batch);
        assert_eq!(
            (&rows[0]["warm_ns"], &rows[0]["event"]),
            (&json!(1000.0), &json!("preemption"))
        );
        assert_eq!((&rows[1]["valid"], &rows[1]["disturbed_by"]), (&json!(false), &json!(["gap"])));
        assert!(rows[0].get("task").is_none());
    }
    #[test]
    fn a_mechanism_that_was_not_measured_is_a_result_with_its_reason() {
        let failed = SwitchBatch {
            mean_ns: None,
            valid: false,
            not_measured: Some("no answer".into()),
            ..switch_batch()
        };
        let mut data = Gather::new(Estimator::Difference).finish();
        data.switches.not_measured = not_measured(&[failed]);
        let [result] = &sections::results(&data)[..] else {
            panic!("{:?}", sections::results(&data))
        };
        assert_eq!(result["why"], "no answer");
        assert!(result["mechanism"].is_string(), "{result}");
    }
}
