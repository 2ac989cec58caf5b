// SPDX-License-Identifier: MIT OR Apache-2.0
//! Platforms.

use std::path::PathBuf;

use corehop_plan::platform::{self, Affinity};
use corehop_plan::units::Cpu;
use corehop_report::{platform_svg, platform_text};
use pyo3::prelude::*;

use crate::errors;

/// The description of a machine.
#[pyclass(frozen, name = "Platform", module = "corehop")]
#[derive(Debug)]
pub(crate) struct PlatformDescription(pub(crate) platform::Platform);

#[pymethods]
impl PlatformDescription {
    /// The platform in this text.
    #[staticmethod]
    fn from_toml(text: &str) -> PyResult<Self> {
        platform::Platform::from_toml(text).map(Self).map_err(errors::damaged)
    }

    /// The platform in this file.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "that is how Python hands it over")]
    fn read(path: PathBuf) -> PyResult<Self> {
        let text = std::fs::read_to_string(&path).map_err(|error| errors::system(&path, &error))?;
        platform::Platform::from_toml(&text)
            .map(Self)
            .map_err(|error| errors::content(&path, &error))
    }

    /// The platform of this id among those that come with the package.
    #[staticmethod]
    fn named(id: &str) -> PyResult<Self> {
        match platform::Platform::named(id) {
            Some(known) => known.map(Self).map_err(errors::damaged),
            None => Err(errors::usage(format!(
                "no platform is called `{id}`: use one of {}; a file's name ends in .toml",
                Self::names().join(", ")
            ))),
        }
    }

    /// The ids of the platforms that come with the package.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        platform::Platform::names().collect()
    }

    /// The name in options, tables and file names.
    #[getter]
    fn id(&self) -> &str {
        &self.0.id
    }

    /// The name for people.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// The CPUs that work can be put on.
    #[getter]
    fn cpus(&self) -> Vec<u32> {
        self.0.usable().iter().map(|cpu| cpu.0).collect()
    }

    /// `uma`, `numa` or `single_socket`.
    #[getter]
    fn memory_architecture(&self) -> &'static str {
        self.0.memory_architecture().word()
    }

    /// The event of resuming on the CPU `b` for a job that left the CPU `a`.
    fn affinity(&self, a: u32, b: u32) -> PyResult<&'static str> {
        Ok(self.0.affinity(self.known(a)?, self.known(b)?).event())
    }

    /// The first pair of usable CPUs in each class that has one, nearest class first.
    fn pairs(&self) -> Vec<(&'static str, (u32, u32))> {
        let usable = self.0.usable();
        let pair = |class: Affinity| {
            let (from, to) = self.0.pair(&usable, class)?;
            Some((class.event(), (from.0, to.0)))
        };
        Affinity::ALL.into_iter().filter_map(pair).collect()
    }

    /// The usable CPUs by what resuming there is to a job that left `cpu`, nearest class first.
    fn classes_from(&self, cpu: u32) -> PyResult<Vec<(&'static str, Vec<u32>)>> {
        let classes = self.0.classes(self.known(cpu)?).into_iter();
        let numbers =
            classes.map(|(class, cpus)| (class.event(), cpus.iter().map(|cpu| cpu.0).collect()));
        Ok(numbers.collect())
    }

    /// The classes that no pair of usable CPUs is in, each with the reason.
    fn missing_classes(&self) -> Vec<(&'static str, String)> {
        let missing = self.0.missing_classes().into_iter();
        missing.map(|class| (class.affinity.event(), class.why)).collect()
    }

    /// The platform as the text of a platform file.
    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    /// The platform as JSON.
    fn json(&self) -> String {
        serde_json::json!(self.0).to_string()
    }

    /// A tree, for a terminal.
    fn text(&self) -> String {
        platform_text::text(&self.0)
    }

    /// A drawing.
    fn svg(&self) -> String {
        platform_svg::draw(&self.0)
    }
}

impl PlatformDescription {
    fn known(&self, cpu: u32) -> PyResult<Cpu> {
        let cpus = &self.0.cpus.value;
        if cpus.contains(Cpu(cpu)) {
            return Ok(Cpu(cpu));
        }
        Err(errors::usage(format!("{} has no CPU {cpu}; it has {cpus}", self.0.name)))
    }
}
