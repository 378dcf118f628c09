"""Which Java would Spark use, and is it new enough? Asked before a session starts, so the answer is one message."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

JAVA_MIN: Final = 17
INSTALL: Final = (
    "Debian or Ubuntu:  sudo apt-get install openjdk-17-jre-headless",
    "macOS:             brew install openjdk@17",
    "conda:             conda install openjdk=17",
)


@dataclass(frozen=True, slots=True)
class Java:
    path: str
    major: int
    version: str


class JavaUnusable(Exception):
    """No Java, or one that Spark 4 cannot run on. The text says which was found and how to get another."""

    def __init__(self, found: str) -> None:
        self.what = f"Spark needs Java {JAVA_MIN} or newer"
        self.found = found
        self.fixes: tuple[str, ...] = INSTALL
        if os.environ.get("JAVA_HOME"):  # a new Java alone would not be found
            self.fixes += ("then:              unset JAVA_HOME, or set it to the new one",)
        ways = "\n".join(f"             {line}" for line in self.fixes)
        super().__init__(f"{self.what}\n  found      {found}\n  fix        install one and try again:\n{ways}")


def find_java() -> Java:
    """The Java that Spark's own launcher would start. `JavaUnusable` says what is wrong with it."""
    path, origin = _path()
    if path is None:
        raise JavaUnusable(f"none found ({origin})")
    try:
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise JavaUnusable(f"{path} does not run: {failure}") from None
    text = said.stderr + said.stdout
    major = parse_major(text)
    if major is None:
        raise JavaUnusable(f"{path} does not tell its version")
    if major < JAVA_MIN:
        raise JavaUnusable(f"Java {major} at {path} ({origin})")
    return Java(path, major, text.splitlines()[0])


def parse_major(text: str) -> int | None:
    """`openjdk version "17.0.15"` -> 17, `java version "1.8.0_402"` -> 8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def _path() -> tuple[str | None, str]:
    # Spark's launcher looks at JAVA_HOME first and only then at the PATH.
    home = os.environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        return (str(candidate) if candidate.exists() else None), f"JAVA_HOME is {home}"
    return shutil.which("java"), "JAVA_HOME is not set, PATH was searched"


def main() -> int:
    """`python -m moldau.spark.java`: 0 when Spark can start here, else 1 and the message."""
    try:
        java = find_java()
    except JavaUnusable as unusable:
        print(f"error: {unusable}")
        return 1
    print(f"Java {java.major} at {java.path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
