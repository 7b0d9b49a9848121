"""Writers and an opener that know each other: one keyring for tests that need sealed records and no more."""

from __future__ import annotations

from functools import cache

from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.runtime.keys import Keyring, new_development_content
from support.records import codec


@cache
def keyring() -> Keyring:
    return Keyring(new_development_content())


def writer(name: str) -> RecordWriter:
    """The named writer's."""
    return RecordWriter(codec(), keyring().signer(name))


def opener() -> RecordOpener:
    """Opens what any of them wrote."""
    return RecordOpener(codec(), keyring().verifier())
