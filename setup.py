"""Compiles the hot modules with mypyc when a C compiler is at hand; otherwise installs the same source as it is.

MOLDAU_COMPILE=0 skips compilation, MOLDAU_COMPILE=1 makes a failure to compile an error.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent

# One mypyc group, so that calls between these modules are C calls. Everything else stays ordinary Python.
HOT_MODULES: list[str] = []


def compiler_works() -> bool:
    """True when a small program against Python's headers compiles."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    include = sysconfig.get_paths()["include"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n")
        command = [compiler, f"-I{include}", "-c", str(source), "-o", str(source.with_suffix(".o"))]
        try:
            return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def extensions() -> list:
    wish = os.environ.get("MOLDAU_COMPILE", "auto")
    if wish == "0" or not HOT_MODULES:
        return []
    if wish != "1" and not compiler_works():
        print("moldau: no working C compiler found; installing the uncompiled (slower) modules", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    os.chdir(ROOT)
    return mypycify(
        ["--config-file", "pyproject.toml", *(f"src/moldau/{module}" for module in HOT_MODULES)],
        opt_level="3",
        debug_level="0",
    )


setup(ext_modules=extensions())
