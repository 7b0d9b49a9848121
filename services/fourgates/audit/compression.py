"""HTTP compression of the query door, as ClickHouse has it: gzip, lz4 and zstd of statements and, where asked for, of answers."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any

import lz4.frame  # type: ignore[import-untyped]  # it comes with clickhouse-connect, as zstd does

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP = 31
"""zlib's window bits with gzip's header."""
_BROKEN = (zlib.error, zstd.ZstdError, RuntimeError, EOFError)


class BadEncoding(Exception):
    """The body is not what its Content-Encoding says, or nobody here knows that encoding."""


class TooLong(Exception):
    """Decompressed, the body is longer than it may be."""


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(level=3, wbits=_GZIP)
    return packer.compress(data) + packer.flush()


_PACK: dict[str, Callable[[bytes], bytes]] = {"zstd": zstd.compress, "lz4": lz4.frame.compress, "gzip": _gzip}
"""By preference where a caller takes several."""
_UNPACK: dict[str, Callable[[], Any]] = {
    "zstd": zstd.ZstdDecompressor, "lz4": lz4.frame.LZ4FrameDecompressor, "gzip": lambda: zlib.decompressobj(_GZIP),
}  # fmt: skip


def unpacked(data: bytes, encoding: str, at_most: int) -> bytes:
    """The body as it was before it was compressed; never more than `at_most` bytes are made. Raises BadEncoding, TooLong."""
    if encoding in ("", "identity"):
        return data
    if encoding not in _UNPACK:
        raise BadEncoding(f"the encoding {encoding[:40]!r} is not known here: {', '.join(_UNPACK)}")
    try:
        plain: bytes = _UNPACK[encoding]().decompress(data, at_most + 1)
    except _BROKEN as fault:
        raise BadEncoding(f"the body is not {encoding}") from fault
    if len(plain) > at_most:
        raise TooLong
    return plain


def packed(data: bytes, accepted: str) -> tuple[bytes, str]:
    """(body, Content-Encoding) for a caller that accepts these; as it is, and no encoding, where we know none of them."""
    names = {name.partition(";")[0].strip().lower() for name in accepted.split(",") if ";q=0" not in name.replace(" ", "")}
    for encoding, pack in _PACK.items():
        if encoding in names:
            return pack(data), encoding
    return data, ""
