# SPDX-License-Identifier: MIT OR Apache-2.0
"""Logs of `corehop place -o`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from corehop import _corehop, _files, _html, _tables


class Placement(_tables.RowList):
    """The record of a placer: its evidence, the tried placements, and the effect of each.

    `print(placement)` gives the words of `corehop report contents`.
    """

    def __init__(self, log: _corehop.Placement) -> None:
        self._log = log
        self._facts: dict[str, Any] = json.loads(log.json())

    @property
    def answer(self) -> dict[str, Any]:
        """The answer of `corehop place --json`: `proposals`, `trials`, `ties`, `refused`, …."""
        facts: dict[str, Any] = self._facts["answer"]
        return facts

    @property
    def sentence(self) -> str:
        """The outcome of placing in one sentence: the first sentence of `corehop report contents`."""
        return self._log.sentence()

    @property
    def trials(self) -> list[dict[str, Any]]:
        """The verdicts, in turn: `verdict`, `kept`, and the `ratio` of progress with its interval `low`, `high`."""
        trials: list[dict[str, Any]] = self.answer["trials"]
        return trials

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The trials."""
        return self.trials

    @property
    def ties(self) -> list[dict[str, Any]]:
        """The pairs of threads that wake each other, the closest first: `a`, `b`, `per_second`, `at_least`."""
        ties: list[dict[str, Any]] = self.answer["ties"]
        return ties

    @property
    def rates(self) -> list[dict[str, Any]]:
        """The progress per second of each window, its end in seconds, and whether threads were placed in it."""
        rates: list[dict[str, Any]] = self._facts["rates"]
        return rates

    @property
    def names(self) -> dict[int, str]:
        """The names of the threads, by their numbers."""
        return {int(tid): name for tid, name in self._facts["names"].items()}

    @property
    def complete(self) -> bool:
        """Whether the log is complete; the log of a killed placer is not."""
        return bool(self._facts["whole"])

    def save_page(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes the page of `corehop report`: one HTML file; over an existing file only with `force`."""
        return _files.write(path, self._log.page(), force=force)

    def __str__(self) -> str:
        return self._log.text()

    def __repr__(self) -> str:
        part = "" if self.complete else ", torn off"
        counts = f"<corehop.Placement: {len(self.rates)} windows, {len(self.trials)} trials{part}>"
        return f"{self.sentence}\n{counts}\n{_tables.text(self.rows)}".rstrip()

    def _repr_html_(self) -> str:
        return _html.answer(self.sentence, self.rows)
