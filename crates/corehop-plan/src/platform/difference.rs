// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distinguishes two machines by their descriptions.

use super::Platform;

impl Platform {
    /// Returns the first fact in which the machine differs from `known`, which the sentence calls `whose`,
    /// or `None` if no fact differs. The comparison needs more than the id, because an id is a processor's
    /// name with a count of CPUs, which several machines can share.
    pub fn difference(&self, known: &Self, whose: &str) -> Option<String> {
        let (given, known) = (self.distinguishing(), known.distinguishing());
        let differing = given.iter().zip(&known).find(|(given, known)| given != known);
        match differing {
            Some(((name, it), (_, other))) => Some(format!("{name} {it}, {whose} {other}")),
            None if given.len() == known.len() => None,
            None => Some("another number of caches".to_owned()),
        }
    }

    /// Returns the facts that stay constant while the machine stays the same, by name.
    fn distinguishing(&self) -> Vec<(String, String)> {
        let mut facts = vec![
            ("id".to_owned(), self.id.clone()),
            ("CPUs".to_owned(), self.cpus.value.to_string()),
            ("cores".to_owned(), self.cores.value.to_string()),
        ];
        facts.extend(self.caches.iter().flat_map(|cache| {
            let size = cache.size.as_ref().map_or(String::new(), |size| size.value.to_string());
            let shared_by = cache.instances.value.to_string();
            let label = cache.label();
            [(label.clone(), size), (format!("{label} shared by"), shared_by)]
        }));
        facts
    }
}
