"""The demo's story, scene by scene, on the in-process bus."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from fourgates.demo.narrator import Silent, Terminal
from fourgates.demo.scenes import Scenes
from fourgates.demo.play import Play
from fourgates.demo.story import tell
from support.premises import in_process


async def test_every_scene_of_the_story_comes_out_as_it_should(tmp_path: Path) -> None:
    """S1, S4"""
    async with in_process(tmp_path) as (premises, _):
        outcome = await tell(premises, Silent(), None)
    assert outcome.differences == []
    assert (outcome.charges_seen, outcome.charges_expected) == (2, 2)
    assert outcome.outcomes["approval_pending"] == 5
    assert json.loads(json.dumps(outcome.to_json("memory", "in-process")))["calls"] == outcome.calls


async def test_scene_that_differs_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    """S4"""
    async with in_process(tmp_path) as (premises, _):
        charge = (premises.store.order("A-1001", "anna") or {})["charge"]
        await premises.payments.refund("somebody-else", charge, 6000, "late")
        console = Console(record=True, width=120, file=open("/dev/null", "w"))
        outcome = await tell(premises, Terminal(console), None)
