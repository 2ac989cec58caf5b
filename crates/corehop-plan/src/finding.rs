// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings of `corehop doctor`: a fact about the host, the reason why it matters to a measurement, and
//! the command that changes it.
//!
//! The modules that look at a host or a result make the findings. The module only defines the type of a
//! finding, so that a result can store findings and a page can show them.

use serde::{Deserialize, Serialize};

use crate::words::words;

words! {
    /// The severity of a finding for a measurement.
    Severity, "a severity" {
        /// The checked setting is right for measurements.
        Ok = "ok",
        /// The finding changes the meaning of a number, or limits what can be measured.
        Note = "note",
        /// The finding spoils samples, or weakens the conclusions from them.
        Warning = "warning",
        /// The finding makes measurements impossible.
        Obstacle = "obstacle",
    }
}

/// A finding: one fact about a host that matters to measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The id of the examined property, as `corehop help` accepts it, such as `governor`. The ids of all
    /// findings of one examination differ.
    pub id: String,
    /// The severity that the finding has for a measurement.
    pub severity: Severity,
    /// The finding as a clause, such as "the governor is powersave on CPUs 0-7".
    pub found: String,
    /// The reason why the finding matters to a measurement, in one sentence.
    pub why: String,
    /// The command that changes the property, or `None` if no command does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// A sentence about the remedy that states its cost; without a command, the sentence names a change
    /// that would help or says that nothing helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

impl Finding {
    /// Returns true for every severity except [`Severity::Ok`], because the host could then be improved.
    pub fn is_open(&self) -> bool {
        self.severity != Severity::Ok
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_without_a_remedy_is_written_without_one_and_read_back() {
        let finding = Finding {
            id: "hypervisor".into(),
            severity: Severity::Warning,
            found: "this machine is a guest".into(),
            why: "Its exits show in no counter.".into(),
            remedy: None,
            remark: Some("Nothing can be done from inside.".into()),
        };
        let text = serde_json::json!(finding).to_string();
        assert!(text.contains(r#""severity":"warning""#) && !text.contains("remedy"), "{text}");
        assert_eq!(serde_json::from_str::<Finding>(&text).unwrap(), finding);
        assert!(finding.is_open());
    }

    #[test]
    fn an_obstacle_outranks_a_warning_a_warning_a_note() {
        let ranks = [Severity::Ok, Severity::Note, Severity::Warning, Severity::Obstacle];
        assert!(ranks.is_sorted());
    }
}
