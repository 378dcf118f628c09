"""Settings that Kafka does not have. Few, and never needed to run."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    ACTS,
    CLUSTER_WIDE,
    LIST,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("moldau.clock.jumps", STRING, "hold", MEDIUM, CLUSTER_WIDE, ACTS,
           "What happens when the wall clock jumps by more than a day: `hold` deletes nothing by its age until the "
           "clock is back or clients on other machines agree with it; `follow` takes the clock to be right, as Kafka "
           "does.",
           choices=("hold", "follow")),
    Option("moldau.cluster.id", STRING, None, MEDIUM, READ_ONLY, ACTS,
           "The id of a new cluster, instead of a random one. Also CLUSTER_ID in the environment."),
    Option("moldau.create.topics", LIST, (), LOW, READ_ONLY, ACTS,
           "Topics to create at start unless they exist: comma-separated name:partitions:replicas[:cleanup policy]. "
           "Also KAFKA_CREATE_TOPICS in the environment."),
)
# fmt: on
