#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Deploys random sets on this host, and counts the jobs that take longer than the bounds of their verdicts.

    tests/deploy-live.py BINARY FOLDER [SETS] [SECONDS] [SEED]

SETS (20) sets of five tasks with periods from 5 to 50 ms, which use at most half of each of two CPUs and are accepted with the supply and
the overheads of this host, run for SECONDS (180) under each load: idle, and beside programs that fill caches. Each runs under fixed
priorities and under SCHED_DEADLINE, on the CPUs of its verdict. (Root; EDF on single CPUs switches off the load balancing of the
machine for as long as a set runs.)

FOLDER keeps a line for each run in `runs.jsonl`, and a run that is interrupted goes on after the last one. The summary goes to
`summary.json` there and to stdout.
"""

import json
import platform
import random
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

TASKS, CPUS, MOST = 5, 2, 0.5
SCHEDULERS = ("p-fp", "p-edf")
# Sets that are drawn for one that is accepted.
DRAWS = 200


def drawn(stream: random.Random) -> dict[str, Any]:
    """A set that uses from 0.2 to 0.9 of what its CPUs may be used for."""
    used = stream.uniform(0.2, 0.9) * MOST * CPUS
    cuts = sorted(stream.uniform(0, used) for _ in range(TASKS - 1))
    shares = [high - low for low, high in zip([0.0, *cuts], [*cuts, used], strict=True)]
    tasks = []
    for at, share in enumerate(shares):
        period = round(5_000 * 10 ** stream.uniform(0, 1))
        tasks.append({"name": f"task{at}", "wcet_us": max(100, round(share * period)), "period_us": period})
    return {"cpus": CPUS, "tasks": tasks}


def used(set_: dict[str, Any]) -> float:
    """The share of the fullest CPU of a placed set."""
    shares = [0.0] * CPUS
    for task in set_["tasks"]:
        shares[task["cpus"][0]] += task["wcet_us"] / task["period_us"]
    return max(shares)


def measured(binary: str, folder: Path) -> list[str]:
    """The options with what this host costs, measured once for each scheduler."""
    supply = folder / "supply.parquet"
    if not supply.exists():
        subprocess.run([binary, "measure", "supply", "--watched", "60s", "--quiet", "-o", supply], check=True, stdout=subprocess.DEVNULL)
    return ["--supply", str(supply)]


def overheads(binary: str, folder: Path, scheduler: str) -> list[str]:
    """The overheads of so many threads under this scheduler."""
    file = folder / f"overheads-{scheduler}.csv"
    if not file.exists():
        words = [binary, "measure", "overheads", "--scheduler", scheduler, "--tasks", str(TASKS), "--allow-system", "--quiet"]
        subprocess.run([*words, "-o", file], check=True, stdout=subprocess.DEVNULL)
    return ["--overheads", str(file)]


def accepted(binary: str, folder: Path, scheduler: str, options: list[str], stream: random.Random) -> Path:
    """A set that this host can run with all deadlines met."""
    file, placed = folder / "set.json", folder / "accepted.json"
    for _ in range(DRAWS):
        file.write_text(json.dumps(drawn(stream)))
        words = [binary, "check", file, "--scheduler", scheduler, *options, "-o", placed, "--force", "--json"]
        asked = subprocess.run(words, capture_output=True, text=True)
        if asked.returncode == 0 and used(json.loads(placed.read_text())) <= MOST:
            return file
    sys.exit(f"none of {DRAWS} sets is accepted under {scheduler} on this host: see {folder}")


def deployed(binary: str, folder: Path, number: int, scheduler: str, seconds: int, seed: int) -> dict[str, Any]:
    """One set, run under both loads."""
    own = folder / f"{scheduler}-{number}"
    own.mkdir(exist_ok=True)
    options = measured(binary, folder) + overheads(binary, folder, scheduler)
    file = accepted(binary, own, scheduler, options, random.Random(f"{seed}/{number}/{scheduler}"))
    words = [binary, "check", "deploy", file, "--scheduler", scheduler, *options, "--folder", own, "--for", f"{seconds}s", "--allow-system"]
    ran = subprocess.run([*words, "--json"], capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        sys.exit(f"set {number} under {scheduler}: {ran.stderr.strip()}")
    answer = json.loads(ran.stdout)
    result = {"set": number, "scheduler": scheduler, "seed": seed, "seconds": seconds}
    result["tasks"] = [{**task, "period_us": given["period_us"]} for task, given in zip(answer["run"]["tasks"], json.loads(file.read_text())["tasks"], strict=True)]
    return {**result, "exceeding": answer["run"]["exceeding"], "stated": answer["verdict"].get("supply")}


def summary(runs: list[dict[str, Any]], longest_gap: float) -> dict[str, Any]:
    """Jobs above their bounds, and the bounds over the longest responses. A bound above the longest gap is also judged without it."""
    tasks = [task for run in runs for task in run["tasks"] if task["longest_us"]]
    ratios = sorted(task["ratio"] for task in tasks)
    judged = [max(task["bound_us"] - longest_gap, 0.0) / task["longest_us"] for task in tasks]
    causes: dict[str, int] = {}
    for job in (job for run in runs for job in run["exceeding"]):
        causes[job["cause"]] = causes.get(job["cause"], 0) + 1
    share = lambda values, most: sum(value <= most for value in values) / max(len(values), 1)  # noqa: E731
    return {
        "date": date.today().isoformat(),
        "kernel": platform.release(),
        "runs": len(runs),
        "jobs": sum(task["jobs"] for task in tasks),
        "jobs_above": sum(task["above"] for task in tasks),
        "causes": causes,
        "stated_beyond": max((run["stated"]["beyond_at_95_percent"] for run in runs if run["stated"]), default=None),
        "ratio_least_median_most": [ratios[0], ratios[len(ratios) // 2], ratios[-1]] if ratios else None,
        "ratio_within_1.5": share(ratios, 1.5),
        "ratio_within_3": share(ratios, 3.0),
        "without_the_longest_gap_within_3": share(judged, 3.0),
    }


def longest_gap(binary: str, supply: Path) -> float:
    """The longest gap of any CPU, in microseconds."""
    shown = subprocess.run([binary, "report", supply, "--table", "json"], capture_output=True, text=True, check=True)
    rows = (row for table in json.loads(shown.stdout)["tables"] for row in table["rows"])
    return max((float(row["largest gap µs"]) for row in rows if "largest gap µs" in row), default=0.0)


def main() -> None:
    binary, folder = sys.argv[1], Path(sys.argv[2])
    sets, seconds, seed = (int(word) for word in (*sys.argv[3:6], *("20", "180", "1")[len(sys.argv) - 3 :]))
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "runs.jsonl"
    runs = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {(run["set"], run["scheduler"]) for run in runs}
    for number in range(sets):
        for scheduler in SCHEDULERS:
            if (number, scheduler) in done:
                continue
            run = deployed(binary, folder, number, scheduler, seconds, seed)
            with log.open("a") as file:
                file.write(json.dumps(run) + "\n")
            runs.append(run)
            above = sum(task["above"] for task in run["tasks"])
            print(f"set {number} under {scheduler}: {above} of {sum(task['jobs'] for task in run['tasks'])} jobs above their bounds", flush=True)
    result = summary(runs, longest_gap(binary, folder / "supply.parquet"))
    (folder / "summary.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
