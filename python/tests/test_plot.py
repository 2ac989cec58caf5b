# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drawings: what is on the axes, as data."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes

import corehop
from corehop import _plot

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def labels(axes: Axes) -> list[str]:
    return axes.get_legend_handles_labels()[1]


def test_cost_is_drawn_against_size_with_a_curve_for_each_event(quick: corehop.Result) -> None:
    axes = quick.plot()
    assert [label.split(",")[0] for label in labels(axes)] == list(dict.fromkeys(quick.summary().column("event")))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4 KiB", "64 KiB"]
    drawn = dict(zip(labels(axes), axes.containers))
    flush = next(container for label, container in drawn.items() if label.startswith("flush"))
    cells = [row for row in quick.summary() if row["event"] == "flush"]
    assert list(flush.lines[0].get_ydata()) == [row["p50_us"] for row in cells]
    dashes = [list(line.get_ydata()) for line in axes.lines if line.get_marker() == "_"]
    assert [row["max_us"] for row in cells] in dashes


def test_delays_are_drawn_against_preemption_lengths(quick: corehop.Result) -> None:
    axes = quick.plot("length")
    assert any(label.startswith("preemption") for label in labels(axes))
    assert not any(label.startswith(("none", "flush")) for label in labels(axes))
    away = [length > 0 for length in quick.column("requested_length_ns")]
    assert sum(len(line.get_xdata()) for line in axes.lines) == sum(away)


def test_each_kind_of_row_has_its_own_drawing(access: corehop.Result, lengths: corehop.Result) -> None:
    axes = access.plot()
    assert "ns" in axes.get_ylabel()
    assert len(axes.containers) == len(set(access.column("cache_state")))
    axes = lengths.plot()
    assert len(axes.lines[0].get_xdata()) == len(lengths)


def test_cells_are_chosen_by_their_columns(quick: corehop.Result, lengths: corehop.Result) -> None:
    assert labels(quick.plot(event="flush")) == ["flush"]
    few = quick.plot(event=["none", "flush"], wss_bytes=65536)
    assert [tick.get_text() for tick in few.get_xticklabels()] == ["64 KiB"]
    cloud = quick.plot("length", event="preemption", wss_bytes=4096)
    assert labels(cloud) == ["preemption", "disturbed"]
    shortest = lengths.plot(requested_length_ns=10_000)
    assert len(shortest.lines[0].get_xdata()) == lengths.column("requested_length_ns").count(10_000) == 8
    with pytest.raises(corehop.Usage, match="event = fluch: nothing has that; there are: .*flush"):
        quick.plot(event="fluch")
    for result in (quick, lengths):
        with pytest.raises(corehop.Usage, match="`colour` is not a column to choose by; there are: "):
            result.plot(colour="red")


def test_curves_of_one_event_have_one_colour_and_a_label_says_what_differs() -> None:
    rows: list[dict[str, Any]] = [
        {"event": "flush", "load": "idle", "page": "4k", "wss_bytes": 4096},
        {"event": "flush", "load": "idle", "page": "thp", "wss_bytes": 4096},
        {"event": "none", "load": "idle", "page": "4k", "wss_bytes": 4096},
    ]
    drawn = list(_plot._series(rows, "event", ["load", "page"]))
    assert [label for label, _, _ in drawn] == ["flush, 4k", "flush, thp", "none"]
    first, second, other = (style for _, style, _ in drawn)
    assert first["color"] == second["color"] != other["color"]
    assert first["marker"] != second["marker"]


def test_the_label_of_an_absence_says_its_length_and_company_where_others_differ() -> None:
    away = {"preemption_length": "fixed_4ms", "wss_bytes": 4096}
    rows: list[dict[str, Any]] = [
        {"event": "none", "preemption_length": "none", "preempted_by": "nothing", "wss_bytes": 4096},
        {"event": "preemption", **away, "preempted_by": "preemptor"},
        {"event": "l3_migration", **away, "preempted_by": "nothing"},
    ]
    drawn = [label for label, _, _ in _plot._series(rows, "event", _plot._CELL)]
    assert drawn == ["none", "preemption, a preemptor ran", "l3_migration, nothing ran"]
    alike = [label for label, _, _ in _plot._series([rows[0], rows[2]], "event", _plot._CELL)]
    assert alike == ["none", "l3_migration"]


def test_the_picture_of_the_readme_is_drawn_as_documented_and_names_the_company_of_each_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "docs/images").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    about = (ROOT / "data/2026-11-22-guest-2cpu/README.md").read_text(encoding="utf-8")
    code = "\n".join(line[4:] for line in about.partition("The README's picture")[2].splitlines() if line.startswith("    "))
    with plt.rc_context():
        exec(code, known := {})
    texts = [
        re.findall(r"<text[^>]*>([^<]*)", (folder / "docs/images/delay-by-wss.svg").read_text(encoding="utf-8"))
        for folder in (ROOT, tmp_path)
    ]
    assert texts[0] == texts[1] and "l3_migration, nothing ran" in texts[0]
    where = known["where"]
    cells = _plot._chosen(list(known["result"].summary()), where)
    company = {(row["event"], row["preempted_by"]) for row in cells}
    assert company == {("idle_leave", "nothing"), ("preemption", "preemptor"), ("l3_migration", "nothing")}
    assert {(row["preemption_length"], row["load"], row["page"]) for row in cells} == {("fixed_4ms", "idle", "4k")}


def test_it_draws_where_it_is_told_to_and_as_vectors(quick: corehop.Result, tmp_path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    assert quick.plot(ax=left) is left
    assert quick.plot("length", ax=right) is right
    for name in ("figure.pdf", "figure.svg"):
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def test_rows_are_not_drawn_as_what_they_are_not(quick: corehop.Result, access: corehop.Result) -> None:
    with pytest.raises(corehop.Usage, match="`access`: rows of synthetic are drawn as `wss` or `length`"):
        quick.plot("access")
    with pytest.raises(corehop.Usage, match="drawn as `access`"):
        access.plot("wss")


def test_matplotlib_is_imported_only_to_draw() -> None:
    heavy = "matplotlib", "numpy", "polars", "pyarrow", "pandas"
    code = f"import corehop, sys; print([name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-Pc", code], check=True, capture_output=True, text=True)
    assert loaded.stdout == "[]\n"


def test_rows_without_a_drawing_are_refused_with_their_kind() -> None:
    data = Path(__file__).parents[2] / "data"
    switches = corehop.load(data / "2026-11-24-guest-2cpu" / "switches.parquet")
    with pytest.raises(corehop.Usage, match="switches.*have no drawing"):
        switches.plot()
