# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files, read in process, and handed on as Arrow tables."""

import shutil
from pathlib import Path

import pandas
import polars
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

import corehop

DATA = Path(__file__).parent / "data"
#: A file from before checksums.
OLD = Path(__file__).parents[2] / "crates/corehop/tests/before-checksums/quick.parquet"


def unverified(path: Path) -> corehop.Result:
    """A file without checksums, of which `load` warns."""
    with pytest.warns(UserWarning, match="not verified: written by another program or before checksums"):
        result = corehop.load(path)
    assert not result.verified and "not verified" in repr(result)
    return result


def test_a_file_from_before_checksums_is_read_and_not_verified(quick: corehop.Result) -> None:
    old = unverified(OLD)
    assert quick.verified and quick.doubts == []
    assert old.provenance == quick.provenance
    assert pyarrow.table(old).equals(pyarrow.table(quick))


def addresses(table: pyarrow.Table) -> list[int]:
    """The addresses of the buffers of a table's numbers."""
    column = table.column("warm_ns")
    return [chunk.buffers()[1].address for chunk in column.chunks]


def test_a_result_has_what_another_reader_of_the_same_file_finds(quick: corehop.Result) -> None:
    other = pyarrow.parquet.read_table(DATA / "quick.parquet")
    ours = pyarrow.table(quick)
    assert ours.schema.equals(other.schema)
    assert ours.equals(other)


def test_rows_that_another_library_has_written_are_still_ours(quick: corehop.Result, tmp_path: Path) -> None:
    path = tmp_path / "valid.parquet"
    table = pyarrow.table(quick)
    pyarrow.parquet.write_table(table.filter(pyarrow.compute.field("valid")), path)
    valid = unverified(path)
    assert len(valid) == sum(quick.column("valid"))
    assert valid.provenance == quick.provenance
    assert valid.summary().column("p50_us") == quick.summary().column("p50_us")


def test_polars_pandas_and_plain_lists_agree(quick: corehop.Result) -> None:
    frame = polars.DataFrame(quick)
    panda = pyarrow.table(quick).to_pandas()
    assert frame.height == len(panda) == len(quick)
    assert frame.columns == list(panda.columns) == list(quick.columns)
    for name in ("warm_ns", "event", "valid", "disturbed_by", "switch_ns", "misses_warm"):
        assert frame[name].to_list() == quick.column(name)
    assert panda["resumed_ns"].to_list() == quick.column("resumed_ns")
    assert pandas.DataFrame.from_arrow(quick).shape == panda.shape


def test_nothing_is_copied_on_the_way_out(quick: corehop.Result) -> None:
    first, second = pyarrow.table(quick), pyarrow.table(quick)
    assert addresses(first) == addresses(second)
    through_polars = polars.DataFrame(first).to_arrow()
    assert addresses(through_polars) == addresses(first)


def test_a_table_outlives_the_result_it_came_from() -> None:
    table = pyarrow.table(corehop.load(DATA / "quick.parquet"))
    again = pyarrow.table(corehop.load(DATA / "quick.parquet"))
    assert table.equals(again)


def test_the_schema_says_what_the_stream_holds(quick: corehop.Result) -> None:
    assert pyarrow.schema(quick) == pyarrow.table(quick).schema


def test_every_column_is_explained(quick: corehop.Result, access: corehop.Result, lengths: corehop.Result) -> None:
    for result in (quick, access, lengths):
        assert list(result.columns) == pyarrow.table(result).column_names
        assert all(len(meaning) > 5 for meaning in result.columns.values())


def test_a_result_knows_where_it_comes_from(quick: corehop.Result) -> None:
    assert (quick.kind, quick.experiment, quick.seed) == ("samples", "synthetic", 1)
    assert quick.provenance["corehop"] == corehop.__version__
    assert quick.platform.cpus
    assert quick.plan is not None
    assert len(quick.plan["cells"]) == len(set(quick.column("cell")))
    assert quick.stopped_by is None
    assert not quick.truncated
    assert quick.schema_version == 1


