// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages of the documentation site: docs/README.md lists each of them once.

use std::collections::BTreeMap;

use super::{links, pages};

/// The pages below docs/ that the list does not have exactly once, with the number of their entries.
fn unlisted(pages: &BTreeMap<String, String>) -> BTreeMap<&str, usize> {
    let list = links(&pages["docs/README.md"]);
    let inner = pages.keys().filter_map(|path| path.strip_prefix("docs/"));
    let count = |page: &str| list.iter().filter(|link| *link == page).count();
    let counted = inner.filter(|page| *page != "README.md").map(|page| (page, count(page)));
    counted.filter(|&(_, count)| count != 1).collect()
}

#[test]
fn the_list_of_pages_has_every_page_once() {
    assert_eq!(unlisted(&pages()), BTreeMap::new(), "docs/README.md is the order of the site");
}

#[test]
fn a_page_that_is_missing_from_the_list_or_doubled_is_found() {
    let list = "- [A](a.md)\n- [B](b.md): and\n- [B again](b.md)\n".to_owned();
    let [a, b, c] =
        ["docs/a.md", "docs/b.md", "docs/c.md"].map(|it| (it.to_owned(), String::new()));
    let pages = BTreeMap::from([("docs/README.md".to_owned(), list), a, b, c]);
    assert_eq!(unlisted(&pages), BTreeMap::from([("b.md", 2), ("c.md", 0)]));
}
