"""The approver's process: the web service that people decide with."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from starlette.applications import Starlette

from fourgates.approval.service import ServicePorts, build_app
from fourgates.assembly import producer_of
from fourgates.cli.people import issue_approver, offered_users
from fourgates.cli.serving import serving, telling_health
from fourgates.cli.settings import PREFIX
from fourgates.cli.world import Base
from fourgates.gates.identity import TokenVerifier
from fourgates.runtime.health import Health
from fourgates.runtime.intake import FatalError


async def run_approver(base: Base) -> None:
    """Until it is cancelled. Raises ConfigurationError, Transient, FatalError."""
    settings = base.settings
    issuers, health = base.issuers(), Health()
    async with base.bus() as bus, issuers.keeping:
        ports = ServicePorts(
            log=bus, publisher=bus.publisher(base.writer("approver")), tokens=TokenVerifier(issuers.approvers),
            seals=base.keyring.verifier(), clock=base.clock, producer=producer_of("approver"),
        )  # fmt: skip
        app = _app(base, ports)
        async with telling_health(base, health), AsyncExitStack() as living:
            await living.enter_async_context(app.router.lifespan_context(app))
            async with serving(app, f"{PREFIX}APPROVER", settings.approver):
                health.not_ready = ""
                base.metrics.ready.labels("approver").set(1)
                try:
                    fault = await bus.broken()
                finally:
                    await living.aclose()  # first: it ends the pages' live streams, which the server would wait for
        raise FatalError(f"The approvals cannot be followed any more: {fault}")


def _app(base: Base, ports: ServicePorts) -> Starlette:
    """The service; in development its page offers to sign in as one of the development users."""
    settings = base.settings
    if settings.environment != "development" or settings.issuers_file is not None:
        return build_app(ports, settings.service)
    service = settings.service.model_copy(update={"development_users": offered_users(settings)})
    return build_app(ports, service, partial(issue_approver, settings, base.keyring))
