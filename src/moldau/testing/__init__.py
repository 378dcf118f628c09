"""Test support for applications: the pytest plugin and an in-process broker."""
