"""What an operator may set for the sanitizer."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


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
