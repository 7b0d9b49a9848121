"""The whole story: scene after scene, then the provider's books against what should be, then the questions to the audit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fourgates.audit.store import Query
from fourgates.demo.epilogue import Teller, ask_the_audit
from fourgates.demo.play import Difference, Play, Premises
from fourgates.demo.scenes import Scenes

_BOOKS, _AUDIT = "The provider's books", "What the audit says"


@dataclass(slots=True)
class Outcome:
    """What the story came to. Anything in `differences` means that something is not as it should be."""

    calls: int
    outcomes: dict[str, int]
    """Observations by code."""
    charges_expected: int
    charges_seen: int
    integrity_rows: int
    seconds: float
    differences: list[str]

    def to_json(self, bus: str, broker: str) -> dict[str, Any]:
        """What `build/demo.json` holds."""
        return {
            "bus": bus, "broker": broker, "calls": self.calls, "outcomes": self.outcomes,
            "charges_expected": self.charges_expected, "charges_seen": self.charges_seen,
            "integrity_rows": self.integrity_rows, "seconds": round(self.seconds, 1),
        }  # fmt: skip


async def tell(premises: Premises, teller: Teller, audit: Query | None) -> Outcome:
    """Plays every scene, whatever became of the one before. `audit` asks ClickHouse; None where there is none."""
    started, play = time.monotonic(), Play(premises, teller)
    scenes, differences = Scenes(play), _Differences(teller)
    for scene in scenes.all():
        teller.scene(scene.title, scene.words)
        with differences.of(scene.title):
            await scene.act()
    refunds = await _books(play, differences)
    rows = 0
    if audit is not None:
        teller.scene(_AUDIT, "ClickHouse has every event: who asked what, why it was allowed, what really happened.")
        with differences.of(_AUDIT):
            rows = await ask_the_audit(audit, teller, scenes.explained, len(play.ended))
            play.expect("rows of the integrity queries", rows, 0)
    return Outcome(
        calls=len(play.calls), outcomes=dict(sorted(play.observed.items())), charges_expected=len(play.owed),
        charges_seen=refunds, integrity_rows=rows, seconds=time.monotonic() - started, differences=differences.said,
    )  # fmt: skip


class _Differences:
    """Collects what is not as it should be; a scene that breaks off is a difference like any other."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self.said: list[str] = []

    @contextmanager
    def of(self, where: str) -> Iterator[None]:
        try:
            yield
        except Difference as difference:
            self._add(where, str(difference))
        except Exception as fault:  # whatever broke, the rest is still told
            self._add(where, f"it broke off with {type(fault).__name__}: {fault}")

    def _add(self, where: str, what: str) -> None:
        self._teller.wrong(what)
        self.said.append(f"{where}: {what}")


async def _books(play: Play, differences: _Differences) -> int:
    """Compares the provider's own record with what the scenes should have caused; returns how many refunds there are."""
    play.narrator.scene(_BOOKS, "What was really refunded, by the provider's own record, against what should be.")
    refunds: dict[str, int] = {}
    with differences.of(_BOOKS):
        refunds = {refund["key"]: int(refund["amount_cents"]) for refund in await play.premises.payments.refunds()}
        play.expect("the provider's refunds", _named(refunds), _named(play.owed))
        play.narrator.right(f"{len(refunds)} refunds, {_named(refunds)}")
    return len(refunds)


def _named(refunds: dict[str, int]) -> str:
    return ", ".join(f"{key[:12]}: {cents / 100:.2f}" for key, cents in sorted(refunds.items())) or "none"
