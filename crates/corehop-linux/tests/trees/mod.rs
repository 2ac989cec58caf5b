// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes a described machine's files out.
//!
//! A description has one file per line, `PATH: CONTENT` (`\n` and `\t` in the content stand for
//! themselves). A line that begins with groups of CPUs in braces stands for one file per CPU: `@`
//! in the path is the CPU, `%` in the content its group.

use std::fs;
use std::path::Path;

use corehop_plan::platform::CpuGroups;
use tempfile::TempDir;

/// A directory with the files of `trees/NAME.txt`.
pub(crate) fn tree(name: &str) -> TempDir {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corehop-linux/tests/trees");
    let text = fs::read_to_string(path.join(format!("{name}.txt"))).unwrap();
    let root = TempDir::new().unwrap();
    write(root.path(), &text);
    root
}

/// Writes the files that `text` describes.
pub(crate) fn write(root: &Path, text: &str) {
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some(line) = line.strip_prefix('{') else {
            file(root, line);
            continue;
        };
        let (groups, line) = line.split_once("} ").unwrap();
        for group in &groups_of(groups) {
            for cpu in group.iter() {
                let line = line.replace('@', &cpu.0.to_string());
                file(root, &line.replace('%', &group.to_string()));
            }
        }
    }
}

fn groups_of(text: &str) -> CpuGroups {
    let list = || CpuGroups::new(text.split('|').map(|group| group.parse().unwrap()));
    text.parse().unwrap_or_else(|_| list())
}

fn file(root: &Path, line: &str) {
    let (path, content) = line.split_once(": ").unwrap();
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content.replace("\\n", "\n").replace("\\t", "\t") + "\n").unwrap();
}
