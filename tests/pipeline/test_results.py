"""Results too long to be shown whole: cut, stored redacted, paged through by their own run only; and what never travels back."""

from __future__ import annotations

import json

import pytest

from fourgates.contract.codes import Code
from fourgates.contract.topology import CALLS_COMPLETED, CALLS_LEDGER
from support.worlds import StoryWorld, fresh_order

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_long_result_is_cut_and_read_on_page_by_page(world: StoryWorld) -> None:
    """R1, R2: head, tail, mark, reference and size in the answer; the pages joined are the whole; another run gets nothing."""
    run = world.run()
    cut = await run.call("look", json.dumps({"item": "kettle", "mode": "long"}), tool_call_id="1")
    whole = "\n".join(f"line {n} of kettle" for n in range(20_000))
    assert cut.truncated and cut.content_ref is not None and cut.content_ref.size == len(whole)
    assert cut.content is not None and len(cut.content.encode()) <= 16_384
    assert cut.content.startswith("line 0 of kettle\n") and cut.content.endswith("line 19999 of kettle")
    assert f"stored as {cut.content_ref.ref}" in cut.content
    first = await run.read_result(cut, 0, 4_096)
    text = json.loads(first.content or "")["text"]
    assert first.fields == {"next_offset": len(text), "size": len(whole)}
    assert whole.startswith(text) and text.endswith("of kettle\n") and 4_000 < len(text) <= 4_096
    assert "".join([page async for page in run.result_text(cut)]) == whole
    for other in (world.run(), world.run("ben")):
        refused = await other.read_result(cut)
        assert (refused.code, refused.reason) == (Code.INVALID_ARGUMENTS, "no_such_result")


async def test_a_streamed_result_is_redacted_as_it_goes_by(world: StoryWorld) -> None:
    """R1, R2, R3: twelve megabytes with a thousand secrets; none is in any record or page."""
    run = world.run()
    cut = await run.call("look", json.dumps({"item": "kettle", "mode": "stream"}), tool_call_id="1", wait=60)
    assert cut.ok and cut.truncated and cut.content is not None and cut.content_ref is not None
    assert cut.content.startswith("row 0 of kettle, paid") and "hunter2" not in cut.content
    assert "see [redacted:connection:" in cut.content
    assert cut.content_ref.size > 8_388_608
    page = await run.read_result(cut, cut.content_ref.size // 2)
    assert page.ok and "row 50" in (page.content or "") and "hunter2" not in (page.content or "")
    for topic in (CALLS_LEDGER, CALLS_COMPLETED):
        assert all(b"hunter2" not in (e.raw or b"") for e in await world.records(topic))


async def test_a_placeholder_in_a_writes_arguments_is_refused(world: StoryWorld) -> None:
    """R3: what the model never saw cannot be written; a read may look for it."""
    run = world.run()
    shown = await run.call("look", json.dumps({"item": "db", "mode": "secret"}), tool_call_id="1")
    placeholder = next(word for word in (shown.content or "").split('"') if "[redacted:" in word)
    refused = await run.call("post", json.dumps({"text": f"the database is {placeholder}"}), tool_call_id="2")
    assert (refused.code, refused.reason, refused.field) == (Code.INVALID_ARGUMENTS, "redacted_value", "/text")
    assert (await run.call("look", json.dumps({"item": placeholder}), tool_call_id="3")).ok
    assert (await run.call("pay", json.dumps({"order": fresh_order(), "cents": 5}), tool_call_id="4")).ok
