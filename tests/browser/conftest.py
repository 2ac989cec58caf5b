# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports made from made-up rows, and a browser without a network to look at them."""

import os
import pathlib
import shutil
import subprocess

import pytest
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program():
    """The binary under test: $COREHOP, or the newest that has been built here."""
    if "COREHOP" in os.environ:
        return os.environ["COREHOP"]
    built = [ROOT / "target" / profile / "corehop" for profile in ("release", "debug")]
    built = [path for path in built if path.exists()]
    if not built:
        pytest.exit("no binary: `cargo build -p corehop` first, or set COREHOP", returncode=1)
    return str(max(built, key=lambda path: path.stat().st_mtime))


def sample_files(folder):
    """Files with made-up rows, by the example that `make test` builds too."""
    example = ROOT / "target" / "release" / "examples" / "sample_files"
    if not example.exists():
        command = ["cargo", "build", "--release", "--quiet", "-p", "corehop-report", "--example", "sample_files"]
        subprocess.run(command, cwd=ROOT, check=True)
    subprocess.run([example, folder], check=True)


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """The pages: `whole` of four experiments and a measured machine, `torn` of a killed run, `hostile` with bad names,
    and of measurements that are in the repository, and on a simulated machine."""
    folder = tmp_path_factory.mktemp("reports")
    sample_files(folder)
    whole = ["synthetic", "access-time", "preemption-length", "polluter-sweep"]
    inputs = {
        "whole": [f"{name}.parquet" for name in whole] + ["measured.toml"],
        "torn": ["torn.part"],
        "hostile": ["hostile.parquet"],
    }
    data = ROOT / "data"
    inputs["quick"] = [str(data / "2026-11-21-guest-2cpu" / name)
                       for name in ("quick.parquet", "quick-access.parquet", "quick-length.parquet")]
    inputs["conditions"] = [str(data / "2026-11-22-guest-2cpu" / "conditions.parquet")]
    inputs["switches"] = [str(data / "2026-11-24-guest-2cpu" / "switches.parquet")]
    pages = {"study": folder / "study.html"}
    study = [program(), "check", "study", "bastoni-fig5", "--sets", "1", "--page", str(pages["study"])]
    subprocess.run(study, cwd=folder, check=True)
    for name, files in inputs.items():
        pages[name] = folder / f"{name}.html"
        command = [program(), "report", *files, "-o", str(pages[name])]
        subprocess.run(command, cwd=folder, check=True)
    return pages


def chromium():
    """Debian's browser: the one that playwright would download is another, and not always there."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.exit("no browser: `apt-get install chromium`", returncode=1)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        # Without its sandbox, which containers and root do not have.
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, reports):
    """Opens a report and watches it: a request, a dialog or an error in it fails the test."""
    contexts, complaints = [], []

    def watch(request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            complaints.append(f"request for {request.url}")

    def open_report(name="whole", folded=False, **options):
        options = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light", **options}
        context = browser.new_context(offline=True, accept_downloads=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", watch)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
        page.on("console", lambda message: message.type in ("error", "warning")
                and complaints.append(f"console: {message.text}"))
        page.goto(reports[name].as_uri())
        if not folded:
            page.evaluate("document.querySelectorAll('details.fold').forEach((it) => { it.open = true; })")
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert complaints == []
