"""Topic sinks in the modes `update` and `complete`, in which Spark lets no Python sink take part.

Each micro-batch is written as a batch of its own. The query's id and the batch's number go with it, so that the sink
recognises a replayed batch and the topic gets it once, as with `append`.
"""

from __future__ import annotations

from typing import Any

from moldau.pipelines.lake import query_id_of


class TopicBatches:
    """Called by Spark for each micro-batch, possibly in another process (Connect): holds plain data only."""

    def __init__(self, options: dict[str, str], checkpoint: str, *, exactly_once: bool) -> None:
        self._options = options
        self._checkpoint = checkpoint
        self._exactly_once = exactly_once
        self._query_id: str | None = None

    def __call__(self, batch: Any, batch_id: int) -> None:
        writer = batch.write.format("moldau").options(**self._options).mode("append")
        if self._exactly_once:
            if self._query_id is None:
                self._query_id = query_id_of(batch.sparkSession, self._checkpoint)
            writer = writer.options(txnAppId=self._query_id, txnVersion=str(batch_id))
        writer.save()
