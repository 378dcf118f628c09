"""moldau: a commit log in Python that speaks the Kafka protocol."""

import os
import sys

__version__ = "0.1.0"


def _let_spark_find_us() -> None:
    """Spark looks for data sources with the `python3` of the PATH, which is another one when a job runs as
    `venv/bin/python job.py`, and then does not find the format. Imported before the session starts, say which it is.

    Whoever chose a Python keeps it. Python UDFs are not concerned: their interpreter is PYSPARK_PYTHON alone.
    """
    if "PYSPARK_PYTHON" in os.environ or "PYSPARK_DRIVER_PYTHON" in os.environ or not sys.executable:
        return
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.access(os.path.join(folder, "python3"), os.X_OK):
            if os.path.realpath(folder) == os.path.realpath(os.path.dirname(sys.executable)):
                return  # an activated environment: what Spark takes by itself is right, on other machines too
            break
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


_let_spark_find_us()
