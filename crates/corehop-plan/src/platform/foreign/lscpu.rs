// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the JSON of lscpu: the summary (`lscpu -J`), a row for each CPU (`-J -e`), the caches (`-J -C`), or a file
//! with several of these parts in sequence.

use serde_json::{Map, Value};

use super::{
    CacheInstance, DescribedCache, DescriptionError, MachineDescription, cache_name, grouped,
};
use crate::platform::CacheKind;
use crate::units::{Bytes, Cpu, CpuList};

/// The three parts of lscpu's output; a part that the text lacks is empty.
#[derive(Debug, Default)]
struct LscpuText {
    /// The names and values of the summary; a name such as `Model name` has no colon.
    summary: Vec<(String, String)>,
    /// The rows for CPUs, one for each CPU.
    cpus: Vec<Map<String, Value>>,
    /// The rows for caches, one for each cache.
    caches: Vec<Map<String, Value>>,
}

pub(super) fn read(text: &str) -> Result<MachineDescription, DescriptionError> {
    let mut parts = LscpuText::default();
    for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let document = document.map_err(|error| DescriptionError::Syntax {
            format: "JSON",
            what: error.to_string(),
        })?;
        lines(&document["lscpu"], &mut parts.summary);
        parts.cpus.extend(rows(&document["cpus"]));
        parts.caches.extend(rows(&document["caches"]));
    }
    let mut machine = MachineDescription {
        source: "lscpu -J",
        vendor: parts.field("Vendor ID"),
        model: parts.field("Model name"),
        hypervisor: parts.field("Hypervisor vendor"),
        ..MachineDescription::default()
    };
    if parts.cpus.is_empty() {
        parts.describe_by_summary(&mut machine)?;
    } else {
        parts.describe_by_rows(&mut machine)?;
    }
    if machine.model.is_none() {
        machine.notes.push("no model is stated: `lscpu -J` states the model".to_owned());
    }
    Ok(machine)
}

/// Collects the lines of a summary, including lines nested below other lines.
fn lines(list: &Value, into: &mut Vec<(String, String)>) {
    for line in list.as_array().into_iter().flatten() {
        if let (Some(field), Some(data)) = (line["field"].as_str(), line["data"].as_str()) {
            into.push((field.trim_end_matches(':').to_owned(), data.to_owned()));
        }
        lines(&line["children"], into);
    }
}

fn rows(list: &Value) -> Vec<Map<String, Value>> {
    list.as_array().into_iter().flatten().filter_map(|row| row.as_object().cloned()).collect()
}

/// Returns a value as text, because some versions of lscpu write numbers as texts. Returns None if the value is
/// absent, empty, or `-`.
fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) if text.is_empty() || text == "-" => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn number(value: Option<&Value>) -> Option<u64> {
    text(value)?.parse().ok()
}

impl LscpuText {
    fn field(&self, name: &str) -> Option<String> {
        let line = self.summary.iter().find(|(field, _)| field == name);
        line.map(|(_, data)| data.clone()).filter(|data| !data.is_empty() && data != "-")
    }

    /// Describes the machine from the rows for CPUs.
    fn describe_by_rows(&self, machine: &mut MachineDescription) -> Result<(), DescriptionError> {
        let (mut offline, mut seats) = (Vec::new(), Vec::new());
        for (at, row) in self.cpus.iter().enumerate() {
            let cpu = number(row.get("cpu")).and_then(|cpu| u32::try_from(cpu).ok()).map(Cpu);
            let cpu = cpu.ok_or_else(|| {
                DescriptionError::Incomplete(format!("row {at} of `cpus` has no number `cpu`"))
            })?;
            let is_offline =
                ["no", "false"].contains(&&*text(row.get("online")).unwrap_or_default());
            if is_offline {
                offline.push(cpu);
                continue;
            }
            let seat = (number(row.get("socket")), number(row.get("core")));
            let (Some(socket), Some(core)) = seat else {
                let what = format!(
                    "{cpu} has no `socket` or no `core`: write the file with `lscpu -J -e=CPU,CORE,SOCKET,NODE,CACHE`"
                );
                return Err(DescriptionError::Incomplete(what));
            };
            seats.push((cpu, socket, core, row));
        }
        machine.packages = grouped(seats.iter().map(|it| (it.1, it.0))).into_values().collect();
        machine.cores =
            grouped(seats.iter().map(|it| ((it.1, it.2), it.0))).into_values().collect();
        let node = |row: &Map<String, Value>| number(row.get("node"));
        let nodes = grouped(seats.iter().filter_map(|it| Some((node(it.3)? as u32, it.0))));
        machine.nodes = nodes.into_iter().map(|(id, cpus)| (id, cpus, None)).collect();
        if !offline.is_empty() {
            let cpus = CpuList::new(offline);
            machine.notes.push(format!(
                "CPUs {cpus} are offline and lscpu states no core for them, so corehop omits these CPUs"
            ));
        }
        let rows: Vec<(Cpu, &Map<String, Value>)> = seats.iter().map(|it| (it.0, it.3)).collect();
        self.shared_caches(&rows, machine);
        Ok(())
    }

