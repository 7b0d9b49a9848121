"""Every writer agrees with Kafka's default partitioner where a key belongs."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2 as reference
from hypothesis import given
from hypothesis import strategies as st

from fourgates.contract.partition import murmur2, partition_of


@given(st.binary(max_size=300))
def test_murmur2_equals_the_clients(data: bytes) -> None:
    assert murmur2(data) == reference(data) & 0xFFFFFFFF


@given(st.binary(min_size=1, max_size=80), st.integers(min_value=1, max_value=64))
def test_partition_equals_the_default_partitioners(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == (reference(key) & 0x7FFFFFFF) % partitions


@pytest.mark.parametrize(
    ("text", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
     (b"a-little-bit-longer-string", -1486304829), (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971)],
)  # fmt: skip
def test_murmur2_of_kafkas_own_vectors(text: bytes, hashed: int) -> None:
    assert murmur2(text) == hashed & 0xFFFFFFFF
