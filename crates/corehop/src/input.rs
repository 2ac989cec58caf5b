// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files given to a verb.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use corehop_core::model::overheads::{Overheads, csv};
use corehop_core::samples::{OverheadFacts, OverheadTime, Reader, RowKind};

use crate::exit::{Exit, Failure};

/// Opens a file of rows, complete or still being written; errors name it.
pub(crate) fn open(path: &Path) -> Result<Reader<File>, Failure> {
    let named = || path.display().to_string();
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::says(
            Exit::Usage,
            format!("{}: no such file; `corehop measure … -o FILE` writes one", named()),
        ),
        _ => Failure::new(Exit::Failed, error).context(named()),
    })?;
    if file.metadata().is_ok_and(|about| about.is_dir()) {
        let what = format!("{} is a folder: name the files in it", named());
        return Err(Failure::says(Exit::Usage, what));
    }
    Reader::open(file).map_err(|error| Failure::from(error).context(named()))
}

/// The text of a file; for a file of `corehop measure overheads` the table of its times.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::new(Exit::Usage, error).context(format!("reading {}", path.display()))
    })?;
    String::from_utf8(bytes).or_else(|_| times(path))
}

/// The table of the times in a file of rows.
fn times(path: &Path) -> Result<String, Failure> {
    let named = |failure: Failure| failure.context(path.display().to_string());
    let mut reader = open(path)?;
    if reader.rows_kind().ok() != Some(RowKind::Overheads) {
        let what = format!("contains {}, not overheads", reader.kind().rows);
        return Err(named(Failure::says(Exit::Damaged, what)));
    }
    let facts = OverheadFacts::of(&reader.kind().provenance.machine).unwrap_or_default();
    let mut overheads = Overheads::default();
    while let Some(rows) =
        reader.next_rows::<OverheadTime>().map_err(|error| named(error.into()))?
    {
        overheads.take(&rows);
    }
    Ok(csv(&overheads.finish(), facts.table_to()))
}
