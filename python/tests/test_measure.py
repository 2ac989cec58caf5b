# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measuring, with programs that only pretend: what is asked of them, and what becomes of their end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import corehop
from corehop import _binary

DATA = Path(__file__).parent / "data"

#: Makes a program that only pretends: see conftest.py.
Pretend = Callable[..., Any]


def test_options_become_flags(pretend: Pretend) -> None:
    program = pretend()
    result = corehop.measure(
        "synthetic",
        preset="bastoni",
        seed=7,
        wss=["64KiB", "1MiB"],
        samples=100,
        no_real_time=True,
        fresh_frames=False,
        page=None,
        node=0,
        load="realistic",
        command=["make", "-C", "a folder"],
        write_ratio=(0, 0.5),
    )
    verb, what, on, output, *rest = program.arguments
    assert (verb, what, on) == ("measure", "synthetic", "--on=live")
    assert output.startswith("--output=")
    assert rest == [
        "--preset=bastoni",
        "--seed=7",
        "--wss=64KiB,1MiB",
        "--samples=100",
        "--no-real-time",
        "--node=0",
        "--load=realistic",
        "--command=make -C 'a folder'",
        "--write-ratio=0,0.5",
    ]
    assert len(result) == len(corehop.load(DATA / "quick.parquet"))


def test_without_an_output_nothing_is_left_behind(pretend: Pretend, tmp_path: Path) -> None:
    program = pretend()
    corehop.measure()
    (written,) = [word for word in program.arguments if word.startswith("--output=")]
    assert not Path(written.removeprefix("--output=")).parent.exists()


def test_the_output_stays_where_it_was_asked_for(pretend: Pretend, tmp_path: Path) -> None:
    pretend()
    corehop.measure(output=tmp_path / "mine.parquet")
    assert len(corehop.load(tmp_path / "mine.parquet")) > 0


def test_a_plan_goes_to_the_program_as_json(pretend: Pretend, tmp_path: Path) -> None:
    plan = corehop.plan("synthetic", on="xeon_l7455", wss="4KiB", samples=1)
    for given in (plan, json.dumps(plan)):
        program = pretend()
        corehop.measure(plan=given)
        assert json.loads(program.text) == plan
        assert program.arguments[:3] == ["measure", "plan", "-"]
        assert "synthetic" not in program.arguments
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    program = pretend()
    corehop.measure(plan=file)
    assert (program.arguments[2], program.text) == (str(file), "")


def test_a_platform_goes_to_the_program_as_a_file(pretend: Pretend) -> None:
    program = pretend()
    corehop.measure(on=corehop.platform("xeon_l7455"))
    assert program.arguments[2].endswith("/platform.toml")
    corehop.measure(on="xeon_x5650")
    assert program.arguments[2] == "--on=xeon_x5650"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (2, corehop.Usage),
        (3, corehop.NotPossible),
        (4, corehop.Damaged),
        (6, corehop.HostFailed),
        (130, corehop.Interrupted),
        (101, corehop.Error),
    ],
)
def test_every_exit_code_has_its_exception_with_the_sentence(
    pretend: Pretend, code: int, kind: type[corehop.Error]
) -> None:
    says = "3 cells lack samples\ncorehop: FIFO is refused: CAP_SYS_NICE is missing; sudo setcap …\n"
    pretend(code=code, says=says, leaves=None)
    with pytest.raises(kind) as error:
        corehop.measure()
    assert type(error.value) is kind
    assert str(error.value) == "FIFO is refused: CAP_SYS_NICE is missing; sudo setcap …"
    assert error.value.result is None


def test_what_a_failed_host_left_comes_with_the_error(pretend: Pretend, tmp_path: Path) -> None:
    pretend(code=6, says="corehop: disk full\n", suffix=".part")
    with pytest.raises(corehop.HostFailed, match="disk full") as error:
        corehop.measure(output=tmp_path / "mine.parquet")
    assert error.value.result is not None
    assert len(error.value.result) == len(corehop.load(DATA / "quick.parquet"))


def test_a_program_that_was_killed_is_a_failure_that_names_the_signal(pretend: Pretend) -> None:
    pretend(kill=signal.SIGKILL, leaves=None)
    with pytest.raises(corehop.HostFailed, match="SIGKILL"):
        corehop.measure()


def test_a_program_that_ends_in_silence_is_not_taken_for_success(pretend: Pretend) -> None:
    pretend(code=1)
    with pytest.raises(corehop.Error, match="exit code 1 and said nothing"):
        corehop.measure()
    pretend(leaves=None)
    with pytest.raises(FileNotFoundError):
        corehop.measure()


def test_what_the_program_remarks_is_passed_on(
    pretend: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend(says="2 cells were given up\n")
    corehop.measure()
    assert capsys.readouterr().err == "2 cells were given up\n"


def test_an_experiment_and_a_plan_are_one_too_many(pretend: Pretend) -> None:
    program = pretend()
    with pytest.raises(corehop.Usage, match="in place of an experiment"):
        corehop.measure("synthetic", plan={})
    assert not program.note.exists()


def test_ctrl_c_ends_the_program_and_keeps_what_it_has(pretend: Pretend, tmp_path: Path) -> None:
    program = pretend(until_interrupted=True)

    def press() -> None:
        while not program.ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    with pytest.raises(corehop.Interrupted) as error:
        corehop.measure(output=tmp_path / "mine.parquet")
    assert program.asked.exists()
    assert isinstance(error.value, KeyboardInterrupt)
    assert error.value.result is not None
    assert len(error.value.result) == len(corehop.load(tmp_path / "mine.parquet"))


def test_no_program_is_left_behind_whatever_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(child: object) -> int:
        raise MemoryError

    monkeypatch.setattr(_binary, "_ended", torn)
    child = subprocess.Popen(["sleep", "60"])
    with pytest.raises(MemoryError):
        _binary._wait(child)
    assert child.poll() == -signal.SIGKILL


def test_ctrl_c_in_a_terminal_reaches_both_and_is_not_taken_for_a_second_one(
    pretend: Pretend, tmp_path: Path
) -> None:
    program = pretend(until_interrupted=True)
    code = (
        "import corehop, sys\n"
        "try: corehop.measure(output=sys.argv[1])\n"
        "except corehop.Interrupted as error: print(len(error.result))\n"
    )
    output = tmp_path / "mine.parquet"
    command = [sys.executable, "-Pc", code, output]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as session:
        while not program.ready.exists():
            assert session.poll() is None
            time.sleep(0.01)
        os.killpg(session.pid, signal.SIGINT)
        said, _ = session.communicate(timeout=30)
    assert said == f"{len(corehop.load(output))}\n"


def test_the_environment_names_another_program(
    pretend: Pretend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = pretend()
    assert corehop.binary() == program.path
    corehop.measure()
    assert program.arguments[0] == "measure"
    monkeypatch.setenv("COREHOP_BINARY", str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="nothing: this is not an executable file"):
        corehop.binary()
