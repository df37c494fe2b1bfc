"""Writes requirements-VERSION.txt: what a version of Airflow was released with, by version and hash.

    pip install uv==0.13.9 && python3 lock.py 2.10.5 2025-02-12 && python3 lock.py 3.1.8 2026-04-01

The date is that of the newest package that is taken. Needs Python 3.11 or later.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

# No wheel of theirs is needed: pages of the web server, which the tests do not run, and Python 3.13.
OMITTED = ("python-nvd3", "pyyaml-ft")
# The wheels for CPython 3.10 to 3.12 on Linux, whose tags are interpreter, ABI and platform.
WANTED = re.compile(r"-(?:[\w.]*\bpy3\b[\w.]*-none|cp31[0-2]-cp31[0-2]|cp3(?:\d|10)-abi3)-"
                    r"(?:any|[\w.]*manylinux[\w.]*_(?:x86_64|aarch64))\.whl$")


def resolved(version: str, date: str) -> list:
    """Returns the packages, with all of their files."""
    command = "uv pip compile -q --universal --python-version 3.10 --format pylock.toml -".split()
    wanted = f"apache-airflow=={version}\nasyncpg\npsycopg2-binary\n"
    done = subprocess.run([*command, "--exclude-newer", date], input=wanted, text=True, check=True, capture_output=True)
    return tomllib.loads(done.stdout)["packages"]


def lines(package: dict):
    wheels = {w.get("name") or w["url"].rsplit("/", 1)[1]: w["hashes"]["sha256"] for w in package.get("wheels", [])}
    hashes = sorted(sha for name, sha in wheels.items() if WANTED.search(name))
    if not hashes:
        sys.exit(f"{package['name']} {package['version']} has no wheel for this: {sorted(wheels)}")
    marker = package.get("marker")
    yield f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else "")
    yield from (f"--hash=sha256:{sha}" for sha in hashes)


def main(version: str, date: str) -> None:
    text = f"# Airflow {version} and its drivers of PostgreSQL, for CPython 3.10 to 3.12 on Linux. Made by lock.py.\n"
    for package in resolved(version, date):
        if package["name"] not in OMITTED:
            text += " \\\n    ".join(lines(package)) + "\n"
    name = "requirements-" + ".".join(version.split(".")[:2]) + ".txt"
    Path(__file__).with_name(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
