// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes for the person who waits: what a use case has to say before its answer. A caller that shows notes says how.

use std::sync::OnceLock;

/// A way to show a note.
pub type Shows = fn(&str);

static SHOWS: OnceLock<Shows> = OnceLock::new();

/// Notes are shown in this way from now on; the first caller decides for the process, as with a logger.
pub fn show_by(shows: Shows) {
    let _first_wins = SHOWS.set(shows);
}

/// Shows a note, if the process shows notes.
pub fn note(text: &str) {
    if let Some(shows) = SHOWS.get() {
        shows(text);
    }
}
