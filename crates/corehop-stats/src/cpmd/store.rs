// SPDX-License-Identifier: MIT OR Apache-2.0
//! A model as a file.

use super::DelayModel;
use corehop_plan::bounds;

/// The form of model files.
pub const MODEL_SCHEMA: &str = "corehop-model-1";

/// Why a text is not a model.
#[derive(Debug, thiserror::Error)]
pub enum NotAModel {
    /// It is something else, or torn.
    #[error("not a model of this form that `corehop advise fit` wrote: {0}; fit the samples again")]
    Form(#[from] serde_json::Error),
    /// It is of a version that is not known here.
    #[error(
        "the model has the form `{found}`, and this corehop reads `{MODEL_SCHEMA}`: fit the samples again, or use the corehop that wrote the model"
    )]
    Schema {
        /// The version in the file.
        found: String,
    },
}

impl DelayModel {
    /// The model as JSON, every number to the last bit.
    pub fn to_json(&self) -> String {
        format!("{:#}\n", serde_json::json!(self))
    }

    /// The model in a text.
    ///
    /// # Errors
    /// [`NotAModel`] for anything else.
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
