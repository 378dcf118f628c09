"""The same requests sent to Apache Kafka and to moldau, and their answers compared field by field.

    python -m tests.differential            both brokers, side by side (`make interop` does it)
    python -m tests.differential --record   Apache Kafka alone; its answers become those that `make test` compares with
    python -m tests.differential --replay   moldau alone, against the recorded answers

`families/` holds the requests: for each API a valid one, from which `mutations.py` makes borderline and wrong ones, and
the scenarios in which state matters. `names.py` gives what must differ between two brokers (ids, ports, times) the same
names on both sides; `explained.py` lists the differences that stay, each with its reason.
"""
