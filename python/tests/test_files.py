# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that the package writes: whole, and over nothing that is there."""

import os
import sys
from pathlib import Path

import pytest

import corehop
from corehop import _files


def test_an_existing_file_is_overwritten_with_force_only(tmp_path: Path) -> None:
    xeon = corehop.platform("xeon_l7455")
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    with pytest.raises(corehop.Usage, match="force=True"):
        xeon.save(path)
    assert path.read_text() == "mine"
    xeon.save(path, force=True)
    assert path.read_text() == xeon.to_toml()
    assert os.listdir(tmp_path) == ["mine.toml"], "nothing is left behind"


def test_no_link_is_followed_and_an_empty_file_is_replaced(tmp_path: Path) -> None:
    secret, link, empty = (tmp_path / name for name in ("secret", "link", "empty"))
    secret.write_text("secret")
    link.symlink_to(secret)
    empty.touch()
    for force in (False, True):
        with pytest.raises(corehop.Usage, match="link"):
            _files.write(link, "mine", force=force)
    with pytest.raises(corehop.Usage, match="folder does not exist"):
        _files.write(tmp_path / "no" / "x", "mine")
    assert secret.read_text() == "secret"
    before = empty.stat().st_ino
    assert _files.write(empty, b"mine").read_bytes() == b"mine"
    assert empty.stat().st_ino != before, "a new file takes the name"


def test_standard_error_that_takes_nothing_loses_the_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        _files.say("lost\n")
        monkeypatch.setattr(sys, "stderr", None)
        _files.say("lost\n")
        # What is buffered cannot be written when the file is closed, either.
        full_number = os.open("/dev/null", os.O_WRONLY)
        os.dup2(full_number, full.fileno())
        os.close(full_number)
