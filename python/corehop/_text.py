# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers as people read them, in tables and on axes."""

from __future__ import annotations


def short(value: object) -> str:
    """A number with three digits; nothing for None.

    >>> short(0.012345), short(72.04), short("none"), short(None)
    ('0.0123', '72', 'none', '')
    """
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def size(number: int) -> str:
    """A number of bytes with the largest unit that divides it.

    >>> size(65536), size(3 << 20), size(100)
    ('64 KiB', '3 MiB', '100 B')
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor and number % factor == 0:
            return f"{number // factor} {unit}"
    return f"{number} B"
