// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognises the format of a file that a command cannot read from its first bytes, and names the programs that read
//! it.

use std::fmt;

use crate::kinds::trace_line;
use crate::platform::foreign::{HWLOC, LSCPU};
use crate::workload::foreign::{self, columns};

/// The name of the format of a hyperfine export.
pub const HYPERFINE: &str = "an export of hyperfine (JSON)";

/// The name of the format of scheduler events as text.
pub const TRACE: &str = "a trace of the kernel (text)";

/// The number of bytes that suffice to recognise a format.
pub const ENOUGH: usize = 4096;

/// A file format, and the programs that read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFormat {
    /// The name of the format, as in "this is ...".
    pub what: &'static str,
    /// The programs or commands that read the format, as a clause; empty if the name is sufficient.
    pub reader: &'static str,
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.reader.is_empty() { "" } else { ": " };
        write!(f, "this is {}{colon}{}", self.what, self.reader)
    }
}

/// The first bytes of a format, its name, and its readers.
type Magic = (&'static [u8], &'static str, &'static str);

const MAGICS: &[Magic] = &[
    (b"PAR1", "Parquet", "`corehop report contents FILE` says whose rows the file holds"),
    (
        b"\xff\xff\xff\xff",
        "an Arrow stream",
        "`corehop report contents FILE` says whose rows the file holds",
    ),
    (
        b"ARROW1",
        "an Arrow file (Feather)",
        "pyarrow and polars read it; corehop reads Arrow streams and Parquet",
    ),
    (b"\x1f\x8b", "gzip", "unpack it with `gunzip` first"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unpack it with `unzstd` first"),
    (b"\xfd7zXZ\x00", "xz", "unpack it with `unxz` first"),
    (b"BZh", "bzip2", "unpack it with `bunzip2` first"),
    (b"\x04\x22\x4d\x18", "lz4", "unpack it with `unlz4` first"),
    (b"PK\x03\x04", "a ZIP archive", "unpack it with `unzip` first"),
    (
        b"PERFILE2",
        "a recording of perf",
        "`perf script -i FILE | corehop record from -` records its threads",
    ),
    (
        b"\x17\x08\x44tracing",
        "a recording of trace-cmd",
        "`trace-cmd report FILE | corehop record from -` records its threads",
    ),
    (b"\xc1\x1f\xfc\xc1", "a trace in CTF (LTTng)", "`babeltrace2` reads it"),
    (b"SQLite format 3\x00", "an SQLite database", "`sqlite3` reads it"),
    (b"\x89HDF\r\n", "HDF5", "h5py and `h5dump` read it"),
    (b"\x7fELF", "a program (ELF)", "`corehop record -- FILE` runs and records it"),
    (b"%PDF", "PDF", "corehop does not read it"),
    (b"\x89PNG", "a picture (PNG)", "corehop does not read it"),
    (b"\x93NUMPY", "an array of NumPy", "numpy.load reads it"),
    (b"\xff\xfe", "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8` first"),
    (b"\xfe\xff", "text in UTF-16", "convert it with `iconv -f UTF-16 -t UTF-8` first"),
    (b"# tracer:", TRACE, "`corehop record from FILE` reads it"),
    (b"#!", "a script", "a shell runs it"),
];

impl FileFormat {
    /// Returns whether this format is the wanted format, or one of several that `, or ` separates. A single wanted format
    /// `a task set (JSON)` includes plain `JSON`.
    pub fn is(&self, wanted: &str) -> bool {
        let is_named = wanted.split(", or ").any(|one| one == self.what);
        is_named || (!wanted.contains(", or ") && wanted.ends_with(&format!("({})", self.what)))
    }
}

/// The readers of descriptions of machines that other programs write.
const PLATFORM: &str = "`corehop sim platform FILE` and `--on FILE` read it";

/// The formats of texts, each with the marks that it contains (all marks that `&` joins); the first match counts.
const JSON: &[Magic] = &[
    (
        b"\"corehop-offload",
        "an answer of `corehop offload -o`",
        "`corehop report contents` and `corehop report` read it",
    ),
    (
        b"\"corehop_placement\"",
        "a log of `corehop place -o`",
        "`corehop report contents` and `corehop report` read it",
    ),
    (
        b"\"corehop-model-",
        "a cost model (JSON)",
        "`corehop advise predict` and `corehop check --costs` read it",
    ),
    (
        b"\"corehop-gain-",
        "a model of shared data (JSON)",
        "`corehop advise predict` and `corehop place --model` read it",
    ),
    (
        b"\"curves\"",
        "a cost model (JSON)",
        "`corehop advise predict` and `corehop check --costs` read it",
    ),
    (b"\"wcet_us\"", "a task set (JSON)", "`corehop check` and `corehop convert` read it"),
    (b"\"budget_us\"", "a supply (JSON)", "`corehop check --supply` reads it"),
    (b"\"timer\"", "an rt-app workload (JSON)", "`corehop convert tasks FILE` reads it"),
    (b"\"global\"", "an rt-app workload (JSON)", "`corehop convert tasks FILE` reads it"),
    (b"\"results\"&\"command\"", HYPERFINE, "`corehop compare` reads it"),
    (b"\"lscpu\"&\"field\"", LSCPU, PLATFORM),
    (b"\"cpus\"&\"socket\"", LSCPU, PLATFORM),
    (b"\"caches\"&\"one-size\"", LSCPU, PLATFORM),
    (b"\"traceEvents\"", "a trace of Chrome (JSON)", "Perfetto reads it"),
    (b"\"nbformat\"", "a notebook", "Jupyter reads it"),
    (
        b"",
        "JSON",
        "`corehop check` reads task sets, `corehop advise predict` models, `corehop measure plan` plans",
    ),
];

const MARKUP: &[Magic] = &[
    (b"<topology", HWLOC, PLATFORM),
    (b"<taskset", foreign::SCHEDCAT, TASKS),
    (b"<testpoint", foreign::SCHEDCAT, TASKS),
    (b"<simulation", foreign::SIMSO, TASKS),
    (b"<cheddar", foreign::CHEDDAR, TASKS),
    (
        b"<mast_mdl:mast_model",
        "a model of MAST (XML)",
        "corehop reads the text of MAST models, not their XML: write the model as text in MAST, or the tasks as CSV or YAML",
    ),
    (b"<!doctype html", "an HTML page", "a browser shows it"),
    (b"<html", "an HTML page", "a browser shows it"),
    (b"<svg", "a drawing (SVG)", "a browser shows it"),
    (
        b"",
        "XML",
        "corehop reads the XML of hwloc (`corehop sim platform`) and of SchedCAT, SimSo and Cheddar (`corehop check`)",
    ),
];

const TEXT: &[Magic] = &[
    (b"model_name&model_date&=>", foreign::MAST, TASKS),
    (b"processing_resource&=>", foreign::MAST, TASKS),
    (
        b"preemption_length",
        "a cost table (CSV)",
        "`corehop check --costs` and `corehop check study --costs` read it",
    ),
    (
        b"task-count",
        "a table of overheads of SchedCAT (CSV)",
        "`corehop check --overheads` reads it",
    ),
    (
        b"schema = ",
        "a platform file (TOML)",
        "`corehop sim platform FILE.toml` and `--on FILE.toml` read it",
    ),
    (
        b"[[cache]]",
        "a platform file (TOML)",
        "`corehop sim platform FILE.toml` and `--on FILE.toml` read it",
    ),
    (b"[study", "the description of a study (TOML)", "`corehop check study` reads it"),
];

const TOML: FileFormat = FileFormat {
    what: "TOML",
    reader: "`corehop sim platform` reads platform files, `corehop check study` studies",
};
const YAML: FileFormat = FileFormat {
    what: "YAML",
    reader: "corehop reads tables of tasks as YAML (`corehop check`, `corehop convert tasks`)",
};

/// The readers of task sets that other programs write.
const TASKS: &str = "`corehop check` and `corehop convert tasks` read it";
const TASK_CSV: FileFormat = FileFormat { what: foreign::CSV, reader: TASKS };
const TASK_YAML: FileFormat = FileFormat { what: foreign::YAML, reader: TASKS };

fn to_seen(&(_, what, reader): &Magic) -> FileFormat {
    FileFormat { what, reader }
}

/// Returns the format of a file that begins with `bytes`, or `None` if the format is unknown.
pub fn seen(bytes: &[u8]) -> Option<FileFormat> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Some(FileFormat { what: "an empty file", reader: "" });
    }
    let bytes = &bytes[..bytes.len().min(ENOUGH)];
    if let Some(magic) = MAGICS.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        return Some(to_seen(magic));
    }
    if bytes.get(257..262) == Some(b"ustar") {
        return Some(FileFormat { what: "a tar archive", reader: "unpack it with `tar -x` first" });
    }
    // The last character may be cut off.
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return Some(FileFormat { what: "no text in UTF-8", reader: "" }),
    };
    of_text(uncommented(text.trim_start_matches('\u{feff}')))
}

