"""Stop `make setup` with a plain sentence when Python is too old, instead of a stack of resolver errors.

Written for the Python that is too old: no f-strings.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036
    found = ".".join(str(part) for part in sys.version_info[:2])
    sys.exit("moldau needs Python 3.11 or newer, found " + found + ". Name another one: make setup PYTHON=python3.12")
