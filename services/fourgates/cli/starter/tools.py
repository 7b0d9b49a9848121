"""A catalog to begin with: meeting rooms, one tool that reads and one that writes. Replace them by your own.

`fourgates catalog check` says what a contract should say and does not; `test_tools.py` calls the tools through every gate.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Committed, Effect, NotExecuted, Preview, Probed, ProbeVerdict, Rule, ToolContext
from fourgates.contract.parts import Principal

HERE = Path(__file__).parent

Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="the day, as 2030-05-01")]
Room = Annotated[Literal["Garden", "Harbour", "Library"], Field(description="the room's name")]


class RoomSchedule(BaseModel):
    """Strict and closed: a number sent as text, or a field that is not here, is refused before anything runs."""

    model_config = ConfigDict(strict=True, extra="forbid")
    day: Day


class BookRoom(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    room: Room
    day: Day


class Rooms:
    """The bookings, in one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        with closing(sqlite3.connect(self._path)) as db, db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS bookings"
                " (room TEXT, day TEXT, booked_by TEXT, key TEXT UNIQUE, PRIMARY KEY (room, day))"
            )
            yield db

    def booked_by(self, room: str, day: str) -> str:
        """Who has the room on that day; empty where it is free."""
        with self.open() as db:
            row = db.execute("SELECT booked_by FROM bookings WHERE room = ? AND day = ?", (room, day)).fetchone()
        return str(row[0]) if row else ""


def catalog() -> Catalog:
    """What `--catalog tools:catalog` names."""
    return make_catalog(HERE / "rooms.sqlite")


def make_catalog(database: Path) -> Catalog:
    """The tools over that database; tests give each of them its own."""
    rooms = Rooms(database)
    made = Catalog("rooms", policies=(HERE / "policies.cedar").read_text(encoding="utf-8"))

    @made.tool(risk="read", timeout=2)
    def room_schedule(args: RoomSchedule, ctx: ToolContext) -> list[dict[str, str]]:
        """Lists who has booked which room on a day.

        Use it when somebody asks which rooms are free. It changes nothing. Returns a JSON list of the bookings.
        """
        with rooms.open() as db:
            found = db.execute("SELECT room, booked_by FROM bookings WHERE day = ? ORDER BY room", (args.day,))
            return [{"room": room, "booked_by": who} for room, who in found]

    def facts(args: BookRoom, principal: Principal) -> dict[str, Any]:
        """What the rules may know. Read-only: it is asked for again right before the call runs."""
        return {"free": not rooms.booked_by(args.room, args.day)}

    def preview(args: BookRoom, principal: Principal) -> Preview:
        """What a person sees before they decide; it must be the same when the call runs."""
        before = rooms.booked_by(args.room, args.day) or "free"
        return Preview(
            target=f"room {args.room} on {args.day}", before=before, after=f"booked for {principal.subject}", recoverable=True
        )

    def probe(args: BookRoom, ctx: ToolContext) -> Probed:
        """After a lost answer: did the call with this key happen?"""
        with rooms.open() as db:
            done = db.execute("SELECT 1 FROM bookings WHERE key = ?", (ctx.key,)).fetchone()
        return Probed(ProbeVerdict.COMMITTED, _told(args)) if done else Probed(ProbeVerdict.UNKNOWN)

    @made.tool(
        risk="write",
        timeout=5,
        facts=facts,
        facts_types={"free": "bool"},
        rules=(Rule("room_taken", "facts.free == true", "The room is taken on that day.", "/room"),),
        effect=Effect("booking", ("{room}", "{day}")),  # may happen once: a second call for it goes to a person
        preview=preview,
        probe=probe,
        honours_key=True,
    )
    def book_room(args: BookRoom, ctx: ToolContext) -> Committed | NotExecuted:
        """Books a room for a whole day.

        Use it when somebody wants a room. It creates a booking in their name. Returns the booking.
        """
        with rooms.open() as db:  # the key and the effect in one transaction: sending it twice books once
            mine = db.execute("SELECT 1 FROM bookings WHERE key = ?", (ctx.key,)).fetchone()
            if not mine:
                added = db.execute(
                    "INSERT INTO bookings VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    (args.room, args.day, ctx.principal.subject, ctx.key),
                )
                if not added.rowcount:
                    return NotExecuted("room_taken", "Somebody else was faster; the room is taken on that day.")
        return Committed(_told(args), {"booked": f"{args.room} on {args.day}"})

    return made


def _told(args: BookRoom) -> dict[str, str]:
    """The same words whether the first answer came or the probe found the booking."""
    return {"room": args.room, "day": args.day}
