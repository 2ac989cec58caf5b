# SPDX-License-Identifier: MIT OR Apache-2.0
"""Results and summaries in a notebook. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from corehop import _tables
from corehop._text import short, size

if TYPE_CHECKING:
    from corehop._result import Result, Summary

#: What tells the tables of delays apart; within one, sizes are rows and events are columns.
_PANEL = ("machine", "load", "pattern", "page", "write_ratio", "chains", "cache_state")


def result(result: Result) -> str:
    """Its sentence and a line on the run, then its summary."""
    facts = result.provenance
    words = [
        f"<b>{escape(result.experiment)}</b>",
        f"{len(result)} rows",
        f"seed {result.seed}",
        escape(str(facts["date"])),
        escape(f"corehop {facts['corehop']}"),
    ]
    if result.stopped_by:
        words.append(f"<b>stopped by {escape(result.stopped_by)}</b>")
    if result.truncated:
        words.append("<b>torn off</b>")
    words.extend(f"<b>{escape(doubt)}</b>" for doubt in result.doubts)
    said = f"<p>{escape(result.sentence)}</p>"
    return f"{said}<p>{' · '.join(words)}</p>" + summary(result.summary())


def answer(sentence: str, rows: list[dict[str, Any]], paste: Sequence[str] = ()) -> str:
    """A sentence, the rows below it, and the lines to paste."""
    names = _tables.plain(rows)
    table = _table(names, [[short(row.get(name)) for name in names] for row in rows]) if rows else ""
    pasted = f"<pre>{escape(chr(10).join(paste))}</pre>" if paste else ""
    return f"<p><b>{escape(sentence)}</b></p>{table}{pasted}"


def summary(summary: Summary) -> str:
    """Tables of delays by size and event; of other kinds, the table as it is."""
    rows = list(summary)
    if not rows:
        return ""
    if not {"event", "wss_bytes"} <= set(summary.columns):
        return _table(summary.columns, [[short(value) for value in row.values()] for row in rows])
    caption = "<p>delay in µs: median [95 % interval], greatest (n valid of all)</p>"
    return caption + "".join(_panel(rows, panel) for panel in _distinct(rows, _PANEL))


def _panel(rows: list[dict[str, Any]], panel: tuple[Any, ...]) -> str:
    """One table: what its cells have in common above it."""
    mine = [row for row in rows if tuple(row[name] for name in _PANEL) == panel]
    columns = _distinct(mine, ("event", "preemption_length", "preempted_by", "polluter", "mover"))
    sizes = sorted({row["wss_bytes"] for row in mine})
    body = [[size(wss), *(_cell(mine, wss, column) for column in columns)] for wss in sizes]
    title = " · ".join(f"{name} {short(value)}" for name, value in zip(_PANEL, panel))
    head = ["WSS", *(_heading(column) for column in columns)]
    return f"<p>{escape(title)}</p>" + _table(head, body)


def _heading(column: tuple[Any, ...]) -> str:
    event, length, by, *_ = column
    return event if length in ("none", "fixed_0ns") else f"{event}, {length}, {by}"


def _cell(rows: list[dict[str, Any]], wss: int, column: tuple[Any, ...]) -> str:
    names = ("wss_bytes", "event", "preemption_length", "preempted_by", "polluter", "mover")
    for row in rows:
        if tuple(row[name] for name in names) == (wss, *column):
            return _statistics(row)
    return ""


def _statistics(row: dict[str, Any]) -> str:
    count = f"({row['n']} of {row['n_all']})"
    if row["p50_us"] is None:
        return count
    ends = [row["p50_low_us"], row["p50_high_us"]]
    interval = "" if None in ends else f" [{short(ends[0])}, {short(ends[1])}]"
    return f"{short(row['p50_us'])}{interval}, {short(row['max_us'])} {count}"


def _distinct(rows: list[dict[str, Any]], names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The combinations of values that occur, in order of appearance."""
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))


def _table(head: list[str], body: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    lines = [line(head, "th"), *(line(row, "td") for row in body)]
    return f"<table>{''.join(lines)}</table>"
