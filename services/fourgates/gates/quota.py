"""The fold of quotas, in `effects`: a reservation counts if those that counted before it leave room.

As everywhere, who appends first is first, for everybody: a call that runs has read its own reservation back as counting, so
calls that run side by side in any number of processes never exceed a quota together. A reservation stays when its call has an
effect, or may have one; it is given back where the ledger says that nothing can happen any more, by the rule of effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fourgates.catalog import Quota
from fourgates.contract.codes import Code
from fourgates.contract.events import EffectEntry, EffectKind
from fourgates.contract.parts import Call
from fourgates.contract.topology import HORIZON
from fourgates.gates.refusal import Refusal

_REMEMBERED_MS = timedelta(days=1) // timedelta(milliseconds=1)
"""How long a period is remembered when it is over: longer than any claim of it can still be on its way."""
_RUN_MS = HORIZON // timedelta(milliseconds=1) + _REMEMBERED_MS
"""A run's quota has no period: it is remembered as long as the run can call."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one call asks of one quota."""

    key: str
    words: str
    """The quota, for the audit."""
    reason: str
    limit: int
    amount: int
    lasts_ms: int


def asks(quotas: Iterable[tuple[str, Quota]], call: Call, arguments: Mapping[str, Any], at_ms: int) -> tuple[Asked, ...]:
    """What the call asks of each quota (with the tool, or `*`, whose calls it counts) at that broker time.

    Of two that count the same, as a contract's and an operator's, the smaller one is asked.
    """
    found: dict[str, Asked] = {}
    for scope, quota in quotas:
        key = quota.key(scope, call.principal, call.run_id, at_ms)
        reason = f"quota_{quota.whose.value}_{'amount' if quota.of else 'calls'}"
        asked = Asked(key, quota.words, reason, quota.limit, quota.takes(arguments), quota.ends_in_ms(at_ms))
        if key not in found or asked.limit < found[key].limit:
            found[key] = asked
    return tuple(found.values())


def exceeded(asked: Asked, room: int) -> Refusal | None:
    """The refusal, where there is less room than what is asked."""
    if asked.amount <= room:
        return None
    detail = {"quota": asked.words, "limit": asked.limit, "used": asked.limit - room, "asked": asked.amount}
    return Refusal(Code.QUOTA_EXCEEDED, asked.reason, detail=detail)


@dataclass(slots=True)
class Account:
    """One quota in one period."""

    until_ms: int
    used: int = 0
    taken: dict[str, tuple[int, int]] = field(default_factory=dict)
    """call -> (fence, amount) of its reservation that counts."""
    returned: dict[str, int] = field(default_factory=dict)
    """call -> highest fence that was returned: an earlier reservation of it that comes late is void."""


class QuotaFold:
    """All quotas, kept by reading the whole topic."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._of_call: dict[str, set[str]] = {}
        self._forget_from_ms = 0

    def apply(self, entry: EffectEntry, time_ms: int) -> None:
        """Folds one entry of broker time `time_ms`; others than Reserved and Returned say nothing here."""
        if entry.kind is EffectKind.RESERVED:
            self._forget(time_ms)
            self._reserve(entry, time_ms)
        elif entry.kind is EffectKind.RETURNED:
            self._return(entry, time_ms)

    def room(self, key: str, limit: int, call_id: str) -> int:
        """What the quota still leaves for that call: an earlier reservation of its own is replaced by a new one."""
        account = self._accounts.get(key)
        return limit if account is None else limit - account.used + account.taken.get(call_id, (-1, 0))[1]

    def holds(self, key: str, call_id: str, fence: int) -> bool:
        """Whether the reservation that the call made at `fence` counts."""
        account = self._accounts.get(key)
        return account is not None and account.taken.get(call_id, (-1, 0))[0] == fence

    def held_by(self, call_id: str) -> dict[str, int]:
        """Quota key -> fence of everything that the call has reserved."""
        return {key: self._accounts[key].taken[call_id][0] for key in self._of_call.get(call_id, ())}

    def amount(self, key: str, call_id: str) -> int:
        """How much of the quota the call has reserved."""
        account = self._accounts.get(key)
        return account.taken.get(call_id, (-1, 0))[1] if account else 0

    def calls(self) -> Iterator[str]:
        """Every call that has reserved anything."""
        return iter(self._of_call)

    def _reserve(self, entry: EffectEntry, time_ms: int) -> None:
        lasts_ms = entry.window_ms + _REMEMBERED_MS if entry.window_ms else _RUN_MS
        account = self._accounts.setdefault(entry.effect_key, Account(time_ms + lasts_ms))
        fence, amount = account.taken.get(entry.call_id, (-1, 0))
        if entry.fence <= max(fence, account.returned.get(entry.call_id, -1)) or entry.amount < 0:
            return
        if account.used - amount + entry.amount > entry.limit:  # an earlier one of the same call is replaced
            return
        account.used += entry.amount - amount
        account.taken[entry.call_id] = entry.fence, entry.amount
        self._of_call.setdefault(entry.call_id, set()).add(entry.effect_key)

    def _return(self, entry: EffectEntry, time_ms: int) -> None:
        account = self._accounts.setdefault(entry.effect_key, Account(time_ms + _RUN_MS))
        account.returned[entry.call_id] = max(entry.fence, account.returned.get(entry.call_id, -1))
        fence, amount = account.taken.get(entry.call_id, (-1, 0))
        if 0 <= fence <= entry.fence:
            account.used -= amount
            del account.taken[entry.call_id]
            self._no_longer(entry.call_id, entry.effect_key)

    def _no_longer(self, call_id: str, key: str) -> None:
        keys = self._of_call.get(call_id, set())
        keys.discard(key)
        if not keys:
            self._of_call.pop(call_id, None)

    def _forget(self, now_ms: int) -> None:
        """Drops periods that are long over, looking through them once an hour."""
        if now_ms < self._forget_from_ms:
            return
        self._forget_from_ms = now_ms + 3_600_000
        for key in [key for key, account in self._accounts.items() if account.until_ms <= now_ms]:
            for call_id in self._accounts.pop(key).taken:
                self._no_longer(call_id, key)
