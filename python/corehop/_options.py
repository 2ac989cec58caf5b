# SPDX-License-Identifier: MIT OR Apache-2.0
"""The options of `corehop measure`, and their form on its command line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from corehop._errors import Usage

Cpus = str | int | Sequence[int]
#: Of an option whose values the program reads: a text, a number, a path, or several of them.
Value = str | int | float | os.PathLike[str] | Sequence[str | int | float]


class Options(TypedDict, total=False):
    """The options of `corehop measure`, with `_` for `-`; `corehop measure --help` explains them.

    Sizes and times are texts with a unit (`"64KiB"`, `"4ms"`). Where there may be several values, a
    list is as good as a text with commas. An omitted option, or None, has the preset's value.

    `COREHOP_UPDATE_DOCS=1 cargo test -p corehop --test docs` adds the options that are new in the program.
    """

    # Enough samples.
    samples: int | None
    replicates: int | None
    precision: str | None
    budget: str | None
    # In place of the preset's values.
    wss: str | Sequence[str] | None
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
    length: str | None
    preemptor: str | None
    preemptor_wss: str | Sequence[str] | None
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
    bytes: str | Sequence[str] | None
    outstanding: int | Sequence[int] | None
    batch: int | None
    sleeping_batch: int | None
    # Task sets.
    scheduler: str | None
    tasks: int | str | Sequence[int] | None
    task_set: str | os.PathLike[str] | None
    sets: int | None
    duration: str | None
    utilisation: str | None
    period: str | None
    sporadic: float | str | None
    share: str | None
    paired: bool
    cluster_level: int | None
    allow_system: bool
    # Supply.
    watched: str | None
    window: str | None
    threshold: str | None
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
    block: Value | None
    metrics: Value | None


#: Options of `corehop measure` that Python takes as parameters or has no use for: it reads the file that
#: the program writes, and computes costs from it.
ELSEWHERE = frozenset(
    "help preset seed on output plan stream dry-run json costs only statistic timeline trace".split()
)


def flags(options: Mapping[str, object]) -> list[str]:
    """Options as the program takes them: True is a flag, None and False are nothing.

    Raises:
        Usage: an option that `corehop measure` does not have, or that is decided elsewhere here.

    >>> flags({"wss": ["64KiB", "1MiB"], "no_real_time": True, "node": None, "samples": 5})
    ['--wss=64KiB,1MiB', '--no-real-time', '--samples=5']

    Several arms of a program are an option each:

    >>> flags({"arm": ["pinned=taskset -c 1", "nice=nice"]})
    ['--arm=pinned=taskset -c 1', '--arm=nice=nice']
    """
    for name in options:
        if name not in Options.__annotations__:
            raise Usage(f"`{name}` is not an option; known are: {', '.join(Options.__annotations__)}")
    # By identity: 0 is False's equal, and node 0 is a node.
    given = ((name, it) for name, it in options.items() if it is not None and it is not False)
    return [flag for name, value in given for flag in _flags(name, value)]


def _flags(name: str, value: object) -> list[str]:
    """The flag of an option, or those of one that may be repeated."""
    if name == "arm" and isinstance(value, Sequence) and not isinstance(value, str):
        return [_flag(name, it) for it in value]
    return [_flag(name, value)]


def _flag(name: str, value: object) -> str:
    flag = "--" + name.replace("_", "-")
    if value is True:
        return flag
    if isinstance(value, str | os.PathLike) or not isinstance(value, Iterable):
        return f"{flag}={value}"
    words = [str(word) for word in value]
    # A command is one word to the program, which takes it apart as a shell would.
    return f"{flag}={shlex.join(words) if name == 'command' else ','.join(words)}"
