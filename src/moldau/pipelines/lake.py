"""Lake tables without jars: each micro-batch passes through the driver as Arrow, written by deltalake or pyiceberg.

Exactly once: the table itself remembers, in the same commit as the rows, which batch of which query it holds. A
replayed batch is recognised and skipped. The query is known by the id in its checkpoint, so that a new checkpoint,
whose batches count from 0 again, is another writer.
"""

from __future__ import annotations

import json
import logging
import warnings
from typing import Any, Final

from moldau.pipelines.spec import LakeTarget, TableTarget

DELETED: Final = "__moldau_deleted"
logger = logging.getLogger("moldau.pipelines")


class LakeWriter:
    """Called by Spark for each micro-batch, possibly in another process (Connect): holds plain data only."""

    def __init__(self, target: LakeTarget, mode: str, checkpoint: str, options: dict[str, str]) -> None:
        self._target = target
        self._mode = mode
        self._checkpoint = checkpoint
        self._options = options
        self._query_id: str | None = None

    def __call__(self, batch: Any, batch_id: int) -> None:
        if self._query_id is None:
            self._query_id = query_id_of(batch.sparkSession, self._checkpoint)
        table: Any = (
            DeltaTarget(self._target, self._options) if self._target.format == "delta" else IcebergTarget(self._target)
        )
        if table.holds(self._query_id, batch_id):
            logger.warning("batch %d is in %s already; it is skipped", batch_id, self._target.where)
            return
        rows = self._prepared(batch).toArrow()
        if rows.num_rows == 0 and self._mode != "complete":
            return
        if self._target.merge_on:
            table.merge(rows, self._query_id, batch_id)
        else:
            table.write(rows, self._query_id, batch_id, replace=self._mode == "complete")

    def _prepared(self, batch: Any) -> Any:
        """With `merge_on`: one row for each key, marked when it removes."""
        target = self._target
        if not target.merge_on:
            return batch
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window

        removes = F.expr(target.delete_when.value) if target.delete_when is not None else F.lit(False)
        batch = batch.withColumn(DELETED, F.coalesce(removes, F.lit(False)))
        if target.order_by is None:
            return batch
        newest = Window.partitionBy(*target.merge_on).orderBy(F.expr(target.order_by.value).desc_nulls_last())
        return batch.withColumn("__n", F.row_number().over(newest)).where("__n = 1").drop("__n")


def query_id_of(spark: Any, checkpoint: str) -> str:
    """The id Spark wrote into the checkpoint when the query was first started: the same after every restart."""
    line = spark.read.text(f"{checkpoint}/metadata").first()
    return str(json.loads(line[0])["id"])


class DeltaTarget:
    def __init__(self, target: LakeTarget, options: dict[str, str]) -> None:
        self._target = target
        self._options = options

    def holds(self, query_id: str, batch_id: int) -> bool:
        table = self._table()
        version = None if table is None else table.transaction_version(query_id)
        return version is not None and version >= batch_id

    def write(self, rows: Any, query_id: str, batch_id: int, *, replace: bool) -> None:
        from deltalake import write_deltalake

        write_deltalake(
            self._target.where,
            rows,
            mode="overwrite" if replace else "append",
            partition_by=list(self._target.partition_by) or None,
            storage_options=self._options or None,
            commit_properties=_transaction(query_id, batch_id),
        )

    def merge(self, rows: Any, query_id: str, batch_id: int) -> None:
        from deltalake import DeltaTable

        kept = rows.drop_columns([DELETED])
        table = self._table() or DeltaTable.create(
            self._target.where,
            schema=kept.schema,
            partition_by=list(self._target.partition_by) or None,
            storage_options=self._options or None,
        )
        every = {f"`{name}`": f"source.`{name}`" for name in kept.column_names}
        (
            table.merge(
                source=rows,
                predicate=" AND ".join(f"target.`{name}` = source.`{name}`" for name in self._target.merge_on),
                source_alias="source",
                target_alias="target",
                commit_properties=_transaction(query_id, batch_id),
            )
            .when_matched_delete(predicate=f"source.{DELETED}")
            .when_matched_update(updates=every)
            .when_not_matched_insert(updates=every, predicate=f"NOT source.{DELETED}")
            .execute()
        )

    def _table(self) -> Any:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._target.where, storage_options=self._options or None):
            return None
        return DeltaTable(self._target.where, storage_options=self._options or None)


def _transaction(query_id: str, batch_id: int) -> Any:
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction(query_id, batch_id)])


class IcebergTarget:
    def __init__(self, target: LakeTarget) -> None:
        from pyiceberg.catalog import load_catalog

        self._target = target
        properties = dict(target.catalog)
        # A catalog in a database keeps tables by the catalog's name: readers must use the same.
        self._catalog = load_catalog(properties.pop("name", "default"), **properties)

    def holds(self, query_id: str, batch_id: int) -> bool:
        if not self._catalog.table_exists(self._target.where):
            return False
        held = self._catalog.load_table(self._target.where).properties.get(_property(query_id))
        return held is not None and int(held) >= batch_id

    def write(self, rows: Any, query_id: str, batch_id: int, *, replace: bool) -> None:
        with self._table(rows.schema).transaction() as transaction:
            marks = {"moldau.query": query_id, "moldau.batch": str(batch_id)}
            if replace:
                transaction.overwrite(rows, snapshot_properties=marks)
            else:
                transaction.append(rows, snapshot_properties=marks)
            transaction.set_properties({_property(query_id): str(batch_id)})

    def merge(self, rows: Any, query_id: str, batch_id: int) -> None:
        import pyarrow.compute as pc
        from pyiceberg.table.upsert_util import create_match_filter

        kept = rows.filter(pc.invert(rows[DELETED])).drop_columns([DELETED])
        keys = list(self._target.merge_on)
        with self._table(kept.schema).transaction() as transaction:
            # Rows of these keys go, those that stay come back with their new values: one commit.
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Delete operation did not match any records")  # all keys are new
                transaction.delete(create_match_filter(rows, keys))
            if kept.num_rows:
                transaction.append(kept)
            transaction.set_properties({_property(query_id): str(batch_id)})

    def _table(self, schema: Any) -> Any:
        if self._catalog.table_exists(self._target.where):
            return self._catalog.load_table(self._target.where)
        self._catalog.create_namespace_if_not_exists(self._target.where.rpartition(".")[0])
        return self._catalog.create_table_if_not_exists(self._target.where, schema=schema)


def _property(query_id: str) -> str:
    return f"moldau.batch.{query_id}"


class TableReplacer:
    """`mode: complete` of a catalog table: each batch's result replaces it, which a replay may repeat."""

    def __init__(self, target: TableTarget, options: dict[str, str]) -> None:
        self._target = target
        self._options = options

    def __call__(self, batch: Any, batch_id: int) -> None:
        writer = batch.write.format(self._target.format or "parquet").mode("overwrite").options(**self._options)
        if self._target.partition_by:
            writer = writer.partitionBy(*self._target.partition_by)
        writer.saveAsTable(self._target.table)
