"""Puts the sanitizer together from its ports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from fourgates.catalog import Catalog
from fourgates.contract.ports import BlobStore, Clock, Log, Publisher
from fourgates.gates.redaction_proof import prove
from fourgates.sanitizer.contents import Contents
from fourgates.sanitizer.first_answers import FirstAnswers
from fourgates.sanitizer.raw_results import RawResults
from fourgates.sanitizer.results import Results
from fourgates.sanitizer.settings import SanitizerSettings
from fourgates.sanitizer.stage import SanitizerStage
from fourgates.sanitizer.upkeep import Upkeep


def build(
    *,
    catalog: Catalog,
    log: Log,
    publisher: Publisher,
    clock: Clock,
    raw_blobs: BlobStore,
    result_blobs: BlobStore,
    result_keys: Mapping[str, bytes],
    placeholder_key: bytes,
    producer: str,
    settings: SanitizerSettings | None = None,
) -> SanitizerStage:
    """The stage. Raises ConfigurationError where the redaction does not prove itself."""
    prove()
    settings = settings or SanitizerSettings()
    results = Results(RawResults(result_keys, raw_blobs), Contents(catalog, result_blobs, placeholder_key, settings))
    upkeep = Upkeep(raw_blobs, result_blobs, clock, timedelta(hours=settings.keep_hours))
    return SanitizerStage(FirstAnswers(log, clock), results, upkeep, publisher, producer)
