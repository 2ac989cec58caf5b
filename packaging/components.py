# SPDX-License-Identifier: MIT OR Apache-2.0
"""The packages that a release contains, from cargo's metadata: as an SBOM (CycloneDX), and with their licences as one text."""

import json
import os
import subprocess
import tomllib
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "x86_64-unknown-linux-gnu"
# The roots of what a release builds: the program, the extension, and the library that the program carries.
BUILT = ("corehop", "corehop-python", "corehop-shim")
# Names of files with terms, as crates have them.
TERMS = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def output(*command):
    """What a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


class Components:
    """All packages that the release is built from, without those of tests."""

    def __init__(self):
        metadata = json.loads(output("cargo", "metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform", PLATFORM))
        self.by_id = {package["id"]: package for package in metadata["packages"]}
        self.needs = {node["id"]: needed(node) for node in metadata["resolve"]["nodes"]}
        self.roots = [id for id, package in self.by_id.items() if package["name"] in BUILT and package["source"] is None]
        self.ids = self.reached()
        lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
        self.sums = {(package["name"], package["version"]): package.get("checksum") for package in lock}

    def reached(self):
        """The packages that the roots need, by name and version."""
        found, waiting = set(), list(self.roots)
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += self.needs[one]
        return sorted(found, key=lambda id: (self.by_id[id]["name"], self.by_id[id]["version"]))

    def foreign(self):
        """The packages that others wrote."""
        return [self.by_id[id] for id in self.ids if self.by_id[id]["source"]]

    def sbom(self, version, epoch):
        """The SBOM as a CycloneDX 1.5 object. `epoch` is the time of the release in seconds."""
        listed = [self.component(self.by_id[id]) for id in self.ids] + [runtime for runtime, _ in runtimes()]
        graph = [
            {"ref": purl(self.by_id[id]), "dependsOn": sorted({purl(self.by_id[other]) for other in self.needs[id]})}
            for id in self.ids
        ]
        top = {"type": "application", "bom-ref": "corehop-release", "name": "corehop", "version": version}
        begin = {"ref": "corehop-release", "dependsOn": sorted(purl(self.by_id[id]) for id in self.roots)}
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([version, epoch, listed]))}",
            "version": 1,
            "metadata": {"timestamp": stamp(epoch), "component": top},
            "components": listed,
            "dependencies": [begin, *graph],
        }

    def component(self, package):
        """A package as a component of an SBOM."""
        made = {
            "type": "library",
            "bom-ref": purl(package),
            "name": package["name"],
            "version": package["version"],
            "purl": purl(package),
            "licenses": [{"expression": expression(package)}],
        }
        checksum = self.sums.get((package["name"], package["version"]))
        return made | ({"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {})

    def licences(self):
        """The terms of all packages of others as one text; each text stands once, below the packages that have it."""
        texts = {}
        for package in self.foreign():
            for text in terms(package) or [f"The package has no file with its terms. They are: {expression(package)}."]:
                texts.setdefault(text, []).append(f"{package['name']} {package['version']} ({expression(package)})")
        for runtime, files in runtimes():
            for file in files:
                texts.setdefault(file.read_text(errors="replace").strip(), []).append(f"{runtime['name']} {runtime['version']}")
        rule = "=" * 100
        parts = [f"{rule}\n" + "\n".join(names) + f"\n{rule}\n\n{text}\n" for text, names in texts.items()]
        return "corehop contains software by others, under these licences.\n\n" + "\n".join(parts)


def needed(node):
    """The packages that a package needs to be built and to run: not those of its tests."""
    def is_built(dependency):
        return any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])

    return [dependency["pkg"] for dependency in node["deps"] if is_built(dependency)]


def runtimes():
    """The libraries that the static program carries beside packages: components, and the files with their terms."""
    rust = output("rustc", "--version").split()[1]
    sysroot = Path(output("rustc", "--print", "sysroot").strip()) / "share" / "doc" / "rust"
    libc = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    rust_files = [file for file in [sysroot / "COPYRIGHT-library.html"] if file.exists()]
    libc_files = [file for file in [Path("/usr/share/doc/libc6-dev/copyright"), Path("/usr/share/doc/libc6/copyright")] if file.exists()][:1]
    return [
        (runtime("rust-std", rust, "MIT OR Apache-2.0"), rust_files),
        (runtime("glibc", libc, "LGPL-2.1-or-later"), libc_files),
    ]


def runtime(name, version, licence):
    """A library of the system or of the compiler as a component."""
    purl = f"pkg:generic/{name}@{version}"
    return {
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
        "licenses": [{"expression": licence}],
    }


def purl(package):
    """The package's URL, its name in an SBOM."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def expression(package):
    """The package's licences as an SPDX expression; older packages write a slash for OR."""
    return package["license"].replace("/", " OR ")


def terms(package):
    """The texts of a package's files with terms."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name.upper().startswith(TERMS))
    return [file.read_text(errors="replace").strip() for file in files]


def stamp(epoch):
    """A time in seconds as ISO 8601."""
    return output("date", "-u", "-d", f"@{epoch}", "+%Y-%m-%dT%H:%M:%SZ").strip()
