# SPDX-License-Identifier: MIT OR Apache-2.0
"""Platforms: from the library, from files, from this host."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import corehop


def test_the_platforms_of_the_literature_come_with_the_package() -> None:
    assert {"xeon_l7455", "xeon_x5650"} <= set(corehop.Platform.names())
    for name in corehop.Platform.names():
        platform = corehop.platform(name)
        assert platform.id == name
        assert corehop.Platform(platform.to_toml()) == platform


def test_pairs_of_cpus_fall_into_classes_by_the_innermost_cache_they_share() -> None:
    # Four packages of six CPUs: pairs share an L2, a package shares an L3.
    xeon = corehop.platform("xeon_l7455")
    assert xeon.affinity(3, 3) == "preemption"
    assert xeon.affinity(0, 1) == xeon.affinity(1, 0) == "l2_migration"
    assert xeon.affinity(0, 5) == "l3_migration"
    assert xeon.affinity(0, 23) == "memory_migration"
    assert list(xeon.classes()) == ["preemption", "l2_migration", "l3_migration", "memory_migration"]
    assert all(xeon.affinity(*pair) == event for event, pair in xeon.classes().items())
    near = xeon.classes_from(0)
    assert near["l2_migration"] == [1]
    assert near["l3_migration"] == [2, 3, 4, 5]
    assert sum(map(len, near.values())) == len(xeon.cpus) == 24
    assert list(xeon.missing_classes()) == ["smt_migration"]


def test_a_platform_that_is_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    xeon = corehop.platform("xeon_x5650")
    path = xeon.save(tmp_path / "mine.toml")
    again = corehop.platform(path)
    assert (again, hash(again)) == (xeon, hash(xeon))
    assert again == corehop.platform(str(path))
    assert again != corehop.platform("xeon_l7455")
    assert again.to_dict()["id"] == "xeon_x5650"


def test_a_wrong_platform_file_is_an_error_that_names_file_line_and_fact(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    text = corehop.platform("xeon_l7455").to_toml()
    path.write_text(text.replace("schema = 1", "schema = 1\nclok = 3", 1))
    with pytest.raises(corehop.Damaged, match=r"wrong\.toml: line \d+, `clok`"):
        corehop.platform(path)
    with pytest.raises(corehop.Damaged, match="line"):
        corehop.Platform("nonsense")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml"):
        corehop.platform("nowhere.toml")


def test_an_unknown_platform_or_cpu_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(corehop.Usage, match="no platform is called `pdp11`: use one of .*xeon_l7455"):
        corehop.platform("pdp11")
    with pytest.raises(corehop.Usage, match="has no CPU 99; it has 0-23"):
        corehop.platform("xeon_l7455").affinity(0, 99)


def test_the_live_platform_is_this_host() -> None:
    host = corehop.platform()
    assert set(host.cpus) <= set(os.sched_getaffinity(0))
    assert set(host.classes()) | set(host.missing_classes()) >= {"preemption", "l3_migration"}
    shown = subprocess.run([corehop.binary(), "platform"], check=True, capture_output=True, text=True)
    # The program says the sentence first.
    assert shown.stdout.endswith(str(host))


def test_only_the_live_machine_can_be_measured(pretend: Callable[..., Any], tmp_path: Path) -> None:
    xeon = corehop.platform("xeon_x5650")
    program = pretend(leaves=xeon.save(tmp_path / "xeon.toml"))
    assert corehop.platform(measure=True) == xeon
    assert program.arguments[:2] == ["measure", "platform"]
    with pytest.raises(corehop.Usage, match="`xeon_x5650` cannot be measured from here"):
        corehop.platform("xeon_x5650", measure=True)


def test_a_notebook_shows_a_drawing_and_a_terminal_a_tree() -> None:
    xeon = corehop.platform("xeon_l7455")
    assert xeon._repr_svg_().startswith("<svg")
    assert "L3" in str(xeon)
    assert repr(xeon) == f"<corehop.Platform xeon_l7455: {xeon.name}, 24 usable CPUs>"
