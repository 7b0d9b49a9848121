"""Puts the waiter together from what it needs of the world."""

from __future__ import annotations

from fourgates.catalog import Catalog
from fourgates.contract.ports import Clock, Log, Signer, Verifier

from .emits import Emits
from .settings import WaiterSettings
from .stage import WaiterPorts, WaiterStage


def build(
    *,
    catalog: Catalog,
    log: Log,
    clock: Clock,
    signer: Signer,
    verifier: Verifier,
    producer: str,
    settings: WaiterSettings | None = None,
) -> WaiterStage:
    """The waiter. `signer` seals its verdicts, `verifier` checks those of the gates before it."""
    return WaiterStage(catalog, WaiterPorts(log, clock, verifier), Emits(producer, signer), settings or WaiterSettings())
