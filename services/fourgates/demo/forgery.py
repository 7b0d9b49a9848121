"""What somebody can do who reaches Kafka but holds none of the gates' keys."""

from __future__ import annotations

import asyncio
import secrets
import time

from fourgates.contract import ids
from fourgates.contract.canonical import canonical, digest_bytes
from fourgates.contract.events import CallCleared, ClearedKind, DeadRecord
from fourgates.contract.parts import Call, Gate, Principal, Risk, Verdict
from fourgates.contract.ports import Envelope
from fourgates.contract.seals import HmacSigner, RecordWriter, seal_verdict
from fourgates.contract.topology import RECORDS_DEAD
from fourgates.demo.people import AGENT, TENANT
from fourgates.demo.play import Premises

_LONGEST_S = 30.0


async def forge_cleared(premises: Premises, order_id: str, cents: int) -> tuple[str, DeadRecord]:
    """Appends a CallCleared for a refund that no gate has seen; returns its call_id and the dead letter that it became."""
    call = _call(order_id, cents)
    signer = HmacSigner("authorizer:1", secrets.token_bytes(32))
    verdicts: tuple[Verdict, ...] = ()
    for gate in (Gate.VALIDATOR, Gate.AUTHORIZER):
        said = Verdict(gate=gate, key_id="", at_ms=call.requested_ms, reasons="{}")
        verdicts = seal_verdict(HmacSigner(f"{gate.value}:1", secrets.token_bytes(32)), call, said, verdicts)
    record = CallCleared(
        event_id=ids.random_id(), producer="authorizer@somewhere:1", kind=ClearedKind.CLEARED, call=call, verdicts=verdicts
    )
    topic, key, value = RecordWriter(premises.codec, signer).encode(record)
    found: asyncio.Future[DeadRecord] = asyncio.get_running_loop().create_future()

    def sink(envelope: Envelope) -> None:
        dead: DeadRecord = envelope.record
        if dead.digest == digest_bytes(value) and not found.done():
            found.set_result(dead)

    following = await premises.log.follow(RECORDS_DEAD, sink)
    try:
        await premises.append(topic, key, value)
        return call.call_id, await asyncio.wait_for(found, _LONGEST_S)
    finally:
        await following.close()


def _call(order_id: str, cents: int) -> Call:
    now, run_id = time.time_ns() // 1_000_000, ids.new_run_id()
    arguments = canonical({"order_id": order_id, "amount_cents": cents, "reason": "unwanted"}).decode()
    who = Principal(
        issuer="https://issuer.example", subject="anna", tenant=TENANT, person="anna", agent=AGENT, groups=("support",)
    )
    return Call(
        call_id=ids.call_id(who.issuer, TENANT, who.subject, AGENT, run_id, "forged"), run_id=run_id, tool_call_id="forged",
        principal=who, tool="refund_order", tool_version="0" * 64, risk=Risk.WRITE, arguments=arguments,
        args_digest=digest_bytes(arguments.encode()), effect_key=ids.effect_key(TENANT, "refund", order_id), origins=(),
        intent="", allowed_actions=None, deadline_ms=now + 60_000, requested_ms=now,
    )  # fmt: skip
