# SPDX-License-Identifier: MIT OR Apache-2.0
"""Summaries: the numbers of `corehop report`, and a slow twin for some of them."""

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest

import corehop

DATA = Path(__file__).parent / "data"


def reported(form: str, file: str = "quick.parquet") -> str:
    command = [corehop.binary(), "report", DATA / file, "--table", form]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def delays_by_cell(result: corehop.Result) -> dict[tuple[str, int, str], list[float]]:
    """The delays of valid samples in microseconds, straight from the raw intervals."""
    names = ("event", "wss_bytes", "page", "valid", "resumed_ns", "warm_ns")
    cells: dict[tuple[str, int, str], list[float]] = {}
    for event, wss, page, valid, resumed, warm in zip(*(result.column(name) for name in names)):
        if valid:
            cells.setdefault((event, wss, page), []).append((resumed - warm) / 1e3)
    return cells


def test_the_statistics_are_those_of_a_slow_twin(quick: corehop.Result) -> None:
    twin = delays_by_cell(quick)
    rows = list(quick.summary())
    assert len(rows) == len(twin)
    for row in rows:
        delays = twin[row["event"], row["wss_bytes"], row["page"]]
        assert row["n"] == len(delays)
        assert row["max_us"] == max(delays)
        assert row["min_us"] == min(delays)
        assert row["avg_us"] == pytest.approx(statistics.mean(delays))
        assert row["std_us"] == pytest.approx(statistics.stdev(delays))
        assert row["p50_us"] == pytest.approx(statistics.median(delays))
        assert row["p50_low_us"] is None or row["p50_low_us"] <= row["p50_us"] <= row["p50_high_us"]
        assert row["avg_low_us"] is None or row["avg_low_us"] <= row["avg_us"] <= row["avg_high_us"]


def test_the_program_reports_the_same_table(quick: corehop.Result) -> None:
    assert quick.summary().csv() == reported("csv")
    assert quick.summary().cells == json.loads(reported("json"))
    # The program begins with the answer in one sentence, and folds what is longer than its page.
    head, table = str(quick.summary()).split("\n", 1)
    said = reported("text")
    assert table in said and " ".join(head.split()) in " ".join(said.split())


def test_the_columns_have_the_numbers_of_the_table(quick: corehop.Result) -> None:
    by_statistic: dict[tuple[str, float, str], float] = {}
    for line in quick.summary().csv().splitlines()[1:]:
        *_, event, _, _, statistic, wss, value = line.split(",")
        by_statistic[event, float(wss), statistic] = float(value)
    for row in quick.summary():
        for statistic in ("max", "avg", "std", "p50", "p50_low", "avg_high", "n", "n_all"):
            column = statistic if statistic.startswith("n") else f"{statistic}_us"
            printed = by_statistic.get((row["event"], row["wss_bytes"] / 1024, statistic))
            assert row[column] == (printed and pytest.approx(printed, abs=1e-6)), (row, statistic)


def test_a_summary_is_an_arrow_table_too(quick: corehop.Result) -> None:
    summary = quick.summary()
    frame = polars.DataFrame(summary)
    assert frame.height == len(summary) == len(summary.cells)
    assert frame.columns == summary.columns
    assert pyarrow.table(summary).to_pydict() == summary.to_dict()
    # A column without values has its type all the same.
    assert frame.schema["extra_misses"] == polars.Float64
    assert frame.schema["polluter"] == polars.String


def test_a_quantile_that_the_samples_do_not_carry_is_absent(quick: corehop.Result) -> None:
    assert all(n < 1000 for n in quick.summary().column("n"))
    assert set(quick.summary().column("p999_us")) == {None}


def test_another_estimator_gives_other_delays(quick: corehop.Result) -> None:
    bound = quick.summary("cold_bound")
    assert set(bound.column("estimator")) == {"cold_bound"}
    assert bound.column("p50_us") == bound.column("cold_bound_us")
    with pytest.raises(corehop.Usage, match="`guess` is not an estimator; use one of: difference"):
        quick.summary("guess")


def test_delays_are_resumed_less_warm_beside_all_columns(quick: corehop.Result) -> None:
    table = quick.delays()
    assert table.columns == [*quick.columns, "delay_ns"]
    raw = zip(quick.column("resumed_ns"), quick.column("warm_ns"))
    assert table.column("delay_ns") == pytest.approx([after - before for after, before in raw])
    uncertain = quick.delays("cold_bound").column("delay_ns")
    assert [delay is None for delay in uncertain] == [not ok for ok in quick.column("cold_valid")]


def test_access_times_have_a_curve(access: corehop.Result) -> None:
    twin: dict[tuple[int, str], list[float]] = {}
    names = ("wss_bytes", "cache_state", "valid", "access_ns")
    for wss, state, valid, nanos in zip(*(access.column(name) for name in names)):
        if valid:
            twin.setdefault((wss, state), []).append(nanos)
    for row in access.summary():
        walks = twin.get((row["wss_bytes"], row["cache_state"]), [])
        assert row["n"] == len(walks)
        assert row["p50_ns"] == (pytest.approx(statistics.median(walks)) if walks else None)
    with pytest.raises(corehop.Usage, match="no delay"):
        access.delays()
    with pytest.raises(corehop.Usage, match="none of"):
        access.summary().csv()


def test_preemption_lengths_have_an_excess(lengths: corehop.Result) -> None:
    got: dict[float, list[float]] = {}
    for asked, length in zip(lengths.column("requested_length_ns"), lengths.column("length_ns")):
        got.setdefault(asked / 1e3, []).append(length / 1e3)
    rows: list[dict[str, Any]] = list(lengths.summary())
    assert [row["requested_us"] for row in rows] == sorted(got)
    for row in rows:
        assert row["p50_us"] == pytest.approx(statistics.median(got[row["requested_us"]]))
        assert row["excess_max_us"] == pytest.approx(max(got[row["requested_us"]]) - row["requested_us"])


def test_a_notebook_shows_a_table_with_every_event_and_size(quick: corehop.Result) -> None:
    page = quick._repr_html_()
    for word in ("<table>", "<th>flush</th>", "<td>64 KiB</td>", "synthetic", "95 % interval"):
        assert word in page
    assert page.count("<td>4 KiB</td>") == page.count("<table>")
    for row in quick.summary():
        # The file is of before there were replicates: one replicate has no interval.
        assert (row["replicates"], row["p50_low_us"], row["p50_high_us"]) == (1, None, None)
        cell = f"{row['p50_us']:.3g}, {row['max_us']:.3g} ({row['n']} of {row['n_all']})"
        assert f"<td>{cell}</td>" in page


def test_other_kinds_show_their_table(access: corehop.Result, lengths: corehop.Result) -> None:
    assert "<th>p50_ns</th>" in access._repr_html_()
    assert "<th>excess_p50_us</th>" in lengths._repr_html_()
    assert str(access.summary()) == repr(access.summary())


def test_a_run_of_conditions_says_what_makes_its_spread() -> None:
    cell = {"wss": "96KiB", "event": "preemption", "length": "30us", "load": "idle", "preemptor": "64KiB"}
    result = corehop.measure("conditions", on="xeon_x5650", replicates=48, samples=48, **cell)
    (spread,) = result.conditions()
    assert spread["steps"] == 48
    assert sum(share["share"] for _, share in spread["parts"]) == pytest.approx(1)
    assert {"renewed": "frames"} in [part for part, _ in spread["parts"]]


def test_other_experiments_have_no_spread_of_that_kind(quick: corehop.Result) -> None:
    assert quick.conditions() == []
