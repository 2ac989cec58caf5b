# SPDX-License-Identifier: MIT OR Apache-2.0
"""Results compared from Python, as the program compares them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import corehop

DATA = Path(__file__).parent / "data"
QUICK = DATA / "quick.parquet"


def test_python_and_the_program_compare_alike() -> None:
    answer = corehop.compare(QUICK, QUICK, margin=0.1)
    told = subprocess.run(
        [corehop.binary(), "compare", QUICK, QUICK, "--margin", "10%", "--json"],
        capture_output=True,
        check=False,
        text=True,
    )
    facts = json.loads(told.stdout)
    assert facts.pop("sentence") in told.stderr.replace("\n", " ")
    assert answer == facts


def test_the_gate_knows_the_outcomes_to_fail_on() -> None:
    lenient = corehop.compare(QUICK, QUICK, fail_on=())
    strict = corehop.compare(QUICK, QUICK, fail_on=("slower", "unknown"), least="2us")
    assert lenient["gate"] == "passes"
    assert isinstance(strict["gate"], str)


def test_folders_are_compared_file_by_file(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        shutil.copy(QUICK, folder)
    assert corehop.compare(*folders)["answer"]
    with pytest.raises(corehop.Usage, match="compare two folders or two files"):
        corehop.compare(folders[0], QUICK)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(corehop.Usage, match="only a recording with arms, or an export of hyperfine"):
        corehop.compare(QUICK)
    with pytest.raises(corehop.Usage, match="an outcome to fail on"):
        corehop.compare(QUICK, QUICK, fail_on=("quicker",))
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(QUICK.read_bytes()[:200])
    with pytest.raises(corehop.Damaged, match="torn.parquet"):
        corehop.compare(QUICK, torn)


def test_doubts_about_one_pair_of_files_are_not_told_of_the_next() -> None:
    first = corehop.compare(QUICK, QUICK)
    assert corehop.compare(QUICK, QUICK) == first
