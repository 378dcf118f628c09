"""Can Spark run here? Missing packages are fine and said; packages without their Java are a mistake to mend."""

from __future__ import annotations

import importlib.util

import click

from moldau.spark.java import JavaUnusable, find_java

PACKAGES = ("pyspark", "pyarrow", "pandas", "yaml")


def what_spark_lacks() -> str | None:
    """None when nothing; the reason and the command when packages are missing. Raises when Java is."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return f'not installed ({", ".join(missing)}). To see it:  pip install "moldau\\[spark]"'
    try:
        find_java()
    except JavaUnusable as unusable:
        raise click.ClickException(f"{unusable}\n             or see the rest:   moldau demo --no-spark") from None
    return None
