# SPDX-License-Identifier: MIT OR Apache-2.0
"""Two results, compared in process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from corehop import _corehop
from corehop._answers import Answer
from corehop._options import Time, word


def compare(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str] | None = None,
    *,
    margin: float = 0.05,
    least: Time | None = None,
    fail_on: Sequence[str] = ("slower",),
    confidence: float = 0.95,
    estimator: str | None = None,
    output: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> Answer:
    """Compares two results, or two folders of results, for example of two kernels, or from before and after a change.

    Args:
        a: The baseline: a file of any experiment, a log of `corehop place -o`, an answer of `corehop offload -o`, or a
            folder of such.
        b: The result to compare with the baseline; default: compare the arms of one recording.
        margin: Ignore differences below this share of the median of A.
        least: Ignore differences below this time, whatever the median of A is, such as `"2us"`; default: 1 us for
            delays, none for other times.
        fail_on: The outcomes that fail the gate: `slower`, `different`, `unknown`.
        confidence: The probability that two equal results show no slower or faster cell.
        estimator: The estimator of delays; default: the difference.
        output: Write a page here: one self-contained HTML file.
        force: Overwrite an existing file.

    Returns:
        The answer of `corehop compare --json`: a mapping with `answer` (the sentence), `gate` (`passes`, or why not),
        and what was compared. `holds` is whether the gate passes; `rows` are the cells.

    Raises:
        Usage: the results cannot be compared, there is no such file, or `output` exists and `force` is not set.
        Damaged: a file is damaged.

    Example:
        >>> from corehop import compare
        >>> answer = compare("quick.parquet", "quick.parquet")
        >>> "slower" in answer["answer"], sorted({"answer", "gate"} & set(answer))
        (True, ['answer', 'gate'])
    """
    ignored = None if least is None else word(least, "Time")
    told = _corehop.compare(a, b, margin, ignored, list(fail_on), confidence, estimator, output, force)
    facts: dict[str, Any] = json.loads(told)
    return Answer(facts["answer"], facts, "cells", facts["gate"] == "passes")
