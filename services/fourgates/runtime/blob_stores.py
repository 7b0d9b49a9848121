"""Where raw and redacted results lie: in folders of this machine, or in a bucket that several machines share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.blobs import Blobs, LocalBlobStore, s3_blob_store


class BlobSettings(BaseModel):
    """Defaults fit one machine. Executor, sanitizer and audit service need the same ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = ""
    """`s3://bucket` or `s3://bucket/prefix`; empty: the folder `blobs` of the home."""
    endpoint: str = ""
    """Of an S3-compatible store that is not Amazon's, such as https://s3.example."""
    region: str = ""
    access_key_id: str = ""
    """Empty: as the AWS environment or the machine's role says."""
    secret_access_key: SecretStr = SecretStr("")
    quota: int = Field(0, ge=0)
    """Bytes of stored results a tenant may have; beyond, a result is cut and its rest not kept. 0: no bound."""


@dataclass(frozen=True, slots=True)
class BlobStores:
    """The two stores of a pipeline."""

    raw: Blobs
    """Encrypted results on their way to the sanitizer."""
    results: Blobs
    """Redacted results that were too long to be shown whole."""

    async def erase(self, tenant: str, subject: str) -> int:
        """Removes what that subject alone owns in both; see BlobStore. How many blobs were removed."""
        return await self.raw.erase(tenant, subject) + await self.results.erase(tenant, subject)


def blob_stores(settings: BlobSettings, home: Path) -> BlobStores:
    """The stores. Raises ConfigurationError naming the setting."""
    if not settings.url:
        return BlobStores(LocalBlobStore(home / "blobs" / "raw"), LocalBlobStore(home / "blobs" / "results", settings.quota))
    access = {
        "endpoint": settings.endpoint, "region": settings.region, "access_key_id": settings.access_key_id,
        "secret_access_key": settings.secret_access_key.get_secret_value(),
    }  # fmt: skip
    url = settings.url.rstrip("/")
    try:
        return BlobStores(s3_blob_store(f"{url}/raw", access), s3_blob_store(f"{url}/results", access, settings.quota))
    except ConfigurationError as fault:
        raise ConfigurationError(f"FOURGATES_BLOBS__URL: {fault}") from None
