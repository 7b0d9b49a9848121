"""Where the demo's story plays in tests: the whole pipeline on the in-process bus, with the provider in a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from fourgates.assembly import StageSettings
from fourgates.authorizer.settings import AuthorizerSettings
from fourgates.contract.ports import Position
from fourgates.demo.people import PEOPLE, TENANT, agent_token
from fourgates.demo.play import Premises
from fourgates.testing import Pipeline
from support.shop import open_shop

HOLD_WAIT_S = 4.0
"""Longer than any scene takes to decide, shorter than a test's patience."""


@asynccontextmanager
async def in_process(folder: Path, audit_store: Any = None) -> AsyncIterator[tuple[Premises, Pipeline]]:
    """The premises, and the pipeline under them. `audit_store` takes the audit's rows in place of the pipeline's own."""
    settings = StageSettings(authorizer=AuthorizerSettings(wait=timedelta(seconds=HOLD_WAIT_S)))
    with open_shop(folder) as shop:
        pipeline = Pipeline(shop.catalog, settings=settings, tenant=TENANT, audit_store=audit_store)
        async with pipeline as gates:

            async def append(topic: str, key: bytes, value: bytes) -> Position:
                return gates.bus.append(topic, key, value)

            def approver(who: str) -> httpx.AsyncClient:
                return gates.approver(who, PEOPLE[who].groups, PEOPLE[who].name)

            yield Premises(
                client=gates.client, log=gates.bus, codec=gates.codec, append=append,
                token=lambda who: agent_token(gates.keyring.issuer, who), approver=approver, payments=shop.payments,
                store=shop.store, hold_wait_s=HOLD_WAIT_S, pending_s=0.3,
            ), gates  # fmt: skip
        await shop.payments.close()
