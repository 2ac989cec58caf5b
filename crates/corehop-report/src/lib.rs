// SPDX-License-Identifier: MIT OR Apache-2.0
//! Presents results as text, tables, drawings and pages. The crate `corehop-report` computes no
//! results.
#![forbid(unsafe_code)]

mod dots;
mod escape;
pub mod label;
mod platform_measured;
pub mod platform_svg;
pub mod exchange_svg;
pub mod platform_text;
pub mod gem5;
pub mod supply;
pub mod table;
pub mod figure;
pub mod paste;
mod scale;
mod paper;
pub mod front;
mod chart;
pub mod answer;
pub mod costs;
pub mod gains;
pub mod decided;
pub mod compared;
pub mod limited;
pub mod cost_study;
pub mod observed;
pub mod metrics;
pub mod program_costs;
pub mod program_runs;
pub mod compared_page;
pub mod observed_page;
pub mod overheads;
pub mod switching;
pub mod sections;
pub mod screen;
pub mod host_sheet;
mod html;
pub mod page;
pub mod wake_cost;
mod placement_front;
pub mod placement;
pub mod pin;
pub mod pinning;
pub mod off_load;
pub mod advice_page;
pub mod study_svg;
pub mod schedule_svg;
pub mod schedule_text;
pub mod study;
pub mod validation_svg;
pub mod validation;
pub mod validation_text;
mod headings;
pub mod bundle;
pub mod glossary;
pub mod listing;
