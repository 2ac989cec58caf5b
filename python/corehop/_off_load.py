# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers of `corehop offload -o`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from corehop import _corehop, _files, _html, _tables


class OffLoad(_tables.RowList):
    """Where the system calls of a program were made, or what the policies of a simulated machine bring.

    `print(answer)` gives the words of `corehop report contents`.
    """

    def __init__(self, answer: _corehop.OffLoad) -> None:
        self._answer = answer

    @property
    def sentence(self) -> str:
        """The answer in one sentence: the first of `corehop report contents`."""
        return self._answer.sentence()

    @property
    def answer(self) -> dict[str, Any]:
        """The answer of `corehop offload --json`."""
        facts: dict[str, Any] = json.loads(self._answer.json())
        return facts

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each system call; for a simulated machine one for each policy."""
        facts = self.answer
        rows: list[dict[str, Any]] = facts.get("by_call") or facts.get("policies") or []
        return rows

    def save_page(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes the page of `corehop report`: one HTML file; over an existing file only with `force`."""
        return _files.write(path, self._answer.page(), force=force)

    def __str__(self) -> str:
        return f"{self.sentence}\n\n{self._answer.text()}"

    def __repr__(self) -> str:
        return f"{self.sentence}\n<corehop.OffLoad: {len(self.rows)} rows>\n{_tables.text(self.rows)}"

    def _repr_html_(self) -> str:
        return _html.answer(self.sentence, self.rows)
