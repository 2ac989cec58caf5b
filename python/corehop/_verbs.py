# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verbs of the program that act on this host or on files, each a function."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Unpack, cast, overload

from corehop import _binary
from corehop._answers import Answer, Trial
from corehop._measure import kept, named
from corehop._off_load import OffLoad
from corehop._options import OffloadOptions, PlaceOptions, ReportOptions, TryOptions, ValidateOptions, flags
from corehop._placement import Placement
from corehop._platform import Platform

Command = str | Sequence[str]
"""A command with its arguments: a list, or a text as a shell takes it."""


def try_(command: Command | None = None, /, **options: Unpack[TryOptions]) -> Trial:
    """Tries a program on fewer CPUs, and tells whether to pin the program, to which CPUs, and the gain.

    The trial takes `duration` at most (default: three minutes), and less if the answer is clear earlier.

    Args:
        command: The command, which runs some ten times for each set of CPUs, with empty input and discarded output.
        **options: The options of `corehop try`: `duration="20s"`, `seed=1`, …. In place of a command, `pid=4711` with
            `progress="FILE"` tries a running process in stretches; its CPUs are restored at the end.

    Raises:
        Usage: there is neither a command nor a process, or an option makes no sense.
        Error: the command fails, or its first run does not end in time.
        Interrupted: Ctrl-C; nothing stays pinned.

    Example:
        >>> trial = corehop.try_("python3 examples/turns.py", duration="20s")   # doctest: +SKIP
        >>> trial.winner and trial.paste                                        # doctest: +SKIP
    """
    facts, sentence, _ = _binary.answered(["try", *flags(options, TryOptions), *_program(command)])
    return Trial(sentence, facts)


@overload
def place(
    *pids: int,
    command: Command | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    **options: Unpack[PlaceOptions],
) -> Placement: ...
@overload
def place(*, on: str | os.PathLike[str] | Platform, **options: Unpack[PlaceOptions]) -> Answer: ...
def place(
    *pids: int,
    on: str | os.PathLike[str] | Platform = "live",
    command: Command | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    **options: Unpack[PlaceOptions],
) -> Placement | Answer:
    """Finds threads that wake each other, moves them together, checks that the move pays, and keeps or reverts it.

    All affinity masks are restored at the end. Without `progress` nothing is moved: the placement is advice. With `on`
    the placer places pairs of threads on a simulated machine, and the answer compares the pairs' rates.

    Args:
        *pids: Running processes.
        on: In place of a program a simulated machine: the id of a platform, a file, or a `Platform`.
        command: A program to start, as a list or as a text as a shell takes it.
        output: The log to write; an existing log only with `force`.
        **options: The options of `corehop place`: `progress="FILE"`, `for_="1min"` (`--for`), `window=0.1`, …; or of
            `corehop place simulate`: `pairs=2`, `start="packed"`, `search=True`.

    Raises:
        Usage: there is no program, or an option makes no sense, or does not belong to this mode.
        NotPossible: the rights are missing, or this host has no source of evidence.
        Interrupted: Ctrl-C. The log until then is in the exception's `result`.

    Example:
        >>> placement = corehop.place(4711, progress="syscalls:sendmsg", for_="1min")   # doctest: +SKIP
        >>> print(placement.sentence)                                           # doctest: +SKIP
        >>> simulated = corehop.place(on="xeon_e5520", pairs=2)
        >>> [row["placement"] for row in simulated.rows]
        ['left alone', 'each pair on one CPU', 'each pair below one cache', 'placed']
    """
    if on != "live":
        with named(on) as machine:
            # The program refuses what belongs to a placer of processes, and names the option.
            file = [] if output is None else [f"--output={os.fspath(output)}"]
            others = [*file, *_force(force), *map(str, pids), *_program(command)]
            return _answer(["place", "simulate", f"--on={machine}", *flags(options, PlaceOptions), *others], "rates")
    words = [*flags(options, PlaceOptions), *_force(force), *map(str, pids), *_program(command)]
    log = kept(lambda file: ["place", "--json", f"--output={file}", *words], output, "placed.jsonl", no_is_an_answer=True)
    return cast("Placement", log)


