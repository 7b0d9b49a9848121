"""How blobs and their owners' marks are named in a place for objects."""

from __future__ import annotations

import hashlib
import re

from fourgates.contract.ports import BlobOwner
from fourgates.runtime.blob_objects import Found

REF = re.compile(r"[0-9a-f]{64}")
OWNERS = ".owners/"
_UNSAFE = re.compile(r"[^a-z0-9]+")


def by_blob(listed: list[Found]) -> dict[str, tuple[Found | None, list[Found]]]:
    """Key of the bytes -> them, and their owners' marks."""
    blobs: dict[str, tuple[Found | None, list[Found]]] = {}
    for found in listed:
        key, owner, _ = found.key.partition(OWNERS)
        blob, marks = blobs.get(key, (None, []))
        blobs[key] = (blob, [*marks, found]) if owner else (found, marks)
    return blobs


def ref_of(data: bytes) -> str:
    """The reference of these bytes."""
    return hashlib.sha256(data).hexdigest()


def folder_of(tenant: str) -> str:
    """The tenant's folder. Raises ValueError without a tenant."""
    if not tenant:
        raise ValueError("a blob belongs to a tenant")
    # The digest makes the name safe and one tenant's own, also where names ignore case; the words are for people.
    words = _UNSAFE.sub("-", tenant.lower())[:32].strip("-")
    return f"{words}-{ref_of(tenant.encode())[:32]}"


def key_of(tenant: str, ref: str) -> str:
    """Where the bytes lie. Raises KeyError for what is no reference."""
    if not REF.fullmatch(ref):
        raise KeyError(ref)
    return f"{folder_of(tenant)}/{ref}"


def _short(name: str) -> str:
    return ref_of(name.encode())[:32]


def marks_of(tenant: str, ref: str) -> str:
    """The folder of its owners' marks."""
    return f"{key_of(tenant, ref)}{OWNERS}"


def mark_of(tenant: str, ref: str, owner: BlobOwner) -> str:
    """That owner's mark."""
    return f"{marks_of(tenant, ref)}{_short(owner.subject)}.{_short(owner.run_id)}"


def of_subject(marks: list[Found], subject: str) -> list[Found]:
    """The marks of that subject, in whichever run."""
    return [mark for mark in marks if f"{OWNERS}{_short(subject)}." in mark.key]
