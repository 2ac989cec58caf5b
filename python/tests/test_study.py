# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulability studies from Python: in this process, and in parts on the workers of Dask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars
import pytest
from distributed import Client, LocalCluster

import corehop
from corehop import _corehop, _dask

FIG5 = Path(__file__).parents[2] / "studies/bastoni-fig5"
# Of Dask and its servers, nothing that is ours to repair.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module")
def whole() -> corehop.StudyResult:
    return corehop.study(FIG5, sets=40, progress=False)


def test_a_study_has_its_readings_and_is_a_table(whole: corehop.StudyResult) -> None:
    assert whole.complete and whole.sets == 40
    held = whole.answer["held"]["reading"]
    reading = whole.readings[held]
    assert reading["w"]["g-edf"]["0"] == 1.0
    low, high = reading["interval_us"]
    assert low <= reading["crossover_us"] <= high
    frame = polars.DataFrame(whole)
    cells = frame.filter(quantity="schedulable", reading=held, scheduler="g-edf", delay_us=0)
    assert (cells["sum"] == cells["sets"]).all() and len(cells) == 231


def told(answer: str) -> dict[str, Any]:
    """The facts of an answer of the program, which has its sentence besides."""
    facts: dict[str, Any] = json.loads(answer)
    assert facts.pop("sentence").startswith("g-edf is preferable to p-edf")
    return facts


def test_the_program_and_the_package_count_alike(whole: corehop.StudyResult, tmp_path: Path) -> None:
    file = tmp_path / "whole.parquet"
    arguments = ["check", "study", str(FIG5), "--sets", "40", "--json", "-o", str(file)]
    said = subprocess.run([corehop.binary(), *arguments], check=True, capture_output=True, text=True)
    assert told(said.stdout) == whole.answer
    assert file.read_bytes() == whole.to_bytes()
    assert corehop.load_study(file) == whole


def test_parts_add_up(whole: corehop.StudyResult, tmp_path: Path) -> None:
    files = [corehop.study(FIG5, sets=40, shard=f"{at}/3").save(tmp_path / f"{at}.parquet") for at in range(3)]
    assert corehop.merge_studies(files) == whole
    with pytest.raises(corehop.Usage, match="in common"):
        corehop.merge_studies([*files, files[0]])
    with pytest.raises(corehop.Usage, match="no shards"):
        corehop.merge_studies([])


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(corehop.Damaged, match="sets"):
        corehop.study("id = 'x'\ntitle = 'x'\n")
    with pytest.raises(corehop.Usage, match="sets is 0"):
        corehop.study(FIG5, sets=0)
    with pytest.raises(corehop.Usage, match="4/3"):
        corehop.study(FIG5, shard="4/3")
    with pytest.raises(corehop.Usage, match="shards is 0"):
        corehop.study(FIG5, shards=0)
    with pytest.raises(FileNotFoundError):
        corehop.study(tmp_path / "nowhere.toml")


def test_an_error_of_the_watcher_ends_it() -> None:
    study = _corehop.Study((FIG5 / "study.toml").read_text(), None, 4000)

    def fail(_: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        study.run(None, 2, fail)


def test_workers_started_for_it_count_what_threads_do(whole: corehop.StudyResult, capsys: pytest.CaptureFixture[str]) -> None:
    assert corehop.study(FIG5, sets=40, workers=2, shards=5, progress=True) == whole
    assert "40 of 40 sets" in capsys.readouterr().err


def test_the_command_takes_an_existing_scheduler(whole: corehop.StudyResult, tmp_path: Path) -> None:
    file = tmp_path / "dask.parquet"
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        command = [sys.executable, "-m", "corehop", "study", str(FIG5), "--scheduler", cluster.scheduler_address]
        # Elsewhere: beside the sources `-m corehop` would find those, which have no extension.
        options = ["--sets", "40", "-o", str(file)]
        said = subprocess.run([*command, *options], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert json.loads(said.stdout) == whole.answer
    assert file.read_bytes() == whole.to_bytes()


def test_a_worker_that_is_killed_costs_its_part_only() -> None:
    """A real scheduler, three worker processes, one of them killed while it has a part in hand."""
    sets, shards = 3000, 30
    text = (FIG5 / "study.toml").read_text()
    with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        arrived = []
        for piece in _dask.pieces(text, None, sets, shards, client, None):
            arrived.append(corehop.StudyResult(_corehop.Outcome.from_bytes(piece)))
            if len(arrived) == 4:
                _kill_a_busy_worker(cluster, client)
        completed = client.run_on_scheduler(_completions)
    assert arrived[0].merged(*arrived[1:]) == corehop.study(text, sets=sets)
    # Each part was completed once; twice at most the one that the lost worker had done and not handed in.
    assert len(completed) == shards
    assert sum(completed.values()) <= shards + 1


def _kill_a_busy_worker(cluster: LocalCluster, client: Client) -> None:
    while True:
        busy = {address for address, keys in client.processing().items() if keys}
        for nanny in cluster.workers.values():
            if nanny.worker_address in busy:
                os.kill(nanny.process.process.pid, signal.SIGKILL)
                return
        time.sleep(0.01)


def _completions(dask_scheduler: Any) -> dict[str, int]:
    """The number of completions of each part, by the scheduler's own record."""
    counts: dict[str, int] = {}
    for key, start, finish, *_ in dask_scheduler.transition_log:
        if str(key).startswith("corehop-") and (start, finish) == ("processing", "memory"):
            counts[str(key)] = counts.get(str(key), 0) + 1
    return counts
