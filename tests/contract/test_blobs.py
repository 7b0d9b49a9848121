"""One suite for every blob store."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from fourgates.contract.errors import ConfigurationError, OverQuota, Transient
from fourgates.contract.ports import BlobOwner, BlobStore
from fourgates.runtime.blob_objects import MemoryObjects
from fourgates.runtime.blobs import Blobs, LocalBlobStore, s3_blob_store
from support.s3_server import S3Server, s3_server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


_BUCKETS = itertools.count()
Make: TypeAlias = Callable[..., BlobStore]


@pytest.fixture(params=["local", "memory", "s3"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes the store; called again, a store over the same place as another process would."""
    if request.param == "local":
        return lambda **more: LocalBlobStore(tmp_path / "blobs", **more)
    if request.param == "memory":
        memory = MemoryObjects()
        return lambda **more: Blobs(memory, **more)
    server: S3Server = request.getfixturevalue("s3")
    url = server.make_bucket(f"bucket{next(_BUCKETS)}") + "/some/prefix"
    return lambda **more: s3_blob_store(url, server.access, **more)


@pytest.fixture
def store(make: Make) -> BlobStore:
    return make()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_bytes_come_back_under_their_content_hash(store: BlobStore) -> None:
    """R2"""
    for data in (b"", b"abc", bytes(range(256)) * 5_000):
        ref = await store.put("acme", data)
        assert ref == hashlib.sha256(data).hexdigest()
        assert await store.get("acme", ref) == data
        assert await store.put("acme", data) == ref


async def test_a_tenant_sees_only_its_own(store: BlobStore) -> None:
    """R2"""
    ref = await store.put("acme", b"abc")
    for other in ("Acme", "acme/", "acme-", "..", "acme/../acme", "ACME", "ä"):
        with pytest.raises(KeyError):
            await store.get(other, ref)
        await store.delete(other, ref)
    assert await store.get("acme", ref) == b"abc"


async def test_what_was_deleted_is_gone_and_deleting_again_does_nothing(store: BlobStore) -> None:
    ref = await store.put("acme", b"abc")
    await store.delete("acme", ref)
    await store.delete("acme", ref)
    with pytest.raises(KeyError):
        await store.get("acme", ref)


@pytest.mark.parametrize("ref", ["", "../x", "/etc/passwd", "a" * 63, "A" * 64, "a" * 64 + "/../x", "a\0b"])
async def test_a_reference_cannot_lead_elsewhere(store: BlobStore, ref: str) -> None:
    """E10"""
    with pytest.raises(KeyError):
        await store.get("acme", ref)
    await store.delete("acme", ref)


@pytest.mark.parametrize("tenant", ["../../x", "/", "a" * 500, "x\0y", ".", "ünï"])
async def test_any_tenant_name_is_a_safe_place(store: BlobStore, tenant: str, tmp_path: Path) -> None:
    """E10"""
    ref = await store.put(tenant, b"abc", ANNA)
    assert await store.get(tenant, ref) == b"abc"
    assert {path.relative_to(tmp_path).parts[0] for path in _files(tmp_path)} <= {"blobs"}


async def test_a_blob_without_a_tenant_is_refused(store: BlobStore) -> None:
    with pytest.raises(ValueError, match="tenant"):
        await store.put("", b"abc")


async def test_many_writers_of_the_same_bytes_agree(store: BlobStore) -> None:
    refs = await asyncio.gather(*(store.put("acme", b"same" * 1000) for _ in range(20)))
    assert len(set(refs)) == 1
    assert await store.get("acme", refs[0]) == b"same" * 1000


