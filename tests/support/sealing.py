"""Writers and an opener that know each other: one keyring for tests that need sealed records and no more."""

from __future__ import annotations

from functools import cache
from typing import Any

from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.runtime.keys import Keyring, new_development_content
from support.records import codec


@cache
def key_content() -> dict[str, Any]:
    """The keys themselves, for another process that must know the same ones."""
    return new_development_content()


@cache
def keyring() -> Keyring:
    return Keyring(key_content())


def writer(name: str) -> RecordWriter:
    """The named writer's."""
    return RecordWriter(codec(), keyring().signer(name))


def opener() -> RecordOpener:
    """Opens what any of them wrote."""
    return RecordOpener(codec(), keyring().verifier())
