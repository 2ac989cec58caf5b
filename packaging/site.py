#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the documentation site in out/docs with mdBook, and checks it: links, anchors, and the index of the search.

    packaging/site.py             build and check
    packaging/site.py --check     check the site in out/docs

docs/README.md gives the order of the pages. A page may link to a file elsewhere in the repository: such a file comes along, and a
page of Markdown becomes a page of the site. mdBook comes from the registry of crates, in one version, below target/mdbook.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "out" / "docs"
WORK = ROOT / "target" / "mdbook"
# The sources of the site. Files from outside docs/ are below `repository`.
STAGE = WORK / "stage"
ELSEWHERE = Path("repository")
MDBOOK = "0.5.4"

LINK = re.compile(r"(!?\[(?:[^][]|\[[^][]*\])*\])\(([^()\s]+)\)")
# The one list of pages: a line that begins a part, and a line with a page.
PART = re.compile(r"\*\*([^*]+)\*\*")
ENTRY = re.compile(r"(?:- |\*\*)\[([^]]+)\]\(([^)#]+\.md)\)")


def install():
    """mdBook in its version, built unless it is there."""
    program = WORK / "bin" / "mdbook"
    found = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout if program.exists() else ""
    if found.strip() != f"mdbook v{MDBOOK}":
        # Unoptimised, without its server: it is built once, and the site is small.
        command = ["cargo", "install", "--locked", "--debug", "--no-default-features", "--features", "search", "--version", MDBOOK]
        environment = dict(os.environ, CARGO_PROFILE_DEV_DEBUG="0")
        folders = ["--root", WORK, "--target-dir", WORK / "build"]
        subprocess.run([*command, *folders, "mdbook"], env=environment, check=True)
    return program


def entries():
    """The pages in the order of docs/README.md: (None, title) of a part, or (path in docs, title) of a page."""
    found = [("README.md", "corehop")]
    for line in (DOCS / "README.md").read_text().splitlines():
        entry, part = ENTRY.match(line), PART.match(line)
        if entry:
            found.append((entry[2], entry[1]))
        elif part:
            found.append((None, part[1]))
    return found


def is_code(lines):
    """For each line, whether it is code."""
    inside = False
    for line in lines:
        fence = line.startswith("```")
        yield inside or fence or line.startswith("    ")
        inside ^= fence


def as_index(path):
    """A page's path on the site: README.md opens its folder."""
    return path.with_name("index.md") if path.name == "README.md" else path


class Staged:
    """The files of the site's sources, by their path in the repository."""

    def __init__(self, pages):
        self.waiting = [DOCS / page for page in pages]
        self.others = {}

    def place(self, path):
        """The place of a file of the repository in the sources of the site."""
        inner = path.is_relative_to(DOCS)
        return STAGE / "src" / as_index(path.relative_to(DOCS) if inner else ELSEWHERE / path.relative_to(ROOT))

    def target(self, page, link):
        """The target of a link of `page` on the site; None for a folder, which the site does not show."""
        name, _, anchor = link.partition("#")
        path = Path(os.path.normpath(page.parent / unquote(name)))
        if path.is_dir():
            return None
        if not path.is_relative_to(DOCS) and path not in self.others:
            self.others[path] = None
            self.waiting.append(path)
        to = os.path.relpath(self.place(path), self.place(page).parent)
        return to + ("#" + anchor if anchor else "")

    def with_links(self, page, paragraph):
        """A paragraph of a page with the targets of its links as the site has them. The words of a link may begin on one line and
        end on the next.
        """

        def link(found):
            if "://" in found[2] or found[2].startswith(("#", "mailto:")):
                return found[0]
            to = self.target(page, found[2])
            return f"{found[1]}({to})" if to else found[1].strip("[]")

        return LINK.sub(link, paragraph)

    def add(self, path):
        """Copies a file, and its title if it is a page from elsewhere."""
        place = self.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copy(path, place)
            return
        lines = path.read_text().splitlines()
        parts = groupby(zip(is_code(lines), lines), key=lambda it: (it[0], not it[1].strip()))
        texts = [(code, "\n".join(line for _, line in part)) for (code, _), part in parts]
        place.write_text("\n".join(text if code else self.with_links(path, text) for code, text in texts) + "\n")
        if path in self.others:
            titles = [line[2:] for line in lines if line.startswith("# ")]
            self.others[path] = titles[0] if titles else path.name


