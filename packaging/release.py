#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes a release from a static program, all with the version in Cargo.toml, and checks it.

    packaging/release.py PROGRAM FOLDER     write the program, the wheel, the Debian package, the SBOM, licences and checksums
    packaging/release.py --check FOLDER     verify the checksums, unpack and install everything, and run it
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from components import ROOT, Components, output

WORK = ROOT / "target" / "packaging"
SUMS = "SHA256SUMS"
# How long the installation of the wheel may take, in seconds.
INSTALLED_WITHIN = 10

CONTROL = """Package: corehop
Version: {version}
Architecture: amd64
Maintainer: The corehop contributors
Section: devel
Priority: optional
Installed-Size: {kib}
Description: measure what preemptions and migrations cost
 corehop measures what a preemption or a migration of a thread costs on this machine,
 and computes what these costs do to a schedule: whether task sets meet their deadlines,
 where threads should run, and whether a change made a program slower.
"""


def version():
    """The version of the workspace."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def names():
    """The files of a release, without the checksums and the wheel, whose name has the tag of its platform."""
    program = f"corehop-{version()}-x86_64-linux"
    return program, f"corehop_{version()}_amd64.deb", f"corehop-{version()}.cdx.json", f"corehop-{version()}-licences.txt"


def run(*command, **named):
    """Runs a command, and ends if the command fails."""
    subprocess.run([str(word) for word in command], check=True, **named)


def environment_for_python():
    """A virtual environment with the build requirements of the wheel, which are pinned."""
    venv = WORK / "venv"
    requires = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["build-system"]["requires"]
    if not (venv / "bin" / "maturin").exists():
        run(sys.executable, "-m", "venv", venv)
    run(venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *requires)
    return venv / "bin"


def wheel(program, folder):
    """Builds the wheel for the oldest manylinux platform that its extension fits: maturin checks that."""
    tools = environment_for_python()
    scripts = ROOT / "python" / "corehop.data" / "scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, scripts / "corehop")
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    # The features are those of `pip install .`, so that both share one compilation.
    run(tools / "maturin", "build", "--release", "--auditwheel", "check", "--features", "program", "--interpreter",
        tools / "python", "--out", folder, cwd=ROOT / "python", env=dict(os.environ, PATH=path))


def debian(program, licences, epoch, target):
    """Builds the Debian package around the static program, which depends on no other package."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made) / "corehop"
        run(ROOT / "packaging" / "install.sh", program, root / "usr", stdout=subprocess.DEVNULL)
        for page in (root / "usr" / "share" / "man").rglob("*.1"):
            page.with_name(page.name + ".gz").write_bytes(gzip.compress(page.read_bytes(), mtime=epoch))
            page.unlink()
        documents = root / "usr" / "share" / "doc" / "corehop"
        documents.mkdir(parents=True)
        (documents / "changelog.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=epoch))
        own = "".join((ROOT / name).read_text() + "\n" for name in ["LICENSE-MIT", "LICENSE-APACHE"])
        (documents / "copyright").write_text(f"corehop is under the MIT licence or Apache-2.0, at your choice.\n\n{own}\n{licences}")
        kib = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) // 1024
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN" / "control").write_text(CONTROL.format(version=version(), kib=kib))
        run("chmod", "-R", "u=rwX,go=rX", root)
        command = ["dpkg-deb", "--root-owner-group", "--build", root, target]
        run(*command, env=dict(os.environ, SOURCE_DATE_EPOCH=str(epoch)), stdout=subprocess.DEVNULL)


