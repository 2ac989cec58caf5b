// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes and warnings for the person who waits: what a use case has to say before its answer. A caller that shows them says how.

use std::sync::OnceLock;

/// The ways to show what is said.
#[derive(Debug, Clone, Copy)]
pub struct Voice {
    /// Shows a note.
    pub note: fn(&str),
    /// Shows a warning.
    pub warning: fn(&str),
}

static VOICE: OnceLock<Voice> = OnceLock::new();

/// Notes and warnings are shown in this way from now on; the first caller decides for the process, as with a logger.
pub fn show_by(voice: Voice) {
    let _first_wins = VOICE.set(voice);
}

/// Shows a note, if the process shows notes.
pub fn note(text: &str) {
    if let Some(voice) = VOICE.get() {
        (voice.note)(text);
    }
}

/// Shows a warning, likewise.
pub fn warn(text: &str) {
    if let Some(voice) = VOICE.get() {
        (voice.warning)(text);
    }
}