def test_other_experiments_have_their_own_rows(access: corehop.Result, lengths: corehop.Result) -> None:
    assert access.kind == "access_time"
    assert "access_ns" in access.columns
    assert lengths.kind == "preemption_length"
    assert "requested_length_ns" in lengths.columns


def test_a_part_that_a_crash_has_torn_off_is_read_as_far_as_it_goes(
    quick: corehop.Result, tmp_path: Path
) -> None:
    whole = pyarrow.table(quick)
    part = tmp_path / "run.parquet.part"
    with pyarrow.OSFile(str(part), "wb") as out, pyarrow.ipc.new_stream(out, whole.schema) as stream:
        stream.write_table(whole.slice(0, 30))
        stream.write_table(whole.slice(30))
    torn = tmp_path / "torn.part"
    torn.write_bytes(part.read_bytes()[:-2000])
    assert len(unverified(part)) == len(quick)
    assert not unverified(part).truncated
    rest = unverified(torn)
    assert (len(rest), rest.truncated) == (30, True)
    assert rest.column("warm_ns") == quick.column("warm_ns")[:30]
    assert "torn off" in repr(rest)


def test_a_file_without_rows_has_columns_all_the_same(quick: corehop.Result, tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pyarrow.parquet.write_table(pyarrow.table(quick).slice(0, 0), path)
    empty = unverified(path)
    assert len(empty) == 0
    assert pyarrow.table(empty).column_names == list(empty.columns)
    assert set(empty.columns) >= set(quick.columns)
    assert len(empty.summary()) == 0
    assert empty.column("warm_ns") == []


def test_no_file_is_an_error_that_names_it() -> None:
    with pytest.raises(FileNotFoundError) as error:
        corehop.load("nowhere/quick.parquet")
    assert error.value.filename == "nowhere/quick.parquet"
    with pytest.raises(IsADirectoryError, match="data"):
        corehop.load(DATA)


def test_a_file_that_is_not_ours_is_an_error_that_says_so(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("nothing of the kind")
    with pytest.raises(corehop.Damaged, match=r"notes\.txt: this is not a corehop file"):
        corehop.load(text)
    strange = tmp_path / "strange.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), strange)
    with pytest.raises(corehop.Damaged, match="lacks our metadata"):
        corehop.load(strange)
    with pytest.raises(ValueError, match="not a corehop file"):
        corehop.load(text)


def test_a_change_of_any_byte_of_a_result_is_an_error(tmp_path: Path) -> None:
    sound, changed = tmp_path / "sound.parquet", tmp_path / "changed.parquet"
    corehop.measure("synthetic", on="xeon_x5650", wss="4KiB", load="idle", samples=4, output=sound)
    before = sound.read_bytes()
    for at in range(0, len(before), max(1, len(before) // 200)):
        after = bytearray(before)
        after[at] ^= 1 << at % 8
        changed.write_bytes(after)
        with pytest.raises(corehop.Damaged):
            corehop.load(changed)


def test_a_torn_parquet_file_is_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    torn = tmp_path / "torn.parquet"
    shutil.copy(DATA / "quick.parquet", torn)
    torn.write_bytes(torn.read_bytes()[:-100])
    with pytest.raises(corehop.Damaged, match=r"torn\.parquet: this file is damaged.*--salvage"):
        corehop.load(torn)


def test_a_file_of_a_later_version_is_refused(quick: corehop.Result, tmp_path: Path) -> None:
    table = pyarrow.table(quick)
    later = tmp_path / "later.parquet"
    metadata = {**table.schema.metadata, b"corehop.schema": b"99"}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), later)
    with pytest.raises(corehop.Damaged, match="schema 99.*newer corehop"):
        corehop.load(later)


def test_a_column_that_is_missing_is_named(quick: corehop.Result, tmp_path: Path) -> None:
    table = pyarrow.table(quick)
    poor = tmp_path / "poor.parquet"
    pyarrow.parquet.write_table(table.drop_columns(["warm_ns"]), poor)
    read = unverified(poor)
    with pytest.raises(corehop.Damaged, match="`warm_ns` is missing"):
        read.summary()
    with pytest.raises(KeyError, match="warmth"):
        quick.column("warmth")