/// Returns the text after its leading comments, which rt-app allows.
fn uncommented(text: &str) -> &str {
    let text = text.trim_start();
    let rest = match text.strip_prefix("/*") {
        Some(rest) => rest.split_once("*/").map(|(_, rest)| rest),
        None => {
            text.strip_prefix("//").and_then(|rest| rest.split_once('\n')).map(|(_, rest)| rest)
        }
    };
    rest.map_or(text, uncommented)
}

/// Returns whether the first line that is not a comment is the head of a table of tasks.
fn is_task_table(text: &str) -> bool {
    text.lines().find(|line| !line.starts_with('#')).is_some_and(columns::is_head)
}

/// Returns whether the keys of a YAML text state an execution time and a period, as keys of tasks do.
fn is_task_yaml(text: &str) -> bool {
    let keys = text.split(['\n', '{', ',', '}']).filter_map(|part| part.split_once(':'));
    let keys = keys.filter_map(|(key, _)| columns::heading(key.trim_start_matches([' ', '-'])));
    let known: Vec<columns::TaskColumn> = keys.map(|key| key.column).collect();
    ["wcet_us", "period_us"].iter().all(|field| known.contains(&columns::TaskColumn::Time(field)))
}

/// Returns whether every line can be YAML: a key with a colon, a list item, or a continuation.
fn is_yaml(text: &str) -> bool {
    let lines = || text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let is_key = |line: &str| {
        let key = line.split_once(':').filter(|(_, rest)| rest.is_empty() || rest.starts_with(' '));
        key.is_some_and(|(key, _)| !key.is_empty() && !key.contains(' '))
    };
    let fits = |line: &str| is_key(line) || line.starts_with([' ', '-']);
    lines().count() > 1
        && lines()
            .next()
            .is_some_and(|line| is_key(line) || line == "---" || line.starts_with("- "))
        && lines().all(fits)
}

