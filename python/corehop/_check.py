# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulability of a task set, computed in process."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from corehop import _corehop, _errors, _model
from corehop._model import CostModel, Samples
from corehop._platform import Platform
from corehop._rows import ArrowTable, rows


class Schedulable(enum.Enum):
    """The verdict of a test on a task set: yes, no or unknown. Its truth is that of the answer, and `UNKNOWN` has
    none. It equals its value in JSON, which `json.dumps(answer, default=lambda it: it.value)` writes.

    >>> bool(Schedulable.YES), bool(Schedulable.NO)
    (True, False)
    >>> Schedulable.UNKNOWN == "unknown"
    True
    >>> bool(Schedulable.UNKNOWN)
    Traceback (most recent call last):
    ...
    corehop._errors.Unknown: whether the set is schedulable is unknown: compare with Schedulable.YES or Schedulable.NO
    """

    YES = True
    """All deadlines are met."""
    NO = False
    """Some deadline can be missed; only exact and necessary tests say so."""
    UNKNOWN = "unknown"
    """The test does not say."""

    def __bool__(self) -> bool:
        if self is Schedulable.UNKNOWN:
            raise _errors.Unknown(
                "whether the set is schedulable is unknown: compare with Schedulable.YES or Schedulable.NO"
            )
        return self is Schedulable.YES

    def __eq__(self, other: object) -> bool:
        if isinstance(other, bool | str):
            return bool(self.value == other)
        return self is other

    def __hash__(self) -> int:
        return hash(self.value)


Time = int | float | str
"""A span of time: a number of microseconds, down to 0.001, or text with a unit."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A sporadic task, with times in microseconds with up to three decimals, or as text with a unit (`"1.5 ms"`).
    None means the default.

    >>> Task(wcet_us=1500, period_us=5000, deadline_us=4000).deadline_us
    4000
    """

    wcet_us: Time
    """Worst-case execution time."""
    period_us: Time
    """The least time between two releases."""
    deadline_us: Time | None = None
    """Relative deadline; the period if left out."""
    priority: int | None = None
    """Rank, the smaller is served first; for all tasks or for none."""
    wss_kib: int | None = None
    """Size of the working set."""
    ucb: str | Sequence[int] | None = None
    """The cache blocks that it may use again after a preemption: numbers, or ranges as `"0-31,64"`."""
    ecb: str | Sequence[int] | None = None
    """All cache blocks that it touches."""
    jitter_us: Time | None = None
    """Longest time from arrival to release."""
    blocking_us: Time | None = None
    """The longest blocking by a task of lower priority."""
    suspension_us: Time | None = None
    """Longest time for which a job waits for something beside the CPU and locks once it began, in all."""
    locks: Sequence[Mapping[str, Any]] | None = None
    """Its critical sections, each with `resource` and `longest_us`; the set needs `locking`."""
    bcet_us: Time | None = None
    """Least execution time, which chains by events ask for."""
    budget_us: Time | None = None
    """The CPU time that a verdict allows each job: the WCET with all that was charged."""
    name: str | None = None
    """For messages and tables."""


Tasks = Mapping[str, Any] | str | os.PathLike[str] | ArrowTable | Iterable[Any]


