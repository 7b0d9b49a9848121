"""The demo's catalog: what a support agent of a small shop may do, each tool with rules, effect, preview and probe."""

from __future__ import annotations

from pathlib import Path

from fourgates.catalog import Catalog
from fourgates.demo.changes import Changes
from fourgates.demo.config import DemoConfig
from fourgates.demo.payments import Payments
from fourgates.demo.reads import Reads
from fourgates.demo.refunds import Refunds
from fourgates.demo.store import Store
from fourgates.tools.results import add_result_reader
from fourgates.tools.workspace import Workspace

POLICIES = Path(__file__).parent / "policies.cedar"


def catalog() -> Catalog:
    """The shop of FOURGATES_DEMO_CONFIG: `--catalog fourgates.demo.shop:catalog`."""
    return make_catalog(DemoConfig.from_environment())


def make_catalog(config: DemoConfig) -> Catalog:
    """The shop's tools over its database, its payment provider and its files."""
    store = Store(config.database)
    made = Catalog("shop", policies=POLICIES.read_text(encoding="utf-8"))
    Reads(store, Workspace(config.files)).register(made)
    Refunds(store, Payments(config.provider_url)).register(made)
    Changes(store).register(made)
    add_result_reader(made)
    return made
