# SPDX-License-Identifier: MIT OR Apache-2.0
"""The `corehop` program: its path, and running it."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from corehop import _errors


def binary() -> Path:
    """Returns the path of the `corehop` program for live runs.

    The path is `COREHOP_BINARY` if set, otherwise the program installed with this package, otherwise the first
    `corehop` in PATH.

    Raises:
        FileNotFoundError: there is no program, or `COREHOP_BINARY` does not name a program.

    Example:
        >>> corehop.binary().name
        'corehop'
    """
    given = os.environ.get("COREHOP_BINARY")
    if given:
        if not _is_program(Path(given)):
            raise FileNotFoundError(f"COREHOP_BINARY={given}: this is not an executable file")
        return Path(given)
    for place in _places():
        if _is_program(place):
            return place
    raise FileNotFoundError(
        "the program `corehop` is not where this package was installed, nor on the path: install "
        "again (`pip install .` in a checkout), or name it in COREHOP_BINARY"
    )


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _places() -> Iterator[Path]:
    """The places where installers put it: an environment, beside the interpreter, --user, --target."""
    yield Path(sysconfig.get_path("scripts")) / "corehop"
    yield Path(sys.executable).parent / "corehop"
    yield Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))) / "corehop"
    yield Path(__file__).parents[1] / "bin" / "corehop"
    found = shutil.which("corehop")
    if found:
        yield Path(found)


class Said(NamedTuple):
    """The output of the program."""

    answer: str
    """On standard output."""
    remarks: str
    """On standard error."""
    code: int = 0
    """The exit code: 0, or 1 for the answer no or unknown."""


class Answered(NamedTuple):
    """The answer of a verb that ran with `--json`."""

    facts: Any
    """The JSON."""
    sentence: str
    """The answer in one sentence."""
    holds: bool
    """Whether the answer is yes (exit code 0), not no or unknown (exit code 1)."""


def answered(arguments: Sequence[str]) -> Answered:
    """Runs a verb that takes `--json`, and reads its answer.

    Raises:
        Error: by the exit code, with the program's sentence. Exit code 1 with an answer is an answer, not an error.
    """
    verb = 2 if arguments[0] == "sim" or arguments[1:2] == ["simulate"] else 1
    said = run([*arguments[:verb], "--json", *arguments[verb:]], no_is_an_answer=True)
    return Answered(json.loads(said.answer), _sentence(said.remarks), said.code == 0)


def _sentence(remarks: str) -> str:
    """The sentence below the notes: where standard output carries JSON, the program ends standard error with the
    sentence, folded.

    >>> _sentence("note: the host is busy\\nYes: pin to CPU 1\\nand 2.\\n")
    'Yes: pin to CPU 1 and 2.'
    """
    lines = remarks.strip().splitlines()
    notes = [number for number, line in enumerate(lines) if line.startswith(("note: ", "corehop: "))]
    return " ".join(lines[notes[-1] + 1 if notes else 0 :])


def run(arguments: Sequence[str], text: str = "", *, no_is_an_answer: bool = False) -> Said:
    """Runs the program with `text` on its standard input. With `no_is_an_answer`, exit code 1 is an answer if the
    program wrote to standard output.

    Ctrl-C asks it to end, and waits until it has written what it has; a second one ends it at once.

    Raises:
        Error: by its exit code, with its own sentence.
    """
    # Files, not pipes: this process sleeps while the program measures, and empties nothing.
    with _file() as given, _file() as out, _file() as err, _terminal() as bar:
        given.write(text)
        given.seek(0)
        environment = os.environ | {"COREHOP_BAR_FD": str(it) for it in bar}
        child = subprocess.Popen(
            [binary(), *arguments], stdin=given, stdout=out, stderr=err, env=environment, pass_fds=bar
        )
        code, interrupt = _wait(child)
        out.seek(0)
        err.seek(0)
        said = Said(out.read(), err.read(), code)
    if interrupt is not None:
        raise _errors.of_program(130, said.remarks) from interrupt
    if code != 0 and not (code == 1 and no_is_an_answer and said.answer):
        raise _errors.of_program(code, said.remarks)
    return said


@contextmanager
def _terminal() -> Iterator[list[int]]:
    """An open file of standard error if that is a terminal, for the progress that the program draws; else none. A notebook has no
    terminal: to draw there, this process would have to wake up while the program measures.
    """
    try:
        own = [os.dup(sys.stderr.fileno())] if sys.stderr.isatty() else []
    except (AttributeError, OSError, ValueError):  # no stream, or one without a file
        own = []
    try:
        yield own
    finally:
        for each in own:
            os.close(each)


def _file() -> IO[str]:
    return TemporaryFile("w+", encoding="utf-8", errors="replace")


def _wait(child: subprocess.Popen[bytes]) -> tuple[int, KeyboardInterrupt | None]:
    """Waits until the program has ended, and says whether Ctrl-C has made it."""
    try:
        return _ended(child), None
    except KeyboardInterrupt as interrupt:
        # A terminal, and a notebook's server, send SIGINT to the program as well as to us, and it
        # takes a second SIGINT for "at once". SIGTERM asks the same as the first, however often.
        child.send_signal(signal.SIGTERM)
        try:
            return _ended(child), interrupt
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            return child.wait(), interrupt
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _ended(child: subprocess.Popen[bytes]) -> int:
    """Waits without waking up in between, which would disturb what is measured.

    Poll returns when a signal comes. `Popen.wait` does not where some library (polars, for one) has
    put a handler of its own before Python's, with SA_RESTART: Ctrl-C would be noticed at the end.
    """
    try:
        end = os.pidfd_open(child.pid)
    except OSError:  # before Linux 5.3
        return child.wait()
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.poll()
    finally:
        os.close(end)
    return child.wait()
