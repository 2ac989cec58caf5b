// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C interface: the header is C and C++, its names are those of the library, and its test passes.
#![expect(clippy::print_stdout, reason = "a test says why it cannot look")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the libraries that this test was built with.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Says why a test is not carried out, or that it can be.
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        println!("skipped: there is no {program}");
    }
    there
}

#[test]
fn the_c_test_passes_with_the_shared_library_of_an_installation() {
    if !has("cc") || !has("pkg-config") {
        return;
    }
    let prefix = scratch("installed");
    run(Command::new(package().join("install.sh")).arg(built()).arg(&prefix));
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "corehop_switch"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    for (source, arguments) in [
        ("tests/c/calls.c", &["2000", "200000"][..]),
        ("tests/c/cancelled.c", &[]),
        ("examples/elsewhere.c", &[]),
    ] {
        let program = prefix.join(Path::new(source).file_stem().unwrap());
        let mut compiler = Command::new("cc");
        compiler
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread", "-o"])
            .arg(&program);
        run(compiler.arg(package().join(source)).args(flags.split_whitespace()));
        let output =
            run(Command::new(&program).args(arguments).env("LD_LIBRARY_PATH", prefix.join("lib")));
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn the_header_is_cplusplus_too() {
    if !has("c++") {
        return;
    }
    let unit = scratch("header").join("unit.cpp");
    std::fs::write(&unit, "#include <corehop_switch.h>\n").unwrap();
    let mut compiler = Command::new("c++");
    compiler.args([
        "-std=c++11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-fsyntax-only",
        "-I",
    ]);
    run(compiler.arg(package().join("include")).arg(unit));
}

#[test]
fn the_library_has_its_versioned_name_and_exports_what_the_header_declares() {
    if !has("readelf") || !has("nm") {
        return;
    }
    let library = built().join("libcorehop_switch.so");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    let dynamic = String::from_utf8_lossy(&dynamic.stdout).into_owned();
    assert!(dynamic.contains("soname: [libcorehop_switch.so.0]"), "{dynamic}");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let mut exported: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| name.starts_with("corehop"))
        .collect();
    exported.sort_unstable();
    let header = std::fs::read_to_string(package().join("include/corehop_switch.h")).unwrap();
    assert_eq!(exported, declared(&header));
}

/// The functions of a header, sorted.
fn declared(header: &str) -> Vec<&str> {
    let mut names: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with(['/', ' ', '#', '*']) && !line.starts_with("typedef"))
        .filter_map(|line| line.split('(').next().filter(|before| *before != line))
        .filter_map(|before| before.split([' ', '*']).next_back())
        .collect();
    names.sort_unstable();
    names
}
