"""Settings: read in one place, wrong ones named, what runs in a home found by the other commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fourgates.cli.settings import read_settings
from fourgates.cli.standing import hold, standing_settings
from fourgates.contract.errors import ConfigurationError
from support.cli import invoke, refused


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("FOURGATES_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("environment", "staging", "'development' or 'production'"),
        ("replication", "0", "greater than or equal to 1"),
        ("replication", "many", "valid integer"),
        ("start_wait", "-1", "greater than 0"),
        ("log_level", "loud", "'debug', 'info', 'warning' or 'error'"),
        ("approver", "everywhere", "host:port"),
        ("health", "127.0.0.1:99999", "host:port"),
        ("audit_door", "0.0.0.0:8124", "on loopback"),
        ("bootstrap", "kafka", "host:port"),
        ("bootstrap", "127.0.0.1:9092,kafka", "host:port"),
        ("registry_url", "localhost:8081", "no URL"),
        ("stages__executor__drain", "soon", "valid number"),
        ("stages__executor__patience", "5", "not permitted"),
        ("worker__drain", "55", "at least 10 seconds shorter"),
        ("stages", "fast", "JSON"),
    ],
)
def test_wrong_setting_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    """S3: one clear sentence and exit 2."""
    where = f"FOURGATES_{name.upper()}" if name != "worker__drain" else "FOURGATES_WORKER"
    refused(invoke("topics", "create", settings={name: value}), where, allowed)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"catalog": "nowhere:catalog"}, ["FOURGATES_CATALOG", "no module 'nowhere'"]),
        ({"catalog": "nowhere"}, ["FOURGATES_CATALOG", "module:attr"]),
        ({"catalog": "fourgates.demo.shop:catalog"}, ["FOURGATES_CATALOG", "FOURGATES_DEMO_CONFIG is not set"]),
    ],
)
def test_catalog_that_cannot_be_loaded_is_named(settings: dict[str, str], words: list[str]) -> None:
    """S10: what to do stands in the sentence."""
    refused(invoke("catalog", "check", settings=settings), *words)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keys_file": "keys.json"}, ["FOURGATES_KEYS_FILE", "keys.json", "cannot be read"]),
        ({"environment": "production"}, ["FOURGATES_KEYS_FILE", "not set"]),
        ({"bootstrap": "kafka.example:9092"}, ["FOURGATES_BOOTSTRAP", "kafka.example", "loopback"]),
        ({"users_file": "users.json"}, ["FOURGATES_USERS_FILE", "users.json"]),
        ({"catalog": "tools:catalog"}, ["--as", "FOURGATES_USERS_FILE"]),
    ],
)
def test_keys_and_users_that_cannot_be_used_are_named(settings: dict[str, str], words: list[str]) -> None:
    """P1: development keys never meet a network, and elsewhere nothing starts without a key file."""
    refused(invoke("call", "get_order", "{}", "--as", "anna", settings=settings), *words)


def test_environment_goes_before_the_folders_file_and_that_before_what_runs_here(tmp_path: Path) -> None:
    """S10: a folder of `fourgates init` works without further settings."""
    (tmp_path / "fourgates.env").write_text("FOURGATES_CATALOG=tools:catalog\nFOURGATES_APPROVER=127.0.0.1:7001\n")
    with hold(tmp_path / ".fourgates") as standing:
        standing.tell({"bootstrap": "127.0.0.1:7000", "approver": "127.0.0.1:7002", "catalog": "other:catalog"})
        found = read_settings()
        assert (found.bootstrap, found.approver, found.catalog) == ("127.0.0.1:7000", "127.0.0.1:7001", "tools:catalog")
        os.environ["FOURGATES_BOOTSTRAP"] = "127.0.0.1:7003"
        assert read_settings().bootstrap == "127.0.0.1:7003"
        assert read_settings(bootstrap="127.0.0.1:7004").bootstrap == "127.0.0.1:7004"
        del os.environ["FOURGATES_BOOTSTRAP"]


def test_what_ran_here_says_nothing_once_it_has_ended(tmp_path: Path) -> None:
    """S3: also after kill -9, when nobody could clean up."""
    with hold(tmp_path) as standing:
        standing.tell({"bootstrap": "127.0.0.1:7000"})
        left = (tmp_path / "up.json").read_text()
        assert standing_settings(tmp_path) == {"bootstrap": "127.0.0.1:7000"}
    assert standing_settings(tmp_path) == {}
    (tmp_path / "up.json").write_text(left)
    assert standing_settings(tmp_path) == {}


def test_home_belongs_to_one_pipeline_at_a_time(tmp_path: Path) -> None:
    """L2: two audits on one embedded ClickHouse would break it."""
    with hold(tmp_path), pytest.raises(ConfigurationError, match="FOURGATES_HOME"), hold(tmp_path):
        pass
    with hold(tmp_path):
        pass


def test_who_can_decide_is_said_once_for_all_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A1: two stages that differ in it would each be right."""
    monkeypatch.setenv("FOURGATES_STAGES__APPROVER_GROUPS", '["finance"]')
    assert read_settings().stages.approver_groups == frozenset({"finance"})
    monkeypatch.setenv("FOURGATES_STAGES__WAITER__APPROVER_GROUPS", '["others"]')
    with pytest.raises(ConfigurationError, match="STAGES__APPROVER_GROUPS"):
        read_settings()
