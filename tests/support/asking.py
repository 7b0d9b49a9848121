"""Requests that no SDK would send: made by hand, sealed as a host's are, and what is wrong with them is the test's."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from dataclasses import dataclass
from typing import Any

from fourgates.contract import ids
from fourgates.contract.avro import AvroCodec
from fourgates.contract.claims import acting, principal_of, unproven_claims
from fourgates.contract.events import CallRequested, RequestKind
from fourgates.contract.grant import Grant, encrypt_grant
from fourgates.contract.ports import Position
from fourgates.contract.seals import RUN_KEY_ID, HmacSigner, RecordWriter
from fourgates.contract.topology import CALLS_REQUESTED, RECORDS_DEAD
from fourgates.runtime.data import data_folder
from fourgates.runtime.registry import LocalRegistry
from support.eventually import eventually
from support.worlds import AGENT, STAFF, TENANT, StoryWorld

RUN_KEY = b"k" * 32


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it was appended."""

    record: CallRequested
    position: Position

    @property
    def call_id(self) -> str:
        return self.record.call_id

    async def dead(self, world: StoryWorld) -> str:
        """Why it became a dead letter."""

        async def found() -> str:
            letters = [e.record for e in await world.records(RECORDS_DEAD) if e.record.topic == CALLS_REQUESTED]
            places = {(letter.partition, letter.offset): letter.reason for letter in letters}
            return places.get((self.position.partition, self.position.offset), "")

        return str(await eventually(found))


def request(world: StoryWorld, *, token: str = "", agent_token: str = "", **fields: Any) -> CallRequested:
    """A well-formed request of anna's agent; `fields` in place of its own."""
    token = token or world.keyring.issuer.token("anna", TENANT, STAFF, agent=AGENT)
    who = principal_of(unproven_claims(token))
    with contextlib.suppress(ValueError):  # tokens that do not belong together make no principal
        who = acting(who, principal_of(unproven_claims(agent_token))) if agent_token else who
    run_id, tool_call_id = fields.get("run_id", ids.new_run_id()), fields.get("tool_call_id", "1")
    own = ids.call_id(who.issuer, who.tenant, who.subject, who.agent, run_id, tool_call_id)
    made = CallRequested(
        event_id=ids.random_id(), producer="test", kind=RequestKind.CALL, call_id=own, run_id=run_id, tool_call_id=tool_call_id,
        tool="look", arguments='{"item": "x"}', deadline_ms=time.time_ns() // 1_000_000 + 20_000,
        grant=encrypt_grant(Grant(token, RUN_KEY, agent_token), world.keyring.validator_public()),
    )  # fmt: skip
    return dataclasses.replace(made, **fields)


async def ask(world: StoryWorld, record: CallRequested, run_key: bytes = RUN_KEY) -> Asked:
    """Appends it, sealed by the run's key unless another is given."""
    codec = AvroCodec(LocalRegistry(data_folder("schemas")))
    topic, key, value = RecordWriter(codec, HmacSigner(RUN_KEY_ID, run_key)).encode(record)
    return Asked(record, await world.append(topic, key, value))
