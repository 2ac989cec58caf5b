# SPDX-License-Identifier: MIT OR Apache-2.0
"""Verbs of the program as functions: their options, and their answers as objects."""

import json
import re
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import corehop
from corehop import _options

Pretend = Callable[..., Any]

#: Options that a function has as parameters, or has no use for: it reads JSON or the file that the program writes.
ELSEWHERE = {"help", "json", "output", "force", "emit", "table", "on", "os_cores", "sysfs_root"}

WINNER: dict[str, Any] = {
    "verdict": "winner",
    "arm": 0,
    "default_cpus": "0-1",
    "default": {"mean": 0.2, "cpu_s": 0.07, "runs": 45},
    "floor": {"gain": 0.02, "low": -0.47, "high": 1.003, "rounds": 15},
    "arms": [
        {
            "kind": "one-cpu",
            "cpus": "0",
            "figures": {"mean": 0.1, "cpu_s": 0.05, "runs": 54},
            "gain": {"gain": 1.02912, "low": 0.034, "high": 2.178, "rounds": 15},
        }
    ],
    "paste": {"a shell": "taskset -c 0 ./job  # a shell"},
}


def told(verb: list[str]) -> dict[str, str]:
    """The options that the help of a verb lists, with the words of their values."""
    said = subprocess.run([corehop.binary(), *verb, "--help"], check=True, capture_output=True, text=True).stdout
    # A wrapped line of text may begin with an option of another verb, further to the right.
    found = re.findall(r"^ {2,6}(?:-\w, )?--([a-z-]+)(.*)", said, flags=re.MULTILINE)
    return {name.replace("-", "_"): rest for name, rest in found}


@pytest.mark.parametrize(
    ("kind", "verbs"),
    [
        (_options.TryOptions, [["try"]]),
        (_options.PlaceOptions, [["place"], ["place", "simulate"]]),
        (_options.OffloadOptions, [["offload"], ["offload", "simulate"]]),
        (_options.ValidateOptions, [["sim", "validate"]]),
        (_options.ReportOptions, [["report"]]),
    ],
)
def test_the_options_of_a_verb_are_those_of_the_program(kind: Any, verbs: list[list[str]]) -> None:
    options = {name: rest for verb in verbs for name, rest in told(verb).items()}
    mine = {name.rstrip("_"): each.__forward_arg__ for name, each in kind.__annotations__.items()}
    assert mine.keys() - ELSEWHERE == options.keys() - ELSEWHERE
    for name, rest in options.items():
        word = {"<TIME>": "Time", "<SIZE>": "Size", "<SIZES>": "Size"}.get((rest.split() or [""])[0])
        assert name not in mine or word is None or word in mine[name], name


def test_every_time_of_a_measurement_may_be_a_timedelta() -> None:
    for verb in (["measure", "synthetic"], ["measure", "program-costs"], ["record"]):
        for name, rest in told(verb).items():
            if rest.strip().startswith("<TIME>") and name in _options.Options.__annotations__:
                assert "Time" in _options.Options.__annotations__[name].__forward_arg__, name


def test_a_trial_names_its_winner_and_the_lines_to_paste(pretend: Pretend) -> None:
    says = "note: the host is busy\nPin to CPU 0 (one-cpu): 102.9 % faster than the\nkernel's default.\n"
    program = pretend(answers=json.dumps(WINNER), says=says)
    trial = corehop.try_("./job -n 'a b'", duration=timedelta(seconds=20), seed=3)
    assert program.arguments == ["try", "--json", "--duration=20000000000ns", "--seed=3", "--", "./job", "-n", "a b"]
    assert trial.sentence == "Pin to CPU 0 (one-cpu): 102.9 % faster than the kernel's default."
    assert trial.winner == trial.arms[0]
    assert trial.winner.gain == corehop.Gain(1.02912, 0.034, 2.178, 15)
    assert (trial.winner.cpus, trial.paste["a shell"]) == ("0", "taskset -c 0 ./job  # a shell")
    assert repr(trial).splitlines()[0] == trial.sentence
    assert "1.03" in repr(trial) and "1.029" not in repr(trial).split("\n", 1)[1]
    assert trial._repr_html_().index("102.9") < trial._repr_html_().index("<table>")
    assert trial.to_polars()["arm"].to_list() == list(trial.to_pandas()["arm"]) == ["default", "one-cpu"]


def test_a_trial_that_finds_nothing_is_an_answer_and_no_error(pretend: Pretend) -> None:
    facts = {**WINNER, "verdict": "nothing", "at_most": 0.02, "paste": {}}
    pretend(code=1, answers=json.dumps(facts), says="Nothing beats the kernel's default.\n")
    trial = corehop.try_(["./job"])
    assert (trial.winner, trial.paste, trial.verdict) == (None, {}, "nothing")
    pretend(code=1, answers=json.dumps({"verdict": "one_cpu", "arms": []}), says="There is one CPU.\n")
    assert repr(corehop.try_(["./job"])) == "There is one CPU."


def test_a_trial_without_an_answer_is_an_error(pretend: Pretend) -> None:
    pretend(code=1, says="corehop: cannot tell: the first run was stopped after 3 s\n")
    with pytest.raises(corehop.Error, match="cannot tell: the first run"):
        corehop.try_(["./job"])


def test_a_trial_needs_a_program_and_knows_its_options() -> None:
    with pytest.raises(corehop.Usage, match="missing command"):
        corehop.try_()
    with pytest.raises(corehop.Usage, match="`arms` is not an option; use one of: pid, progress"):
        corehop.try_("true", arms=3)  # type: ignore[call-arg]


