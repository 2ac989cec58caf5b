# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of the program's verbs, and their form on the command line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from math import isfinite
from numbers import Integral, Real
from typing import Any, Literal, TypedDict

from corehop._errors import Usage

Cpus = str | int | Sequence[int]
#: A number of bytes, or a text with a unit (`"64KiB"`).
Size = int | str
#: A number of seconds, a timedelta, or a text with a unit (`"4ms"`).
Time = int | float | str | timedelta
#: Of an option whose values the program reads: a text, a number, a path, or several of them.
Value = str | int | float | os.PathLike[str] | Sequence[str | int | float]


class Options(TypedDict, total=False):
    """The options of `corehop measure`, with `_` for `-`; `corehop measure --help` explains them.

    Sizes are numbers of bytes or texts (`65536`, `"64KiB"`). Times are numbers of seconds, timedeltas or texts
    (`0.004`, `timedelta(milliseconds=4)`, `"4ms"`). An option with several values accepts a list, or a text with
    commas. An omitted option, or None, has the preset's value.

    `COREHOP_UPDATE_DOCS=1 cargo test -p corehop --test docs` adds the options that are new in the program.
    """

    # Enough samples.
    samples: int | None
    replicates: int | None
    precision: str | None
    budget: Time | None
    # In place of the preset's values.
    wss: Size | Sequence[Size] | None
    write_ratio: str | float | Sequence[str | float] | None
    pattern: Literal["shuffled", "scan", "code"] | None
    page: Literal["4k", "thp", "hugetlb"] | None
    chains: Literal[1, 4, 8] | None
    node: int | None
    fresh_frames: bool
    workload: str | None
    from_trace: str | os.PathLike[str] | None
    trace_skip: int | None
    trace_take: int | None
    trace_thread: int | str | None
    event: str | Sequence[str] | None
    length: Time | None
    preemptor: str | None
    preemptor_wss: Size | Sequence[Size] | None
    passes: int | None
    mover: Literal["affinity", "handover"] | None
    cpus: Cpus | None
    # Background load.
    load: Literal["idle", "constructed", "changing", "realistic", "dma", "buslock"] | None
    command: str | Sequence[str] | None
    load_cpus: Cpus | None
    polluter: str | None
    changing: str | None
    transfer: Literal["direct", "loopback"] | None
    split_locks: bool
    # Threads with common data.
    program: str | Sequence[str] | None
    items: int | str | Sequence[int | str] | None
    buckets: int | Sequence[int] | None
    fibonacci: int | Sequence[int] | None
    fixed_low_bits: bool
    sharing: str | Sequence[str] | None
    placing: str | Sequence[str] | None
    through: str | Sequence[str] | None
    threads: int | None
    rounds: int | None
    # Core switches.
    mechanism: str | Sequence[str] | None
    pair: str | Sequence[str] | None
    call: str | Sequence[str] | None
    bytes: Size | Sequence[Size] | None
    outstanding: int | Sequence[int] | None
    batch: int | None
    sleeping_batch: int | None
    # Task sets.
    scheduler: str | None
    tasks: int | str | Sequence[int] | None
    task_set: str | os.PathLike[str] | None
    sets: int | None
    duration: Time | None
    utilisation: str | None
    period: str | None
    sporadic: float | str | None
    share: str | None
    paired: bool
    cluster_level: int | None
    allow_system: bool
    # Supply.
    watched: str | None
    window: Time | None
    threshold: Time | None
    # Overheads, programs.
    no_bpf: bool
    pid: int | None
    cgroup: str | os.PathLike[str] | None
    estimate_wss: bool
    repeat: int | None
    arm: str | Sequence[str] | None
    # Simulated machine.
    placement: Literal["random", "contiguous"] | None
    colours: int | None
    job_colours: str | None
    other_colours: str | None
    job_ways: str | None
    other_ways: str | None
    sampled: bool
    exact: bool
    # The run.
    force: bool
    no_real_time: bool
    quiet: bool
    resume: bool
    progress: Value | None
    block: Time | None
    metrics: Value | None


#: Options of `corehop measure` that Python takes as parameters or has no use for: it reads the file that
#: the program writes, and computes costs from it.
ELSEWHERE = frozenset(
    "help preset seed on output plan stream dry-run json costs only statistic timeline trace".split()
)


class TryOptions(TypedDict, total=False):
    """The options of `corehop try`."""

    pid: int | None
    progress: str | os.PathLike[str] | None
    platform: str | os.PathLike[str] | None
    duration: Time | None
    seed: int | None
    quiet: bool


