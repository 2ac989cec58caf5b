# SPDX-License-Identifier: MIT OR Apache-2.0
"""Rows and columns, as Python and its table libraries expect them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from corehop._text import short

if TYPE_CHECKING:
    import polars


def imported(name: str) -> Any:
    """Imports a library that corehop does not require.

    Raises:
        ImportError: the library is not installed; the sentence has the pip command.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        # A module that the library itself lacks has another name, and another remedy.
        if error.name != name:
            raise
        raise ImportError(f"{name} is not installed: pip install {name}", name=name) from error


class ArrowColumns(ABC):
    """Columns and rows of an Arrow table: `table["column"]`, iteration over rows, pandas and polars."""

    @abstractmethod
    def _names(self) -> list[str]:
        """The names of the columns."""

    @abstractmethod
    def column(self, name: str) -> list[Any]:
        """The values of a column, as a list."""

    @abstractmethod
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as an Arrow stream, without a copy."""

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column, as a list.

        Raises:
            KeyError: there is no such column.
        """
        return self.column(name)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, each as a dict."""
        names = self._names()
        return (dict(zip(names, row)) for row in zip(*(self.column(name) for name in names)))

    def to_pandas(self) -> Any:
        """The rows as a DataFrame of pandas.

        Raises:
            ImportError: pandas or pyarrow is not installed.
        """
        imported("pandas")
        return imported("pyarrow").table(self).to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a DataFrame of polars, without a copy.

        Raises:
            ImportError: polars is not installed.
        """
        frame: polars.DataFrame = imported("polars").DataFrame(self)
        return frame


class RowList(ABC):
    """Rows that are dicts: `answer["column"]`, iteration over rows, pandas and polars."""

    @property
    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """The rows, each as a dict."""

    def __getitem__(self, name: str) -> Any:
        """The values of a column, as a list; None where a row lacks the value.

        Raises:
            KeyError: there is no such column.
        """
        rows = self.rows
        if not any(name in row for row in rows):
            raise KeyError(f"{name}: the columns are {', '.join(dict.fromkeys(key for row in rows for key in row))}")
        return [row.get(name) for row in rows]

    def __iter__(self) -> Iterator[Any]:
        """The rows, each as a dict."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def to_pandas(self) -> Any:
        """The rows as a DataFrame of pandas.

        Raises:
            ImportError: pandas is not installed.
        """
        return imported("pandas").DataFrame(self.rows)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a DataFrame of polars.

        Raises:
            ImportError: polars is not installed.
        """
        frame: polars.DataFrame = imported("polars").DataFrame(self.rows, infer_schema_length=None)
        return frame


def text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as a table for a terminal, with three significant digits. Nested values and empty columns are left out,
    and long words are cut.

    >>> print(text([{"arm": "default", "gain": None}, {"arm": "one-cpu", "gain": 0.102345}]))
    arm      gain
    default
    one-cpu  0.102
    """
    names = [name for name in plain(rows) if any(row.get(name) is not None for row in rows)]
    lines = [names, *([_cut(short(row.get(name))) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) for line in lines)
    return "\n".join(line.rstrip() for line in padded)


def _cut(word: str, most: int = 40) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"


def plain(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The names of the columns whose values are numbers, words or nothing, in order of appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    nested = {name for row in rows for name, value in row.items() if isinstance(value, dict | list | tuple)}
    return [name for name in names if name not in nested]
