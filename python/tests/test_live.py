# SPDX-License-Identifier: MIT OR Apache-2.0
"""The program itself, on this host, for a moment."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow
import pytest

import corehop


@pytest.mark.usefixtures("live")
def test_a_measurement_comes_back_as_a_table() -> None:
    result = corehop.measure(wss=["4KiB"], event=["none", "flush"], load="idle", samples=3, budget="20s")
    assert pyarrow.table(result).num_rows == len(result) >= 1
    assert set(result.column("wss_bytes")) == {4096}
    assert set(result.column("machine")) == {result.platform.id}
    assert result.provenance["machine"]["kind"] == "live"
    assert result.provenance["plan_digest"]


@pytest.mark.usefixtures("live")
def test_progress_is_drawn_on_the_terminal_and_remarks_stay_readable(tmp_path: Path) -> None:
    # Elsewhere than beside the sources, which an interpreter with `-c` would import instead of the installed package.
    python = partial(subprocess.run, cwd=tmp_path, check=False, timeout=120)
    script = "import corehop; corehop.measure(wss='4KiB', event='none', load='idle', samples=5000, budget='3s')"
    reading, terminal = os.openpty()
    try:
        environment = os.environ | {"TERM": "xterm"}
        # The budget may end the run before its last sample, which is an answer of its own.
        python([sys.executable, "-c", script], stderr=terminal, env=environment)
        os.set_blocking(reading, False)
        assert b"4 KiB" in os.read(reading, 65536)
        failing = "import corehop; corehop.measure(wss='4KiB', event='none', load='idle', samples=0)"
        failed = python([sys.executable, "-c", failing], stderr=subprocess.PIPE, text=True)
        assert "--samples" in failed.stderr, failed.stderr
    finally:
        os.close(reading)
        os.close(terminal)


@pytest.mark.usefixtures("live")
def test_a_plan_made_here_runs_there(tmp_path: Path) -> None:
    plan = corehop.plan(wss="4KiB", event="none", samples=2, load="idle")
    result = corehop.measure(plan=plan, output=tmp_path / "run.parquet")
    assert result.plan == plan
    assert len(result) == 2
    assert len(corehop.load(tmp_path / "run.parquet")) == 2


@pytest.mark.usefixtures("live")
def test_what_was_measured_before_ctrl_c_comes_with_the_exception(tmp_path: Path) -> None:
    output = tmp_path / "run.parquet"

    def press_when_there_are_rows() -> None:
        rows = 0
        while rows == 0:
            time.sleep(0.02)
            with suppress(OSError, corehop.Damaged):
                rows = len(corehop.load(output.with_name("run.parquet.part")))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press_when_there_are_rows, daemon=True).start()
    with pytest.raises(corehop.Interrupted, match="stopped by interrupt") as error:
        corehop.measure(wss="4KiB", event="none", load="idle", budget="60s", output=output)
    assert error.value.result is not None
    assert len(error.value.result) > 0
    assert error.value.result.stopped_by == "interrupt"
    assert [file.name for file in tmp_path.iterdir()] == ["run.parquet"]


def test_a_plan_that_is_damaged_is_refused() -> None:
    with pytest.raises(corehop.Damaged, match="cannot read the plan"):
        corehop.measure(plan=json.dumps({"schema": 1}))


def test_the_program_is_that_of_this_version() -> None:
    said = subprocess.run([corehop.binary(), "--version"], check=True, capture_output=True, text=True)
    assert said.stdout == f"corehop {corehop.__version__}\n"
