"""`fourgates up` without its processes: addresses, status lines, the shop."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path

import pytest
from rich.console import Console

from fourgates.cli import local
from fourgates.cli.board import Board
from fourgates.cli.settings import read_settings
from fourgates.cli.shop import open_shop
from fourgates.demo.config import DemoConfig
from fourgates.runtime.supervisor import Condition, ProcessSpec, Watched
from support.cli import invoke, refused


def test_without_java_up_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4: one sentence, and nothing was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(invoke("up", "--demo"), "FOURGATES_BOOTSTRAP: not set, and no Kafka can be started here", "`java`")


def test_taken_default_ports_give_way_to_free_ones_and_chosen_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """S4: another program on 8080 does not stop it; what somebody chose is not changed behind their back."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        here = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = read_settings().model_copy(update={"approver": here})
        settings.model_fields_set.discard("approver")
        assert local._addresses(settings)["approver"] != here
        assert "approver" not in local._addresses(read_settings(approver=here))


async def test_status_lines_tell_every_change_and_the_process_that_was_refused(tmp_path: Path) -> None:
    """S4: one line a process, with its last words."""
    out = io.StringIO()
    board = Board(Console(file=out, width=200))
    watched = Watched(ProcessSpec("executor", ("x",)), tmp_path / "executor.log")
    watched.log.write_text("FOURGATES_CATALOG: there is none\n")
    board.changed(watched)
    watched.condition, watched.last_exit = Condition.FAILED, 2
    board.changed(watched)
    assert out.getvalue().splitlines() == ["executor: starting", "executor: failed (exit 2: FOURGATES_CATALOG: there is none)"]
    assert await board.refused() == f"executor was refused (log: {watched.log}): FOURGATES_CATALOG: there is none"


def test_shop_of_a_home_goes_on_where_it_was(tmp_path: Path) -> None:
    """S4: its orders and books belong to the home's log."""
    first = open_shop(tmp_path)
    config = DemoConfig.model_validate_json((tmp_path / "demo" / "demo.json").read_bytes())
    before = config.database.stat().st_ino
    second = open_shop(tmp_path)
    again = DemoConfig.model_validate_json((tmp_path / "demo" / "demo.json").read_bytes())
    assert again.database.stat().st_ino == before
    assert first.settings == second.settings
    assert again.provider_url in second.specs[0].ready_url
    users = json.loads((tmp_path / "demo" / "users.json").read_text())
    assert users["anna"]["agent"] == "support-bot"
