"""The observation: all that a model ever gets of a call."""

from __future__ import annotations

import dataclasses as dc
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .canonical import canonical
from .codes import CODES, Code
from .parts import Fault


@dataclass(frozen=True, slots=True)
class ContentRef:
    """Where the whole redacted result lies."""

    ref: str
    size: int
    kind: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Observation:
    """Code, a fixed or declared safe sentence, and content that is always to be treated as untrusted."""

    code: Code
    call_id: str
    reason: str = ""
    field: str = ""
    faults: Sequence[Fault] = ()
    message: str = ""
    content: str | None = None
    fields: Mapping[str, Any] = dc.field(default_factory=dict)
    content_ref: ContentRef | None = None
    truncated: bool = False
    replayed: bool = False

    @property
    def ok(self) -> bool:
        return self.code is Code.OK

    @property
    def final(self) -> bool:
        return CODES[self.code].final

    def to_json(self) -> str:
        """Canonical JSON, so that the same observation is the same bytes."""
        info = CODES[self.code]
        return canonical({
            "ok": self.ok, "final": info.final, "code": self.code.value, "reason": self.reason, "field": self.field,
            "faults": [dc.asdict(fault) for fault in self.faults],
            "message": self.message or info.message, "class": info.code_class.value,
            "retryable": info.retryable, "recoverable": info.recoverable,
            "content": self.content, "fields": dict(self.fields),
            "content_ref": dc.asdict(self.content_ref) if self.content_ref else None,
            "truncated": self.truncated, "trust": "untrusted", "call_id": self.call_id, "replayed": self.replayed,
        }).decode()  # fmt: skip

    @classmethod
    def from_json(cls, text: str) -> Observation:
        """Back from `to_json`; what follows from the code is derived again."""
        d = json.loads(text)
        return cls(
            code=Code(d["code"]), call_id=d["call_id"], reason=d["reason"], field=d["field"],
            faults=tuple(Fault(**fault) for fault in d["faults"]), message=d["message"], content=d["content"],
            fields=d["fields"], content_ref=ContentRef(**d["content_ref"]) if d["content_ref"] else None,
            truncated=d["truncated"], replayed=d["replayed"],
        )  # fmt: skip
