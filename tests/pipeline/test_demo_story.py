"""The demo's story, scene by scene, on the in-process bus."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rich.console import Console

from fourgates.demo.narrator import Silent, Terminal
from fourgates.demo.story import tell
from support.premises import in_process


async def test_every_scene_of_the_story_comes_out_as_it_should(tmp_path: Path) -> None:
    """S1, S4, R6: the same bodies that `make demo` plays among real processes."""
    async with in_process(tmp_path) as (premises, _):
        outcome = await tell(premises, Silent(), None)
    assert outcome.differences == []
    assert (outcome.charges_seen, outcome.charges_expected) == (2, 2)
    assert outcome.outcomes["approval_pending"] == 5
    written = json.loads(json.dumps(outcome.to_json("memory", "in-process")))
    assert written["calls"] == outcome.calls > 15


async def test_scene_that_differs_is_told_and_the_rest_still_plays(tmp_path: Path) -> None:
    """S4: somebody has refunded most of the kettle behind the shop's back."""
    out = io.StringIO()
    async with in_process(tmp_path) as (premises, _):
        charge = (premises.store.order("A-1001", "anna") or {})["charge"]
        await premises.payments.refund("somebody-else", charge, 6000, "late")
        outcome = await tell(premises, Terminal(Console(file=out, width=120)), None)
    titles = [
        "A small refund whose answer is lost",
        "The same call again",
        "The same refund as a new call",
        "The provider's books",
    ]
    assert [said.partition(":")[0] for said in outcome.differences] == titles
    assert "should be {'code': 'ok'}, but is {'code': 'rule_violated'}" in outcome.differences[0]
    assert (outcome.charges_seen, outcome.charges_expected) == (2, 2)
    assert out.getvalue().count("✗") == 4
