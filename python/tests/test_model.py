# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models of costs and advice from Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest

import corehop
from corehop import CostModel, Task

DATA = Path(__file__).parent / "data" / "quick.parquet"
ROWS = [{"wss_bytes": kib << 10, "event": event} for kib in (64, 256) for event in ("preemption", "l3_migration")] * 30
DELAYS = [10.0, 20.0, 40.0, 80.0] * 30


def model(**params: Any) -> CostModel:
    return CostModel(**params).fit(ROWS, DELAYS)


@pytest.mark.parametrize("table", [list, pyarrow.Table.from_pylist, polars.DataFrame, pandas.DataFrame])
def test_known_delays_are_learned_from_any_table_and_read_between_sizes(table: Callable[[Any], Any]) -> None:
    fitted = CostModel(statistic="median").fit(table(ROWS), DELAYS)
    low, between, high = fitted.predict(["64KiB", 128 << 10, 256 << 10])
    assert (low, high) == (10.0, 40.0) and 10 < between < 40
    assert fitted.set_params(event="l3_migration").predict([[65536]]) == [20.0]
    ends = fitted.predict_interval(table([{"wss_bytes": 65536}]))
    assert ends == [(20.0, 20.0)]
    assert fitted.score(ROWS, DELAYS) == 1.0


def test_parameters_are_those_of_scikit_learn() -> None:
    asked = CostModel(event="flush", length="4ms")
    twin = CostModel(**asked.get_params())
    assert twin.get_params() == asked.get_params() and repr(twin) == "CostModel(event='flush', length='4ms')"
    assert twin.set_params(load="constructed").load == "constructed"
    with pytest.raises(corehop.Usage, match="no parameter"):
        twin.set_params(depth=3)
    with pytest.raises(corehop.Usage, match="fit first"):
        twin.predict([4096])


def test_samples_are_learned_as_the_program_learns_them(tmp_path: Path) -> None:
    result = corehop.load(DATA)
    fitted = corehop.fit(result)
    assert fitted.model_ == corehop.fit(DATA).model_ == corehop.fit([result]).model_
    sizes = sorted(set(result.column("wss_bytes")))
    answers = corehop.predict(fitted, sizes, statistic="max", method="fitted")
    assert [answer.wss_bytes for answer in answers] == sizes
    file = fitted.save(tmp_path / "model.json")
    assert corehop.predict(file, sizes, statistic="max", method="fitted") == answers
    assert CostModel.load_model(file).model_ == fitted.model_
    with pytest.raises(corehop.Usage, match="beyond the measured sizes"):
        corehop.predict(fitted, "1GiB", statistic="max")
    with pytest.raises(corehop.Usage, match="no delay"):
        corehop.fit(DATA.parent / "access.parquet")


def test_advice_is_that_of_the_program() -> None:
    advice = corehop.advise(model())
    assert {rule.wss_bytes for rule in advice.rules} == {64 << 10, 256 << 10}
    moved = advice.rules[0].moves[0]
    # Known delays of no length: a preemption of 10 us, and a migration of 20 us in its place.
    assert (moved.event, moved.pays_from.estimate_us) == ("l3_migration", 10.0)
    asked = corehop.advise(model(), wss="64KiB", length="25ms").rules[0].waits
    assert [wait.wait_us for wait in asked] == [25_000.0]
    assert corehop.advise(model(), wss="64KiB").rules[0].wss_bytes == 64 << 10
    with pytest.raises(corehop.Usage, match="say what"):
        corehop.advise()


def test_the_verdict_on_a_wait_names_the_migration_of_a_move() -> None:
    pays = {"estimate_us": 10.0, "low_us": 8.0, "high_us": 12.0}
    moved = {"event": "l3_migration", **pays, "length_us": 0.0, "at_most": False, "n": 9, "replicates": 9}
    waits = [{"wait_us": 1.0, "stay": pays, "verdict": "stay"}, {"wait_us": 20.0, "stay": pays, "verdict": {"move": "l3_migration"}}]
    company = {"preempted_by": "preemptor", "polluter": None}
    rule = {"load": "idle", "wss_bytes": 4096, "company": company, "moves": [{**moved, "pays_from": pays}], "waits": waits}
    advice = corehop.Advice({"rules": [rule], "isolation": [], "constants": [], "silent": ["no load"], "lacking": []})
    (told,) = advice.rules
    assert [(wait.verdict, wait.move_to) for wait in told.waits] == [("stay", None), ("move", "l3_migration")]
    assert told.moves[0].pays_from == corehop.Estimate(10.0, 8.0, 12.0)
    assert advice["pays_from_us"] == [10.0] and advice.partitioning == []
    assert repr(advice).endswith("\nno load") and "l3_migration" in advice._repr_html_()


