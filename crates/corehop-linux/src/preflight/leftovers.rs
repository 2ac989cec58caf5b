// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks for changes left by a run that was killed together with its supervisor.

use corehop_plan::finding::Finding;

use super::{CheckFinding, finding};
use corehop_system::supervisor::{Leftover, REMEDY};

/// The name of the finding.
pub(super) const ID: &str = "left-behind";
/// The reason why the finding matters.
pub(super) const WHY: &str = "A setting that a dead run changed, or a load that it started, makes every result wrong; `measure` does not start until the change is undone.";

/// The finding about `left`; `None` if nothing is left.
pub(super) fn of(left: &[Leftover]) -> Option<Finding> {
    let lines: Vec<String> = left.iter().map(ToString::to_string).collect();
    let found = format!("a killed run left changes behind: {}", lines.join("; "));
    (!left.is_empty()).then(|| finding(ID, WHY, CheckFinding::obstacle(found).command(REMEDY)))
}

#[cfg(test)]
mod tests {
    use corehop_plan::finding::Severity;

    use super::*;

    #[test]
    fn a_leftover_is_an_obstacle_with_the_change_and_the_command() {
        assert_eq!(of(&[]), None);
        let changes = vec!["write `1` to /setting".to_owned()];
        let found = of(&[Leftover { journal: "/run/5-0.journal".into(), changes }]).unwrap();
        assert_eq!(found.severity, Severity::Obstacle);
        assert!(found.found.ends_with("/run/5-0.journal: write `1` to /setting"), "{found:?}");
        assert_eq!(found.remedy.as_deref(), Some("corehop doctor restore"));
    }
}
