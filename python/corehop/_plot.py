# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drawings with matplotlib, which is imported only when one is asked for. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from corehop._errors import Usage
from corehop._text import short, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from corehop._result import Result

Row: TypeAlias = dict[str, Any]

#: What each kind of row is drawn as, if nothing else is asked for, and what else it can be drawn as.
_KINDS: dict[str, tuple[str, ...]] = {
    "samples": ("wss", "length"),
    "access_time": ("access",),
    "preemption_length": ("length",),
}

#: One colour for each event and state of a line, in every drawing, so that drawings can be compared.
_COLOURS = {
    "none": "C7",
    "idle_leave": "C8",
    "flush": "C3",
    "preemption": "C0",
    "smt_migration": "C4",
    "l2_migration": "C2",
    "l3_migration": "C1",
    "memory_migration": "C5",
    "valid": "C0",
    "invalid": "C3",
    "modified": "C1",
}

#: What an absence was like: costs are comparable only where all of it is the same.
_ABSENCE = ("preemption_length", "preempted_by")

#: What tells series of one colour apart.
_MARKERS = "os^Dv<>Ph*"
_LINES = ("-", "--", ":", "-.")

#: What may tell two curves apart beside the event, in the order in which a legend says it.
_CELL = (
    "load",
    "preemption_length",
    "preempted_by",
    "pattern",
    "page",
    "write_ratio",
    "chains",
    "node",
    "polluter",
    "mover",
    "machine",
)


def draw(
    result: Result, kind: str | None, ax: Axes | None, estimator: str, where: Mapping[str, object]
) -> Axes:
    """Draws what `where` chooses of `result` on `ax`, or on a new figure."""
    kinds = _KINDS.get(result.kind)
    if kinds is None:
        raise Usage(f"rows of {result.experiment} (`{result.kind}`) have no drawing: `summary()` has them as a table")
    if kind not in (None, *kinds):
        known = " or ".join(f"`{known}`" for known in kinds)
        raise Usage(f"`{kind}`: rows of {result.experiment} are drawn as {known}")
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
    match result.kind, kind or kinds[0]:
        case "samples", "wss":
            _delay_by_size(result, ax, estimator, where)
        case "samples", _:
            _delay_by_length(result, ax, estimator, where)
        case "access_time", _:
            _access(result, ax, where)
        case _:
            _lengths(result, ax, where)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax


def _delay_by_size(result: Result, ax: Axes, estimator: str, where: Mapping[str, object]) -> None:
    """Median with interval against size, the greatest as a mark above.

    The axes are logarithmic: a delay of nothing or less, as controls have them, has no place there.
    """
    rows = _chosen(list(result.summary(estimator)), where)
    rows = [row for row in rows if row["p50_us"] is not None]
    for label, style, series in _series(rows, "event", _CELL):
        _curve(ax, series, "p50_us", label, style)
        above = [row for row in series if row["max_us"] > 0]
        greatest = [row["max_us"] for row in above]
        ax.plot([row["wss_bytes"] for row in above], greatest, "_", color=style["color"])
    _sizes(ax, [row["wss_bytes"] for row in rows])
    ax.set_yscale("log")
    ax.set_ylabel(f"delay in µs ({estimator}), median and max")


def _access(result: Result, ax: Axes, where: Mapping[str, object]) -> None:
    """Median with interval against size."""
    rows = _chosen(list(result.summary()), where)
    rows = [row for row in rows if row["p50_ns"] is not None]
    for label, style, series in _series(rows, "cache_state", _CELL):
        _curve(ax, series, "p50_ns", label, style)
    _sizes(ax, [row["wss_bytes"] for row in rows])
    ax.set_yscale("log")
    ax.set_ylabel("time of an access in ns, median")


def _delay_by_length(result: Result, ax: Axes, estimator: str, where: Mapping[str, object]) -> None:
    """Every sample that has been away; disturbed ones as grey crosses."""
    table = result.delays(estimator)
    names = table.columns
    rows = [dict(zip(names, row)) for row in zip(*table.to_dict().values())]
    rows = [row for row in _chosen(rows, where) if row["requested_length_ns"] > 0]
    rows = [row for row in rows if row["delay_ns"] is not None]
    valid = [row for row in rows if row["valid"]]
    for label, style, series in _series(valid, "event", ["wss_bytes"]):
        _cloud(ax, series, label=label, color=style["color"], marker=style["marker"])
    lost = [row for row in rows if not row["valid"]]
    if lost:
        _cloud(ax, lost, label="disturbed", color="0.7", marker="x", zorder=0)
    ax.set_xlabel("preemption length in ms")
    ax.set_ylabel(f"delay in µs ({estimator})")


