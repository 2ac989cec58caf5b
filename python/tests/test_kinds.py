# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of every kind: read, summed up, and told in one sentence."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

import corehop

DATA = Path(__file__).parents[2] / "data"

SENTENCE = "2 of 3 calls that qualify were made on CPU 1, by v5."
#: An answer of `corehop offload -o`.
ANSWER: dict[str, Any] = {
    "schema": "corehop-offload",
    "version": 1,
    "program": ["server"],
    "os_cores": "1",
    "mechanism": "v5",
    "by_call": [{"call": "read", "calls": 3, "offloaded": 2, "here_ns": 120.5}],
    "sentences": [SENTENCE, "The kernel counted 3 calls."],
}


def off_load(path: Path) -> corehop.OffLoad:
    answer = corehop.load(path)
    assert isinstance(answer, corehop.OffLoad)
    return cast("corehop.OffLoad", answer)


def test_an_answer_of_offload_has_its_sentence_its_rows_and_a_page(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(ANSWER), encoding="utf-8")
    answer = off_load(path)
    assert answer.sentence == SENTENCE
    assert answer.rows == ANSWER["by_call"]
    assert answer.answer["mechanism"] == "v5"
    assert str(answer).startswith(answer.sentence) and "120.50" in str(answer)
    page = answer.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert answer.sentence in page


def test_an_answer_of_a_later_version_or_a_torn_one_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({**ANSWER, "version": 9}), encoding="utf-8")
    with pytest.raises(corehop.Damaged, match="version 9"):
        corehop.load(path)
    path.write_text(json.dumps(ANSWER)[:200], encoding="utf-8")
    with pytest.raises(corehop.Damaged, match="offload"):
        corehop.load(path)


def test_core_switches_have_a_summary_and_a_sentence() -> None:
    result = corehop.load(DATA / "2026-11-24-guest-2cpu" / "switches.parquet")
    assert result.kind == "switches"
    assert result.sentence.endswith(".") and "switches.parquet holds" in result.sentence
    summary = result.summary()
    assert len(summary) > 5
    assert "mechanism" in summary.columns
    assert summary.cells[0]["mechanism"]
    assert "<table" in result._repr_html_()


def test_samples_give_the_sentence_of_the_report(quick: corehop.Result) -> None:
    assert quick.sentence.endswith(".")
    assert str(quick).startswith(quick.sentence)


@pytest.mark.parametrize(
    "experiment",
    ["access-time", "core-switch", "polluter-sweep"],
)
def test_no_kind_of_simulated_rows_is_refused(experiment: str, tmp_path: Path) -> None:
    result = corehop.measure(experiment, on="xeon_x5650", budget="5s", output=tmp_path / "run.parquet")
    again = corehop.load(tmp_path / "run.parquet")
    assert len(again) == len(result) > 0
    assert again.sentence.endswith(".")
    assert again.summary() is not None
    assert isinstance(again._repr_html_(), str)


def test_the_counts_of_a_study_are_loaded_like_any_other_file(tmp_path: Path) -> None:
    study = corehop.study(Path(__file__).parents[2] / "studies" / "bastoni-fig5", sets=2)
    path = study.save(tmp_path / "counts.parquet")
    counts = corehop.load(path)
    assert isinstance(counts, corehop.StudyResult)


def test_a_foreign_file_is_refused_by_its_format(tmp_path: Path) -> None:
    path = tmp_path / "set.xml"
    path.write_text("<?xml version='1.0'?><set/>", encoding="utf-8")
    with pytest.raises(corehop.Damaged, match="this is XML"):
        corehop.load(path)