def test_a_command_is_tried_on_this_host() -> None:
    trial = corehop.try_(["sh", "-c", "i=0; while [ $i -lt 999 ]; do i=$((i+1)); done"], duration="2s")
    assert trial.sentence.endswith(".") and trial.verdict in ("winner", "nothing", "too_few", "no_arm", "one_cpu")
    assert all(arm.figures is None or arm.figures.runs > 0 for arm in trial.arms)


def test_the_costs_of_a_program_are_objects(tmp_path: Path) -> None:
    command = ["sh", "-c", "i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done"]
    try:
        found = corehop.program_costs(command, event="preemption", rounds=2, length=0.001, output=tmp_path / "c.parquet")
    except corehop.NotPossible as why:
        pytest.skip(str(why))
    (cost,) = found.costs
    assert (cost.event, cost.length_us) == ("preemption", 1000.0) and cost.events >= 0
    assert isinstance(corehop.load(tmp_path / "c.parquet"), corehop.ProgramCosts)
    assert repr(found).startswith(found.sentence) and "preemption" in found._repr_html_()


def test_what_offload_compares_on_a_simulated_machine_is_a_table(tmp_path: Path) -> None:
    platform = corehop.platform("xeon_x5650")
    output = tmp_path / "answer.json"
    answer = corehop.offload(on=platform, os_cores=[1], mechanism="v4", compute=20e-6, call_time="5us", output=output)
    assert answer["arm"][:2] == ["unmodified", "bound"]
    assert answer.answer["load"]["compute"] == "20 us"
    assert corehop.load(output).sentence == answer.sentence
    with pytest.raises(corehop.Usage, match="answer.json"):
        corehop.offload(on=platform, os_cores=[1], mechanism="v4", output=output)
    with pytest.raises(corehop.Usage, match="--threads"):
        corehop.offload("true", os_cores=[1], threads=4)


def test_placing_asks_for_a_log_and_reads_it(pretend: Pretend, tmp_path: Path) -> None:
    log = Path(__file__).parent / "data" / "placement.jsonl"
    program = pretend(leaves=log, answers="{}", code=1)
    placement = corehop.place(47, 48, command=["./job", "-v"], for_=timedelta(minutes=1), window=0.1, dry_run=True)
    output, *rest = program.arguments[2:]
    assert (program.arguments[:2], output.startswith("--output=")) == (["place", "--json"], True)
    assert rest == ["--for=60000000000ns", "--window=100000000ns", "--dry-run", "47", "48", "--", "./job", "-v"]
    assert placement.sentence == corehop.load(log).sentence
    pretend(leaves=None, code=3, says="corehop: CAP_BPF is missing\n")
    with pytest.raises(corehop.NotPossible, match="CAP_BPF is missing"):
        corehop.place(47)


def test_placing_on_a_simulated_machine_compares_rates() -> None:
    answer = corehop.place(on="xeon_e5520", pairs=2)
    rates = {row["placement"]: row["rounds_per_s"] for row in answer.rows}
    assert set(rates) == {"left alone", "each pair on one CPU", "each pair below one cache", "placed"}
    assert max(row["of_best_percent"] for row in answer.rows[:3]) == pytest.approx(100)
    assert f"{100 * rates['placed'] / max(list(rates.values())[:3]):.1f} %" in answer.sentence
    with pytest.raises(corehop.Usage, match="47"):
        corehop.place(47, on="xeon_e5520")  # type: ignore[call-overload]
    with pytest.raises(corehop.Usage, match="nowhere"):
        corehop.place(on="nowhere")


def test_recording_is_a_measurement_of_a_program(pretend: Pretend) -> None:
    program = pretend()
    corehop.record("./job 'a b'", budget=timedelta(seconds=2), arm=["pinned=taskset -c 1"])
    assert program.arguments[0] == "record"
    assert program.arguments[2:4] == ["--budget=2000000000ns", "--arm=pinned=taskset -c 1"]
    assert program.arguments[-3:] == ["--", "./job", "a b"]


def test_the_doctor_has_a_finding_for_each_row() -> None:
    answer = corehop.doctor()
    assert answer.sentence.startswith("corehop can")
    assert answer["findings"] == answer.rows
    assert answer.to_polars()["id"].to_list() == [row["id"] for row in answer.rows]
    with pytest.raises(corehop.Error, match="nowhere"):
        corehop.doctor(sysfs_root="nowhere")


def test_a_study_that_misses_its_aims_is_an_answer(tmp_path: Path) -> None:
    answer = corehop.validate("kamali-3-6", samples=1, output=tmp_path / "page.html")
    assert answer.holds == (sum(study["missed"] for study in answer.rows) == 0)
    assert answer.rows[0]["study"] == "kamali-3-6" and answer.sentence.endswith(".")
    assert (tmp_path / "page.html").read_text().startswith("<!")
    with pytest.raises(corehop.Usage, match="nonsense"):
        corehop.validate("nonsense")


def test_a_report_is_a_table_of_cells_and_a_page(tmp_path: Path) -> None:
    file = Path(__file__).parent / "data" / "quick.parquet"
    answer = corehop.report(file, only=["event=none", "load=idle"], output=tmp_path / "page.html")
    assert {row["cell"]["event"] for row in answer.rows} == {"none"}
    assert " ".join(answer.sentence.split()) == answer.sentence != ""
    assert "</html>" in (tmp_path / "page.html").read_text()
    with pytest.raises(corehop.Usage, match="page.html"):
        corehop.report(file, output=tmp_path / "page.html")


def test_a_comparison_is_an_answer_with_cells() -> None:
    file = Path(__file__).parent / "data" / "quick.parquet"
    answer = corehop.compare(file, file, least=timedelta(microseconds=2))
    assert (answer.sentence, answer.holds) == (answer["answer"], True)
    assert {row["outcome"] for row in answer.rows} == {"equivalent"}
    assert answer.rows[0]["margin_us"] == 2.0
