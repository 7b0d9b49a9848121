"""The trusted issuers of tokens, from one file; their public keys come from a JWKS URL or a key file, read again in time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import structlog

from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.gates.identity import APPROVALS_AUDIENCE, AUDIENCE, IssuerConfig, KeySource

from .keys import is_loopback

REFRESH_S = 300.0
LOOK_EVERY_S = 5.0
AT_MOST_EVERY_S = 30.0
"""However many tokens name a key that nobody knows, the issuer is asked no more often than this."""
_MAX_BYTES = 262_144
_log = structlog.get_logger("fourgates.identity")
_KNOWN = {"jwks_url", "jwks_file", "audience", "approvals_audience", "algorithms"}


class JwksUrl:
    """An issuer's JWKS over HTTP. While the issuer is away its last known keys count."""

    def __init__(self, url: str, http: httpx.AsyncClient, monotonic: Callable[[], float] = time.monotonic) -> None:
        if not url.startswith("https://") and not (url.startswith("http://") and is_loopback(url)):
            raise ConfigurationError(f"jwks_url {url!r}: must be https; http is accepted on loopback only")
        self._url, self._http, self._monotonic = url, http, monotonic
        self._keys: Mapping[str, Any] = {"keys": []}
        self._fetched = -AT_MOST_EVERY_S
        self._wanted = asyncio.Event()

    def jwks(self) -> Mapping[str, Any]:
        return self._keys

    def missing(self, kid: str) -> bool:
        if self._monotonic() - self._fetched >= AT_MOST_EVERY_S:
            self._wanted.set()
        return self._wanted.is_set()

    async def fetch(self) -> None:
        """Raises Transient where the issuer does not give a key set; the earlier one is kept."""
        try:
            answer = (await self._http.get(self._url)).raise_for_status()
            found: Any = json.loads(answer.content) if len(answer.content) <= _MAX_BYTES else None
        except (httpx.HTTPError, ValueError) as fault:
            raise Transient(f"the keys at {self._url} cannot be fetched ({type(fault).__name__})") from fault
        finally:
            self._fetched = self._monotonic()
            self._wanted.clear()
        if not _is_key_set(found):
            raise Transient(f"what lies at {self._url} is no JWK set")
        self._keys = found

    async def keep(self) -> None:
        """Fetches again every five minutes, and when a token names a key that the set lacks."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), REFRESH_S)
            try:
                await self.fetch()
            except Transient as fault:
                _log.warning("keys were not fetched again, the last known count", why=str(fault))


class JwksFile:
    """An issuer's JWKS in a file that may be replaced at any time. While it cannot be read its last known keys count."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError where there is no key set now."""
        self._path, self._stamp = path, _stamp(path)
        found = _read(path)
        if not _is_key_set(found):
            raise ConfigurationError(f"jwks_file {path}: not a JWK set")
        self._keys: Mapping[str, Any] = found

    def jwks(self) -> Mapping[str, Any]:
        return self._keys

    def missing(self, kid: str) -> bool:
        return self.look()

    def look(self) -> bool:
        """Reads the file if it was replaced or written since the last look. True where other keys count now."""
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            found = _read(self._path)
        except ConfigurationError as fault:
            _log.warning("keys were not read again, the last known count", why=str(fault))
            return False
        if not _is_key_set(found):
            _log.warning("keys were not read again, the last known count", why=f"{self._path}: not a JWK set")
            return False
        changed, self._keys = found != self._keys, found
        return changed

    async def keep(self) -> None:
        """Looks every five seconds: a key that was taken out must not count much longer."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _is_key_set(found: Any) -> bool:
    return isinstance(found, dict) and isinstance(found.get("keys"), list) and all(isinstance(k, dict) for k in found["keys"])


class Issuers:
    """All trusted issuers: `callers` for tokens that ask, `approvers` for tokens that decide. Use it as a context manager.

    The file is JSON, issuer -> {jwks_url or jwks_file, algorithms, audience, approvals_audience}; only the first is required.
    """

    def __init__(self, content: Mapping[str, Any], source: str, folder: Path, http: httpx.AsyncClient | None = None) -> None:
        self._http = http or httpx.AsyncClient(timeout=10.0)
        self._urls: list[JwksUrl] = []
        self._files: list[JwksFile] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.callers: dict[str, IssuerConfig] = {}
        self.approvers: dict[str, IssuerConfig] = {}
        for name, entry in content.items():
            if not isinstance(entry, dict) or set(entry) - _KNOWN or ("jwks_url" in entry) == ("jwks_file" in entry):
                raise ConfigurationError(
                    f"{source}: issuer {name!r}: give jwks_url or jwks_file, and of the rest only "
                    "algorithms, audience, approvals_audience"
                )
            keys = self._keys_of(entry, folder)
            common = {"algorithms": frozenset(entry["algorithms"])} if "algorithms" in entry else {}
            self.callers[name] = IssuerConfig(keys, audience=entry.get("audience", AUDIENCE), **common)
            self.approvers[name] = IssuerConfig(keys, audience=entry.get("approvals_audience", APPROVALS_AUDIENCE), **common)
            if self.callers[name].audience == self.approvers[name].audience:
                raise ConfigurationError(f"{source}: issuer {name!r}: audience and approvals_audience must differ")
        if not self.callers:
            raise ConfigurationError(f"{source}: no issuer given")

    @classmethod
    def from_file(cls, path: Path) -> Issuers:
        """Reads the file. Raises ConfigurationError, naming it and the entry that is wrong."""
        return cls(_read(path), f"issuers file {path}", path.parent)

    async def __aenter__(self) -> Issuers:
        """Fetches every key set before any token is looked at. Raises Transient."""
        try:
            for url in self._urls:
                await url.fetch()
        except BaseException:
            await self._http.aclose()
            raise
        kept: list[JwksUrl | JwksFile] = [*self._urls, *self._files]
        self._tasks = [asyncio.create_task(one.keep()) for one in kept]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    def _keys_of(self, entry: Mapping[str, Any], folder: Path) -> KeySource:
        if "jwks_url" in entry:
            url = JwksUrl(str(entry["jwks_url"]), self._http)
            self._urls.append(url)
            return url
        file = JwksFile(folder / str(entry["jwks_file"]))
        self._files.append(file)
        return file


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise ConfigurationError(f"{path} cannot be read as JSON ({type(fault).__name__})") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: not a JSON object")
    return found
