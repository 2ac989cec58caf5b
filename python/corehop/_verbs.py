# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verbs of the program that act on this host or on files, each a function."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Unpack

from corehop import _binary
from corehop._answers import Trial
from corehop._options import TryOptions, flags

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


def _program(command: Command | None) -> list[str]:
    """The command after `--`, if there is one."""
    if command is None:
        return []
    words = shlex.split(command) if isinstance(command, str) else [os.fspath(word) for word in command]
    return ["--", *words]
