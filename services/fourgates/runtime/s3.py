"""Named bytes in a bucket of an S3-compatible store. The only importer of obstore, which the extra `s3` brings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.runtime.blob_objects import Found

T = TypeVar("T")

_ANSWERS_WITHIN_S = 60.0


class S3Objects:
    """What `put` has returned for the store has acknowledged; S3 shows an object whole or not at all."""

    def __init__(self, store: Any, prefix: str = "") -> None:
        self._store, self._prefix = store, prefix

    @classmethod
    def open(
        cls, url: str, *, endpoint: str = "", region: str = "", access_key_id: str = "", secret_access_key: str = ""
    ) -> S3Objects:
        """`url` is `s3://bucket` or `s3://bucket/prefix`. Without keys, those of the environment or the machine's role count.

        Raises ConfigurationError where the extra is missing or the URL is none.
        """
        try:
            from obstore.store import S3Store
        except ImportError:
            raise ConfigurationError("S3: `pip install 'fourgates[s3]'` brings what is needed") from None
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc:
            raise ConfigurationError(f"S3: {url!r} is not s3://bucket or s3://bucket/prefix")
        given = {
            "endpoint": endpoint, "region": region or "us-east-1", "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
        }  # fmt: skip
        made: Any = S3Store
        store = made(
            parts.netloc, client_options={"allow_http": endpoint.startswith("http://"), "timeout": f"{_ANSWERS_WITHIN_S:.0f}s"},
            **{name: value for name, value in given.items() if value},
        )  # fmt: skip
        prefix = parts.path.strip("/")
        return cls(store, f"{prefix}/" if prefix else "")

    async def put(self, key: str, content: bytes | IO[bytes]) -> None:
        import obstore

        try:
            await _answered(obstore.put_async(self._store, self._prefix + key, content))
        except KeyError:
            raise Transient("blob store: no such bucket") from None

    async def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        import obstore

        if size is not None:
            return bytes(await _answered(obstore.get_range_async(self._store, self._prefix + key, start=start, length=size)))
        whole = bytes(await (await _answered(obstore.get_async(self._store, self._prefix + key))).bytes_async())
        return whole[start:]

    async def head(self, key: str) -> Found | None:
        import obstore

        try:
            return self._found(await _answered(obstore.head_async(self._store, self._prefix + key)))
        except KeyError:
            return None

    async def delete(self, key: str) -> None:
        import obstore

        try:
            await _answered(obstore.delete_async(self._store, self._prefix + key))
        except KeyError:
            return

    async def list(self, folder: str) -> list[Found]:
        import obstore

        listed = obstore.list(self._store, prefix=(self._prefix + folder).rstrip("/") or None)
        return [self._found(one) for batch in await asyncio.to_thread(_all, listed) for one in batch]

    def _found(self, about: Any) -> Found:
        modified: datetime = about["last_modified"]
        return Found(about["path"].removeprefix(self._prefix), about["size"], int(modified.timestamp() * 1000))


def _all(listed: Any) -> list[Any]:
    try:
        return list(listed)
    except Exception as fault:
        raise Transient(f"blob store: {_first_line(fault)}") from fault


async def _answered(answer: Awaitable[T]) -> T:
    """The answer; KeyError where the object is not there, Transient for anything else that goes wrong."""
    from obstore.exceptions import NotFoundError

    try:
        return await answer
    except (NotFoundError, FileNotFoundError):
        raise KeyError("no such object") from None
    except Exception as fault:
        raise Transient(f"blob store: {_first_line(fault)}") from fault


def _first_line(fault: Exception) -> str:
    return str(fault).strip().splitlines()[0][:200] if str(fault).strip() else type(fault).__name__
