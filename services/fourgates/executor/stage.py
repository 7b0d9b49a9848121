"""Gate 4, side effects: one claim for each call, one effect for each key, and an outcome that says what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fourgates.catalog import Catalog, OnChange, OnDuplicate, Tool, close_tools, start_tools
from fourgates.contract import ids
from fourgates.contract.codes import CODES, Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import CallCleared, ClearedKind, LedgerEntry
from fourgates.contract.parts import Cause, Gate
from fourgates.contract.ports import Clock, Emit, Envelope, Verifier
from fourgates.contract.seals import gates_needed, must_be_held, verdicts_fit
from fourgates.contract.stage import BaseStage, cause_of
from fourgates.contract.topology import CALL_PARTITIONS, CALLS_CLEARED, EFFECT_WINDOW
from fourgates.executor.audit_gate import AuditGate
from fourgates.executor.effects_view import EffectsView
from fourgates.executor.index import LedgerIndex, OpenClaim
from fourgates.executor.preflight import PREVIEW_CHANGED, Preflight, Ready
from fourgates.executor.recovery import Recovery
from fourgates.executor.releasing import Releaser
from fourgates.executor.reserving import Reservations
from fourgates.executor.rooms import Rooms
from fourgates.executor.running import Job, Runner
from fourgates.executor.settings import ExecutorSettings
from fourgates.executor.words import Words
from fourgates.gates.control_view import ControlView
from fourgates.gates.ledger import CallState, Phase, conflicts
from fourgates.gates.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Parts:
    """What the stage is made of; `build` puts it together."""

    catalog: Catalog
    index: LedgerIndex
    effects: EffectsView
    audit: AuditGate
    controls: ControlView
    preflight: Preflight
    runner: Runner
    recovery: Recovery
    rooms: Rooms
    reservations: Reservations
    releaser: Releaser
    words: Words


class ExecutorStage(BaseStage):
    """Runs what was cleared, once."""

    name = "executor"
    reads = CALLS_CLEARED

    def __init__(self, parts: Parts, verifier: Verifier, clock: Clock, settings: ExecutorSettings) -> None:
        self._p, self._verifier = parts, verifier
        self._clock, self._settings = clock, settings

    async def start(self) -> None:
        await start_tools(self._p.catalog)
        await self._p.effects.start()
        await self._p.audit.start()
        await self._p.controls.start()

    async def assigned(self, partitions: Sequence[int]) -> None:
        self._p.rooms.share(len(partitions) / CALL_PARTITIONS)
        await self._p.index.own(partitions)
        self._p.releaser.start()

    async def revoked(self) -> None:
        await self._p.releaser.stop()
        await self._p.recovery.stop()
        await self._p.index.disown()
        self._p.audit.forget()

    async def close(self) -> None:
        await close_tools(self._p.catalog)
        await self._p.effects.close()
        await self._p.audit.close()
        await self._p.controls.close()

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        cleared: CallCleared = envelope.record
        self._prove(envelope)
        cause, call = cause_of(envelope), cleared.call
        state = self._p.index.state(call.call_id)
        if conflicts(state, call.tool, call.args_digest):
            return [self._p.words.refused(call, cause, Refusal(Code.IDEMPOTENCY_CONFLICT, "other_call"))]
        if state.phase is Phase.FINAL:
            return [self._p.words.replayed(call, cause)]
        if cleared.kind is ClearedKind.RESOLUTION:  # it clears nothing: where the doubt has passed, it says nothing
            return [self._p.words.resolved(cleared, cause)] if state.phase is Phase.IN_DOUBT else []
        match state.phase:
            case Phase.IN_DOUBT:
                return self._still_in_doubt(cleared, cause, state)
            case Phase.CLAIMED:
                return []  # somebody runs it, or did: the partition's owner watches its lease
        if self._p.index.used_up(envelope):
            raise Poison("replayed", "this clearance was used before, and what came of it has been told")
        return await self._open(cleared, cause, envelope)

    def _prove(self, envelope: Envelope) -> None:
        """The gates' seals fit this very call; a policy's obligation to ask people was met; only people resolve."""
        cleared: CallCleared = envelope.record
        call, verdicts = cleared.call, cleared.verdicts
        if cleared.kind is ClearedKind.RESOLUTION:
            if envelope.writer != Gate.WAITER:
                raise Poison("wrong_writer", "only the waiter says what people resolved")
            # The waiter passes on those that the call in doubt had run with.
            fit = any(verdicts_fit(self._verifier, call, verdicts, gates_needed(held)) for held in (False, True))
        else:
            needed = gates_needed(bool(cleared.hold_id) or must_be_held(call.risk, verdicts))
            fit = envelope.writer == needed[-1] and verdicts_fit(self._verifier, call, verdicts, needed, envelope.time_ms)
        if not fit:
            raise Poison("bad_verdicts", "the seals of the gates do not fit the call")

    def _still_in_doubt(self, cleared: CallCleared, cause: Cause, state: CallState) -> Sequence[Emit]:
        """Said again on every redelivery, with the question to people, else a crash in between leaves nobody asked."""
        again: list[Emit] = [self._p.words.in_doubt(cleared.call, cause, state.claim_id, "outcome_unknown")]
        claim = self._p.index.open.get(cleared.call.call_id)
        if claim is not None:
            self._p.recovery.ensure(claim)
        return again

    async def _open(self, cleared: CallCleared, cause: Cause, envelope: Envelope) -> Sequence[Emit]:
        call, look = cleared.call, self._p.preflight
        tool = look.version(call)
        if isinstance(tool, Refusal):
            return [self._p.words.refused(call, cause, tool)]
        if barred := look.controls(call):
            return [self._p.words.refused(call, cause, barred)]
        left = look.time(cleared, envelope.time_ms)
        if isinstance(left, Refusal):
            return [self._p.words.refused(call, cause, left)]
        ends = self._clock.monotonic() + left
        async with self._p.rooms.place(tool, call.principal.tenant, ends) as no:
            if no is not None:
                return [self._p.words.refused(call, cause, no)]
            if self._p.index.state(call.call_id).phase is not Phase.OPEN:  # ended, or was claimed, while this one waited
                return await self.handle(envelope)
            return await (self._write if tool.writes else self._read)(cleared, cause, tool, ends)

    async def _read(self, cleared: CallCleared, cause: Cause, tool: Tool, ends: float) -> Sequence[Emit]:
        """Reads claim nothing."""
        ready = await self._p.preflight.check(tool, cleared, ends, cause.partition, -1)
        if isinstance(ready, Refusal):
            return [self._p.words.refused(cleared.call, cause, ready)]
        return [await self._p.runner.read(self._job(cleared, cause, tool, ready, ends))]

    async def _write(self, cleared: CallCleared, cause: Cause, tool: Tool, ends: float) -> Sequence[Emit]:
        """Claim and read back; claim the effect and the quotas and read back; look once more; send."""
        p, call, claim_id = self._p, cleared.call, ids.random_id()
        await p.index.append(p.words.claimed(cleared, cause, claim_id, self._lease_ms(tool)))
        claim = p.index.open.get(call.call_id)
        if claim is None or claim.entry.claim_id != claim_id:
            final = p.index.state(call.call_id).phase is Phase.FINAL
            return [p.words.replayed(call, cause)] if final else []
        window = tool.effect.window if tool.effect else EFFECT_WINDOW
        window_ms = int(window.total_seconds() * 1000)
        await p.effects.append(p.words.effect_claimed(cleared, cause, claim_id, claim.fence, window_ms))
        if not p.effects.holds(call.effect_key, call.call_id, claim.fence):
            return await self._near_duplicate(cleared, cause, tool, claim)
        if (used_up := await p.reservations.make(cleared, cause, tool, claim)) is not None:
            return [self._turned_down(cleared, cause, claim, used_up)]
        ready = await p.preflight.check(tool, cleared, ends, claim.partition, claim.fence)
        if isinstance(ready, Refusal):
            if ready.reason == PREVIEW_CHANGED and tool.on_change is OnChange.HOLD:
                return [await self._afresh(cleared, cause, claim, ready)]
            return [self._turned_down(cleared, cause, claim, ready)]
        return [await p.runner.write(self._job(cleared, cause, tool, ready, ends), claim)]

    def _job(self, cleared: CallCleared, cause: Cause, tool: Tool, ready: Ready, ends: float) -> Job:
        return Job(cleared, cause, tool, ready, ends, self._clock.now_ms())

    def _turned_down(self, cleared: CallCleared, cause: Cause, claim: OpenClaim, refusal: Refusal) -> LedgerEntry:
        """Nothing ran. A transient reason opens the call again, any other ends it."""
        claim_id, words = claim.entry.claim_id, self._p.words
        if CODES[refusal.code].final:
            return words.refused(cleared.call, cause, refusal, claim_id, vouches=0)
        return words.released(cleared.call, cause, claim_id, 0, refusal)

    async def _afresh(self, cleared: CallCleared, cause: Cause, claim: OpenClaim, refusal: Refusal) -> Emit:
        """What people said yes to is not what it would do now, and the contract has them asked once more."""
        p, expires_ms = self._p, self._clock.now_ms() + int(self._settings.hold_wait * 1000)
        held = p.words.held_afresh(cleared, cause, refusal, expires_ms, self._settings.hold_group)
        await p.index.append(p.words.released(cleared.call, cause, claim.entry.claim_id, 0))  # first released, then held
        return held

    async def _near_duplicate(self, cleared: CallCleared, cause: Cause, tool: Tool, claim: OpenClaim) -> Sequence[Emit]:
        """Another call has this effect: held for a person, answered with the first result, or refused, per contract."""
        p, call, claim_id = self._p, cleared.call, claim.entry.claim_id
        rivals = p.effects.rivals(call.effect_key, call.call_id, cleared.supersedes, self._clock.now_ms())
        if not rivals:  # it ended between the claim and this look: the key may try again
            return [p.words.released(call, cause, claim_id, 0, Refusal(Code.UNAVAILABLE, "effect_just_released"))]
        on_duplicate = tool.effect.on_duplicate if tool.effect else OnDuplicate.HOLD
        first, holder = rivals[0]
        if on_duplicate is not OnDuplicate.HOLD:  # this call has ended, also when the window is over and it is asked again
            detail = {"first_call": first.call_id}
            if on_duplicate is OnDuplicate.REPLAY and holder.subject == call.principal.subject:
                detail["answers"] = first.call_id  # what its host is told in place of the code
            refusal = Refusal(Code.DUPLICATE_EFFECT, "duplicate_effect", detail=detail)
            return [p.words.refused(call, cause, refusal, claim_id, vouches=0)]
        expires_ms = self._clock.now_ms() + int(self._settings.hold_wait * 1000)
        held = p.words.held_near_duplicate(
            cleared, cause, tuple(rival for rival, _ in rivals), expires_ms, self._settings.hold_group
        )
        await p.index.append(p.words.released(call, cause, claim_id, 0))  # first released, then held
        return [held]

    def _lease_ms(self, tool: Tool) -> int:
        """Everything that a claim may have to wait for, and the drain."""
        s = self._settings
        looks = 2 * tool.facts_timeout.total_seconds() + s.audit_wait
        return int((tool.timeout.total_seconds() + looks + s.drain) * 1000)

    async def tick(self) -> Sequence[Emit]:
        """The owner's duties: leases that are over, doubts nobody looks after, effects that can be released."""
        out: list[Emit] = []
        now = self._clock.monotonic()
        for call_id, claim in tuple(self._p.index.open.items()):
            state = self._p.index.state(call_id)
            call = claim.entry.call
            if state.phase is Phase.CLAIMED and claim.lease_over(now) and call is not None:
                out.append(self._p.words.in_doubt(call, None, claim.entry.claim_id, "lease_over"))
            elif state.phase is Phase.IN_DOUBT:
                self._p.recovery.ensure(claim)
        self._p.releaser.again()
        return out
