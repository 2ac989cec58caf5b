# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options of measure, and the experiments that run on this host only."""

import os
import subprocess
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import corehop
from corehop._options import Options


@pytest.mark.parametrize("name", ["pattern", "page", "load", "mover", "placement", "transfer"])
def test_the_words_of_an_option_are_those_that_the_program_takes(name: str) -> None:
    hint = get_type_hints(Options)[name]
    words = next(get_args(part) for part in get_args(hint) if get_origin(part) is Literal)
    wrong = subprocess.run(
        [corehop.binary(), "measure", "synthetic", f"--{name}=nonsense", "--dry-run"],
        capture_output=True,
        text=True,
    )
    assert wrong.returncode == 2
    assert all(str(word) in wrong.stderr for word in words), wrong.stderr


def test_a_program_is_recorded_and_its_rows_are_read() -> None:
    try:
        result = corehop.measure("program", command=["sh", "-c", "echo said; exit 0"])
    except corehop.NotPossible as error:
        pytest.skip(str(error))
    assert result.kind == "absences"
    assert result.provenance["machine"]["recording"]["status"] == 0


def test_overheads_are_measured_and_their_times_are_read() -> None:
    result = corehop.measure("overheads", no_bpf=True, cpus=[0])
    assert result.kind == "overheads"
    assert len(result) > 100


def test_the_supply_is_measured_and_a_set_is_checked_on_it(tmp_path: Path) -> None:
    path = tmp_path / "supply.parquet"
    result = corehop.measure("supply", samples=40, quiet=True, output=path)
    assert result.kind == "supply"
    assert set(result.summary().columns) >= {"cpu", "gaps", "lost_percent"}
    tasks = [corehop.Task(wcet_us=100, period_us=20_000)]
    answer = corehop.check(tasks, "p-fp-rta", cpus=1, supply=path)
    assert answer["supply"]["windows"] >= 40
    # A host that supplies too little has no bound.
    bounds = answer.get("bounds_us")
    assert bounds is None or bounds[0] >= 100
    stated = tmp_path / "supply.json"
    stated.write_text('{"cpus": "0", "period_us": 1000, "budget_us": 800}')
    assert corehop.check(tasks, "p-fp-rta", cpus=1, supply=stated)["bounds_us"] == [500]
    stated.write_text('{"cpus": "0", "period_us": 1000, "budget_us": 8000}')
    with pytest.raises(corehop.Damaged, match="budget_us"):
        corehop.check(tasks, "p-fp-rta", cpus=1, supply=stated)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a core switch needs two CPUs")
def test_core_switches_are_measured_and_their_batches_are_read() -> None:
    options = {"mechanism": ["v2", "v4"], "call": "gettid", "samples": 6, "batch": 50}
    result = corehop.measure("core-switch", **options)
    assert result.kind == "switches"
    assert set(result.column("mechanism")) == {"none", "v2", "v4"}
    assert all(ns > 0 for ns in result.column("mean_ns"))
