// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes and warnings for the waiting user, which a use case produces before its answer. The caller decides how they
//! are shown.

use std::sync::OnceLock;

/// The functions that show notes and warnings.
#[derive(Debug, Clone, Copy)]
pub struct Voice {
    /// Shows a note.
    pub note: fn(&str),
    /// Shows a warning.
    pub warning: fn(&str),
}

static VOICE: OnceLock<Voice> = OnceLock::new();

/// Sets how notes and warnings are shown from now on; the first call in a process counts, as with a logger.
pub fn show_by(voice: Voice) {
    let _first_wins = VOICE.set(voice);
}

/// Shows a note, if the process shows notes.
pub fn note(text: &str) {
    if let Some(voice) = VOICE.get() {
        (voice.note)(text);
    }
}

/// Shows a warning, if the process shows warnings.
pub fn warn(text: &str) {
    if let Some(voice) = VOICE.get() {
        (voice.warning)(text);
    }
}
