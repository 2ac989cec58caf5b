# SPDX-License-Identifier: MIT OR Apache-2.0
"""Logs of a placer: what was seen and tried."""

from pathlib import Path
from typing import cast

import pytest

import corehop

LOG = Path(__file__).parent / "data" / "placement.jsonl"


def loaded(path: Path) -> corehop.Placement:
    placement = corehop.load(path)
    assert isinstance(placement, corehop.Placement)
    return cast("corehop.Placement", placement)


def test_a_log_has_its_ties_trials_and_rates() -> None:
    log = loaded(LOG)
    assert log.complete
    [tie] = log.ties
    assert {tie["a"], tie["b"]} <= set(log.names)
    assert tie["per_second"] >= tie["at_least"] > 0
    assert log.trials
    for trial in log.trials:
        assert trial["kept"] == (trial["verdict"] == "better")
    assert len(log.rates) == log.answer["windows"]
    assert any(rate["placed"] for rate in log.rates)
    assert "wake-ups/s" in str(log)


def test_a_log_that_was_torn_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    text = LOG.read_bytes()
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(text[: len(text) * 2 // 3])
    log = loaded(torn)
    assert not log.complete
    assert 0 < len(log.rates) < len(loaded(LOG).rates)
    assert "torn" in repr(log)


def test_the_page_of_a_log_has_its_graph(tmp_path: Path) -> None:
    page = loaded(LOG).save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "Threads that belong together" in page


def test_a_damaged_log_is_refused_with_its_line(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.jsonl"
    lines = LOG.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2][:50]
    damaged.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(corehop.Damaged, match="line 3"):
        corehop.load(damaged)
