// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report`

mod contents;

use std::path::PathBuf;

use corehop_app::failure::{Exit, Failure};
use corehop_app::report::{ReportAnswer, ReportBody, ReportForm, ReportRequest, report};
use corehop_stats::estimator::Estimator;

use crate::cmd::VerbOrMode;
use crate::output::{self, AnswerBody, Force, answer, stdout_layout};

/// The arguments of `corehop report` and of its modes.
pub(crate) type Args = VerbOrMode<ReportOptions, Mode>;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Mode {
    /// List the contents of a file: the kind of its rows, their provenance, and the number of valid rows.
    Contents(contents::Args),
}

/// Summarise samples as a table, and as one page that needs no network.
///
/// One report can join files of several experiments. From a `.part` file, corehop reads the complete rows, and marks
/// the run as incomplete. A platform file of the same machine (`corehop measure platform -o FILE.toml`) adds the
/// transfer times of cache lines between CPUs, and the facts that measurements confirmed or contradicted.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportOptions {
    /// Summarise these files of `corehop measure`, with the platform files (`*.toml`) of the measured machines.
    /// corehop also summarises one file of `corehop check study -o`, one log of `corehop place -o`, or one answer of
    /// `corehop offload -o`.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print a table in this form: screen (one terminal screen; the default without -o and --bundle), text (all
    /// statistics), csv (for other programs), markdown or latex (to paste), or json.
    #[arg(long, value_name = "FORM")]
    table: Option<ReportFormat>,
    /// Restrict the table to cells with this value of a column, for example `page=thp`, `load=idle`, `chains=4`.
    /// Repeat --only to restrict by several columns. A page (-o) always shows all cells.
    #[arg(long, value_name = "COLUMN=VALUE")]
    only: Vec<String>,
    /// Write a page: one self-contained HTML file.
    #[arg(short, long, value_name = "REPORT.html")]
    output: Option<PathBuf>,
    /// Write one archive for a gallery of machines: the quick run, the run of `measure conditions` and the platform
    /// file of this machine, with their provenance. If a part is missing, corehop names the part.
    #[arg(long, value_name = "FILE.tar")]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Compute the delay of a sample with this estimator (see `corehop help estimator`) [default: difference]
    #[arg(long)]
    estimator: Option<Estimator>,
    /// Print JSON, like `--table json`
    #[arg(long, conflicts_with = "table")]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ReportFormat {
    /// Print at most fifty lines: medians with intervals, and the answer in one sentence.
    Screen,
    /// Print medians, maxima, counts and replicates of all cells, and the answer in one sentence.
    Text,
    /// Print one statistic per line, in the columns of the printed tables.
    Csv,
    /// Print tables in Markdown, to paste into an issue or a page.
    Markdown,
    /// Print tables in LaTeX (booktabs), to paste into a paper.
    Latex,
    /// Print every cell with all its statistics; for task sets and `conditions`, the JSON object has more fields
    /// beside `cells`.
    Json,
}

impl From<ReportFormat> for ReportForm {
    fn from(format: ReportFormat) -> Self {
        match format {
            ReportFormat::Screen => Self::Screen,
            ReportFormat::Text => Self::Text,
            ReportFormat::Csv => Self::Csv,
            ReportFormat::Markdown => Self::Markdown,
            ReportFormat::Latex => Self::Latex,
            ReportFormat::Json => Self::Json,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    match args {
        VerbOrMode::Verb(args) => print_report(&report(&args.request())?),
        VerbOrMode::Mode(Mode::Contents(args)) => contents::run(args),
    }
}

impl ReportOptions {
    fn request(&self) -> ReportRequest {
        let json = self.json.then_some(ReportForm::Json);
        let form = json.or(self.table.map(ReportForm::from));
        let writes = self.output.is_some() || self.bundle.is_some();
        ReportRequest {
            files: self.files.clone(),
            form: form.or((!writes).then_some(ReportForm::Screen)),
            only: self.only.clone(),
            output: self.output.clone(),
            bundle: self.bundle.clone(),
            force: self.force.force,
            estimator: self.estimator,
            width: output::width(),
            layout: stdout_layout(),
        }
    }
}

/// Prints a report.
fn print_report(of: &ReportAnswer) -> Result<Exit, Failure> {
    let body = match &of.body {
        ReportBody::Text(text) => AnswerBody::Text(text),
        ReportBody::Data(data) => AnswerBody::Data(data),
    };
    answer(&of.sentence, body)?;
    Ok(Exit::Done)
}