def build(program, folder):
    """Writes all files of the release into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # The time of the last commit, so that the same sources make the same files.
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct"))
    alone, package, sbom, licences = names()
    shutil.copy(program, folder / alone)
    wheel(program, folder)
    components = Components()
    (folder / sbom).write_text(json.dumps(components.sbom(version(), epoch), indent=1) + "\n")
    (folder / licences).write_text(components.licences())
    debian(program, components.licences(), epoch, folder / package)
    files = sorted(file for file in folder.iterdir())
    (folder / SUMS).write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))


def digest(file):
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def expect(good, what):
    """Ends with a sentence if something is not as it has to be."""
    if not good:
        sys.exit(f"packaging/release.py: {what}")


def says_version(*program, **named):
    """Ends unless the program prints the version of the release."""
    said = subprocess.run([*program, "--version"], capture_output=True, check=False, text=True, **named).stdout.strip()
    expect(said == f"corehop {version()}", f"{program[0]} says `{said}`, expected version {version()}")


def check_sums(folder):
    """Every file has its checksum, and there is no other file."""
    listed = dict(reversed(line.split("  ", 1)) for line in (folder / SUMS).read_text().splitlines())
    there = {file.name for file in folder.iterdir()} - {SUMS}
    expect(set(listed) == there, f"{SUMS} lists {sorted(listed)}, the folder has {sorted(there)}")
    for name, checksum in listed.items():
        expect(digest(folder / name) == checksum, f"{name} does not have its checksum")
    expect(set(names()) <= there, f"a file is missing: {sorted(set(names()) - there)}")


def check_debian(package, scratch):
    """The package unpacks, runs, and has its pages, completions and terms."""
    expect(output("dpkg-deb", "--field", package, "Version").strip() == version(), f"{package.name} has another version")
    run("dpkg-deb", "--extract", package, scratch)
    says_version(scratch / "usr" / "bin" / "corehop")
    share = scratch / "usr" / "share"
    for file in ["man/man1/corehop.1.gz", "bash-completion/completions/corehop", "zsh/site-functions/_corehop", "doc/corehop/copyright"]:
        expect((share / file).is_file(), f"{package.name} lacks /usr/share/{file}")


def check_wheel(folder, scratch):
    """The wheel installs into an empty environment in seconds; its program and its module work."""
    wheels = list(folder.glob("*.whl"))
    expect(len(wheels) == 1, f"there are {len(wheels)} wheels")
    expect("-abi3-manylinux_" in wheels[0].name, f"{wheels[0].name} is not tagged for abi3 and manylinux")
    run(sys.executable, "-m", "venv", scratch)
    begin = time.monotonic()
    run(scratch / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", wheels[0])
    taken = time.monotonic() - begin
    expect(taken <= INSTALLED_WITHIN, f"pip took {taken:.1f} s to install the wheel, more than {INSTALLED_WITHIN} s")
    says_version(scratch / "bin" / "corehop")
    run(scratch / "bin" / "python", "-c", "import corehop._corehop", cwd=scratch)
    return taken


def check_components(folder):
    """The SBOM names all packages of the lock file that are built, and the licences name each package of others."""
    _, _, sbom, licences = names()
    stated = json.loads((folder / sbom).read_text())
    expect(stated["metadata"]["component"]["version"] == version(), f"{sbom} is of another version")
    found, components = {component["purl"] for component in stated["components"]}, Components()
    text = (folder / licences).read_text()
    for package in components.foreign():
        name = f"{package['name']} {package['version']}"
        expect(f"pkg:cargo/{name.replace(' ', '@')}" in found, f"{sbom} lacks {name}")
        expect(f"\n{name} (" in text, f"{licences} lacks {name}")
    return len(found)


def check(folder):
    """Checks a release."""
    check_sums(folder)
    says_version(folder / names()[0])
    with tempfile.TemporaryDirectory() as made:
        check_debian(folder / names()[1], Path(made) / "debian")
        taken = check_wheel(folder, Path(made) / "venv")
    components = check_components(folder)
    print(f"the release of corehop {version()} in {folder} is whole: {components} components, the wheel installs in {taken:.1f} s")


def main():
    """Builds or checks, as the arguments say."""
    match sys.argv[1:]:
        case ["--check", folder]:
            check(Path(folder).resolve())
        case [program, folder] if not program.startswith("-"):
            build(Path(program).resolve(), Path(folder).resolve())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