    /// Reads the caches from a column such as `l1d:l1i:l2:l3`, whose values are the numbers of the instances.
    fn shared_caches(&self, rows: &[(Cpu, &Map<String, Value>)], machine: &mut MachineDescription) {
        let is_caches = |name: &&String| name.split(':').all(|part| cache_name(part).is_some());
        let Some(column) = rows.first().and_then(|(_, row)| row.keys().find(is_caches)) else {
            let what = "the file states no cache: `lscpu -J -e=CPU,CORE,SOCKET,NODE,CACHE` states the CPUs of each cache";
            machine.notes.push(what.to_owned());
            return;
        };
        for (place, name) in column.split(':').enumerate() {
            let Some(named) = cache_name(name) else { continue };
            let instance = |row: &Map<String, Value>| {
                let all = text(row.get(column))?;
                all.split(':').nth(place).filter(|number| !number.is_empty()).map(str::to_owned)
            };
            let members = rows.iter().filter_map(|(cpu, row)| Some((instance(row)?, *cpu)));
            let shape = self.shape(named);
            let instances = grouped(members).into_values();
            machine.caches.extend(instances.map(|cpus| CacheInstance { shape, cpus }));
        }
        if self.caches.is_empty() {
            let what =
                "the file states no size of a cache: add the output of `lscpu -J -C` to the file";
            machine.notes.push(what.to_owned());
        }
        for row in &self.caches {
            let of = |name: &str| text(row.get(name));
            if let Some(size) = of("one-size").filter(|size| bytes(size).is_none()) {
                machine.notes.push(format!(
                    "{}: corehop ignores the size `{size}`, which is rounded or has an unknown form: `lscpu -J -B -C` states bytes",
                    of("name").unwrap_or_default()
                ));
            }
        }
    }

    /// Returns the size and the ways of a cache, from the rows of `-C`.
    fn shape(&self, (level, kind): (u32, CacheKind)) -> DescribedCache {
        let is_named = |row: &&Map<String, Value>| {
            text(row.get("name")).as_deref().and_then(cache_name) == Some((level, kind))
        };
        let row = self.caches.iter().find(is_named);
        let of = |name: &str| row.and_then(|row| row.get(name));
        let size = text(of("one-size")).and_then(|size| bytes(&size));
        DescribedCache {
            level,
            kind,
            size,
            ways: number(of("ways")).and_then(|ways| u32::try_from(ways).ok()),
            line: number(of("coherency-size")),
        }
    }

    /// Describes the machine from the summary alone, if only one machine can have this summary.
    fn describe_by_summary(
        &self,
        machine: &mut MachineDescription,
    ) -> Result<(), DescriptionError> {
        let of = |name: &str| self.field(name).and_then(|data| data.parse::<u64>().ok());
        let online =
            self.field("On-line CPU(s) list").and_then(|list| list.parse::<CpuList>().ok());
        let Some(cpus) = online.filter(|list| !list.is_empty()) else {
            let what = "`On-line CPU(s) list` is missing: write the file with `lscpu -J`";
            return Err(DescriptionError::Incomplete(what.to_owned()));
        };
        if (of("Thread(s) per core"), of("Socket(s)")) != (Some(1), Some(1)) {
            let what = "the summary does not state which CPUs share a core or a package: write all parts into one file with \
                        `(lscpu -J; lscpu -J -e; lscpu -J -C) > FILE`";
            return Err(DescriptionError::Incomplete(what.to_owned()));
        }
        machine.cores = cpus.iter().map(|cpu| CpuList::new([cpu])).collect();
        machine.packages = vec![cpus.clone()];
        for (field, data) in &self.summary {
            if let Some(node) =
                field.strip_prefix("NUMA node").and_then(|it| it.strip_suffix(" CPU(s)"))
                && let (Ok(id), Ok(cpus)) = (node.parse(), data.parse())
            {
                machine.nodes.push((id, cpus, None));
            }
            if let Some(named) = field.strip_suffix(" cache").and_then(cache_name) {
                match summed(data, cpus.len() as u64) {
                    Some((size, is_private)) => {
                        let shape = DescribedCache { size: Some(size), ..self.shape(named) };
                        let shared = vec![cpus.clone()];
                        let each = if is_private { machine.cores.clone() } else { shared };
                        machine.caches.extend(each.into_iter().map(|cpus| CacheInstance { shape, cpus }));
                    }
                    None => machine.notes.push(format!(
                        "{field} is {data}: corehop omits this cache, because the CPUs of each instance are not stated (`lscpu -J -e`)"
                    )),
                }
            }
        }
        Ok(())
    }
}

/// Returns a size as lscpu writes it: bytes with `-B`, otherwise a number with a letter.
fn bytes(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| text.parse().ok().map(Bytes::get))
}

/// Reads `96 KiB (2 instances)`: the size of one instance, and whether every CPU has its own instance; returns `None`
/// if groups of CPUs share instances.
fn summed(data: &str, cpus: u64) -> Option<(u64, bool)> {
    let (size, rest) = data.split_once('(')?;
    let instances: u64 = rest.split_whitespace().next()?.parse().ok()?;
    let each = size.trim().parse::<Bytes>().ok()?.get().checked_div(instances)?;
    (instances == 1 || instances == cpus).then_some((each, instances == cpus))
}
