"""Policies on disk: what changes counts without a restart, and a set that could not decide changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from fourgates.assembly import load_policies
from fourgates.contract.errors import ConfigurationError
from fourgates.gates.permission import Policies
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.policy_files import PolicyFiles
from support.eventually import eventually
from support.policies import POLICIES, shop

SHOP = shop()
ANY = '@id("all") permit (principal, action, resource);'
TEMPLATE = ANY + '@id("one") forbid (principal == ?principal, action, resource);'


class Disk:
    """The files, and what a process makes of them."""

    def __init__(self, folder: Path, text: str = POLICIES, links: str | None = None) -> None:
        self.policies, self.links = folder / "policies.cedar", folder / "links.json"
        self.policies.write_text(text)
        if links is not None:
            self.links.write_text(links)
        self.metrics = Metrics()
        load: Callable[[str, str], Policies] = lambda text, links: load_policies(SHOP, text, links)  # noqa: E731
        self.files = PolicyFiles(self.policies, self.links if links is not None else None, load, self.metrics)
        self.live = self.files.open()

    def look(self, text: str) -> str:
        """The digest that counts after the file says this."""
        self.policies.write_text(text)
        self.files.look()
        return self.live.current.digest

    def told(self) -> tuple[float, float, float]:
        """(taken, refused, whether what lies there is refused now)."""
        value = self.metrics.registry.get_sample_value
        loads = [value("fourgates_policies_loads_total", {"result": result}) or 0 for result in ("taken", "refused")]
        return loads[0], loads[1], value("fourgates_policies_refused") or 0


def digest(text: str) -> str:
    return Policies.load(text, SHOP).digest


def test_a_good_set_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    """P2: without a restart."""
    disk = Disk(tmp_path)
    assert disk.live.current.digest == digest(POLICIES)
    assert disk.look(ANY) == digest(ANY)
    assert disk.told() == (1, 0, 0)
    disk.files.look()
    assert disk.told() == (1, 0, 0)


@pytest.mark.parametrize(
    "bad",
    ["", "no cedar", ANY + ANY, '@id("x") permit (principal, action == Fourgates::Action::"no_such_tool", resource);',
     "permit (principal, action, resource);", ANY + '@id("y") @approval("a:0") permit (principal, action, resource);'],
)  # fmt: skip
def test_a_bad_set_keeps_the_earlier_one_and_says_so(tmp_path: Path, bad: str) -> None:
    """P2: in the log and in the metrics, once; until a good one lies there."""
    disk = Disk(tmp_path)
    with structlog.testing.capture_logs() as logs:
        assert disk.look(bad) == digest(POLICIES)
        disk.files.look()
    (said,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert "policies.cedar" in said["why"]
    assert disk.told() == (0, 1, 1)
    assert disk.look(ANY) == digest(ANY)
    assert disk.told() == (1, 1, 0)


def test_a_file_that_is_gone_keeps_the_earlier_set(tmp_path: Path) -> None:
    """P2: as while somebody replaces it."""
    disk = Disk(tmp_path)
    disk.policies.unlink()
    disk.files.look()
    assert disk.live.current.digest == digest(POLICIES)
    assert disk.told() == (0, 1, 1)
    assert disk.look(POLICIES) == digest(POLICIES)
    assert disk.told() == (1, 1, 0)


def test_a_set_that_asks_a_group_without_members_is_refused_as_at_the_start(tmp_path: Path) -> None:
    """P2, A1: whatever a process checks of its first set, it checks of every later one."""
    disk = Disk(tmp_path, ANY)

    def nobody(policies: Policies) -> None:
        if policies.groups:
            raise ConfigurationError("nobody can decide")

    disk.live.require(nobody)
    assert disk.look(POLICIES) == digest(ANY)
    assert disk.told() == (0, 1, 1)
    with pytest.raises(ConfigurationError, match="nobody can decide"):
        Policies.load(POLICIES, SHOP).require(nobody)


def test_links_that_change_count_too(tmp_path: Path) -> None:
    """P3"""
    disk = Disk(tmp_path, TEMPLATE, "[]")
    before = disk.live.current.digest
    link = {"template_id": "one", "link_id": "not-ben", "args": {"?principal": 'Fourgates::User::"acme/ben"'}}
    disk.links.write_text(json.dumps([link]))
    disk.files.look()
    assert disk.live.current.digest != before
    disk.links.write_text("{")
    disk.files.look()
    assert disk.told() == (1, 1, 1)


def test_what_cannot_be_read_or_decide_at_the_start_refuses_to_start(tmp_path: Path) -> None:
    """P2: there is no earlier set to keep."""
    for text, says in (("", "empty"), ("no cedar", "parse")):
        with pytest.raises(ConfigurationError, match=rf"policies\.cedar: policies: .*{says}"):
            Disk(tmp_path, text)
    files = PolicyFiles(tmp_path / "gone.cedar", None, lambda text, links: load_policies(SHOP, text, links), Metrics())
    with pytest.raises(ConfigurationError, match=r"gone\.cedar cannot be read"):
        files.open()


async def test_beside_a_stage_it_looks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P2: every two seconds, until the stage ends."""
    monkeypatch.setattr("fourgates.runtime.policy_files.LOOK_EVERY_S", 0.01)
    disk = Disk(tmp_path)
    async with disk.files:
        disk.policies.write_text(ANY)
        await eventually(lambda: disk.live.current.digest == digest(ANY))
    disk.policies.write_text(POLICIES)
    assert disk.live.current.digest == digest(ANY)
