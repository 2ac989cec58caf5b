# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of every kind: read, summed up, and told in one sentence."""

import gc
import json
import subprocess
import warnings
from html import escape
from pathlib import Path
from typing import Any, cast

import polars
import pytest

import corehop
from corehop._options import Options

DATA = Path(__file__).parents[2] / "data"

SENTENCE = "2 of 3 calls that qualify were made on CPU 1, by v5."
#: An answer of `corehop offload -o`.
ANSWER: dict[str, Any] = {
    "schema": "corehop-offload",
    "version": 1,
    "program": ["server"],
    "os_cores": "1",
    "mechanism": "v5",
    "by_call": [{"call": "read", "calls": 3, "offloaded": 2, "here_ns": 120.5}],
    "sentences": [SENTENCE, "The kernel counted 3 calls."],
}


def off_load(path: Path) -> corehop.OffLoad:
    answer = corehop.load(path)
    assert isinstance(answer, corehop.OffLoad)
    return cast("corehop.OffLoad", answer)


def test_an_answer_of_offload_has_its_sentence_its_rows_and_a_page(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(ANSWER), encoding="utf-8")
    answer = off_load(path)
    assert answer.sentence == SENTENCE
    assert answer.rows == ANSWER["by_call"]
    assert answer.answer["mechanism"] == "v5"
    assert str(answer).startswith(answer.sentence) and "120.50" in str(answer)
    page = answer.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert answer.sentence in page


def test_an_answer_of_a_later_version_or_a_torn_one_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps({**ANSWER, "version": 9}), encoding="utf-8")
    with pytest.raises(corehop.Damaged, match="version 9"):
        corehop.load(path)
    path.write_text(json.dumps(ANSWER)[:200], encoding="utf-8")
    with pytest.raises(corehop.Damaged, match="offload"):
        corehop.load(path)


def test_core_switches_have_a_summary_and_a_sentence() -> None:
    result = corehop.load(DATA / "2026-11-24-guest-2cpu" / "switches.parquet")
    assert result.kind == "switches"
    assert result.sentence.endswith(".") and "switches.parquet holds" in result.sentence
    summary = result.summary()
    assert len(summary) > 5
    assert "mechanism" in summary.columns
    assert summary.cells[0]["mechanism"]
    assert "<table" in result._repr_html_()


def test_samples_give_the_sentence_of_the_report(quick: corehop.Result) -> None:
    assert quick.sentence.endswith(".")
    assert str(quick).startswith(quick.sentence)


def of_program(path: Path) -> str:
    """The sentence of `corehop report`, unfolded."""
    said = subprocess.run([corehop.binary(), "report", path], check=True, capture_output=True, text=True).stdout
    return " ".join(said.partition("\n\n")[0].split())


def read(path: Path, kind: str) -> corehop.Result:
    """A file that is read without a doubt, and says what the program says of it."""
    with warnings.catch_warnings(action="error"):
        result = corehop.load(path)
    assert (result.kind, result.doubts) == (kind, [])
    assert result.sentence == of_program(path)
    assert str(result).startswith(result.sentence)
    summary = result.summary()
    assert len(summary) >= len(summary.cells) and len(polars.DataFrame(result)) == len(result)
    page = result._repr_html_()
    assert escape(result.sentence) in page and ("<table" in page) == (len(summary) > 0)
    return result


@pytest.mark.parametrize(
    ("experiment", "kind"),
    [
        ("access-time", "access_time"),
        ("core-switch", "switches"),
        ("polluter-sweep", "samples"),
        ("conditions", "samples"),
        ("shared-data", "shared_data"),
    ],
)
def test_no_kind_of_simulated_rows_is_refused(experiment: str, kind: str, tmp_path: Path) -> None:
    more: Options = {"program": "swap", "items": 64, "rounds": 2} if kind == "shared_data" else {}
    result = corehop.measure(experiment, on="xeon_x5650", budget="5s", output=tmp_path / "run.parquet", **more)
    assert len(read(tmp_path / "run.parquet", kind)) == len(result)


def test_a_result_without_an_output_has_its_sentence_and_leaves_nothing_behind() -> None:
    result = corehop.measure("core-switch", on="xeon_x5650", mechanism="v4", budget="5s")
    assert result.sentence.endswith(".") and len(result.summary()) > 0
    [output] = [word for word in result.provenance["command"] if word.startswith("--output=")]
    folder = Path(output.removeprefix("--output=")).parent
    assert folder.name.startswith("corehop-") and folder.exists()
    del result
    gc.collect()
    assert not folder.exists()


