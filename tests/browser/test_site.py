# SPDX-License-Identifier: MIT OR Apache-2.0
"""The documentation site that `make docs` builds, as a reader opens it from the folder: the search, and a phone."""

import pytest
from conftest import ROOT

SITE = ROOT / "out" / "docs"


@pytest.fixture
def site(browser):
    """Opens a page of the site, and collects its errors."""
    if not (SITE / "index.html").exists():
        pytest.exit("no site: `make docs` first", returncode=1)
    contexts = []

    def open_page(name, **context):
        contexts.append(browser.new_context(**context))
        page = contexts[-1].new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((SITE / name).as_uri())
        return page, errors

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("word, page_of", [("pinning", "guide/pinning.html"), ("wake graph", "concepts/wake-graph.html")])
def test_the_search_leads_from_a_word_to_its_page(site, word, page_of):
    page, errors = site("questions/01-costs.html")
    page.keyboard.press("s")
    page.locator("#mdbook-searchbar").press_sequentially(word, delay=20)
    hits = page.locator("#mdbook-searchresults a")
    hits.first.wait_for()
    assert any(page_of in hit.get_attribute("href") for hit in hits.all())
    assert errors == []


def test_a_page_fits_a_phone_and_an_answer_fits_a_screen(site):
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    page, errors = site("questions/01-costs.html", viewport={"width": 390, "height": 844})
    assert not page.evaluate(wide) and errors == []
    page, errors = site("questions/01-costs.html", viewport={"width": 1280, "height": 800})
    answer = page.locator("pre code.language-text").first
    assert answer.evaluate("(it) => it.scrollWidth <= it.clientWidth + 1") and errors == []
