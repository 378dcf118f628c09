"""A node whose logs were damaged while it was down: one partition offline, the others serve, the doctor told."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.doctor import ERROR, WARNING, check_logs
from moldau.core.metadata.commands import DeleteTopics, TopicRef
from moldau.model.errors import ErrorCode
from moldau.node import damage_list
from moldau.runtime.disk import RealDisk
from moldau.storage.findings import CUT, OFFLINE, Finding
from moldau_sim.disk import SimulatedDisk

from .nodes import DATA, Machine, append, create, on_a_machine, submit


def test_a_damaged_partition_answers_storage_error_and_the_others_serve() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders", 2)
        for _ in range(3):
            append(node, "orders", 0)
            append(node, "orders", 1)
        await machine.host.stop()
        disk = SimulatedDisk(machine.host.drive)
        path = f"{DATA}/orders-0/00000000000000000000.log"
        disk.replace(path, b"\xff" * 61 + disk.read(path)[61:])
        again = await machine.start()
        bad = again.partitions.get("orders", 0)
        assert bad is not None
        assert bad.role_error() == ErrorCode.KAFKA_STORAGE_ERROR
        outcome = bad.append(b"", 1, 0)
        assert outcome.error == ErrorCode.KAFKA_STORAGE_ERROR
        assert "is damaged at 0" in outcome.detail
        assert append(again, "orders", 1) == 3
        assert [one["kind"] for one in damage_of(disk.read(f"{DATA}/{damage_list.NAME}"))] == ["offline"]
        await submit(again, DeleteTopics((TopicRef("orders"),)))
        assert again.partitions.topic("orders") is None

    on_a_machine(scenario)


def damage_of(data: bytes) -> list[dict[str, object]]:
    import json

    found: list[dict[str, object]] = json.loads(data)
    return found


def test_the_doctor_counts_what_starts_found_until_the_file_is_removed(tmp_path: Path) -> None:
    disk = RealDisk()
    cut = Finding(CUT, "orders", 0, 19, 120, 9000, "a.log: torn")
    offline = Finding(OFFLINE, "orders", 1, 0, 50, 4000, "b.log is damaged")
    damage_list.add(disk, str(tmp_path), [cut], 1_000)
    damage_list.add(disk, str(tmp_path), [offline], 2_000)
    damage_list.add(disk, str(tmp_path), [offline], 3_000)
    assert [(one.kind, one.first_ms, one.last_ms, one.starts) for one in damage_list.read(tmp_path)] == [
        ("cut", 1_000, 1_000, 1),
        ("offline", 2_000, 3_000, 2),
    ]
    first, second, total = check_logs(tmp_path)
    assert (first.state, first.text) == (WARNING, cut.text)
    assert cut.text == "orders-0 was cut at offset 19, 9000 bytes dropped (at least offsets 19 to 119): a.log: torn"
    assert (second.state, second.text) == (ERROR, offline.text)
    assert total.text == "2 findings since 1970-01-01 00:00 UTC"
    (tmp_path / damage_list.NAME).unlink()
    assert list(check_logs(tmp_path)) == []


def test_a_damaged_list_of_damage_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / damage_list.NAME).write_bytes(b"\0\0")
    damage_list.add(RealDisk(), str(tmp_path), [Finding(CUT, "t", 0, 1, 2, 3, "why")], 5)
    assert len(damage_list.read(tmp_path)) == 1
