"""`moldau version`: what is installed, and whether the hot modules run compiled."""

from __future__ import annotations

import importlib
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import click

from moldau import __version__
from moldau.cli.output import FORMAT, print_facts

_LIBRARIES = ("uvloop", "fastcrc", "cramjam", "lz4", "backports.zstd", "librt", "pyarrow", "pyspark")


def hot_path_is_compiled() -> bool:
    """True when the connection module is an extension module rather than a .py file."""
    file = importlib.import_module("moldau.server.connection").__file__
    return file is not None and not file.endswith(".py")


@click.command(help="Show versions of moldau and of what it runs on.")
@FORMAT
def version(format_: str) -> None:
    facts = {
        "moldau": __version__,
        "hot_modules": "compiled" if hot_path_is_compiled() else "pure Python (about five times slower)",
        "protocol": "Kafka 4.3",
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }
    for name in _LIBRARIES:
        try:
            facts[name] = version_of(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    print_facts(facts, format_)
