#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Kills runs at random instants, two at once, and counts what is lost or left behind: nothing may be.

    tests/kills.py BINARY [KILLS] [SEED]

Each round starts two runs that change the cpusets of the host (with --allow-system), and ends both with SIGKILL:
the run, its supervisor, or both. Then every row of the streams must be readable, `--resume` must keep each of
them, and the settings of the host must be back, by the supervisor or by `corehop doctor --restore`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BALANCE = Path("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance")
RUN = (
    "measure schedule-sensitive --tasks 4 --sets 2 --wss 16KiB --share 20% --load idle --scheduler p-edf "
    "--allow-system --duration 2s --quiet"
).split()


def changed() -> list[str]:
    """The settings that a run has changed and not taken back."""
    groups = [str(path) for path in BALANCE.parent.glob("corehop-*")]
    return groups + ([str(BALANCE)] if BALANCE.read_text().strip() != "1" else [])


def supervisor_of(pid: int) -> int | None:
    """The supervisor of a run: its child of that name."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            facts = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if facts["Name"] == "corehop-guard" and int(facts["PPid"]) == pid:
            return int(facts["Pid"])
    return None


def rows(binary: str, file: Path) -> list[str]:
    """The rows of a result or a stream, as lines of JSON."""
    if not file.exists():
        return []
    shown = subprocess.run([binary, "show", "--rows", "1000000", file], capture_output=True, text=True)
    if shown.returncode == 4 and "empty" in shown.stderr:
        return []
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.splitlines()


def eventually_back(binary: str, restore: bool) -> bool:
    """Whether the host is as before; where both processes of a run were killed, a restoration is due."""
    begun = time.monotonic()
    while changed():
        if restore:
            subprocess.run([binary, "doctor", "--restore"], capture_output=True, check=False)
        if time.monotonic() - begun > 30:
            return False
        time.sleep(0.05)
    return True


def main() -> None:
    binary = os.path.abspath(sys.argv[1])
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    if os.geteuid() != 0 or not BALANCE.exists() or changed():
        print("kills: skipped: needs root, and cpusets of version 1 as the system made them")
        return
    seen = {"kills": 0, "rows": 0, "lost": 0, "left": 0, "both": 0, "resumed": 0}
    with tempfile.TemporaryDirectory() as folder:
        while seen["kills"] < kills:
            files = [Path(folder, f"{seen['kills']}-{number}.parquet") for number in range(2)]
            runs = [subprocess.Popen([binary, *RUN, "-o", file], stderr=subprocess.DEVNULL) for file in files]
            time.sleep(draw.uniform(0.05, 3.0))
            whole = False
            for run in runs:
                victims = draw.choice([(run.pid,), (run.pid, supervisor_of(run.pid)), (supervisor_of(run.pid), run.pid)])
                whole |= len(victims) > 1
                for pid in filter(None, victims):
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                seen["kills"] += 1
                seen["both"] += len(victims) > 1
            for run in runs:
                run.wait()
            if not eventually_back(binary, whole):
                seen["left"] += 1
                print("left behind:", *changed(), file=sys.stderr)
            for file in files:
                jobs = file.with_suffix(".jobs.parquet")
                part = Path(f"{jobs}.part")
                before = rows(binary, part) or rows(binary, jobs)
                seen["rows"] += len(before)
                if not before:
                    continue
                again = subprocess.run([binary, *RUN, "--resume", "-o", file], capture_output=True, text=True)
                after = rows(binary, jobs)
                seen["resumed"] += again.returncode == 0
                seen["lost"] += len(set(before) - set(after))
    print(json.dumps(seen))
    sys.exit(seen["lost"] + seen["left"] > 0)


if __name__ == "__main__":
    main()
