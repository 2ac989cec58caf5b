// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of figures that the benchmarks of all crates share, `out/bench.json`.

use std::path::Path;

use serde_json::Value;

/// Tells figures, and puts them into the list in place of earlier ones of the same names.
pub(crate) fn put(figures: Vec<Value>, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    for figure in &figures {
        eprintln!("{figure}");
    }
    let mut list: Vec<Value> = match std::fs::read_to_string(out) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Vec::new(),
    };
    list.retain(|figure| figures.iter().all(|new| new["name"] != figure["name"]));
    list.extend(figures);
    if let Some(folder) = out.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(out, format!("{:#}\n", Value::from(list)))?;
    eprintln!("{}", out.display());
    Ok(())
}
