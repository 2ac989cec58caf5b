# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers of the program, as objects. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from corehop import _html, _records, _tables


class Answer(_tables.RowList, Mapping[str, Any]):
    """An answer of the program: a sentence, whether it is yes, and the fields of its JSON.

    `answer["field"]` is a field of the JSON; `rows` is the list that the answer is about, which `to_pandas` and
    `to_polars` turn into a table.
    """

    def __init__(self, sentence: str, facts: Mapping[str, Any], rows: str, holds: bool) -> None:
        self._sentence, self._facts, self._rows, self._holds = sentence, facts, rows, holds

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self._sentence

    @property
    def holds(self) -> bool:
        """Whether the answer is yes (exit code 0 of the program), not no or unknown (exit code 1)."""
        return self._holds

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The list that the answer is about, a dict for each entry."""
        return list(self._facts.get(self._rows) or [])

    def __getitem__(self, name: str) -> Any:
        return self._facts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{_tables.text(self.rows)}".rstrip()

    def _repr_html_(self) -> str:
        return _html.answer(self.sentence, self.rows)


@dataclass(frozen=True)
class Gain:
    """The gain of an arm over the kernel's default: 0.1 is 10 % faster. The intervals of all arms hold together
    with 95 %."""

    gain: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Figures:
    """The mean of an arm in its runs: seconds for each run of a command, progress per second of a process."""

    mean: float
    cpu_s: float
    runs: int


@dataclass(frozen=True)
class Arm:
    """A set of CPUs that was tried: its kind (`one-cpu`, `one-cache`, …), its CPUs, its figures, and its gain."""

    kind: str
    cpus: str
    figures: Figures | None
    gain: Gain | None


class Trial(_tables.RowList):
    """The answer of `corehop.try_`: whether to pin a program, to which CPUs, and the gain."""

    def __init__(self, sentence: str, facts: dict[str, Any]) -> None:
        self._sentence, self._facts = sentence, facts

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self._sentence

    @property
    def arms(self) -> list[Arm]:
        """The sets of CPUs that were tried, without the kernel's default."""
        return [_records.made(Arm, facts) for facts in self._facts["arms"]]

    @property
    def default(self) -> Figures | None:
        """The figures of the kernel's default; None if no round was completed."""
        return _records.optional(Figures, self._facts.get("default"))

    @property
    def control(self) -> Gain | None:
        """The gain of the default over itself: what differs without a cause."""
        return _records.optional(Gain, self._facts.get("floor"))

    @property
    def winner(self) -> Arm | None:
        """The arm that is faster than the default beyond doubt; None if none is, or if the trial cannot decide."""
        return self.arms[self._facts["arm"]] if self._facts["verdict"] == "winner" else None

    @property
    def verdict(self) -> str:
        """`winner`, `nothing`, `too_few` (rounds), `no_arm` or `one_cpu`."""
        return str(self._facts["verdict"])

    @property
    def paste(self) -> dict[str, str]:
        """The lines to paste for the winner, by their place; empty without a winner."""
        return dict(self._facts.get("paste", {}))

    @property
    def answer(self) -> dict[str, Any]:
        """The answer of `corehop try --json`."""
        return self._facts

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for the default and for each arm: `arm`, `cpus`, `mean`, `cpu_s`, `runs`, `gain`, `low`, `high`."""
        default = Arm("default", self._facts.get("default_cpus", ""), self.default, None)
        return [_row(arm) for arm in (default, *self.arms) if arm.figures is not None]

    def __repr__(self) -> str:
        pasted = "".join(f"\n  {line}" for line in self.paste.values())
        return f"{self.sentence}\n\n{_tables.text(self.rows)}".rstrip() + (f"\n\nTo paste:{pasted}" if pasted else "")

    def _repr_html_(self) -> str:
        return _html.answer(self.sentence, self.rows, list(self.paste.values()))


def _row(arm: Arm) -> dict[str, Any]:
    """An arm, flat."""
    figures = asdict(arm.figures) if arm.figures else {}
    gain = asdict(arm.gain) if arm.gain else dict.fromkeys(("gain", "low", "high"))
    gain.pop("rounds", None)
    return {"arm": arm.kind, "cpus": arm.cpus, **figures, **gain}
