"""The second copy of the metadata: whole or refused, never half believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import (
    BrokerRegistered,
    ClusterNamed,
    ConfigChanged,
    PartitionAdded,
    Record,
    TopicCreated,
    encode_record,
)
from moldau.model.failures import StoreDamaged
from moldau.runtime.disk import RealDisk
from moldau.store.copies import Copy, decode_copy, encode_copy, newest_copy, write_copy
from moldau.store.rescue import best, restore, sources

RECORDS: list[Record] = [
    ClusterNamed("5L6g3nShT-eMCtK--X86sw"),
    BrokerRegistered(1, 7, b"i" * 16, None, (), (b"d" * 16,)),
    TopicCreated(b"t" * 16, "ledger"),
    PartitionAdded(b"t" * 16, 0, (1,), (1,), 1, 0, 0, (b"d" * 16,)),
    ConfigChanged(2, "ledger", "retention.ms", "-1"),
]


def a_copy(offset: int = 5) -> Copy:
    return Copy(offset, 1_700_000_000_000, tuple(map(encode_record, RECORDS)))


def image(offset: int = 5) -> MetadataImage:
    return MetadataDelta(MetadataImage()).replay_all(RECORDS).apply(offset)


def test_what_was_written_is_read_again() -> None:
    assert decode_copy(encode_copy(a_copy())) == a_copy()
    assert decode_copy(encode_copy(Copy(0, 1, ()))) == Copy(0, 1, ())


def test_no_cut_and_no_flipped_bit_is_believed() -> None:
    data = encode_copy(a_copy())
    for place in range(len(data)):
        with pytest.raises(StoreDamaged):
            decode_copy(data[:place])
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(StoreDamaged):
            decode_copy(bytes(damaged))


def test_the_copy_before_stays_and_helps_when_the_newest_is_damaged(tmp_path: Path) -> None:
    disk = RealDisk()
    for offset in (5, 6, 7):
        write_copy(disk, str(tmp_path), encode_copy(a_copy(offset)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metadata.copy", "metadata.copy.previous"]
    path, copy = newest_copy(disk, [str(tmp_path)]) or ("", a_copy(0))
    assert (Path(path).name, copy.offset) == ("metadata.copy", 7)
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    path, copy = newest_copy(disk, [str(tmp_path)]) or ("", a_copy(0))
    assert (Path(path).name, copy.offset) == ("metadata.copy.previous", 6)
    assert newest_copy(disk, [str(tmp_path)], beyond=6) is None


@pytest.mark.parametrize("damage", ["gone", "empty", "zeroed", "half", "noise"])
def test_the_store_is_made_again_from_the_newest_sound_copy(tmp_path: Path, damage: str) -> None:
    disk, directory, store = RealDisk(), str(tmp_path), tmp_path / "metadata.db"
    write_copy(disk, directory, encode_copy(a_copy(5)))
    first = best(sources(disk, directory))
    assert first is not None
    assert restore(disk, directory, first, 1) == []
    whole = store.read_bytes()
    write_copy(disk, directory, encode_copy(a_copy(6)))
    store.unlink()
    if damage != "gone":
        shapes = {"empty": b"", "zeroed": bytes(len(whole)), "half": whole[: len(whole) // 2], "noise": b"x" * 9999}
        store.write_bytes(shapes[damage])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    found = sources(disk, directory)
    assert found[0].problem
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before, "looking changes nothing"
    newest = best(found)
    assert newest is not None
    kept = restore(disk, directory, newest, 99)
    assert kept == ([] if damage == "gone" else ["metadata.db.lost.99"])
    again = sources(disk, directory)[0]
    assert (again.problem, again.image) == ("", image(6))


def test_a_store_that_lost_its_last_changes_is_older_than_its_copy(tmp_path: Path) -> None:
    disk, directory = RealDisk(), str(tmp_path)
    write_copy(disk, directory, encode_copy(a_copy(5)))
    newest = best(sources(disk, directory))
    assert newest is not None
    restore(disk, directory, newest, 1)
    newest = best(sources(disk, directory))
    assert newest is not None
    assert newest.path.endswith("metadata.db"), "as new as its copy: nothing to restore"
    write_copy(disk, directory, encode_copy(a_copy(9)))
    newest = best(sources(disk, directory))
    assert newest is not None
    assert newest.path.endswith("metadata.copy")


def test_a_copy_from_elsewhere_counts_when_named(tmp_path: Path) -> None:
    disk, backup = RealDisk(), tmp_path / "backup"
    (tmp_path / "data").mkdir()
    backup.write_bytes(encode_copy(a_copy(12)))
    newest = best(sources(disk, str(tmp_path / "data"), [str(backup)]))
    assert newest is not None
    assert (newest.path, newest.image.offset) == (str(backup), 12)