def stage():
    """Writes the sources of the site."""
    shutil.rmtree(STAGE, ignore_errors=True)
    (STAGE / "src").mkdir(parents=True)
    listed = entries()
    staged = Staged([page for page, _ in listed if page])
    for name in ["book.toml", "site.css"]:
        shutil.copy(DOCS / name, STAGE / name)
    shutil.copytree(DOCS / "images", STAGE / "src" / "images")
    while staged.waiting:
        staged.add(staged.waiting.pop(0))
    summary = ["# Summary", ""]
    summary += [f"- [{title}]({as_index(Path(page))})" if page else f"\n# {title}\n" for page, title in listed]
    summary.append("\n# Elsewhere in the repository\n")
    pages = sorted((path.relative_to(ROOT), title) for path, title in staged.others.items() if title)
    summary += [f"- [{title}]({ELSEWHERE / as_index(path)})" for path, title in pages]
    (STAGE / "src" / "SUMMARY.md").write_text("\n".join(summary) + "\n")


class Page(html.parser.HTMLParser):
    """The anchors of a page, and the targets of its links."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.targets = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.anchors |= {named[key] for key in ("id", "name") if named.get(key)}
        self.targets += [named[key] for key in ("href", "src") if named.get(key)]


def broken(site):
    """The links in a folder of pages that lead nowhere."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        for target in page.targets:
            name, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            to = Path(os.path.normpath(path.parent / unquote(name))) if name else path
            if not to.is_file():
                wrong.append(f"{path.relative_to(site)}: {target} leads nowhere")
            elif anchor and to in pages and unquote(anchor) not in pages[to].anchors:
                wrong.append(f"{path.relative_to(site)}: {target}: no such heading")
    return wrong


def unfound(site, pages):
    """The pages of docs/ that the search does not know."""
    index = "".join(path.read_text() for path in site.glob("searchindex*.js"))
    named = {page: as_index(Path(page)).with_suffix(".html") for page in pages}
    return [f"{page}: the search does not know the page" for page, name in named.items() if f'"{name}#' not in index]


def check_bites():
    """Plants a missing page, a missing heading and a page without a place in the index: each is found."""
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        (site / "a.html").write_text('<h1 id="x">A</h1><a href="b.html#y">b</a><a href="#x">x</a><a href="https://c/d">d</a>')
        (site / "b.html").write_text('<h1 id="z">B</h1><a href="../c.html">c</a><img src="d.svg"><a href="a.html#x">a</a>')
        (site / "searchindex-1.js").write_text('"a.html#x"')
        expected = ["a.html: b.html#y: no such heading", "b.html: ../c.html leads nowhere", "b.html: d.svg leads nowhere"]
        assert broken(site) == expected, broken(site)
        assert len(unfound(site, ["a.md", "b.md"])) == 1


def check():
    """Checks the site; ends with what is wrong."""
    check_bites()
    pages = [page for page, _ in entries() if page]
    wrong = broken(SITE) + unfound(SITE, pages)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(pages)} pages of docs/ are on the site, and no link is broken: file://{SITE / 'index.html'}")


def main():
    if sys.argv[1:] == ["--check"]:
        return check()
    if sys.argv[1:]:
        sys.exit(__doc__)
    program = install()
    stage()
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run([program, "build", STAGE, "--dest-dir", SITE], check=True, env=dict(os.environ, MDBOOK_LOG="warn"))
    return check()


if __name__ == "__main__":
    main()