async def test_the_folder_is_its_owners_and_survives_a_new_process(tmp_path: Path) -> None:
    """R2"""
    ref = await LocalBlobStore(tmp_path / "blobs").put("acme", b"abc")
    assert await LocalBlobStore(tmp_path / "blobs").get("acme", ref) == b"abc"
    (file,) = _files(tmp_path)
    assert file.name == ref and stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_damaged_file_counts_as_missing_and_is_written_anew(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    ref = await store.put("acme", b"abc")
    (file,) = _files(tmp_path)
    file.write_bytes(b"abX")
    with pytest.raises(KeyError):
        await store.get("acme", ref)
    assert await store.put("acme", b"abc") == ref
    assert await store.get("acme", ref) == b"abc"


async def test_a_disk_that_refuses_is_transient(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file where the folder should be")
    with pytest.raises(Transient):
        await LocalBlobStore(tmp_path / "blobs").put("acme", b"abc")


ANNA, BOB = BlobOwner("anna", "run-1"), BlobOwner("bob", "run-2")


async def test_only_an_owner_may_read_in_its_run(store: BlobStore) -> None:
    """R2"""
    ref = await store.put("acme", b"abc", ANNA)
    assert await store.owned("acme", ref, ANNA) and await store.owned("acme", ref, BlobOwner("anna", ""))
    for other in (BOB, BlobOwner("anna", "run-2"), BlobOwner("bob", ""), BlobOwner("ann", ""), BlobOwner("", "run-1")):
        assert not await store.owned("acme", ref, other)
    assert not await store.owned("other", ref, ANNA)
    assert not await store.owned("acme", "../x", ANNA)
    await store.put("acme", b"abc", BOB)
    assert await store.owned("acme", ref, BOB) and await store.owned("acme", ref, ANNA)


async def test_what_a_subject_alone_owns_is_erased_and_nothing_else(store: BlobStore) -> None:
    """L8"""
    own = await store.put("acme", b"anna's", ANNA)
    again = await store.put("acme", b"anna's, another run", BlobOwner("anna", "run-9"))
    shared = await store.put("acme", b"shared", ANNA)
    assert await store.put("acme", b"shared", BOB) == shared
    others = await store.put("acme", b"bob's", BOB)
    elsewhere = await store.put("other", b"anna's", ANNA)
    nobodys = await store.put("acme", b"nobody's")
    assert await store.erase("acme", "anna") == 2
    for ref in (own, again):
        with pytest.raises(KeyError):
            await store.get("acme", ref)
    assert not await store.owned("acme", shared, ANNA) and await store.owned("acme", shared, BOB)
    for tenant, ref in (("acme", shared), ("acme", others), ("other", elsewhere), ("acme", nobodys)):
        assert await store.get(tenant, ref)
    assert await store.erase("acme", "anna") == 0 == await store.erase("nowhere", "anna")


async def test_bytes_are_read_in_pieces(store: BlobStore) -> None:
    """R2"""
    data = bytes(range(256)) * 100
    ref = await store.put("acme", data)
    assert (await store.info("acme", ref)).size == len(data)
    assert await store.read("acme", ref, 0, 10) == data[:10]
    assert await store.read("acme", ref, 20_000, 10_000) == data[20_000:]
    assert await store.read("acme", ref, len(data) + 5, 10) == b""
    with pytest.raises(KeyError):
        await store.read("acme", "0" * 64, 0, 10)
    with pytest.raises(KeyError):
        await store.info("other", ref)


async def test_a_stream_is_stored_as_its_bytes_and_a_broken_one_not_at_all(store: BlobStore) -> None:
    """R2"""

    async def chunks(broken: bool) -> AsyncIterator[bytes]:
        for number in range(40):
            yield bytes([number]) * 50_000
        if broken:
            raise RuntimeError("the tool went away")

    whole = b"".join(bytes([number]) * 50_000 for number in range(40))
    with pytest.raises(RuntimeError):
        await store.put_stream("acme", chunks(True), ANNA)
    with pytest.raises(KeyError):
        await store.get("acme", hashlib.sha256(whole).hexdigest())
    ref = await store.put_stream("acme", chunks(False), ANNA)
    assert await store.get("acme", ref) == whole and ref == hashlib.sha256(whole).hexdigest()
    assert await store.owned("acme", ref, ANNA)


async def test_a_tenant_stores_no_more_than_it_may(make: Make) -> None:
    """R2"""
    store = make(quota=1_000)
    ref = await store.put("acme", b"x" * 900)
    with pytest.raises(OverQuota):
        await store.put("acme", b"y" * 200)
    assert await store.put("acme", b"x" * 900) == ref, "what is there already takes nothing"
    await store.put("other", b"y" * 200)
    with pytest.raises(OverQuota):
        await make(quota=1_000).put("acme", b"y" * 200)  # another process counts what it finds
    await store.put("acme", b"z" * 50)


async def test_what_is_old_expires_with_its_owners(store: BlobStore) -> None:
    """L8"""
    old = await store.put("acme", b"old", ANNA)
    other = await store.put("other", b"old too")
    assert await store.expire((await store.info("acme", old)).stored_ms - 60_000) == 0
    assert await store.expire((await store.info("acme", old)).stored_ms + 60_000) == 2
    for tenant, ref in (("acme", old), ("other", other)):
        with pytest.raises(KeyError):
            await store.get(tenant, ref)
    assert not await store.owned("acme", old, ANNA)
    assert await store.put("acme", b"old", BOB) == old
    assert not await store.owned("acme", old, ANNA), "a new owner brings no old one back"


async def test_deleted_bytes_leave_no_owner_behind(store: BlobStore) -> None:
    ref = await store.put("acme", b"abc", ANNA)
    await store.delete("acme", ref)
    assert not await store.owned("acme", ref, ANNA)


async def test_a_store_that_is_away_is_transient(s3: S3Server) -> None:
    for store in (
        s3_blob_store(s3.make_bucket("away"), s3.access | {"secret_access_key": "another one"}),
        s3_blob_store("s3://no-such-bucket", s3.access),
    ):
        with pytest.raises(Transient, match="blob store"):
            await store.put("acme", b"abc", ANNA)


@pytest.mark.parametrize("url", ["", "http://x/y", "s3://", "bucket"])
def test_an_address_that_is_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="s3://bucket"):
        s3_blob_store(url, {})


async def test_no_name_of_a_subject_lies_in_an_objects_name(tmp_path: Path) -> None:
    """L8"""
    await LocalBlobStore(tmp_path).put("acme", b"abc", BlobOwner("anna@shop.example", "run-1"))
    assert not [path for path in _files(tmp_path) if "anna" in str(path.relative_to(tmp_path))]
