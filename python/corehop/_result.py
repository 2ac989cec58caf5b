# SPDX-License-Identifier: MIT OR Apache-2.0
"""Results: the rows of a file, their statistics and their provenance."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from corehop import _corehop, _errors, _html, _tables
from corehop._off_load import OffLoad
from corehop._placement import Placement
from corehop._platform import Platform

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def load(path: str | os.PathLike[str]) -> Result:
    """Reads a file of `corehop measure`: Parquet, or the `.part` of a running or killed run. Other files of corehop
    are read too: the log of `corehop place -o` comes back as a `Placement`, the answer of `corehop offload -o` as an
    `OffLoad`, counts of `corehop check study -o` as a `StudyResult`.

    Warns of a file without checksums (not verified: written by another program or before checksums), and of files
    that are missing beside the recording of a program.

    Raises:
        FileNotFoundError: there is no such file; other kinds of OSError where it cannot be read.
        Damaged: it is not a corehop file, is truncated, or was written by a later version.

    Example:
        >>> result = corehop.load("quick.parquet")
        >>> len(result), result.provenance["seed"]
        (134, 1)
    """
    placement = _corehop.load_placement(Path(path))
    if placement is not None:
        # A log is the exception; the type of all else is worth more to those who read samples.
        return cast("Result", Placement(placement))
    off_load = _corehop.load_off_load(Path(path))
    if off_load is not None:
        return cast("Result", OffLoad(off_load))
    try:
        file = _corehop.load(Path(path))
    except _errors.Damaged:
        from corehop import _study

        counts = _study.counts(path)
        if counts is None:
            raise
        return cast("Result", counts)
    for doubt in file.doubts:
        warnings.warn(doubt, stacklevel=2)
    if file.kind == "program_costs":
        from corehop._program_costs import ProgramCosts

        return ProgramCosts(file)
    return Result(file)


class Result(_tables.ArrowColumns):
    """Samples and their provenance. It is an Arrow table: polars, pyarrow and pandas take it.

    Example:
        >>> result = corehop.load("quick.parquet")
        >>> result.columns["warm_ns"]
        'The duration of the warm touch, t2 - t1, in nanoseconds, estimated from the undisturbed segments.'
        >>> len(result.column("warm_ns")) == len(result)
        True
        >>> polars.DataFrame(result).height
        134
    """

    def __init__(self, file: _corehop.File) -> None:
        self._file = file

    @property
    def sentence(self) -> str:
        """The answer of the file in one sentence: the first sentence of `corehop report`."""
        return self._file.sentence()

    def __str__(self) -> str:
        """The words of `corehop report`, for a terminal of 100 columns."""
        return f"{self.sentence}\n\n{self._file.text(100)}"

    @property
    def kind(self) -> str:
        """The row type: `samples`, `access_time`, `switches`, `overheads`, …."""
        return self._file.kind

    @property
    def schema_version(self) -> int:
        """The version of the row types that it was written with."""
        return self._file.schema_version

    @property
    def truncated(self) -> bool:
        """Whether a crash has cut off the file in the middle of a batch; complete batches are here."""
        return self._file.truncated

    @property
    def verified(self) -> bool:
        """Whether checksums verify the rows; a file of another program, or of an early version, has no checksums."""
        return self._file.verified

    @property
    def doubts(self) -> list[str]:
        """The doubts about the file, as sentences: no checksums, files that are missing beside a recording."""
        return self._file.doubts

    @property
    def provenance(self) -> dict[str, Any]:
        """The origin of the file: version, command, date, seed, parameters, platform, and the machine's description
        of itself and of the run."""
        facts: dict[str, Any] = json.loads(self._file.provenance())
        return facts

    @property
    def experiment(self) -> str:
        """The experiment that took the samples."""
        return str(self.provenance["experiment"])

    @property
    def seed(self) -> int:
        """The seed of every draw."""
        return int(self.provenance["seed"])

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan of the run; None if the plan was too large to store (its parameters and the seed are in
        `provenance`, and determine the plan)."""
        plan: dict[str, Any] | None = self.provenance.get("plan")
        return plan

    @property
    def stopped_by(self) -> str | None:
        """The cause of an early end of the run: `interrupt`, `budget`, `failure`; or None."""
        return self.provenance.get("stopped_by")

    @property
    def platform(self) -> Platform:
        """The machine of the measurement."""
        return Platform(self.provenance["platform"])

    @property
    def columns(self) -> dict[str, str]:
        """Every column with its meaning, in order."""
        return dict(self._file.docs())

    def _names(self) -> list[str]:
        return list(self.columns)

    def column(self, name: str) -> list[Any]:
        """The values of a column, as a list; also `result[name]`.

        Raises:
            KeyError: there is no such column.
        """
        return self._file.table.column(name)

    def __len__(self) -> int:
        return len(self._file.table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream, without a copy."""
        return self._file.table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow schema of the rows."""
        return self._file.table.__arrow_c_schema__()

    def delays(self, estimator: str = "difference") -> _corehop.Table:
        """The rows with one more column, `delay_ns`: the delay in nanoseconds.

        Args:
            estimator: How a delay is computed from the intervals of a sample: `difference` (resumed
                less warm, the paper's), `against_least`, `with_switch` or `cold_bound`. A sample that
                lacks an interval it needs has no delay.

        Raises:
            Usage: an unknown estimator, or rows that have no delay.

        Example:
            >>> corehop.load("quick.parquet").delays().columns[-1]
            'delay_ns'
        """
        return self._file.delays(estimator)

    def summary(self, estimator: str = "difference") -> Summary:
        """The statistics of each cell, with intervals; the numbers of `corehop report`.

        Args:
            estimator: As for `delays`; without meaning for other kinds of rows.

        Core switches, overheads, task sets and recorded programs have a row for each result. A mechanism of core
        switching without a valid batch has a row with the reason in the column `why`.

        Raises:
            Usage: an unknown estimator.
        """
        return Summary(self._file.summary(estimator))

    def conditions(self, estimator: str = "difference") -> list[dict[str, Any]]:
        """Causes of the spread of each cell of a run of `conditions`; empty for other experiments.

        Each has `median_us`, `deviation`, and `parts`: pairs of a name and its `share` of the variance
        with its `interval`; the shares add up to 1. `why_none` says why there are none.

        Args:
            estimator: As for `delays`.

        Raises:
            Usage: an unknown estimator, or rows that are no samples.
        """
        found: list[dict[str, Any]] = json.loads(self._file.conditions(estimator))
        return found

    def plot(
        self,
        kind: Literal["wss", "length", "access"] | None = None,
        ax: Axes | None = None,
        estimator: str = "difference",
        **where: object,
    ) -> Axes:
        """Draws the result with matplotlib, and returns the axes.

        Args:
            kind: `wss`: delay against working-set size, median with 95 % interval and greatest value;
                `length`: delay against preemption length, or length got against length asked for;
                `access`: access time against working-set size. If left out, what the rows are for.
            ax: The axes to draw on; default: a new figure.
            estimator: As for `delays`.
            **where: What to draw, if not all: a value, or a list of values, of a column, for
                instance `load="idle", page="4k"`.

        Raises:
            Usage: rows of this kind cannot be drawn that way, or none is as asked for.
            ImportError: matplotlib is not installed.

        Example:
            >>> axes = corehop.load("quick.parquet").plot()
            >>> axes.get_xscale(), axes.get_xlabel()
            ('log', 'working-set size')
            >>> axes.figure.savefig("delays.pdf")     # or .svg                 # doctest: +SKIP
        """
        from corehop import _plot

        return _plot.draw(self, kind, ax, estimator, where)

    def __repr__(self) -> str:
        torn = ", torn off" if self.truncated else ""
        torn += "" if self.verified else ", not verified"
        early = f", stopped by {self.stopped_by}" if self.stopped_by else ""
        line = f"<corehop.Result: {len(self)} rows of {self.experiment} ({self.kind}){early}{torn}>"
        try:
            return f"{self.sentence}\n{line}"
        except _errors.Error:
            # A debugger shows rows, too, that lack what a sentence needs.
            return line

    def _repr_html_(self) -> str:
        return _html.result(self)


class Summary(_tables.ArrowColumns):
    """The statistics of each cell of a result. It is an Arrow table, one row per cell.

    The columns are what the cell's samples have in common, then `n` (valid samples) and `n_all`, then
    the statistics under their names in the CSV table with their unit: `max_us`, `avg_us` (`_low`,
    `_high`: its interval), `std_us`, `min_us`, `p50_us`, `p90_us`, `p99_us`, `p999_us` (likewise; null
    where too few samples carry them), and medians of what is reported beside the delay. Intervals
    are at 95 %.

    Example:
        >>> summary = corehop.load("quick.parquet").summary()
        >>> table = summary.to_dict()
        >>> all(low <= p50 for low, p50 in zip(table["p50_low_us"], table["p50_us"]) if low is not None)
        True
        >>> summary.cells[0]["cell"]["event"]
        'none'
        >>> summary.csv().splitlines()[0].split(",")[-2:]
        ['wss_kib', 'cost_us']
    """

    def __init__(self, summary: _corehop.Summary) -> None:
        self._summary = summary
        self._table = summary.table()

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Every cell with all its statistics. For samples these are the cells that `corehop report --table json`
        prints: its list, or its field `cells`."""
        cells: list[dict[str, Any]] = json.loads(self._summary.json())
        return cells

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self._table.columns

    def _names(self) -> list[str]:
        return self.columns

    def column(self, name: str) -> list[Any]:
        """The values of a column, as a list; None where there is none. Also `summary[name]`.

        Raises:
            KeyError: there is no such column.
        """
        return self._table.column(name)

    def to_dict(self) -> dict[str, list[Any]]:
        """Every column by its name, as a list."""
        return self._table.to_dict()

    def csv(self) -> str:
        """One statistic a line, in the columns of the printed tables, which it joins: what
        `corehop report --table csv` prints.

        Raises:
            Usage: the file has no delays.
        """
        return self._summary.csv()

    def __len__(self) -> int:
        return len(self._table)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The cells as an Arrow stream, without a copy."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow schema of the cells."""
        return self._table.__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<corehop.Summary: {len(self)} cells>\n{_tables.text(list(self))}"

    def __str__(self) -> str:
        return self._summary.text(100) if "event" in self.columns else repr(self)

    def _repr_html_(self) -> str:
        return _html.summary(self)
