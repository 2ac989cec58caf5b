# SPDX-License-Identifier: MIT OR Apache-2.0
"""The wheel: what is in it."""

import importlib.metadata
import os
import re
import sysconfig
from pathlib import Path

import corehop

PACKAGE = Path(__file__).parents[1]


def test_program_and_extension_are_installed_together() -> None:
    program = Path(sysconfig.get_path("scripts"), "corehop")
    if "COREHOP_BINARY" not in os.environ:
        assert corehop.binary() == program
    assert os.access(program, os.X_OK)
    files = importlib.metadata.files("corehop") or []
    names = {Path(file).name for file in files}
    assert {"py.typed", "_corehop.pyi", "_corehop.abi3.so", "corehop"} <= names


def test_one_version_for_all() -> None:
    assert importlib.metadata.version("corehop") == corehop.__version__


def test_one_maturin_wherever_it_is_built_from() -> None:
    files = [PACKAGE.parent / "pyproject.toml", PACKAGE / "pyproject.toml", PACKAGE / "requirements-dev.txt"]
    versions = [re.findall(r"maturin==([0-9.]+)", file.read_text()) for file in files]
    assert versions == [versions[0]] * 3 and len(versions[0]) == 1
