"""One row per API this node answers. ApiVersions, the router, the support matrix in the docs and the tests read it.

A row names the handler module (`server/handlers/<module>.py`), which is imported when the API is first asked for, so
that a node starts without loading what nobody uses. Version ranges and names come from the wire room's tables
(`wire.apis.API_SPECS`), which hold exactly what Kafka 4.3 serves.

A handler module defines

    handle(request, context) -> response | Encoded | Parked | NO_REPLY | Drop | coroutine of one of these

(`server/replies.py` explains them; `async def handle` is fine), and may define

    refuse(request, context, code, detail) -> response

the answer when the whole request fails (a bug of ours, a missing permission). Without it, the response class's own
top-level `error_code` (and `error_message`) is used, and an API with neither gets its connection closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.model.limits import REQUEST_ELEMENTS_MAX, REQUEST_ELEMENTS_MAX_FEW
from moldau.wire.apis import API_SPECS, ApiKey


@dataclass(frozen=True, slots=True)
class Api:
    """An API, the module that handles it, and the versions it accepts."""

    key: ApiKey
    module: str
    before_authentication: bool = False
    """May be asked on a connection that has not yet proved who it is."""
    unstable_with: str | None = None
    """The setting with which the version that Kafka calls unstable is advertised; without one it is not served."""
    sliced: str = ""
    """The request's array that is answered a slice at a time when it is long (`server/slices.py`)."""
    elements_max: int = REQUEST_ELEMENTS_MAX
    """Of all arrays of a request together; one with more holds the loop for too long, and closes its connection."""

    @property
    def name(self) -> str:
        return API_SPECS[self.key].name

    @property
    def min_version(self) -> int:
        return API_SPECS[self.key].min_version

    @property
    def max_version(self) -> int:
        spec = API_SPECS[self.key]
        return spec.advertised_max_version if self.unstable_with is None else spec.max_version

    def advertised(self, is_on: Callable[[str], bool]) -> tuple[int, int]:
        """What ApiVersions says. Produce is advertised from 0 and accepted from 3 (KAFKA-18659)."""
        spec = API_SPECS[self.key]
        unstable = self.unstable_with is not None and is_on(self.unstable_with)
        return spec.advertised_min_version, spec.max_version if unstable else spec.advertised_max_version

    def accepts(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


_FEW: Final = REQUEST_ELEMENTS_MAX_FEW

APIS: Final[tuple[Api, ...]] = (
    Api(ApiKey.PRODUCE, "produce"),
    Api(ApiKey.FETCH, "fetch"),
    Api(ApiKey.LIST_OFFSETS, "list_offsets"),
    Api(ApiKey.METADATA, "metadata"),
    Api(ApiKey.OFFSET_COMMIT, "offset_commit"),
    Api(ApiKey.OFFSET_FETCH, "offset_fetch", sliced="groups"),
    Api(ApiKey.FIND_COORDINATOR, "find_coordinator", sliced="coordinator_keys"),
    Api(ApiKey.JOIN_GROUP, "join_group", elements_max=_FEW),
    Api(ApiKey.HEARTBEAT, "heartbeat"),
    Api(ApiKey.LEAVE_GROUP, "leave_group", elements_max=_FEW),
    Api(ApiKey.SYNC_GROUP, "sync_group", elements_max=_FEW),
    Api(ApiKey.DESCRIBE_GROUPS, "describe_groups", sliced="groups"),
    Api(ApiKey.LIST_GROUPS, "list_groups", elements_max=_FEW),
    Api(ApiKey.API_VERSIONS, "api_versions", before_authentication=True),
    Api(ApiKey.CREATE_TOPICS, "create_topics"),
    Api(ApiKey.DELETE_TOPICS, "delete_topics"),
    Api(ApiKey.DELETE_RECORDS, "delete_records"),
    Api(ApiKey.INIT_PRODUCER_ID, "init_producer_id", unstable_with="transaction.two.phase.commit.enable"),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "offset_for_leader_epoch", sliced="topics"),
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "add_partitions_to_txn"),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "add_offsets_to_txn"),
    Api(ApiKey.END_TXN, "end_txn"),
    Api(ApiKey.WRITE_TXN_MARKERS, "write_txn_markers"),
    Api(ApiKey.TXN_OFFSET_COMMIT, "txn_offset_commit"),
    Api(ApiKey.DESCRIBE_ACLS, "describe_acls", elements_max=_FEW),
    Api(ApiKey.CREATE_ACLS, "create_acls", elements_max=_FEW),
    Api(ApiKey.DELETE_ACLS, "delete_acls", elements_max=_FEW),
    Api(ApiKey.DESCRIBE_CONFIGS, "describe_configs", sliced="resources", elements_max=_FEW),
    Api(ApiKey.ALTER_CONFIGS, "alter_configs", elements_max=_FEW),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "alter_replica_log_dirs"),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "describe_log_dirs"),
    Api(ApiKey.CREATE_PARTITIONS, "create_partitions"),
    Api(ApiKey.DELETE_GROUPS, "delete_groups"),
    Api(ApiKey.ELECT_LEADERS, "elect_leaders"),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "incremental_alter_configs", elements_max=_FEW),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "alter_partition_reassignments"),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "list_partition_reassignments"),
    Api(ApiKey.OFFSET_DELETE, "offset_delete"),
    Api(ApiKey.DESCRIBE_QUORUM, "describe_quorum", elements_max=_FEW),
    Api(ApiKey.UPDATE_FEATURES, "update_features", elements_max=_FEW),
    Api(ApiKey.DESCRIBE_CLUSTER, "describe_cluster"),
    Api(ApiKey.DESCRIBE_PRODUCERS, "describe_producers", sliced="topics"),
    Api(ApiKey.UNREGISTER_BROKER, "unregister_broker"),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "describe_transactions", sliced="transactional_ids"),
    Api(ApiKey.LIST_TRANSACTIONS, "list_transactions", elements_max=_FEW),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "consumer_group_heartbeat"),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "consumer_group_describe", sliced="group_ids"),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "list_config_resources", elements_max=_FEW),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "describe_topic_partitions"),
)

BY_KEY: Final[Mapping[int, Api]] = {int(api.key): api for api in APIS}
