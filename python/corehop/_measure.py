# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measuring and planning, by the `corehop` program."""

from __future__ import annotations

import json
import os
import shlex
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from corehop import _binary, _errors, _files
from corehop._options import Options, flags
from corehop._platform import Platform
from corehop._result import Result, load


def measure(
    experiment: str | None = None,
    *,
    preset: str | None = None,
    seed: int | None = None,
    on: str | os.PathLike[str] | Platform = "live",
    output: str | os.PathLike[str] | None = None,
    plan: Mapping[str, object] | str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Result:
    """Runs a measurement, and returns its result.

    The program `corehop` runs in its own process, so that this process (its threads, its memory, its garbage
    collector) does not disturb the measurement. Ctrl-C, or a notebook's stop button, ends the program and keeps the
    recorded data.

    Args:
        experiment: `synthetic` (default), `access-time`, `preemption-length`, `polluter-sweep`, `conditions`,
            `shared-data`, `schedule-sensitive` (of task sets; their jobs are in `FILE.jobs.parquet` beside `output`),
            `core-switch`, `overheads` (of this kernel), `program-costs` (of events caused in `command=[…]`, or in a
            `pid` with `progress="FILE"`), or `program` (the recording of `command=["make", "-j4"]`, or of a `pid` or
            `cgroup`; its threads are in `FILE.threads.parquet`, its runs in `FILE.runs.parquet`).
        preset: `quick` (minutes; default), `bastoni` or `waechtler` (hours).
        seed: The seed of every draw (default 1), which the result stores.
        on: The machine: `live`, the id of a platform, a platform file, or a `Platform`.
        output: The Parquet file to write. Without a file only the result holds the samples.
        plan: A plan to run instead of an experiment: the result of `corehop.plan`, JSON, or the path of a file. A
            plan runs exactly as written; an experiment replaces disturbed samples by further ones.
        **options: The options of `corehop measure`: `samples=100`, `wss=["64KiB", "1MiB"]`,
            `precision="5%"`, `budget="3min"`, `length="0..50ms"`, `cpus=[0, 1]`, ….

    Raises:
        Usage: an option makes no sense.
        NotPossible: this host does not allow the measurement; the sentence names the remedy.
        Interrupted: Ctrl-C. The recorded data is in the exception's `result`, and in `output`.
        HostFailed: the host failed midway. The recorded data is in the exception's `result`.
        Damaged: the plan or the platform file is damaged.

    Example:
        >>> result = corehop.measure("synthetic", wss=["64KiB"], samples=100)   # doctest: +SKIP
        >>> result.plot()                                                       # doctest: +SKIP
    """
    what, text = _what(experiment, plan)
    arguments = [*_drawn(preset, seed), *_arguments(experiment, options)]
    with named(on) as machine:
        words = [*what, *_on(experiment, machine)]
        return kept(lambda file: [*words, f"--output={file}", *arguments], output, "measured.parquet", text)


def kept(
    words: Callable[[Path], list[str]],
    output: str | os.PathLike[str] | None,
    name: str,
    text: str = "",
    *,
    no_is_an_answer: bool = False,
) -> Result:
    """Runs the program, which writes its answer to a file, and loads the file.

    Args:
        words: The arguments for a file.
        output: The file. Without a file the answer goes to a temporary one that is called `name`.
        text: The program's standard input.
        no_is_an_answer: Whether exit code 1 is an answer, not an error.

    Raises:
        Error: by the exit code. The `result` of the exception is what the program had written.
    """
    # A file even where none was asked for: a stream's head is written before the run, and lacks what
    # only its end knows (the policy it got, the calibration, what stopped it).
    with ExitStack() as scratch:
        folder = scratch.enter_context(TemporaryDirectory(prefix="corehop-"))
        file = Path(folder, name) if output is None else Path(output)
        try:
            said = _binary.run(words(file), text, no_is_an_answer=no_is_an_answer)
        except _errors.Error as error:
            error.result = _recorded(file)
            if error.result is not None:
                _keep(scratch, error.result)
            raise
        _files.say(said.remarks)
        return _keep(scratch, load(file))


def record(
    command: str | Sequence[str] | None = None,
    /,
    *,
    seed: int | None = None,
    output: str | os.PathLike[str] | None = None,
    **options: Unpack[Options],
) -> Result:
    """Records the preemptions and migrations of a program, as `corehop record` does.

    Args:
        command: The command, as a list or as a text as a shell takes it.
        seed: The seed of every draw (default 1).
        output: The Parquet file to write; its threads and runs are in files beside it.
        **options: The options of `corehop record`: `pid=4711` or `cgroup=FOLDER` in place of a command, `budget="10s"`,
            `arm=["pinned=taskset -c 1"]`, `repeat=20`, ….

    Raises:
        Usage: there is neither a command nor a process, or an option makes no sense.
        NotPossible: this host does not allow recording; the sentence names the remedy.
        Interrupted: Ctrl-C. The recorded data is in the exception's `result`.

    Example:
        >>> recording = corehop.record(["make", "-j4"])                         # doctest: +SKIP
        >>> print(recording.sentence)                                           # doctest: +SKIP
    """
    if command is not None:
        options["command"] = command
    return measure("program", seed=seed, output=output, **options)


def plan(
    experiment: str = "synthetic",
    *,
    preset: str | None = None,
    seed: int | None = None,
    on: str | os.PathLike[str] | Platform = "live",
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Returns the plan of an experiment: plain data to inspect, change, store, and pass to `measure`.

    Args:
        experiment, preset, seed, on, **options: As for `measure`. Equal arguments give equal plans.

    Raises:
        Usage: an option makes no sense.
        NotPossible: the machine has no CPUs in a requested class.

    Example:
        >>> plan = corehop.plan("synthetic", on="xeon_l7455", wss="64KiB", samples=2,
        ...                     event=["none", "l3_migration"], load="idle")
        >>> sum(len(phase["jobs"]) for phase in plan["jobs"]["phases"])
        4
        >>> result = corehop.measure(plan=plan)                                 # doctest: +SKIP
    """
    arguments = ["--dry-run", "--json", *_drawn(preset, seed), *_arguments(experiment, options)]
    with named(on) as machine:
        said = _binary.run([*_verb(experiment), *_on(experiment, machine), *arguments])
    made: dict[str, Any] = json.loads(said.answer)
    return made


def _verb(experiment: str) -> list[str]:
    """The words that the program knows an experiment by."""
    return ["record"] if experiment == "program" else ["measure", experiment]


def _on(experiment: str | None, machine: str) -> list[str]:
    """The machine. What runs on this host only has no such option."""
    only_here = experiment in ("program", "program-costs", "overheads") and machine == "live"
    return [] if only_here else [f"--on={machine}"]


def _arguments(experiment: str | None, options: Options) -> list[str]:
    """The options, and the command that is recorded or in which events are caused, which comes last."""
    command = options.get("command")
    if experiment not in ("program", "program-costs") or command is None:
        return flags(options)
    words = shlex.split(command) if isinstance(command, str) else command
    others = {name: value for name, value in options.items() if name != "command"}
    # Its output goes where remarks go: the caller of this function does not see standard output. Costs are
    # computed here, from the file.
    costs = ["--costs=none"] if experiment == "program" else []
    return [*dict.fromkeys([*flags(others), "--json", *costs]), "--", *words]


def _drawn(preset: str | None, seed: int | None) -> list[str]:
    """The values, and their draws."""
    given = {"preset": preset, "seed": seed}
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


def _what(
    experiment: str | None, plan: Mapping[str, object] | str | os.PathLike[str] | None
) -> tuple[list[str], str]:
    """The words that say what to run, and what is to be on standard input."""
    if plan is None:
        return _verb(experiment or "synthetic"), ""
    if experiment is not None:
        raise _errors.Usage(f"`{experiment}` and a plan: a plan runs in place of an experiment")
    if isinstance(plan, Mapping):
        return ["measure", "plan", "-"], json.dumps(plan)
    if isinstance(plan, str):
        return ["measure", "plan", "-"], plan
    return ["measure", "plan", os.fspath(plan)], ""


@contextmanager
def named(on: str | os.PathLike[str] | Platform) -> Iterator[str]:
    """The name of a machine on a command line, while it is in use."""
    if not isinstance(on, Platform):
        yield os.fspath(on)
        return
    with TemporaryDirectory(prefix="corehop-") as scratch:
        yield str(on.save(Path(scratch, "platform.toml")))


def _keep(scratch: ExitStack, result: Result) -> Result:
    """The result; its folder stays as long, because a sentence is computed from the files of the run."""
    weakref.finalize(result, scratch.pop_all().close)
    return result


def _recorded(file: Path) -> Result | None:
    """The remains of a run that did not end well: the file, or the stream it was writing."""
    for path in (file, file.with_name(file.name + ".part")):
        try:
            return load(path)
        except (OSError, _errors.Damaged):
            continue
    return None
