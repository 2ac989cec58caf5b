# SPDX-License-Identifier: MIT OR Apache-2.0
"""Python has the options of the program, no more and no fewer."""

import re
import subprocess
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

import corehop
from corehop._options import ELSEWHERE, Options


def _help(*words: str) -> str:
    command = [corehop.binary(), "measure", *words, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _experiments() -> list[str]:
    commands = _help().split("Commands:")[1].split("Options:")[0]
    return [word for word in re.findall(r"^  ([a-z-]+)  ", commands, re.M) if word != "help"]


def _of_the_program() -> set[str]:
    texts = [_help(), *(_help(experiment) for experiment in _experiments())]
    return {name for text in texts for name in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", text, re.M)}


def test_python_has_every_option_of_measure_and_no_other() -> None:
    own = {name.replace("_", "-") for name in Options.__annotations__}
    assert len(_experiments()) >= 9
    assert own == _of_the_program() - ELSEWHERE
    assert ELSEWHERE - {"plan"} <= _of_the_program()


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
