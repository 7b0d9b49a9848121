"""The approver's process: the web service that people decide with."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import httpx
from starlette.applications import Starlette

from fourgates.approval.notices import Notifier
from fourgates.approval.notices.journal import Journal
from fourgates.approval.service.app import ServicePorts, build_app
from fourgates.approval.service.settings import OpenIdSettings
from fourgates.assembly import producer_of
from fourgates.cli.people import issue_approver, offered_users
from fourgates.cli.serving import serving, telling_health
from fourgates.cli.settings import PREFIX, Address
from fourgates.cli.world import Base
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import Log
from fourgates.gates.approval import proven_by
from fourgates.gates.identity import TokenVerifier
from fourgates.runtime.health import Health
from fourgates.runtime.intake import FatalError
from fourgates.runtime.openid import Client, OpenIdProvider


async def run_approver(base: Base) -> None:
    """Until it is cancelled. Raises ConfigurationError, Transient, FatalError."""
    settings = base.settings
    issuers, health, http = base.issuers(), Health(), httpx.AsyncClient(timeout=10.0, trust_env=False)
    openid = settings.service.openid
    provider = provider_of(openid, http) if openid is not None else None
    async with base.bus() as bus, issuers.keeping, http:
        ports = ServicePorts(
            log=bus, publisher=bus.publisher(base.writer("approver")), tokens=TokenVerifier(issuers.approvers),
            seals=base.keyring.verifier(), clock=base.clock, producer=producer_of("approver"), provider=provider,
        )  # fmt: skip
        app = _app(base, ports)
        async with telling_health(base, health), AsyncExitStack() as living:
            await living.enter_async_context(app.router.lifespan_context(app))
            if settings.notices.hooks:
                await living.enter_async_context(_notifier(base, bus, http))
            async with serving(app, f"{PREFIX}APPROVER", settings.approver):
                health.not_ready = ""
                base.metrics.ready.labels("approver").set(1)
                try:
                    fault = await bus.broken()
                finally:
                    await living.aclose()  # first: it ends the pages' live streams, which the server would wait for
        raise FatalError(f"The approvals cannot be followed any more: {fault}")


def _notifier(base: Base, log: Log, http: httpx.AsyncClient) -> Notifier:
    """Tells people what waits. Raises ConfigurationError where its journal cannot be kept."""
    settings, path = base.settings, base.settings.home / "notices" / "told"
    page = settings.notices.page or Address.parse(f"{PREFIX}APPROVER", settings.approver).url
    try:
        journal = Journal(path)
    except OSError as fault:
        raise ConfigurationError(f"{PREFIX}HOME: {path} cannot be written ({fault.strerror}): it says who was told") from None
    notices = settings.notices.model_copy(update={"page": page})
    return Notifier(log, proven_by(base.keyring.verifier()), base.clock, http, journal, notices)


def provider_of(openid: OpenIdSettings, http: httpx.AsyncClient, client_id: str = "") -> OpenIdProvider:
    """The provider, as the service's own client or as another, public one. Raises ConfigurationError."""
    secret = openid.client_secret.get_secret_value() if openid.client_secret is not None and not client_id else ""
    client = Client(client_id or openid.client_id, secret, openid.scopes, openid.algorithms, openid.extra)
    return OpenIdProvider(openid.issuer, client, http)


def _app(base: Base, ports: ServicePorts) -> Starlette:
    """The service; in development its page offers to sign in as one of the development users."""
    settings = base.settings
    if settings.environment != "development" or settings.issuers_file is not None:
        return build_app(ports, settings.service)
    service = settings.service.model_copy(update={"development_users": offered_users(settings)})
    return build_app(ports, service, partial(issue_approver, settings, base.keyring))