def check(
    tasks: Tasks,
    test: str | None = None,
    *,
    scheduler: str | None = None,
    cpus: int | None = None,
    delay_us: float | None = None,
    costs: CostModel | Samples | None = None,
    load: str | None = None,
    statistic: str | None = None,
    length: str | None = None,
    only: Mapping[str, object] | None = None,
    platform: Platform | None = None,
    block_reload_ns: int | None = None,
    locking: str | None = None,
    chains: Sequence[Mapping[str, Any]] | None = None,
    accept_largest: bool = False,
    supply: str | os.PathLike[str] | None = None,
    slack: bool | None = None,
) -> Any:
    """Tests whether a task set meets its deadlines: under its own scheduler, by one test, or by all tests.

    Args:
        tasks: A task set as `corehop check` takes it, `{"cpus": m, "tasks": [...]}`: a mapping, JSON, or the
            path of a file; or the tasks alone, with `cpus` beside them: dataclasses such as `Task`, mappings,
            or an Arrow table with a column for each field.
        test: The name of a test, or `all` for a survey; default: the tests for the scheduler, up to the first test
            that decides.
        scheduler: `p-edf`, `p-fp`, `g-edf`, `g-fp` or `c-edf`; that of the set if left out, otherwise `p-fp` if tasks
            have priorities, and `p-edf` if not.
        cpus: The number of CPUs, if `tasks` does not state it.
        delay_us: Charged to each job: `e' = e + D_c`; rounded up to a microsecond, or to a nanosecond where some time of the
            set is no whole number of microseconds.
        costs: Charged instead of `delay_us`: each job pays the cost of the most expensive event that it may suffer,
            for a working set of its size. The costs are a model, samples, or a table of costs (the path of a CSV
            file).
        load, statistic, length, only: Which of these costs; if left out, those under the only load, by the highest
            quantile whose upper end the samples give for every task, otherwise the largest.
        platform: The machine: which migrations there are, and which stay within a cluster.
        block_reload_ns: The time to reload a cache block, if tasks state their blocks (`ucb`, `ecb`).
        locking: The protocol of the locks that tasks have: `pcp`, `pi` or `srp`.
        chains: Chains of tasks with a deadline from end to end, each with `name`, `tasks`, `activation` (`periodic` or
            `event`) and `deadline_us`.
        accept_largest: Accept the largest measured cost as a bound. Without this option, a yes that relies on the
            largest of n samples is `UNKNOWN`, with the condition in `why` and in `sentence`.
        supply: CPU supply below 100 %: the path of a file of `measure("supply")`, or of JSON with a budget in each
            period. The answer has its basis as `supply`.
        slack: Whether the answer also says how close it is to its opposite; default: for sets of up to 20 tasks. This
            part takes some hundred times as long as the answer alone.

    Returns:
        The answer of `corehop check --json`: a dictionary with `sentence`, `schedulable` (a `Schedulable`, whose truth
        raises `Unknown` where the test does not know), `bounds_us`, `latencies_us` (of chains), `assumptions`, `deployment`
        (what Linux does not run as analysed), …; a list of them for `all`. With `slack` a yes has `slack`, `tightest` (what
        the response of the tightest task consists of) and `busiest` (a schedule); a no or unknown has `late`, `changes`
        (each with the changed `set`) and `miss` (the first miss that simulation finds).

    Raises:
        Usage: the test does not exist, `cpus` is stated twice or not at all, or the cost of working sets is missing.
        Damaged: a parameter makes no sense, or a working set has no known cost; the sentence names the task and
            the field.

    Example:
        >>> from corehop import Task, check
        >>> tasks = [Task(wcet_us=5, period_us=20), Task(wcet_us=10, period_us=40), Task(wcet_us=40, period_us=80)]
        >>> check(tasks, "p-fp-rta", cpus=1)["bounds_us"]
        [5, 15, 80]
        >>> bool(check(tasks, "p-fp-rta", cpus=1)["schedulable"])
        True
        >>> longer = [*tasks[:2], Task(wcet_us=41, period_us=80)]
        >>> [change["what"] for change in check(longer, "p-fp-rta", cpus=1)["changes"]][0]
        'on 2 CPUs: CPU 0: task 0, task 2; CPU 1: task 1'
    """
    if costs is not None and delay_us is not None:
        raise _errors.Usage("delay_us and costs exclude each other: leave one out")
    charged = None if costs is None else _model.costs(costs, load, statistic, length, only)
    machine = None if platform is None else platform._platform
    beside = {"block_reload_ns": block_reload_ns, "locking": locking, "chains": chains}
    given = _set(tasks, cpus, {name: value for name, value in beside.items() if value is not None})
    if accept_largest and costs is None:
        raise _errors.Usage("accept_largest says how to take costs: give costs")
    if scheduler is not None and test is not None:
        raise _errors.Usage("test and scheduler exclude each other: leave one out")
    asked = (given, test, scheduler, delay_us, charged, machine, accept_largest, supply, slack)
    answers = json.loads(_corehop.check(*asked))
    for answer in answers:
        answer["schedulable"] = Schedulable(answer["schedulable"])
    return answers if test == "all" else answers[0]


def limit_preemptions(
    tasks: Tasks,
    costs: CostModel | Samples,
    *,
    load: str | None = None,
    statistic: str | None = None,
    length: str | None = None,
    only: Mapping[str, object] | None = None,
) -> list[dict[str, Any]]:
    """The tasks of one CPU to make non-preemptive, for how long, or the tasks that may preempt each, and the savings.

    Args:
        tasks: The tasks of one CPU with the sizes of their working sets (`wss_kib`), as `check` takes them.
        costs: What preemptions cost: a model, samples, or a table of costs (the path of a CSV file).
        load, statistic, length, only: Which of these costs; as for `check` if left out.

    Returns:
        The answer of `corehop advise set SET.json --costs FILE --json`: for each `limit` (`edf_regions`, `fp_regions`,
        `fp_thresholds`) the `tasks`, each with `region_us`, `preemptions` that a job may suffer, those `remaining`,
        and what it `saves`; whether the set is schedulable `preemptive`; `saves_share`, of the CPU; and the quantile
        that was `charged_by`, with its number of samples. Or `why_none`.

    Raises:
        Usage: the set is for several CPUs, or no costs are meant.
        Damaged: a parameter makes no sense, or a working set has no known cost; the sentence names the task and
            the field.
    """
    charged = _model.costs(costs, load, statistic, length, only)
    one = None if _states_cpus(tasks) else 1
    answer: list[dict[str, Any]] = json.loads(_corehop.limit_preemptions(_set(tasks, one), charged))
    return answer


def _states_cpus(tasks: Tasks) -> bool:
    if isinstance(tasks, str | os.PathLike):
        return True
    return isinstance(tasks, Mapping) and "cpus" in tasks


def _set(tasks: Tasks, cpus: int | None, beside: Mapping[str, object] | None = None) -> str:
    """The task set as JSON. What is wrong with it is found where it is read."""
    beside = beside or {}
    if isinstance(tasks, os.PathLike):
        tasks = Path(tasks).read_text(encoding="utf-8")
    if isinstance(tasks, str):
        if cpus is not None:
            raise _errors.Usage("the task set has cpus already: leave it out here")
        return tasks
    if isinstance(tasks, Mapping):
        given = {**tasks, **beside}
        if cpus is not None and "cpus" in given:
            raise _errors.Usage("the task set has cpus already: leave it out here")
        if cpus is not None:
            given["cpus"] = cpus
        if not isinstance(given.get("tasks"), str | bytes) and isinstance(given.get("tasks"), Iterable):
            given["tasks"] = _rows(given["tasks"])
        return json.dumps(given)
    if cpus is None:
        raise _errors.Usage("cpus is missing: give the number of CPUs")
    return json.dumps({"cpus": cpus, **beside, "tasks": _rows(tasks)})


def _rows(tasks: Any) -> list[Any]:
    if isinstance(tasks, ArrowTable):
        return list(rows(tasks))
    return [_row(task) for task in tasks]


def _row(task: Any) -> Any:
    if is_dataclass(task) and not isinstance(task, type):
        return {name: value for name, value in asdict(task).items() if value is not None}
    return dict(task) if isinstance(task, Mapping) else task
