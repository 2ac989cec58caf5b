# SPDX-License-Identifier: MIT OR Apache-2.0
"""The `corehop` program: its path, and running it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

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


def run(arguments: Sequence[str], text: str = "") -> Said:
    """Runs the program with `text` on its standard input.

    Ctrl-C asks it to end, and waits until it has written what it has; a second one ends it at once.

    Raises:
        Error: by its exit code, with its own sentence.
    """
    # Files, not pipes: this process sleeps while the program measures, and empties nothing.
    with _file() as given, _file() as out, _file() as err:
        given.write(text)
        given.seek(0)
        child = subprocess.Popen([binary(), *arguments], stdin=given, stdout=out, stderr=err)
        code, interrupt = _wait(child)
        out.seek(0)
        err.seek(0)
        said = Said(out.read(), err.read())
    if interrupt is not None:
        raise _errors.of_program(130, said.remarks) from interrupt
    if code != 0:
        raise _errors.of_program(code, said.remarks)
    return said


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
