"""Producer ids and transactions."""

from __future__ import annotations

from typing import Final

from moldau.model.options import (
    ACTS,
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LOW,
    NO_COUNTERPART,
    READ_ONLY,
    SHORT,
    Option,
)

# fmt: off
OPTIONS: Final[tuple[Option, ...]] = (
    Option("producer.id.expiration.ms", INT, 86_400_000, LOW, CLUSTER_WIDE, ACTS,
           "How long a silent producer's sequence numbers are remembered per partition.", low=1),
    Option("producer.id.expiration.check.interval.ms", INT, 600_000, LOW, READ_ONLY, NO_COUNTERPART,
           "How often forgotten producers are swept out. moldau sweeps with retention.", low=1, internal=True),
    Option("transactional.id.expiration.ms", INT, 604_800_000, HIGH, READ_ONLY, ACTS,
           "How long a transactional id without activity is remembered.", low=1),
    Option("transaction.max.timeout.ms", INT, 900_000, HIGH, READ_ONLY, ACTS,
           "The longest transaction timeout a producer may ask for.", low=1),
    Option("transaction.partition.verification.enable", BOOLEAN, True, LOW, CLUSTER_WIDE, ACTS,
           "Whether each partition checks with the coordinator that a transaction is open before the first write "
           "(KIP-890)."),
    Option("transaction.two.phase.commit.enable", BOOLEAN, True, LOW, READ_ONLY, ACTS,
           "Whether producers may take part in an outside two-phase commit (KIP-939): a transaction without a timeout, "
           "and InitProducerId 6. On, because the Spark sink builds on it."),
    Option("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, LOW, READ_ONLY, ACTS,
           "How often transactions past their timeout are looked for and aborted.", low=1),
    Option("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, LOW, READ_ONLY, ACTS,
           "How often expired transactional ids are removed.", low=1),
    Option("transaction.state.log.num.partitions", INT, 50, HIGH, READ_ONLY, ACTS,
           "Partitions of the transaction log; not to be changed once it exists.", low=1),
    Option("transaction.state.log.replication.factor", SHORT, 3, HIGH, READ_ONLY, ACTS,
           "Replicas of the transaction log. Not set, it is at most the number of brokers.", low=1),
    Option("transaction.state.log.min.isr", INT, 2, HIGH, READ_ONLY, ACTS,
           "In-sync replicas the transaction log needs. Not set, it is at most the number of brokers.", low=1),
    Option("transaction.state.log.segment.bytes", INT, 104_857_600, HIGH, READ_ONLY, ACTS,
           "Segment size of the transaction log; small, so that it compacts and loads quickly.", low=1),
    Option("transaction.state.log.load.buffer.size", INT, 5_242_880, HIGH, READ_ONLY, NO_COUNTERPART,
           "Bytes read at a time while loading transaction state. moldau reads 256 KiB at a time.", low=1),
    Option("add.partitions.to.txn.retry.backoff.ms", INT, 20, HIGH, READ_ONLY, ACTS,
           "First pause when adding partitions to a transaction meets one that is still finishing.", low=1),
    Option("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, HIGH, READ_ONLY, ACTS,
           "Longest total wait of that retry.", low=0),
)
# fmt: on
