// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a library can be preloaded into a program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use corehop_plan::shown;

use super::OffloadError;

/// The largest nesting of scripts whose interpreter is a script; the kernel follows four.
const MOST_SCRIPTS: u32 = 4;
/// A size larger than the headers of any program.
const HEAD: u64 = 64 << 10;

/// Rejects a program into which the loader preloads no library.
pub(super) fn check(program: &OsStr) -> Result<(), OffloadError> {
    // SAFETY: no arguments.
    let is_set_id =
        unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() };
    if is_set_id {
        return Err(OffloadError::SetId);
    }
    let no_program = |source| OffloadError::NoProgram {
        program: shown::bytes(program.as_encoded_bytes()),
        source,
    };
    let mut path = find(program).map_err(no_program)?;
    for _ in 0..MOST_SCRIPTS {
        let head = head(&path).map_err(no_program)?;
        if let Some(interpreter) = interpreter_of_script(&head) {
            path = interpreter;
            continue;
        }
        let refused = |why| {
            let program = shown::path(&path);
            Err(OffloadError::NotPreloaded { program, why })
        };
        if changes_rights(&path).map_err(no_program)? {
            return refused(
                "the program runs with the rights of another user (set-uid, set-gid or capabilities), and the loader preloads nothing into such a program. Start the program as that user",
            );
        }
        return match linking(&head) {
            Linking::Dynamic => Ok(()),
            Linking::Static => refused(
                "the program is linked statically, so the loader preloads nothing. Use a dynamically linked build of the program",
            ),
            Linking::Other => refused("the file is not a program for Linux on x86-64"),
        };
    }
    Ok(())
}

/// The file of a program, searched like execvp(3).
fn find(program: &OsStr) -> io::Result<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let mut candidates = std::env::split_paths(&folders).map(|folder| folder.join(program));
    candidates.find(is_program).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
}

fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// The interpreter that a script names.
fn interpreter_of_script(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let words = line.split(|byte| b" \t".contains(byte));
    let word = words.into_iter().find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

/// Whether the program runs with privileges that differ from those of its caller.
fn changes_rights(path: &Path) -> io::Result<bool> {
    let status = fs::metadata(path)?;
    // SAFETY: no arguments.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let (mode, by_user, by_group) = (status.mode(), status.uid() != user, status.gid() != group);
    let is_set = |bit: u32, other: bool| mode & bit != 0 && other;
    if is_set(libc::S_ISUID, by_user) || is_set(libc::S_ISGID | libc::S_IXGRP, by_group) {
        return Ok(mode & libc::S_ISUID != 0 || mode & libc::S_ISGID != 0);
    }
    if user == 0 {
        // Capabilities of a file add nothing to root's.
        return Ok(false);
    }
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let attribute = c"security.capability";
    // SAFETY: two strings that end with a zero, and no room for a value.
    let size =
        unsafe { libc::getxattr(name.as_ptr(), attribute.as_ptr(), std::ptr::null_mut(), 0) };
    Ok(size > 0)
}

#[derive(Debug, PartialEq, Eq)]
enum Linking {
    Dynamic,
    Static,
    Other,
}

/// The linking of the program; a dynamically linked program names its loader.
fn linking(head: &[u8]) -> Linking {
    const INTERPRETER: u32 = 3;
    const X86_64: u16 = 62;
    let word = |at: usize| head.get(at..at + 2).map(|it| u16::from_le_bytes([it[0], it[1]]));
    let offset = head.get(32..40).and_then(|it| it.try_into().ok()).map(u64::from_le_bytes);
    let is_elf = head.starts_with(b"\x7fELF\x02\x01");
    let (Some(X86_64), Some(offset), Some(size), Some(count)) =
        (word(18).filter(|_| is_elf), offset, word(54), word(56))
    else {
        return Linking::Other;
    };
    let names_loader = (0..usize::from(count)).any(|at| {
        let begin = (offset as usize).saturating_add(at * usize::from(size));
        let kind = head.get(begin..begin.saturating_add(4));
        kind.and_then(|it| it.try_into().ok()).map(u32::from_le_bytes) == Some(INTERPRETER)
    });
    if names_loader { Linking::Dynamic } else { Linking::Static }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_told_from_a_static_one_and_from_what_is_none() {
        assert_eq!(linking(&head(Path::new("/bin/ls")).unwrap()), Linking::Dynamic);
        assert_eq!(linking(b"#!/bin/sh\n"), Linking::Other);
        let mut elf = head(Path::new("/bin/ls")).unwrap();
        elf[56] = 0;
        elf[57] = 0;
        assert_eq!(linking(&elf), Linking::Static);
        elf[18] = 3;
        assert_eq!(linking(&elf), Linking::Other);
        assert_eq!(linking(&elf[..40]), Linking::Other);
    }

    #[test]
    fn a_script_is_judged_by_its_interpreter() {
        let script = b"#! /usr/bin/env python3\nprint()";
        assert_eq!(interpreter_of_script(script), Some(PathBuf::from("/usr/bin/env")));
        assert_eq!(interpreter_of_script(b"\x7fELF"), None);
        assert_eq!(interpreter_of_script(b"#!"), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = check(OsStr::new("no-such-program")).unwrap_err();
        assert!(error.to_string().contains("`no-such-program`"), "{error}");
        assert!(check(OsStr::new("ls")).is_ok());
    }
}
