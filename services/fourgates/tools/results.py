"""The model's own way to page through a result that was too long to be shown whole."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, OutputLimit, ToolContext, ToolError, ToolErrorKind
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import BlobOwner, BlobStore
from fourgates.gates.result_page import SPARE, page_of

READ_RESULT = "read_result"
MOST_BYTES = 16_384
_DESCRIPTION = """Reads on in a result that was cut.

Use it when an answer says that bytes or items are missing and its content_ref names the whole; not for anything else.
`ref` is content_ref.ref of that answer, `offset` where to begin in bytes (0 the first time, afterwards next_offset), `size` how
many bytes at most. Changes nothing. Returns {text, next_offset, size}: next_offset is null at the end, size is the whole's."""


class PageAsked(BaseModel):
    """Which page of which result."""

    model_config = ConfigDict(strict=True, extra="forbid")

    ref: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="content_ref.ref of the answer that was cut")]
    offset: Annotated[int, Field(ge=0, le=2**40, description="where to begin, in bytes")] = 0
    size: Annotated[int, Field(ge=256, le=MOST_BYTES, description="how many bytes at most")] = 8_192


class ResultReader:
    """Reads stored results of the run that asks, and of no other. The process that runs tools gives it the store."""

    target = f"{__name__}:ResultReader"

    def __init__(self) -> None:
        self._store: BlobStore | None = None

    def bind(self, store: BlobStore) -> None:
        """Where the results lie."""
        self._store = store

    async def __call__(self, asked: PageAsked, context: ToolContext) -> dict[str, Any]:
        if self._store is None:
            raise ConfigurationError("read_result was given no store")
        tenant, owner = context.principal.tenant, BlobOwner(context.principal.subject, context.run_id)
        if not context.run_id or not await self._store.owned(tenant, asked.ref, owner):
            raise _none_such()
        try:
            whole = (await self._store.info(tenant, asked.ref)).size
            data = await self._store.read(tenant, asked.ref, asked.offset, asked.size + SPARE)
        except KeyError:
            raise _none_such() from None
        page = page_of(data, asked.offset, asked.size, whole)
        return {"text": page.text, "next_offset": page.next_offset, "size": whole}


def add_result_reader(catalog: Catalog) -> None:
    """Adds the tool `read_result` to a catalog. It is a read: whoever may read needs no further policy."""
    catalog.register(
        ResultReader(), name=READ_RESULT, description=_DESCRIPTION, arguments=PageAsked, risk="read", timeout=10,
        output=OutputLimit(bytes=4 * MOST_BYTES), lift=("next_offset", "size"),
    )  # fmt: skip


def bind_results(catalog: Catalog, store: BlobStore) -> None:
    """Gives the store to what reads it. Called by the process that runs the tools."""
    for tool in catalog:
        if isinstance(tool.run, ResultReader):
            tool.run.bind(store)


def _none_such() -> ToolError:
    # "Not yours" and "not there" are the same sentence.
    return ToolError(
        "no_such_result", "This run has no such result, or it is no longer kept.", ToolErrorKind.INVALID, not_executed=True
    )
