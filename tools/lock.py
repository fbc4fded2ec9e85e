"""Resolve the dependencies of pyproject.toml and write requirements/*.txt with exact versions.

Run by `make lock`. pip resolves without installing; each pin says who asked for it. A marker given in
pyproject.toml stays on its pin, so that one file serves every supported Python.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# Written by `make lock` from pyproject.toml; do not edit.\n"


def normalised(name: str) -> str:
    """The name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    if found is None:
        raise SystemExit(f"pyproject.toml: not a requirement: {requirement!r}")
    return normalised(found.group())


def marker_of(requirement: str) -> str:
    return requirement.partition(";")[2].strip()


def resolve(requirements: Iterable[str], constraints: dict[str, str]) -> list[dict[str, Any]]:
    """What pip would install, as its installation report describes it."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        pins = Path(directory, "constraints.txt")
        pins.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()))
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
             "--report", report, "--constraint", pins, *requirements],
            check=True,
        )  # fmt: skip
        return [item["metadata"] for item in json.loads(report.read_text())["install"]]


def lines(packages: list[dict[str, Any]], direct: dict[str, str], skip: set[str]) -> list[str]:
    """One `name==version` a package, followed by the packages that require it."""
    wanted_by: dict[str, set[str]] = {}
    for package in packages:
        for requirement in package.get("requires_dist", ()):
            if "extra ==" not in requirement:
                wanted_by.setdefault(name_of(requirement), set()).add(normalised(package["name"]))
    result = []
    for package in sorted(packages, key=lambda p: normalised(p["name"])):
        name = normalised(package["name"])
        if name in skip:
            continue
        marker = marker_of(direct.get(name, ""))
        via = ", ".join(sorted(wanted_by.get(name, set()) | ({"lior"} if name in direct else set())))
        result.append(f"{name}=={package['version']}{' ; ' + marker if marker else ''}\n    # via {via}\n")
    return result


def main() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = {
        "runtime": declared["project"]["dependencies"],
        "build": [*declared["build-system"]["requires"], "editables>=0.5"],  # hatchling asks for it in `pip install -e`
        "spark": declared["project"]["optional-dependencies"]["spark"],
        "test": declared["project"]["optional-dependencies"]["test"],
    }
    pinned: dict[str, str] = {}
    for group, requirements in groups.items():
        packages = resolve([*groups["runtime"], *requirements], pinned)
        direct = {name_of(requirement): requirement for requirement in requirements}
        included = "-r runtime.txt\n-r build.txt\n-r spark.txt\n" if group == "test" else ""
        text = HEADER + included + "".join(lines(packages, direct, set(pinned)))
        (ROOT / "requirements" / f"{group}.txt").write_text(text)
        pinned |= {normalised(package["name"]): package["version"] for package in packages}
        print(f"requirements/{group}.txt: {len(packages)} packages")


if __name__ == "__main__":
    main()
