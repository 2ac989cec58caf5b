// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the companies of a model's series.

use super::{DelayModel, NoAnswer, SeriesKey};
use crate::company::{Company, stays};
use corehop_plan::workload::Event;

impl Company {
    /// Returns the companies in which jobs resumed in place under a load, in the order of
    /// measurement.
    ///
    /// # Errors
    /// Returns [`NoAnswer::NoField`] if `only` names an unknown field.
    pub fn measured(
        model: &DelayModel,
        load: &str,
        only: &[(String, String)],
    ) -> Result<Vec<Self>, NoAnswer> {
        let mut all: Vec<Self> = Vec::new();
        for key in model.under(load, only)? {
            let company = Self::of_series(key);
            if stays(key.event) && !all.contains(&company) {
                all.push(company);
            }
        }
        Ok(all)
    }

    fn of_series(key: &SeriesKey) -> Self {
        Self {
            preempted_by: key.preempted_by,
            polluter: key.polluter.clone(),
            pair_class: key.pair_class,
        }
    }

    /// Returns the fields of the series of `event` in this company, as names and values.
    pub fn fields(&self, event: Event) -> Vec<(String, String)> {
        let text = |word: Option<&str>| word.unwrap_or("none").to_owned();
        let mut fields = vec![
            ("preempted_by".to_owned(), self.preempted_by.word().to_owned()),
            ("polluter".to_owned(), text(self.polluter.as_deref())),
        ];
        if !event.is_migration() {
            let class = text(self.pair_class.map(Event::word));
            fields.push(("pair_class".to_owned(), class));
        }
        fields
    }
}
