"""Test support for applications: the pytest plugin and an in-process broker. docs/testing.md tells how to use them."""

from moldau.testing.records import NotEnoughRecords, Record

__all__ = ["NotEnoughRecords", "Record"]
