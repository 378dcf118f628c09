"""Install moldau's runtime dependencies and extras without moldau itself, which `make setup` builds afterwards."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

EXTRAS = ("fast", "doctor", "spark", "avro", "delta", "iceberg")


def main() -> int:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted]
    return subprocess.run(command).returncode


if __name__ == "__main__":
    raise SystemExit(main())
