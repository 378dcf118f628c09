"""`moldau log dump FILE...`: what is inside the files of a log directory, Kafka's or ours."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import click

from moldau.cli.errors import PlainError
from moldau.cli.output import FORMAT, counted, to_yaml
from moldau.cli.record_format import text_or_base64
from moldau.core.log import index
from moldau.core.log.producer_snapshot import CorruptSnapshot, decode_snapshot
from moldau.model.failures import CorruptBatch
from moldau.ports import File
from moldau.records.batch import HEADER_BYTES, BatchHeader, batch_crc_ok, parse_header
from moldau.records.reader import iterate_batch

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENTS = (".log", ".log.deleted", ".log.cleaned", ".log.swap")
TEXTS = ("-checkpoint", ".metadata", ".properties")
KNOWN = (*SEGMENTS, *TEXTS, ".index", ".timeindex", ".txnindex", ".snapshot")
Row = dict[str, Any]


@click.group(help="Look inside log segments on disk.")
def log() -> None:
    pass


@log.command(
    help="Print batches, index entries, producer snapshots and checkpoints. Exit status 1 if a file is damaged."
)
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIRECTORY...", type=click.Path(exists=True))
@click.option("-d", "--deep", is_flag=True, help="Print every record of every batch too.")
@click.option("--verify-only", is_flag=True, help="Check checksums and order, print only what is wrong.")
@FORMAT
def dump(paths: tuple[str, ...], deep: bool, verify_only: bool, format_: str) -> None:
    damaged = False
    for path in (file for given in paths for file in _files(given)):
        if format_ == "table":
            click.echo(f"{path} ({counted(os.path.getsize(path), 'byte')})")
        for row in rows_of(path, deep=deep):
            damaged = damaged or "problem" in row
            if not verify_only or "problem" in row:
                _print(path, row, format_)
    if damaged:
        raise SystemExit(1)
    if verify_only and format_ == "table":
        click.echo("no damage found")


def _files(path: str) -> list[str]:
    """The file itself, or everything in a directory that belongs to a log, in order."""
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names if name.endswith(KNOWN)]
    if not found:
        raise PlainError("MD-2006", "no files of a log in this directory", facts=[("path", path), ("known", _known())])
    return sorted(found)


def _known() -> str:
    return ".log .index .timeindex .txnindex .snapshot, checkpoints, partition.metadata"


def rows_of(path: str, *, deep: bool = False) -> Iterator[Row]:
    """The contents of one file by its name, as rows; a damaged place is a row with a `problem`."""
    from moldau.runtime.disk import RealDisk

    disk = RealDisk()
    name = os.path.basename(path)
    if name.endswith(SEGMENTS):
        yield from _batches(disk.open(path), deep)
        return
    data = disk.read(path)
    base_offset = int(name.split(".")[0]) if name.split(".")[0].isdigit() else 0
    if name.endswith(".timeindex"):
        for slot in range(len(data) // index.TIME_ENTRY_BYTES):
            row: Row = {"timestamp_ms": index.timestamp_at(data, slot)}
            yield {**row, "offset": base_offset + index.time_offset_at(data, slot)}
    elif name.endswith(".txnindex"):
        for txn in index.decode_txn_entries(data):
            yield {
                "producer_id": txn.producer_id,
                "first_offset": txn.first_offset,
                "last_offset": txn.last_offset,
                "last_stable_offset": txn.last_stable_offset,
            }
    elif name.endswith(".index"):
        for slot in range(len(data) // index.OFFSET_ENTRY_BYTES):
            yield {"offset": base_offset + index.offset_at(data, slot), "position": index.position_at(data, slot)}
    elif name.endswith(".snapshot"):
        yield from _producers(data)
    elif name.endswith(TEXTS):
        for line in data.decode(errors="replace").splitlines():
            yield {"line": line}
    else:
        raise PlainError(
            "MD-2006",
            f"'{name}' is not a file of a log directory",
            facts=[("known", _known())],
        )


def _batches(file: File, deep: bool) -> Iterator[Row]:
    size = file.size_bytes()
    position = 0
    next_offset = -1
    while position < size:
        head = file.read_at(position, HEADER_BYTES)
        try:
            header = parse_header(head, 0)
        except CorruptBatch as failure:
            yield {"position": position, "problem": f"no batch here: {failure}", "rest_bytes": size - position}
            return
        if position + header.size_bytes > size:
            missing = position + header.size_bytes - size
            yield {"position": position, "problem": f"the batch is cut, {counted(missing, 'byte')} missing"}
            return
        data = file.read_at(position, int(header.size_bytes))
        yield _batch_row(position, header, data, next_offset)
        if deep:
            yield from _records(data, header)
        next_offset = header.next_offset
        position += header.size_bytes


def _batch_row(position: int, header: BatchHeader, data: bytes, expected_offset: int) -> Row:
    row: Row = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "epoch": header.partition_leader_epoch,
        "position": position,
        "size_bytes": header.size_bytes,
        "codec": CODEC_NAMES[header.codec] if header.codec < len(CODEC_NAMES) else str(header.codec),
        "max_timestamp_ms": header.max_timestamp,
        "log_append_time": header.log_append_time,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }
    if not batch_crc_ok(data, header):
        row["problem"] = "the checksum does not match"
    elif header.base_offset < expected_offset:
        row["problem"] = f"the offset goes back; at least {expected_offset} was expected"
    return row


def _records(data: bytes, header: BatchHeader) -> Iterator[Row]:
    try:
        for record in iterate_batch(data, 0, header):
            yield {
                "offset": record.offset,
                "timestamp_ms": record.timestamp,
                "key": record.key,
                "value": record.value,
                "headers": [(name, value) for name, value in record.headers],  # a name may come more than once
            }
    except CorruptBatch as failure:
        yield {"problem": f"a record does not parse: {failure}"}


def _producers(data: bytes) -> Iterator[Row]:
    try:
        for state in decode_snapshot(data):
            yield {
                "producer_id": state.producer_id,
                "epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_offset": state.last_data_offset,
                "txn_first_offset": state.txn_first_offset,
            }
    except CorruptSnapshot as failure:
        yield {"problem": str(failure)}


def _print(path: str, row: Row, format_: str) -> None:
    """Row by row, because a log may be larger than memory: JSON lines, or the items of one YAML list."""
    if format_ == "table":
        indent = "    " if "key" in row else "  "
        shown = (f"{name}={_shown(value)}" for name, value in row.items() if value is not None and value is not False)
        click.echo(indent + "  ".join(shown))
        return
    line = json.dumps({"file": path, **row}, default=text_or_base64)
    click.echo(line if format_ == "json" else "\n".join(to_yaml([json.loads(line)])))


def _shown(value: Any) -> str:
    """For people: bytes as text with escapes, headers as NAME=VALUE."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, list):
        return ",".join(name if raw is None else f"{name}={_shown(raw)}" for name, raw in value)
    return str(value)
