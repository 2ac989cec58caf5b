# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulability studies: in the threads of this process, or in parts on the workers of Dask."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corehop import _corehop, _errors, _files, _model
from corehop._model import CostModel, Samples

if TYPE_CHECKING:
    from distributed import Client


class StudyResult:
    """The counts of a study, and their evaluation.

    It is an Arrow table with a row for each count: `polars.DataFrame(result)`, `pyarrow.table(result)`.
    """

    def __init__(self, outcome: _corehop.Outcome) -> None:
        self._outcome = outcome
        self._answer: dict[str, Any] | None = None

    @property
    def answer(self) -> dict[str, Any]:
        """The answer of `corehop check study --json`."""
        if self._answer is None:
            self._answer = json.loads(self._outcome.json())
        return self._answer

    @property
    def readings(self) -> dict[str, dict[str, Any]]:
        """Each reading by its name: `w`, `w_interval`, `crossover_us`, `interval_us`, …."""
        return {reading["name"]: reading for reading in self.answer["readings"]}

    def sizes(
        self,
        costs: CostModel | Samples,
        *,
        load: str | None = None,
        statistic: str | None = None,
        length: str | None = None,
        only: Mapping[str, object] | None = None,
    ) -> dict[str, list[dict[str, Any]]]:
        """Up to which working-set size each crossover's scheduler is preferable at these costs, by reading.

        Args:
            costs: A model, samples to which corehop fits a model, or a table of costs (the path of a CSV file).
            load, statistic, length, only: Which of these costs; all loads and statistics if left out.

        Raises:
            Usage: there are no such costs.
        """
        told = self._outcome.json(_model.costs(costs, load, statistic, length, only))
        return {reading["name"]: reading["wss"] for reading in json.loads(told)["readings"]}

    @property
    def complete(self) -> bool:
        """Whether every set of the study is counted."""
        return self._outcome.complete

    @property
    def sets(self) -> int:
        """The number of counted sets of each cap."""
        return self._outcome.sets

    @property
    def table(self) -> _corehop.Table:
        """A row for each count."""
        return self._outcome.table()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def merged(self, *others: StudyResult) -> StudyResult:
        """It with other parts of the same study.

        Raises:
            Usage: they are of another study, or have sets in common.
        """
        outcome = self._outcome
        for other in others:
            outcome = outcome.merged(other._outcome)
        return StudyResult(outcome)

    def to_bytes(self) -> bytes:
        """As Parquet: the bytes that `corehop check study -o` writes."""
        return self._outcome.to_bytes()

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes a file that `corehop check study` reads and merges; over an existing file only with `force`."""
        return _files.write(path, self.to_bytes(), force=force)

    def save_page(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes the page of the study: one HTML file; over an existing file only with `force`."""
        return _files.write(path, self._outcome.page(), force=force)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StudyResult) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        part = "" if self.complete else ", a part"
        return f"<corehop.StudyResult: {self.answer['id']}, {self.sets} sets per cap{part}>"


def counts(path: str | os.PathLike[str]) -> StudyResult | None:
    """The counts in a file; None where it has none."""
    try:
        return load_study(path)
    except _errors.Damaged:
        return None


def load_study(path: str | os.PathLike[str]) -> StudyResult:
    """Counts that `StudyResult.save` or `corehop check study -o` wrote.

    Warns of a file without checksums.

    Raises:
        Damaged: the file is another one, or damaged.
    """
    outcome = _corehop.Outcome.from_bytes(Path(path).read_bytes())
    if outcome.doubt is not None:
        warnings.warn(f"{os.fspath(path)}: {outcome.doubt}", stacklevel=2)
    return StudyResult(outcome)


def study(
    what: str | os.PathLike[str],
    *,
    seed: int | None = None,
    sets: int | None = None,
    shard: str | None = None,
    threads: int | None = None,
    shards: int | None = None,
    scheduler: str | Client | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> StudyResult:
    """Runs a schedulability study.

    In this process, on all CPUs; or, where `shards`, `scheduler` or `workers` is given, in parts on the
    workers of Dask. The counts are the same, to the last byte.

    Args:
        what: A study: its description (TOML), the path of a file, or of the folder of one.
        seed, sets: Override the study's values.
        shard: Only a part, `"3/64"`: the sets whose index leaves 3 when divided by 64.
        threads: The number of threads of this process; default: one per CPU.
        shards: Into how many parts the study is cut for Dask. More of them lose less when a worker is lost, and cost
            more to put together; four for each thread of the workers if left out.
        scheduler: The address of a Dask scheduler (`"tcp://…"`), or a client of one. Without it, workers are
            started on this host for as long as the study takes.
        workers: The number of workers to start on this host; default: one per CPU.
        progress: Whether to show a bar on standard error; if left out, where that is a terminal.

    Raises:
        Damaged: the study is invalid; the sentence names the place.
        Usage: an option makes no sense.
        NotPossible: Dask is not installed.

    Example:
        >>> result = corehop.study("studies/bastoni-fig5", sets=100)      # doctest: +SKIP
        >>> result.readings["whole-ms/discard/wfd"]["crossover_us"]       # doctest: +SKIP
    """
    text = _text(what)
    described = _corehop.Study(text, seed, sets)
    bar = _Bar(described.sets, sys.stderr.isatty() if progress is None else progress)
    if shards is None and scheduler is None and workers is None:
        with bar:
            return StudyResult(described.run(shard, threads, bar.advance))
    if shard is not None or threads is not None:
        raise _errors.Usage("shard and threads are of this process: with Dask, say shards and workers")
    from corehop import _dask

    with bar:
        pieces = _dask.pieces(text, seed, sets, shards, scheduler, workers)
        return StudyResult(_merged(pieces, bar))


def merge_studies(paths: Iterable[str | os.PathLike[str]]) -> StudyResult:
    """Adds up the parts of a study.

    Raises:
        Usage: there are no parts, or the parts belong to different studies.
        Damaged: a file is another one, or damaged.
    """
    parts = [load_study(path) for path in paths]
    if not parts:
        raise _errors.Usage("there are no shards to merge: name at least one file")
    return parts[0].merged(*parts[1:])


def _merged(pieces: Iterable[bytes], bar: _Bar) -> _corehop.Outcome:
    outcome: _corehop.Outcome | None = None
    for piece in pieces:
        part = _corehop.Outcome.from_bytes(piece)
        bar.advance(part.sets)
        outcome = part if outcome is None else outcome.merged(part)
    if outcome is None:
        raise _errors.Usage("shards is 0: expected at least 1")
    return outcome


def _text(what: str | os.PathLike[str]) -> str:
    """The description that is meant: a text has several lines, a path has one."""
    if isinstance(what, str) and "\n" in what:
        return what
    path = Path(what)
    return (path / "study.toml" if path.is_dir() else path).read_text(encoding="utf-8")


class _Bar:
    """Prints the number of finished sets on standard error."""

    def __init__(self, total: int, shown: bool) -> None:
        self._total, self._shown, self._done = max(total, 1), shown, 0

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            _files.say("\r\x1b[K")

    def advance(self, sets: int) -> None:
        self._done += sets
        if self._shown:
            filled = "=" * min(30, 30 * self._done // self._total)
            _files.say(f"\r[{filled:<30}] {self._done} of {self._total} sets")
