# SPDX-License-Identifier: MIT OR Apache-2.0
"""Results as tables: columns by name, rows, DataFrames, and what a terminal and a notebook show."""

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import corehop

DATA = Path(__file__).parent / "data"


def test_a_result_has_columns_by_name_and_rows(quick: corehop.Result) -> None:
    assert quick["warm_ns"] == quick.column("warm_ns")
    rows = list(quick)
    assert len(rows) == len(quick) and list(rows[0]) == list(quick.columns)
    assert [row["warm_ns"] for row in rows] == quick["warm_ns"]
    summary = quick.summary()
    assert summary["p50_us"] == [row["p50_us"] for row in summary]
    with pytest.raises(KeyError, match="nonsense"):
        quick["nonsense"]


def test_results_become_data_frames(quick: corehop.Result) -> None:
    for table in (quick, quick.summary()):
        polars, pandas = table.to_polars(), table.to_pandas()
        assert polars.height == len(pandas) == len(table)
        assert polars.columns == list(pandas.columns)
    assert quick.to_polars()["warm_ns"].to_list() == quick["warm_ns"]


def test_a_log_of_placing_is_a_table_of_trials() -> None:
    log = cast("corehop.Placement", corehop.load(DATA / "placement.jsonl"))
    assert list(log) == log.trials and len(log) == len(log.trials) > 0
    assert log["verdict"] == log.to_polars()["verdict"].to_list() == list(log.to_pandas()["verdict"])
    with pytest.raises(KeyError, match="nonsense: the columns are"):
        log["nonsense"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named_with_the_command(library: str) -> None:
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "import corehop\n"
        f"corehop.load({str(DATA / 'quick.parquet')!r}).to_{library}()\n"
    )
    # Not from this folder, whose sources have no extension.
    said = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert said.stderr.endswith(f"ImportError: {library} is not installed: pip install {library}\n")


def test_the_sentence_is_first_in_a_terminal_and_in_a_notebook(quick: corehop.Result) -> None:
    log = corehop.load(DATA / "placement.jsonl")
    for result in (quick, log):
        assert repr(result).startswith(result.sentence)
        assert result._repr_html_().removeprefix("<p>").removeprefix("<b>")[:20] == result.sentence[:20]


def test_numbers_have_three_significant_digits(quick: corehop.Result) -> None:
    numbers = [word for line in repr(quick.summary()).splitlines()[2:] for word in line.split() if "." in word]
    assert numbers
    for number in numbers:
        digits = number.lstrip("-").split("e")[0].replace(".", "").lstrip("0")
        assert len(digits) <= 3, number
