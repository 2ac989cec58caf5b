// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop convert`

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use corehop_plan::samples::{FileError, copy_parquet};
use corehop_plan::shown;
use corehop_plan::workload::foreign::{Stated, TimeUnit};
use corehop_plan::workload::task::MOST_CPUS;
use corehop_plan::workload::{rt_app, set_file};
use corehop_sched::overhead::table::OverheadTable;
use corehop_stats::costs::CostTable;
use serde_json::json;

use crate::output::{AnswerBody, Force, OutputFile, answer, counted, either, note, stdout_layout};
use corehop_app::doubts;
use corehop_app::failure::{Exit, Failure, refuse};
use corehop_app::{input, task_files};

/// Convert task sets and cost tables to and from the formats of other programs, and files of rows to Parquet.
///
/// corehop recognises the format of the input file by its contents.
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    form: ConversionFormat,
}

/// The formats to which corehop converts a file.
#[derive(Debug, clap::Subcommand)]
enum ConversionFormat {
    /// Convert a task set of another program to JSON for `corehop check`: an rt-app workload, a table of tasks (CSV,
    /// YAML), or a model of SchedCAT, SimSo, Cheddar or MAST.
    Tasks(TaskConversionOptions),
    /// Convert a task set to an rt-app workload.
    RtApp(RtApp),
    /// Convert SchedCAT's table of cache-related delays (WSS, L1, L2, L3, MEM) to a cost table for `corehop check`.
    Costs(CostOptions),
    /// Convert a cost table (`corehop report --table csv`) to SchedCAT's table of cache-related delays. Given a table
    /// of overheads (TASK-COUNT, SCHEDULE, CXS, …), sort its rows; `corehop check --overheads` also reads the table
    /// unsorted.
    Schedcat(CostOptions),
    /// Convert a file of `corehop measure`, or its `.part`, to Parquet with checksums and every column.
    Rows(RowsForm),
}

/// The options for the input file and the output file.
#[derive(Debug, clap::Args)]
struct ConvertOptions {
    /// The file to convert.
    file: PathBuf,
    /// Write the result to this file; default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print a summary of the conversion as JSON; without -o, the summary has the result as `content`
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct TaskConversionOptions {
    #[command(flatten)]
    files: ConvertOptions,
    /// State the number of CPUs of the set; default: the CPUs that the file names, at least one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CPUS)))]
    cpus: Option<u32>,
    /// Read times without a unit in this unit: ns, us, ms or s. Without this option, a time without a unit is an
    /// error.
    #[arg(long, value_name = "UNIT")]
    unit: Option<TimeUnit>,
}

#[derive(Debug, clap::Args)]
struct RtApp {
    #[command(flatten)]
    files: ConvertOptions,
    /// Let the rt-app workload run for this many seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=2_147_483_647)
    )]
    duration: u32,
}

#[derive(Debug, clap::Args)]
struct CostOptions {
    #[command(flatten)]
    files: ConvertOptions,
    /// Use the costs under this background load; default: idle.
    #[arg(long, value_name = "LOAD")]
    load: Option<String>,
    /// Use this statistic of the costs; default: max.
    #[arg(long, value_name = "NAME")]
    statistic: Option<String>,
}

#[derive(Debug, clap::Args)]
struct RowsForm {
    #[command(flatten)]
    files: ConvertOptions,
    /// Keep the intact rows of a damaged file.
    #[arg(long)]
    salvage: bool,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.form {
        ConversionFormat::Tasks(it) => {
            it.files
                .rewritten("tasks", &task_files::convertible(), input::text, |text| it.set(text))
        }
        ConversionFormat::RtApp(it) => {
            it.files.rewritten("rt-app", "a task set (JSON)", input::text, |text| it.workload(text))
        }
        ConversionFormat::Costs(it) => {
            it.files.rewritten("costs", "a cost table (CSV)", input::table, |text| it.table(text))
        }
        ConversionFormat::Schedcat(it) => {
            it.files
                .rewritten("schedcat", "a cost table (CSV)", input::table, |text| it.schedcat(text))
        }
        ConversionFormat::Rows(it) => it.run(),
    }
}

impl ConvertOptions {
    fn output(&self) -> Result<Option<OutputFile>, Failure> {
        OutputFile::if_asked(self.output.as_ref(), &[&self.file], self.force)
    }

    /// Reads the input text, and writes the text that `rewrite` returns.
    fn rewritten(
        &self,
        form: &str,
        wanted: &str,
        read: impl Fn(&Path) -> Result<String, Failure>,
        rewrite: impl Fn(&str) -> Result<String, Failure>,
    ) -> Result<Exit, Failure> {
        let output = self.output()?;
        let text = read(&self.file)?;
        let rewritten = rewrite(&text).map_err(|failure| match failure.exit() {
            Exit::Damaged => failure.context(input::named_with_format(&self.file, &text, wanted)),
            _ => failure.context(shown::path(&self.file)),
        })?;
        if let Some(file) = &output {
            file.write(&rewritten)?;
        }
        self.ended(form, "", output.is_none().then_some(&*rewritten))
    }

