"""Raw and redacted results in a real S3 store: streamed in, redacted, paged out, expired and erased."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fourgates.catalog import Streamed
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.events import LedgerKind
from fourgates.contract.ports import BlobOwner
from fourgates.executor.results import ResultBoxes
from fourgates.executor.streams import received
from fourgates.runtime.blob_stores import BlobSettings, BlobStores, blob_stores
from support.s3_server import S3Server, s3_server
from support.sanitizing import RUN, Sanitizing
from support.sealing import keyring
from unit.test_result_stream import TOKEN, _call

K = LedgerKind
OWNER = BlobOwner("anna", RUN)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("versitygw")) as running:
        yield running


@pytest.fixture
def stores(server: S3Server, request: pytest.FixtureRequest, tmp_path: Path) -> BlobStores:
    bucket = server.make_bucket(f"b{abs(hash(request.node.name)) % 10**9}")
    access: dict[str, Any] = server.access
    return blob_stores(BlobSettings(url=f"{bucket}/pipeline/", **access), tmp_path)


@pytest.fixture
async def world(stores: BlobStores) -> Any:
    made: Any = Sanitizing()
    made.raw, made.results = stores.raw, stores.results
    await made.start(whole_bytes=1_000)
    yield made
    await made.crash()


async def test_a_streamed_result_goes_through_the_store(world: Any, stores: BlobStores) -> None:
    """R1, R2, R3"""
    text = "".join(f"line {n} {TOKEN if n % 50 == 0 else 'of words'}\n" for n in range(120_000))
    box = await ResultBoxes(*keyring().result_key(), stores.raw, 1).box(_call("c"), await received(Streamed([text])))
    assert box is not None and (await stores.raw.info("acme", box.blob_ref)).size > len(text)
    await world.say(K.FINISHED, "c", "look", outcome="committed", result=box)
    told = world.last_json()
    ref, size = told["content_ref"]["ref"], told["content_ref"]["size"]
    whole = await stores.results.get("acme", ref)
    assert len(whole) == size and whole.count(b"[redacted:api_key:") == 2_400 and TOKEN.encode() not in whole
    assert await stores.results.read("acme", ref, size - 20, 100) == whole[-20:]
    assert await stores.results.owned("acme", ref, OWNER)
    with pytest.raises(KeyError):
        await stores.raw.info("acme", box.blob_ref)


async def test_what_a_subject_stored_is_erased_from_the_bucket(world: Any, stores: BlobStores) -> None:
    """L8"""
    await world.run_read("x" * 5_000)
    ref = world.last_json()["content_ref"]["ref"]
    await stores.raw.put("acme", b"sealed", OWNER)
    assert await stores.erase("acme", "anna") == 2
    with pytest.raises(KeyError):
        await stores.results.get("acme", ref)
    assert await stores.raw.expire(2**62) == 0 == await stores.results.expire(2**62), "nothing is left in the bucket"


def test_a_wrong_address_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="FOURGATES_BLOBS__URL"):
        blob_stores(BlobSettings(url="https://bucket"), tmp_path)
