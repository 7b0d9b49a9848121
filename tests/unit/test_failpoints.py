"""Failpoints: armed by a file, taken once by whoever comes first, and never in production."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fourgates.cli.settings import read_settings
from fourgates.cli.world import Base
from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.failpoints import FailingPublisher, FolderFailpoints, Tripped
from support.eventually import eventually
from support.records import codec
from support.stories import Tape, a_waived_write

_CHILD = """
import asyncio, pathlib, sys
from fourgates.runtime.failpoints import FolderFailpoints
asyncio.run(FolderFailpoints(pathlib.Path(sys.argv[1])).hit("executor.ran", "c"))
print("went on", flush=True)
"""


async def test_what_is_not_armed_goes_on(tmp_path: Path) -> None:
    """E5: other points, other calls."""
    (tmp_path / "executor.ran@other").write_text("raise")
    (tmp_path / "executor.attempted@mine").write_text("raise")
    await FolderFailpoints(tmp_path).hit("executor.ran", "mine")


async def test_an_armed_point_counts_once_and_says_so(tmp_path: Path) -> None:
    """E5: for one call, or for whichever comes first."""
    points = FolderFailpoints(tmp_path)
    for armed in ("executor.ran@mine", "executor.ran@"):
        (tmp_path / armed).write_text("raise")
        with pytest.raises(Tripped):
            await points.hit("executor.ran", "mine")
        assert (tmp_path / f"{armed}.hit").exists()
        await points.hit("executor.ran", "mine")


async def test_a_held_process_goes_on_when_the_test_says_so(tmp_path: Path) -> None:
    """E5: held beside everything else that the process does."""
    (tmp_path / "executor.ran@mine").write_text("hold")
    task = asyncio.create_task(FolderFailpoints(tmp_path).hit("executor.ran", "mine"))
    taken = tmp_path / "executor.ran@mine.hit"
    await eventually(taken.exists)
    assert not task.done()
    taken.unlink()
    await asyncio.wait_for(task, 5)


@pytest.mark.parametrize("word", ["kill", "stop"])
async def test_a_process_is_killed_or_stopped_at_the_point(tmp_path: Path, word: str) -> None:
    """E5: not one instruction later."""
    (tmp_path / "executor.ran@").write_text(word)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", _CHILD, str(tmp_path), stdout=subprocess.PIPE)
    try:
        if word == "stop":
            await eventually(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
            child.send_signal(signal.SIGCONT)
        said, _ = await asyncio.wait_for(child.communicate(), 20)
    finally:
        if child.returncode is None:
            child.kill()
    assert (child.returncode, said) == ((-signal.SIGKILL, b"") if word == "kill" else (0, b"went on\n"))


async def test_records_name_their_points(tmp_path: Path) -> None:
    """E5: before it is appended, and after it was acknowledged."""
    tape = Tape()
    life = a_waived_write(tape)
    seen: list[tuple[str, str]] = []

    class Points:
        async def hit(self, name: str, call_id: str = "") -> None:
            seen.append((name, call_id))

    class Broker:
        async def publish(self, record: object, partition: int | None = None) -> object:
            seen.append(("appended", ""))
            return object()

    record = codec().decode("calls.ledger", next(r for r in tape.received if r.position.topic == "calls.ledger").value or b"")
    await FailingPublisher(Broker(), Points(), "executor").publish(record)  # type: ignore[arg-type]
    name = "executor.LedgerEntry.Claimed"
    assert seen == [(f"{name}.before", life.call_id), ("appended", ""), (f"{name}.after", life.call_id)]


def test_production_refuses_them(tmp_path: Path) -> None:
    """E5: whoever can write to the folder can stop the process."""
    base = Base(read_settings(environment="production", failpoints=tmp_path, home=tmp_path))
    with pytest.raises(ConfigurationError, match="FOURGATES_FAILPOINTS"):
        _ = base.failpoints
    assert Base(read_settings(home=tmp_path)).failpoints is None
