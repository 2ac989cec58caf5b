// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop convert`

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use corehop_plan::samples::{FileError, copy_parquet};
use corehop_plan::shown;
use corehop_plan::workload::rt_app::RtAppError;
use corehop_plan::workload::task::MOST_CPUS;
use corehop_plan::workload::{rt_app, set_file};
use corehop_sched::overhead::table::OverheadTable;
use corehop_stats::costs::CostTable;

use crate::exit::{Exit, Failure, refuse};
use crate::input;
use crate::output::{Force, OutputFile, Page, Rest, answer, counted, note};

/// Convert task sets and cost tables to and from the formats of other programs, and files of rows to Parquet.
///
/// The contents determine the kind of a file: a corehop task set, an rt-app workload, a cost table
/// (`corehop report --table csv`), SchedCAT's table of cache-related delays (WSS, L1, L2, L3, MEM), or its table of
/// overheads by the number of tasks (TASK-COUNT, SCHEDULE, CXS, …). `corehop check --overheads` reads the last one
/// directly.
///
/// `--to rows` writes a file of `corehop measure` as Parquet with checksums, a `.part` too, and keeps every column.
/// `--salvage` keeps the sound rows of a damaged file.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to convert.
    file: PathBuf,
    /// The target format: tasks, rt-app, costs, schedcat or rows.
    #[arg(long, value_name = "FORM")]
    to: Form,
    /// The output file; default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// For `rows`: keep the sound rows of a damaged file.
    #[arg(long)]
    salvage: bool,
    /// For `tasks`: the number of CPUs; default: the CPUs that the workload names, at least one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_CPUS)))]
    cpus: Option<u32>,
    /// For `rt-app`: the duration of the run; default: 10.
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..=2_147_483_647)
    )]
    duration: Option<u32>,
    /// For `schedcat` and `costs`: the background load of the costs; default: idle.
    #[arg(long, value_name = "LOAD")]
    load: Option<String>,
    /// For `schedcat` and `costs`: the statistic of the costs; default: max.
    #[arg(long, value_name = "NAME")]
    statistic: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// A task set for `corehop check`.
    Tasks,
    /// An rt-app workload.
    RtApp,
    /// A cost table for `corehop study` and `corehop check`.
    Costs,
    /// SchedCAT's table of cache-related delays.
    Schedcat,
    /// A file of rows as Parquet.
    Rows,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    only_for_this_form(args)?;
    let output = OutputFile::if_asked(args.output.as_ref(), &[&args.file], args.force)?;
    if args.to == Form::Rows {
        let lacks = || Failure::says(Exit::Usage, "--to rows writes Parquet: name a file with -o");
        return rows(args, &output.ok_or_else(lacks)?);
    }
    let text = match args.to {
        Form::Tasks | Form::RtApp => input::text(&args.file)?,
        Form::Costs | Form::Schedcat | Form::Rows => input::table(&args.file)?,
    };
    let (rewritten, wanted) = match args.to {
        Form::Tasks => (tasks(&text, args), "an rt-app workload (JSON)"),
        Form::RtApp => (workload(&text, args), "a task set (JSON)"),
        Form::Costs | Form::Schedcat | Form::Rows => (costs(&text, args), "a cost table (CSV)"),
    };
    let rewritten = rewritten.map_err(|failure| match failure.exit() {
        Exit::Damaged => failure.context(input::named_with_format(&args.file, &text, wanted)),
        _ => failure.context(shown::path(&args.file)),
    })?;
    if let Some(file) = &output {
        file.write(&rewritten)?;
    }
    ended(args, "", output.is_none().then_some(&*rewritten))
}