def offload(
    command: Command | None = None,
    /,
    *,
    on: str | os.PathLike[str] | Platform = "live",
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
    **options: Unpack[OffloadOptions],
) -> OffLoad:
    """Runs a program whose system calls are made on other cores, and tells what that brought; or compares the policies
    on a simulated machine.

    Args:
        command: The program, as a list or as a text as a shell takes it.
        on: In place of a program a simulated machine: the id of a platform, a file, or a `Platform`.
        output: The JSON file to write; an existing file only with `force`.
        **options: The options of `corehop offload` (`os_cores=[1]` is required; `mechanism="v4"`, `threshold=4096`, …),
            or of `corehop offload simulate` (`threads=4`, `compute=10e-6`, `call_time="5us"`, …).

    Raises:
        Usage: an option makes no sense, or does not belong to this mode.
        NotPossible: this host, or the platform, does not allow it.

    Example:
        >>> answer = corehop.offload(on="xeon_x5650", os_cores=[1], mechanism="v4")
        >>> [row["arm"] for row in answer.rows][:2]
        ['unmodified', 'bound']
    """
    given = [*flags(options, OffloadOptions), *_force(force)]
    with named(on) as machine:
        head = ["offload"] if machine == "live" else ["offload", "simulate", f"--on={machine}"]
        words = [*given, "--json", *_program(command)]
        answer = kept(lambda file: [*head, f"--output={file}", *words], output, "answer.json", no_is_an_answer=True)
    return cast("OffLoad", answer)


def doctor(*, sysfs_root: str | os.PathLike[str] | None = None) -> Answer:
    """Checks what this host allows, what would spoil a measurement, and how to fix it.

    Args:
        sysfs_root: Check the host whose `sys/` and `proc/` were copied to this folder.

    Returns:
        The answer, with a row for each finding: `id`, `severity`, `found`, `why`, `remedy`, `remark`.

    Example:
        >>> answer = corehop.doctor()
        >>> {"id", "severity", "found"} <= answer.rows[0].keys()
        True
    """
    root = [] if sysfs_root is None else [f"--sysfs-root={os.fspath(sysfs_root)}"]
    return _answer(["doctor", *root], "findings")


def validate(*names: str, **options: Unpack[ValidateOptions]) -> Answer:
    """Reruns published experiments on the simulated machine, and reports the error against the printed values.

    Args:
        *names: Platforms or studies, such as `"xeon_x5650"`; default: all, which takes minutes.
        **options: The options of `corehop sim validate`: `samples=2`, `wss=["64KiB"]`, `output="page.html"`, ….

    Returns:
        The answer, with a row for each study; `holds` is whether every study meets its aims.

    Raises:
        Usage: there is no such study, or an option makes no sense.
    """
    return _answer(["sim", "validate", *flags(options, ValidateOptions), "--", *names], "studies")


def report(*files: str | os.PathLike[str], **options: Unpack[ReportOptions]) -> Answer:
    """Summarizes files as a table of cells, and as a page if `output` names one.

    Args:
        *files: Results, and platform files of their machines; or one study, log of placing, or answer of off-loading.
        **options: The options of `corehop report`: `output="report.html"`, `force=True`, `only="page=thp"`, ….

    Returns:
        The answer, with a row for each cell.

    Raises:
        Usage: there is no such file, the page exists, or an option makes no sense.
        Damaged: a file is damaged.

    Example:
        >>> answer = corehop.report("quick.parquet", only=["event=none"])
        >>> {row["cell"]["event"] for row in answer.rows}
        {'none'}
    """
    return _answer(["report", *flags(options, ReportOptions), "--", *(os.fspath(file) for file in files)], "cells")


def _answer(arguments: list[str], rows: str) -> Answer:
    """The answer of a verb, whose JSON is an object, or the list of the rows alone."""
    facts, sentence, holds = _binary.answered(arguments)
    return Answer(sentence, {rows: facts} if isinstance(facts, list) else facts, rows, holds)


def _force(force: bool) -> list[str]:
    return ["--force"] if force else []


def _program(command: Command | None) -> list[str]:
    """The command after `--`, if there is one."""
    if command is None:
        return []
    words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    return ["--", *words]
