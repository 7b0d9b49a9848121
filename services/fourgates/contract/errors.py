"""The two kinds of fault that a stage may raise, and errors of configuration and bounds. A refusal is a value."""

from __future__ import annotations


class Transient(Exception):
    """Something outside is away for now: the record is tried again within its budget, its offset stays uncommitted."""


class Poison(Exception):
    """The record proves nothing (does not decode, wrong partition, no valid seal or grant): dead letter, nobody is answered.

    `reason` is a short stable word (`malformed_avro`, `bad_seal`, `wrong_partition`, ...), `detail` one sentence without payload.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class ConfigurationError(Exception):
    """Refused at start: the sentence names the setting, what is wrong and what is allowed. The CLI prints it and exits 2."""


class OverQuota(Exception):
    """A tenant has stored as much as it may."""
