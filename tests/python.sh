#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs the Python package as a user would, then checks its types, its stub and what it does.
# Takes the folder of a virtual environment, which it makes if there is none.
set -eu
venv=${1:-.venv}
cd "$(dirname "$0")/.."
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
PATH="$(cd "$venv/bin" && pwd):$PATH"
export PATH PIP_DISABLE_PIP_VERSION_CHECK=1
pip install --quiet -r python/requirements-dev.txt
# maturin is there already: without isolation pip does not fetch it once more.
pip install --quiet --no-build-isolation --no-deps --force-reinstall .
cd python
mypy
stubtest --concise --mypy-config-file pyproject.toml corehop
pytest -q
