"""Kafka's default partitioner (murmur2), so that every writer and checker agrees where a key belongs."""

from __future__ import annotations

import struct
from functools import lru_cache

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of Kafka's Java client (seed 0x9747b28c), unsigned."""
    length = len(data)
    h = (0x9747B28C ^ length) & _MASK
    whole = length & ~3
    for k in struct.unpack(f"<{whole >> 2}I", data[:whole]):
        k = k * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK  # what is above 32 bits never comes down: one mask does for all
    rest = length & 3
    if rest == 3:
        h ^= data[whole + 2] << 16
    if rest >= 2:
        h ^= data[whole + 1] << 8
    if rest >= 1:
        h ^= data[whole]
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


@lru_cache(maxsize=16_384)  # a call's key is looked at on each of its records
def partition_of(key: bytes, partitions: int) -> int:
    """The partition of `key` on a topic of `partitions`, as Kafka's default partitioner places it."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
