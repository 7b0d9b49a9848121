"""Each entry into a tool's function is written down in its shop before anything else: the proof of what did not run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from corpora.retail_shop.store import Shops
from fourgates.catalog import ToolContext


def noted(shops: Shops, run: Callable[..., Any]) -> Callable[..., Any]:
    """The same tool, with each entry noted under the call's key."""

    @functools.wraps(run)
    def entered(args: Any, ctx: ToolContext) -> Any:
        shops.of(ctx.principal.tenant).note(ctx.key, run.__name__)
        return run(args, ctx)

    return entered