def test_task_sets_are_read_with_the_jobs_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "sets.parquet"
    corehop.measure(
        "schedule-sensitive", on="xeon_x5650", output=path, scheduler="p-edf", tasks=2, sets=1, cpus=0, wss="4KiB",
        write_ratio=0, period="5..10ms", utilisation="0.01..0.02", duration="20ms",
    )  # fmt: skip
    sets = read(path, "samples")
    jobs = read(tmp_path / "sets.jobs.parquet", "task_jobs")
    assert len(jobs) > 0 and sets.plan == jobs.plan
    assert "missed" in json.dumps(jobs.summary().cells)
    assert sets.sentence == jobs.sentence and "Deadlines missed" in sets.sentence
    (tmp_path / "sets.jobs.parquet").unlink()
    with pytest.warns(UserWarning, match="sets.jobs.parquet"):
        alone = corehop.load(path)
    assert "Deadlines" not in alone.sentence


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("2026-11-21-guest-2cpu/quick-length.parquet", "preemption_length"),
        ("2026-11-21-guest-2cpu/quick-access.parquet", "access_time"),
        ("2026-11-22-guest-2cpu/conditions.parquet", "samples"),
        ("2026-11-24-guest-2cpu/switches.parquet", "switches"),
    ],
)
def test_every_file_of_the_repository_is_read(name: str, kind: str) -> None:
    result = read(DATA / name, kind)
    assert bool(kind == "samples" and result.conditions()) == ("conditions" in name)


@pytest.mark.usefixtures("live")
def test_overheads_and_the_three_files_of_a_recording_are_read(tmp_path: Path) -> None:
    corehop.measure("overheads", budget="2s", no_bpf=True, quiet=True, output=tmp_path / "overheads.parquet")
    overheads = read(tmp_path / "overheads.parquet", "overheads")
    assert set(overheads.summary().columns) >= {"column", "n", "p50_us"}
    path = tmp_path / "recorded.parquet"
    try:
        corehop.measure("program", command=["sh", "-c", "sleep 0.1"], output=path)
    except corehop.NotPossible as why:
        pytest.skip(f"this host does not record programs: {why}")
    for beside, kind in (("", "absences"), (".threads", "threads"), (".runs", "runs")):
        one = read(path.with_suffix(f"{beside}.parquet"), kind)
        assert one.experiment == "program"


@pytest.mark.usefixtures("live")
def test_the_costs_of_a_program_are_read_with_their_sentence(tmp_path: Path) -> None:
    path = tmp_path / "costs.parquet"
    corehop.measure("program-costs", command=["sh", "-c", "i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done"],
                    event="preemption", rounds=2, output=path)  # fmt: skip
    costs = read(path, "program_costs")
    assert costs.sentence.startswith("sh: ") and "preemption" in costs.sentence
    assert (len(costs), costs.experiment) == (10, "program-costs")


def test_a_simulated_answer_of_offload_has_a_row_for_each_arm(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    words = ["offload", "--on", "xeon_x5650", "--os-cores", "1", "--mechanism", "v4", "-o", str(path)]
    said = subprocess.run([corehop.binary(), *words], check=True, capture_output=True, text=True).stdout
    answer = off_load(path)
    assert " ".join(said.split()).startswith(answer.sentence)
    assert [row["arm"] for row in answer.rows][:3] == ["unmodified", "bound", "in turns"]


def test_a_log_of_placing_gives_the_sentence_of_the_program() -> None:
    path = Path(__file__).parent / "data" / "placement.jsonl"
    log = cast("corehop.Placement", corehop.load(path))
    said = subprocess.run([corehop.binary(), "show", path], check=True, capture_output=True, text=True).stdout
    assert " ".join(said.split()).startswith(" ".join(log.sentence.split()))


def test_a_file_without_rows_has_an_empty_summary_and_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "sets.parquet"
    # The time is over before the first run ends.
    corehop.measure("schedule-sensitive", on="xeon_x5650", output=path, tasks=20, budget="1ms")
    jobs = corehop.load(tmp_path / "sets.jobs.parquet")
    assert (len(jobs), len(jobs.summary()), jobs.summary().cells) == (0, 0, [])
    assert jobs.stopped_by == "budget" and jobs.sentence.endswith(".")
    assert isinstance(str(jobs) + jobs._repr_html_(), str)


def test_the_words_of_an_error_are_the_same_however_wide_the_program_folds_them(tmp_path: Path) -> None:
    with pytest.raises(corehop.Usage) as error:
        corehop.measure("synthetic", on="xeon_x5650", samples=1, replicates=180, wss="4KiB", output=tmp_path / "run.parquet")
    assert "\n" not in str(error.value) and "  " not in str(error.value)


def test_the_counts_of_a_study_are_loaded_like_any_other_file(tmp_path: Path) -> None:
    study = corehop.study(Path(__file__).parents[2] / "studies" / "bastoni-fig5", sets=2)
    path = study.save(tmp_path / "counts.parquet")
    counts = corehop.load(path)
    assert isinstance(counts, corehop.StudyResult)


def test_a_foreign_file_is_refused_by_its_format(tmp_path: Path) -> None:
    path = tmp_path / "set.xml"
    path.write_text("<?xml version='1.0'?><set/>", encoding="utf-8")
    with pytest.raises(corehop.Damaged, match="this is XML"):
        corehop.load(path)
