// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of this host: measured once, stored in the user's folder, and used if no other costs are named.

use std::path::{Path, PathBuf};

use corehop_plan::platform::Platform;
use corehop_plan::shown;
use corehop_results::{FileNote, Results};
use corehop_stats::costs::{HostCosts, HostIdentity};
use corehop_stats::cpmd::DelayModel;
use corehop_system::discover::{SysRoot, identity};
use corehop_system::folders;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::file::{self, OutputFile};
use crate::here::found;
use crate::input;

/// The commands that measure and store the costs of this host.
pub const REMEDY: &str = "`corehop measure synthetic -o FILE.parquet` and \
                                 `corehop advise fit FILE.parquet --default` measure and store the costs of this host";

/// The file in which the costs are stored.
fn place() -> Result<PathBuf, Failure> {
    let what = "this user has no folder for data: set XDG_DATA_HOME, or name files (-o, --costs)";
    let folder = folders::data().ok_or_else(|| Failure::says(Exit::NotPossible, what))?;
    Ok(folder.join("costs.json"))
}

/// The identity of this host.
fn here(platform: Platform) -> HostIdentity {
    HostIdentity { platform, identity: identity() }
}

/// Returns the stored costs and their file; `None` if there are none.
///
/// # Errors
/// Fails with exit code 4 for costs of another machine, and for a damaged file.
pub fn kept() -> Result<Option<(HostCosts, PathBuf)>, Failure> {
    let Ok(path) = place() else { return Ok(None) };
    if !path.exists() {
        return Ok(None);
    }
    let costs = input::parsed(&path, "the costs of this host (JSON)", HostCosts::from_json)?;
    if let Some(difference) = here(found(&SysRoot::live())?).difference(&costs.host, "of the costs")
    {
        let what = format!(
            "{}: these costs belong to another machine ({difference}): {REMEDY} (--force replaces these costs); or use --costs FILE or --costs none",
            shown::path(&path)
        );
        return Err(Failure::says(Exit::Damaged, what));
    }
    Ok(Some((costs, path)))
}

/// Costs of this host that are about to be stored.
#[derive(Debug)]
pub struct Keeping {
    file: OutputFile,
    host: HostIdentity,
    date: String,
}

impl Keeping {
    /// Prepares storing the costs from the samples in these files. The call itself writes nothing.
    ///
    /// # Errors
    /// Fails with exit code 4 for samples of another machine, and with exit code 2 if costs are already stored and must
    /// not be replaced.
    pub fn of(data: &Results, inputs: &[&Path], force: impl Into<bool>) -> Result<Self, Failure> {
        let host = here(found(&SysRoot::live())?);
        for file in &data.files {
            if let Some(difference) = strange(file, &host) {
                let what = format!(
                    "{}: the samples come from another machine ({difference}): measure this machine, or omit --default",
                    file.name
                );
                return Err(Failure::says(Exit::Damaged, what));
            }
        }
        let path = place()?;
        if let Some(folder) = path.parent() {
            file::folder(folder)?;
        }
        let dates = data.files.iter().map(|file| &file.provenance.date);
        let date = dates.min().cloned().unwrap_or_default();
        Ok(Self { file: OutputFile::ordinary(&path, inputs, force)?, host, date })
    }

    /// Stores a model as the costs of this host; returns its file.
    ///
    /// # Errors
    /// Fails with the errors of [`OutputFile::write`].
    pub fn keep(self, model: DelayModel) -> Result<PathBuf, Failure> {
        let costs = HostCosts { host: self.host, date: self.date, model };
        self.file.write(costs.to_json())?;
        Ok(self.file.into_path())
    }
}

/// The first property in which the machine of a file differs from this host.
fn strange(file: &FileNote, host: &HostIdentity) -> Option<String> {
    let machine = &file.provenance.machine;
    if machine.get("kind").and_then(Value::as_str) != Some("live") {
        return Some("a simulated one".to_owned());
    }
    let Ok(platform) = Platform::from_toml(&file.provenance.platform) else {
        return Some("the file does not describe the machine".to_owned());
    };
    let identity = machine.get("host").and_then(|host| host.get("identity"));
    let identity = identity.and_then(Value::as_str).map(ToOwned::to_owned);
    HostIdentity { platform, identity }.difference(host, "of this host")
}
