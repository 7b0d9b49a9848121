"""Quotas of a write: reserved with the claim, under its fence, before anything runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from fourgates.catalog import Catalog, Tool
from fourgates.catalog.limit_checks import quota_complaints
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.events import CallCleared
from fourgates.contract.parts import Cause
from fourgates.executor.effects_view import EffectsView
from fourgates.executor.index import OpenClaim
from fourgates.executor.settings import QuotaSetting
from fourgates.executor.words import Words
from fourgates.gates.quota import asks, exceeded
from fourgates.gates.refusal import Refusal


class Reservations:
    """Asks every quota that a call falls under: the contract's own, and the operator's."""

    def __init__(self, effects: EffectsView, words: Words, settings: Sequence[QuotaSetting]) -> None:
        self._effects, self._words, self._settings = effects, words, settings

    async def make(self, cleared: CallCleared, cause: Cause, tool: Tool, claim: OpenClaim) -> Refusal | None:
        """None where all of them leave room and have counted the call. What was reserved in vain, its call's end gives back."""
        quotas = [(tool.name, quota) for quota in tool.quotas]
        quotas += [(said.tool, said.quota) for said in self._settings if said.tool in (EVERY_TOOL, tool.name)]
        if not quotas:
            return None
        call, fold = cleared.call, self._effects.quotas
        asked = asks(quotas, call, json.loads(call.arguments), claim.at_ms)
        for one in asked:  # what is used up needs no entry, and takes nothing away from others meanwhile
            if (refusal := exceeded(one, fold.room(one.key, one.limit, call.call_id))) is not None:
                return refusal
        entries = [self._words.reserved(cleared, cause, claim.entry.claim_id, claim.fence, one) for one in asked]
        await asyncio.gather(*(self._effects.append(entry) for entry in entries))
        for one in asked:
            if not fold.holds(one.key, call.call_id, claim.fence):
                return exceeded(one, min(fold.room(one.key, one.limit, call.call_id), one.amount - 1))
        return None


EVERY_TOOL = "*"
"""As the tool of a quota: all writes count together."""


def check_quotas(catalog: Catalog, settings: Sequence[QuotaSetting]) -> None:
    """Raises ConfigurationError for a quota of the operator's that could never be counted."""
    for said in settings:
        tool = catalog.get(said.tool)
        if said.tool != EVERY_TOOL and (tool is None or not tool.writes):
            raise ConfigurationError(
                f"a quota names {said.tool!r}, which is no write tool of the catalog: nothing would be counted"
            )
        if complaints := list(quota_complaints(tool.schema if tool else {}, said.quota)):
            raise ConfigurationError(f"quotas of {said.tool!r}: " + "; ".join(complaints))
