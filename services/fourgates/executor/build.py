"""Puts the executor together from its ports."""

from __future__ import annotations

from dataclasses import dataclass

from fourgates.catalog import Catalog
from fourgates.contract.ports import BlobStore, Clock, Failpoints, Log, Publisher, Verifier
from fourgates.executor.audit_gate import AuditGate
from fourgates.executor.effects_view import EffectsView
from fourgates.executor.index import LedgerIndex
from fourgates.executor.means import Means
from fourgates.executor.preflight import Preflight
from fourgates.executor.recovery import Recovery
from fourgates.executor.releasing import Releaser
from fourgates.executor.reserving import Reservations, check_quotas
from fourgates.executor.results import ResultBoxes
from fourgates.executor.rooms import Rooms
from fourgates.executor.running import Runner
from fourgates.executor.settings import ExecutorSettings
from fourgates.executor.stage import ExecutorStage, Parts
from fourgates.executor.words import Words
from fourgates.gates.control_view import ControlView
from fourgates.gates.permission import PolicySource


@dataclass(frozen=True, slots=True)
class ExecutorPorts:
    """The world as the executor sees it."""

    log: Log
    publisher: Publisher
    clock: Clock
    verifier: Verifier
    blobs: BlobStore
    result_key: tuple[str, bytes]
    failpoints: Failpoints | None = None


def build(
    catalog: Catalog, policies: PolicySource, ports: ExecutorPorts, producer: str, settings: ExecutorSettings | None = None
) -> ExecutorStage:
    """The stage. Raises ConfigurationError where a rule of the catalog does not compile, or a quota could not be counted."""
    settings = settings or ExecutorSettings()
    check_quotas(catalog, settings.quotas)
    words = Words(producer)
    boxes = ResultBoxes(*ports.result_key, ports.blobs, settings.inline_result)
    index = LedgerIndex(ports.log, ports.publisher, ports.clock, producer)
    effects = EffectsView(ports.log, ports.publisher)
    audit = AuditGate(ports.log, ports.clock, wait=settings.audit_wait, lag=settings.audit_lag)
    index.on_entry = audit.note
    controls = ControlView(ports.log)
    preflight = Preflight(catalog, policies, audit, controls, ports.clock)
    means = Means(ports.publisher, ports.clock, words, boxes, settings, ports.failpoints)
    runner, rooms = Runner(index, preflight, means), Rooms(ports.clock, settings)
    recovery = Recovery(index, effects, preflight, rooms, means)
    reservations, releaser = Reservations(effects, words, settings.quotas), Releaser(index, effects, words)
    parts = Parts(catalog, index, effects, audit, controls, preflight, runner, recovery, rooms, reservations, releaser, words)
    return ExecutorStage(parts, ports.verifier, ports.clock, settings)
