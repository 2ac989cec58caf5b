# SPDX-License-Identifier: MIT OR Apache-2.0
"""The exceptions: one for each exit code of the program."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from corehop._result import Result


class Error(Exception):
    """The base of all exceptions of corehop; the sentence states the problem, the value and the remedy."""

    exit_code: ClassVar[int | None] = None
    """The program's exit code that this stands for."""

    result: Result | None = None
    """The data that a run recorded until then, if any."""


class Unknown(Error, ValueError):
    """The answer is neither yes nor no (exit code 1 of the program)."""

    exit_code = 1


class Usage(Error, ValueError):
    """The request is invalid (exit code 2)."""

    exit_code = 2


class NotPossible(Error):
    """This host, or the simulated machine, does not allow the request (exit code 3). The sentence names the missing
    privilege or feature, and the command that provides it."""

    exit_code = 3


class Damaged(Error, ValueError):
    """An input is damaged, not of the expected kind, or of a later version (exit code 4)."""

    exit_code = 4


class HostFailed(Error):
    """The host failed midway (exit code 6, or the program was killed). The recorded data is in `result`."""

    exit_code = 6


class Interrupted(Error, KeyboardInterrupt):
    """The run was interrupted (exit code 130). What was recorded is in `result`.

    It is a KeyboardInterrupt too: a loop over measurements that goes on after every error of corehop
    with `except corehop.Error` should let this one through.
    """

    exit_code = 130


_BY_CODE: dict[int | None, type[Error]] = {
    kind.exit_code: kind for kind in (Usage, NotPossible, Damaged, HostFailed, Interrupted)
}
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def of_program(code: int, said: str) -> Error:
    """The exception for a program that has ended with `code` (negative: by that signal)."""
    sentence = _sentence(said)
    if code < 0:
        by = signal.Signals(-code)
        ended = Interrupted if by in _INTERRUPTS else HostFailed
        return ended(sentence or f"the program was ended by {by.name}")
    kind = _BY_CODE.get(code, Error)
    return kind(sentence or f"the program has ended with exit code {code} and said nothing")


def _sentence(said: str) -> str:
    """The last thing that the program said, without the name it puts in front.

    >>> _sentence("2 cells lack samples\\ncorehop: FIFO is refused: CAP_SYS_NICE is missing\\n")
    'FIFO is refused: CAP_SYS_NICE is missing'
    >>> _sentence("stopped by interrupt: 2 cells lack samples\\n")
    'stopped by interrupt: 2 cells lack samples'
    >>> _sentence("corehop: the first line\\n         and the rest of it\\n")
    'the first line and the rest of it'
    """
    # The program folds an error below the beginning of its text.
    unfolded = said.replace("\n" + " " * len("corehop: "), " ")
    return re.split(r"^(?:corehop|error): ", unfolded, flags=re.MULTILINE)[-1].strip()
