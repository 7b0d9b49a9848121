"""All key material of one environment: made once for development, loaded from a key file elsewhere. Nothing here prints any."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import ECKey, OKPKey

from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import Signer, Verifier
from fourgates.contract.seals import writer_of

from .dev_issuer import DevIssuer
from .seal_keys import KeyringVerifier, read_seal_key, verifying_part

WRITERS = ("validator", "authorizer", "waiter", "executor", "sanitizer", "audit", "operator")
"""Who seals with a shared secret. `approver` always signs with Ed25519: a gate must not be able to forge what people decide."""
_FORMAT = "fourgates-keys/1"
_FILE = "keys.json"


class Keyring:
    """The keys of one environment, or as many of them as one process was given. What is missing is named when it is asked for."""

    def __init__(self, content: Mapping[str, Any], source: str = "the key file") -> None:
        self._source = source
        try:
            if content["format"] != _FORMAT:
                raise ConfigurationError(f"{source}: the format must be {_FORMAT!r}")
            self._seals = tuple(read_seal_key(key_id, entry) for key_id, entry in content["seals"].items())
            self._grants: tuple[dict[str, Any], ...] = tuple(dict(jwk) for jwk in content.get("grants", ()))
            self._results = {str(key_id): bytes.fromhex(key) for key_id, key in content.get("results", {}).items()}
            self._placeholder = bytes.fromhex(content.get("placeholder", ""))
            self._door_token: str = content.get("door_token", "")
            self._issuer = DevIssuer(content["issuer"]) if content.get("issuer") else None
            if not isinstance(self._door_token, str):
                raise TypeError
            for jwk in self._grants:
                ECKey.import_key(jwk)
        except ConfigurationError:
            raise
        except Exception:  # whatever it was, its text may quote a key
            raise ConfigurationError(f"{source}: not a key file of fourgates, or a key in it is damaged") from None
        if any(len(key) != 32 for key in self._results.values()):
            raise ConfigurationError(f"{source}: result keys must have 32 bytes")

    def __repr__(self) -> str:
        return f"Keyring({', '.join(sorted(key.key_id for key in self._seals))})"

    @classmethod
    def from_file(cls, path: Path) -> Keyring:
        """The keys of a JSON key file, which only its owner may read. ConfigurationError says what is wrong with it."""
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                raise ConfigurationError(f"key file {path}: mode {mode:04o} lets others read it; set it to 0600")
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as fault:
            raise ConfigurationError(f"key file {path} cannot be read ({type(fault).__name__})") from None
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise ConfigurationError(f"key file {path}: not a JSON object")
        return cls(content, f"key file {path}")

    def signer(self, writer: str) -> Signer:
        """The writer's newest key that is not retired."""
        for key in sorted((k for k in self._seals if writer_of(k.key_id) == writer), key=lambda k: -k.number):
            if (signer := key.signer()) is not None:
                return signer
        raise self._missing(f"no key for {writer!r} to seal with")

    def verifier(self) -> Verifier:
        return KeyringVerifier(self._seals)

    def result_key(self) -> tuple[str, bytes]:
        """(key id, AES-256-GCM key) for results on their way from the executor to the sanitizer: the last one in the file."""
        if not self._results:
            raise self._missing("no result key")
        return list(self._results.items())[-1]

    def result_keys(self) -> Mapping[str, bytes]:
        return dict(self._results)

    def placeholder_key(self) -> bytes:
        """For keyed digests of what was redacted."""
        if not self._placeholder:
            raise self._missing("no placeholder key")
        return self._placeholder

    def door_token(self) -> str:
        """The bearer token of the audit's query door."""
        if not self._door_token:
            raise self._missing("no door token")
        return self._door_token

    def validator_private(self) -> dict[str, Any]:
        """The JWK that opens grants: the last one in the file."""
        if not self._grants or "d" not in self._grants[-1]:
            raise self._missing("no private key for grants")
        return dict(self._grants[-1])

    def validator_retired(self) -> tuple[dict[str, Any], ...]:
        """Earlier JWKs, for grants of runs that began before the rotation."""
        return tuple(dict(jwk) for jwk in self._grants[:-1] if "d" in jwk)

    def validator_public(self) -> dict[str, Any]:
        """The JWK that grants are encrypted to."""
        if not self._grants:
            raise self._missing("no key for grants")
        return {name: value for name, value in self._grants[-1].items() if name != "d"}

    @property
    def issuer(self) -> DevIssuer:
        """The development issuer. Only a development keyring has one."""
        if self._issuer is None:
            raise self._missing("no development issuer")
        return self._issuer

    def host_part(self) -> dict[str, Any]:
        """A key file's content for a host's SDK: the validator's public key and what verifies the sanitizer's answers."""
        seals = {key.key_id: verifying_part(key) for key in self._seals if writer_of(key.key_id) == "sanitizer"}
        return {"format": _FORMAT, "seals": seals, "grants": [self.validator_public()]}

    def _missing(self, what: str) -> ConfigurationError:
        return ConfigurationError(f"{self._source}: {what}")


