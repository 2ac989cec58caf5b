// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packages of the workspace, as `cargo metadata` describes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The part of the output of `cargo metadata` that this tool reads.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<PackageRecord>,
    workspace_default_members: Vec<String>,
    workspace_root: PathBuf,
}

#[derive(Debug, Deserialize)]
struct PackageRecord {
    id: String,
    name: String,
    manifest_path: PathBuf,
    features: serde_json::Map<String, serde_json::Value>,
    dependencies: Vec<Dependency>,
    targets: Vec<TargetRecord>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct TargetRecord {
    kind: Vec<String>,
    src_path: PathBuf,
}

/// A package of the workspace whose tests `cargo test` runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspaceMember {
    /// The name by which cargo selects the package.
    pub name: String,
    /// The folder of the package, relative to the workspace.
    pub folder: PathBuf,
    /// The first file of the library and of each program, relative to the workspace.
    pub roots: Vec<PathBuf>,
    /// The features that the package declares.
    pub features: BTreeSet<String>,
    /// Whether some feature is off by default, so that a usual build does not compile all of the package.
    pub has_more: bool,
    /// The packages of the workspace that this package depends on, also for its tests alone.
    needs: Vec<String>,
}

/// The workspace: its folder and the members that `cargo test` tests.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub root: PathBuf,
    pub members: Vec<WorkspaceMember>,
}

impl Workspace {
    /// Asks cargo about the workspace that contains `folder`.
    pub(crate) fn load(folder: &Path) -> Result<Self> {
        let output = Command::new(cargo())
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .current_dir(folder)
            .output()
            .context("cargo metadata cannot be started")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "cargo metadata failed in {}: {said}", folder.display());
        Self::read(&output.stdout)
    }

    fn read(json: &[u8]) -> Result<Self> {
        let Metadata { packages, workspace_default_members: tested, workspace_root: root } =
            serde_json::from_slice(json).context("cargo metadata answers in another format")?;
        let members = packages
            .iter()
            .filter(|package| tested.contains(&package.id))
            .map(|package| member(package, &root))
            .collect::<Result<_>>()?;
        Ok(Self { root, members })
    }

    /// The packages whose tests can reach code of `mutated`: these packages, and all that depend on them.
    pub(crate) fn dependents(&self, mutated: &BTreeSet<String>) -> BTreeSet<String> {
        let mut found = mutated.clone();
        loop {
            let more: Vec<_> = self
                .members
                .iter()
                .filter(|member| member.needs.iter().any(|name| found.contains(name)))
                .map(|member| member.name.clone())
                .filter(|name| !found.contains(name))
                .collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }
}

#[cfg(test)]
impl WorkspaceMember {
    /// A package of one crate, in the folder of the workspace.
    pub(crate) fn alone(name: &str, root: &str) -> Self {
        Self {
            name: name.to_owned(),
            folder: PathBuf::new(),
            roots: vec![PathBuf::from(root)],
            features: BTreeSet::new(),
            has_more: false,
            needs: Vec::new(),
        }
    }
}

/// The cargo that runs this tool, or else the cargo of the search path.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

fn member(package: &PackageRecord, root: &Path) -> Result<WorkspaceMember> {
    let inside = |path: &Path| {
        let relative = path.strip_prefix(root);
        relative
            .map(Path::to_owned)
            .with_context(|| format!("{} is outside of the workspace", path.display()))
    };
    let is_code = |target: &&TargetRecord| {
        let not = ["test", "bench", "example", "custom-build", "proc-macro"];
        !target.kind.iter().any(|kind| not.contains(&kind.as_str()))
    };
    let roots: Result<Vec<_>> =
        package.targets.iter().filter(is_code).map(|target| inside(&target.src_path)).collect();
    let folder = package.manifest_path.parent().unwrap_or(root);
    Ok(WorkspaceMember {
        name: package.name.clone(),
        folder: inside(folder)?,
        roots: roots?,
        features: package.features.keys().cloned().collect(),
        has_more: has_more(&package.features),
        needs: package
            .dependencies
            .iter()
            .filter(|needed| needed.path.is_some())
            .map(|needed| needed.name.clone())
            .collect(),
    })
}

/// Whether a feature is not among those that `default` enables.
fn has_more(features: &serde_json::Map<String, serde_json::Value>) -> bool {
    let mut enabled = vec!["default"];
    let mut at = 0;
    while let Some(&name) = enabled.get(at) {
        let implied = features.get(name).and_then(|list| list.as_array()).into_iter().flatten();
        for word in implied.filter_map(|word| word.as_str()) {
            if !enabled.contains(&word) {
                enabled.push(word);
            }
        }
        at += 1;
    }
    features.keys().any(|name| !enabled.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Workspace {
        let package = |name: &str, needs: &str, features: &str| {
            format!(
                r#"{{"id": "{name}", "name": "{name}", "manifest_path": "/w/{name}/Cargo.toml",
                "features": {features}, "dependencies": {needs}, "targets": [
                {{"kind": ["lib"], "src_path": "/w/{name}/src/lib.rs"}},
                {{"kind": ["test"], "src_path": "/w/{name}/tests/a.rs"}}]}}"#
            )
        };
        let needs = |name: &str| format!(r#"[{{"name": "{name}", "path": "/w/{name}"}}]"#);
        let packages = [
            package(
                "low",
                r#"[{"name": "serde", "path": null}]"#,
                r#"{"default": ["a"], "a": []}"#,
            ),
            package("middle", &needs("low"), r#"{"extra": []}"#),
            package("high", &needs("middle"), "{}"),
            package("tool", &needs("low"), "{}"),
        ];
        let text = format!(
            r#"{{"packages": [{}], "workspace_root": "/w",
            "workspace_default_members": ["low", "middle", "high"]}}"#,
            packages.join(",")
        );
        Workspace::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn members_are_the_packages_that_cargo_test_tests_with_their_libraries() {
        let workspace = described();
        let names: Vec<_> = workspace.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["low", "middle", "high"]);
        assert_eq!(workspace.members[0].roots, [PathBuf::from("low/src/lib.rs")]);
        let more: Vec<_> = workspace.members.iter().map(|member| member.has_more).collect();
        assert_eq!(more, [false, true, false], "only `extra` is off by default");
    }

    #[test]
    fn a_mutant_is_reached_by_tests_of_all_packages_above_it() {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect();
        let workspace = described();
        assert_eq!(workspace.dependents(&names(&["high"])), names(&["high"]));
        assert_eq!(workspace.dependents(&names(&["low"])), names(&["low", "middle", "high"]));
    }
}
