# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables of other libraries, as rows."""

from __future__ import annotations

import json
from typing import Any, Protocol, runtime_checkable

from corehop import _corehop


@runtime_checkable
class ArrowTable(Protocol):
    """A table that speaks Arrow's PyCapsule interface: of pyarrow, polars, pandas."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def rows(table: ArrowTable) -> list[dict[str, Any]]:
    """Its rows, what is null left out."""
    found: list[dict[str, Any]] = json.loads(_corehop.rows_json(table))
    return found