class DevKeys:
    """Development keys: made on first use, readable by their owner only."""

    @staticmethod
    def load(folder: Path) -> Keyring:
        """The keyring of `folder`, made now where there is none. Two processes that start at once get the same one."""
        path = folder / _FILE
        if not path.exists():
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                _create(path, json.dumps(new_development_content(), indent=1))
            except OSError as fault:
                raise ConfigurationError(f"keys folder {folder}: cannot make development keys there ({fault.strerror})") from None
        return Keyring.from_file(path)

    @staticmethod
    def found(folder: Path) -> Keyring:
        """The keyring that is there. ConfigurationError where none is: new keys would fit nobody else's."""
        if not (folder / _FILE).exists():
            raise ConfigurationError(
                f"there are no development keys in {folder}: start `fourgates up` first, and set FOURGATES_HOME to its folder"
            )
        return Keyring.from_file(folder / _FILE)


def _create(path: Path, text: str) -> None:
    """Writes a new file of mode 0600 whole or not at all; leaves one that another process made meanwhile as it is."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".keys-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            return
    finally:
        Path(name).unlink()


def new_development_content() -> dict[str, Any]:
    """A fresh key file's content, every key in it new."""
    approver = Ed25519PrivateKey.generate().private_bytes_raw().hex()
    seals: dict[str, dict[str, str]] = {f"{writer}:1": {"secret": secrets.token_hex(32)} for writer in WRITERS}
    return {
        "format": _FORMAT,
        "seals": {**seals, "approver:1": {"private": approver}},
        "grants": [ECKey.generate_key("P-256", {"kid": "grant:1", "use": "enc"}).as_dict(private=True)],
        "results": {"result:1": secrets.token_hex(32)},
        "placeholder": secrets.token_hex(32),
        "door_token": secrets.token_urlsafe(32),
        "issuer": OKPKey.generate_key("Ed25519", {"kid": "dev:1"}).as_dict(private=True),
    }


def require_development(environment: str, addresses: Iterable[str]) -> None:
    """ConfigurationError unless this is development and every address (`host:port`, URL or host) is on loopback.

    Development keys lie readable in a folder and the development issuer signs whatever it is asked to, so neither may meet a
    network.
    """
    if environment != "development":
        raise ConfigurationError(
            f"environment: {environment!r} does not accept development keys; give a key file, or set it to 'development'"
        )
    for address in addresses:
        if not is_loopback(address):
            raise ConfigurationError(f"address {address!r}: development keys are accepted only where everything is on loopback")


def is_loopback(address: str) -> bool:
    """True for localhost, 127.0.0.0/8 and ::1, with or without scheme and port. Other names are not looked up."""
    bare = address.count(":") > 1 and "[" not in address and "://" not in address  # an IPv6 address without a port
    try:
        host = address if bare else urlsplit(address if "://" in address else f"//{address}").hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
