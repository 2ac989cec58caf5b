# SPDX-License-Identifier: MIT OR Apache-2.0
"""Dataclasses from the JSON of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def made(kind: type[Record], facts: Mapping[str, Any]) -> Record:
    """A dataclass from a JSON object. A field that the object lacks is None; other fields of the object are ignored."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _value(hints[name], facts.get(name)) for name in names})


def optional(kind: type[Record], facts: Mapping[str, Any] | None) -> Record | None:
    """A dataclass, or None for null."""
    return None if facts is None else made(kind, facts)


def _value(hint: Any, value: Any) -> Any:
    """A value of a field, in which objects are dataclasses where the field's type says so."""
    if value is None:
        return [] if get_origin(hint) is list else None
    inner = [arg for arg in get_args(hint) if arg is not NoneType]
    if isinstance(value, list) and inner:
        return [_value(inner[0], each) for each in value]
    kind = hint if is_dataclass(hint) else next((arg for arg in inner if is_dataclass(arg)), None)
    return made(kind, value) if isinstance(kind, type) and isinstance(value, Mapping) else value
