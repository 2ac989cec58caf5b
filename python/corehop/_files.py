# SPDX-License-Identifier: MIT OR Apache-2.0
"""The one home of writing a file: complete and on the disk, or not there at all, as in the program."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from pathlib import Path

from corehop import _errors


def write(path: str | os.PathLike[str], contents: str | bytes, *, force: bool = False) -> Path:
    """Writes a whole file, and gives its path. No link is followed.

    Raises:
        Usage: the file exists, is a link or a folder, or its folder does not exist.
    """
    target = Path(path)
    _check(target, force)
    data = contents.encode() if isinstance(contents, str) else contents
    # Beside its place under a random name, which no planted link can have.
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(beside, flags, 0o666), "wb") as out:
        try:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
            if force or _is_empty(target):
                os.rename(beside, target)
            else:
                # Unlike a rename, a link never replaces a file that has come meanwhile.
                os.link(beside, target)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return target


def _check(target: Path, force: bool) -> None:
    """Refuses what is not to be replaced."""
    if target.is_symlink():
        why = "this is a link, not an ordinary file, and corehop does not follow it: use another name"
    elif target.exists() and not target.is_file():
        why = "this is not an ordinary file, and would be replaced by one: use another name"
    elif target.exists() and not force and not _is_empty(target):
        why = "this file exists: name another, or overwrite it with force=True"
    elif not target.parent.is_dir():
        why = "its folder does not exist"
    else:
        return
    raise _errors.Usage(f"{target}: {why}")


def _is_empty(target: Path) -> bool:
    return target.is_file() and not target.is_symlink() and target.stat().st_size == 0


def say(text: str) -> None:
    """Says text on standard error. Where standard error takes no text, the text is lost and nothing else."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
