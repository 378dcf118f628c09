"""Coordinator shards: the shell around `core/group` and `core/transaction`.

One shard per partition of an internal topic that this node leads. `runtime.py` runs one, `directory.py` knows all of a
topic, `loading.py` brings one back from its log, and the codecs give records Kafka's own bytes.
"""
