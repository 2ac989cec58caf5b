// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores a model as a file.

use super::DelayModel;
use corehop_plan::bounds;

/// The version of the format of model files.
pub const MODEL_SCHEMA: &str = "corehop-model-1";

/// The reason why a text is not a model.
#[derive(Debug, thiserror::Error)]
pub enum NotAModel {
    /// The text is not JSON of this form, or is cut off.
    #[error(
        "this is not a model that `corehop advise fit` wrote in the current form: {0}; fit the samples again"
    )]
    Form(#[from] serde_json::Error),
    /// The text has an unknown version of the format.
    #[error(
        "the model has the form `{found}`, but this corehop reads `{MODEL_SCHEMA}`: fit the samples again, or use the corehop that wrote the model"
    )]
    Schema {
        /// The version that the file states.
        found: String,
    },
}

impl DelayModel {
    /// Returns the model as JSON; every number is exact to the last bit.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    /// Parses a model from the JSON text of a file.
    ///
    /// # Errors
    /// Returns [`NotAModel`] if the text is not a valid model.
    pub fn from_json(text: &str) -> Result<Self, NotAModel> {
        #[derive(serde::Deserialize)]
        struct ModelFileHeader {
            schema: String,
        }
        let head: ModelFileHeader = serde_json::from_str(text)?;
        if head.schema != MODEL_SCHEMA {
            return Err(NotAModel::Schema { found: head.schema });
        }
        Ok(bounds::from_json(text)?)
    }
}
