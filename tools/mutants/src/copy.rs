// SPDX-License-Identifier: MIT OR Apache-2.0
//! A copy of the tree in which files are rewritten. The tree itself is never touched.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::draw::hash;

/// The files of a tree that git knows or would add, relative to the tree, with their contents.
#[derive(Debug)]
pub(crate) struct SourceTree {
    files: BTreeMap<PathBuf, FileContent>,
}

#[derive(Debug)]
enum FileContent {
    Bytes(Vec<u8>, fs::Permissions),
    Link(PathBuf),
}

impl SourceTree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("git cannot be started")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git ls-files failed in {}: {said}", root.display());
        let mut files = BTreeMap::new();
        for name in output.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(name));
            // A file that is deleted and not yet committed has no content.
            if let Some(content) = content(&root.join(&path))? {
                files.insert(path, content);
            }
        }
        Ok(Self { files })
    }

    /// A number for the contents of all files outside of `apart`: of the tree for which a result holds.
    pub(crate) fn identity(&self, apart: &Path) -> u64 {
        let relevant = self.files.iter().filter(|(path, _)| !path.starts_with(apart));
        relevant.fold(0, |sum, (path, content)| {
            let text = match content {
                FileContent::Bytes(bytes, _) => String::from_utf8_lossy(bytes),
                FileContent::Link(target) => target.to_string_lossy(),
            };
            hash(hash(sum, &path.to_string_lossy()), &text)
        })
    }

    /// Brings `folder` into the state of the tree, with these texts in place of others. Files that are right already stay
    /// untouched, so that cargo does not compile them again.
    pub(crate) fn write(&self, folder: &Path, rewritten: &BTreeMap<PathBuf, String>) -> Result<()> {
        for (path, content) in &self.files {
            let to = folder.join(path);
            let parent = to.parent().context("a file has a folder")?;
            fs::create_dir_all(parent)
                .with_context(|| format!("{} cannot be made", parent.display()))?;
            match content {
                FileContent::Link(target) => {
                    if fs::read_link(&to).ok().as_ref() != Some(target) {
                        let _ = fs::remove_file(&to);
                        std::os::unix::fs::symlink(target, &to)?;
                    }
                }
                FileContent::Bytes(bytes, permissions) => {
                    let bytes = rewritten.get(path).map_or(&bytes[..], |text| text.as_bytes());
                    if fs::read(&to).ok().as_deref() != Some(bytes) {
                        fs::write(&to, bytes)
                            .with_context(|| format!("{} cannot be written", to.display()))?;
                        fs::set_permissions(&to, permissions.clone())?;
                    }
                }
            }
        }
        self.remove_others(folder)
    }

    /// Removes files that earlier trees had, which cargo could take for targets.
    fn remove_others(&self, folder: &Path) -> Result<()> {
        let folders: BTreeSet<&Path> =
            self.files.keys().flat_map(|path| path.ancestors()).collect();
        let mut open = vec![PathBuf::new()];
        while let Some(inside) = open.pop() {
            for entry in fs::read_dir(folder.join(&inside))? {
                let entry = entry?;
                let path = inside.join(entry.file_name());
                if self.files.contains_key(&path) {
                    continue;
                }
                if folders.contains(&*path) {
                    open.push(path);
                } else if entry.file_type()?.is_dir() {
                    fs::remove_dir_all(entry.path())?;
                } else {
                    fs::remove_file(entry.path())?;
                }
            }
        }
        Ok(())
    }
}

fn content(path: &Path) -> Result<Option<FileContent>> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(None) };
    let said = || format!("{} cannot be read", path.display());
    Ok(if metadata.is_symlink() {
        Some(FileContent::Link(fs::read_link(path).with_context(said)?))
    } else if metadata.is_file() {
        Some(FileContent::Bytes(fs::read(path).with_context(said)?, metadata.permissions()))
    } else {
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(root: &Path) -> SourceTree {
        fs::create_dir_all(root.join("a")).unwrap();
        fs::write(root.join("a/x.rs"), "one").unwrap();
        fs::write(root.join("y.rs"), "two").unwrap();
        fs::write(root.join("ignored"), "three").unwrap();
        fs::write(root.join(".gitignore"), "ignored\n").unwrap();
        std::os::unix::fs::symlink("y.rs", root.join("link")).unwrap();
        assert!(
            Command::new("git").args(["init", "-q"]).current_dir(root).status().unwrap().success()
        );
        SourceTree::read(root).unwrap()
    }

    #[test]
    fn a_copy_has_the_files_of_the_tree_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (root, copy) = (folder.path().join("tree"), folder.path().join("copy"));
        let tree = tree(&root);
        fs::create_dir_all(copy.join("a/old")).unwrap();
        fs::write(copy.join("a/gone.rs"), "").unwrap();
        let rewritten = BTreeMap::from([(PathBuf::from("a/x.rs"), "other".to_owned())]);
        tree.write(&copy, &rewritten).unwrap();
        assert_eq!(fs::read_to_string(copy.join("a/x.rs")).unwrap(), "other");
        assert_eq!(fs::read_to_string(copy.join("link")).unwrap(), "two");
        let left = ["a/old", "a/gone.rs", "ignored", ".git"];
        assert!(left.iter().all(|name| !copy.join(name).exists()));
        assert_eq!(fs::read_to_string(root.join("a/x.rs")).unwrap(), "one");
    }

    #[test]
    fn a_file_that_is_right_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let (root, copy) = (folder.path().join("tree"), folder.path().join("copy"));
        let tree = tree(&root);
        tree.write(&copy, &BTreeMap::new()).unwrap();
        let of = |name: &str| fs::metadata(copy.join(name)).unwrap().modified().unwrap();
        let before = [of("y.rs"), of("a/x.rs")];
        tree.write(&copy, &BTreeMap::from([(PathBuf::from("a/x.rs"), "new".to_owned())])).unwrap();
        assert_eq!(of("y.rs"), before[0]);
        assert_ne!(of("a/x.rs"), before[1]);
    }

    #[test]
    fn a_tree_is_known_by_its_contents_outside_of_the_folder_apart() {
        let folder = tempfile::tempdir().unwrap();
        let first = tree(folder.path()).identity(Path::new("a"));
        fs::write(folder.path().join("a/x.rs"), "changed").unwrap();
        assert_eq!(SourceTree::read(folder.path()).unwrap().identity(Path::new("a")), first);
        fs::write(folder.path().join("y.rs"), "changed").unwrap();
        assert_ne!(SourceTree::read(folder.path()).unwrap().identity(Path::new("a")), first);
    }
}
