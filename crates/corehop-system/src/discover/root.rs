// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a running system, or of a copy of them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::DiscoverError;

/// More than any file that is read here holds: `/proc/cpuinfo` of 1,024 CPUs has 1.6 MB.
const LARGEST_FILE: u64 = 16 << 20;

/// The directory that `sys/` and `proc/` are in.
#[derive(Debug, Clone)]
pub struct SysRoot(PathBuf);

impl SysRoot {
    /// This host.
    pub fn live() -> Self {
        Self(PathBuf::from("/"))
    }
    /// A copy of a system's files.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }
    /// Whether it is this host, so that the processor and the kernel may be asked directly.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }
    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// The content of a file, without the line break at its end; nothing where it cannot be read. For words and
    /// numbers of the kernel itself: bytes that are no UTF-8 are replaced.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        self.head(path, LARGEST_FILE)
    }
    /// The first `most` bytes of a file, likewise.
    pub(crate) fn head(&self, path: impl AsRef<Path>, most: u64) -> Option<String> {
        let bytes = self.take(path.as_ref(), most)?;
        Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\0']).to_owned())
    }
    /// The bytes of a file in which there are names; nothing where it cannot be read.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.take(path.as_ref(), LARGEST_FILE)
    }
    fn take(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(path)).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
    /// The content of a file as a `T`; nothing where there is no such file, or it is empty.
    pub(super) fn parsed<T: FromStr>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Option<T>, DiscoverError> {
        let path = path.as_ref();
        let Some(text) = self.read(path).filter(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        let value = text.trim().parse().map_err(|_| self.unreadable(path, &text))?;
        Ok(Some(value))
    }
    /// The numbers N of the entries `PREFIX<N>SUFFIX` of a directory, ascending.
    pub fn numbered(&self, directory: &str, prefix: &str, suffix: &str) -> Vec<u32> {
        let entries = fs::read_dir(self.0.join(directory)).into_iter().flatten().flatten();
        let number =
            |name: String| name.strip_prefix(prefix)?.strip_suffix(suffix)?.parse::<u32>().ok();
        let mut numbers: Vec<_> = entries
            .filter_map(|entry| number(entry.file_name().to_string_lossy().into_owned()))
            .collect();
        numbers.sort_unstable();
        numbers
    }
    /// The names of the entries of a directory, sorted.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(directory)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }
    /// The error for a file whose content makes no sense.
    pub(super) fn unreadable(&self, path: impl AsRef<Path>, text: &str) -> DiscoverError {
        let text = text.chars().take(80).collect();
        DiscoverError::Unreadable { path: self.0.join(path), text }
    }
}
