"""Every message in every version through Kafka's own classes. Needs a JDK and the jars that `make bench` fetches."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.contract.wire.shapes import CASES, ROOT, random_message

JARS = sorted((ROOT / "bench" / ".cache").glob("kafka-4.3.*/*.jar"))
ROUNDS = 4


@pytest.mark.interop
@pytest.mark.skipif(not JARS, reason="no Kafka 4.3 jars here; `make bench` fetches them")
@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK on the PATH")
def test_kafka_reads_every_message_and_writes_the_same_bytes() -> None:
    lines = []
    for case in CASES:
        chance = random.Random(f"kafka {case}")
        for _ in range(ROUNDS):
            lines.append(f"{case.name} {case.version} {case.encode(random_message(case, chance)).hex()}")
    program = Path(__file__).with_name("EchoMessages.java")
    command = ["java", "-cp", ":".join(map(str, JARS)), str(program)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=600, check=True)
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines)
    wrong = [(line, answer) for line, answer in zip(lines, answers, strict=True) if line.split(" ")[2] != answer]
    assert wrong == []
