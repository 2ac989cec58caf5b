// SPDX-License-Identifier: MIT OR Apache-2.0
//! The costs of one host as a file: a model, and the machine for which the model holds.

use serde::{Deserialize, Serialize};

use crate::cpmd::{DelayModel, NotAModel};
use corehop_plan::bounds;
use corehop_plan::platform::{Platform, PlatformError};

/// The version of the format of files of host costs.
const HOST_COSTS_SCHEMA: &str = "corehop-host-costs-1";

/// The identity of a host, by which corehop recognises its costs.
#[derive(Debug, Clone, PartialEq)]
pub struct HostIdentity {
    /// The description of the host as a platform.
    pub platform: Platform,
    /// A digest of the identity that the host's system received at installation, if it has one.
    pub identity: Option<String>,
}

impl HostIdentity {
    /// Returns the first property in which the host differs from `known`, which the sentence calls
    /// `whose`.
    pub fn difference(&self, known: &Self, whose: &str) -> Option<String> {
        let identities = self.identity.as_ref().zip(known.identity.as_ref());
        let other_system = identities.is_some_and(|(this, other)| this != other);
        self.platform
            .difference(&known.platform, whose)
            .or_else(|| other_system.then(|| "the identity in /etc/machine-id".to_owned()))
    }
}

/// The costs of events that were measured on a host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCosts {
    /// The host for which the costs hold.
    pub host: HostIdentity,
    /// The day of the first sample.
    pub date: String,
    /// The model of delays that states the costs.
    pub model: DelayModel,
}

/// The reason why a text does not contain the costs of a host.
#[derive(Debug, thiserror::Error)]
pub enum NotHostCosts {
    /// The text is not JSON of this form, or is cut off.
    #[error("these are not costs that `corehop advise fit --default` stored: {0}")]
    Form(#[from] serde_json::Error),
    /// The text has an unknown version of the format.
    #[error(
        "these costs have the form `{0}`, but this corehop reads `{HOST_COSTS_SCHEMA}`: fit the costs again"
    )]
    Schema(String),
    /// The description of the measured machine is damaged.
    #[error("the description of the measured machine is invalid: {0}")]
    Platform(#[from] PlatformError),
    /// The model in the file is damaged.
    #[error(transparent)]
    Model(#[from] NotAModel),
}

/// The structure of a file of host costs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostCostFile {
    schema: String,
    identity: Option<String>,
    date: String,
    platform: String,
    model: serde_json::Value,
}

impl HostCosts {
    /// Returns the costs as the JSON text of a file.
    pub fn to_json(&self) -> String {
        let file = HostCostFile {
            schema: HOST_COSTS_SCHEMA.to_owned(),
            identity: self.host.identity.clone(),
            date: self.date.clone(),
            platform: self.host.platform.to_toml(),
            model: serde_json::json!(self.model),
        };
        format!("{:#}\n", serde_json::json!(file))
    }

    /// Parses the costs of a host.
    ///
    /// # Errors
    /// Returns [`NotHostCosts`] if the text is not a valid file of costs.
    pub fn from_json(text: &str) -> Result<Self, NotHostCosts> {
        let file: HostCostFile = bounds::from_json(text)?;
        if file.schema != HOST_COSTS_SCHEMA {
            return Err(NotHostCosts::Schema(file.schema));
        }
        let platform = Platform::from_toml(&file.platform)?;
        let model = DelayModel::from_json(&file.model.to_string())?;
        let host = HostIdentity { platform, identity: file.identity };
        Ok(Self { host, date: file.date, model })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpmd::DelayFitter;
    use crate::estimator::Estimator;
    use crate::example::sample;

    fn host(platform: &str, identity: Option<&str>) -> HostIdentity {
        let platform = Platform::named(platform).unwrap().unwrap();
        HostIdentity { platform, identity: identity.map(ToOwned::to_owned) }
    }

    fn costs() -> HostCosts {
        let mut fit = DelayFitter::new(Estimator::Difference);
        fit.take(&[sample()]);
        let (host, date) = (host("xeon_l7455", Some("a")), "2026-11-23".to_owned());
        HostCosts { host, date, model: fit.finish() }
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let costs = costs();
        assert_eq!(HostCosts::from_json(&costs.to_json()).unwrap(), costs);
    }

    #[test]
    fn another_processor_or_another_system_is_another_host() {
        let here = host("xeon_l7455", Some("a"));
        assert_eq!(here.difference(&here, "of the costs"), None);
        assert_eq!(here.difference(&host("xeon_l7455", None), "of the costs"), None);
        let other = here.difference(&host("xeon_e5520", Some("a")), "of the costs").unwrap();
        assert_eq!(other, "id xeon_l7455, of the costs xeon_e5520");
        let other = here.difference(&host("xeon_l7455", Some("b")), "of the costs").unwrap();
        assert!(other.contains("machine-id"), "{other}");
    }

    #[test]
    fn other_files_are_no_costs_of_a_host() {
        let said = |text: &str| HostCosts::from_json(text).unwrap_err().to_string();
        assert!(said(&costs().model.to_json()).contains("fit --default"));
        assert!(said("").contains("fit --default"));
        assert!(
            said(&costs().to_json().replace("costs-1", "costs-2")).contains("fit the costs again")
        );
    }
}
