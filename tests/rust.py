#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds all Rust tests in the profile that is shipped, and runs them two at a time.

    tests/rust.py [NAME...]     all, or the test programs with these names

Programs that measure, load or change this host follow one another, and the others run beside them; those of `ALONE` run when nothing
else does. The output of a program is printed whole if it fails, and its skips with their reasons if it passes. The longest programs
start first, by the seconds of the run before (`target/seconds.json`).
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = ROOT / "target" / "seconds.json"
# Much above any: a program that hangs is ended, and the run goes on.
LIMIT = 1500

# Test programs that act on this host: one at a time.
ON_HOST = {
    "corehop": {
        "calibrated", "core_switch", "deploy", "deployment", "evidence", "faults", "gangs", "held_up", "measure", "observe", "offload",
        "overheads", "place", "platform", "program_arms", "program_costs", "questions", "recipes", "signals", "supply", "task_sets", "try_",
    },
    "corehop-linux": None,
    "corehop-shim": None,
    "corehop-switch": None,
}
# The longest ones, in seconds, where no run before says better.
LONG = {"corehop/recipes": 240, "corehop/place": 210, "corehop/calibrated": 80, "corehop-decide/corehop_decide": 80}
# What these measure is a few microseconds long.
ALONE = {("corehop-linux", "live")}


def built():
    """The test programs: package, name, path and the folder of the package."""
    command = ["cargo", "test", "--release", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]
    made = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    programs = []
    for line in made.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["profile"]["test"]:
            folder = Path(message["manifest_path"]).parent
            programs.append((folder.name, message["target"]["name"], message["executable"], folder))
    return programs


def unknown(programs):
    """Names in the lists above that no test program has."""
    known = {program[:2] for program in programs}
    listed = {(package, name) for package, names in ON_HOST.items() for name in names or ()} | ALONE
    return sorted("/".join(it) for it in listed | {tuple(it.split("/")) for it in LONG} if it not in known)


def acts_on_host(package, name):
    """Whether the program acts on this host."""
    names = ON_HOST.get(package, set())
    return names is None or name in names


class Run:
    """All programs, and the workers that take them."""

    def __init__(self, programs):
        self.before = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
        self.seconds = dict(self.before)
        self.failed = []
        self.mutex = threading.Lock()
        programs = sorted(programs, key=lambda it: -self.before.get(self.label(it), LONG.get(self.label(it), 30)))
        self.alone = [it for it in programs if it[:2] in ALONE]
        rest = [it for it in programs if it[:2] not in ALONE]
        self.on_host = [it for it in rest if acts_on_host(*it[:2])]
        self.others = [it for it in rest if not acts_on_host(*it[:2])]

    @staticmethod
    def label(program):
        """Package and name."""
        return f"{program[0]}/{program[1]}"

    def run(self, program):
        """Runs a program, and prints what it has to say."""
        begin = time.monotonic()
        environment = dict(os.environ, CARGO_MANIFEST_DIR=str(program[3]))
        # Into a file: a process that a test leaves behind may hold a pipe open.
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            try:
                ended = subprocess.run(
                    [program[2]], cwd=program[3], env=environment, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, timeout=LIMIT, check=False,
                )
                good = ended.returncode == 0
            except subprocess.TimeoutExpired:
                output.write(f"\nended after {LIMIT} s\n")
                good = False
            output.seek(0)
            text = output.read()
        taken = time.monotonic() - begin
        summary = [line for line in text.splitlines() if line.startswith("test result:")]
        skips = [line for line in text.splitlines() if "skipped" in line and not line.startswith("test ")]
        with self.mutex:
            self.seconds[self.label(program)] = round(taken, 1)
            print(f"{self.label(program)}: {taken:.1f} s: {summary[-1] if summary else 'no result'}", flush=True)
            print("".join(f"    {line}\n" for line in skips), end="", flush=True)
            if not good:
                self.failed.append(self.label(program))
                print(text, flush=True)

    def work(self, queues):
        """Takes programs from these queues in their order until they are empty."""
        for queue in queues:
            while True:
                with self.mutex:
                    program = queue.pop(0) if queue else None
                if program is None:
                    break
                self.run(program)

    def all(self):
        """Runs everything; the labels of the programs that failed."""
        workers = [
            threading.Thread(target=self.work, args=([self.on_host, self.others],)),
            threading.Thread(target=self.work, args=([self.others],)),
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.work([self.alone])
        SECONDS.write_text(json.dumps(self.seconds, indent=1, sort_keys=True))
        return self.failed


def main():
    """Builds, runs, and says how it went."""
    begin = time.monotonic()
    programs = built()
    print(f"built in {time.monotonic() - begin:.0f} s", flush=True)
    if unknown(programs):
        sys.exit(f"tests/rust.py lists programs that are not there: {', '.join(unknown(programs))}")
    if sys.argv[1:]:
        programs = [it for it in programs if it[1] in sys.argv[1:]]
    if not programs:
        sys.exit("no test program has such a name")
    begin = time.monotonic()
    failed = Run(programs).all()
    print(f"{len(programs)} test programs in {time.monotonic() - begin:.0f} s")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
