"""The SDK's transport on a real broker: asks sealed, believes the sanitizer, outlives a reading that breaks."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fourgates.contract.avro import AvroCodec
from fourgates.contract.codes import Code
from fourgates.contract.errors import Transient
from fourgates.contract.events import CallCompleted, CallRequested
from fourgates.contract.observation import Observation
from fourgates.contract.ports import Envelope
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import CALLS_REQUESTED
from fourgates.runtime.data import data_folder
from fourgates.runtime.intake import FatalError
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.keys import DevKeys, Keyring
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.registry import LocalRegistry
from fourgates.sdk import Client, SdkSettings
from fourgates.sdk.kafka import KafkaTransport
from support.eventually import eventually

pytestmark = pytest.mark.kafka


class Pipeline:
    """Answers every request, or every one after the first."""

    def __init__(self, bus: KafkaBus, codec: AvroCodec, keys: Keyring) -> None:
        self._publisher = bus.publisher(RecordWriter(codec, keys.signer("sanitizer")))
        self._tasks: set[asyncio.Task[object]] = set()
        self.asked: list[CallRequested] = []
        self.silent = False

    def take(self, envelope: Envelope) -> None:
        request: CallRequested = envelope.record
        self.asked.append(request)
        if not self.silent:
            observation = Observation(Code.OK, request.call_id, content=request.arguments)
            completed = CallCompleted(
                event_id=request.event_id, producer="test", call_id=request.call_id, run_id=request.run_id, tenant="acme",
                tool_call_id=request.tool_call_id, code="ok", final=True, observation=observation.to_json(),
            )  # fmt: skip
            self._tasks.add(asyncio.create_task(self._publisher.publish(completed)))


@pytest.fixture
def settings(kafka: LocalBroker, tmp_path: Path) -> SdkSettings:
    DevKeys.load(tmp_path / "keys")
    return SdkSettings(bootstrap=kafka.bootstrap, home=tmp_path, ask_again_s=60)


@pytest.fixture
async def pipeline(settings: SdkSettings) -> AsyncIterator[Pipeline]:
    keys, codec = DevKeys.load(settings.home / "keys"), AvroCodec(LocalRegistry(data_folder("schemas")))
    async with KafkaBus(settings.bootstrap, RecordOpener(codec, keys.verifier())) as bus:
        played = Pipeline(bus, codec, keys)
        await bus.follow_from_end(CALLS_REQUESTED, played.take)
        yield played


def token(settings: SdkSettings) -> str:
    return DevKeys.load(settings.home / "keys").issuer.token("anna", "acme")


async def test_calls_are_answered_over_kafka(settings: SdkSettings, pipeline: Pipeline) -> None:
    """S2"""
    async with Client.from_env(settings) as gates:
        run = gates.run(token(settings), intent="read")
        answers = await asyncio.gather(*(run.call("read", f'{{"n":{n}}}', tool_call_id=str(n)) for n in range(50)))
    assert [answer.content for answer in answers] == [f'{{"n":{n}}}' for n in range(50)]
    assert len({request.grant for request in pipeline.asked}) == 1


async def test_largest_arguments_travel_over_kafka(settings: SdkSettings, pipeline: Pipeline) -> None:
    """S2"""
    raw = '{"a":"' + "x" * 262_000 + '"}'
    async with Client.from_env(settings) as gates:
        assert (await gates.run(token(settings)).call("read", raw, tool_call_id="1")).content == raw


async def test_answer_missed_while_the_reading_was_broken_is_asked_for_again(settings: SdkSettings, pipeline: Pipeline) -> None:
    """E1"""
    client = Client.from_env(settings)
    async with client as gates:
        transport = gates._transport
        assert isinstance(transport, KafkaTransport)
        pipeline.silent = True
        asking = asyncio.create_task(gates.run(token(settings)).call("refund", "{}", tool_call_id="1", wait=50))
        await eventually(lambda: pipeline.asked)
        pipeline.silent = False
        broken = transport._bus
        assert broken is not None
        broken._break(FatalError("the broker refused for good"))
        answer = await asking
        assert answer.ok
        assert transport._bus is not broken
    assert len(pipeline.asked) == 2


async def test_broker_that_is_absent_is_transient_and_nothing_stays_open(settings: SdkSettings) -> None:
    nowhere = settings.model_copy(update={"bootstrap": "127.0.0.1:1"})
    with pytest.raises(Transient):
        async with Client.from_env(nowhere):
            pass


async def test_request_of_a_host_is_on_the_log_as_it_was_made(settings: SdkSettings, pipeline: Pipeline) -> None:
    """P1: the record is whole, and neither the token nor the run key is in it."""
    bearer = token(settings)
    async with Client.from_env(settings) as gates:
        run = gates.run(bearer, intent="a refund", user_turns=["refund A-1"], allow=["refund"])
        await run.call("refund", '{"order": "A-1"}', tool_call_id="1")
    request = pipeline.asked[0]
    assert (request.intent, request.user_turns, request.allowed_actions) == ("a refund", ("refund A-1",), ("refund",))
    assert bearer.rpartition(".")[2] not in repr(dataclasses.asdict(request))
