"""The composition root: how each stage is put together from one world, whichever bus that world has."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, model_validator

from fourgates import approval, authorizer, executor, sanitizer, validator
from fourgates.approval.settings import WaiterSettings
from fourgates.authorizer.settings import AuthorizerSettings
from fourgates.catalog import Catalog
from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.parts import Call, ref_of
from fourgates.contract.ports import BlobStore, Clock, Emit, Envelope, Failpoints, Log, Publisher, Stage, Verifier
from fourgates.contract.stage import cause_of
from fourgates.executor.settings import ExecutorSettings
from fourgates.gates.identity import GrantBook, IssuerConfig, TokenVerifier
from fourgates.gates.permission import Policies, PolicySource
from fourgates.runtime.keys import Keyring
from fourgates.sanitizer.settings import SanitizerSettings
from fourgates.tools.results import bind_results
from fourgates.validator.settings import ValidatorSettings

STAGES = ("validator", "authorizer", "waiter", "executor", "sanitizer")
"""The processes that run a stage on the worker; the audit sink and the approver service have loops of their own."""


class StageSettings(BaseModel):
    """What may be set for each stage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    approver_groups: frozenset[str] | None = None
    """Groups that somebody can decide for. A call that needs another one is refused at once (`approval_required`), for nobody
    would ever answer; empty: no approver is configured; None: every group may have members."""
    validator: ValidatorSettings = ValidatorSettings()
    authorizer: AuthorizerSettings = AuthorizerSettings()
    waiter: WaiterSettings = WaiterSettings()
    executor: ExecutorSettings = ExecutorSettings()
    sanitizer: SanitizerSettings = SanitizerSettings()

    @model_validator(mode="after")
    def _said_once(self) -> StageSettings:
        """Authorizer and waiter must not differ in who can decide."""
        if self.authorizer.approver_groups is not None or self.waiter.approver_groups is not None:
            raise ValueError("approver_groups stands once for all stages, in STAGES__APPROVER_GROUPS")
        return self


@dataclass(frozen=True, slots=True)
class World:
    """Everything outside the stages."""

    catalog: Catalog
    policies: PolicySource
    keyring: Keyring
    issuers: Mapping[str, IssuerConfig]
    log: Log
    clock: Clock
    publisher: Callable[[str], Publisher]
    """By writer: its records are sealed with its own key."""
    raw_blobs: BlobStore
    result_blobs: BlobStore
    failpoints: Failpoints | None = None

    @property
    def verifier(self) -> Verifier:
        return self.keyring.verifier()


def producer_of(name: str) -> str:
    """Names this process in its records, for operators."""
    return f"{name}@{socket.gethostname()}:{os.getpid()}"


def load_policies(catalog: Catalog, text: str | None = None, links: str = "") -> Policies:
    """The operator's policies, else those that ship with the catalog. An empty set refuses to start."""
    return Policies.load(text if text is not None else catalog.policies, catalog, links)


def build_stage(name: str, world: World, settings: StageSettings, producer: str) -> Stage:
    """The stage of that name. Raises ConfigurationError where the catalog, the policies or the keys do not allow it."""
    if name not in STAGES:
        raise ConfigurationError(f"stage {name!r} does not exist; there are {', '.join(STAGES)}")
    catalog, keys, clock = world.catalog, world.keyring, world.clock
    deciding = {"approver_groups": settings.approver_groups}
    if name == "validator":
        grants = GrantBook(keys.validator_private(), TokenVerifier(world.issuers), keys.validator_retired())
        return validator.build(
            catalog=catalog, log=world.log, grants=grants, signer=keys.signer(name), clock=clock, producer=producer,
            settings=settings.validator,
        )  # fmt: skip
    if name == "authorizer":
        return authorizer.build(
            catalog=catalog, policies=world.policies, signer=keys.signer(name), verifier=world.verifier,
            producer=producer, settings=settings.authorizer.model_copy(update=deciding),
        )  # fmt: skip
    if name == "waiter":
        return approval.build(
            catalog=catalog, log=world.log, clock=clock, signer=keys.signer(name), verifier=world.verifier,
            producer=producer, settings=settings.waiter.model_copy(update=deciding),
        )  # fmt: skip
    if name == "executor":
        bind_results(catalog, world.result_blobs)
        ports = executor.ExecutorPorts(
            log=world.log, publisher=world.publisher(name), clock=clock, verifier=world.verifier,
            blobs=world.raw_blobs, result_key=keys.result_key(), failpoints=world.failpoints,
        )  # fmt: skip
        return executor.build(catalog, world.policies, ports, producer, settings.executor)
    return sanitizer.build(
        catalog=catalog, log=world.log, publisher=world.publisher(name), clock=clock, raw_blobs=world.raw_blobs,
        result_blobs=world.result_blobs, result_keys=keys.result_keys(), placeholder_key=keys.placeholder_key(),
        producer=producer, settings=settings.sanitizer,
    )  # fmt: skip


def last_word(stage: Stage, producer: str) -> Callable[[Envelope], Sequence[Emit]]:
    """What a stage's process appends where its own code failed on a proven record that names a call: Refused(internal).

    A host's request is proven by its grant, so the validator itself says whether there is anybody to answer.
    """
    own: Callable[[Envelope], Sequence[Emit]] | None = getattr(stage, "last_word", None)
    if own is not None:
        return own

    def refused(envelope: Envelope) -> Sequence[Emit]:
        record = envelope.record
        call: Call | None = getattr(record, "call", None) or getattr(getattr(record, "held", None), "call", None)
        if call is None:
            return ()
        return (LedgerEntry(
            event_id=ids.event_id(record.event_id, stage.name, "Refused", "internal"), producer=producer,
            cause=cause_of(envelope), kind=LedgerKind.REFUSED, call_id=call.call_id, about=ref_of(call),
            code=Code.INTERNAL.value, reason="unforeseen",
        ),)  # fmt: skip

    return refused
