# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plans: what the program would do, as data."""

import json
import re
import subprocess
from collections import Counter
from datetime import timedelta
from typing import Any

import numpy
import pytest

import corehop
from corehop._options import ELSEWHERE, Options

XEON = corehop.platform("xeon_l7455")


def test_every_cell_gets_the_samples_that_were_asked_for() -> None:
    plan = corehop.plan(on=XEON, wss=["4KiB", "64KiB"], samples=5, event="none,preemption")
    jobs = Counter(job["cell"] for phase in plan["jobs"]["phases"] for job in phase["jobs"])
    assert set(jobs.values()) == {5}
    assert {cell["event"] for cell in plan["jobs"]["cells"]} == {"none", "preemption"}
    assert {one["wss"] for one in plan["jobs"]["sets"]} == {"4 KiB", "64 KiB"}


def test_the_same_seed_gives_the_same_plan_and_another_one_another() -> None:
    def made(seed: int) -> dict[str, Any]:
        return corehop.plan(on=XEON, seed=seed, wss="4KiB", samples=3)

    assert made(1) == made(1)
    assert made(1)["jobs"] != made(2)["jobs"]


@pytest.mark.parametrize("experiment", ["synthetic", "access-time", "preemption-length", "polluter-sweep"])
def test_every_experiment_has_a_plan_on_a_machine_of_the_literature(experiment: str) -> None:
    plan = corehop.plan(experiment, on="xeon_l7455", samples=1)
    assert plan["experiment"] == experiment
    assert plan["seed"] == 1
    assert sum(len(phase["jobs"]) for phase in plan["jobs"]["phases"]) > 0


def test_a_platform_has_the_same_plan_by_its_name_and_as_an_object() -> None:
    by_name = corehop.plan(on="xeon_l7455", wss="4KiB", samples=1)
    assert corehop.plan(on=XEON, wss="4KiB", samples=1) == by_name


def test_a_size_in_bytes_and_a_time_in_seconds_are_those_in_words() -> None:
    in_words = corehop.plan(on=XEON, wss=["4KiB", "64KiB"], length="4ms", samples=1)
    for length in (0.004, timedelta(milliseconds=4)):
        assert corehop.plan(on=XEON, wss=[4096, numpy.int64(65536)], length=length, samples=1) == in_words


def test_what_makes_no_sense_is_an_error_that_names_it() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"experiment": "guessing"}, "guessing.*--help"),
        ({"preset": "slow"}, "`slow` is not a preset; use one of: quick"),
        ({"wss": ["65536"]}, "65536.*64 ?KiB"),
        ({"wss": [-1]}, "-1B"),
        ({"length": float("nan")}, "nan seconds is not a time.*4ms"),
        ({"colour": "red"}, "`colour` is not an option; use one of: samples, replicates, precision"),
        ({"dry_run": True}, "`dry_run` is not an option"),
        ({"samples": [1, 2]}, "1,2.*--samples"),
        ({"cpus": "0-"}, "0-.*--cpus"),
        ({"cpus": [99]}, "99 is not among the usable CPUs"),
        ({"on": "pdp11"}, "unknown platform `pdp11`: use one of .*xeon_l7455"),
    ]
    for options, words in cases:
        with pytest.raises(corehop.Usage, match=f"(?s){words}"):
            corehop.plan(**{"on": XEON, **options})


def test_a_class_that_the_machine_lacks_is_not_possible() -> None:
    why = "smt_migration cannot be measured on Intel Xeon L7455.*: no two of the usable CPUs"
    with pytest.raises(corehop.NotPossible, match=why):
        corehop.plan(on=XEON, event="smt_migration")


def test_every_option_of_the_program_is_an_option_here_and_no_other() -> None:
    listed = subprocess.run([corehop.binary(), "measure", "--help"], check=True, capture_output=True, text=True)
    below = listed.stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    kinds = re.findall(r"^  ([a-z]+(?:-[a-z]+)*)", below, re.MULTILINE)
    assert "supply" in kinds
    # These two are no experiments, and a recording is a verb of its own.
    kinds = [kind for kind in kinds if kind not in ("platform", "plan")]
    helped = [[corehop.binary(), *words, "--help"] for words in [["record"], *(["measure", kind] for kind in kinds)]]
    run = [subprocess.run(it, check=True, capture_output=True, text=True) for it in helped]
    said = "".join(it.stdout for it in run)
    # Deeper than options begin only lines of what is said of them.
    words = set(re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)", said, re.MULTILINE))
    assert {name.replace("_", "-") for name in Options.__annotations__} == words - ELSEWHERE


def test_a_plan_is_data() -> None:
    plan = corehop.plan(on=XEON, wss="4KiB", event="none", samples=2, load="idle")
    assert json.loads(json.dumps(plan)) == plan
