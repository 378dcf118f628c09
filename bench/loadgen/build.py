"""Compile the C programs of the benchmark into the cache folder, when their source is newer."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"


class NoCompiler(RuntimeError):
    """There is no C compiler, so the load generator cannot be built."""


def build(name: str, *libraries: str) -> Path:
    """Compile `name`.c; return the program."""
    source, program = HERE / f"{name}.c", CACHE / name
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompiler("the load generator is written in C and needs cc, gcc or clang on the PATH")
    CACHE.mkdir(exist_ok=True)
    flags = ["-O2", "-Wall", "-Wextra", "-pthread"]
    subprocess.run([compiler, *flags, str(source), "-o", str(program), *libraries], check=True)
    return program
