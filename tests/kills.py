#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sends signals to every verb and kills runs, at random instants, and counts what is lost or left behind: nothing may be.

    tests/kills.py BINARY [KILLS] [SEED] [INSTANTS]

First each command line of `signals.txt` gets SIGINT, SIGTERM and SIGHUP at INSTANTS (20) random instants each. It must end
within a second, by itself or with exit code 130, and leave no process, no unfinished file but `FILE.part`, and no journal.

Then each round starts two runs that change the cpusets of the host (with --allow-system), and ends both with SIGKILL:
the run, its supervisor, or both. Then every row of the streams must be readable, `--resume` must keep each of
them, and the settings of the host must be back, by the supervisor or by `corehop doctor restore`.
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


def commands() -> list[tuple[str, list[str]]]:
    """The command lines of `signals.txt`, each with its name."""
    lines = (Path(__file__).parent / "signals.txt").read_text().splitlines()
    split = (line.split(": ", 1) for line in lines if not line.startswith("#"))
    return [(name, words.split(" ")) for name, words in split]


def endless_plan(binary: str, file: Path) -> None:
    """The plan of a simulated gang whose rounds would take years."""
    words = "measure shared-data --on xeon_x5650 --samples 2 --dry-run --json".split()
    plan = json.loads(subprocess.run([binary, *words], capture_output=True, text=True, check=True).stdout)
    for gang in plan["gangs"]["gangs"]:
        gang["rounds"] = 1 << 31
    file.write_text(json.dumps(plan))


def journals() -> set[str]:
    """The journals of changes of this user's runs."""
    folders = (Path("/run/corehop"), Path(f"/run/user/{os.geteuid()}/corehop"), Path(f"/tmp/corehop-{os.geteuid()}"))
    return {str(path) for folder in folders for path in folder.glob("*.journal")}


def helpers_of(group: int) -> list[str]:
    """The processes of a session that are still there."""
    left = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(") ")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(session) == group and state not in "ZX":
            left.append(stat.parent.name)
    return left


def signalled(binary: str, words: list[str], folder: Path, number: int, after: float) -> tuple[float | None, str]:
    """Sends one signal to one command: the seconds to its end (None if it had ended before), and what was left behind."""
    out = folder / "out"
    out.mkdir()
    places = {"root": Path(__file__).parent.parent, "out": out, "pipe": folder / "pipe", "plan": folder / "plan.json"}
    filled = [word.format(**places) for word in words]
    before = journals()
    quiet = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen([binary, *filled], start_new_session=True, **quiet)
    time.sleep(after)
    early = process.poll() is not None
    if not early:
        process.send_signal(number)
    begun = time.monotonic()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    took = time.monotonic() - begun
    said = process.stderr.read().decode(errors="replace").strip()
    assert process.returncode != 2, f"{' '.join(filled)}: {said}"
    left = [path.name for path in out.iterdir() if path.suffix == ".tmp"]
    # The supervisor ends soon after the run.
    until = time.monotonic() + 5
    while (gone := helpers_of(process.pid) + sorted(journals() - before)) and time.monotonic() < until:
        time.sleep(0.02)
    subprocess.run(["rm", "-r", out], check=True)
    return None if early else took, " ".join(left + gone)


def send_signals(binary: str, instants: int, draw: random.Random) -> bool:
    """Sends every signal to every command line at random instants, and prints a table. Whether all was well."""
    well = True
    print(f"{'command line':36} {'sent':>5} {'early':>5} {'late':>5} {'longest':>8}  left behind")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.mkfifo(folder / "pipe")
        endless_plan(binary, folder / "plan.json")
        for line, words in commands():
            ends, left = [], set()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                for _ in range(instants):
                    took, behind = signalled(binary, words, folder, number, draw.uniform(0.0, 2.0))
                    ends.append(took)
                    left |= {behind} - {""}
            taken = [took for took in ends if took is not None]
            late = sum(took > 1 for took in taken)
            longest = f"{max(taken, default=0) * 1000:.0f} ms"
            early = len(ends) - len(taken)
            print(f"{line:36} {len(taken):5} {early:5} {late:5} {longest:>8}  {'; '.join(left)}", flush=True)
            well &= late == 0 and not left
    return well


def main() -> None:
    binary = os.path.abspath(sys.argv[1])
    kills = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    draw = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    well = send_signals(binary, int(sys.argv[4]) if len(sys.argv) > 4 else 20, draw)
    if os.geteuid() != 0 or not BALANCE.exists() or changed():
        print("kills: skipped: needs root, and cpusets of version 1 as the system made them")
        sys.exit(not well)
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
    sys.exit(seen["lost"] + seen["left"] > 0 or not well)


if __name__ == "__main__":
    main()