def test_a_wait_may_be_a_time_of_any_kind() -> None:
    for length in ("25ms", 0.025, timedelta(milliseconds=25)):
        (rule,) = corehop.advise(model(), wss=64 << 10, length=length).rules
        assert [wait.wait_us for wait in rule.waits] == [25_000.0]


def test_a_platform_is_advised_on_by_simulation() -> None:
    advice = corehop.advise(on="xeon_x5650", wss="16KiB", samples=4, loaded=False)
    assert advice.rules and {saving.by for saving in advice.partitioning} == {"ways", "colours"}


def test_tasks_are_charged_what_their_working_sets_cost() -> None:
    tasks = [Task(wcet_us=100, period_us=period, wss_kib=64) for period in (10_000, 20_000)]
    charged = corehop.check(tasks, "p-edf-ffd", cpus=2, costs=model())
    # The job that preempts pays, and the second one preempts none.
    assert charged["delays_us"] == [10, 0]
    xeon = corehop.platform("xeon_x5650")
    # Two tasks on two CPUs are never preempted; of 13 on 12 one may be, and move to the other package.
    assert corehop.check(tasks, "gfb", cpus=2, costs=model(), platform=xeon)["delays_us"] == [0, 0]
    more = [Task(wcet_us=100, period_us=10_000, wss_kib=64)] * 13
    with pytest.raises(corehop.Damaged, match=r"task 0: wss_kib is 64.*memory_migration"):
        corehop.check(more, "gfb", cpus=12, costs=model(), platform=xeon)
    with pytest.raises(corehop.Damaged, match=r"wss_kib is 257.*beyond"):
        corehop.check([Task(wcet_us=1, period_us=9, wss_kib=257)], "p-edf-ffd", cpus=2, costs=model())
    with pytest.raises(corehop.Usage, match="busy"):
        corehop.check(tasks, "gfb", cpus=2, costs=model(), load="busy")


def test_cache_blocks_of_tasks_are_taken_from_dataclasses_and_tables() -> None:
    tasks = [
        Task(wcet_us=2, period_us=20, ucb="", ecb="1-4"),
        Task(wcet_us=17, period_us=60, ucb=[3, 4, 5, 6, 7], ecb="3-8"),
    ]
    answer = corehop.check(tasks, "p-fp-ecb-only", cpus=1, block_reload_ns=1000)
    assert answer["bounds_us"] == [2, 29]
    table = pyarrow.table({"wcet_us": [2, 17], "period_us": [20, 60], "ucb": ["", "3-7"], "ecb": ["1-4", "3-8"]})
    assert corehop.check(table, "p-fp-ecb-only", cpus=1, block_reload_ns=1000) == answer
    lists = [[], [3, 4, 5, 6, 7]]
    table = table.set_column(2, "ucb", pyarrow.array(lists, pyarrow.list_(pyarrow.int64())))
    assert corehop.check(table, "p-fp-ecb-only", cpus=1, block_reload_ns=1000) == answer
    given = {"cpus": 1, "block_reload_ns": 1000, "tasks": [json.loads(json.dumps(vars(task))) for task in tasks]}
    given["tasks"] = [{name: value for name, value in task.items() if value is not None} for task in given["tasks"]]  # type: ignore[attr-defined]
    assert corehop.check(given, "p-fp-ecb-only") == answer


def test_a_crossover_leads_back_to_sizes() -> None:
    fig5 = Path(__file__).parents[2] / "studies" / "bastoni-fig5"
    result = corehop.study(fig5, sets=100, progress=False)
    sizes = result.sizes(fig5 / "costs.csv", load="idle", statistic="max")
    assert set(sizes) == set(result.readings)
    found = sizes["any/discard/wfd"][0]
    low, high = (end["wss_kib"] for end in found["fixed_interval"])
    assert low <= found["fixed"]["wss_kib"] <= high
