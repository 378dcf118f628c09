"""Differences that stay, each with its reason. A run fails when one of them is not there any more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from tests.differential.compare import Difference

ANY: Final = object()
UNKNOWN_SERVER_ERROR: Final = -1


@dataclass(frozen=True)
class Explained:
    """`asked` is a pattern in what was asked, `path` one for the whole path of the field."""

    asked: str
    path: str
    reason: str
    kafka: Any = ANY
    moldau: Any = ANY
    """Values of the field on either side, where the reason holds for these alone."""
    failed: bool = False
    """Only in answers in which Kafka tells of an exception that it did not expect."""

    def covers(self, key: str, difference: Difference, failed: bool) -> bool:
        return (
            (self.kafka is ANY or self.kafka == difference.kafka)
            and (self.moldau is ANY or self.moldau == difference.moldau)
            and re.fullmatch(self.path, difference.path) is not None
            and re.search(self.asked, key) is not None
            and (failed or not self.failed)
        )

    def __str__(self) -> str:
        return f"/{self.asked}/ {self.path}: {self.reason}"


def says_unexpected(answer: Any) -> bool:
    """Whether UNKNOWN_SERVER_ERROR stands anywhere in it."""
    if isinstance(answer, dict):
        return answer.get("error_code") == UNKNOWN_SERVER_ERROR or any(map(says_unexpected, answer.values()))
    return isinstance(answer, list) and any(map(says_unexpected, answer))


EXPLAINED: Final = (
    # Everywhere
    Explained(
        "", r"(.*\.)?error_message", "moldau says what was wrong where Kafka says nothing", kafka=None, moldau="<text>"
    ),
    Explained(
        "", r"(.*\.)?error_message", "moldau says what was wrong where Kafka says nothing", kafka="", moldau="<text>"
    ),
    Explained("", ".*", "Kafka fails of an exception that it did not expect; moldau has an answer", failed=True),
    Explained(
        r"twice|\[\+\]=",
        r".* #2\]",
        "Kafka keeps what it is asked in maps: of what is given twice the last counts and has one row; moldau answers "
        "what was asked, row by row",
    ),
    Explained(
        r"(partitions|partition_data|partition_indexes|topics)=\[\]( &|$)",
        r"(topics|responses|results|markers)\[.*\]",
        "Kafka leaves out a topic of which no partition was asked for; moldau repeats it, without partitions",
        kafka="<absent>",
    ),
    # What one node without a quorum, shares and tiers cannot have
    Explained(
        "ApiVersions", r"api_keys\[.*\]", "moldau does not serve it (README, what is not there)", moldau="<absent>"
    ),
    Explained(
        "ApiVersions",
        r"api_keys\[22\]\.max_version",
        "two-phase commit is on (decision 0006), so its version of InitProducerId is told",
        kafka=5,
        moldau=6,
    ),
    Explained(
        "ApiVersions",
        r"(supported|finalized)_features\[.*\]",
        "features of share groups, Streams groups, KRaft and eligible leader replicas: moldau has none of these",
        moldau="<absent>",
    ),
    Explained("ApiVersions", "finalized_features_epoch", "an offset in a metadata log of another kind"),
    Explained(
        "DescribeQuorum",
        r"topics\[__cluster_metadata\]\.partitions\[0\]\.(high_watermark|current_voters\[\]\.log_end_offset)",
        "an offset in a metadata log of another kind",
    ),
    Explained(
        "DescribeQuorum",
        r"nodes\[1\]\.listeners\[(CONTROLLER|PLAINTEXT)\]",
        "moldau's controller has no listener of its own",
    ),
    Explained(
        "DescribeConfigs",
        r"results\[1 4\]\.configs\[(advertised\.listeners|listeners|controller\..*|inter\.broker\.listener\.name|"
        r"listener\.security\.protocol\.map|process\.roles)\]\..*",
        "where each broker of this run listens; Kafka's controller is a listener beside",
    ),
    Explained(
        "DescribeConfigs",
        r"results\[1 4\]\.configs\[node\.id\]\.synonyms\[node\.id #2\]",
        "moldau has a default",
        kafka="<absent>",
    ),
    Explained("DescribeConfigs", r"results\[1 4\]\.configs\[moldau\..*\]", "moldau's own settings", kafka="<absent>"),
    Explained(
        "DescribeConfigs",
        r"results\[1 4\]\.configs\[transaction\.two\.phase\.commit\.enable\]\..*",
        "on in moldau (decision 0006)",
        kafka="false",
        moldau="true",
    ),
    Explained("DescribeConfigs", r"results\[1 8\]\.configs\[.*", "loggers are those of the program"),
    Explained(
        "DescribeLogDirs",
        r".*topics\[__(consumer_offsets|transaction_state)\]\.partitions\[0\]\.partition_size",
        "coordinators may write several records in one batch or in several",
    ),
    # Choices
    Explained(
        "Fetch v.* replica_id=99",
        r"responses\[.*",
        "a replica id is believed only on the cluster's own listener (CVE-2018-1288)",
    ),
    Explained(
        "Produce (idempotent|transactional)|fenced producer",
        r"responses\[.*\.log_append_time_ms",
        "of a duplicate Kafka tells the batch's create time as if the broker had set it; moldau tells none",
        moldau=-1,
    ),
    Explained(
        "count negative$",
        r"responses\[.*\.log_start_offset",
        "of a batch that cannot be read moldau tells nothing but that",
        kafka=0,
        moldau=-1,
    ),
    Explained(
        "byte too many$", r"responses\[.*", "Kafka ignores bytes behind the batch; moldau refuses what it cannot read"
    ),
    Explained(
        "log append time$",
        r"responses\[.*",
        "Kafka changes a batch that claims to be stamped by the broker; moldau refuses it",
    ),
    Explained(
        "(Create|Delete|Describe)Acls v",
        "",
        "values nobody defined: Kafka closes the connection, moldau says SECURITY_DISABLED as of any other",
        kafka="<closed>",
    ),
    Explained(
        "AlterPartitionReassignments v.*topics=\\[\\]", "error_message", "Kafka says nothing in two ways", kafka=""
    ),
    Explained(
        "CreateTopics.*value= 7 $|CreateTopics.*value= 7$",
        r"topics\[.*\.value",
        "moldau tells the number it read",
        kafka=" 7 ",
        moldau="7",
    ),
    Explained(
        "DescribeTopicPartitions v0 cursor.partition_index=2147483647$",
        "next_cursor",
        "Kafka's sum overflows to a negative partition",
        moldau=None,
    ),
    Explained(
        "IncrementalAlterConfigs v. request 11$",
        r"responses\[.*\.error_code",
        "Kafka keeps unknown broker settings for plug-ins; moldau has none and takes it for a typing mistake",
        kafka=0,
    ),
    Explained(
        "JoinGroup modern",
        "member_id|generation_id",
        "a classic member of a KIP-848 group gets its assignment at once, and an id made like any other's",
    ),
)