/// Refuses options of other forms than the one that is asked for.
fn only_for_this_form(args: &Args) -> Result<(), Failure> {
    type Rule<'a> = (&'a str, &'a [Form], &'a [(&'a str, bool)]);
    let costs = [("--load", args.load.is_some()), ("--statistic", args.statistic.is_some())];
    let all: [Rule<'_>; 4] = [
        ("--salvage is for --to rows", &[Form::Rows], &[("--salvage", args.salvage)]),
        ("--cpus is for --to tasks", &[Form::Tasks], &[("--cpus", args.cpus.is_some())]),
        (
            "--duration is for --to rt-app",
            &[Form::RtApp],
            &[("--duration", args.duration.is_some())],
        ),
        ("they are for --to schedcat and --to costs", &[Form::Schedcat, Form::Costs], &costs),
    ];
    let mut others = all.iter().filter(|(_, forms, _)| !forms.contains(&args.to));
    others.try_for_each(|(what, _, options)| refuse(what, options))
}

/// Says each sentence on stderr, in lines that fit.
fn say_all(notes: &[String]) {
    let page = Page::of_stdout();
    for sentence in notes {
        note(page.wrap(sentence, 6).trim_end());
    }
}

/// A file that notes whether a write failed: other errors come from the input.
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

/// Writes the rows of a file as Parquet.
fn rows(args: &Args, output: &OutputFile) -> Result<Exit, Failure> {
    let mut reader =
        if args.salvage { input::salvage(&args.file) } else { input::open(&args.file) }?;
    let mut provenance = reader.kind().provenance.clone();
    let is_torn = reader.truncated().then(|| "it was cut off while writing".to_owned());
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
            error => Failure::from(error).context(shown::path(&args.file)),
        })?;
        Ok(())
    })?;
    let lost = lost.map(|lost| format!("the input: {lost}; "));
    let detail = format!(" ({}{} are kept)", lost.unwrap_or_default(), counted(kept, "row"));
    ended(args, &detail, None)
}

/// Ends with a sentence: what was converted to what, and where that is.
fn ended(args: &Args, detail: &str, data: Option<&str>) -> Result<Exit, Failure> {
    let form = clap::ValueEnum::to_possible_value(&args.to);
    let form = form.map_or_else(String::new, |it| it.get_name().to_owned());
    let file = shown::path(&args.file);
    match (&args.output, data) {
        (_, Some(data)) => {
            answer(&format!("{file} is converted to {form}{detail}."), Rest::Data(data))?;
        }
        (Some(output), None) => {
            let output = shown::path(output);
            answer(&format!("{output} has {file} converted to {form}{detail}."), Rest::Text(""))?;
        }
        (None, None) => {}
    }
    Ok(Exit::Done)
}

fn tasks(text: &str, args: &Args) -> Result<String, Failure> {
    let read = rt_app::read(text, args.cpus).map_err(|error| match error {
        RtAppError::Cpus(_) => Failure::new(Exit::Usage, error),
        error => Failure::new(Exit::Damaged, error),
    })?;
    say_all(&read.notes);
    Ok(format!("{:#}\n", set_file::write(&read.set)))
}

fn workload(text: &str, args: &Args) -> Result<String, Failure> {
    let set = set_file::parse(text).map_err(|error| Failure::new(Exit::Damaged, error))?;
    let seconds = args.duration.unwrap_or(10);
    let written = rt_app::write(&set, seconds);
    let written = written.map_err(|error| Failure::new(Exit::NotPossible, error))?;
    say_all(&written.notes);
    Ok(written.text)
}

fn costs(text: &str, args: &Args) -> Result<String, Failure> {
    if OverheadTable::is_one(text) {
        let table =
            OverheadTable::parse(text).map_err(|error| Failure::new(Exit::Damaged, error))?;
        let what = "a table of overheads has no background loads and statistics to choose from";
        refuse(
            what,
            &[("--load", args.load.is_some()), ("--statistic", args.statistic.is_some())],
        )?;
        return Ok(table.schedcat());
    }
    let load = args.load.as_deref().unwrap_or("idle");
    let statistic = args.statistic.as_deref().unwrap_or("max");
    let table = CostTable::parse_as(text, load, statistic)
        .map_err(|error| Failure::new(Exit::Damaged, error))?;
    if args.to == Form::Costs {
        // SchedCAT's table does not state its load and its statistic; our own states those of each row.
        if !CostTable::is_schedcat(text) {
            let what = "the table states the load and the statistic of each row";
            let options =
                [("--load", args.load.is_some()), ("--statistic", args.statistic.is_some())];
            refuse(what, &options)?;
        }
        return Ok(table.csv());
    }
    let costs = table.select(load, statistic).ok_or_else(|| {
        let known: Vec<String> =
            table.selections().map(|(load, what, _)| format!("{load} {what}")).collect();
        let known = known.join(", ");
        Failure::says(Exit::Usage, format!("it has no costs of {load} {statistic}: it has {known}"))
    })?;
    Ok(costs.schedcat())
}
