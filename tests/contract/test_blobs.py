"""One suite for every blob store."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from pathlib import Path

import pytest

from fourgates.contract.errors import Transient
from fourgates.contract.ports import BlobStore
from fourgates.runtime.blobs import LocalBlobStore, MemoryBlobStore


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return LocalBlobStore(tmp_path / "blobs") if request.param == "local" else MemoryBlobStore()


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
    ref = await store.put(tenant, b"abc")
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
