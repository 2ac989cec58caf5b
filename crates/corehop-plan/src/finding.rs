// SPDX-License-Identifier: MIT OR Apache-2.0
//! The findings of the doctor: the fact, why it matters to a measurement, what to type.
//!
//! Findings are looked for elsewhere. Here is only what they are, so that a result can carry them
//! and a page can show them.

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

/// One thing found on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The name of what was looked at, as `corehop help` takes it: `governor`. No two findings
    /// of one visit have the same.
    pub id: String,
    /// Its severity.
    pub severity: Severity,
    /// The finding, as a clause: "the governor is powersave on CPUs 0-7".
    pub found: String,
    /// Why it matters to a measurement, in one sentence.
    pub why: String,
    /// The command that changes it, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// A remark on the remedy, in a sentence: its cost; or, without a command, a change that would help, or
    /// that none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

impl Finding {
    /// Whether something could be better: all that is not [`Severity::Ok`].
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
