from __future__ import annotations

import pytest

from moldau.client.partitioner import murmur2, partition_for_key


# Kafka's own vectors (org.apache.kafka.common.utils.UtilsTest), as unsigned numbers.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_numbers(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_a_key_stays_on_its_partition_and_in_range() -> None:
    for count in (1, 3, 12):
        for number in range(200):
            partition = partition_for_key(b"%d" % number, count)
            assert 0 <= partition < count
            assert partition == partition_for_key(b"%d" % number, count)


def test_keys_agree_with_kafka_python() -> None:
    from kafka.partitioner.default import murmur2 as foreign

    for number in range(500):
        key = b"key-%d" % (number * 7919)
        assert murmur2(key) == foreign(key) & 0xFFFFFFFF
