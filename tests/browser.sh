#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Opens the report and the documentation site (`make docs`) in a headless browser. Takes the folder of a virtual environment, which it makes
# if there is none; installs Debian's chromium if there is none and that is allowed.
set -eu
venv=${1:-.venv}
cd "$(dirname "$0")/.."
if ! command -v chromium >/dev/null 2>&1; then
    if [ "$(id -u)" != 0 ]; then
        echo "the report cannot be tested: no chromium; \`apt-get install chromium\` as root" >&2
        exit 1
    fi
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium
fi
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c "import playwright, pytest" 2>/dev/null ||
    "$venv/bin/python" -m pip install --quiet "playwright>=1.50,<2" "pytest>=8,<10"
"$venv/bin/python" -m pytest -q tests/browser
