// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies a placer's actions to a host.

use super::step::{Action, Placer};
use corehop_plan::host::{Host, HostError, Receipt};

/// A host in use, and the moves that are in force.
pub struct Session<'a> {
    host: &'a mut dyn Host,
    in_force: Vec<Receipt>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("in_force", &self.in_force).finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    /// Starts a session without moves.
    pub fn new(host: &'a mut dyn Host) -> Self {
        Self { host, in_force: Vec::new() }
    }

    /// Returns the host.
    pub fn host(&mut self) -> &mut dyn Host {
        self.host
    }

    /// Applies one action. If the host refuses a move, the session tells the placer and returns the refusal.
    ///
    /// # Errors
    /// Returns an error if threads cannot be put back.
    pub fn act(
        &mut self,
        action: &Action,
        placer: &mut Placer,
    ) -> Result<Option<HostError>, HostError> {
        match action {
            Action::Place { moves } => match self.host.apply(moves) {
                Ok(receipt) => self.in_force.push(receipt),
                Err(error) => {
                    placer.refused();
                    return Ok(Some(error));
                }
            },
            Action::Restore => self.restore()?,
            Action::Advise(_) | Action::Try(_) | Action::Judge { .. } => {}
        }
        Ok(None)
    }

    /// Reverts all moves, the last one first.
    ///
    /// # Errors
    /// Returns an error if the host cannot revert a move.
    pub fn restore(&mut self) -> Result<(), HostError> {
        while let Some(receipt) = self.in_force.pop() {
            self.host.revert(receipt)?;
        }
        Ok(())
    }
}
