// SPDX-License-Identifier: MIT OR Apache-2.0
//! The committed BPF objects are what their sources say.
//!
//! `bpf/BUILT` names the compiler of the objects and sums up sources and objects: what changed without
//! the other is found on every machine. Where the same clang is installed, the sources are compiled
//! again and compared byte by byte. With another clang they have to compile.
//!
//! `make bpf` (`COREHOP_UPDATE_BPF=1`) compiles them for good.
#![expect(clippy::print_stderr, reason = "a skip says why")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `-mcpu=v3` has atomic additions that tell what was there (Linux 5.12).
const FLAGS: &str = "-target bpfel -mcpu=v3 -O2 -g -fno-ident -fdebug-compilation-dir=. \
                     -Wall -Wextra -Werror -Wno-unused-parameter -Wno-unused-const-variable";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

/// Files of the folder whose name ends with one of `ends`, in order.
fn files(ends: &[&str]) -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> =
        names.filter(|name| ends.iter().any(|end| name.ends_with(end))).collect();
    names.sort();
    names
}

/// FNV-1a of the files' names and contents: it has to notice a change, not an attack.
fn sum(names: &[String]) -> u64 {
    let texts = names.iter().flat_map(|name| {
        let content = std::fs::read(folder().join(name)).unwrap();
        [name.clone().into_bytes(), content]
    });
    texts.flatten().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The content of `bpf/BUILT`, for objects made by `clang`.
fn note(clang: &str) -> String {
    let mut text = format!("clang {clang}\nsources {:016x}\n", sum(&files(&[".bpf.c", ".h"])));
    writeln!(text, "objects {:016x}", sum(&files(&[".bpf.o"]))).unwrap();
    text
}

fn committed_note() -> String {
    std::fs::read_to_string(folder().join("BUILT")).unwrap_or_default()
}

/// The version of the clang that is installed, with the tool that drops its debugging information; or
/// why not.
fn clang() -> Result<String, String> {
    let run = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        output.map_err(|error| format!("no {program} ({error}): apt install clang llvm"))
    };
    run("llvm-strip")?;
    let output = run("clang")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_once("version ").map(|(_, rest)| rest);
    let version = version.and_then(|rest| rest.split_whitespace().next());
    version.map(str::to_owned).ok_or_else(|| format!("clang's version is not understood: {text}"))
}

/// Compiles a source of the folder into `object`.
fn compile(source: &str, object: &Path) {
    let clang = Command::new("clang")
        .args(FLAGS.split_whitespace())
        .args(["-c", source, "-o"])
        .arg(object)
        .current_dir(folder())
        .output()
        .unwrap();
    assert!(clang.status.success(), "{source}: {}", String::from_utf8_lossy(&clang.stderr));
    let strip = Command::new("llvm-strip").arg("-g").arg(object).status().unwrap();
    assert!(strip.success(), "{source}");
}

fn object_of(source: &str) -> String {
    source.replace(".bpf.c", ".bpf.o")
}

fn update(clang: &str) {
    for source in files(&[".bpf.c"]) {
        compile(&source, &folder().join(object_of(&source)));
    }
    std::fs::write(folder().join("BUILT"), note(clang)).unwrap();
}

#[test]
fn sources_compile_to_the_committed_objects() {
    let updating = std::env::var_os("COREHOP_UPDATE_BPF").is_some();
    let clang = match clang() {
        Ok(version) => version,
        Err(why) if updating => panic!("{why}"),
        Err(why) => return eprintln!("skipped: {why}"),
    };
    if updating {
        return update(&clang);
    }
    let same = committed_note().lines().next() == Some(&format!("clang {clang}"));
    if !same {
        eprintln!("compiled but not compared: this is clang {clang}, {}", committed_note());
    }
    let there = tempfile::tempdir().unwrap();
    for source in files(&[".bpf.c"]) {
        let (name, object) = (object_of(&source), there.path().join("object"));
        compile(&source, &object);
        let committed = std::fs::read(folder().join(&name)).unwrap_or_default();
        let equal = std::fs::read(&object).unwrap() == committed;
        assert!(equal || !same, "{name} is not what {source} compiles to: run `make bpf`");
    }
}

#[test]
fn neither_sources_nor_objects_have_changed_without_the_other() {
    if std::env::var_os("COREHOP_UPDATE_BPF").is_some() {
        return;
    }
    let committed = committed_note();
    let clang = committed.lines().next().and_then(|line| line.strip_prefix("clang "));
    assert_eq!(committed, note(clang.unwrap_or_default()), "run `make bpf`");
    let objects: Vec<_> = files(&[".bpf.c"]).iter().map(|source| object_of(source)).collect();
    assert_eq!(files(&[".bpf.o"]), objects, "one object for each source");
}
