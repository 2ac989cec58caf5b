// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a running system, or a copy of them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::DiscoverError;

/// A size larger than any file read here: `/proc/cpuinfo` of 1,024 CPUs has 1.6 MB.
const LARGEST_FILE: u64 = 16 << 20;

/// The directory that contains `sys/` and `proc/`.
#[derive(Debug, Clone)]
pub struct SysRoot(PathBuf);

impl SysRoot {
    /// Returns the root of this host.
    pub fn live() -> Self {
        Self(PathBuf::from("/"))
    }
    /// Returns a root that contains a copy of a system's files.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }
    /// Returns whether the root is this host, so that the processor and the kernel may be queried directly.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }
    /// Returns the path of the root directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// Returns the content of a file without the final line break; `None` if the file cannot be read. Use this function
    /// for words and numbers of the kernel itself, because bytes that are not UTF-8 are replaced.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        self.head(path, LARGEST_FILE)
    }
    /// The first `most` bytes of a file, without the final line break; `None` if the file cannot be read.
    pub(crate) fn head(&self, path: impl AsRef<Path>, most: u64) -> Option<String> {
        let bytes = self.take(path.as_ref(), most)?;
        Some(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\0']).to_owned())
    }
    /// Returns the bytes of a file that contains names; `None` if the file cannot be read.
    pub fn bytes(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.take(path.as_ref(), LARGEST_FILE)
    }
    fn take(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(path)).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
    /// The content of a file as a `T`; `None` if there is no such file, or the file is empty.
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
    /// Returns the numbers N of the directory entries `PREFIX<N>SUFFIX`, in ascending order.
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
    /// Returns the names of the directory entries, sorted.
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
