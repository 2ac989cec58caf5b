# SPDX-License-Identifier: MIT OR Apache-2.0
"""Shared by the tests: a file that the program wrote, and programs that only pretend."""

from __future__ import annotations

import json
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest

import corehop

matplotlib.use("Agg")

#: Files that the program wrote; their provenance names the commands.
DATA = Path(__file__).parent / "data"

#: Notes how it was called, says its line, and ends as it was told to.
PRETENDER = """#!{python}
import json, os, shutil, signal, sys, time

told = json.loads({told!r})
note = dict(arguments=sys.argv[1:], text=sys.stdin.read())
open({note!r}, "w").write(json.dumps(note))
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)

def leave(suffix=""):
    if told["leaves"] and "output" in options:
        shutil.copy(told["leaves"], options["output"] + suffix)

def asked_to_end(*_):
    open({note!r} + ".asked", "w").close()
    leave()
    sys.exit(130)

if told["until_interrupted"]:
    signal.signal(signal.SIGINT, asked_to_end)
    signal.signal(signal.SIGTERM, asked_to_end)
    open({note!r} + ".ready", "w").close()
    time.sleep(60)
sys.stderr.write(told["says"])
sys.stdout.write(told["answers"])
sys.stdout.flush()
leave(told["suffix"])
if told["kill"]:
    os.kill(os.getpid(), told["kill"])
sys.exit(told["code"])
"""


@pytest.fixture(autouse=True)
def heeds_interrupts() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, even where pytest was started by something that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Pretender:
    """A program in place of `corehop`, and how it was called."""

    def __init__(self, path: Path, note: Path) -> None:
        self.path = path
        self.note = note
        self.ready = Path(f"{note}.ready")
        self.asked = Path(f"{note}.asked")

    @property
    def arguments(self) -> list[str]:
        called: dict[str, Any] = json.loads(self.note.read_text())
        return list(called["arguments"])

    @property
    def text(self) -> str:
        return str(json.loads(self.note.read_text())["text"])


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Pretender]:
    """Puts a program in place of corehop that leaves a file (if told to), says a line, prints an answer, and
    ends with a code."""

    def make(
        code: int = 0,
        says: str = "",
        leaves: Path | None = DATA / "quick.parquet",
        suffix: str = "",
        kill: int = 0,
        until_interrupted: bool = False,
        answers: str = "",
    ) -> Pretender:
        told = dict(
            code=code,
            says=says,
            leaves=str(leaves or ""),
            suffix=suffix,
            kill=kill,
            until_interrupted=until_interrupted,
            answers=answers,
        )
        note = tmp_path / "called.json"
        path = tmp_path / "corehop"
        text = PRETENDER.format(python=sys.executable, told=json.dumps(told), note=str(note))
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("COREHOP_BINARY", str(path))
        return Pretender(path, note)

    return make


@pytest.fixture
def quick() -> corehop.Result:
    """Samples of `synthetic`: 4 and 64 KiB, three events."""
    return corehop.load(DATA / "quick.parquet")


@pytest.fixture
def access() -> corehop.Result:
    """Walks of `access-time`."""
    return corehop.load(DATA / "access.parquet")


@pytest.fixture
def lengths() -> corehop.Result:
    """Absences of `preemption-length`."""
    return corehop.load(DATA / "lengths.parquet")


@pytest.fixture(scope="session")
def live() -> None:
    """Skips what this host does not allow to be measured, with its reason."""
    try:
        corehop.measure(wss="4KiB", event="none", load="idle", samples=1, quiet=True)
    except corehop.NotPossible as why:
        pytest.skip(f"this host does not allow it: {why}")
