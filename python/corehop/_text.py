# SPDX-License-Identifier: MIT OR Apache-2.0
"""Numbers as people read them, in tables and on axes."""

from __future__ import annotations


def short(value: object) -> str:
    """A number with three significant digits; nothing for None.

    >>> short(0.012345), short(72.04), short(25488.0), short("none"), short(None)
    ('0.0123', '72', '25500', 'none', '')
    """
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    digits = f"{value:.3g}"
    # An exponent is for numbers that no column has room for.
    return f"{float(digits):.0f}" if 1000 <= abs(value) < 1e12 else digits


def size(number: int) -> str:
    """A number of bytes with the largest unit that divides it.

    >>> size(65536), size(3 << 20), size(100)
    ('64 KiB', '3 MiB', '100 B')
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor and number % factor == 0:
            return f"{number // factor} {unit}"
    return f"{number} B"
