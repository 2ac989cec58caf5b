# SPDX-License-Identifier: MIT OR Apache-2.0
"""The build backend (PEP 517): cargo for the program, maturin for the extension and the wheel.

It serves the checkout's root as well as this folder. Both parts are built in the workspace's own
target folder, with the same features of every crate that both contain: the extension compiles only
what the program does not have.
`COREHOP_BINARY=FILE` puts that program into the wheel instead, for instance the static one of
`make dist`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    get_maturin_pep517_args,
    get_requires_for_build_editable,
    get_requires_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parent
SCRIPTS = HERE / "corehop.data" / "scripts"
START = Path.cwd()


# maturin wants the folder to be there even where it only asks for the metadata.
SCRIPTS.mkdir(parents=True, exist_ok=True)


def build_wheel(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """Builds the program, then the wheel around it."""
    bring_program()
    return str(maturin.build_wheel(from_here(directory), beside_program(settings), from_here(metadata)))


def build_editable(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """The same with the Python files left where they are."""
    bring_program()
    return str(maturin.build_editable(from_here(directory), beside_program(settings), from_here(metadata)))


def prepare_metadata_for_build_wheel(directory: str, settings: Any = None) -> str:
    """Writes the metadata alone."""
    return str(maturin.prepare_metadata_for_build_wheel(from_here(directory), settings))


def prepare_metadata_for_build_editable(directory: str, settings: Any = None) -> str:
    """The same."""
    return str(maturin.prepare_metadata_for_build_editable(from_here(directory), settings))


def build_sdist(directory: str, settings: Any = None) -> str:
    """Refuses: a source distribution of this folder alone would lack the program's crates."""
    raise SystemExit("corehop has no source distribution: build a wheel from a checkout")


def from_here(path: str | None) -> str | None:
    """Goes to this folder, where maturin looks for its settings, and names `path` from here."""
    os.chdir(HERE)
    return path and str(START / path)


def beside_program(settings: Any) -> dict[str, Any]:
    """Adds the features with which the program was built, if it was built here."""
    features = [] if given_program() else ["--features", "program"]
    return dict(settings or {}) | {"maturin.build-args": [*get_maturin_pep517_args(settings), *features]}


def bring_program() -> None:
    """Puts the program where maturin takes the wheel's scripts from."""
    shutil.copy(given_program() or built_program(), SCRIPTS / "corehop")
    (SCRIPTS / "corehop").chmod(0o755)


def given_program() -> Path | None:
    """The program that the environment names, if it names one."""
    given = os.environ.get("COREHOP_BINARY")
    if given and not os.access(given, os.X_OK):
        raise SystemExit(f"COREHOP_BINARY={given}: this is not an executable file")
    return Path(given) if given else None


def built_program() -> Path:
    """The program, built in the workspace this folder belongs to."""
    if not (WORKSPACE / "crates" / "corehop").is_dir():
        raise SystemExit(f"{WORKSPACE} is not a checkout of corehop: build the wheel inside of one")
    if shutil.which("cargo") is None:
        raise SystemExit("cargo is needed to build corehop: https://rustup.rs")
    release = WORKSPACE / os.environ.get("CARGO_TARGET_DIR", "target") / "release"
    carried = os.environ | {"COREHOP_SHIM": str(release / "libcorehop_shim.so")}
    subprocess.run(["cargo", "shim"], cwd=WORKSPACE, check=True)
    # The extension is named for its features alone: cargo builds the program.
    command = ["cargo", "build", "--release", "--locked", "-p", "corehop", "--bin", "corehop"]
    command += ["-p", "corehop-python", "--features", "corehop-python/program"]
    subprocess.run(command, cwd=WORKSPACE, check=True, env=carried)
    return release / "corehop"
