"""The catalog: the sixteen tools of the retail data, with the rules of its policy.

Each tenant has a shop of its own, so one pipeline serves any number of tasks, each on a fresh store.
"""

from __future__ import annotations

import os
from pathlib import Path

from corpora.retail_shop.reads import Reads
from corpora.retail_shop.store import Shops
from corpora.retail_shop.writes import Writes
from fourgates.catalog import Catalog

VARIABLE = "FOURGATES_TEST_RETAIL"
CATALOG = "corpora.retail_shop.shop:catalog"
AGENT = "retail-agent"
CUSTOMERS, VISITORS, CONFIRMERS = "customers", "visitors", "confirmers"
POLICIES = Path(__file__).parent / "policies.cedar"


def catalog() -> Catalog:
    """Over the folder that the variable names: `--catalog corpora.retail_shop.shop:catalog` in a stage's process."""
    return make_catalog(Shops(Path(os.environ[VARIABLE])))


def make_catalog(shops: Shops) -> Catalog:
    """Over these shops."""
    made = Catalog("retail", policies=POLICIES.read_text(encoding="utf-8"))
    Reads(shops).register(made)
    Writes(shops).register(made)
    return made
