# SPDX-License-Identifier: MIT OR Apache-2.0
"""What preemptions and migrations cost one program."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import Any, Unpack, cast

from corehop import _html, _tables
from corehop._measure import measure
from corehop._options import Options
from corehop._result import Result
from corehop._verbs import Command


@dataclass(frozen=True)
class Cost:
    """The CPU time that an event costs the program, in microseconds, with its interval at 95 %."""

    event: str
    """`preemption`, or a class of migration."""
    length_us: float | None
    """The length of a preemption; None for a migration."""
    us: float | None
    """The cost; None if there were too few rounds."""
    low_us: float | None
    """The lower end of the interval; None if there were too few rounds."""
    high_us: float | None
    """The upper end of the interval; None if there were too few rounds."""
    events: int
    """The events that were caused."""


class ProgramCosts(Result):
    """The blocks of `corehop measure program-costs`, and the costs that follow from them."""

    @property
    def costs(self) -> list[Cost]:
        """The cost of each class of event."""
        return [_cost(row) for row in self.summary()]

    def __repr__(self) -> str:
        return f"{self.sentence}\n\n{_tables.text([asdict(cost) for cost in self.costs])}"

    def _repr_html_(self) -> str:
        return _html.answer(self.sentence, [asdict(cost) for cost in self.costs])


def _cost(row: dict[str, Any]) -> Cost:
    """A row of the summary, whose columns depend on what the run found."""
    low, high = row.get("cost_interval_low"), row.get("cost_interval_high")
    return Cost(row["event"], row.get("length_us"), row.get("cost_us"), low, high, int(row["events"]))


def program_costs(
    command: Command | None = None,
    /,
    *,
    seed: int | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> ProgramCosts:
    """Measures what a preemption and a migration cost a program, by causing them in the program.

    Args:
        command: The command, as a list or as a text. Without `progress` the command runs repeatedly.
        seed: The seed of every draw (default 1).
        output: The Parquet file to write.
        **options: The options of `corehop measure program-costs`: `progress="FILE"` reads the program's progress
            (also `unix:SOCKET`, or `syscalls:write`), `pid=4711` measures a running process, `event="preemption"`,
            `length="1ms"`, `rounds=50`, ….

    Raises:
        Usage: an option makes no sense, or there is neither a command nor a process.
        NotPossible: this host does not allow the measurement.
        Interrupted: Ctrl-C. The recorded data is in the exception's `result`.

    Example:
        >>> found = corehop.program_costs(["./server"], progress="count.txt")    # doctest: +SKIP
        >>> [(cost.event, cost.us) for cost in found.costs]                      # doctest: +SKIP
    """
    if command is not None:
        options["command"] = command
    result = measure("program-costs", seed=seed, output=output, **options)
    return cast("ProgramCosts", result)
