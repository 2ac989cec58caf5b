# SPDX-License-Identifier: MIT OR Apache-2.0
"""Schedulability of task sets from Python."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest

import corehop
from corehop import Task

TASKS = [
    {"name": "a", "wcet_us": 5, "period_us": 20},
    {"name": "b", "wcet_us": 10, "period_us": 40},
    {"name": "c", "wcet_us": 40, "period_us": 80},
]
SET = {"cpus": 1, "tasks": TASKS}


def tasks() -> list[Task]:
    return [Task(**task) for task in TASKS]  # type: ignore[arg-type]


def test_a_set_may_be_a_mapping_json_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps(SET))
    for given in (SET, json.dumps(SET), file, {"cpus": 1, "tasks": tasks()}):
        answer = corehop.check(given, "p-fp-rta")
        assert (answer["schedulable"], answer["bounds_us"]) == (True, [5, 15, 80])


@pytest.mark.parametrize("table", [list, pyarrow.Table.from_pylist, polars.DataFrame, pandas.DataFrame])
def test_tasks_may_be_a_table(table: Callable[[Any], Any]) -> None:
    assert corehop.check(table(TASKS), "p-fp-rta", cpus=1)["bounds_us"] == [5, 15, 80]


def test_gaps_in_a_column_are_left_to_their_defaults() -> None:
    given = [{**TASKS[0], "deadline_us": 10}, TASKS[1], {**TASKS[2], "deadline_us": 80}]
    for table in (pyarrow.Table.from_pylist(given), polars.DataFrame(given), pandas.DataFrame(given)):
        assert corehop.check(table, "p-fp-rta", cpus=1)["bounds_us"] == [5, 15, 80]


def test_tasks_may_be_dataclasses() -> None:
    assert corehop.check(tasks(), "qpa", cpus=1)["schedulable"] is corehop.Schedulable.YES
    answers = corehop.check(tasks(), "all", cpus=1)
    assert {"qpa", "rta"} <= {answer["test"] for answer in answers}


def test_locks_and_chains_are_stated_beside_the_tasks() -> None:
    lock = {"resource": "bus", "longest_us": 2}
    given = [
        Task(name="a", wcet_us=5, period_us=20, priority=1, locks=[lock]),
        Task(name="b", wcet_us=10, period_us=40, priority=2, locks=[{**lock, "longest_us": 4}], suspension_us=None),
    ]
    chain = {"name": "c", "tasks": ["a", "b"], "deadline_us": 90}
    answer = corehop.check(given, cpus=1, locking="pcp", chains=[chain])
    assert (answer["test"], answer["bounds_us"], answer["latencies_us"]) == ("p-fp-rta", [9, 15], [84])
    with pytest.raises(corehop.Damaged, match="locking is missing"):
        corehop.check(given, cpus=1)


def test_a_set_is_asked_about_its_own_scheduler() -> None:
    answer = corehop.check(tasks(), cpus=1)
    assert answer["question"] == {"scheduler": "p-edf", "assumed": True}
    assert answer["schedulable"] is corehop.Schedulable.YES and answer["sentence"].startswith("yes: ")
    equal = [Task(wcet_us=1, period_us=5, priority=10, name="fast"), Task(wcet_us=20, period_us=100, priority=10)]
    answer = corehop.check(equal, cpus=1)
    assert answer["schedulable"] is corehop.Schedulable.NO
    assert answer["sentence"].startswith("no: `fast` can take 21 us and has 5 us under partitioned")
    assert corehop.check(equal, cpus=1, scheduler="p-edf")["schedulable"] is corehop.Schedulable.YES
    assert corehop.check({**SET, "scheduler": "g-fp"})["question"]["assumed"] is False
    with pytest.raises(corehop.Usage, match="exclude each other"):
        corehop.check(tasks(), "qpa", scheduler="p-edf", cpus=1)
    with pytest.raises(corehop.Usage, match="edf"):
        corehop.check(tasks(), scheduler="edf", cpus=1)


def test_a_delay_is_charged_to_each_job() -> None:
    # A charge is a bound: a job may lose less.
    charged = corehop.check(tasks(), "p-fp-rta", cpus=1, delay_us=1)["schedulable"]
    assert charged is corehop.Schedulable.UNKNOWN


def test_times_have_decimals_or_a_unit() -> None:
    fine = [Task(wcet_us=0.5, period_us="1.5 us"), Task(wcet_us="250ns", period_us=2)]
    answer = corehop.check(fine, "p-fp-rta", cpus=1, delay_us=0.1)
    assert answer["bounds_us"] == [0.6, 0.95] and answer["charged"][1]["wcet_us"] == 0.35
    with pytest.raises(corehop.Damaged, match="task 0: wcet_us is 0.0005"):
        corehop.check([Task(wcet_us=0.0005, period_us=1)], cpus=1)
    with pytest.raises(corehop.Usage, match="delay_us is -1"):
        corehop.check(fine, cpus=1, delay_us=-1)


def test_an_unknown_verdict_is_neither_true_nor_false() -> None:
    # Dhall's example: nearly idle CPUs, and no sufficient test for global EDF accepts it.
    given = [Task(wcet_us=2, period_us=10), Task(wcet_us=2, period_us=10), Task(wcet_us=10, period_us=11)]
    answer = corehop.check(given, "gfb", cpus=2)
    verdict = answer["schedulable"]
    assert verdict is corehop.Schedulable.UNKNOWN and verdict == "unknown" and verdict not in (True, False)
    with pytest.raises(corehop.Unknown, match="unknown: compare with"):
        assert not verdict
    assert json.loads(json.dumps(answer, default=lambda it: it.value))["schedulable"] == "unknown"
    for test, truth in (("qpa", True), ("p-fp-rta", True)):
        assert bool(corehop.check(tasks(), test, cpus=1)["schedulable"]) is truth


def test_what_makes_no_sense_is_never_a_verdict() -> None:
    with pytest.raises(corehop.Usage, match="gfb"):
        corehop.check(tasks(), "gbf", cpus=2)
    with pytest.raises(corehop.Usage, match="cpus is missing"):
        corehop.check(tasks(), "gfb")
    with pytest.raises(corehop.Usage, match="leave it out"):
        corehop.check(SET, "gfb", cpus=2)
    with pytest.raises(corehop.Usage, match="wss_kib"):
        corehop.check([Task(wcet_us=1, period_us=2, wss_kib=64)], "gfb", cpus=2)
    for wrong in (Task(wcet_us=0, period_us=2), Task(wcet_us=3, period_us=2), {"wcet_us": 1}, 7, {"wcet_us": 0.0005, "period_us": 2}):
        with pytest.raises(corehop.Damaged, match="task 0"):
            corehop.check([wrong], "gfb", cpus=2)


COSTS = "load,event,statistic,wss_kib,cost_us\nidle,preemption,max,4,0\nidle,preemption,max,64,35\n"


def test_preemptions_are_limited_where_deadlines_leave_room(tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text(COSTS)
    given = [
        Task(name="quick", wcet_us=10, period_us=40, wss_kib=4),
        Task(name="slow", wcet_us=30, period_us=120, wss_kib=64),
    ]
    for tasks in (given, {"cpus": 1, "tasks": given}):
        answer = corehop.limit_preemptions(tasks, costs)
        assert [one["limit"] for one in answer] == ["edf_regions", "fp_regions", "fp_thresholds"]
        # The slack before the deadline of `slow` is 30, its WCET; two reloads of 35 are saved.
        slow = answer[0]["tasks"][1]
        assert (slow["region_us"], slow["preemptions"], slow["remaining"]) == (30, 2, 0)
        assert slow["saves"]["us"] == 70 and answer[0]["preemptive"] is False
    with pytest.raises(corehop.Usage, match="cpus is 2"):
        corehop.limit_preemptions({"cpus": 2, "tasks": given}, costs)
    with pytest.raises(corehop.Damaged, match="wss_kib is 65"):
        corehop.limit_preemptions([Task(wcet_us=1, period_us=9, wss_kib=65)], costs)
    with pytest.raises(corehop.Damaged, match="wss_kib is absent"):
        corehop.limit_preemptions([Task(wcet_us=1, period_us=9)], costs)


#: Of p90 there is an upper end at 4 KiB only, of the median at both sizes.
SAMPLED = COSTS + """idle,preemption,n,4,200
idle,preemption,n,64,60
idle,preemption,p90,4,5
idle,preemption,p90_high,4,6
idle,preemption,p90,64,20
idle,preemption,p50,4,2
idle,preemption,p50_high,4,3
idle,preemption,p50,64,10
idle,preemption,p50_high,64,12
"""


def test_costs_are_charged_by_the_statistic_that_the_program_takes(tmp_path: Path) -> None:
    costs, given = tmp_path / "costs.csv", tmp_path / "set.json"
    costs.write_text(SAMPLED)
    tasks = [{"wcet_us": 10, "period_us": 100, "wss_kib": 4}, {"wcet_us": 30, "period_us": 400, "wss_kib": 64}]
    given.write_text(json.dumps({"cpus": 1, "tasks": tasks}))

    def program(verb: str, *more: str) -> Any:
        words = [corehop.binary(), verb, given, "--costs", costs, "--json", *more]
        return json.loads(subprocess.run(words, capture_output=True, text=True).stdout)

    by = "the median of at least 60 samples"
    assert corehop.limit_preemptions(given, costs) == program("advise")
    assert corehop.limit_preemptions(given, costs)[0]["charged_by"] == by
    answer = corehop.check(given, costs=costs)
    assert by in answer["sentence"] and answer == program("check")
    # The largest of n samples is a bound only for those who say so.
    largest = corehop.check(given, costs=costs, statistic="max")
    assert largest["schedulable"] is corehop.Schedulable.UNKNOWN and "largest of 60 seen" in largest["sentence"]
    assert largest == program("check", "--statistic", "max")
    assert bool(corehop.check(given, costs=costs, statistic="max", accept_largest=True)["schedulable"])
    with pytest.raises(corehop.Usage, match="accept_largest"):
        corehop.check(given, accept_largest=True)


def test_an_answer_says_how_far_the_other_one_is() -> None:
    tasks = [corehop.Task(wcet_us=2000, period_us=10000), corehop.Task(wcet_us=6000, period_us=20000)]
    yes = corehop.check(tasks, cpus=1)
    assert 1990 <= yes["slack"]["every_wcet_thousandths"] <= 2000
    assert sum(part["us"] for part in yes["tightest"]["parts"]) == yes["tightest"]["bound_us"] == 8000
    assert yes["busiest"]["schedule"]["jobs"]
    assert "slack" not in corehop.check(tasks, cpus=1, slack=False)
    no = corehop.check([*tasks, corehop.Task(wcet_us=15000, period_us=20000)], cpus=1)
    assert no["changes"][0]["what"].startswith("on 2 CPUs") and no["miss"]["found"] and no["miss"]["late_us"] > 0
    assert bool(corehop.check(no["changes"][0]["set"])["schedulable"])
