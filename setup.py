"""Compiles the hot modules with mypyc when a C compiler is at hand; otherwise installs the same source as it is.

MOLDAU_COMPILE=0 skips compilation, MOLDAU_COMPILE=1 makes a failure to compile an error.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent

# One mypyc group, so that calls between these modules are C calls. Everything else stays ordinary Python.
HOT_MODULES: list[str] = [
    "broker/partition.py",
    "broker/partitions.py",
    "broker/shards/batches.py",
    "broker/shards/consumer_codec.py",
    "broker/shards/group_codec.py",
    "core/group/apply.py",
    "core/log/cleaning.py",
    "core/log/index.py",
    "core/log/offset_map.py",
    "core/log/producers.py",
    "core/log/settings.py",
    "core/partition/fetch_sessions.py",
    "core/partition/leader.py",
    "model/file_range.py",
    "records/batch.py",
    "records/builder.py",
    "records/column_encode.py",
    "records/column_walk.py",
    "records/gradual.py",
    "records/large_record.py",
    "records/reader.py",
    "records/validate.py",
    "records/varint.py",
    "server/connection.py",
    "server/context.py",
    "server/handlers/fetch.py",
    "server/handlers/offset_commit.py",
    "server/handlers/produce.py",
    "server/handlers/shard_answers.py",
    "server/hub.py",
    "server/parking.py",
    "server/replies.py",
    "server/router.py",
    "server/sender.py",
    "server/services.py",
    "storage/directory.py",
    "storage/flush_set.py",
    "storage/indexes.py",
    "storage/log_aborted.py",
    "storage/log_read.py",
    "storage/log_state.py",
    "storage/log_time.py",
    "storage/log_trim.py",
    "storage/outcome.py",
    "storage/partition_log.py",
    "storage/recovery.py",
    "storage/replay.py",
    "storage/scan.py",
    "storage/segment.py",
    "wire/headers.py",
    "wire/message.py",
    "wire/primitives.py",
    "wire/messages/api_versions.py",
    "wire/messages/fetch.py",
    "wire/messages/init_producer_id.py",
    "wire/messages/list_offsets.py",
    "wire/messages/metadata.py",
    "wire/messages/produce.py",
    "wire/messages/add_offsets_to_txn.py",
    "wire/messages/add_partitions_to_txn.py",
    "wire/messages/consumer_group_heartbeat.py",
    "wire/messages/end_txn.py",
    "wire/messages/find_coordinator.py",
    "wire/messages/heartbeat.py",
    "wire/messages/join_group.py",
    "wire/messages/leave_group.py",
    "wire/messages/offset_commit.py",
    "wire/messages/offset_fetch.py",
    "wire/messages/offset_for_leader_epoch.py",
    "wire/messages/sync_group.py",
    "wire/messages/txn_offset_commit.py",
    "wire/messages/write_txn_markers.py",
]


def compiler_works() -> bool:
    """True when a small program against Python's headers compiles."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    include = sysconfig.get_paths()["include"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n")
        command = [compiler, f"-I{include}", "-c", str(source), "-o", str(source.with_suffix(".o"))]
        try:
            return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False


def extensions() -> list:
    wish = os.environ.get("MOLDAU_COMPILE", "auto")
    if wish == "0" or not HOT_MODULES:
        return []
    if wish != "1" and not compiler_works():
        print("moldau: no working C compiler found; installing the uncompiled (slower) modules", file=sys.stderr)
        return []
    from mypyc.build import mypycify

    os.chdir(ROOT)
    return mypycify(
        ["--config-file", "pyproject.toml", *(f"src/moldau/{module}" for module in HOT_MODULES)],
        opt_level="3",
        debug_level="0",
    )


setup(ext_modules=extensions())
