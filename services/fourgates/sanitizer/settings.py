"""What an operator may set for the sanitizer."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from fourgates.contract.topology import HORIZON


class SanitizerSettings(BaseModel):
    """Defaults fit one machine; every value is checked when it is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content_ceiling: int = Field(262_144, gt=0, le=393_216)
    """Bytes of content in one observation whatever a tool's own limit says: the record has to stay below a megabyte."""
    sentence_chars: int = Field(500, gt=0)
    """Characters of a sentence that a tool or a rule declares."""
    field_bytes: int = Field(1_024, gt=0)
    """Bytes of one field that is lifted into the observation."""
    in_thread_bytes: int = Field(65_536, ge=0)
    """Results beyond this are redacted beside the event loop, so that heartbeats go on."""
    whole_bytes: int = Field(8_388_608, ge=0)
    """A streamed result up to here is read whole, JSON as JSON; a larger one is read as text, window by window."""
    keep_hours: float = Field(HORIZON / timedelta(hours=1), gt=0)
    """How long the whole of a cut result is kept and may be paged through."""