def _cloud(ax: Axes, rows: Sequence[Row], **style: Any) -> None:
    lengths = [row["length_ns"] / 1e6 for row in rows]
    delays = [row["delay_ns"] / 1e3 for row in rows]
    ax.plot(lengths, delays, linestyle="none", markersize=3, alpha=0.6, **style)


def _lengths(result: Result, ax: Axes, where: Mapping[str, object]) -> None:
    """Length got against length asked for: every absence, and where both would be equal."""
    names = ("requested_length_ns", "length_ns", *where)
    columns = (result.column(name) for name in names if name in result.columns)
    rows = _chosen([dict(zip(names, row)) for row in zip(*columns)], where)
    asked = [row["requested_length_ns"] / 1e3 for row in rows]
    got = [row["length_ns"] / 1e3 for row in rows]
    ax.plot(asked, got, ".", alpha=0.6, label="got")
    if asked:
        ends = [min(asked), max(asked)]
        ax.plot(ends, ends, color="0.5", linewidth=1, label="as asked for")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("preemption length asked for in µs")
    ax.set_ylabel("preemption length got in µs")


def _chosen(rows: list[Row], where: Mapping[str, object]) -> list[Row]:
    """The rows that have the values asked for: in each column one, or any of a list."""
    for name, wanted in where.items():
        if rows and name not in rows[0]:
            raise Usage(f"`{name}` is not a column to choose by; there are: {', '.join(rows[0])}")
        values = wanted if isinstance(wanted, list | tuple | set) else [wanted]
        known = dict.fromkeys(str(row[name]) for row in rows)
        rows = [row for row in rows if row[name] in values]
        if known and not rows:
            raise Usage(f"{name} = {wanted}: nothing has that; there are: {', '.join(known)}")
    return rows


def _series(
    rows: Sequence[Row], by: str, names: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any], list[Row]]]:
    """The rows of each series, with its label and its style.

    The value in the column `by` gives the colour. What else tells series apart is in the columns
    `names`; a label says only what differs within its colour, and of an absence also what differs from
    the absences of other colours.
    """
    unlike = {name for name in _ABSENCE if _differs(filter(_is_away, rows), name)}
    for lead in dict.fromkeys(row[by] for row in rows):
        group = [row for row in rows if row[by] == lead]
        here = unlike if any(map(_is_away, group)) else set()
        telling = [name for name in names if name in here or _differs(group, name)]
        series: dict[tuple[Any, ...], list[Row]] = {}
        for row in group:
            series.setdefault(tuple(row[name] for name in telling), []).append(row)
        for at, (key, mine) in enumerate(series.items()):
            style = {
                "color": _COLOURS.get(lead, "C9"),
                "marker": _MARKERS[at % len(_MARKERS)],
                "linestyle": _LINES[at % len(_LINES)],
            }
            words = (_word(name, value) for name, value in zip(telling, key) if value is not None)
            yield ", ".join([lead, *words]), style, mine


def _is_away(row: Row) -> bool:
    """Whether the job left its CPU."""
    return bool(row.get("preemption_length", "none") != "none")


def _differs(rows: Iterable[Row], name: str) -> bool:
    return len({row.get(name) for row in rows}) > 1


def _word(name: str, value: object) -> str:
    if name == "preempted_by":
        return {"nothing": "nothing ran", "preemptor": "a preemptor ran"}.get(str(value), str(value))
    return size(value) if name == "wss_bytes" and isinstance(value, int) else short(value)


def _curve(ax: Axes, rows: Iterable[Row], name: str, label: str, style: Mapping[str, Any]) -> None:
    """A line with intervals; an end that is not known is not drawn."""
    rows = sorted((row for row in rows if row[name] > 0), key=lambda row: row["wss_bytes"])
    low, high = name.replace("_", "_low_"), name.replace("_", "_high_")
    ax.errorbar(
        [row["wss_bytes"] for row in rows],
        [row[name] for row in rows],
        yerr=[[_reach(row, name, end) for row in rows] for end in (low, high)],
        markersize=3,
        capsize=2,
        label=label,
        **style,
    )


def _reach(row: Row, name: str, end: str) -> float:
    return 0.0 if row[end] is None else abs(row[name] - row[end])


def _sizes(ax: Axes, sizes: Iterable[int]) -> None:
    """A logarithmic axis of sizes, named as such."""
    ticks = sorted(set(sizes))
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, [size(tick) for tick in ticks], rotation=45)
    ax.minorticks_off()
    ax.set_xlabel("working-set size")
