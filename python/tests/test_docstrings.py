# SPDX-License-Identifier: MIT OR Apache-2.0
"""The examples in the documentation do what they say; nothing public is without words."""

import doctest
import importlib
import inspect
from pathlib import Path

import polars
import pytest

import corehop

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[2]
MODULES = ["corehop", *(f"corehop._{name}" for name in ("advice", "binary", "check", "compare", "errors", "measure", "options", "platform", "result", "tables", "text", "verbs"))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_do_what_they_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    module = importlib.import_module(name)
    names = {"corehop": corehop, "polars": polars}
    failed, tried = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 0) == (0, True)


def test_everything_public_says_what_it_is() -> None:
    public = [getattr(corehop, name) for name in corehop.__all__ if not name.startswith("__")]
    for thing in public:
        assert inspect.getdoc(thing), thing
        for name, member in inspect.getmembers(thing) if inspect.isclass(thing) else []:
            if not name.startswith("_") and member.__class__.__name__ in ("function", "property"):
                assert inspect.getdoc(member), f"{thing.__name__}.{name}"


@pytest.mark.usefixtures("live")
def test_the_examples_of_the_guide_do_what_they_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    guide = str(ROOT / "docs/guide/python.md")
    failed, tried = doctest.testfile(guide, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 20) == (0, True)
    assert (tmp_path / "delays.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "lengths.svg").read_text()
