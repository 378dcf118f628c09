"""Pipelines people need, each with its input and the result it must have. `moldau demo` runs the first of them.

A folder holds `pipeline.yaml`, a README, `generate.py` (the input, the same for the same seed) and `expected.py` (the
result, worked out again in plain Python from the records alone).
"""
