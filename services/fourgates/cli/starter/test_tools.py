"""The tools through every gate, without a broker: `python -m pytest`."""

import asyncio
from pathlib import Path

from tools import Rooms, make_catalog

from fourgates.testing import Pipeline

GARDEN = '{"room": "Garden", "day": "2030-05-01"}'


def test_unknown_field_is_refused_and_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with Pipeline(make_catalog(tmp_path / "rooms.sqlite")) as gates:
            run = gates.run("anna", ["staff"], agent="assistant")
            answer = await run.call("room_schedule", '{"date": "2030-05-01"}', tool_call_id="1")
            assert answer.code == "invalid_arguments"

    asyncio.run(story())


def test_room_is_booked_once_and_only_after_a_person_said_yes(tmp_path: Path) -> None:
    async def story() -> None:
        rooms = Rooms(tmp_path / "rooms.sqlite")
        async with Pipeline(make_catalog(tmp_path / "rooms.sqlite")) as gates:
            run = gates.run("anna", ["staff"], agent="assistant", intent="Book the Garden for 2030-05-01.")
            asked = await run.call("book_room", GARDEN, tool_call_id="1", wait=1)
            assert asked.code == "approval_pending"
            assert rooms.booked_by("Garden", "2030-05-01") == ""

            [hold] = await gates.holds("ben", ["approvers"])
            assert (await gates.decide(hold["hold_id"], "approve", "ben", ["approvers"])).status_code == 200
            answer = await run.wait(asked.call_id)
            assert answer.ok
            assert rooms.booked_by("Garden", "2030-05-01") == "anna"

            again = await run.call("book_room", GARDEN, tool_call_id="1")
            assert again.to_json() == answer.to_json()

    asyncio.run(story())


def test_room_that_is_taken_is_not_booked(tmp_path: Path) -> None:
    async def story() -> None:
        async with Pipeline(make_catalog(tmp_path / "rooms.sqlite")) as gates:
            for who, code in (("anna", "ok"), ("carl", "rule_violated")):
                run = gates.run(who, ["staff"], agent="assistant")
                answer = await run.call("book_room", GARDEN.replace("Garden", "Library"), tool_call_id="1")
                assert answer.code == code

    asyncio.run(story())
