// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores the gains of a machine as a file.

use serde::{Deserialize, Serialize};

use super::{FittedForm, Form, GainRow, MachineGain};
use crate::costs::HostIdentity;
use corehop_plan::bounds;
use corehop_plan::platform::{Platform, PlatformError};
use corehop_plan::workload::gang::Placing;

/// The version of the format of gain files.
pub const GAIN_SCHEMA: &str = "corehop-gain-1";

/// The reason why a text does not contain the gains of a machine.
#[derive(Debug, thiserror::Error)]
pub enum NotAGain {
    /// The text is not JSON of this form, or is cut off.
    #[error(
        "this is not a model of the gain of sharing that `corehop advise fit` wrote (it fits one to files of `corehop measure shared-data`): {0}"
    )]
    Form(#[from] serde_json::Error),
    /// The text has another version of the format, or is a model of another kind.
    #[error(
        "the model has the form `{0}`, but a model of the gain of sharing has `{GAIN_SCHEMA}`: fit the runs again"
    )]
    Schema(String),
    /// The description of the machine in the model is damaged.
    #[error("the description of the machine in the model is invalid: {0}")]
    Platform(#[from] PlatformError),
    /// The form that makes the predictions is missing from the fitted forms.
    #[error(
        "the model names the form `{0}` for its answers, but this form was not fitted: fit the runs again"
    )]
    Taken(Form),
}

/// The first fields of the file.
#[derive(Deserialize)]
struct GainFileHeader {
    schema: String,
}

/// The structure of a file of gains.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GainFile {
    schema: String,
    source: String,
    identity: Option<String>,
    simulated: bool,
    date: String,
    near: Placing,
    far: Placing,
    taken: Form,
    crowding: Option<f64>,
    forms: Vec<FittedForm>,
    rows: Vec<GainRow>,
    platform: String,
}

impl MachineGain {
    /// Returns the gains as JSON; every number is exact to the last bit.
    pub fn to_json(&self) -> String {
        let file = GainFile {
            schema: GAIN_SCHEMA.to_owned(),
            source: self.source(),
            identity: self.host.identity.clone(),
            simulated: self.simulated,
            date: self.date.clone(),
            near: self.near,
            far: self.far,
            taken: self.taken,
            crowding: self.crowding,
            forms: self.forms.clone(),
            rows: self.rows.clone(),
            platform: self.host.platform.to_toml(),
        };
        format!("{:#}\n", serde_json::json!(file))
    }

    /// Returns whether the text declares itself a file of gains.
    pub fn is_meant(text: &str) -> bool {
        serde_json::from_str::<GainFileHeader>(text)
            .is_ok_and(|it| it.schema.starts_with("corehop-gain-"))
    }

    /// Parses the gains of a machine.
    ///
    /// # Errors
    /// Returns [`NotAGain`] if the text is not a valid file of gains.
    pub fn from_json(text: &str) -> Result<Self, NotAGain> {
        let head: GainFileHeader = serde_json::from_str(text)?;
        if head.schema != GAIN_SCHEMA {
            return Err(NotAGain::Schema(head.schema));
        }
        let file: GainFile = bounds::from_json(text)?;
        let platform = Platform::from_toml(&file.platform)?;
        if !file.forms.iter().any(|it| it.form == file.taken) {
            return Err(NotAGain::Taken(file.taken));
        }
        Ok(Self {
            host: HostIdentity { platform, identity: file.identity },
            simulated: file.simulated,
            date: file.date,
            near: file.near,
            far: file.far,
            rows: file.rows,
            crowding: file.crowding,
            forms: file.forms,
            taken: file.taken,
        })
    }
}
