// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files given to a verb.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use corehop_core::samples::Reader;

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