class PlaceOptions(TypedDict, total=False):
    """The options of `corehop place`, and of `corehop place simulate` on a simulated machine; `for_` is `--for`, which is
    a word of Python."""

    cgroup: str | os.PathLike[str] | None
    progress: str | os.PathLike[str] | None
    evidence: str | Sequence[str] | None
    page_faults: int | None
    dry_run: bool
    search: bool
    start: str | Sequence[int] | None
    pairs: int | None
    model: str | os.PathLike[str] | None
    for_: Time | None
    window: Time | None
    costs: str | os.PathLike[str] | None
    load: str | None
    statistic: str | None
    length: Time | None
    only: str | None
    metrics: str | os.PathLike[str] | None
    quiet: bool


class OffloadOptions(TypedDict, total=False):
    """The options of `corehop offload`, and of `corehop offload simulate` on a simulated machine."""

    os_cores: Cpus | None
    policy: str | Sequence[str] | None
    mechanism: str | None
    threshold: Size | None
    call: str | Sequence[str] | None
    decide: Literal["predicted", "guarded", "always", "never"] | None
    spin: int | None
    coverage: bool
    threads: int | None
    compute: Time | None
    call_time: Time | None
    seed: int | None
    quiet: bool


class ValidateOptions(TypedDict, total=False):
    """The options of `corehop sim validate`."""

    samples: int | None
    wss: Size | Sequence[Size] | None
    on: str | os.PathLike[str] | None
    exact: bool
    passes: int | None
    seed: int | None
    output: str | os.PathLike[str] | None
    svg: str | os.PathLike[str] | None
    force: bool
    quiet: bool


class ReportOptions(TypedDict, total=False):
    """The options of `corehop report`."""

    only: str | Sequence[str] | None
    estimator: str | None
    output: str | os.PathLike[str] | None
    bundle: str | os.PathLike[str] | None
    force: bool
    quiet: bool


#: Options that are given once for each of several values.
_REPEATED = frozenset({"arm", "only"})


def flags(options: Mapping[str, object], of: type[Any] = Options) -> list[str]:
    """Options as the program takes them: True is a flag, None and False are nothing.

    Raises:
        Usage: `of` has no such option.

    >>> flags({"wss": ["64KiB", 1 << 20], "no_real_time": True, "node": None, "samples": 5})
    ['--wss=64KiB,1048576B', '--no-real-time', '--samples=5']

    A time is a number of seconds, a timedelta or a text:

    >>> flags({"budget": 90, "length": timedelta(milliseconds=4)}), flags({"for_": "1min"}, PlaceOptions)
    (['--budget=90000000000ns', '--length=4000000ns'], ['--for=1min'])

    Several arms of a program are an option each:

    >>> flags({"arm": ["pinned=taskset -c 1", "nice=nice"]})
    ['--arm=pinned=taskset -c 1', '--arm=nice=nice']
    """
    kinds = {name: kind.__forward_arg__ for name, kind in of.__annotations__.items()}
    for name in options:
        if name not in kinds:
            raise Usage(f"`{name}` is not an option; use one of: {', '.join(kinds)}")
    # By identity: 0 is False's equal, and node 0 is a node.
    given = ((name, value) for name, value in options.items() if value is not None and value is not False)
    return [flag for name, value in given for flag in _flags(name, value, kinds[name])]


def _flags(name: str, value: object, kind: str) -> list[str]:
    """The flag of an option, or those of one that may be repeated."""
    if name in _REPEATED and isinstance(value, Sequence) and not isinstance(value, str):
        return [_flag(name, each, kind) for each in value]
    return [_flag(name, value, kind)]


def _flag(name: str, value: object, kind: str) -> str:
    flag = "--" + name.rstrip("_").replace("_", "-")
    if value is True:
        return flag
    if isinstance(value, str | os.PathLike) or not isinstance(value, Iterable):
        return f"{flag}={word(value, kind)}"
    words = [word(each, kind) for each in value]
    # A command is one word to the program, which takes it apart as a shell would.
    return f"{flag}={shlex.join(words) if name == 'command' else ','.join(words)}"


def word(value: object, kind: str) -> str:
    """A value as the program reads it: a number of a size is in bytes, one of a time in seconds."""
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1) * 1000}ns"
    if isinstance(value, Real) and "Time" in kind:
        if not isfinite(value):
            raise Usage(f"{value} seconds is not a time: give finite seconds, a timedelta, or a text such as \"4ms\"")
        return f"{round(float(value) * 1e9)}ns"
    # Numbers of numpy, too.
    if isinstance(value, Integral) and "Size" in kind:
        return f"{value}B"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
