"""The demo's story with every event in the embedded engine: the reports show it, and nothing is there that must not be."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from fourgates.demo.narrator import Terminal
from fourgates.demo.story import tell
from support.auditing import Engine
from support.premises import in_process

pytestmark = pytest.mark.engine


async def test_story_leaves_no_row_that_must_not_be_and_is_explained(engine: Engine, tmp_path: Path) -> None:
    """L4, L5, L6: right after the last scene, with no call left out for being young."""
    out = io.StringIO()
    async with in_process(tmp_path, engine.store) as (premises, _):
        outcome = await tell(premises, Terminal(Console(file=out, width=140)), engine.store.query)
    assert outcome.differences == []
    assert outcome.integrity_rows == 0
    told = out.getvalue()
    assert "success by tool" in told
    assert "refusals by code" in told
    assert "Ben Okoro approved what they were shown" in told
    secret = premises.store.setting("warehouse").partition("exporter:")[2].partition("@")[0]
    assert engine.one("SELECT count() AS n FROM fourgates.events WHERE position(body, {s:String}) > 0", s=secret) in (0, "0")


async def test_audit_that_lacks_a_call_is_a_difference(engine: Engine, tmp_path: Path) -> None:
    """L2: an audit that nobody feeds does not pass for one that found nothing."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fourgates.demo.epilogue._LONGEST_S", 0.5)
        async with in_process(tmp_path) as (premises, _):
            outcome = await tell(premises, Terminal(Console(file=io.StringIO())), engine.store.query)
    assert [said.partition(":")[0] for said in outcome.differences] == ["What the audit says"]
    assert "but has 0" in outcome.differences[0]
