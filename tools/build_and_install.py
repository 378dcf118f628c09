"""Build moldau's wheel and install it, with progress: the compiler is at work for a minute or two.

`pip install .` does the same without a word; here the lines that `setup.py` says are shown as they come, and everything
else the build printed only if it fails.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
PREFIX = "moldau: "
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def build(folder: str) -> Iterator[str]:
    """What the build says, line by line; stops this program with all it printed if it fails."""
    command = [*PIP, "wheel", "-v", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, str(ROOT)]
    printed: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if line.strip().startswith(PREFIX):
                yield line.strip().removeprefix(PREFIX)
    if process.returncode:
        sys.exit("".join(printed) + "setup: moldau could not be built; the reason is above")


def main() -> None:
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    told: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("building moldau")
            for line in build(folder):
                if line not in told:  # pip asks the project several times, and each time it says the same
                    told.append(line)
                    console.print(f"setup: {line}")
                    progress.update(task, description=line)
        wheel = next(Path(folder).glob("moldau-*.whl"))
        subprocess.run([*PIP, "install", "--quiet", "--no-deps", "--force-reinstall", str(wheel)], check=True)
        console.print(f"setup: installed {wheel.name}")


if __name__ == "__main__":
    main()
