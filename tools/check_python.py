"""Stop `make setup` with a plain sentence when Python is too old, instead of a stack of resolver errors."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this file must run on the Python that is too old
    found = "%d.%d" % sys.version_info[:2]
    sys.exit("moldau needs Python 3.11 or newer, found %s. Name another one: make setup PYTHON=python3.12" % found)
