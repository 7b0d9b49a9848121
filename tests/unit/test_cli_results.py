"""`fourgates results show`: the whole of one's own result, and nobody else's."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fourgates.cli.settings import read_settings
from fourgates.cli.world import Base
from fourgates.contract.ports import BlobOwner
from fourgates.runtime.blob_stores import BlobSettings, blob_stores
from fourgates.runtime.blobs import LocalBlobStore
from support.cli import invoke, refused

TEXT = "\n".join(f"line {n}: é日" for n in range(20_000))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    users = {name: {"tenant": "acme", "groups": ["staff"], "agent": "acme/bot"} for name in ("anna", "ben")}
    (tmp_path / "users.json").write_text(json.dumps(users), encoding="utf-8")
    return {"home": str(tmp_path / "home"), "users_file": str(tmp_path / "users.json")}


@pytest.fixture
def ref(home: dict[str, str]) -> str:
    store = LocalBlobStore(Path(home["home"]) / "blobs" / "results")
    return asyncio.run(store.put("acme", TEXT.encode(), BlobOwner("anna", "run-1")))


def test_the_whole_result_is_printed_or_a_part_of_it(home: dict[str, str], ref: str) -> None:
    """R2"""
    whole = invoke("results", "show", ref, "--as", "anna", settings=home)
    assert (whole.exit_code, whole.stdout) == (0, TEXT)
    assert invoke("results", "show", ref, "--as", "anna", "--run", "run-1", settings=home).stdout == TEXT
    part = invoke("results", "show", ref, "--as", "anna", "--offset", "100", "--bytes", "50", "--json", settings=home)
    told = json.loads(part.stdout)
    assert told["size"] == len(TEXT.encode()) and told["ref"] == ref
    assert TEXT.encode()[100:].decode().startswith(told["text"]) and 100 < told["next_offset"] <= 152


def test_it_is_nobody_elses(home: dict[str, str], ref: str) -> None:
    """R2"""
    for more in (["--as", "ben"], ["--as", "anna", "--run", "run-2"]):
        result = invoke("results", "show", ref, *more, settings=home)
        assert result.exit_code == 1 and not result.stdout and "has no result" in result.stderr
    other = invoke("results", "show", "0" * 64, "--as", "anna", settings=home)
    assert other.exit_code == 1 and "no longer kept" in other.stderr
    refused(invoke("results", "show", ref, "--as", "zoe", settings=home), "zoe", "anna, ben")
    refused(invoke("results", "show", ref, settings=home), "--as USER")
    refused(invoke("results", "show", ref, settings={**home, "token": "nonsense"}), "does not count")


def test_results_lie_where_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOURGATES_BLOBS__URL", "s3://results/prod")
    monkeypatch.setenv("FOURGATES_BLOBS__QUOTA", "5")
    settings = read_settings()
    assert settings.blobs == BlobSettings(url="s3://results/prod", quota=5)
    assert Base(settings).blobs.results is not Base(settings).blobs.raw


async def test_erasing_a_subject_reaches_raw_and_redacted_results(tmp_path: Path) -> None:
    """L8"""
    stores = blob_stores(BlobSettings(), tmp_path)
    own = BlobOwner("anna", "run-1")
    for store in (stores.raw, stores.results):
        await store.put("acme", b"of anna", own)
        await store.put("acme", b"of ben", BlobOwner("ben", "run-1"))
    assert await stores.erase("acme", "anna") == 2
    for store in (stores.raw, stores.results):
        assert len(await store._objects.list("")) == 2
