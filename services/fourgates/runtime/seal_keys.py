"""The keys that seal records: one writer's key, the signers it gives and the verifier of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import Signer
from fourgates.contract.seals import HmacSigner, hmac_fits, writer_of

_KEY_ID = re.compile(r"[a-z]+:[1-9][0-9]*")


class Ed25519Signer:
    """Seals with a private key; who verifies holds only the public one."""

    mac_bytes = 64

    def __init__(self, key_id: str, private: bytes) -> None:
        self.key_id, self._private = key_id, Ed25519PrivateKey.from_private_bytes(private)

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)


@dataclass(frozen=True, slots=True)
class SealKey:
    """One writer's key. A retired one verifies what was appended while it served, and seals nothing more."""

    key_id: str
    secret: bytes = field(default=b"", repr=False)
    private: bytes = field(default=b"", repr=False)
    public: bytes = field(default=b"", repr=False)
    retired: bool = False
    """Seals nothing here: it was retired, or this process only verifies with it."""
    retired_ms: int | None = None
    """Broker time from which on nothing counts that it sealed, for it may be in anybody's hands by then."""

    @property
    def number(self) -> int:
        return int(self.key_id.partition(":")[2])

    def signer(self) -> Signer | None:
        if self.retired or self.retired_ms is not None:
            return None
        if self.secret:
            return HmacSigner(self.key_id, self.secret)
        return Ed25519Signer(self.key_id, self.private) if self.private else None


class KeyringVerifier:
    """Checks seals of all writers of a keyring, retired keys included."""

    def __init__(self, keys: Iterable[SealKey]) -> None:
        self._secrets: dict[str, bytes] = {}
        self._publics: dict[str, Ed25519PublicKey] = {}
        self._retired_ms: dict[str, int] = {}
        for key in keys:
            if key.retired_ms is not None:
                self._retired_ms[key.key_id] = key.retired_ms
            if key.secret:
                self._secrets[key.key_id] = key.secret
            else:
                self._publics[key.key_id] = Ed25519PublicKey.from_public_bytes(key.public)

    def verify(self, key_id: str, data: bytes, mac: bytes, at_ms: int | None = None) -> bool:
        if at_ms is not None and at_ms >= self._retired_ms.get(key_id, at_ms + 1):
            return False
        if (secret := self._secrets.get(key_id)) is not None:
            return hmac_fits(secret, data, mac)
        if (public := self._publics.get(key_id)) is None:
            return False
        try:
            public.verify(mac, data)
        except InvalidSignature:
            return False
        return True


def read_seal_key(key_id: str, entry: Mapping[str, Any]) -> SealKey:
    """A key file's entry. ConfigurationError names the key, never what is in it."""
    parts = {name: bytes.fromhex(entry.get(name, "")) for name in ("secret", "private", "public")}
    if parts["private"]:
        parts["public"] = Ed25519PrivateKey.from_private_bytes(parts["private"]).public_key().public_bytes_raw()
    if parts["public"]:
        Ed25519PublicKey.from_public_bytes(parts["public"])
    retired_ms = entry.get("retired_ms")
    if retired_ms is not None and (isinstance(retired_ms, bool) or not isinstance(retired_ms, int) or retired_ms < 0):
        raise ConfigurationError(f"seal key {key_id!r}: retired_ms must be milliseconds since the epoch")
    key = SealKey(key_id, retired=bool(entry.get("retired", False)), retired_ms=retired_ms, **parts)
    if not _KEY_ID.fullmatch(key_id):
        raise ConfigurationError(f"seal key {key_id!r}: its id must be writer:number, such as executor:1")
    if bool(key.secret) == bool(key.public):
        raise ConfigurationError(f"seal key {key_id!r}: give either a secret or an Ed25519 key")
    if key.secret and (len(key.secret) < 32 or writer_of(key_id) == "approver"):
        raise ConfigurationError(f"seal key {key_id!r}: secrets have 32 bytes at least, and approver keys must be Ed25519")
    return key


def verifying_part(key: SealKey) -> dict[str, Any]:
    """The entry for a process that only verifies: a public key, or a secret that may seal nothing."""
    part: dict[str, Any] = {"secret": key.secret.hex(), "retired": True} if key.secret else {"public": key.public.hex()}
    return part if key.retired_ms is None else {**part, "retired_ms": key.retired_ms}
