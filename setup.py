"""Compiles the hot modules with mypyc when a C compiler is at hand; otherwise installs the same source as it is.

MOLDAU_COMPILE=0 skips compilation, MOLDAU_COMPILE=1 makes a failure to compile an error.
"""

import functools
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent

# One mypyc group, so that calls between these modules are C calls. Everything else stays ordinary Python, also messages
# that come once in the life of a connection: each costs everybody's build a second or two.
HOT_MODULES: list[str] = [
    "broker/partition.py",
    "broker/partitions.py",
    "broker/shards/batches.py",
    "broker/shards/consumer_codec.py",
    "broker/shards/group_codec.py",
    "broker/shards/runtime.py",
    "core/group/apply.py",
    "core/group/classic.py",
    "core/group/decide_classic.py",
    "core/group/rebalance.py",
    "core/group/shard.py",
    "core/group/soft.py",
    "core/group/turn.py",
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
    "server/handlers/join_group.py",
    "server/handlers/offset_commit.py",
    "server/handlers/produce.py",
    "server/handlers/shard_answers.py",
    "server/handlers/sync_group.py",
    "server/hub.py",
    "server/pace.py",
    "server/parking.py",
    "server/pending.py",
    "server/reading_line.py",
    "server/replies.py",
    "server/reply_budget.py",
    "server/request_budget.py",
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
    "wire/messages/fetch.py",
    "wire/messages/metadata.py",
    "wire/messages/produce.py",
    "wire/messages/add_partitions_to_txn.py",
    "wire/messages/consumer_group_heartbeat.py",
    "wire/messages/end_txn.py",
    "wire/messages/heartbeat.py",
    "wire/messages/join_group.py",
    "wire/messages/offset_commit.py",
    "wire/messages/offset_fetch.py",
    "wire/messages/sync_group.py",
    "wire/messages/txn_offset_commit.py",
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


def say(text: str) -> None:
    """Told to whoever watches the build: `pip install -v`, or `make setup`, which shows these lines alone."""
    print(f"moldau: {text}", file=sys.stderr, flush=True)


@functools.cache
def will_compile() -> bool:
    wish = os.environ.get("MOLDAU_COMPILE", "auto")
    if wish == "0":
        say("MOLDAU_COMPILE=0: the modules stay pure Python, about five times slower")
        return False
    if wish != "1" and not compiler_works():
        say("no working C compiler found: the modules stay pure Python, about five times slower")
        return False
    return True


class Moldau(Distribution):
    def has_ext_modules(self) -> bool:
        return will_compile()


class BuildHot(build_ext):
    """Translates only when something is built: pip asks a project for its name and version first, by the same file."""

    def run(self) -> None:
        from mypyc.build import mypycify

        started = time.monotonic()
        say(f"translating {len(HOT_MODULES)} hot modules to C, of {modules_count()} in all")
        os.chdir(ROOT)
        self.distribution.ext_modules = mypycify(
            ["--config-file", "pyproject.toml", *(f"src/moldau/{module}" for module in HOT_MODULES)],
            opt_level="3",
            debug_level="0",
        )
        if sys.platform == "linux":  # names that only a profiler reads are a seventh of the size
            for extension in self.distribution.ext_modules:
                extension.extra_link_args = [*(extension.extra_link_args or ()), "-Wl,--strip-all"]
        self.reinitialize_command(self)
        self.ensure_finalized()
        size = sum(Path(source).stat().st_size for extension in self.extensions for source in extension.sources)
        say(f"compiling {size // 2**20} MB of C, a minute or two")
        super().run()
        say(f"compiled {len(HOT_MODULES)} modules in {time.monotonic() - started:.0f} s")


def modules_count() -> int:
    return sum(1 for _ in (ROOT / "src" / "moldau").rglob("*.py"))


setup(ext_modules=[], distclass=Moldau, cmdclass={"build_ext": BuildHot})
