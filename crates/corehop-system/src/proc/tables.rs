// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses tables in `/proc` that contain file names: mounts, the cgroups of a process, and locks.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{bytes, lines, number, words};

/// A line of `/proc/mounts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The folder at which the file system is mounted.
    pub at: PathBuf,
    /// The type of the file system.
    pub kind: Vec<u8>,
    options: Vec<u8>,
}

impl Mount {
    /// Returns whether the file system was mounted with this option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(|&byte| byte == b',').any(|it| it == option.as_bytes())
    }
}

/// Returns the mounts in the text of `/proc/mounts`.
pub fn mounts(text: &[u8]) -> Vec<Mount> {
    let mount = |line| {
        let mut words = words(line).skip(1);
        let at = PathBuf::from(std::ffi::OsString::from_vec(unescaped(words.next()?)));
        Some(Mount { at, kind: words.next()?.to_vec(), options: words.next()?.to_vec() })
    };
    lines(text).filter_map(mount).collect()
}

/// Returns the folder of the cgroup hierarchy of version 2: the last one that is mounted, or none.
pub fn unified(mounts: &[Mount]) -> Option<&Path> {
    mounts.iter().rfind(|it| it.kind == b"cgroup2").map(|it| it.at.as_path())
}

/// Decodes a path of `/proc/mounts`, where blanks, line ends and backslashes are written as three octal digits.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut rest = path;
    let mut out = Vec::with_capacity(path.len());
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|it| it.iter().all(|byte| matches!(byte, b'0'..=b'7')));
        match digits {
            Some(&[high, middle, low]) if first == b'\\' && high < b'4' => {
                out.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest = &tail[3..];
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    out
}

/// A line of `/proc/PID/cgroup`: a cgroup of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupEntry<'a> {
    /// The controllers of a version 1 hierarchy, separated by commas; empty for version 2.
    pub controllers: &'a [u8],
    /// The path of the cgroup in its hierarchy, with a leading slash.
    pub path: &'a Path,
}

impl CgroupEntry<'_> {
    /// Returns whether the cgroup hierarchy is of version 2.
    pub const fn is_unified(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Returns whether the hierarchy is of version 1 and has this controller.
    pub fn has(&self, controller: &str) -> bool {
        self.controllers.split(|&byte| byte == b',').any(|it| it == controller.as_bytes())
    }

    /// Returns the path relative to the folder of the hierarchy.
    pub fn below(&self) -> &Path {
        self.path.strip_prefix("/").unwrap_or(self.path)
    }
}

/// Returns the cgroups in the text of `/proc/PID/cgroup`: `NUMBER:CONTROLLERS:PATH`.
pub fn groups(text: &[u8]) -> impl Iterator<Item = CgroupEntry<'_>> {
    lines(text).filter_map(|line| {
        let mut fields = line.splitn(3, |&byte| byte == b':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        Some(CgroupEntry { controllers, path: Path::new(OsStr::from_bytes(path)) })
    })
}

/// Returns the text of `/proc/self/cgroup`; empty if the file does not exist.
pub fn own_groups() -> Vec<u8> {
    bytes("/proc/self/cgroup").unwrap_or_default()
}

/// Returns the process that holds the lock (flock(2)) on a file, if the kernel shows it.
pub fn flock_owner(file: &File) -> Option<u32> {
    let about = file.metadata().ok()?;
    let device = (libc::major(about.dev()), libc::minor(about.dev()));
    locker(&bytes("/proc/locks").ok()?, device, about.ino())
}

/// Parses lines like `1: FLOCK  ADVISORY  WRITE 4711 fd:00:123456 0 EOF`.
fn locker(locks: &[u8], device: (u32, u32), inode: u64) -> Option<u32> {
    let wanted = format!("{:02x}:{:02x}:{inode}", device.0, device.1);
    lines(locks).find_map(|line| {
        let mut words = words(line).skip(1);
        let kind = words.next()?;
        let pid = words.nth(2)?;
        let at = words.next()?;
        (kind == b"FLOCK" && at == wanted.as_bytes()).then(|| number(pid))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_mount_may_have_any_name() {
        let text = b"none /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n\
            none /mnt/a\\040b\\134040\xff cgroup rw,cpuset 0 0\nshort line\n";
        let found = mounts(text);
        assert_eq!(found.len(), 2);
        assert!(found[0].has("nosuid") && !found[0].has("cpuset") && found[0].kind == b"cgroup2");
        assert_eq!(found[1].at.as_os_str().as_bytes(), b"/mnt/a b\\040\xff");
        assert_eq!(unified(&found), Some(Path::new("/sys/fs/cgroup")));
        assert_eq!(unified(&found[1..]), None);
        assert_eq!(unescaped(b"\\0"), b"\\0");
        assert_eq!(unescaped(b"\\777x"), b"\\777x", "no byte");
    }

    #[test]
    fn the_path_of_a_cgroup_may_have_colons_and_any_bytes() {
        let text = b"4:cpu,cpuset:/a:b/\xff\n0::/\nno line\n";
        let found: Vec<CgroupEntry<'_>> = groups(text).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].has("cpuset") && !found[0].has("cpus") && !found[0].is_unified());
        assert_eq!(found[0].below().as_os_str().as_bytes(), b"a:b/\xff");
        assert!(found[1].is_unified() && found[1].below() == Path::new(""));
    }

    #[test]
    fn the_holder_of_a_lock_is_found_by_the_inode() {
        let text = b"1: POSIX  ADVISORY  WRITE 11 fd:00:77 0 EOF\n\
            1: -> FLOCK  ADVISORY  WRITE 12 fd:00:77 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 4711 fd:00:77 0 EOF\n";
        assert_eq!(locker(text, (0xfd, 0), 77), Some(4711));
        assert_eq!((locker(text, (0xfd, 0), 7), locker(text, (8, 1), 77)), (None, None));
        let file = tempfile::tempfile().unwrap();
        file.lock().unwrap();
        // A host without CONFIG_FILE_LOCKING, or another PID namespace, does not show it.
        assert!(flock_owner(&file).is_none_or(|pid| pid == std::process::id()));
    }
}
