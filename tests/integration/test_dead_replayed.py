"""Dead letters on a real broker: one that is replayed lies on its topic again, byte for byte, and who did it is sealed."""

from __future__ import annotations

import dataclasses
import getpass
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from fourgates.contract.avro import AvroCodec
from fourgates.contract.dead import dead_record
from fourgates.contract.events import CallValidated, DeadRecord, LedgerEntry, LedgerKind, Record
from fourgates.contract.partition import partition_of
from fourgates.contract.parts import ref_of
from fourgates.contract.ports import Position, Received
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import CALLS_VALIDATED, RECORDS_DEAD
from fourgates.runtime.data import data_folder
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.keys import DevKeys
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.registry import LocalRegistry
from support.cli import invoke, refused
from support.kafka import finish
from support.samples import CALL, SEALED

pytestmark = pytest.mark.kafka
VALIDATED = next(record for _, record in SEALED if isinstance(record, CallValidated))


@dataclasses.dataclass
class Cemetery:
    """A broker's topics, and the keys of a home."""

    bootstrap: str
    home: Path

    def __post_init__(self) -> None:
        self.keyring, self.codec = DevKeys.load(self.home / "keys"), AvroCodec(LocalRegistry(data_folder("schemas")))
        self.opener = RecordOpener(self.codec, self.keyring.verifier())
        self.settings = {"home": str(self.home), "bootstrap": self.bootstrap}

    def writer(self, name: str) -> RecordWriter:
        return RecordWriter(self.codec, self.keyring.signer(name))

    def validated(self, number: int, minutes: float = 5) -> CallValidated:
        call = dataclasses.replace(CALL, call_id=f"{number:064x}", deadline_ms=int((time.time() + 60 * minutes) * 1000))
        return dataclasses.replace(VALIDATED, call=call, event_id=f"{number:032x}")

    def bury(self, record: Record, by: str = "validator", partition: int | None = None, gone: bool = False) -> tuple[str, bytes]:
        """Puts the record where it should not lie (or nowhere), and its letter beside; gives the letter's place, the bytes."""

        async def work() -> tuple[str, bytes]:
            async with KafkaBus(self.bootstrap, self.opener) as bus:
                topic, key, value = self.writer(by).encode(record)
                where = Position(topic, 0, 4_000) if gone else await bus.raw.append(topic, key, value, partition)
                letter = dead_record(Received(where, 1, key, value), "authorizer", "test", "wrong_partition", "a test")
                lies = await bus.publisher(self.writer("authorizer")).publish(letter)
                return f"{lies.partition}/{lies.offset}", value

        return finish(work())

    def publish(self, by: str, records: Sequence[Record]) -> None:
        async def work() -> None:
            async with KafkaBus(self.bootstrap, self.opener) as bus:
                for record in records:
                    await bus.publisher(self.writer(by)).publish(record)

        finish(work())

    def lying(self, topic: str) -> list[Received]:
        async def work() -> list[Received]:
            async with KafkaBus(self.bootstrap, self.opener) as bus:
                return await bus.records(topic)

        return finish(work())


def test_what_is_safe_is_replayed_once_and_what_is_not_is_refused_with_its_reason(
    fresh_kafka: LocalBroker, tmp_path: Path
) -> None:
    """S3: dead letters listed and replayed."""
    there = Cemetery(fresh_kafka.bootstrap, tmp_path)
    record = there.validated(1)
    right = partition_of(record.key().encode(), 12)
    place, value = there.bury(record, partition=(right + 1) % 12)

    said = invoke("dead", "replay", place, settings=there.settings)
    assert said.exit_code == 0, said.output
    assert getpass.getuser() in said.output
    [again] = [one for one in there.lying(CALLS_VALIDATED) if one.position.partition == right]
    assert again.value == value
    assert ("fourgates-replayed", f"records.dead/{place}".encode()) in again.headers
    assert there.opener.open(again).record.call.call_id == record.call.call_id
    notes = [there.opener.open(one) for one in there.lying(RECORDS_DEAD)]
    [note] = [one for one in notes if one.record.reason == "replayed"]
    assert note.writer == "operator"
    letter: DeadRecord = note.record
    assert letter.detail == f"by {getpass.getuser()} to calls.validated/{right}/{again.position.offset}"
    refused(invoke("dead", "replay", place, settings=there.settings), "was replayed before", "calls.validated")
    assert "replayed" in invoke("dead", "list", settings=there.settings).output

    late, _ = there.bury(there.validated(2, minutes=-5), partition=0)
    refused(invoke("dead", "replay", late, settings=there.settings), "its host has to ask again")

    ended = there.validated(3)
    place, _ = there.bury(ended, partition=0)
    there.publish("validator", [LedgerEntry(event_id="f" * 32, producer="t", kind=LedgerKind.REFUSED, call_id=ended.call.call_id,
                                            about=ref_of(ended.call), code="rule_violated")])  # fmt: skip
    refused(invoke("dead", "replay", place, settings=there.settings), "its call has ended")

    place, _ = there.bury(there.validated(4), by="executor", partition=1)
    refused(invoke("dead", "replay", place, settings=there.settings), "dead again", "wrong_writer")

    place, _ = there.bury(dataclasses.replace(there.validated(5), facts='"' + "x" * 70_000 + '"'), gone=True)
    refused(invoke("dead", "replay", place, settings=there.settings), "only the first 65536 of")

    approval = next(record for _, record in SEALED if type(record).__name__ == "ApprovalEvent")
    place, _ = there.bury(approval, by="waiter", partition=2)
    refused(invoke("dead", "replay", place, settings=there.settings), "let them decide again")
    refused(invoke("dead", "replay", "first", settings=there.settings), "is no position")
