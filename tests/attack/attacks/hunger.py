"""Too little of what a broker lives on: descriptors, disk, a directory. Each has a broker of its own."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from moldau.wire.apis import ApiKey
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.attack.attacks.base import WITHOUT_DELAY, Attack, wait_until
from tests.attack.attacks.readers import SlowReaders
from tests.attack.attacks.records import Bombs

IN_NAMESPACE = "MOLDAU_ATTACK_NAMESPACE"
IDLE = 600
DISK_MIB = 64
ADDRESS_SPACE_MIB = 1536
HUNGRY_S = 3.0
NOTICED_S = 2.0
"""After this long a broker has seen that its directory is gone."""


class HungerAttack(Attack):
    family = "hunger"
    settings: ClassVar[dict[str, str]] = {}
    wrapper: ClassVar[list[str]] = []

    @classmethod
    def impossible(cls) -> str:
        """Why it cannot be done here."""
        return ""

    @classmethod
    def surroundings(cls, folder: Path) -> contextlib.ExitStack:
        """What must be there before the broker starts and gone after it."""
        return contextlib.ExitStack()


class FewDescriptors(HungerAttack):
    """Connections, topics and partitions beyond what the limit allows: refused, and nobody else is hurt."""

    name = "400 descriptors"
    settings: ClassVar = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
    wrapper: ClassVar = ["prlimit", "--nofile=400:400"]

    @classmethod
    def impossible(cls) -> str:
        return "" if shutil.which("prlimit") else "there is no prlimit here"

    def round(self, rng: random.Random) -> None:
        with contextlib.suppress(OSError):  # so many are not let in
            for _ in range(IDLE):
                self.connect(within_s=2)
        stem = f"hungry-{rng.getrandbits(32):08x}"
        for number in range(3):
            topic = NewTopic(f"{stem}-{number}", rng.choice((1, 50, 300)), 1, config=WITHOUT_DELAY)
            with contextlib.suppress(KafkaException, TimeoutError):  # refused is right
                self.create_topics(topic, within_s=10)
        self.close_all()
        names = [MetadataRequestTopic(name=f"{stem}-auto-{number}") for number in range(2_000)]
        self.ask(ApiKey.METADATA, 12, MetadataRequest(topics=names, allow_auto_topic_creation=True))
        self.stage.delete_strangers()

    def check(self) -> list[str]:
        """The next start has the same limit."""
        self.stage.broker.stop()
        why = self.stage.revive()
        return [f"it does not start again under the same limit: {why}"] if why else []


def no_mount() -> str:
    """Why not. Only inside a mount namespace of our own: `python -m tests.attack` makes one where it can."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return "only root can mount a small disk"
    if IN_NAMESPACE not in os.environ:
        return "not in a mount namespace of its own"
    return ""


class FullDisk(HungerAttack):
    """The disk fills up under the broker, and later has room again."""

    name, pauses_count = "full disk", False

    @classmethod
    def impossible(cls) -> str:
        return no_mount()

    @classmethod
    def surroundings(cls, folder: Path) -> contextlib.ExitStack:
        disk = folder / "data"
        disk.mkdir(parents=True)
        stack = contextlib.ExitStack()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "moldau-attack", str(disk)], check=True)
        stack.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        return stack

    def round(self, rng: random.Random) -> None:
        filler = self.stage.broker.data_dir / "filler"
        room = shutil.disk_usage(filler.parent).free - rng.choice((0, 0, 4096, 100_000))
        with contextlib.suppress(OSError), filler.open("wb") as file:
            for _ in range(room // 4096 + 1):
                file.write(bytes(4096))
        time.sleep(HUNGRY_S)
        filler.unlink()
        if self.stage.wait_for_good_client():
            return
        if why := self.stage.revive():
            raise RuntimeError(f"no start with room on the disk: {why}")


class RenamedDirectory(HungerAttack):
    """The data directory is moved away under the broker: it stops acknowledging, and writes nothing in its place."""

    name, pauses_count = "data directory renamed", False

    def prepare(self, rng: random.Random) -> None:
        """Every partition has been written to: the first record of one makes a file, which would tell."""
        self.wrong: list[str] = []
        wait_until(self._all_written, 30)

    def _all_written(self) -> bool:
        self.stage.journal.refresh()
        return all(self.stage.journal.acknowledged)

    def round(self, rng: random.Random) -> None:
        here = self.stage.broker.data_dir
        away = here.with_name("moved-away")
        here.rename(away)
        begin = time.monotonic()
        time.sleep(NOTICED_S + HUNGRY_S)
        end = time.monotonic()
        with contextlib.suppress(KafkaException, TimeoutError):
            self.create_topics(NewTopic(f"late-{rng.getrandbits(32):08x}", 1, 1, config=WITHOUT_DELAY), within_s=1)
        self.stage.journal.refresh()
        if count := self.stage.journal.acknowledged_between(begin + NOTICED_S, end):
            self.wrong.append(f"{count} records were acknowledged {NOTICED_S:.0f} s and more after it was gone")
        if here.exists():
            self.wrong.append("the directory was made again at its old place")
            shutil.rmtree(here)
        self.stage.broker.kill()
        away.rename(here)
        if why := self.stage.revive():
            raise RuntimeError(why)

    def check(self) -> list[str]:
        return self.wrong


class ReadOnlyDirectory(HungerAttack):
    """Nothing new can be made in the data directory, as on a disk that was mounted anew after an error."""

    name, pauses_count = "data directory read-only", False

    @classmethod
    def impossible(cls) -> str:
        """Root may write where others may not, so the directory must be immutable; not every file system knows that."""
        if os.geteuid() != 0 or shutil.which("chattr") is None:
            return "only root can make a directory immutable"
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(["chattr", "+i", folder], capture_output=True)
            subprocess.run(["chattr", "-i", folder], capture_output=True)
        return "" if done.returncode == 0 else "this file system knows no immutable directories"

    def round(self, rng: random.Random) -> None:
        here = self.stage.broker.data_dir
        folders = [str(here), *(str(path) for path in here.iterdir() if path.is_dir())]
        subprocess.run(["chattr", "+i", *folders], check=True)
        try:
            with contextlib.suppress(KafkaException, TimeoutError):
                self.create_topics(NewTopic(f"never-{rng.getrandbits(32):08x}", 3, 1, config=WITHOUT_DELAY), within_s=1)
            time.sleep(HUNGRY_S)
        finally:
            subprocess.run(["chattr", "-i", *folders], check=True)
        if self.stage.wait_for_good_client():
            return
        if why := self.stage.revive():
            raise RuntimeError(f"no start after it could be written to again: {why}")

    def calm(self) -> None:
        super().calm()
        self.stage.delete_strangers()


class LittleMemory(HungerAttack):
    """Peers that want more memory than the process may have: what cannot be had is refused to them."""

    name, pauses_count = f"{ADDRESS_SPACE_MIB} MiB of address space", False
    wrapper: ClassVar = ["prlimit", f"--as={ADDRESS_SPACE_MIB * 2**20}"]

    @classmethod
    def impossible(cls) -> str:
        return "" if shutil.which("prlimit") else "there is no prlimit here"

    def prepare(self, rng: random.Random) -> None:
        self.parts = [Bombs(self.stage), SlowReaders(self.stage)]
        for part in self.parts:
            part.prepare(rng)

    def round(self, rng: random.Random) -> None:
        for part in self.parts:
            part.round(rng)

    def calm(self) -> None:
        for part in self.parts:
            part.calm()


ATTACKS = (FewDescriptors, LittleMemory, FullDisk, RenamedDirectory, ReadOnlyDirectory)
