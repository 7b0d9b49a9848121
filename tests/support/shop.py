"""The demo's shop in a temporary folder, with its payment provider in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fourgates.catalog import Catalog
from fourgates.contract.parts import Principal
from fourgates.demo.books import Books
from fourgates.demo.config import DemoConfig
from fourgates.demo.payments import Payments
from fourgates.demo.people import AGENT, PEOPLE, TENANT
from fourgates.demo.provider import Provider
from fourgates.demo.seed import prepare
from fourgates.demo.shop import make_catalog
from fourgates.demo.store import Store


@dataclass(frozen=True, slots=True)
class Shop:
    """Everything that a test asks the shop about."""

    config: DemoConfig
    provider: Provider
    store: Store
    payments: Payments
    catalog: Catalog


@contextmanager
def open_shop(folder: Path, seed: int = 7) -> Iterator[Shop]:
    """A fresh shop whose provider listens until the block ends."""
    prepared = prepare(folder, seed, "http://127.0.0.1:0")
    provider = Provider(Books(prepared.books), 0)
    config = prepared.model_copy(update={"provider_url": provider.url})
    config.write(folder)
    serving = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    try:
        yield Shop(config, provider, Store(config.database), Payments(config.provider_url), make_catalog(config))
    finally:
        provider.shutdown()
        serving.join()
        provider.server_close()
        provider.books.close()


def clerk(name: str = "anna") -> Principal:
    """A clerk for whom the support-bot acts."""
    return Principal(
        issuer="https://issuer.example", subject=name, tenant=TENANT, person=PEOPLE[name].name, agent=AGENT,
        groups=PEOPLE[name].groups,
    )  # fmt: skip
