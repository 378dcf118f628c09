"""Kafka's own tools about the cluster, on one moldau node."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from bench.peers.kafka import java

TOOLS = "org.apache.kafka.tools"


def run(bootstrap: str, tool: str, *words: str) -> str:
    command = java(f"{TOOLS}.{tool}", "--bootstrap-server", bootstrap, *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_kafkas_tools_understand_a_cluster_of_one(kafka_jars: Path, bootstrap: str) -> None:
    status = run(bootstrap, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"^LeaderId: +1$", status, re.MULTILINE), status
    assert re.search(r"^MaxFollowerLag: +0$", status, re.MULTILINE), status
    features = run(bootstrap, "FeatureCommand", "describe")
    assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: 4.3-IV0", features), features
    lowered = run(bootstrap, "FeatureCommand", "downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert "transaction.version can be downgraded to 1." in lowered
    refused = run(bootstrap, "FeatureCommand", "upgrade", "--feature", "transaction.version=9")
    assert "Invalid update version 9" in refused
    assert "No Authorizer is configured on the broker" in run(bootstrap, "AclCommand", "--list")
    elected = run(bootstrap, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert "Exception" not in elected, elected
