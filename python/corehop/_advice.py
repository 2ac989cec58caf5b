# SPDX-License-Identifier: MIT OR Apache-2.0
"""Advice and predictions, as objects. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corehop import _html, _records, _tables


@dataclass(frozen=True)
class Estimate:
    """An estimate in microseconds, with its interval at 95 %; None for an end that the samples do not carry."""

    estimate_us: float | None
    low_us: float | None
    high_us: float | None


@dataclass(frozen=True)
class Prediction:
    """The cost of an event at one working-set size, as `corehop advise predict --json` prints it."""

    wss_bytes: int
    """The working-set size."""
    statistic: str
    """The statistic: `mean`, `median`, `p90`, `p99` or `max`."""
    estimate_us: float
    """The cost, in microseconds."""
    low_us: float | None
    """The lower end of the interval; None without one."""
    high_us: float | None
    """The upper end of the interval; None without one."""
    curve: Estimate | None
    """The value of the curve, where the curve pools the measured value with its neighbours."""
    length_us: float | None
    """The preemption length; None for the longest measured length."""
    nearest_length_us: float | None
    """The nearest measured length; None if `length_us` was measured."""
    method: str
    """`fitted`, `survivors` or `worst_case`."""
    place: str | None
    """The position among the measured sizes; None if the cost was computed."""
    n: int | None
    """The samples at that size, or the fewer of those at the two sizes around it; None if the cost was computed."""
    replicates: int | None
    """The replicates of the samples; None if the cost was computed."""
    classes: int
    """The measured classes in which a neighbouring CPU was; the cost is that of the dearest."""
    errors: dict[str, Any] | None
    """The errors of the method at points that it had not seen."""
    series: dict[str, Any]
    """The series of the samples: event, load, page, …."""


@dataclass(frozen=True)
class Company:
    """What had the CPU while a job was away."""

    preempted_by: str
    polluter: str | None


@dataclass(frozen=True)
class AdvisedMove:
    """A migration at once, in place of the wait: its cost, and the expected wait from which the move pays."""

    event: str
    estimate_us: float | None
    low_us: float | None
    high_us: float | None
    length_us: float
    at_most: bool
    n: int
    replicates: int | None
    pays_from: Estimate
    known_by: Any


@dataclass(frozen=True)
class AdvisedWait:
    """The advice for an expected wait: the `verdict` is `stay`, `move` (to the class `move_to`) or `unknown`."""

    wait_us: float
    stay: Estimate
    verdict: str
    move_to: str | None


@dataclass(frozen=True)
class AdviceRule:
    """The advice for one working set under one load: the migrations from near to far, and the waits, ascending."""

    load: str
    wss_bytes: int
    company: Company
    moves: list[AdvisedMove]
    waits: list[AdvisedWait]


@dataclass(frozen=True)
class Isolation:
    """The greatest saving of keeping others out of a job's cache lines."""

    load: str
    wss_bytes: int
    company: Company
    length_us: float
    saves: Estimate
    n: int
    replicates: int | None


@dataclass(frozen=True)
class MigrationExtra:
    """The cost of a migration beyond resuming in place, like Linux's `sched_migration_cost_ns`."""

    event: str
    beyond: str
    length_us: float
    estimate_us: float | None
    low_us: float | None
    high_us: float | None
    n: int
    replicates: int | None


@dataclass(frozen=True)
class Constants:
    """Constants for schedulers. Without a `migration`, `withheld` has the reason."""

    load: str
    wss_bytes: int
    company: Company
    migration: MigrationExtra | None
    withheld: str | None
    warm_budget_us: float | None


@dataclass(frozen=True)
class Partitioning:
    """The saving of dividing the cache `by` ways or colours, from a simulation."""

    by: str
    load: str
    wss_bytes: int
    undivided_us: float
    divided_us: float
    saves: Estimate
    no_interval: str | None
    warm_us: float


class Advice(_tables.RowList):
    """Advice for a scheduler: from which expected wait a preempted thread should move. `rows` has a row for each move.

    Example:
        >>> advice = corehop.advise(on="xeon_x5650", wss="16KiB", samples=3, loaded=False)
        >>> [(move.event, move.pays_from.low_us) for move in advice.rules[0].moves]
        [('l3_migration', None), ('memory_migration', None)]
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    @property
    def answer(self) -> dict[str, Any]:
        """The answer of `corehop advise --json`."""
        return self._facts

    @property
    def rules(self) -> list[AdviceRule]:
        """The advice for each load, company and size."""
        return [_rule(facts) for facts in self._facts["rules"]]

    @property
    def isolation(self) -> list[Isolation]:
        """The cost of company to a job that stays."""
        return [_records.made(Isolation, facts) for facts in self._facts["isolation"]]

    @property
    def constants(self) -> list[Constants]:
        """The constants that schedulers take, by load and company."""
        return [_records.made(Constants, facts) for facts in self._facts["constants"]]

    @property
    def partitioning(self) -> list[Partitioning]:
        """The savings of dividing the cache; empty unless the advice is from a simulation."""
        return [_records.made(Partitioning, facts) for facts in self._facts.get("partitioning", [])]

    @property
    def silent(self) -> list[str]:
        """The reasons for missing advice."""
        return list(self._facts["silent"])

    @property
    def lacking(self) -> list[str]:
        """The measurements that would narrow an answer, with their commands."""
        return list(self._facts["lacking"])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each move of each rule, with the wait in microseconds from which the move pays."""
        return [_row(rule, move) for rule in self.rules for move in rule.moves]

    def __repr__(self) -> str:
        said = "".join(f"\n{line}" for line in (*self.silent, *self.lacking))
        return f"<corehop.Advice: {len(self.rules)} rules>\n{_tables.text(self.rows)}".rstrip() + said

    def _repr_html_(self) -> str:
        return _html.answer("From which expected wait does a move pay?", self.rows, [*self.silent, *self.lacking])


def _rule(facts: Mapping[str, Any]) -> AdviceRule:
    """A rule, whose verdicts name the migration of a move."""
    waits = [{**wait, **_verdict(wait["verdict"])} for wait in facts["waits"]]
    return _records.made(AdviceRule, {**facts, "waits": waits})


def _verdict(verdict: str | Mapping[str, str]) -> dict[str, str | None]:
    if isinstance(verdict, str):
        return {"verdict": verdict, "move_to": None}
    return {"verdict": "move", "move_to": verdict["move"]}


def _row(rule: AdviceRule, move: AdvisedMove) -> dict[str, Any]:
    """A move, flat."""
    pays = move.pays_from
    return {
        "load": rule.load,
        "preempted_by": rule.company.preempted_by,
        "wss_bytes": rule.wss_bytes,
        "event": move.event,
        "cost_us": move.estimate_us,
        "pays_from_us": pays.estimate_us,
        "pays_from_low_us": pays.low_us,
        "pays_from_high_us": pays.high_us,
    }