    /// Ends the command with a sentence that names the formats of input and output and the output file.
    fn ended(&self, form: &str, detail: &str, data: Option<&str>) -> Result<Exit, Failure> {
        let file = shown::path(&self.file);
        let sentence = match &self.output {
            Some(output) => {
                format!(
                    "corehop wrote {file}, converted to {form}{detail}, to {}.",
                    shown::path(output)
                )
            }
            None => format!("corehop converted {file} to {form}{detail}."),
        };
        let json = || {
            json!({
                "file": self.output.as_deref().map(shown::value), "form": form, "of": shown::value(&self.file), "sentence": sentence,
                "content": data,
            })
        };
        match data {
            Some(data) if !self.json => answer(&sentence, AnswerBody::Data(data))?,
            _ => {
                let json = self.json.then(|| doubts::with(json()));
                either(&sentence, json.as_ref(), String::new)?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Prints each note on stderr, wrapped to the terminal's width.
fn say_all(notes: &[String]) {
    let page = stdout_layout();
    for sentence in notes {
        note(page.wrap(sentence, 6).trim_end());
    }
}

/// A writer that remembers whether a write failed, so that other errors can be attributed to the input.
struct Noting<'a> {
    out: &'a mut File,
    failed: bool,
}

impl Write for Noting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).inspect_err(|_| self.failed = true)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().inspect_err(|_| self.failed = true)
    }
}

impl RowsForm {
    /// Writes the rows of a file as Parquet.
    fn run(&self) -> Result<Exit, Failure> {
        let file = &self.files.file;
        let lacks =
            || Failure::says(Exit::Usage, "rows are written as Parquet: name a file with -o");
        let output = self.files.output()?.ok_or_else(lacks)?;
        let mut reader = if self.salvage { input::salvage(file) } else { input::open(file) }?;
        let mut provenance = reader.kind().provenance.clone();
        let is_torn = reader.truncated().then(|| "the file was cut off during writing".to_owned());
        let lost = reader.damage().map(|damage| format!("damaged, {damage}")).or(is_torn);
        if let Some(lost) = &lost {
            // Every reader says so of the new file.
            provenance.stopped_by.get_or_insert_with(|| format!("rows kept of a file: {lost}"));
        }
        let mut kept = 0;
        output.fill_by(|out| {
            let mut out = Noting { out, failed: false };
            let written = copy_parquet(&mut reader, &provenance, &mut out);
            let target = || format!("writing {}", shown::path(output.path()));
            kept = written.map_err(|error| match error {
                FileError::Io(error) if out.failed => {
                    Failure::new(Exit::Failed, error).context(target())
                }
                error => Failure::from(error).context(shown::path(file)),
            })?;
            Ok(())
        })?;
        let lost = lost.map(|lost| format!("the input: {lost}; "));
        let detail = format!(" ({}{} are kept)", lost.unwrap_or_default(), counted(kept, "row"));
        self.files.ended("rows", &detail, None)
    }
}

impl TaskConversionOptions {
    fn set(&self, text: &str) -> Result<String, Failure> {
        let read = task_files::converted(text, Stated { cpus: self.cpus, unit: self.unit })?;
        say_all(&read.notes);
        Ok(format!("{:#}\n", set_file::write(&read.set)))
    }
}

impl RtApp {
    fn workload(&self, text: &str) -> Result<String, Failure> {
        let set = set_file::parse(text).map_err(|error| Failure::new(Exit::Damaged, error))?;
        let written = rt_app::write(&set, self.duration);
        let written = written.map_err(|error| Failure::new(Exit::NotPossible, error))?;
        say_all(&written.notes);
        Ok(written.text)
    }
}

impl CostOptions {
    /// Converts the table to corehop's own format.
    fn table(&self, text: &str) -> Result<String, Failure> {
        if OverheadTable::is_one(text) {
            return self.overheads(text);
        }
        // SchedCAT's table does not state its load and its statistic; our own states those of each row.
        if !CostTable::is_schedcat(text) {
            self.refuse_choice("the table already states the load and the statistic of each row")?;
        }
        Ok(self.parsed(text)?.csv())
    }

    /// Converts the table to SchedCAT's format.
    fn schedcat(&self, text: &str) -> Result<String, Failure> {
        if OverheadTable::is_one(text) {
            return self.overheads(text);
        }
        let (table, (load, statistic)) = (self.parsed(text)?, self.choice());
        let costs = table.select(load, statistic).ok_or_else(|| {
            let known: Vec<String> =
                table.selections().map(|(load, what, _)| format!("{load} {what}")).collect();
            let known = known.join(", ");
            let what = format!("the table has no costs for the load {load} and the statistic {statistic}, only for {known}");
            Failure::says(Exit::Usage, what)
        })?;
        Ok(costs.schedcat())
    }

    /// Reads a table of overheads, which has a single format.
    fn overheads(&self, text: &str) -> Result<String, Failure> {
        let table =
            OverheadTable::parse(text).map_err(|error| Failure::new(Exit::Damaged, error))?;
        self.refuse_choice(
            "a table of overheads has no background loads and statistics to choose from",
        )?;
        Ok(table.schedcat())
    }

    fn parsed(&self, text: &str) -> Result<CostTable, Failure> {
        let (load, statistic) = self.choice();
        CostTable::parse_as(text, load, statistic)
            .map_err(|error| Failure::new(Exit::Damaged, error))
    }

    fn choice(&self) -> (&str, &str) {
        (self.load.as_deref().unwrap_or("idle"), self.statistic.as_deref().unwrap_or("max"))
    }

    fn refuse_choice(&self, why: &str) -> Result<(), Failure> {
        let given = [("--load", self.load.is_some()), ("--statistic", self.statistic.is_some())];
        refuse(why, &given)
    }
}