/// Returns whether the first line can be TOML: a table, or a key with a value.
fn is_toml(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let is_table = |line: &str| line.starts_with('[') && line.trim_end().ends_with(']');
    let is_key = |line: &str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
    first.is_some_and(|line| is_table(line) || is_key(line))
}

/// Returns the format of a YAML text: a table of tasks, or other YAML.
fn of_yaml(text: &str) -> Option<FileFormat> {
    is_yaml(text).then(|| if is_task_yaml(text) { TASK_YAML } else { YAML })
}

fn of_text(text: &str) -> Option<FileFormat> {
    let lower = text.to_ascii_lowercase();
    let marked = |list: &[Magic]| {
        let holds = |marks: &[u8]| {
            let marks = std::str::from_utf8(marks);
            marks.is_ok_and(|marks| marks.split('&').all(|mark| lower.contains(mark)))
        };
        list.iter().find(|(mark, ..)| holds(&mark.to_ascii_lowercase())).map(to_seen)
    };
    match text.chars().next()? {
        '{' => marked(JSON),
        '[' if !lower.starts_with("[[") && lower[1..].trim_start().starts_with(['{', '[', '"', ']']) => {
            marked(JSON)
        }
        '<' => marked(MARKUP),
        _ if is_task_table(text) => Some(TASK_CSV),
        _ if text.lines().any(|line| trace_line::event(line).is_some()) => {
            Some(FileFormat { what: TRACE, reader: "`corehop record from FILE` reads it" })
        }
        _ => marked(TEXT).or_else(|| is_toml(text).then_some(TOML)).or_else(|| of_yaml(text)).or_else(|| {
            let commas = |line: &str| line.matches(',').count();
            let mut lines = text.lines().filter(|line| !line.starts_with('#'));
            let (head, next) = (lines.next().map(commas)?, lines.next().map(commas));
            let is_csv = head > 0 && next.is_none_or(|next| next == head);
            is_csv.then_some(FileFormat {
                what: "CSV",
                reader: "`corehop check --costs` reads cost tables, `corehop convert` tables of SchedCAT",
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_among_several_that_are_wanted() {
        let cheddar = seen(b"<cheddar version=\"3\">").unwrap();
        assert!(
            cheddar
                .is("a table of tasks (CSV), or a model of Cheddar (XML), or an rt-app workload")
        );
        assert!(!cheddar.is("a table of tasks (CSV), or a simulation of SimSo (XML)"));
        let plain = seen(b"{\"a\": 1}").unwrap();
        assert!(plain.is("a task set (JSON)") && !plain.is("a table (CSV)"));
        assert!(!plain.is("a table (CSV), or a task set (JSON)"), "the reader of which one?");
    }

    #[test]
    fn a_file_is_named_by_what_it_begins_with_and_its_reader_with_it() {
        for (bytes, what, reader) in [
            (&b"<?xml version=\"1.0\"?>\n<other/>"[..], "XML", "sim platform"),
            (b"\xef\xbb\xbf<!DOCTYPE html><html>", "HTML", "browser"),
            (b"\x1f\x8b\x08\x00", "gzip", "gunzip"),
            (b"PK\x03\x04rest", "ZIP", "unzip"),
            (b"PERFILE2....", "perf", "perf script"),
            (b"PAR1....", "Parquet", "corehop report contents"),
            (b"{\"schema\": \"corehop-offload\", \"version\": 1}", "offload", "corehop report"),
            (
                b"{\"cpus\": 1, \"tasks\": [{\"wcet_us\": 1, \"period_us\": 4}]}",
                "task set",
                "corehop check",
            ),
            (b"{\"tasks\": {}, \"global\": {}}", "rt-app", "corehop convert"),
            (b"{\"results\": [{\"command\": \"ls\"}]}", "hyperfine", "corehop compare"),
            (b"{\"lscpu\": [{\"field\": \"x\"}]}", "lscpu", "corehop sim platform"),
            (b"{\"cpus\": [{\"cpu\": 0, \"socket\": 0}]}", "lscpu", "--on"),
            (b"<?xml version=\"1.0\"?>\n<taskset>", "SchedCAT", "corehop check"),
            (b"<?xml version=\"1.0\"?>\n<simulation duration=\"1\">", "SimSo", "convert tasks"),
            (b"<cheddar>", "Cheddar", "corehop check"),
            (b"<mast_mdl:MAST_MODEL>", "MAST (XML)", "not their XML"),
            (
                b"-- mine\nModel (Model_Name => m, Model_Date => 2026-01-02);\n",
                "MAST (text)",
                "convert tasks",
            ),
            (b"PROCESSING_RESOURCE (Type=>x);", "MAST (text)", "corehop check"),
            (b"<!DOCTYPE topology>\n<topology>", "hwloc", "corehop sim platform"),
            (b"{\"a\": 1}", "JSON", "corehop check"),
            (b"schema = 1\nid = \"a\"\n", "platform file", "corehop sim platform"),
            (b"a,b,c\n1,2,3\n", "CSV", "--costs"),
            (b"TASK-COUNT,SCHEDULE\n1,2\n", "SchedCAT", "--overheads"),
            (
                b"/* a comment */ // and one\n{\"tasks\": {}, \"global\": {}}",
                "rt-app",
                "corehop convert",
            ),
            (b"{\"curves\": [{}]", "cost model", "corehop advise predict"),
            (b"cpus: 2\ntasks:\n  - x: 3\n", "YAML", "tables of tasks as YAML"),
            (b"cpus: 2\ntasks:\n  - {C: 1ms, T: 4ms}\n", "tasks (YAML)", "corehop check"),
            (b"- C: 1ms\n  T: 4ms\n", "tasks (YAML)", "corehop convert tasks"),
            (
                b"version = 6\na-1 [000] 1.5: sched_wakeup: x:3 [120]\n",
                "trace of the kernel",
                "record from",
            ),
            (b"# tracer: nop\n", "trace of the kernel", "record from"),
            (b"# mine\nname;C [ms];T [ms]\na;1;4\n", "tasks (CSV)", "corehop convert tasks"),
            (b"# mine\n[tool]\nname = 1\n", "TOML", "corehop check study"),
            (b"\x00\xff\xfe\x80", "no text", ""),
            (b"MEASURED\xc3", "", ""),
        ] {
            let text = seen(bytes).map_or_else(String::new, |it| it.to_string());
            assert!(text.contains(what) && text.contains(reader), "{bytes:?}: {text}");
        }
        assert_eq!(seen(b"").unwrap().what, "an empty file");
        assert_eq!(seen(b"Dear reader,\nhello\n"), None);
    }
}
