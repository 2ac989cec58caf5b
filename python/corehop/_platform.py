# SPDX-License-Identifier: MIT OR Apache-2.0
"""Platforms: descriptions of machines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corehop import _binary, _corehop, _files
from corehop._errors import Usage


class Platform:
    """A machine: its CPUs, caches, who shares them; each fact with its source.

    Example:
        >>> xeon = corehop.platform("xeon_l7455")
        >>> xeon.affinity(0, 1), xeon.affinity(0, 2), xeon.affinity(0, 6)
        ('l2_migration', 'l3_migration', 'memory_migration')
        >>> xeon.classes()["l2_migration"]
        (0, 1)
        >>> xeon.missing_classes()
        {'smt_migration': 'no two CPUs share a core'}
    """

    _platform: _corehop.Platform

    def __init__(self, toml: str) -> None:
        """The platform in a text of the form that platform files have.

        Raises:
            Damaged: names the line and the fact that is malformed, unknown, or contradicts another.
        """
        self._platform = _corehop.Platform.from_toml(toml)

    @classmethod
    def _of(cls, platform: _corehop.Platform) -> Platform:
        made = cls.__new__(cls)
        made._platform = platform
        return made

    @staticmethod
    def names() -> list[str]:
        """The ids of the platforms that come with the package."""
        return _corehop.Platform.names()

    @property
    def id(self) -> str:
        """The name in options, tables and file names."""
        return self._platform.id

    @property
    def name(self) -> str:
        """The readable name."""
        return self._platform.name

    @property
    def cpus(self) -> list[int]:
        """The usable CPUs: online, and allowed for this process."""
        return self._platform.cpus

    @property
    def memory_architecture(self) -> str:
        """`uma`, `numa` or `single_socket`."""
        return self._platform.memory_architecture

    def affinity(self, a: int, b: int) -> str:
        """The event of resuming on the CPU `b` for a job that left the CPU `a`.

        Raises:
            Usage: the platform has no such CPU.
        """
        return self._platform.affinity(a, b)

    def classes(self) -> dict[str, tuple[int, int]]:
        """The first pair of usable CPUs in each class that has one, nearest class first."""
        return dict(self._platform.pairs())

    def classes_from(self, cpu: int) -> dict[str, list[int]]:
        """The usable CPUs by what resuming there is to a job that left `cpu`.

        Raises:
            Usage: the platform has no such CPU.
        """
        return dict(self._platform.classes_from(cpu))

    def missing_classes(self) -> dict[str, str]:
        """The classes without a pair of usable CPUs, each with the reason."""
        return dict(self._platform.missing_classes())

    def to_dict(self) -> dict[str, Any]:
        """Every fact, as plain data."""
        facts: dict[str, Any] = json.loads(self._platform.json())
        return facts

    def to_toml(self) -> str:
        """The text of a platform file."""
        return self._platform.to_toml()

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Writes a platform file, and gives its path; over an existing file only with `force`."""
        return _files.write(path, self.to_toml(), force=force)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Platform) and self.to_toml() == other.to_toml()

    def __hash__(self) -> int:
        return hash(self.to_toml())

    def __repr__(self) -> str:
        return f"<corehop.Platform {self.id}: {self.name}, {len(self.cpus)} usable CPUs>"

    def __str__(self) -> str:
        return self._platform.text()

    def _repr_svg_(self) -> str:
        return self._platform.svg()


def platform(which: str | os.PathLike[str] = "live", *, measure: bool = False) -> Platform:
    """Returns this machine, a platform by its id, or a platform from a file.

    Args:
        which: `live`, an id of `Platform.names()`, or a path: what ends in `.toml`, or has a
            slash. The program looks at the live machine.
        measure: Whether the live machine's latencies are measured (half a minute), and what it
            states of itself is checked.

    Raises:
        Usage: there is no such platform, or one that is not live is to be measured.
        Damaged: the file is invalid; the sentence names the line and the fact.
        FileNotFoundError: there is no such file.

    Example:
        >>> corehop.platform("xeon_x5650").memory_architecture
        'numa'
        >>> corehop.platform().cpus                                             # doctest: +SKIP
        [0, 1]
    """
    if which == "live":
        return Platform._of(_live(measure))
    if measure:
        raise Usage(f"`{which}` cannot be measured from here: only the live machine can")
    if isinstance(which, str) and not which.endswith(".toml") and "/" not in which:
        return Platform._of(_corehop.Platform.named(which))
    return Platform._of(_corehop.Platform.read(Path(which)))


def _live(measure: bool) -> _corehop.Platform:
    """This machine, as the program finds it."""
    with TemporaryDirectory(prefix="corehop-") as scratch:
        file = Path(scratch, "live.toml")
        _binary.run([*(["measure"] if measure else ["sim"]), "platform", f"--output={file}"])
        return _corehop.Platform.read(file)
