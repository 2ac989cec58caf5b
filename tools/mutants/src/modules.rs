// SPDX-License-Identifier: MIT OR Apache-2.0
//! The production source files of a package: its modules from the first file on, without what is for tests alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use syn::{Attribute, Item, ItemMod, Lit, Meta};

use crate::workspace::WorkspaceMember;

/// The conditions under which the compiler keeps an item.
///
/// All features of a package count as enabled, because a build script may build the package once more with other
/// features. `test` never holds: its items are no production code.
#[derive(Debug, Clone)]
pub(crate) struct Enabled {
    /// The conditions of the compiler's target, such as `unix` and `target_os="linux"`.
    target: BTreeSet<String>,
    features: BTreeSet<String>,
}

impl Enabled {
    /// Asks the compiler about the target of this host.
    pub(crate) fn of_host() -> Result<Self> {
        let output = Command::new("rustc").args(["--print", "cfg"]).output();
        let output = output.context("rustc cannot be started")?;
        let target = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        Ok(Self { target, features: BTreeSet::new() })
    }

    pub(crate) fn with_features(&self, features: &BTreeSet<String>) -> Self {
        Self { target: self.target.clone(), features: features.clone() }
    }

    /// Whether the compiler keeps an item with these attributes outside of tests.
    pub(crate) fn keeps(&self, attributes: &[Attribute]) -> bool {
        attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident("cfg"))
            .all(|attribute| attribute.parse_args().is_ok_and(|meta| self.holds(&meta)))
    }

    fn holds(&self, condition: &Meta) -> bool {
        match condition {
            Meta::Path(path) => path.get_ident().is_some_and(|name| {
                let name = name.to_string();
                // `cfg(true)` and `cfg(false)` are identifiers here.
                name == "true" || name != "test" && self.target.contains(&name)
            }),
            Meta::NameValue(pair) => {
                let syn::Expr::Lit(syn::ExprLit { lit: Lit::Str(value), .. }) = &pair.value else {
                    return false;
                };
                let name = pair.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let value = value.value();
                match name.as_str() {
                    "feature" => self.features.contains(&value),
                    _ => self.target.contains(&format!("{name}=\"{value}\"")),
                }
            }
            Meta::List(list) => {
                let parser = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
                let Ok(parts) = list.parse_args_with(parser) else { return false };
                let mut parts = parts.iter();
                match list.path.get_ident().map(ToString::to_string).as_deref() {
                    Some("all") => parts.all(|part| self.holds(part)),
                    Some("any") => parts.any(|part| self.holds(part)),
                    Some("not") => !parts.any(|part| self.holds(part)),
                    _ => false,
                }
            }
        }
    }
}

/// A production source file.
pub(crate) struct SourceText {
    /// The name of the package.
    pub package: String,
    /// The path relative to the workspace.
    pub path: PathBuf,
    pub text: String,
    pub parsed: syn::File,
    /// Whether a crate begins in this file.
    pub is_root: bool,
    pub enabled: Enabled,
}

/// Reads the production sources of a package.
pub(crate) fn of_member(
    root: &Path,
    member: &WorkspaceMember,
    host: &Enabled,
) -> Result<Vec<SourceText>> {
    let enabled = host.with_features(&member.features);
    let mut open: Vec<_> = member.roots.iter().map(|path| (path.clone(), true)).collect();
    let mut found: Vec<SourceText> = Vec::new();
    while let Some((path, is_root)) = open.pop() {
        if found.iter().any(|source| source.path == path) {
            continue;
        }
        let shown = path.display();
        let text = fs::read_to_string(root.join(&path));
        let text = text.with_context(|| format!("{shown} cannot be read"))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("{shown} is no Rust"))?;
        for (child, explicit) in declared(&path, is_root, &parsed, &enabled) {
            let there = child.iter().find(|path| root.join(path).is_file());
            let there = there
                .with_context(|| format!("{shown} declares a module without a file: {child:?}"))?;
            open.push((there.clone(), explicit));
        }
        let package = member.name.clone();
        let is_root = member.roots.contains(&path);
        found.push(SourceText { package, path, text, parsed, is_root, enabled: enabled.clone() });
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// The files that a file's `mod` lines name: the possible paths of each, and whether its modules lie beside the file.
fn declared(
    path: &Path,
    beside: bool,
    parsed: &syn::File,
    enabled: &Enabled,
) -> Vec<(Vec<PathBuf>, bool)> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_mod = path.file_name().is_some_and(|name| name == "mod.rs");
    let inside = if beside || is_mod { folder.to_owned() } else { path.with_extension("") };
    let mut found = Vec::new();
    children(&parsed.items, folder, &inside, enabled, &mut found);
    found
}

fn children(
    items: &[Item],
    folder: &Path,
    inside: &Path,
    enabled: &Enabled,
    found: &mut Vec<(Vec<PathBuf>, bool)>,
) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        if !enabled.keeps(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        if let Some((_, items)) = &module.content {
            children(items, &inside.join(&name), &inside.join(&name), enabled, found);
        } else if let Some(stated) = stated_path(module) {
            found.push((vec![folder.join(stated)], true));
        } else {
            let file = inside.join(format!("{name}.rs"));
            found.push((vec![file, inside.join(&name).join("mod.rs")], false));
        }
    }
}

/// The value of `#[path = "…"]`.
fn stated_path(module: &ItemMod) -> Option<String> {
    let attribute = module.attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled() -> Enabled {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        Enabled { target: words(&["unix", "target_os=\"linux\""]), features: words(&["extra"]) }
    }

    #[test]
    fn items_for_tests_and_for_other_targets_are_left_out() {
        for (condition, kept) in [
            ("test", false),
            ("not(test)", true),
            ("unix", true),
            ("loom", false),
            ("target_os = \"linux\"", true),
            ("target_os = \"macos\"", false),
            ("feature = \"extra\"", true),
            ("not(feature = \"extra\")", false),
            ("all(unix, feature = \"extra\")", true),
            ("all(unix, test)", false),
            ("any(test, unix)", true),
        ] {
            let attribute: ItemMod =
                syn::parse_str(&format!("#[cfg({condition})] mod a;")).unwrap();
            assert_eq!(enabled().keeps(&attribute.attrs), kept, "{condition}");
        }
    }

    #[test]
    fn modules_are_followed_to_the_files_that_the_compiler_reads() {
        let text = "mod a;\n#[cfg(test)]\nmod tests;\nmod b { mod c; }\n#[path = \"d_other.rs\"]\nmod d;\n";
        let parsed = syn::parse_file(text).unwrap();
        let found = |path: &str, beside| {
            let files = declared(Path::new(path), beside, &parsed, &enabled());
            files.iter().map(|(paths, _)| paths[0].display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("x/src/lib.rs", true), ["x/src/a.rs", "x/src/b/c.rs", "x/src/d_other.rs"]);
        let below = ["x/src/y/a.rs", "x/src/y/b/c.rs", "x/src/d_other.rs"];
        assert_eq!(found("x/src/y.rs", false), below);
        assert_eq!(found("x/src/y/mod.rs", false)[0], "x/src/y/a.rs");
    }
}
